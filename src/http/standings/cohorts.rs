//! Cohorts of a league: each is a standing, and is read like any other.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::answers::{MemberBody, PageBody, PercentileBody, StatsBody, SubsetBody};
use super::params::{
    CohortPath, EntryParams, MemberParams, MemberPath, PageParams, PercentilePath, PeriodParams,
    Read, ReadPath, SubsetParams, WindowPath,
};
use super::{SubsetIdsBody, at_percentile, member, page, query_subset, stats, subset};
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::caching::IfNoneMatch;
use crate::http::extract::{Json, LeaguePath, Path, Query};
use crate::http::freshness::NoCache;
use crate::http::problem::Problem;
use crate::store::Freshness;

/// Read a page of a cohort.
///
/// The whole page is one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/cohorts/{cohort}", tag = "leagues", operation_id = "get_cohort_page",
    params(LeaguePath, WindowPath, CohortPath, PageParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "The page", body = PageBody, headers(("Link" = String, description = "Where the pages before and after it are, as far as there are any: `rel=\"prev\"`, `rel=\"next\"`"))),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn cohort_page(
    app: State<Arc<App>>,
    read: Read<PageParams>,
) -> Result<Response, Problem> {
    page(app, read).await
}

/// Read some members of a cohort.
///
/// Each with its rank in the cohort and its position in the set.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/cohorts/{cohort}/members", tag = "leagues", operation_id = "get_cohort_subset",
    params(LeaguePath, WindowPath, CohortPath, SubsetParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "The members", body = SubsetBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn cohort_subset(
    app: State<Arc<App>>,
    read: Read<SubsetParams>,
) -> Result<Response, Problem> {
    subset(app, read).await
}

/// Read some members of a cohort, named in the body.
///
/// The same as with `?ids=`, for long lists and for ids that contain commas.
#[utoipa::path(
    post, path = "/v1/boards/{board}/standings/{window}/cohorts/{cohort}/members/query", tag = "leagues", operation_id = "query_cohort_subset",
    params(LeaguePath, WindowPath, CohortPath, EntryParams, NoCache),
    request_body(content = SubsetIdsBody, example = json!({"ids": ["999", "alice"]})),
    responses(
        (status = 200, description = "The members", body = SubsetBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn query_cohort_subset(
    app: State<Arc<App>>,
    path: Path<ReadPath>,
    params: Query<EntryParams>,
    caller: Caller,
    freshness: Freshness,
    ids: Json<SubsetIdsBody>,
) -> Result<Response, Problem> {
    query_subset(app, path, params, caller, freshness, ids).await
}

/// Read one member of a cohort.
///
/// Its rank, its neighbours and its zone, as one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/cohorts/{cohort}/members/{member}", tag = "leagues", operation_id = "get_cohort_member",
    params(LeaguePath, WindowPath, CohortPath, MemberPath, MemberParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "The member", body = MemberBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`, `member-not-found`"),
    )
)]
pub async fn cohort_member(
    app: State<Arc<App>>,
    path: Path<MemberPath>,
    read: Read<MemberParams>,
) -> Result<Response, Problem> {
    member(app, path, read).await
}

/// Read the entry at a percentile of a cohort.
///
/// The last entry with at least this percentile.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/cohorts/{cohort}/at-percentile/{percentile}", tag = "leagues", operation_id = "get_cohort_at_percentile",
    params(LeaguePath, WindowPath, CohortPath, PercentilePath, EntryParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "The entry", body = PercentileBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn cohort_at_percentile(
    app: State<Arc<App>>,
    path: Path<PercentilePath>,
    read: Read<EntryParams>,
) -> Result<Response, Problem> {
    at_percentile(app, path, read).await
}

/// Read what a cohort amounts to.
///
/// How many members it has.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/cohorts/{cohort}/stats", tag = "leagues", operation_id = "get_cohort_stats",
    params(LeaguePath, WindowPath, CohortPath, PeriodParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "What it amounts to", body = StatsBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`"),
    )
)]
pub async fn cohort_stats(
    app: State<Arc<App>>,
    read: Read<PeriodParams>,
) -> Result<Response, Problem> {
    stats(app, read).await
}
