//! Joining and leaving leagues, and assigning members to tiers.

pub mod tiers;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::work::{self, Joined};
use crate::access::Caller;
use crate::core::write::seats::FoundPlayer;
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::player::start_of;
use crate::domain::period::Period;
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;
use crate::http::audited::Audit;
use crate::http::extract::{Json, JsonResponse, JsonResult, LeaguePath, MemberPath, Shared, State};
use crate::http::problem::Problem;

/// The member that joins or leaves.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeagueMember)]
pub struct LeagueMemberBody {
    /// The member: 1 to 128 bytes of UTF-8 without control characters. With a player's token, its `sub`.
    member: MemberId,
}

/// A member's seat in the running period.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeagueSeat {
    /// The member.
    pub member: String,
    /// Its tier.
    pub tier: String,
    /// Its cohort.
    pub cohort: String,
    /// The key of the period.
    pub key: String,
    /// Its rank in the cohort; null while it is hidden, and without the scope `read` on a board that is not public.
    #[schema(minimum = 1)]
    pub rank: Option<u64>,
    /// Its score; null while it is hidden, and without the scope `read` on a board that is not public.
    pub score: Option<ShownScore>,
    /// When it joined.
    pub joined_at: Timestamp,
    /// How many members the cohort has so far, without hidden ones; null without the scope `read` on a board that is not
    /// public.
    pub size: Option<u64>,
}

/// A member that has left.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeftLeague {
    /// The member.
    pub member: String,
    /// The key of the first period in which events do not seat it.
    pub left_from: String,
}

/// An order of a member's tier.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TierOrder)]
pub struct TierOrderBody {
    /// The tier in which the member plays from the next period on.
    tier: String,
}

/// An order for a future period.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct OrderedTier {
    /// The tier.
    pub tier: String,
    /// The key of the first period in which the member plays in it.
    pub from: String,
}

/// The state of a member of a league.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct LeagueMemberState {
    /// The member.
    pub member: String,
    /// The key of the running period.
    pub key: String,
    /// The tier in which it plays, or would play; null while the outcome of its last period is being decided.
    pub tier: Option<String>,
    /// The cohort of its seat; null if it has none.
    pub cohort: Option<String>,
    /// The tier that a moderator has ordered for the next period.
    pub order: Option<OrderedTier>,
    /// The key of the first period in which events do not seat it; null if it has not left.
    pub left_from: Option<String>,
}

/// The key of the period of a league that begins at an instant.
fn key_from(board: &Board, running: &Period, start: Timestamp) -> String {
    let calendar = &board.calendar;
    calendar.key(&calendar.containing(running.unit, start))
}

impl LeagueSeat {
    fn new(member: &MemberId, Joined { taken, cohort }: &Joined, may_read: bool) -> Self {
        let board = &taken.live.board;
        let league = board.settings_in(&taken.period);
        let cohort = may_read.then_some(cohort);
        let (own, me) = (
            taken.seat.cohort,
            cohort.and_then(|cohort| cohort.me.as_ref()),
        );
        Self {
            member: member.to_string(),
            tier: league.tier(own.tier).name.to_string(),
            cohort: league.cohort_name(own),
            key: board.calendar.key(&taken.period),
            rank: me.and_then(|me| me.rank),
            score: me.map(|me| me.score.shown(board.definition.decimals)),
            joined_at: taken.joined_at,
            size: cohort.map(|cohort| cohort.total),
        }
    }
}

impl LeagueMemberState {
    fn new(member: &MemberId, found: &FoundPlayer) -> Self {
        let (board, period, player) = (&found.live.board, &found.period, &found.player);
        let league = board.settings_in(period);
        let seat = player.seat_in(period);
        let tier = seat
            .map(|seat| seat.cohort.tier)
            .or_else(|| found.place.map(|place| place.tier));
        // An order for an earlier period is already part of the tier, even if it is still stored.
        let order = player
            .order
            .as_ref()
            .filter(|order| order.from > start_of(period));
        Self {
            member: member.to_string(),
            key: board.calendar.key(period),
            tier: tier.map(|tier| league.tier(tier).name.to_string()),
            cohort: seat.map(|seat| league.cohort_name(seat.cohort)),
            order: order.map(|order| OrderedTier {
                tier: order.tier.to_string(),
                from: key_from(board, period, order.from),
            }),
            left_from: player.left_from.map(|from| key_from(board, period, from)),
        }
    }
}

/// Join a league.
///
/// The member gets a seat in the running period, in the open cohort of its tier. It is listed there with its opening score:
/// its entry bonus, or 0. A member that already has a seat keeps it, so the request can be repeated. Joining also undoes an
/// earlier leave.
#[utoipa::path(
    post, path = "/v1/boards/{board}/league/members", operation_id = "join_league",
    params(LeaguePath),
    request_body(content = LeagueMemberBody, example = json!({"member": "999"})),
    responses(
        (status = 201, description = "The member has joined", body = LeagueSeat),
        (status = 200, description = "The member already has a seat", body = LeagueSeat),
        (status = 409, description = "`league-turning`, with the header `Retry-After`; `board-closed`"),
    )
)]
pub async fn join(
    State(app): Shared,
    board: BoardId,
    caller: Caller,
    Json(LeagueMemberBody { member }, _): Json<LeagueMemberBody>,
) -> Result<(StatusCode, JsonResponse<LeagueSeat>), Problem> {
    let member = caller.own_member(member)?;
    let joined = work::join(&app.engine, &board, &member).await?;
    let status = if joined.taken.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let may_read = caller.may_read(&joined.taken.live.board);
    let seat = LeagueSeat::new(&member, &joined, may_read);
    Ok((status, JsonResponse(seat)))
}

/// Leave a league.
///
/// It takes effect in the next period: from then on events of the member do not seat it, and are rejected. In the running
/// period the member keeps its seat. Joining again undoes it.
#[utoipa::path(
    post, path = "/v1/boards/{board}/league/leave", operation_id = "leave_league",
    params(LeaguePath),
    request_body(content = LeagueMemberBody, example = json!({"member": "999"})),
    responses(
        (status = 200, description = "The member has left the league", body = LeftLeague),
        (status = 409, description = "`board-closed`"),
    )
)]
pub async fn leave(
    State(app): Shared,
    board: BoardId,
    caller: Caller,
    Json(LeagueMemberBody { member }, _): Json<LeagueMemberBody>,
) -> JsonResult<LeftLeague> {
    let member = caller.own_member(member)?;
    let left = app.engine.leave_league(&board, &member).await?;
    let from = left.player.left_from.unwrap_or(Timestamp::MAX);
    Ok(JsonResponse(LeftLeague {
        member: member.to_string(),
        left_from: key_from(&left.live.board, &left.period, from),
    }))
}

/// Order the tier of a member.
///
/// The member plays in this tier from the next period on, whatever the outcome of the running one. The member need not have
/// joined yet. An earlier order for the next period is replaced.
#[utoipa::path(
    put, path = "/v1/boards/{board}/league/members/{member}", operation_id = "set_league_tier",
    params(LeaguePath, MemberPath),
    request_body(content = TierOrderBody, example = json!({"tier": "gold"})),
    responses(
        (status = 200, description = "The order was stored", body = LeagueMemberState),
        (status = 409, description = "`league-turning`, with the header `Retry-After`; `board-closed`"),
        (status = 422, description = "`validation-failed`: also if the next period has no such tier"),
    )
)]
pub async fn put(
    State(app): Shared,
    board: BoardId,
    member: MemberId,
    audit: Audit,
    Json(TierOrderBody { tier }, _): Json<TierOrderBody>,
) -> JsonResult<LeagueMemberState> {
    let engine = &app.engine;
    let ordered = engine.order_tier(&board, &member, &tier).await?;
    let [before, after] = ordered.map(|found| LeagueMemberState::new(&member, &found));
    audit.before(&json!({"tier": before.tier, "order": before.order}));
    audit.after(&json!({"tier": after.tier, "order": after.order}));
    Ok(JsonResponse(after))
}

/// Get a member of a league.
///
/// For moderators: it includes hidden members. Other clients use `GET …/standings/{window}/members/{member}`. A member that
/// never joined is described as it would start.
#[utoipa::path(
    get, path = "/v1/boards/{board}/league/members/{member}", operation_id = "get_league_member",
    params(LeaguePath, MemberPath),
    responses(
        (status = 200, description = "The state of the member", body = LeagueMemberState),
        (status = 409, description = "`board-closed`"),
    )
)]
pub async fn get(
    State(app): Shared,
    board: BoardId,
    member: MemberId,
) -> JsonResult<LeagueMemberState> {
    let found = app.engine.player(&board, &member).await?;
    Ok(JsonResponse(LeagueMemberState::new(&member, &found)))
}
