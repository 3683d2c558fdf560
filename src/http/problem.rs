//! Problems as clients see them: `application/problem+json` (RFC 9457), and the text about each type. As a response a problem
//! has no body yet: the layer that knows the request's id writes it.

use std::fmt::Write as _;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::ratelimit;
use crate::domain::board::FieldError;
pub use crate::domain::problems::*;
use crate::domain::time::Timestamp;
use crate::runtime::throttle;

/// The `Retry-After` of a 503, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// The body of every response with a status of 400 or above (RFC 9457).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// The kind of problem: the address of a page that explains it.
    #[serde(rename = "type")]
    #[schema(example = "/problems/score-out-of-range")]
    pub kind: String,
    /// The kind for programs; it does not change in later releases.
    #[schema(schema_with = codes)]
    pub code: String,
    /// The kind for people.
    #[schema(example = "Score out of range")]
    pub title: String,
    /// The HTTP status.
    #[schema(example = 422, minimum = 400, maximum = 599)]
    pub status: u16,
    /// What exactly is wrong.
    #[schema(example = "score 12.345 has more decimals (3) than the board keeps (0)")]
    pub detail: String,
    /// The errors in the body, if that is what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The name of the quota that is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "voter-minute")]
    pub quota: Option<String>,
    /// When more of that quota will be available; missing if that is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime)]
    pub frees_at: Option<Timestamp>,
    /// The name under which the reward was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "grant-87")]
    pub claimed_by: Option<String>,
    /// When it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime)]
    pub claimed_at: Option<Timestamp>,
    /// For one item of a batch: after how many seconds to send it again, like the header `Retry-After` of a whole response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false, example = 5)]
    pub retry_after: Option<u64>,
    /// The request's id, as in the header `X-Request-Id`; missing in the problem of one item of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub request_id: Option<String>,
}

fn codes() -> Object {
    let codes = KINDS.iter().map(|kind| kind.name);
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(
            "The kind for programs; it does not change in later releases.",
        ))
        .enum_values(Some(codes))
        .build()
}

impl Problem {
    /// The problem of an unknown window that a body or a parameter names, rather than the path.
    #[must_use]
    pub fn beyond_path(mut self) -> Self {
        if self.kind == UNKNOWN_WINDOW {
            self.kind.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        self
    }

    /// What the log says about it.
    pub fn cause(&self) -> &str {
        self.cause.as_deref().unwrap_or(&self.detail)
    }

    /// The body for one item of a batch. A fault of the service is logged here, since the answer doesn't show it.
    pub fn item(&self) -> ProblemBody {
        if self.kind.status.is_server_error() {
            let (status, cause) = (self.kind.status.as_u16(), self.cause());
            throttle::say(&format!("item: {cause}"), |more| {
                tracing::error!(status, cause, more, "an item of a request failed");
            });
        }
        let retry_after = match self.own {
            Some(Own::RetryAfter(seconds)) => Some(seconds),
            _ => None,
        };
        ProblemBody {
            retry_after,
            ..self.body(None)
        }
    }

    pub fn body(&self, request_id: Option<&str>) -> ProblemBody {
        let (quota, claim) = match &self.own {
            Some(Own::UsedUp(quota)) => (Some(quota), None),
            Some(Own::Claimed(claim)) => (None, Some(&**claim)),
            Some(Own::RetryAfter(_)) | None => (None, None),
        };
        ProblemBody {
            kind: format!("/problems/{}", self.kind.name),
            code: self.kind.name.to_owned(),
            title: self.kind.title.to_owned(),
            status: self.kind.status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            quota: quota.map(|quota| quota.name.clone()),
            frees_at: quota.and_then(|quota| quota.frees_at),
            claimed_by: claim.map(|(by, _)| by.clone()),
            claimed_at: claim.map(|(_, at)| *at),
            retry_after: None,
            request_id: request_id.map(ToOwned::to_owned),
        }
    }

    /// A problem for a response of another layer that has none.
    pub fn of_status(status: StatusCode) -> Self {
        let kind = match status {
            StatusCode::REQUEST_TIMEOUT => REQUEST_TIMEOUT,
            StatusCode::METHOD_NOT_ALLOWED => METHOD_NOT_ALLOWED,
            StatusCode::PAYLOAD_TOO_LARGE => PAYLOAD_TOO_LARGE,
            StatusCode::URI_TOO_LONG => URI_TOO_LONG,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => HEAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => UNSUPPORTED_MEDIA_TYPE,
            StatusCode::SERVICE_UNAVAILABLE => STORE_UNAVAILABLE,
            StatusCode::NOT_FOUND => NOT_FOUND,
            status if status.is_server_error() => INTERNAL,
            _ => INVALID_PARAMETER,
        };
        let Page {
            explanation,
            remedy,
            ..
        } = kind.page;
        Self::new(kind, format!("{explanation} {remedy}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.kind.status.into_response();
        let headers = response.headers_mut();
        if self.kind.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        match &self.own {
            Some(Own::RetryAfter(seconds)) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
            }
            Some(Own::UsedUp(quota)) => ratelimit::of_used_up(quota, headers),
            Some(Own::Claimed(_)) | None => {}
        }
        if self.kind == MALFORMED_REQUEST {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.kind == UNAUTHENTICATED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The list of all problems, as plain text.
pub fn list() -> Response {
    let mut text = String::from(
        "All problems that the service returns. Each has its own page: /problems/{code}.\n",
    );
    for kind in KINDS {
        let Kind { name, title, .. } = kind;
        let _ = write!(text, "\n{:3} {name}: {title}", kind.status.as_u16());
    }
    plain(text + "\n")
}

/// The problem whose `type` ends with this name.
///
/// # Errors
///
/// [`NOT_FOUND`]: there is none.
pub fn named(name: &str) -> Result<&'static Kind, Problem> {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    kind.ok_or_else(|| Problem::new(NOT_FOUND, "there is no problem with this name"))
}

/// What a problem means and what to do about it, as plain text.
pub fn explain(kind: &Kind) -> Response {
    let Kind { title, status, .. } = kind;
    let (explanation, remedy) = (kind.page.explanation, kind.page.remedy);
    let example = kind.example();
    plain(format!(
        "{title} ({status})\n\n{explanation}\n\nWhat to do: {remedy}\n\nAn example:\n\n{example}\n\nAll problems: /problems\n"
    ))
}

fn plain(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

impl Kind {
    /// An example of its body, as indented JSON.
    pub fn example(&self) -> String {
        serde_json::to_string_pretty(&self.example_body()).unwrap_or_default()
    }

    fn example_body(&self) -> ProblemBody {
        let pointer = match self.name {
            "validation-failed" => Some("/windows/0"),
            "score-out-of-range" => Some("/score"),
            "board-in-use" => Some("/timezone"),
            _ => None,
        };
        let detail = self.page.example;
        let detail_there = detail.split_once(": ").map_or(detail, |(_, there)| there);
        let errors = pointer.map(|pointer| FieldError::new(pointer, detail_there));
        let problem = Problem::new(*self, detail).in_fields(errors.into_iter().collect());
        let mut body = problem.body(Some("0f3b1c9a-27"));
        if [ALREADY_CLAIMED, REWARD_REVOKED].contains(self) {
            let is_first = *self == ALREADY_CLAIMED;
            body.claimed_by = Some(if is_first { "grant-87" } else { "grant-88" }.to_owned());
            body.claimed_at = Timestamp::parse("2026-11-23T00:10:02Z").ok();
        }
        if *self == QUOTA_EXCEEDED {
            body.quota = Some("voter-minute".to_owned());
            body.frees_at = Timestamp::parse("2026-11-21T12:01:00Z").ok();
        }
        body
    }
}
