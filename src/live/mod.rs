//! Live boards: streams of Server-Sent Events with the content of a running standing and each change of it.
//!
//! ```text
//! reader ── Watcher ──┐                        ┌─ look: one call per shard and tick (core/read/look.rs)
//! reader ── Watcher ──┼─ Topic ── Hub, a task ─┤
//! reader ── Watcher ──┘  a watch   per board   └─ page: one read when the look shows a change
//!                        channel
//! ```
//!
//! - The **hub** has a task for each board that is watched, until its last watcher leaves. Four times a second it *looks*
//!   at the board: it reads each shard's change counters (`Question::Changed`). With a task per board, a shard that does not
//!   respond delays no other board.
//! - A **topic** is a board, a window, a cohort, a track, a size and an `include`. If a look shows a change, the topic
//!   reads the page with the code of the page route, and serializes it once. If more than the revision differs from the
//!   last page, the watchers are notified; otherwise the new page is only kept for later ones. Content that no revision
//!   covers (profiles, data, voters, leagues) is read every two seconds. The last message is in a `watch` channel, which
//!   holds one value, so nothing piles up for a slow watcher.
//! - A **watcher** takes the last message when it can. The page's bytes are shared; only the last part, with `me` and `id`,
//!   is its own. It also announces a new period.
//!
//! What is subtle:
//!
//! - **Members.** An entry on the page is taken from there. Others are read a hundred per query and a thousand per tick
//!   over all topics of a board, in turns; a watcher that names a member gets its message when that member has been read.
//! - **Reconnecting.** The `id` has the key of the period and the edition, so any instance knows whether the reader is
//!   up to date. Where the edition doesn't cover the whole content, the `id` also has a hash of it; where the member's
//!   entry has a later edition than the page, it has that edition.
//! - **Freshness.** A new watcher waits for a look that begins after it. So a watcher that begins after a hide was
//!   acknowledged never sees the member; if Redis does not respond, it gets 503. A running stream stays open, and sends
//!   comments meanwhile.
//! - **Access.** A stream outlives the check that admitted its reader. So before each message, and with each comment, the
//!   watcher checks again (`Caller::check_still`): the key still exists with its scope and boards, the token has not
//!   expired, the board is public. If keys can't be checked at the moment, the message waits.
//! - An instance that stops ends all streams before it drains, each with a random `retry`, so that readers don't reconnect
//!   all at once.

mod hub;
pub mod message;
mod permits;
mod progress;
pub mod tokens;
mod topic;
mod watcher;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use self::hub::Hub;
use self::permits::Permits;
pub use self::permits::StreamLimits;
use self::topic::TopicName;
use self::watcher::Watcher;
use crate::access::{Caller, Needs};
use crate::domain::access::Scope;
use crate::domain::include::Include;
use crate::domain::series::Track;
use crate::http::connection::Endless;
use crate::http::extract::{Shared, State, bounded, member_id};
use crate::http::problem::Problem;
use crate::standings::routes::params::{Named, Read, ReadParams, StandingPath};

/// The default number of entries in a message.
const SIZE: u64 = 10;
/// The maximum number of entries in a message, which is sent again with each change.
const SIZE_MAX: u64 = 100;
/// Makes proxies that know this header pass on a response without buffering.
const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

#[derive(Debug)]
pub struct Streams {
    hub: Arc<Hub>,
    permits: Permits,
}

impl Streams {
    /// No streams yet, with these limits.
    pub fn new(limits: StreamLimits) -> Self {
        Self {
            hub: Arc::default(),
            permits: Permits::new(limits),
        }
    }
}

/// What a stream shows.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StreamParams {
    /// The maximum number of entries in a message.
    #[param(minimum = 1, maximum = 100, default = 10)]
    size: Option<u64>,
    /// A member whose own entry each message has as `me`.
    #[param(max_length = 128)]
    member: Option<String>,
    /// In a league, the cohort, by its tier and number, such as `silver-17`. Other boards have no cohorts.
    cohort: Option<String>,
    /// `true`: the true count, without weights and initial scores; needs the scope `configure`.
    #[serde(default)]
    #[param(default = false)]
    raw: bool,
    /// Additional fields of entries, separated by commas, as for a page.
    #[param(value_type = Option<Vec<Include>>, required = false, style = Form, explode = false, example = json!(["profile"]))]
    include: Option<String>,
    /// A stream token (`POST /v1/stream-tokens`), instead of an API key.
    #[expect(dead_code, reason = "the gate reads it")]
    token: Option<String>,
}

impl ReadParams for StreamParams {
    fn named(&self) -> Named<'_> {
        Named {
            cohort: self.cohort.as_deref(),
            is_raw: self.raw,
            include: self.include.as_deref(),
            ..Named::default()
        }
    }
}

/// The header of a reader that connects again.
#[expect(dead_code, reason = "it only describes the header")]
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct LastEventId {
    /// The `id` of the last received message: if the standing has not changed since, the stream begins with the next change.
    /// Browsers send it automatically
    #[param(rename = "Last-Event-ID", nullable)]
    last_event_id: Option<String>,
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Watch a standing.
///
/// Server-Sent Events about the running period. `standing` has the page in the format of the page route, with each entry's
/// `previous_rank`: first the current state, and then each change, at most four times a second. Each message is complete in
/// itself. `period` reports that a new period has begun, and `end` why the stream ends. The stream of a cohort ends with its
/// period: the next one has other cohorts, even if they have the same names.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/stream", operation_id = "stream_standing",
    params(StandingPath, StreamParams, LastEventId),
    responses(
        (status = 200, description = "The events, in an endless stream", content_type = "text/event-stream", body = String, example = "event: standing\ndata: {\"board\":\"run_hero\",\"window\":\"day\",\"key\":\"2026-11-21\",\"total\":1,\"listed\":1,\"page\":1,\"size\":10,\"entries\":[{\"rank\":1,\"member\":\"999\",\"score\":30,\"previous_rank\":null}],\"me\":null}\nid: 2026-11-21/19883f4a7c12.1.0.l~0.1.2f.4f0c2a9be41d\n\n"),
        (status = 400, description = "`cohort-required`: a league is watched cohort by cohort"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn stream(
    State(app): Shared,
    Extension(streams): Extension<Arc<Streams>>,
    caller: Caller,
    read: Read<StreamParams>,
) -> Result<Response, Problem> {
    let Read {
        request, params, ..
    } = read;
    caller.require_window(&request.window)?;
    let member = params.member.as_deref().map(member_id).transpose()?;
    let name = TopicName {
        board: request.board,
        window: request.window,
        cohort: params.cohort,
        track: request.track,
        includes: request.includes,
        size: bounded("size", params.size, SIZE, 1, SIZE_MAX)?,
    };
    let needs = Needs {
        scope: match name.track {
            Track::Shown => Scope::Read,
            Track::Raw => Scope::Configure,
        },
        includes: name.includes,
    };
    let permit = streams.permits.take(&read.by)?;
    let (watching, news) = streams.hub.join(&app, &name, member.as_ref()).await?;
    let known = read.headers.get(LAST_EVENT_ID);
    let known = known.and_then(|known| known.to_str().ok());
    let watcher = Watcher::new(&app, (caller, needs), (watching, permit, news), known);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        UNBUFFERED,
    ];
    let mut response = (headers, Body::from_stream(watcher.parts())).into_response();
    response.extensions_mut().insert(Endless);
    Ok(response)
}
