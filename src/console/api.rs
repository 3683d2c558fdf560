//! Calls the routes of `/v1` for a page, as the viewer, without a connection.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::prelude::*;
use crate::http::inner::{ask, fault, parsed, uri};
use crate::http::problem::Kind;

/// The result; `None` if it was refused with a kind of problem that means that there is nothing.
pub(super) fn unless<T>(
    found: Result<T, Problem>,
    says_so: impl FnOnce(Kind) -> bool,
) -> Result<Option<T>, Problem> {
    match found {
        Err(problem) if says_so(problem.kind) => Ok(None),
        found => found.map(Some),
    }
}

/// The result; `None` if the response was 404.
pub(super) fn if_there<T>(found: Result<T, Problem>) -> Result<Option<T>, Problem> {
    unless(found, |kind| kind.status == StatusCode::NOT_FOUND)
}

impl Visitor {
    /// The response to a GET.
    pub(super) async fn read<T: DeserializeOwned>(&self, address: &str) -> Result<T, Problem> {
        self.call(Method::GET, address, None).await
    }

    /// Sends a request with this body. A response without a body is null.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        address: &str,
        body: Option<&Value>,
    ) -> Result<T, Problem> {
        let response = self.respond(method, address, &[], body).await?;
        parsed(response.into_body()).await
    }

    /// Sends a request with this body to a path of `/v1`, and ignores the response.
    pub(super) async fn order(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<(), Problem> {
        let IgnoredAny = self.call(method, &v1(path), body).await?;
        Ok(())
    }

    /// Sends a request with these headers and this body. The response is passed on as a stream: it may be larger than the
    /// service would hold in memory.
    pub(super) async fn respond(
        &self,
        method: Method,
        address: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Option<&Value>,
    ) -> Answer {
        let request = Request::builder().method(method).uri(uri(address)?);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = request.body(body).map_err(fault)?;
        request.headers_mut().extend(headers.iter().cloned());
        if let Some(holder) = self.holder.clone() {
            request.extensions_mut().insert(holder);
        }
        ask(&self.console.table, &self.arrival, request).await
    }

    /// The curl command that reads the same.
    pub(super) fn curl(&self, address: &str) -> String {
        let key = if self.is_anybody() {
            ""
        } else {
            "-H \"Authorization: Bearer $KEY\" "
        };
        let origin = self.origin();
        format!("curl {key}'{origin}{address}'")
    }

    /// The curl command that makes the same change.
    pub(super) fn curl_to(&self, method: &Method, address: &str, body: Option<&Value>) -> String {
        let call = format!("{} -X {method}", self.curl(address));
        let Some(body) = body else { return call };
        let body = body.to_string().replace('\'', r"'\''");
        format!("{call} -H 'Content-Type: application/json' -d '{body}'")
    }
}
