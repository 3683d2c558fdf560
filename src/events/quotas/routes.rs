//! The remaining quotas of a board.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::work;
use crate::access::Caller;
use crate::core::write::store::quotas::QuotaCount;
use crate::domain::access::Scope;
use crate::domain::board::Board;
use crate::domain::event::Origin;
use crate::domain::ids::{BoardId, IdError, Label};
use crate::domain::quota::{Network, QuotaUse};
use crate::domain::score::{Score, ShownScore};
use crate::domain::time::Timestamp;
use crate::http::extract::{JsonResponse, JsonResult, Query, Shared, State, invalid, member_id};
use crate::http::problem::Problem;

/// Where the event would come from.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct QuotasParams {
    /// The voter who would send the event.
    #[param(max_length = 128, example = "v-1")]
    voter: Option<String>,
    /// The member whose score would change.
    #[param(max_length = 128)]
    member: Option<String>,
    /// The channel through which the event would come.
    #[param(max_length = 128)]
    channel: Option<String>,
    /// The device from which the event would come.
    #[param(max_length = 128)]
    device: Option<String>,
    /// The address from which the event would come.
    ip: Option<String>,
}

/// How much of an allowance is used.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct Allowance {
    /// How much is allowed.
    pub max: ShownScore,
    /// How much of it is used.
    pub used: ShownScore,
    /// How much of it is left.
    #[schema(value_type = f64, minimum = 0)]
    pub left: ShownScore,
}

/// The state of a quota.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct QuotaState {
    /// The quota's name.
    pub name: String,
    /// The quota's window.
    pub window: String,
    /// The allowance for all channels.
    #[serde(flatten)]
    pub base: Allowance,
    /// The extra allowances of the event's channel.
    pub extra: Vec<Allowance>,
    /// When more will be available: the end of the period; for a used-up sliding window, the time at which the board would
    /// accept an event of 1. Null if nothing is used, or if that is never.
    pub frees_at: Option<Timestamp>,
}

/// The remaining quotas of a board.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct QuotaStates {
    /// The quotas that count only by what the request names, in the order of the definition.
    pub quotas: Vec<QuotaState>,
}

impl QuotaState {
    fn new(board: &Board, used: &QuotaUse, taken: &QuotaCount, now: Timestamp) -> Option<Self> {
        let quota = board.definition.quotas.get(used.quota)?;
        let decimals = quota.decimals(board);
        let show = |amount: i64| Score::from_stored(amount).shown(decimals);
        let allowances = quota.allowances(board);
        let allowance = |index: usize| {
            let (max, used) = (*allowances.get(index)?, *taken.of_allowances.get(index)?);
            Some(Allowance {
                max: show(max),
                used: show(used),
                left: show((max - used).max(0)),
            })
        };
        let extra = used.pools.iter().skip(1);
        let is_untouched = taken.of_allowances.first() == Some(&0);
        Some(Self {
            name: quota.name.clone(),
            window: quota.window.to_string(),
            base: allowance(0)?,
            extra: extra.filter_map(|pool| allowance(pool.index)).collect(),
            frees_at: taken
                .frees_at
                .or(quota.frees_at(board, now).filter(|_| !is_untouched)),
        })
    }
}

/// Read the remaining quotas of a board.
///
/// It returns what remains now for an event of this voter, for this member, …, omitting quotas that count by something that
/// the request does not name. Naming a voter, a member, a device or an address requires the scope `configure`. A player
/// reads its own remaining quotas.
#[utoipa::path(
    get, path = "/v1/boards/{board}/quotas", operation_id = "get_quotas",
    params(QuotasParams),
    responses((status = 200, description = "What remains of each quota", body = QuotaStates))
)]
pub async fn get(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<QuotasParams>,
    caller: Caller,
) -> JsonResult<QuotaStates> {
    let label = |name, text: &Option<String>| parsed(name, text.as_deref(), Label::parse);
    let mut origin = Origin {
        voter: label("voter", &params.voter)?,
        channel: label("channel", &params.channel)?,
        device: label("device", &params.device)?,
        ip: parsed("ip", params.ip.as_deref(), Network::parse)?,
        key: None,
    };
    let player = caller.player();
    let is_other = |name: &String| player.is_none_or(|(player, _)| player.is_other(name));
    let names_others = params.voter.iter().chain(&params.member).any(is_other);
    if names_others || params.device.is_some() || params.ip.is_some() {
        caller.require(Scope::Configure)?;
    }
    if let Some((player, ip)) = player {
        origin = Origin {
            channel: origin.channel,
            ..player.origin(ip)
        };
    }
    let member = params.member.as_deref().map(member_id).transpose()?;
    let (live, now, counts) = work::read(&app.engine, &board, &origin, member.as_ref()).await?;
    let state =
        |(used, taken): &(QuotaUse, QuotaCount)| QuotaState::new(&live.board, used, taken, now);
    Ok(JsonResponse(QuotaStates {
        quotas: counts.iter().filter_map(state).collect(),
    }))
}

fn parsed<T>(
    name: &str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, IdError>,
) -> Result<Option<T>, Problem> {
    let wrong = |error| invalid(name, error);
    text.map(parse).transpose().map_err(wrong)
}
