//! Lets pages of the service itself call routes in memory, without a connection.

use std::fmt;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Uri, header};
use axum::response::Response;
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tower::ServiceExt;
use url::form_urlencoded::Serializer;

use super::problem::{Own, Problem, URI_TOO_LONG};
use super::proxies::Arrival;

/// The characters that are percent-encoded in a part of a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The address with these parts of its path, and those parameters that have a value.
pub(crate) fn address(path: &[&str], query: &[(&str, &str)]) -> String {
    let mut address = String::new();
    for part in path {
        address.push('/');
        address.extend(utf8_percent_encode(part, ENCODED));
    }
    let query = query.iter().filter(|(_, value)| !value.is_empty());
    let query = Serializer::new(String::new()).extend_pairs(query).finish();
    if !query.is_empty() {
        address.push('?');
        address.push_str(&query);
    }
    address
}

/// An address as the URI of a request.
///
/// # Errors
///
/// [`URI_TOO_LONG`]: the filled-in values don't fit.
pub(crate) fn uri(address: &str) -> Result<Uri, Problem> {
    let too_long = "the values are too long: the address would have more than 65534 bytes";
    Uri::try_from(address).map_err(|_| Problem::new(URI_TOO_LONG, too_long))
}

/// What a route answers to a request on behalf of this request of a page.
pub(crate) async fn ask(
    table: &Router,
    arrival: &Arrival,
    mut request: Request,
) -> Result<Response, Problem> {
    arrival.carry_over(&mut request);
    let Ok(mut response) = table.clone().oneshot(request).await;
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        // The guard sets this if a key is used too fast.
        let wait_s = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|wait| wait.to_str().ok()?.parse().ok());
        problem.own = problem.own.or(wait_s.map(Own::RetryAfter));
        return Err(problem);
    }
    let status = response.status();
    if !status.is_success() {
        return Err(Problem::of_status(status));
    }
    Ok(response)
}

/// The JSON of an answer; one without a body is null.
pub(crate) async fn parsed<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let body = body.collect().await.map_err(fault)?.to_bytes();
    let json = if body.is_empty() { b"null" } else { &body[..] };
    serde_json::from_slice(json).map_err(fault)
}

/// A bug of this program in such a call.
pub(crate) fn fault(error: impl fmt::Display) -> Problem {
    Problem::internal(format!("page: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_parts_and_values_are_encoded_reversibly() {
        let of = |member: &str| address(&["v1", member], &[("key", ""), ("after", member)]);
        assert_eq!(of("a-1"), "/v1/a-1?after=a-1");
        assert_eq!(of("a/b?c"), "/v1/a%2Fb%3Fc?after=a%2Fb%3Fc");
        assert_eq!(of("'ü"), "/v1/%27%C3%BC?after=%27%C3%BC");
        assert_eq!(address(&["console"], &[]), "/console");
    }
}
