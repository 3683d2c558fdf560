//! The outermost layer: gives each request an id, measures it, logs it, and writes the body of problems.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, histogram};

use super::problem::Problem;

/// The header of a request's id, in and out.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken over from a request, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// The type of a problem's body.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Observes one request.
pub async fn observe(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(&request);
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;

    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        response = with_problem_body(response, &id);
    }
    response.headers_mut().insert(REQUEST_ID, id.clone());
    let elapsed = begun.elapsed();
    let route = route
        .as_ref()
        .map_or("unknown", MatchedPath::as_str)
        .to_owned();
    let labels = [
        ("method", known_method(method.as_str()).to_owned()),
        ("route", route),
        ("status", status.as_u16().to_string()),
    ];
    counter!("standings_http_requests_total", &labels).increment(1);
    histogram!("standings_http_request_seconds", &labels[..2]).record(elapsed.as_secs_f64());
    let id = id.to_str().unwrap_or_default();
    let ms = elapsed.as_secs_f64() * 1e3;
    if status.is_server_error() {
        tracing::error!(%method, path, status = status.as_u16(), ms, request_id = id, "request failed");
    } else {
        tracing::debug!(%method, path, status = status.as_u16(), ms, request_id = id, "request");
    }
    response
}

/// Methods as labels: what clients make up must not make up metrics.
fn known_method(method: &str) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    KNOWN
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}

fn request_id(request: &Request) -> HeaderValue {
    let sent = request.headers().get(REQUEST_ID).filter(|value| {
        let bytes = value.as_bytes();
        (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    });
    sent.cloned().unwrap_or_else(new_request_id)
}

/// Sixteen hexadecimal digits that no other request of any instance is likely to have.
fn new_request_id() -> HeaderValue {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = SEED.hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    HeaderValue::try_from(format!("{number:016x}")).unwrap_or(HeaderValue::from_static("0"))
}

fn with_problem_body(response: Response, id: &HeaderValue) -> Response {
    let (mut parts, _) = response.into_parts();
    let problem = parts
        .extensions
        .remove::<Problem>()
        .unwrap_or_else(|| Problem::of_status(parts.status));
    let body = problem.body(id.to_str().ok());
    let json = serde_json::to_vec(&body).unwrap_or_default();
    parts
        .headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    parts
        .headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(json.len()));
    parts
        .headers
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Response::from_parts(parts, Body::from(json))
}
