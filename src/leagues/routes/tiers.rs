//! The structure of a league: its tiers, the cohorts of each, and a member's past seats.

use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::{Caller, HiddenChoice};
use crate::core::read::period::CohortChoice;
use crate::core::read::store::standings::Visibility;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::include::Includes;
use crate::domain::league::Share;
use crate::http::caching::{Caching, IfNoneMatch};
use crate::http::extract::{LeaguePath, MemberPath, Path, Query, Shared, State, list_limit};
use crate::http::freshness::NoCache;
use crate::http::problem::Problem;
use crate::http::rendered::Rendered;
use crate::leagues;
use crate::standings::routes::answers::StandingBody;
use crate::standings::routes::in_league::PlayedBody;
use crate::standings::routes::params::{CohortsParams, Read, TierPath, TiersParams, WindowPath};
use crate::standings::routes::show;
use crate::standings::standing::FoundIn;
use crate::standings::tiers::{CohortsView, FoundCohorts, FoundTier, TiersView};

/// A tier of a period.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = TierSummary)]
pub struct TierBody {
    /// Its name.
    pub tier: String,
    /// The share of a cohort that is promoted.
    pub promote: Share,
    /// The share of a cohort that is demoted.
    pub demote: Share,
    /// How many cohorts were opened.
    pub cohorts: u64,
    /// How many members have a seat in them, including hidden ones.
    pub members: u64,
}

/// The tiers of a league in a period.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Tiers)]
pub struct TiersBody {
    /// Which period.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// The tiers, the lowest first.
    pub tiers: Vec<TierBody>,
}

/// A cohort of a tier.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = CohortSummary)]
pub struct CohortBody {
    /// The cohort.
    pub cohort: String,
    /// How many members it has.
    pub members: u64,
}

/// Some cohorts of a tier.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cohorts)]
pub struct CohortsBody {
    /// Which period.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// The tier.
    pub tier: String,
    /// Its cohorts, ordered by number.
    pub cohorts: Vec<CohortBody>,
    /// The `after` of the next part; null at the end.
    pub next: Option<String>,
}

/// The past seats of a member of a league.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = History)]
pub struct HistoryBody {
    /// The board.
    pub board: String,
    /// The member.
    pub member: String,
    /// Its seats in periods that are decided, the newest first.
    pub seats: Vec<PlayedBody>,
    /// The `before` of the next part; null at the end.
    pub next: Option<String>,
}

/// Which seats.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct HistoryParams {
    /// Only seats in periods before the one with this key.
    before: Option<String>,
    /// The maximum number of seats to return.
    #[param(minimum = 1, maximum = 100, default = 100)]
    limit: Option<u64>,
    /// `include`: also for a hidden member; needs the scope `moderate`.
    #[param(inline)]
    hidden: Option<HiddenChoice>,
}

impl TiersBody {
    fn new(found: &FoundIn<Vec<FoundTier>>) -> Self {
        let league = found.live.board.league_of(&found.target.standing.period);
        let settings = league.iter().flat_map(|league| &league.tiers);
        let tiers = found
            .found
            .iter()
            .zip(settings)
            .map(|(found, tier)| TierBody {
                tier: tier.name.to_string(),
                promote: tier.promote,
                demote: tier.demote,
                cohorts: found.cohorts,
                members: found.members,
            });
        Self {
            standing: StandingBody::found(found),
            tiers: tiers.collect(),
        }
    }
}

impl CohortsBody {
    fn new(view: &CohortsView, found: &FoundIn<FoundCohorts>) -> Self {
        let (board, period) = (&found.live.board, &found.target.standing.period);
        let name = |cohort| board.cohort_name(period, cohort).unwrap_or_default();
        let cohorts = found
            .found
            .items
            .iter()
            .map(|(cohort, members)| CohortBody {
                cohort: name(*cohort),
                members: *members,
            });
        Self {
            standing: StandingBody::found(found),
            tier: view.tier.clone(),
            cohorts: cohorts.collect(),
            next: found.found.next.map(name),
        }
    }
}

/// The read, widened to all cohorts.
fn of_all<P>(mut read: Read<P>) -> Read<P> {
    read.request.cohort = CohortChoice::All;
    read
}

/// List the tiers of a league.
///
/// Each with its number of cohorts in a period, and the number of members with a seat in them.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/tiers", operation_id = "list_tiers",
    params(LeaguePath, WindowPath, TiersParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "The tiers", body = TiersBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`"),
    )
)]
pub async fn list(State(app): Shared, read: Read<TiersParams>) -> Result<Response, Problem> {
    let render = |found: &_, taken| Rendered::new(&TiersBody::new(found), taken);
    show(&app, &of_all(read), (&TiersView, 0), render).await
}

/// List the cohorts of a tier.
///
/// Ordered by number, each with its number of members. They are not one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/tiers/{tier}/cohorts", operation_id = "list_cohorts",
    params(LeaguePath, WindowPath, TierPath, CohortsParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "The cohorts", body = CohortsBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `unknown-tier`"),
    )
)]
pub async fn cohorts(
    State(app): Shared,
    Path(TierPath { tier }): Path<TierPath>,
    read: Read<CohortsParams>,
) -> Result<Response, Problem> {
    let view = CohortsView {
        tier,
        after: read.params.after.clone(),
        count: list_limit(read.params.limit, 100, 100)?,
    };
    let render = |found: &_, taken| Rendered::new(&CohortsBody::new(&view, found), taken);
    show(&app, &of_all(read), (&view, view.count), render).await
}

/// Read the history of a member of a league.
///
/// The member's past seats, the newest first, with their outcomes. The last 500 are kept, even when the standings have
/// expired. For a hidden member the list is empty.
#[utoipa::path(
    get, path = "/v1/boards/{board}/league/members/{member}/history", operation_id = "get_league_history",
    params(LeaguePath, MemberPath, HistoryParams, IfNoneMatch),
    responses((status = 200, description = "The seats", body = HistoryBody))
)]
pub async fn history(
    State(app): Shared,
    board: BoardId,
    member: MemberId,
    Query(params): Query<HistoryParams>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = list_limit(params.limit, 100, 100)?;
    let visibility = caller.visibility(params.hidden)?;
    let taken = app.memory.for_read(&caller.takers(), limit).await?;
    let part = (params.before.as_deref(), limit);
    let (live, seats) =
        leagues::work::history(&app.engine, &board, &member, part, visibility).await?;
    let (seats, next) = seats.shown(|played| PlayedBody::new(&live.board, &played));
    let body = HistoryBody {
        board: board.to_string(),
        member: member.to_string(),
        seats,
        next,
    };
    let caching = Caching::of(&app, &live.board, Includes::default())
        .restricted_if(visibility == Visibility::All);
    Ok(Rendered::new(&body, taken)?.answer(&headers, caching))
}
