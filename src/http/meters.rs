//! How many requests there were, and how long they took, by method, route and status. Looking up the metric of a set of
//! labels costs more than a microsecond, so those in use are kept.

use std::time::Duration;

use axum::http::StatusCode;
use metrics::{Counter, Histogram, Label, counter, histogram};
use parking_lot::RwLock;

/// The metrics of requests so far: few, since each route has its own.
#[derive(Debug, Default)]
pub(crate) struct Meters(RwLock<Vec<Meter>>);

/// The metrics of requests with equal labels.
#[derive(Debug)]
struct Meter {
    method: &'static str,
    route: String,
    status: StatusCode,
    requests: Counter,
    seconds: Histogram,
}

impl Meters {
    /// Counts a request and how long it took. Only for known routes and methods: each combination has a metric.
    pub(crate) fn count(
        &self,
        method: &'static str,
        route: &str,
        status: StatusCode,
        elapsed: Duration,
    ) {
        let is_own = |meter: &&Meter| {
            meter.method == method && meter.status == status && meter.route == route
        };
        let known = self.0.read();
        if let Some(meter) = known.iter().find(is_own) {
            meter.count(elapsed);
            return;
        }
        drop(known);
        let meter = Meter::new(method, route, status);
        meter.count(elapsed);
        self.0.write().push(meter);
    }
}

impl Meter {
    fn new(method: &'static str, route: &str, status: StatusCode) -> Self {
        let labels = [
            Label::from_static_parts("method", method),
            Label::new("route", route.to_owned()),
            Label::new("status", status.as_str().to_owned()),
        ];
        Self {
            method,
            route: route.to_owned(),
            status,
            requests: counter!("standings_http_requests_total", labels.iter()),
            seconds: histogram!("standings_http_request_seconds", labels[..2].iter()),
        }
    }

    fn count(&self, elapsed: Duration) {
        self.requests.increment(1);
        self.seconds.record(elapsed.as_secs_f64());
    }
}
