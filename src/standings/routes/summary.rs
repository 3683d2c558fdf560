//! What a frontend needs to know about a board.

use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::read::period::Target;
use crate::domain::board::{Order, Ranking, WINDOWS_MAX};
use crate::domain::ids::BoardId;
use crate::domain::include::Includes;
use crate::domain::state::PeriodState;
use crate::domain::time::{Span, Timestamp, seconds};
use crate::domain::timezone::Zone;
use crate::domain::window::Window;
use crate::http::caching::{Caching, IfNoneMatch};
use crate::http::extract::{Shared, State};
use crate::http::freshness::{self, NoCache};
use crate::http::problem::Problem;
use crate::http::rendered::Rendered;
use crate::http::supply::Takers;
use crate::redis::{Dated, Freshness};
use crate::standings::summary::{self, BoardSummary};

/// A period of a window, how far it has come, and how many members it has.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = PeriodSpan)]
pub struct PeriodBody {
    /// The key of the period; for a rolling window the newest period in it.
    pub key: String,
    /// When the standing begins; null for `all`.
    #[serde(serialize_with = "seconds")]
    pub starts_at: Option<Timestamp>,
    /// When the standing ends; null for `all`.
    #[serde(serialize_with = "seconds")]
    pub ends_at: Option<Timestamp>,
    /// `upcoming` before it begins, `live` until its end, then `closing` if it becomes final by itself and otherwise
    /// `ended`, and `final` once no event can change it any more. Missing if the response is from a replica that can't know
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PeriodState, required = false)]
    pub state: Option<PeriodState>,
    /// How many members the standing has, including those that `keep_top` does not list; null for a whole period of a
    /// league.
    pub total: Option<u64>,
}

/// The running standing of a window.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct WindowSummary {
    /// The window.
    #[schema(value_type = String)]
    pub window: Window,
    /// The running period.
    #[serde(flatten)]
    pub period: PeriodBody,
}

/// What a frontend needs to know about a board.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Summary)]
pub struct SummaryBody {
    /// The board.
    pub board: String,
    /// A name for people; it may be empty.
    pub title: String,
    /// Whether everybody may read the board without a key.
    pub public: bool,
    /// Which end is rank 1.
    pub order: Order,
    /// The maximum number of decimals of scores.
    #[schema(minimum = 0, maximum = 6)]
    pub decimals: u8,
    /// How equal scores are ranked.
    pub ranking: Ranking,
    /// The IANA time zone in which periods begin and end.
    pub timezone: Zone,
    /// Since when the board accepts events; null if there is no beginning.
    pub opens_at: Option<Timestamp>,
    /// Until when the board accepts events; null if there is no end.
    pub closes_at: Option<Timestamp>,
    /// How long the board remembers ids of events. Within this time a retry of an event counts once.
    pub idempotency: Span,
    /// A text that changes with every change of the definition.
    pub version: String,
    /// The board's windows, in the order of the definition.
    pub windows: Vec<WindowSummary>,
}

impl PeriodBody {
    pub fn new(target: &Target, state: Option<PeriodState>, total: impl Into<Option<u64>>) -> Self {
        Self {
            key: target.key.clone(),
            starts_at: target.starts_at,
            ends_at: target.ends_at,
            state,
            total: total.into(),
        }
    }
}

impl From<&BoardSummary> for SummaryBody {
    fn from(summary: &BoardSummary) -> Self {
        let board = &summary.live.board;
        let definition = &board.definition;
        let windows = summary.windows.iter().map(|found| WindowSummary {
            window: found.target.window,
            period: PeriodBody::new(&found.target, found.state, found.found),
        });
        Self {
            board: board.id.to_string(),
            title: definition.title.clone(),
            public: definition.public,
            order: definition.order,
            decimals: definition.decimals.digits(),
            ranking: definition.ranking,
            timezone: definition.timezone,
            opens_at: definition.opens_at,
            closes_at: definition.closes_at,
            idempotency: definition.idempotency,
            version: board.version(),
            windows: windows.collect(),
        }
    }
}

/// Read a summary of a board for frontends.
///
/// It has what you need to display scores and times, and for each window the running period with its number of members. The
/// windows are not one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/summary", operation_id = "get_board_summary",
    params(IfNoneMatch, NoCache),
    responses((status = 200, description = "The summary", body = SummaryBody))
)]
pub async fn get(
    State(app): Shared,
    board: BoardId,
    freshness: Freshness,
    by: Takers,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (app, id, by, headers) = (&*app, &board, &by, &headers);
    let read = async |freshness| {
        let taken = app.memory.for_read(by, WINDOWS_MAX).await?;
        let summary = summary::summarize(&app.engine, id, freshness).await?;
        let caching = Caching::of(app, &summary.live.board, Includes::default());
        Ok(Dated {
            value: Rendered::new(&SummaryBody::from(&summary), taken)?.answer(headers, caching),
            as_of: summary.as_of,
        })
    };
    freshness::answer(app, freshness, read).await
}
