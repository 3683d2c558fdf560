//! The periods of a window, and the results of those that are final.

pub mod export;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::periods::{self, FoundPeriod, PeriodName};
use super::work::{self, FoundResult};
use crate::core::LiveBoard;
use crate::domain::include::Includes;
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;
use crate::http::App;
use crate::http::caching::{Caching, IfNoneMatch};
use crate::http::extract::{
    JsonResponse, Path, Query, Shared, State, board_id, choice, list_limit,
};
use crate::http::problem::Problem;
use crate::http::rendered::Rendered;
use crate::http::supply::{Taken, Takers};
use crate::standings::routes::answers::StandingBody;
use crate::standings::routes::params::StandingPath;
use crate::standings::routes::summary::PeriodBody;

/// The leader of a period, or its winner.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Winner)]
pub struct WinnerBody {
    /// The member; null if it was erased.
    pub member: Option<String>,
    /// Its score.
    pub score: ShownScore,
    /// When the member reached this score; missing on boards with `ties: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime)]
    pub reached_at: Option<Timestamp>,
}

/// A period of a list.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = WindowPeriod)]
pub struct ListedPeriod {
    /// The period.
    #[serde(flatten)]
    pub period: PeriodBody,
    /// Its first member; null if there is none, and for a league.
    pub winner: Option<WinnerBody>,
    /// When its result was recorded, in a league that of its last cohort; null if it is not final.
    pub final_at: Option<Timestamp>,
    /// How many queued events were rejected because its closing did not wait for them (`max_delay`); null if it is not
    /// final, and for a whole period of a league.
    pub cut_off: Option<u64>,
    /// In a league, how many cohorts it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub cohorts: Option<u64>,
    /// In a league, how many of its cohorts have results.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub final_cohorts: Option<u64>,
}

/// Some periods of a window.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Periods)]
pub struct PeriodsBody {
    /// The periods with data or a result, the newest first.
    pub periods: Vec<ListedPeriod>,
    /// The `before` of the next part; null at the end.
    pub next: Option<String>,
}

/// A period, and its result if it is final.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = PeriodResult)]
pub struct ResultBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, including those that `keep_top` does not list; null for a whole period of a
    /// league.
    pub total: Option<u64>,
    /// The first member; null if there is none, and for a whole period of a league.
    pub winner: Option<WinnerBody>,
    /// For a whole period of a league: how many cohorts it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub cohorts: Option<u64>,
    /// For a whole period of a league: how many of its cohorts have results.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub final_cohorts: Option<u64>,
    /// When its result was recorded, for a whole period of a league that of its last cohort; null if it is not final.
    pub final_at: Option<Timestamp>,
    /// Starts at 1, and increases by 1 each time a member of it is hidden or brought back, or its events are corrected; null if
    /// it is not final.
    pub revision: Option<u64>,
    /// `true` while the result does not yet reflect the latest hides and corrections; otherwise missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    pub revising: bool,
    /// The SHA-256 of its export as NDJSON without profiles, in hexadecimal; null if it is not final, and while the digest
    /// is being computed: ask again.
    pub digest: Option<String>,
    /// The number of rewards won; null if it is not final.
    pub rewards: Option<u64>,
    /// How many queued events have been rejected so far because its closing did not wait for them (`max_delay`). Null if it
    /// is not final, and for a whole period of a league.
    pub cut_off: Option<u64>,
    /// For a final cohort of a league: how it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TurnedBody, required = false)]
    pub turned: Option<TurnedBody>,
}

/// How a cohort was decided. Later hides change ranks, but none of this.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = TurnedCohort)]
pub struct TurnedBody {
    /// How many members were counted, without hidden ones.
    pub counted: u64,
    /// How many of them were promoted.
    pub promoted: u64,
    /// How many of them were demoted.
    pub demoted: u64,
    /// When the cohort was decided.
    pub decided_at: Timestamp,
}

/// Which part of a period.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CohortParams {
    /// In a league, one cohort of the period.
    cohort: Option<String>,
}

/// The period that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct PeriodPath {
    /// The board's id
    #[param(example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub(crate) board: String,
    /// A window of one period; only the export takes rolling windows
    #[param(example = "day")]
    pub(crate) window: String,
    /// The key of the period; `current` or `previous`
    #[param(example = "previous")]
    pub(crate) key: String,
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
    /// The maximum number of periods to return.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u64>,
}

impl WinnerBody {
    fn of(live: &LiveBoard, found: &FoundPeriod) -> Option<Self> {
        let winner = found.winner.as_ref()?;
        Some(Self {
            member: winner.member.clone(),
            score: winner.score.shown(live.board.definition.decimals),
            reached_at: winner.reached_at,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PeriodName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(path) = Path::<PeriodPath>::from_request_parts(parts, state).await?;
        Ok(Self {
            board: board_id(&path.board)?,
            window: path.window,
            choice: choice(Some(&path.key), None)?,
        })
    }
}

impl ListedPeriod {
    fn new(live: &LiveBoard, found: &FoundPeriod) -> Self {
        Self {
            period: PeriodBody::new(&found.target, found.state, found.total),
            winner: WinnerBody::of(live, found),
            final_at: found.final_at,
            cut_off: found.cut_off,
            cohorts: found.cohorts.map(|cohorts| cohorts.all),
            final_cohorts: found.cohorts.map(|cohorts| cohorts.with_result),
        }
    }
}

impl ResultBody {
    /// What a response says about a period.
    pub fn new(found: &FoundResult) -> Self {
        let FoundResult { live, period, .. } = found;
        let result = period.result.as_ref();
        Self {
            standing: StandingBody::new(live, &period.target, period.state),
            total: period.total,
            winner: WinnerBody::of(live, period),
            cohorts: period.cohorts.map(|cohorts| cohorts.all),
            final_cohorts: period.cohorts.map(|cohorts| cohorts.with_result),
            final_at: period.final_at,
            revision: result.map(|result| result.revision),
            revising: found.is_revising,
            digest: found.digest.clone(),
            rewards: result.map(|result| result.rewards),
            cut_off: period.cut_off,
            turned: result
                .and_then(|result| result.league)
                .map(|turned| TurnedBody {
                    counted: turned.counted,
                    promoted: turned.promoted,
                    demoted: turned.demoted,
                    decided_at: turned.at,
                }),
        }
    }
}

/// The response to a read that everyone who may read the board gets alike.
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
/// Periods with data or a result, the newest first. They are not one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/periods", operation_id = "list_periods",
    params(StandingPath, PeriodsParams, IfNoneMatch),
    responses(
        (status = 200, description = "The periods", body = PeriodsBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`: the window has no results"),
    )
)]
pub async fn list(
    State(app): Shared,
    Path(StandingPath { board, window }): Path<StandingPath>,
    Query(params): Query<PeriodsParams>,
    by: Takers,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = board_id(&board)?;
    let limit = list_limit(params.limit, 20, 100)?;
    let between = (params.after.as_deref(), params.before.as_deref());
    let taken = app.memory.for_read(&by, limit).await?;
    let found = periods::list_periods(&app.engine, &id, &window, between, limit);
    let (live, periods) = found.await?;
    let (periods, next) = periods.shown(|found| ListedPeriod::new(&live, &found));
    let body = PeriodsBody { periods, next };
    answer(&app, &live, (&body, taken), &headers)
}

/// Read a period and its result.
///
/// A final period has a result, which is kept when its entries expire. The digest is computed at the first request for it.
/// In a league each cohort has its own result; without `cohort` the response has the number of cohorts with one.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/periods/{key}", operation_id = "get_period",
    params(PeriodPath, CohortParams, IfNoneMatch),
    responses(
        (status = 200, description = "The period", body = ResultBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn get(
    State(app): Shared,
    at: PeriodName,
    Query(CohortParams { cohort }): Query<CohortParams>,
    by: Takers,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let taken = app.memory.for_read(&by, 1).await?;
    let found = work::read(&app.engine, &at, cohort.as_deref()).await?;
    let body = ResultBody::new(&found);
    answer(&app, &found.live, (&body, taken), &headers)
}

/// Make a period final now.
///
/// The rest of the wait (`finalize`) is skipped. Every period of the board that ended by then becomes final too. Repeating
/// the request changes nothing.
#[utoipa::path(
    post, path = "/v1/boards/{board}/standings/{window}/periods/{key}/close", operation_id = "close_period",
    params(PeriodPath),
    responses(
        (status = 200, description = "The period is final: its result", body = ResultBody),
        (status = 204, description = "The period is final, and has no data"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`: the window has no results"),
        (status = 409, description = "`period-running`, `not-finalized`"),
        (status = 503, description = "`time-uncertain`, with `Retry-After`"),
    )
)]
pub async fn close(State(app): Shared, at: PeriodName) -> Result<Response, Problem> {
    Ok(match work::close_period(&app.engine, &at).await? {
        Some(found) => JsonResponse(ResultBody::new(&found)).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
