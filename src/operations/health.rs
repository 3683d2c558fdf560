//! `/livez`, `/readyz` and `/metrics`: whether the process is alive, whether it is ready, and its metrics.

use std::time::Instant;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::warnings;
use crate::core::jobs::faults::Fault;
use crate::domain::time::Timestamp;
use crate::http::extract::{JsonResponse, JsonResult, Shared, State};
use crate::http::problem::{INTERNAL, Problem, SHUTTING_DOWN};
use crate::runtime::supervise;

/// The maximum number of faults listed by readiness.
const FAULTS_SHOWN_MAX: usize = 20;

/// The process is alive.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alive {
    /// `ok`.
    status: &'static str,
}

/// The service is ready.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct Ready {
    /// `ok`.
    pub(crate) status: String,
    /// Whether the running standing of every rolling window has been prepared. Until then reads are still correct, but the
    /// first one may wait.
    pub(crate) windows_complete: bool,
    /// What needs attention: for example, Redis refuses writes (reads still work), its configuration risks losing data, or
    /// events wait in queues and no running instance applies them.
    pub(crate) warnings: Vec<String>,
    /// The first 20 faults of this instance's background work. The service works despite them.
    pub(crate) faults: Vec<FaultBody>,
    /// The number of faults.
    pub(crate) fault_count: usize,
}

/// A fault of one board, or of work for all boards. The service retries the job until it succeeds.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Fault)]
pub struct FaultBody {
    /// The board; `*` for work for all boards.
    pub(crate) board: String,
    /// The background job that fails, such as `rollover` or `queues`.
    pub(crate) job: String,
    /// Why.
    pub(crate) error: String,
    /// When it was first seen.
    pub(crate) since: Timestamp,
}

impl From<Fault> for FaultBody {
    fn from(fault: Fault) -> Self {
        Self {
            board: fault.name,
            job: fault.job.name().to_owned(),
            error: fault.error,
            since: fault.since,
        }
    }
}

/// Check whether the process and its background tasks are alive.
#[utoipa::path(
    get, path = "/livez", operation_id = "check_liveness", security(()),
    responses(
        (status = 200, description = "They are alive", body = Alive),
        (status = 500, description = "`internal`: a background task fails again and again; restart the service"),
    )
)]
pub async fn livez() -> JsonResult<Alive> {
    let failing = supervise::failing(Instant::now());
    if failing.is_empty() {
        return Ok(JsonResponse(Alive { status: "ok" }));
    }
    let failing = failing.join(", ");
    let detail = format!("background tasks fail again and again: {failing}");
    Err(Problem::new(INTERNAL, detail))
}

/// Check whether the service is ready.
///
/// It is ready if it isn't shutting down, and Redis answers and has the scripts. It is also ready while Redis refuses
/// writes, because reads still work; `warnings` then says so.
#[utoipa::path(
    get, path = "/readyz", operation_id = "check_readiness", security(()),
    responses(
        (status = 200, description = "The service is ready", body = Ready),
        (status = 503, description = "`store-unavailable`, `shutting-down`"),
    )
)]
pub async fn readyz(State(app): Shared) -> JsonResult<Ready> {
    if app.shutdown.is_cancelled() {
        return Err(Problem::new(SHUTTING_DOWN, SHUTTING_DOWN.page.example));
    }
    let engine = &app.engine;
    let checked = engine.store.check().await;
    checked.map_err(crate::core::Error::from)?;
    let (faults, fault_count) = engine.faults.list(FAULTS_SHOWN_MAX);
    Ok(JsonResponse(Ready {
        status: "ok".to_owned(),
        windows_complete: engine.windows_are_complete(),
        warnings: warnings::current(engine).await,
        faults: faults.into_iter().map(FaultBody::from).collect(),
        fault_count,
    }))
}

/// Read the metrics, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", security(()),
    responses((status = 200, description = "The metrics in the text format of Prometheus", body = String, content_type = "text/plain", example = json!("# TYPE standings_events_total counter\nstandings_events_total{status=\"applied\"} 3\n")))
)]
pub async fn metrics(State(app): Shared) -> Response {
    let text = "text/plain; version=0.0.4; charset=utf-8";
    match &app.metrics {
        Some(metrics) => ([(header::CONTENT_TYPE, text)], metrics.render()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::supervise::restarted;

    #[tokio::test]
    async fn a_process_with_a_repeatedly_failing_task_reports_it() {
        // The tasks belong to the process: other tests may have some, too.
        let is_said =
            async || matches!(livez().await, Err(problem) if problem.detail.contains("of-livez"));
        assert!(!is_said().await);
        let mut runs = 0;
        let task = tokio::spawn(restarted("of-livez", move || {
            runs += 1;
            let run = runs;
            async move {
                assert!(run > 3, "a fault");
                std::future::pending::<()>().await;
            }
        }));
        while !is_said().await {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(!is_said().await);
    }
}
