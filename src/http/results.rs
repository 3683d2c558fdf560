//! The periods of a window, and the results of those that are final.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::caching::Caching;
use super::extract::{Path, Query, board_id, bounded, choice};
use super::memory::Taken;
use super::problem::{Problem, ProblemBody};
use super::rendered::Rendered;
use super::standings::params::{ReadHeaders, StandingPath};
use crate::domain::include::Includes;
use crate::domain::score::{Decimals, ShownScore};
use crate::domain::state::PeriodState;
use crate::domain::time::Timestamp;
use crate::engine::LiveBoard;
use crate::service::results::{Between, FoundPeriod, FoundPeriods, FoundResult};
use crate::store::results::Winner;

/// The most periods of one part of the list.
const PERIODS_MAX: u64 = 100;
/// The periods of one part unless another number is asked for.
const PERIODS_DEFAULT: u64 = 20;

/// Who leads a period, or has won it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Winner)]
pub struct WinnerBody {
    /// The member; null if it was erased.
    #[schema(required = true, example = "999")]
    pub member: Option<String>,
    /// Its score.
    #[schema(value_type = f64, example = 30)]
    pub score: ShownScore,
    /// When the member reached this score; missing on boards with `ties: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime, example = "2026-11-21T00:30:00.000Z")]
    pub reached_at: Option<Timestamp>,
}

/// A period of a window.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WindowPeriod)]
pub struct PeriodBody {
    /// Its key.
    #[schema(example = "2026-11-21")]
    pub key: String,
    /// When it begins; null for `all`.
    #[schema(required = true, format = DateTime, example = "2026-11-20T16:00:00Z")]
    pub starts_at: Option<String>,
    /// When it ends; null for `all`.
    #[schema(required = true, format = DateTime, example = "2026-11-21T16:00:00Z")]
    pub ends_at: Option<String>,
    /// `live` before its end, then `closing`, and `final` once no event counts for it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PeriodState, required = false)]
    pub state: Option<PeriodState>,
    /// How many members it has, also those that `keep_top` does not list.
    #[schema(example = 1234)]
    pub total: u64,
    /// The first of them; null if nobody is there.
    #[schema(required = true)]
    pub winner: Option<WinnerBody>,
}

/// Some periods of a window.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Periods)]
pub struct PeriodsBody {
    /// The periods that have data or a result, the newest first.
    pub periods: Vec<PeriodBody>,
    /// What `before` has to be for the next part; null at the end.
    #[schema(required = true, example = "2026-11-02")]
    pub next: Option<String>,
}

/// A period, and its result if it is final.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PeriodResult)]
pub struct ResultBody {
    /// The board.
    #[schema(example = "run_hero")]
    pub board: String,
    /// The window.
    #[schema(example = "day")]
    pub window: String,
    /// The period.
    #[serde(flatten)]
    pub period: PeriodBody,
    /// When its result was recorded; null if it is not final.
    #[schema(value_type = Option<String>, required = true, format = DateTime)]
    pub final_at: Option<Timestamp>,
    /// 1, and 1 more each time a member is hidden or brought back who is in it; null if it is not final.
    #[schema(required = true, example = 1)]
    pub revision: Option<u64>,
    /// `true` while the result does not take the last hides into account; otherwise missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    pub revising: bool,
    /// The SHA-256 of its export as NDJSON without profiles, in hexadecimal; null if it is not final, and while the digest is
    /// being made: ask again.
    #[schema(required = true)]
    pub digest: Option<String>,
    /// How many rewards were won; null if it is not final.
    #[schema(required = true, example = 0)]
    pub rewards: Option<u64>,
}

/// The period that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct PeriodPath {
    /// The board's id
    #[param(example = "run_hero")]
    pub(super) board: String,
    /// A window of one period
    #[param(example = "day")]
    pub(super) window: String,
    /// The key of the period; `current` or `previous`
    #[param(example = "previous")]
    pub(super) key: String,
}

/// Which periods.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PeriodsParams {
    /// Only periods before the one with this key.
    before: Option<String>,
    /// Only periods after the one with this key.
    after: Option<String>,
    /// How many periods the answer has at the most.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u64>,
}

impl WinnerBody {
    fn new(winner: &Winner, decimals: Decimals) -> Self {
        Self {
            member: winner.member.clone(),
            score: winner.score.shown(decimals),
            reached_at: winner.reached_at,
        }
    }
}

impl PeriodBody {
    fn new(live: &LiveBoard, found: &FoundPeriod) -> Self {
        let decimals = live.board.definition.decimals;
        let winner = found.winner.as_ref();
        Self {
            key: found.target.key.clone(),
            starts_at: found.target.starts_at.map(Timestamp::to_rfc3339_seconds),
            ends_at: found.target.ends_at.map(Timestamp::to_rfc3339_seconds),
            state: found.state,
            total: found.total,
            winner: winner.map(|winner| WinnerBody::new(winner, decimals)),
        }
    }
}

impl ResultBody {
    /// What is told of a period.
    pub fn new(found: &FoundResult) -> Self {
        let FoundResult { live, period, .. } = found;
        let result = period.result.as_ref();
        Self {
            board: live.board.id.to_string(),
            window: period.target.window.to_string(),
            period: PeriodBody::new(live, period),
            final_at: result.map(|result| result.final_at),
            revision: result.map(|result| result.revision),
            revising: found.is_revising,
            digest: found.digest.clone(),
            rewards: result.map(|result| result.rewards),
        }
    }
}

/// The answer to a read of what a board shows to everybody who may read it.
fn answer<T: Serialize>(
    app: &App,
    live: &LiveBoard,
    (body, taken): (&T, Taken),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let caching = Caching::of(app, &live.board, Includes::default());
    Ok(Rendered::new(body, taken)?.answer(headers, caching))
}

/// List the periods of a window.
///
/// Those that have data or a result, the newest first. They are not one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/periods", tag = "results", operation_id = "list_periods",
    params(StandingPath, PeriodsParams, ReadHeaders),
    responses(
        (status = 200, description = "The periods", body = PeriodsBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "How long caches may keep it"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`: the window has no results", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn list(
    State(app): State<Arc<App>>,
    Path(StandingPath { board, window }): Path<StandingPath>,
    Query(params): Query<PeriodsParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = board_id(&board)?;
    let PeriodsParams {
        before,
        after,
        limit,
    } = params;
    let limit = bounded("limit", limit, PERIODS_DEFAULT, 1, PERIODS_MAX)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let between = Between { after, before };
    let taken = app.memory.for_read(limit).await?;
    let found = app.service.periods(&id, &window, &between, limit).await?;
    let FoundPeriods {
        live,
        periods,
        next,
    } = found;
    let periods = periods.iter();
    let body = PeriodsBody {
        periods: periods.map(|found| PeriodBody::new(&live, found)).collect(),
        next,
    };
    answer(&app, &live, (&body, taken), &headers)
}

/// Read a period and its result.
///
/// A final period has a result, which stays when its entries are gone. The digest is made when it is first asked for.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/periods/{key}", tag = "results", operation_id = "get_period",
    params(PeriodPath, ReadHeaders),
    responses(
        (status = 200, description = "The period", body = ResultBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "How long caches may keep it"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(PeriodPath { board, window, key }): Path<PeriodPath>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (id, choice) = (board_id(&board)?, choice(Some(&key), None)?);
    let taken = app.memory.for_read(1).await?;
    let found = app.service.period_result(&id, &window, &choice).await?;
    answer(
        &app,
        &found.live,
        (&ResultBody::new(&found), taken),
        &headers,
    )
}
