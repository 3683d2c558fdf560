//! Parses requests, so that every error becomes a problem.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

pub use axum::Json as JsonResponse;
use axum::body::{Body, Bytes};
pub use axum::extract::State;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Uri, header};
use bytes::BytesMut;
use futures::StreamExt;
use futures::future::{Either, ready};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded::{self, Serializer};
use utoipa::IntoParams;

use super::App;
use super::memory::Memory;
use super::problem::{
    INTERNAL, INVALID_PARAMETER, MALFORMED_JSON, PAYLOAD_TOO_LARGE, Problem, REQUEST_TIMEOUT,
    UNSUPPORTED_MEDIA_TYPE, json_text, parse_json,
};
use super::supply::{Taken, Takers};
use crate::core::read::period::Choice;
use crate::domain::access::KeyName;
use crate::domain::document;
use crate::domain::ids::{BoardId, EventId, MemberId, RevocationNumber};
use crate::domain::time::Timestamp;
use crate::domain::webhook::WebhookName;
use crate::runtime::timeouts::within;

/// The state that handlers work with, their first argument.
pub type Shared = State<Arc<App>>;
/// What most handlers return.
pub type JsonResult<T> = Result<JsonResponse<T>, Problem>;

pub const BODY_BYTES_MAX: usize = 1 << 20;
/// How many bytes of a larger body are read before the request is refused.
const BODY_BYTES_READ_MAX: usize = 8 << 20;
/// The longest wait for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes of a JSON body, with checked type and size but not parsed yet; and their memory.
pub struct JsonBytes(pub Bytes, pub Option<Taken>);

impl FromRequest<Arc<App>> for JsonBytes {
    type Rejection = Problem;

    // An `async fn` would keep the head of the request while it reads the body.
    fn from_request(
        request: Request,
        app: &Arc<App>,
    ) -> impl Future<Output = Result<Self, Problem>> + Send {
        let (mut parts, body) = request.into_parts();
        let checked = check_type(&parts.headers);
        match checked.and_then(|()| takers_of(&mut parts.extensions)) {
            Ok(takers) => {
                let memory = (&app.memory, takers);
                Either::Left(Self::read(&parts.headers, (body, BODY_BYTES_MAX), memory))
            }
            Err(problem) => Either::Right(ready(Err(problem))),
        }
    }
}

/// The takers that the memory of a body counts for, as noted by the guard of the route.
fn takers_of(extensions: &mut Extensions) -> Result<Takers, Problem> {
    let takers = extensions.remove::<Takers>();
    takers.ok_or_else(|| Problem::new(INTERNAL, "the route has no guard"))
}

impl JsonBytes {
    /// Reads a body of at most `bytes_max` bytes, of any type, into memory that counts for these takers.
    pub fn read<'a>(
        headers: &HeaderMap,
        (body, bytes_max): (Body, usize),
        memory: (&'a Memory, Takers),
    ) -> impl Future<Output = Result<Self, Problem>> + Send + use<'a> {
        // A client that waits for `100 Continue` need not send the body.
        let asks_first = headers.contains_key(header::EXPECT);
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let most = if asks_first {
            bytes_max
        } else {
            BODY_BYTES_READ_MAX
        };
        let is_too_large = announced.is_some_and(|length| length > most);
        async move {
            if is_too_large {
                return Err(too_large(bytes_max));
            }
            // Most bodies arrive with their heads.
            let read = within(BODY_TIMEOUT, read_body((body, bytes_max), memory)).await;
            read.unwrap_or_else(|| Err(Problem::of_status(REQUEST_TIMEOUT.status)))
        }
    }
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body has more than {bytes_max} bytes");
    Problem::new(PAYLOAD_TOO_LARGE, detail)
}

/// Reads a body. If it is too large, reading goes on for a while: most clients read the answer only once they have sent
/// everything.
async fn read_body(
    (body, bytes_max): (Body, usize),
    (memory, by): (&Memory, Takers),
) -> Result<JsonBytes, Problem> {
    let mut chunks = body.into_data_stream();
    // Most bodies are one chunk, which is not copied.
    let (mut first, mut bytes) = (Bytes::new(), BytesMut::new());
    let mut taken: Option<Taken> = None;
    let mut length = 0;
    while let Some(chunk) = chunks.next().await {
        let early_end = |_| Problem::new(MALFORMED_JSON, "the body ended before it was complete");
        let chunk = chunk.map_err(early_end)?;
        length += chunk.len();
        if length <= bytes_max {
            memory.for_body(&by, &mut taken, length)?;
            if length == chunk.len() {
                first = chunk;
                continue;
            }
            bytes.extend_from_slice(&std::mem::take(&mut first));
            bytes.extend_from_slice(&chunk);
        } else if length > BODY_BYTES_READ_MAX {
            break;
        }
    }
    if length > bytes_max {
        return Err(too_large(bytes_max));
    }
    let bytes = if bytes.is_empty() {
        first
    } else {
        bytes.freeze()
    };
    Ok(JsonBytes(bytes, taken))
}

impl JsonBytes {
    /// Parses the body, which may be borrowed from. Reports the first error only.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        document::read(json_text(&self.0)?).map_err(Problem::from)
    }

    /// Whether the body begins like a list.
    pub fn is_array(&self) -> bool {
        json_text(&self.0).is_ok_and(|text| text.trim_ascii_start().starts_with('['))
    }
}

/// A JSON body, and the memory that its bytes took.
pub struct Json<T>(pub T, pub Option<Taken>);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let bytes = JsonBytes::from_request(request, app).await?;
        Ok(Self(parse_json(&bytes.0)?, bytes.1))
    }
}

/// The types of a body. A merge patch may be sent as JSON too.
const JSON_TYPES: [&str; 2] = ["application/json", "application/merge-patch+json"];

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let wrong = |detail: String| Err(Problem::new(UNSUPPORTED_MEDIA_TYPE, detail));
    let sent = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.map(|value| String::from_utf8_lossy(value.as_bytes()))
    };
    let content_type = sent(header::CONTENT_TYPE);
    let essence = content_type
        .as_deref()
        .and_then(|value| value.split(';').next())
        .unwrap_or("")
        .trim();
    if !JSON_TYPES
        .iter()
        .any(|json| essence.eq_ignore_ascii_case(json))
    {
        let sent = content_type.map_or("missing".to_owned(), |sent| format!("`{sent}`"));
        return wrong(format!(
            "Content-Type is {sent}; send `application/json` (curl: `-H 'Content-Type: application/json'`)"
        ));
    }
    match sent(header::CONTENT_ENCODING) {
        Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => wrong(format!(
            "Content-Encoding is `{encoding}`; send the body uncompressed, without this header"
        )),
        _ => Ok(()),
    }
}

/// The parameters that are lists. Clients send one as `ids=a,b`, and some generated ones as `ids=a&ids=b`.
const LISTS: [&str; 4] = ["ids", "boards", "drop_windows", "include"];

/// The query with each list as one parameter; `None` if it is like that already.
fn with_joined_lists(query: &str) -> Option<Uri> {
    let is_repeated = |name: &&str| query.matches(name).count() > 1;
    if !query.contains('&') || !LISTS.iter().any(is_repeated) {
        return None;
    }
    let (mut lists, mut joined) = (BTreeMap::new(), Serializer::for_suffix("/?".to_owned(), 2));
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if LISTS.contains(&&*name) {
            let list: &mut Vec<_> = lists.entry(name).or_default();
            list.push(value);
        } else {
            joined.append_pair(&name, &value);
        }
    }
    joined.extend_pairs(lists.into_iter().map(|(name, list)| (name, list.join(","))));
    joined.finish().parse().ok()
}

pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let joined = parts.uri.query().and_then(with_joined_lists);
        let uri = joined.as_ref().unwrap_or(&parts.uri);
        if let Ok(query) = serde_urlencoded::from_str(uri.query().unwrap_or("")) {
            return Ok(Self(query));
        }
        parsed(uri).map(Self).map_err(|detail| {
            let missing = detail.strip_prefix("missing field `");
            if let Some(name) = missing.and_then(|rest| rest.strip_suffix('`')) {
                return missing_parameter::<T>(uri, name);
            }
            match detail.split_once(": ") {
                None => invalid("query", in_query(&detail)),
                Some((name, message)) => invalid(&format!("query: {name}"), in_query(message)),
            }
        })
    }
}

/// Parses a query, and notes each parameter, to report which one is wrong.
fn parsed<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    let parsed = axum::extract::Query::try_from_uri(uri);
    parsed
        .map(|axum::extract::Query(query)| query)
        .map_err(|rejection| {
            let text = rejection.body_text();
            text.rsplit_once("string: ")
                .map_or(text.clone(), |(_, detail)| detail.to_owned())
        })
}

/// The problem of a missing parameter. If it has only a few values, the error of an empty one lists them.
fn missing_parameter<T: DeserializeOwned>(uri: &Uri, name: &str) -> Problem {
    let others = uri.query().unwrap_or_default();
    let empty = format!("/?{others}&{name}=").parse().ok();
    let refused = empty.and_then(|uri| parsed::<T>(&uri).err());
    let allowed = refused
        .as_deref()
        .and_then(|detail| detail.split_once("``, expected "));
    let allowed = allowed.map_or_else(String::new, |(_, allowed)| {
        format!(": {}", allowed.replace('`', "").replace("one of ", ""))
    });
    let detail = format!("the parameter \"{name}\" is missing{allowed}");
    Problem::new(INVALID_PARAMETER, detail)
}

/// What is wrong with a parameter, in our own words rather than those of the library that parses it.
pub(crate) fn in_query(message: &str) -> String {
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number of at least 0".to_owned()
        }
        "number too large to fit in target type" => "is too large".to_owned(),
        "provided string was not `true` or `false`" => "must be `true` or `false`".to_owned(),
        other => document::reason(&document::in_json(other)).replace(" field", " parameter"),
    }
}

/// The variable parts of a path, decoded.
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(path)| Self(path))
            .map_err(|rejection| invalid("path", rejection.body_text()))
    }
}

/// The member that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct MemberPath {
    /// The member's id
    #[param(example = "999")]
    pub(crate) member: String,
}

/// The variable part of a path with this name.
pub(crate) async fn part_of_path(parts: &mut Parts, name: &str) -> Result<String, Problem> {
    let Path(mut path) = Path::<HashMap<String, String>>::from_request_parts(parts, &()).await?;
    Ok(path.remove(name).unwrap_or_default())
}

/// Types that a handler takes from the part of its path with this name.
macro_rules! parts_of_paths {
    ($($type:ty: $name:literal;)+) => {$(
        impl<S: Send + Sync> FromRequestParts<S> for $type {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
                let text = part_of_path(parts, $name).await?;
                Self::parse(&text).map_err(|error| invalid($name, error))
            }
        }
    )+};
}

parts_of_paths! {
    BoardId: "board";
    EventId: "event";
    MemberId: "member";
    KeyName: "name";
    WebhookName: "name";
    RevocationNumber: "revocation";
}

/// Why a parameter of the path or of the query can't be used.
pub fn invalid(name: &str, detail: impl Display) -> Problem {
    Problem::invalid_parameter(name, detail)
}

/// The league that a path names.
#[expect(dead_code, reason = "it only describes what `BoardId` reads")]
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub struct LeaguePath {
    /// The board's id
    #[param(example = "run_league", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    board: String,
}

pub fn board_id(text: &str) -> Result<BoardId, Problem> {
    BoardId::parse(text).map_err(|error| invalid("board", error))
}

/// A member of a path or a query.
pub fn member_id(text: &str) -> Result<MemberId, Problem> {
    MemberId::parse(text).map_err(|error| invalid("member", error))
}

/// A number of a query between two bounds.
pub fn bounded(
    name: &str,
    value: Option<u64>,
    default: u64,
    min: u64,
    max: u64,
) -> Result<u64, Problem> {
    let value = value.unwrap_or(default);
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(invalid(
            name,
            format!("must be from {min} to {max}, not {value}"),
        ))
    }
}

/// Checks that the list `items` of a body has from 1 to `max` of them.
pub fn require_count(body: &str, items: &str, count: usize, max: usize) -> Result<(), Problem> {
    if (1..=max).contains(&count) {
        return Ok(());
    }
    let detail = format!("{body} must have 1 to {max} {items}, not {count}");
    Err(Problem::invalid_field(format!("/{items}"), detail))
}

/// How many items of a list a request asks for: its `limit`.
pub fn list_limit(limit: Option<u64>, default: u64, max: u64) -> Result<usize, Problem> {
    let limit = bounded("limit", limit, default, 1, max)?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// The parameters of a list: these, and which part of it is wanted. A part has `default` items unless another number is
/// asked for, and at most `maximum`.
macro_rules! part_params {
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* } limit(default = $default:tt, maximum = $max:tt $(, example = $example:tt)?)) => {
        $(#[$doc])*
        #[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($fields)*
            /// The list begins after this item: the `next` of the previous part. If items are listed by id or name, any id
            /// or name.
            after: Option<String>,
            /// The maximum number of items to return.
            #[param(minimum = 1, maximum = $max, default = $default $(, example = $example)?)]
            limit: Option<u64>,
        }

        impl $name {
            /// The item after which the part begins, and its maximum length.
            pub(crate) fn part<T, E: std::fmt::Display>(
                &self,
                parse: impl FnOnce(&str) -> Result<T, E>,
            ) -> Result<(Option<T>, usize), $crate::http::problem::Problem> {
                let limit = $crate::http::extract::list_limit(self.limit, $default, $max)?;
                let after = self.after.as_deref().map(parse).transpose();
                Ok((after.map_err(|error| $crate::http::extract::invalid("after", error))?, limit))
            }
        }
    };
}
pub(crate) use part_params;

part_params! {
    /// Which part of the list the answer has.
    PartParams {}
    limit(default = 100, maximum = 1000)
}

/// The period that `key` and `at` name.
pub fn choice(key: Option<&str>, at: Option<&str>) -> Result<Choice, Problem> {
    match (key, at) {
        (Some(_), Some(_)) => Err(invalid("key", "can't be combined with `at`")),
        (None | Some("current"), None) => Ok(Choice::Current),
        (Some("previous"), None) => Ok(Choice::Previous),
        (Some(key), None) => Ok(Choice::Key(key.to_owned())),
        (None, Some(at)) => Timestamp::parse(at)
            .map(Choice::At)
            .map_err(|error| invalid("at", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_be_sent_in_parts() {
        let joined = |query| with_joined_lists(query).map(|uri| uri.query().unwrap().to_owned());
        assert_eq!(joined("ids=a,b&key=day"), None);
        assert_eq!(
            joined("member=kids&ids=a").as_deref(),
            Some("member=kids&ids=a")
        );
        assert_eq!(
            joined("ids=a&key=x&ids=b%2Cc").as_deref(),
            Some("key=x&ids=a%2Cb%2Cc")
        );
    }
}
