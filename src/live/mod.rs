//! Live boards: streams of Server-Sent Events that tell what a running standing shows, and each change of it.
//!
//! ```text
//! reader ── Watcher ──┐                        ┌─ look: one call per shard and tick (core/read/look.rs)
//! reader ── Watcher ──┼─ Topic ── Hub, a task ─┤
//! reader ── Watcher ──┘  a watch   per board   └─ page: one read when the look tells of a change
//!                        channel
//! ```
//!
//! - The **hub** has a task for each board that is watched. Four times a second it *looks* at the board: it asks each shard how
//!   often it has changed (`Query::Changed`). The task ends with the last watcher. One task per board, so that a shard which
//!   does not answer holds up no other board.
//! - A **topic** is a board, a window, a cohort, a track, a size and an `include`. If a look tells of a change, it reads the
//!   page by the code of the page route, and writes it once. If the page says something else than before, apart from its
//!   revision, the watchers are told; otherwise the new one is kept for those who come later. What no revision tells (profiles,
//!   data, voters, leagues) is read every two seconds. The last message is in a `watch` channel, which holds one value: nothing
//!   piles up behind a slow watcher.
//! - A **watcher** takes the last message when it can. The page is shared by all; the last part is its own `me` and `id`. It
//!   says when another period has begun.
//!
//! What is subtle:
//!
//! - **Members.** An entry that the page has is taken from there. Others are read a hundred in a query and a thousand in a tick
//!   over all topics of a board, in turns; a watcher that names a member gets a message when that member's turn comes.
//! - **Coming back.** The `id` is the key of the period and the edition, so every instance can tell whether the reader has what
//!   there is. Where the edition does not tell all, the `id` has a hash of the content, too; where the member's entry is of a
//!   later edition than the page, it has that.
//! - **Freshness.** A new watcher waits for a look that begins afterwards. So one that begins after a hide was answered never
//!   sees the member; if Redis does not answer, the answer is 503. A stream that is running stays, and says so by comments.
//! - **Access.** A stream outlasts what has let its reader in. So before each message, and with each comment, the watcher asks
//!   again (`Caller::check_still`): whether the key exists with its scope and boards, the token has not expired, the board is
//!   public. If keys can't be confirmed for the moment, the message waits.
//! - An instance that stops ends all streams before it drains, each with a `retry` of its own, so that readers don't come back
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
use axum::extract::State;
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
use crate::http::App;
use crate::http::connection::Endless;
use crate::http::extract::{bounded, member_id};
use crate::http::problem::Problem;
use crate::standings::routes::params::{Named, Read, ReadParams, StandingPath};

/// The entries of a message unless another size is asked for.
const SIZE: u64 = 10;
/// The most entries of a message: it is sent again with each change.
const SIZE_MAX: u64 = 100;
/// Proxies that know this header pass an answer on as it comes.
const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// Who watches what on this instance.
#[derive(Debug)]
pub struct Streams {
    hub: Arc<Hub>,
    permits: Permits,
}

impl Streams {
    /// None yet; there may be so many.
    pub fn new(limits: StreamLimits) -> Self {
        Self {
            hub: Arc::default(),
            permits: Permits::new(limits),
        }
    }
}

/// What a stream tells.
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

/// The header of a reader that comes back.
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
    get, path = "/v1/boards/{board}/standings/{window}/stream", operation_id = "stream",
    params(StandingPath, StreamParams, LastEventId),
    responses(
        (status = 200, description = "The events, in an endless stream", content_type = "text/event-stream", body = String, example = "event: standing\ndata: {\"board\":\"run_hero\",\"window\":\"day\",\"key\":\"2026-11-21\",\"total\":1,\"listed\":1,\"page\":1,\"size\":10,\"entries\":[{\"rank\":1,\"member\":\"999\",\"score\":30,\"previous_rank\":null}],\"me\":null}\nid: 2026-11-21/19883f4a7c12.1.0.l~0.1.2f.4f0c2a9be41d\n\n"),
        (status = 400, description = "`cohort-required`: a league is watched cohort by cohort"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn stream(
    State(app): State<Arc<App>>,
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
