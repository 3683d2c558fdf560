//! Serves `/openapi.json`, the OpenAPI document, and `/docs`, the page that shows it, from the binary alone: Swagger UI under a
//! head of ours.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use utoipa_swagger_ui::Config;

use crate::http::files::{CSS, JAVASCRIPT, answer};
use crate::http::packed::{document, unpacked};
use crate::http::problem::{NOT_FOUND, Problem};

const STYLE: &str = concat!(
    include_str!("../console/assets/tokens.css"),
    include_str!("docs/docs.css")
);
const START: &str = include_str!("docs/docs.js");

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage {
    version: &'static str,
}

pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/docs", get(async || Redirect::to("/docs/")))
        .route("/docs/", get(page))
        .route("/docs/{file}", get(file))
}

pub(crate) async fn answer_document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document())
}

async fn page() -> Result<Response, Problem> {
    let page = DocsPage {
        version: env!("CARGO_PKG_VERSION"),
    };
    let page = page.render();
    let page = page.map_err(|error| Problem::internal(format!("the page of the API: {error}")))?;
    // The page keeps an API key, so no page of another origin may frame it.
    let headers = [(header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'")];
    Ok((headers, Html(page)).into_response())
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let (kind, text) = match name.as_str() {
        "docs.css" => (CSS, STYLE.to_owned()),
        "docs.js" => (JAVASCRIPT, START.to_owned()),
        "swagger-ui.css" => (CSS, packaged(&name)?),
        "swagger-ui-bundle.js" => (JAVASCRIPT, packaged(&name)?),
        _ => return Err(Problem::new(NOT_FOUND, "there is no such file")),
    };
    Ok(answer(&headers, kind, &text))
}

/// A file of Swagger UI.
fn packaged(name: &str) -> Result<String, Problem> {
    let file = utoipa_swagger_ui::serve(name, Arc::new(Config::default()))
        .map_err(|error| Problem::internal(error.to_string()))?
        .ok_or_else(|| Problem::internal(format!("Swagger UI has no {name}")))?;
    let bytes = if file.gzpipped {
        unpacked(&file.bytes).map_err(|error| Problem::internal(error.to_string()))?
    } else {
        file.bytes.into_owned()
    };
    String::from_utf8(bytes).map_err(|error| Problem::internal(error.to_string()))
}
