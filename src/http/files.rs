//! Files for pages that are in the program: browsers keep them, and revalidate them each time.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use xxhash_rust::xxh3::xxh3_128;

/// Types of files.
pub(crate) const CSS: &str = "text/css; charset=utf-8";
pub(crate) const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The response with a file of this type, or 304 if the browser has it already.
pub(crate) fn answer(headers: &HeaderMap, kind: &'static str, text: &str) -> Response {
    let etag = format!("\"{:032x}\"", xxh3_128(text.as_bytes()));
    let known = headers.get(header::IF_NONE_MATCH);
    let is_known =
        known.is_some_and(|known| known.to_str().is_ok_and(|known| known.contains(&etag)));
    let about = [
        (header::ETAG, etag.as_str()),
        (header::CACHE_CONTROL, "public, no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(header::CONTENT_TYPE, kind)], text.to_owned()).into_response()
}
