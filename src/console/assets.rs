//! The files that pages use: a stylesheet, modules, an icon.

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::http::files::{CSS, JAVASCRIPT, answer};
use crate::http::problem::{NOT_FOUND, Problem};

const STYLE: &str = concat!(
    include_str!("assets/tokens.css"),
    include_str!("assets/console.css")
);

/// The name of each file, its type, and its content.
const FILES: [(&str, &str, &str); 5] = [
    ("console.css", CSS, STYLE),
    ("console.js", JAVASCRIPT, include_str!("assets/console.js")),
    ("home.js", JAVASCRIPT, include_str!("assets/home.js")),
    ("live.js", JAVASCRIPT, include_str!("assets/live.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// A file. Browsers keep it, and revalidate it each time: a new release has others.
pub(super) async fn file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let file = FILES.iter().find(|(own, ..)| *own == name);
    let none = || Problem::new(NOT_FOUND, "the console has no such file");
    let (_, kind, text) = file.ok_or_else(none)?;
    Ok(answer(&headers, kind, text))
}
