//! What pages are made of beside their text: a stylesheet, a module, an icon.

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::http::files::{CSS, JAVASCRIPT, answer};
use crate::http::problem::{NOT_FOUND, Problem};

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
