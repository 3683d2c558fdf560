//! Serves `/openapi.json`, the OpenAPI document, and `/docs`, the page that shows it, from the binary alone.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use utoipa_swagger_ui::Config;

use crate::http::packed::{document, unpacked};
use crate::http::problem::{NOT_FOUND, Problem};

/// The title of the page in the package, and what the page has instead.
const TITLES: (&str, &str) = (
    "<title>Swagger UI</title>",
    "<title>standings: API</title>\n    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
);

pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/docs", get(async || Redirect::to("/docs/")))
        .route("/docs/", get(async || file("index.html")))
        .route(
            "/docs/{*file}",
            get(async |Path(name): Path<String>| file(&name)),
        )
}

pub(crate) async fn answer_document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document())
}

/// A file of the page. The page keeps the API key in the browser across reloads.
fn file(name: &str) -> Result<Response, Problem> {
    let config = Config::from("../openapi.json").persist_authorization(true);
    let file = utoipa_swagger_ui::serve(name, Arc::new(config))
        .map_err(|error| Problem::internal(error.to_string()))?
        .ok_or_else(|| Problem::new(NOT_FOUND, "there is no such file"))?;
    let mut bytes = file.bytes.into_owned();
    if file.gzpipped {
        bytes = unpacked(&bytes).map_err(|error| Problem::internal(error.to_string()))?;
    }
    if name == "index.html" {
        let page = String::from_utf8_lossy(&bytes);
        bytes = page.replace(TITLES.0, TITLES.1).into_bytes();
    }
    let headers = [
        (header::CONTENT_TYPE, file.content_type.as_str()),
        // The page keeps an API key, so no page of another origin may frame it.
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    ];
    Ok((headers, bytes).into_response())
}
