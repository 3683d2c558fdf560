//! The layer around all routes: it gives each request an id, bounds its time, measures and logs it, and writes the
//! body of problems. It is one service, because each layer of a stack would cost a request two allocations.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::{self, Either};
use metrics::counter;
use tower::Service;

use super::meters::Meters;
use super::problem::{
    ANSWER_TIMEOUT, MALFORMED_REQUEST, METHOD_NOT_ALLOWED, Problem, ProblemBody, REVISION_PENDING,
};
use super::unique_headers;
use crate::runtime::timeouts::TimeoutFactor;
use crate::runtime::{supervise, throttle};

/// The longest time that a request may take once its body is there: longer than the store's own limits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The header of a request's id, in and out.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken over from a request, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// The type of a problem's body.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Marks an answer that already shows its problem: a page of the console.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HasBody;

/// The layer around all routes.
#[derive(Clone)]
pub struct Observed<S> {
    inner: S,
    request_timeout: Duration,
    meters: Arc<Meters>,
    methods_of: MethodsOf,
}

/// The methods of a route with this path; none if that is not known.
pub type MethodsOf = fn(&str) -> Vec<String>;

impl<S> Observed<S> {
    /// Wraps this service.
    pub fn new(inner: S, timeouts: TimeoutFactor, methods_of: MethodsOf) -> Self {
        Self {
            inner,
            request_timeout: timeouts.times(REQUEST_TIMEOUT),
            meters: Arc::default(),
            methods_of,
        }
    }
}

impl<S> Service<Request> for Observed<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let seen = Seen::new(&request);
        // The layers below know the request by the same id.
        let id = seen.id.clone();
        request.headers_mut().insert(REQUEST_ID, id);
        let (timeout, meters) = (self.request_timeout, Arc::clone(&self.meters));
        let methods_of = self.methods_of;
        let answer = match unique_headers::check(request.headers()) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(problem) => Either::Right(future::ok(problem.into_response())),
        };
        let answer = within_limits(timeout, answer);
        Box::pin(answer.map(move |answer| Ok(seen.end(answer, &meters, methods_of))))
    }
}

/// Ends a request that takes too long, or whose handler panics. What it has sent to Redis may still be carried out.
// An `async fn` would reserve room for the answer's future several times.
fn within_limits(
    timeout: Duration,
    answer: impl Future<Output = Result<Response, Infallible>>,
) -> impl Future<Output = Response> {
    let caught = AssertUnwindSafe(answer).catch_unwind();
    tokio::time::timeout(timeout, caught).map(|answered| match answered {
        Ok(Ok(Ok(response))) => response,
        Ok(Err(panic)) => {
            let message = supervise::message_of(&*panic);
            Problem::internal(format!("a panic: {message}")).into_response()
        }
        Err(_) => Problem::new(ANSWER_TIMEOUT, ANSWER_TIMEOUT.page.example).into_response(),
    })
}

/// Lists that clients often `POST` to by mistake: what to create with `PUT` instead, and the placeholder for its id.
pub const CREATED: [(&str, &str, &str); 3] = [
    ("/v1/boards", "a board", "{board}"),
    ("/v1/keys", "a key", "{name}"),
    ("/v1/webhooks", "a webhook", "{name}"),
];

/// A request that is being answered.
struct Seen {
    begun: Instant,
    id: HeaderValue,
    method: Method,
    uri: Uri,
    route: Option<MatchedPath>,
}

impl Seen {
    fn new(request: &Request) -> Self {
        Self {
            begun: Instant::now(),
            id: request_id(request),
            method: request.method().clone(),
            uri: request.uri().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
        }
    }

    /// The problem of a method that the address does not support.
    fn unsupported(&self, methods_of: MethodsOf) -> Problem {
        let route = self.route.as_ref().map_or("", MatchedPath::as_str);
        let mut methods = methods_of(route);
        methods.sort();
        let Some((last, others)) = methods.split_last() else {
            return Problem::of_status(StatusCode::METHOD_NOT_ALLOWED);
        };
        let allowed = match others {
            [] => last.clone(),
            others => format!("{} or {last}", others.join(", ")),
        };
        let created = CREATED.iter().find_map(|(list, item, id)| {
            let address = format!("{list}/{id}");
            if route == *list {
                Some(format!(". To create {item}, send PUT {address}"))
            } else {
                (route == address).then(|| format!(". To create {item}, send PUT"))
            }
        });
        let create = created
            .filter(|_| self.method == Method::POST)
            .unwrap_or_default();
        let detail = format!("{} is not allowed here; use {allowed}{create}", self.method);
        Problem::new(METHOD_NOT_ALLOWED, detail)
    }

    fn end(self, mut response: Response, meters: &Meters, methods_of: MethodsOf) -> Response {
        let status = response.status();
        let (mut cause, mut is_fault) = (String::new(), status.is_server_error());
        if status.is_client_error() || status.is_server_error() {
            let problem = response
                .extensions_mut()
                .remove::<Problem>()
                .unwrap_or_else(|| match status {
                    StatusCode::METHOD_NOT_ALLOWED => self.unsupported(methods_of),
                    status => Problem::of_status(status),
                });
            problem.cause().clone_into(&mut cause);
            // The client has named a revision that does not exist yet.
            is_fault &= problem.kind != REVISION_PENDING;
            if response.extensions().get::<HasBody>().is_none() {
                response = with_body(response, &problem.body(self.id.to_str().ok()));
            }
        }
        let elapsed = self.begun.elapsed();
        let route = self.route.as_ref().map_or("unknown", MatchedPath::as_str);
        meters.count(known_method(self.method.as_str()), route, status, elapsed);
        let id = self.id.to_str().unwrap_or_default();
        let ms = thousandths(elapsed);
        let (method, path) = (&self.method, self.uri.path());
        if is_fault {
            let status = status.as_u16();
            throttle::say(&format!("request failed with {status}: {cause}"), |more| {
                tracing::error!(%method, route, path, status, cause, ms, request_id = id, more, "request failed");
            });
        } else {
            tracing::debug!(%method, path, status = status.as_u16(), ms, request_id = id, "request");
        }
        response.headers_mut().insert(REQUEST_ID, self.id);
        response
    }
}

/// Milliseconds, rounded to at most three decimals.
fn thousandths(elapsed: Duration) -> f64 {
    f64::from(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX)) / 1e3
}

/// Methods as labels: unknown methods must not create metrics.
fn known_method(method: &str) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    KNOWN
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}

fn request_id(request: &Request) -> HeaderValue {
    request
        .headers()
        .get(REQUEST_ID)
        .filter(|value| {
            let bytes = value.as_bytes();
            (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len())
                && bytes.iter().all(u8::is_ascii_graphic)
        })
        .cloned()
        .unwrap_or_else(new_request_id)
}

/// Sixteen hexadecimal digits that no other request of any instance is likely to have.
fn new_request_id() -> HeaderValue {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut number = SEED.hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    let digits: [u8; 16] = std::array::from_fn(|_| {
        number = number.rotate_left(4);
        b"0123456789abcdef"[(number & 0xf) as usize]
    });
    HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("0"))
}

/// A complete answer to an invalid head, for which the HTTP library has only a status.
pub(crate) fn refusal(status: StatusCode) -> Vec<u8> {
    let problem = match status {
        StatusCode::BAD_REQUEST => {
            Problem::new(MALFORMED_REQUEST, MALFORMED_REQUEST.page.explanation)
        }
        status => Problem::of_status(status),
    };
    let id = new_request_id();
    let id = id.to_str().unwrap_or_default();
    let status_label = status.as_str().to_owned();
    counter!("standings_http_requests_total", "method" => "other", "route" => "unknown", "status" => status_label)
        .increment(1);
    tracing::debug!(status = status.as_u16(), request_id = id, "no request");
    let json = serde_json::to_vec(&problem.body(Some(id))).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\ncache-control: no-store\r\nx-request-id: {id}\r\nconnection: close\r\n\r\n",
        json.len()
    );
    [head.into_bytes(), json].concat()
}

fn with_body(mut response: Response, body: &ProblemBody) -> Response {
    let json = serde_json::to_vec(body).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(json.len()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.map(|_| Body::from(json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_request_is_logged() {
        let mut response = within_limits(Duration::ZERO, future::pending()).await;
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        let problem: Problem = response.extensions_mut().remove().unwrap();
        assert_eq!(problem.kind, ANSWER_TIMEOUT);
    }
}
