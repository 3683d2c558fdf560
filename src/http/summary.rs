//! What a frontend needs to know of a board.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::caching::Caching;
use super::extract::{Path, board_id};
use super::freshness;
use super::problem::{Problem, ProblemBody};
use super::rendered::Rendered;
use crate::domain::board::{Order, Ranking, WINDOWS_MAX, Zone};
use crate::domain::include::Includes;
use crate::domain::state::PeriodState;
use crate::domain::time::{Span, Timestamp};
use crate::domain::window::Window;
use crate::service::summary::Summary;
use crate::store::{Dated, Freshness};

/// The running standing of a window.
#[derive(Debug, Serialize, ToSchema)]
pub struct WindowSummary {
    /// The window.
    #[schema(value_type = String, example = "day")]
    pub window: Window,
    /// The key of the running period.
    #[schema(example = "2026-11-21")]
    pub key: String,
    /// When the standing begins; null for `all`.
    #[schema(required = true, format = DateTime, example = "2026-11-20T16:00:00Z")]
    pub starts_at: Option<String>,
    /// When the standing ends; null for `all`.
    #[schema(required = true, format = DateTime, example = "2026-11-21T16:00:00Z")]
    pub ends_at: Option<String>,
    /// `live` before its end, then `closing`, and `final` once no event counts for it any more. Missing where a replica
    /// answers that can't know.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PeriodState, required = false)]
    pub state: Option<PeriodState>,
    /// How many members the standing has.
    #[schema(example = 1234)]
    pub total: u64,
}

/// What a frontend needs to know of a board.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Summary)]
pub struct SummaryBody {
    /// The board.
    #[schema(example = "run_hero")]
    pub board: String,
    /// A name for people; it may be empty.
    #[schema(example = "Run heroes")]
    pub title: String,
    /// Which end is rank 1.
    pub order: Order,
    /// How many digits behind the point scores have at the most.
    #[schema(minimum = 0, maximum = 6, example = 0)]
    pub decimals: u8,
    /// How ranks count at equal scores.
    pub ranking: Ranking,
    /// The IANA time zone in which periods begin and end.
    #[schema(value_type = String, example = "Asia/Shanghai")]
    pub timezone: Zone,
    /// From when on the board takes events; null if it always did.
    #[schema(value_type = Option<String>, required = true, format = DateTime)]
    pub opens_at: Option<Timestamp>,
    /// Until when the board takes events; null if it always will.
    #[schema(value_type = Option<String>, required = true, format = DateTime)]
    pub closes_at: Option<Timestamp>,
    /// For how long the board remembers the ids of events. Within this time an event that is sent again counts once.
    #[schema(value_type = String, example = "1h")]
    pub idempotency: Span,
    /// A text that changes with every change of the definition.
    #[schema(example = "28080000123456-1")]
    pub version: String,
    /// The board's windows, in the order of the definition.
    pub windows: Vec<WindowSummary>,
}

impl From<&Summary> for SummaryBody {
    fn from(summary: &Summary) -> Self {
        let board = &summary.live.board;
        let definition = &board.definition;
        let windows = summary.windows.iter();
        let windows = windows.map(|found| WindowSummary {
            window: found.target.window,
            key: found.target.key.clone(),
            starts_at: found.target.starts_at.map(Timestamp::to_rfc3339_seconds),
            ends_at: found.target.ends_at.map(Timestamp::to_rfc3339_seconds),
            state: found.state,
            total: found.total,
        });
        Self {
            board: board.id.to_string(),
            title: definition.title.clone(),
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

/// Read what a frontend needs to know of a board.
///
/// The answer tells how to show scores and times, and for each window the running period and how many members it has. The
/// windows are not one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/summary", tag = "standings", operation_id = "get_summary",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an answer: if nothing has changed since, the service answers 304"),
        ("Cache-Control" = Option<String>, Header, description = "With `no-cache` the service does not read from a replica"),
    ),
    responses(
        (status = 200, description = "The summary", body = SummaryBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "How long caches may keep it"), ("Max-Staleness-Ms" = u64, description = "From a replica: how many milliseconds old it is at the most"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(board): Path<String>,
    freshness: Freshness,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = board_id(&board)?;
    let (app, id, headers) = (&*app, &id, &headers);
    let read = async |freshness| {
        let taken = app.memory.for_read(WINDOWS_MAX).await?;
        let summary = app.service.summarize(id, freshness).await?;
        let rendered = Rendered::new(&SummaryBody::from(&summary), taken)?;
        let caching = Caching::of(app, &summary.live.board, Includes::default());
        let value = rendered.answer(headers, caching);
        let as_of = summary.as_of;
        Ok(Dated { value, as_of })
    };
    freshness::answer(app, freshness, read).await
}
