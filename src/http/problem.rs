//! Errors as clients see them: `application/problem+json` (RFC 9457), and the page behind each type.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::ratelimit;
use crate::domain::board::FieldError;
use crate::domain::event::Rejection;
use crate::domain::time::Timestamp;
use crate::engine::error::UsedUp;
use crate::service::Error;
use crate::store::StoreError;
use crate::throttle;

/// What clients are told to wait after a 503, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// One kind of problem; its name is the end of `type`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Kind {
    /// The name, as in `/problems/{name}`.
    pub name: &'static str,
    /// The same for people.
    pub title: &'static str,
    /// The status that goes with it.
    pub status: StatusCode,
    /// What it means and what to do.
    pub explanation: &'static str,
}

macro_rules! kinds {
    ($($ident:ident = $status:ident, $name:literal, $title:literal, $explanation:literal;)*) => {
        $(
            #[doc = $explanation]
            pub const $ident: Kind = Kind {
                name: $name,
                title: $title,
                status: StatusCode::$status,
                explanation: $explanation,
            };
        )*
        /// All of them.
        pub const KINDS: &[Kind] = &[$($ident),*];
    };
}

kinds! {
    MALFORMED_JSON = BAD_REQUEST, "malformed-json", "Malformed JSON",
        "The body is not JSON, or not UTF-8. Nothing was done.";
    INVALID_PARAMETER = BAD_REQUEST, "invalid-parameter", "Invalid parameter",
        "A part of the path, the query or a header does not make sense; `detail` says which. Nothing was done.";
    MALFORMED_REQUEST = BAD_REQUEST, "malformed-request", "Malformed request",
        "The head of the request is not HTTP. Nothing was done.";
    UNAUTHENTICATED = UNAUTHORIZED, "unauthenticated", "API key needed",
        "Send a valid API key: `Authorization: Bearer <key>`. `detail` says what is wrong with one that was sent.";
    FORBIDDEN = FORBIDDEN, "forbidden", "Not allowed",
        "The API key is valid, but does not allow this: `detail` names the scope that it lacks, or says that it is for other boards. Whether such a board is there makes no difference. Nothing was done.";
    FOREIGN_ORIGIN = FORBIDDEN, "foreign-origin", "Foreign host or origin",
        "The service has no API keys, and so takes writes only from its own machine: the request names a host that is not this machine, or comes from a page of another origin. Nothing was done.";
    BOARD_NOT_FOUND = NOT_FOUND, "board-not-found", "Board not found",
        "There is no board of that name. `PUT /v1/boards/{board}` makes one.";
    KEY_NOT_FOUND = NOT_FOUND, "key-not-found", "API key not found",
        "There is no API key of that name. `PUT /v1/keys/{name}` makes one.";
    KEY_EXISTS = CONFLICT, "key-exists", "API key exists",
        "There is an API key of that name already, and its secret is shown to nobody again. `POST /v1/keys/{name}/rotate` gives it another one. Nothing was done.";
    TOO_MANY_KEYS = CONFLICT, "too-many-keys", "Too many API keys",
        "There are as many API keys as there may be. Delete one that nobody uses: `GET /v1/keys` tells when each was last used. Nothing was done.";
    RATE_LIMITED = TOO_MANY_REQUESTS, "rate-limited", "Too many requests",
        "The API key has sent more requests than its rate allows. Nothing was done: send it again after `Retry-After` seconds.";
    MEMBER_NOT_FOUND = NOT_FOUND, "member-not-found", "Member not found",
        "The member is not in this standing: it had no event in the period.";
    NOT_FOUND = NOT_FOUND, "not-found", "Not found",
        "There is nothing at this address. `/docs` shows what there is.";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed",
        "The address does not take this method; the header `Allow` names those that it takes.";
    REQUEST_TIMEOUT = REQUEST_TIMEOUT, "request-timeout", "Request timeout",
        "The body did not arrive in time. Nothing was done.";
    BOARD_IN_USE = CONFLICT, "board-in-use", "Board in use",
        "The change would alter data that is stored already, or the board is moving to another number of shards. `errors` names the fields that can't change now and says why. Nothing was done.";
    WINDOWS_IN_USE = CONFLICT, "windows-in-use", "Windows in use",
        "The change would delete windows whose standings can't be built again. To delete them for good, name them: `?drop_windows=week,month`. Nothing was done.";
    BOARD_CLOSED = CONFLICT, "board-closed", "Board closed",
        "The event's `at` is before the board's `opens_at`, or not before its `closes_at`. The event was not taken.";
    PRECONDITION_FAILED = PRECONDITION_FAILED, "precondition-failed", "Precondition failed",
        "The board's definition is not the one that `If-Match` or `If-None-Match` demands. Read it again. Nothing was done.";
    PAYLOAD_TOO_LARGE = PAYLOAD_TOO_LARGE, "payload-too-large", "Payload too large",
        "The body has more than 1 MiB. Nothing was done.";
    URI_TOO_LONG = URI_TOO_LONG, "uri-too-long", "Address too long",
        "The address has more than 65,534 bytes. Nothing was done.";
    HEAD_TOO_LARGE = REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", "Head too large",
        "The head of the request has more than 128 KiB or more than 100 headers. Nothing was done.";
    UNSUPPORTED_MEDIA_TYPE = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "Unsupported media type",
        "The body must be `Content-Type: application/json`, without a content encoding. Nothing was done.";
    VALIDATION_FAILED = UNPROCESSABLE_ENTITY, "validation-failed", "Validation failed",
        "The body is JSON, but does not have the expected form; `errors` says where and why. Nothing was done.";
    SCORE_OUT_OF_RANGE = UNPROCESSABLE_ENTITY, "score-out-of-range", "Score out of range",
        "The score has more decimals than the board keeps, or is not within its `score_min` and `score_max`, or the score or a sum with it is beyond what every JSON client holds exactly: ±(2^53 − 1) for whole numbers, 15 digits where the board has decimals. The event was not taken.";
    EVENT_IN_FUTURE = UNPROCESSABLE_ENTITY, "event-in-future", "Event in the future",
        "The event's `at` is more than 60 seconds ahead of the service's clock. The event was not taken.";
    EVENT_TOO_LATE = UNPROCESSABLE_ENTITY, "event-too-late", "Event too late",
        "The event's `at` is older than the board's `accept_late`. The event was not taken.";
    QUOTA_EXCEEDED = TOO_MANY_REQUESTS, "quota-exceeded", "Quota exceeded",
        "A quota of the board has too little left for the event. `quota` names it. `frees_at` says when more will be left, if no other event comes in; it is missing if the quota never frees. The event was not taken, and used up nothing.";
    EVENT_ID_REUSED = UNPROCESSABLE_ENTITY, "event-id-reused", "Event id reused",
        "An event with this id and another content was taken before. This event was not taken.";
    UNKNOWN_WINDOW = NOT_FOUND, "unknown-window", "Unknown window",
        "The board does not have this window; `detail` names the windows that it has. The status is 404 where the path names the window, and 422 where a body or a parameter does.";
    INTERNAL = INTERNAL_SERVER_ERROR, "internal", "Internal error",
        "The service or the stored data has a fault. The log has the cause.";
    STORE_UNAVAILABLE = SERVICE_UNAVAILABLE, "store-unavailable", "Store unavailable",
        "Redis did not answer in time. The event may have been taken: send it again with the same id after `Retry-After` seconds, and it counts once.";
    STORE_FULL = SERVICE_UNAVAILABLE, "store-full", "Store full",
        "Redis refuses to write, because its memory is full or it can't write to its disk; `detail` says which. Reads go on. If the memory is full, boards can be deleted. Send the event again with the same id when there is room, and it counts once.";
    OVERLOADED = SERVICE_UNAVAILABLE, "overloaded", "Overloaded",
        "The service has as many connections as it may have, or requests take as much memory as they may. Nothing was done: send the request again after `Retry-After` seconds.";
}

/// An error on its way to a client. As a response it has no body yet: the layer that knows the request's
/// id writes it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What kind.
    pub kind: Kind,
    /// What exactly.
    pub detail: String,
    /// Where in the body.
    pub errors: Vec<FieldError>,
    /// The quota that is used up.
    pub quota: Option<Box<UsedUp>>,
    /// What the log says of it, where that is not for clients.
    pub cause: Option<Box<Cause>>,
}

/// What went wrong in the service.
#[derive(Clone, Debug)]
pub struct Cause(String);

/// The body of every response with a status from 400 on (RFC 9457).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// What kind of problem: the address of a page that explains it.
    #[serde(rename = "type")]
    #[schema(example = "/problems/score-out-of-range")]
    pub kind: String,
    /// The same for programs: it stays as it is in later releases.
    #[schema(schema_with = codes)]
    pub code: String,
    /// The same for people.
    #[schema(example = "Score out of range")]
    pub title: String,
    /// The HTTP status.
    #[schema(example = 422, minimum = 400, maximum = 599)]
    pub status: u16,
    /// What exactly.
    #[schema(example = "score 12.345 has more digits behind the point (3) than are kept (0)")]
    pub detail: String,
    /// Where in the body, if it lies there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The quota that is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "voter-minute")]
    pub quota: Option<String>,
    /// When that quota frees; not there for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub frees_at: Option<Timestamp>,
    /// The request's id, as in the header `X-Request-Id`; not in the problem of one item of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// All codes.
fn codes() -> Object {
    let codes = KINDS.iter().map(|kind| kind.name);
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(
            "The same for programs: it stays as it is in later releases.",
        ))
        .enum_values(Some(codes))
        .build()
}

impl Problem {
    /// A problem without a place in the body.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            errors: Vec::new(),
            quota: None,
            cause: None,
        }
    }

    /// What is wrong in the body.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [error] if error.pointer.is_empty() => error.detail.clone(),
            [error] => format!("{}: {}", error.pointer, error.detail),
            errors => format!("{} things are wrong; see errors", errors.len()),
        };
        Self {
            errors,
            ..Self::new(VALIDATION_FAILED, detail)
        }
    }

    /// A fault of the service, and what the log says of it.
    pub fn internal(cause: impl Into<String>) -> Self {
        Self::new(INTERNAL, "a fault of the service; its log tells more").because(cause)
    }

    fn because(self, cause: impl Into<String>) -> Self {
        Self {
            cause: Some(Box::new(Cause(cause.into()))),
            ..self
        }
    }

    /// The same where a body or a parameter names the window, not the path.
    #[must_use]
    pub fn beyond_path(mut self) -> Self {
        if self.kind == UNKNOWN_WINDOW {
            self.kind.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        self
    }

    /// What the log says of it.
    pub fn cause(&self) -> &str {
        self.cause.as_ref().map_or(&self.detail, |cause| &cause.0)
    }

    /// The body for one item of a request that is answered as a whole. A fault of the service is logged here, since the
    /// answer doesn't show it.
    pub fn item(&self) -> ProblemBody {
        if self.kind.status.is_server_error() {
            let (status, cause) = (self.kind.status.as_u16(), self.cause());
            throttle::say(&format!("item: {cause}"), |more| {
                tracing::error!(status, cause, more, "an item of a request failed");
            });
        }
        self.body(None)
    }

    /// The body.
    pub fn body(&self, request_id: Option<&str>) -> ProblemBody {
        ProblemBody {
            kind: format!("/problems/{}", self.kind.name),
            code: self.kind.name.to_owned(),
            title: self.kind.title.to_owned(),
            status: self.kind.status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            quota: self.quota.as_ref().map(|quota| quota.name.clone()),
            frees_at: self.quota.as_ref().and_then(|quota| quota.frees_at),
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
        Self::new(kind, kind.explanation)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.kind.status.into_response();
        let headers = response.headers_mut();
        if self.kind.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        if let Some(quota) = &self.quota {
            ratelimit::of_used_up(quota, headers);
        }
        if self.kind == UNAUTHENTICATED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The one place that gives the domain's errors a status.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let kind = match error {
            Error::Invalid(errors) => return Self::invalid(errors),
            Error::BoardInUse(errors) => {
                return Self {
                    errors,
                    ..Self::new(BOARD_IN_USE, detail)
                };
            }
            Error::Score { .. } => {
                let errors = vec![FieldError::new("/score", &detail)];
                return Self {
                    errors,
                    ..Self::new(SCORE_OUT_OF_RANGE, detail)
                };
            }
            Error::QuotaExceeded(quota) => {
                return Self {
                    quota: Some(quota),
                    ..Self::new(QUOTA_EXCEEDED, detail)
                };
            }
            Error::Store(StoreError::Unavailable(_)) => {
                let told = "the store did not answer in time; try again";
                return Self::new(STORE_UNAVAILABLE, told).because(detail);
            }
            // It is in the log as a fault of the board.
            Error::Unreadable { .. } => INTERNAL,
            Error::WindowsInUse(_) => WINDOWS_IN_USE,
            Error::Store(StoreError::Full(_)) => STORE_FULL,
            Error::Store(StoreError::Unusable(_)) => STORE_UNAVAILABLE,
            Error::Store(_) => return Self::internal(detail),
            Error::BoardNotFound(_) => BOARD_NOT_FOUND,
            Error::KeyNotFound(_) => KEY_NOT_FOUND,
            Error::KeyExists(_) => KEY_EXISTS,
            Error::TooManyKeys => TOO_MANY_KEYS,
            Error::MemberNotFound { .. } => MEMBER_NOT_FOUND,
            Error::UnknownWindow { .. } => UNKNOWN_WINDOW,
            Error::InvalidParameter { .. } => INVALID_PARAMETER,
            Error::PreconditionFailed => PRECONDITION_FAILED,
            Error::Rejected { rejection, .. } => match rejection {
                Rejection::InFuture => EVENT_IN_FUTURE,
                Rejection::TooLate => EVENT_TOO_LATE,
                Rejection::Closed => BOARD_CLOSED,
                Rejection::ScoreBounds | Rejection::OutOfRange(_) => SCORE_OUT_OF_RANGE,
                Rejection::IdReused => EVENT_ID_REUSED,
                Rejection::Missing(_) => VALIDATION_FAILED,
                Rejection::Quota { .. } => QUOTA_EXCEEDED,
            },
        };
        Self::new(kind, detail)
    }
}

/// The page behind a problem's `type`.
pub async fn explain(Path(name): Path<String>) -> Result<Response, Problem> {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| Problem::new(NOT_FOUND, "there is no problem of that name"))?;
    let text = format!("{} ({})\n\n{}\n", kind.title, kind.status, kind.explanation);
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}
