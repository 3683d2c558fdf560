//! Rewards of final periods: listing and claiming them.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::store::RewardState;
use super::work::{self, ClaimRequest, FoundReward};
use crate::access::Caller;
use crate::domain::ids::{Label, shown_member};
use crate::domain::reward::{Reward, RuleId};
use crate::domain::score::{Decimals, ShownScore};
use crate::domain::time::Timestamp;
use crate::http::extract::{
    Json, JsonResponse, JsonResult, Path, Query, Shared, State, board_id, choice, invalid,
    member_id, part_params,
};
use crate::http::problem::Problem;
use crate::periods::results::routes::PeriodPath;

/// What a member has won by a rule.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Reward)]
pub struct RewardBody {
    /// The id of the rule.
    pub rule: RuleId,
    /// The member that won it; null if it was erased.
    pub member: Option<String>,
    /// The member's public rank. For a revoked reward: the rank with which the member last won it. Null in a claim without the
    /// scope `read` on a board that is not public.
    pub rank: Option<u64>,
    /// The member's score; null where the rank is.
    pub score: Option<ShownScore>,
    /// What is won, as the rule defines it.
    pub reward: Reward,
    /// `open` until it is claimed, then `claimed`. `revoked`: it was claimed, but the member has since lost it, because a
    /// member was hidden or brought back.
    #[schema(inline)]
    pub state: RewardStateBody,
    /// The name under which it was claimed; null if it is open.
    pub by: Option<String>,
    /// When it was claimed; null if it is open.
    pub claimed_at: Option<Timestamp>,
}

/// What has become of a reward.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RewardStateBody {
    /// It can be claimed.
    Open,
    /// It was claimed.
    Claimed,
    /// It was claimed, and is not won any more.
    Revoked,
}

/// Some rewards of a final period.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(as = Rewards)]
pub struct RewardsBody {
    /// The rewards, in the order of the rules, then by rank.
    pub rewards: Vec<RewardBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

part_params! {
    /// Which rewards.
    RewardsParams {
        /// Only the rewards of this member, all in one response. In a league its cohort is found automatically.
        member: Option<String>,
        /// In a league, the cohort.
        cohort: Option<String>,
    }
    limit(default = 100, maximum = 1000)
}

/// The name under which a reward is claimed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
pub struct ClaimBody {
    /// The name under which you grant the reward: 1 to 128 bytes. The first claim of a reward counts.
    by: Label,
}

/// A reward, as a path names it.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct RewardPath {
    /// The board's id
    #[param(example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    board: String,
    /// A window of one period
    #[param(example = "day")]
    window: String,
    /// The key of the period
    #[param(example = "2026-11-21")]
    key: String,
    /// The id of the rule
    #[param(example = "podium", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    rule: String,
    /// The member's id
    #[param(example = "999")]
    member: String,
}

impl RewardBody {
    fn new(found: FoundReward, decimals: Decimals) -> Self {
        let entry = found.entry;
        let claim = entry.claim.as_ref();
        Self {
            rule: found.rule,
            member: shown_member(found.member),
            rank: Some(entry.rank),
            score: Some(entry.score.shown(decimals)),
            reward: found.reward,
            state: match entry.state {
                RewardState::Open | RewardState::Lost => RewardStateBody::Open,
                RewardState::Claimed => RewardStateBody::Claimed,
                RewardState::Revoked => RewardStateBody::Revoked,
            },
            by: claim.map(|claim| claim.by.clone()),
            claimed_at: claim.map(|claim| claim.at),
        }
    }

    /// As the first response to the same claimant had it.
    fn as_claimed(mut found: FoundReward, decimals: Decimals) -> Self {
        if let Some(claim) = &found.entry.claim {
            found.entry.rank = claim.rank;
        }
        Self::new(found, decimals)
    }
}

/// List the rewards of a final period.
///
/// Ordered by rule, then by rank. All hides that returned before are taken into account.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/periods/{key}/rewards", operation_id = "list_rewards",
    params(PeriodPath, RewardsParams),
    responses(
        (status = 200, description = "The rewards", body = RewardsBody),
        (status = 400, description = "`cohort-required`: each cohort of a league has its own result"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`: the window has no results, `no-league`, `cohort-not-found`"),
        (status = 409, description = "`period-not-final`"),
    )
)]
pub async fn list(
    State(app): Shared,
    Path(PeriodPath { board, window, key }): Path<PeriodPath>,
    Query(params): Query<RewardsParams>,
) -> JsonResult<RewardsBody> {
    let id = board_id(&board)?;
    let (after, limit) = params.part(str::parse::<String>)?;
    let member = params.member.as_deref().map(member_id).transpose()?;
    let choice = choice(Some(&key), None)?;
    let at = (&id, &*window, &choice);
    let whose = (params.cohort.as_deref(), member.as_ref());
    let found = work::list(&app.engine, at, whose, after.as_deref(), limit);
    let (live, rewards) = found.await?;
    let decimals = live.board.definition.decimals;
    let (rewards, next) = rewards.shown(|found| RewardBody::new(found, decimals));
    Ok(JsonResponse(RewardsBody { rewards, next }))
}

/// Claim a reward.
///
/// Claim a reward before you grant it, and grant it under the name `by`. Repeating the request returns the same response, so
/// you can retry it as often as needed. A claim under another name is refused.
#[utoipa::path(
    put, path = "/v1/boards/{board}/standings/{window}/periods/{key}/rewards/{rule}/members/{member}/claim", operation_id = "claim_reward",
    params(RewardPath),
    request_body(content = ClaimBody, example = json!({"by": "grant-88"})),
    responses(
        (status = 201, description = "The reward was claimed", body = RewardBody),
        (status = 200, description = "The reward was claimed before, under the same name", body = RewardBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`, `reward-not-found`"),
        (status = 409, description = "`period-not-final`, `already-claimed`, `reward-revoked`"),
    )
)]
pub async fn claim(
    State(app): Shared,
    Path(path): Path<RewardPath>,
    caller: Caller,
    Json(body, _): Json<ClaimBody>,
) -> Result<(StatusCode, JsonResponse<RewardBody>), Problem> {
    let rule = RuleId::parse(&path.rule).map_err(|error| invalid("rule", error))?;
    let request = ClaimRequest {
        board: board_id(&path.board)?,
        window: path.window,
        key: path.key,
        rule,
        member: member_id(&path.member)?,
        by: body.by.as_str().to_owned(),
    };
    let (found, live, is_new) = work::claim(&app.engine, &request).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut body = RewardBody::as_claimed(found, live.board.definition.decimals);
    if !caller.may_read(&live.board) {
        (body.rank, body.score) = (None, None);
    }
    Ok((status, JsonResponse(body)))
}
