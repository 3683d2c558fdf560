//! Revisions of the results of final periods.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::listing::{self, FoundRevision};
pub use super::store::Moderation as RevisionAction;
use crate::domain::ids::shown_member;
use crate::domain::reward::RuleId;
use crate::domain::time::Timestamp;
use crate::http::extract::{
    JsonResponse, JsonResult, Path, Query, Shared, State, board_id, bounded, choice, list_limit,
};
use crate::periods::results::routes::PeriodPath;
use crate::periods::rewards::store::RewardChange;

/// How the result of a period was revised.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Revision)]
pub struct RevisionBody {
    /// The resulting revision: 2 or more.
    pub revision: u64,
    /// When it was made.
    pub at: Timestamp,
    /// The members of the standing that were hidden or brought back since the previous revision; at most 100.
    pub members: Vec<RevisedMemberBody>,
    /// How many members the standing had before.
    pub total_before: u64,
    /// How many members it has.
    pub total: u64,
    /// The rewards that have changed; at most 100.
    pub rewards: Vec<RewardChangeBody>,
    /// Whether more rewards than these have changed.
    pub more_rewards: bool,
}

/// A member that was hidden or brought back.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = RevisedMember)]
pub struct RevisedMemberBody {
    /// The member; null if it was erased.
    pub member: Option<String>,
    /// Whether it was hidden or brought back.
    #[schema(inline)]
    pub action: RevisionAction,
    /// 1 + the number of members with a better score, without hidden ones.
    pub place: u64,
}

/// How a revision changed a reward.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = RewardChange)]
pub struct RewardChangeBody {
    /// The id of the rule.
    pub rule: RuleId,
    /// The member; null if it was erased.
    pub member: Option<String>,
    /// `gained`: it can now be claimed. `lost`: it can no longer be claimed. `revoked`: it was claimed, but is no longer
    /// won. `restored`: it was revoked, and is claimed again.
    #[schema(inline)]
    pub change: RewardChange,
}

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

impl From<FoundRevision> for RevisionBody {
    fn from(found: FoundRevision) -> Self {
        let change = found.change;
        let members = change
            .members
            .into_iter()
            .zip(found.members)
            .map(|(revised, member)| RevisedMemberBody {
                member,
                action: revised.action,
                place: revised.place,
            });
        let rewards = found
            .rewards
            .into_iter()
            .map(|(rule, member, change)| RewardChangeBody {
                rule,
                member: shown_member(member),
                change,
            });
        Self {
            revision: found.revision,
            at: change.at,
            members: members.collect(),
            total_before: change.total_before,
            total: change.total,
            rewards: rewards.collect(),
            more_rewards: found.has_more,
        }
    }
}

/// List how the result of a final period was revised.
///
/// When a member of the standing is hidden or brought back, the result gets a new revision. One revision may cover several
/// members.
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
    Path(PeriodPath { board, window, key }): Path<PeriodPath>,
    Query(params): Query<RevisionsParams>,
) -> JsonResult<RevisionsBody> {
    let id = board_id(&board)?;
    let after = bounded("after", params.after, 1, 1, u64::MAX)?;
    let limit = list_limit(params.limit, 20, 100)?;
    let choice = choice(Some(&key), None)?;
    let at = (&id, &*window, &choice, params.cohort.as_deref());
    let found = listing::list(&app.engine, at, after, limit).await?;
    Ok(JsonResponse(RevisionsBody {
        revisions: found.items.into_iter().map(RevisionBody::from).collect(),
        next: found.next,
    }))
}
