//! Revisions of the results of final periods.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::listing::{self, RevisionBody};
use crate::http::extract::{JsonResponse, JsonResult, Query, Shared, State, bounded, list_limit};
use crate::periods::results::periods::PeriodName;
use crate::periods::results::routes::PeriodPath;

/// Some revisions of the result of a period.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(as = Revisions)]
pub struct RevisionsBody {
    /// The revisions, the oldest first.
    pub revisions: Vec<RevisionBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<u64>,
}

/// Which revisions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RevisionsParams {
    /// The list begins after this revision: the `next` of the previous part.
    #[param(minimum = 1)]
    after: Option<u64>,
    /// The maximum number of revisions to return.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u64>,
    /// In a league, the cohort.
    cohort: Option<String>,
}

/// List how the result of a final period was revised.
///
/// When a member of the standing is hidden or brought back, or an event of the period is retracted, restored or corrected, the
/// result gets a new revision. One revision may cover several of these.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/periods/{key}/revisions", operation_id = "list_revisions",
    params(PeriodPath, RevisionsParams),
    responses(
        (status = 200, description = "The revisions, the oldest first", body = RevisionsBody),
        (status = 400, description = "`cohort-required`: each cohort of a league has its own result"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`: the window has no results, `no-league`, `cohort-not-found`"),
        (status = 409, description = "`period-not-final`"),
    )
)]
pub async fn list(
    State(app): Shared,
    at: PeriodName,
    Query(params): Query<RevisionsParams>,
) -> JsonResult<RevisionsBody> {
    let after = bounded("after", params.after, 1, 1, u64::MAX)?;
    let limit = list_limit(params.limit, 20, 100)?;
    let cohort = params.cohort.as_deref();
    let found = listing::list(&app.engine, &at, cohort, after, limit).await?;
    Ok(JsonResponse(RevisionsBody {
        revisions: found.items,
        next: found.next,
    }))
}
