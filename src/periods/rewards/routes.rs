//! Rewards of final periods: listing and claiming them.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::work::{self, ClaimRequest, RewardBody};
use crate::access::Caller;
use crate::domain::ids::Label;
use crate::domain::reward::RuleId;
use crate::http::extract::{
    Json, JsonResponse, JsonResult, Path, Query, Shared, State, board_id, invalid, member_id,
    part_params,
};
use crate::http::problem::Problem;
use crate::periods::results::periods::PeriodName;
use crate::periods::results::routes::PeriodPath;

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
    at: PeriodName,
    Query(params): Query<RewardsParams>,
) -> JsonResult<RewardsBody> {
    let (after, limit) = params.part(str::parse::<String>)?;
    let member = params.member.as_deref().map(member_id).transpose()?;
    let whose = (params.cohort.as_deref(), member.as_ref());
    let found = work::list(&app.engine, &at, whose, after.as_deref(), limit).await?;
    Ok(JsonResponse(RewardsBody {
        rewards: found.items,
        next: found.next,
    }))
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
    let (mut body, live, is_new) = work::claim(&app.engine, &request).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    if !caller.may_read(&live.board) {
        (body.rank, body.score) = (None, None);
    }
    Ok((status, JsonResponse(body)))
}
