//! Makes the addresses in pages relative, so that a proxy can serve them under a path: `/games/board/console` if it strips
//! `/games/board`.
//!
//! Templates and redirects have addresses from the root of the service. Where the root is follows from the address of the
//! request, as far as the service sees it.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// The attributes with addresses. In a page `"` is always the end or the start of an attribute's value: text has it escaped.
const ATTRIBUTES: [&str; 5] = ["action", "data-stream", "formaction", "href", "src"];

/// Makes the addresses in the response relative if it is a page, and that of a redirect.
pub(crate) async fn relative(request: Request, next: Next) -> Response {
    let root = root_from(request.uri().path());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let leads_to = |location: &HeaderValue| {
        let path = location.to_str().ok()?.strip_prefix('/')?;
        HeaderValue::try_from(format!("{root}{path}")).ok()
    };
    if let Some(location) = headers.get(header::LOCATION).and_then(leads_to) {
        headers.insert(header::LOCATION, location);
    }
    let kind = headers.get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
        return response;
    }
    headers.remove(header::CONTENT_LENGTH);
    let (parts, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(page) => {
            let page = String::from_utf8_lossy(&page);
            Response::from_parts(parts, Body::from(with_root(&page, &root)))
        }
        Err(error) => Problem::internal(format!("a page can't be read: {error}")).into_response(),
    }
}

/// The relative address of the root, seen from a page with this path.
fn root_from(path: &str) -> String {
    match path.matches('/').count() {
        0 | 1 => "./".to_owned(),
        parts => "../".repeat(parts - 1),
    }
}

/// A page whose addresses begin with this instead of `/`.
fn with_root(page: &str, root: &str) -> String {
    let replace = |page: String, attribute: &&str| {
        page.replace(
            &format!(" {attribute}=\"/"),
            &format!(" {attribute}=\"{root}"),
        )
    };
    ATTRIBUTES.iter().fold(page.to_owned(), replace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_the_root_from_any_depth() {
        for (path, root) in [
            ("/", "./"),
            ("/console", "./"),
            ("/console/boards", "../"),
            ("/console/boards/", "../../"),
            ("/embed/votes/day", "../../"),
        ] {
            assert_eq!(root_from(path), root, "{path}");
            let page = with_root("<a href=\"/docs/\" title=\"/\"> = \"/", root);
            assert_eq!(page, format!("<a href=\"{root}docs/\" title=\"/\"> = \"/"));
        }
    }
}
