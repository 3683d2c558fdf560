//! What pages are made of beside their text: a stylesheet, a module, an icon.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use xxhash_rust::xxh3::xxh3_128;

use crate::http::problem::{NOT_FOUND, Problem};

/// Types of files.
pub(in crate::http) const CSS: &str = "text/css; charset=utf-8";
pub(in crate::http) const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
/// The name of a file, its type, and what is in it.
const FILES: [(&str, &str, &str); 3] = [
    ("console.css", CSS, include_str!("assets/console.css")),
    ("live.js", JAVASCRIPT, include_str!("assets/live.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// A file. A browser keeps it, and asks each time whether it is the same still: a new release has others.
pub(super) async fn file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let file = FILES.iter().find(|(own, ..)| *own == name);
    let none = || Problem::new(NOT_FOUND, "the console has no such file");
    let (_, kind, text) = file.ok_or_else(none)?;
    Ok(answer(&headers, kind, text))
}

/// A file of this type, or that a browser has it already.
pub(in crate::http) fn answer(headers: &HeaderMap, kind: &'static str, text: &str) -> Response {
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
