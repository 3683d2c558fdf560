//! Messages: the events of a stream as bytes.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;
use xxhash_rust::xxh3::xxh3_128;

use crate::domain::board::Board;
use crate::http::problem::{INTERNAL, Problem};
use crate::http::rendered::content_of;
use crate::standings::routes::answers::{EntryBody, PageBody};

/// A comment, which keeps the connection alive.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The end of a page's body without a member; the member's entry replaces the null.
const NO_MEMBER: &[u8] = b"null}";

/// A message about a standing. Messages about the same page share its bytes.
#[derive(Debug)]
pub(super) struct StreamMessage {
    pub(super) key: Arc<str>,
    /// Identifies its content.
    pub(super) id: String,
    pub(super) parts: [Bytes; 2],
    /// The board at that time.
    pub(super) board: Arc<Board>,
}

/// A serialized page.
#[derive(Debug)]
pub(super) struct WrittenPage {
    key: Arc<str>,
    id: String,
    /// Everything before the member's entry.
    head: Bytes,
    board: Arc<Board>,
}

impl WrittenPage {
    pub(super) fn new(page: &PageBody, id: String, board: &Arc<Board>) -> Result<Self, Problem> {
        let json = to_json(page)?;
        let head = json
            .strip_suffix(NO_MEMBER)
            .ok_or_else(|| Problem::internal("the page does not end with `me`"))?;
        Ok(Self {
            key: page.standing.key.as_str().into(),
            id,
            head: [b"event: standing\ndata: ", head].concat().into(),
            board: Arc::clone(board),
        })
    }

    /// The message for watchers that name no member.
    pub(super) fn without_member(&self) -> StreamMessage {
        self.message(b"null", self.id.clone())
    }

    /// The message for watchers of a member. `edition`: that of the entry, if it differs from that of the page. `content`:
    /// a hash of the entry, where editions don't identify it.
    pub(super) fn with_member(
        &self,
        me: Option<&EntryBody>,
        edition: Option<String>,
        content: Option<u128>,
    ) -> Result<StreamMessage, Problem> {
        let content = content.map(|content| format!("{content:x}"));
        let id = [Some(self.id.clone()), edition, content]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("+");
        Ok(self.message(&to_json(&me)?, id))
    }

    fn message(&self, me: &[u8], id: String) -> StreamMessage {
        let tail = [me, b"}\nid: ", id.as_bytes(), b"\n\n"].concat();
        StreamMessage {
            key: Arc::clone(&self.key),
            id,
            parts: [self.head.clone(), tail.into()],
            board: Arc::clone(&self.board),
        }
    }
}

/// A hash of a page without its revision.
pub(super) fn content_of_page(page: &PageBody) -> Result<u128, Problem> {
    Ok(content_of(&to_json(page)?))
}

/// A hash of a member's entry.
pub(super) fn content_of_member(me: Option<&EntryBody>) -> Result<u128, Problem> {
    Ok(xxh3_128(&to_json(&me)?))
}

fn to_json<T: Serialize>(value: &T) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| Problem::new(INTERNAL, error.to_string()))
}

/// Sets how long browsers wait before they reconnect.
pub(super) fn retry(ms: u32) -> Bytes {
    format!("retry: {ms}\n\n").into()
}

/// The data of an event `period` of a stream: a period has ended and the next has begun, which the next message shows.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StreamPeriod)]
pub struct PeriodBody<'a> {
    /// The key of the period that has ended.
    ended: &'a str,
    /// The key of the one that has begun.
    begun: &'a str,
}

/// The data of an event `end` of a stream. Nothing follows it, and connecting again would fail.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StreamEnd)]
pub struct EndBody<'a> {
    /// The `code` of the problem that a new connection would get.
    reason: &'a str,
    /// An explanation for developers.
    detail: &'a str,
}

/// Announces that a period has ended and the next has begun.
pub(super) fn period(ended: &str, begun: &str) -> Bytes {
    event("period", &PeriodBody { ended, begun })
}

/// Announces why the stream ends.
pub(crate) fn end(problem: &Problem) -> Bytes {
    let (reason, detail) = (problem.kind.name, &problem.detail);
    event("end", &EndBody { reason, detail })
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("invariant: texts are JSON");
    format!("event: {name}\ndata: {data}\n\n").into()
}
