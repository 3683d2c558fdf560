//! What is left of a board's quotas.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::auth::Caller;
use super::extract::{Path, Query, board_id, member_id};
use super::problem::{INVALID_PARAMETER, Problem, ProblemBody};
use crate::domain::access::Scope;
use crate::domain::board::Board;
use crate::domain::event::Origin;
use crate::domain::ids::{IdError, Label};
use crate::domain::quota::{Network, QuotaUse};
use crate::domain::score::{Score, ShownScore};
use crate::domain::time::Timestamp;
use crate::service::quotas::{FoundQuotas, QuotasRequest};
use crate::store::quotas::Taken;

/// What an event would tell of where it comes from.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct QuotasParams {
    /// Who would send it.
    #[param(max_length = 128, example = "v-1")]
    voter: Option<String>,
    /// For whom it would be.
    #[param(max_length = 128)]
    member: Option<String>,
    /// Which way it would come.
    #[param(max_length = 128)]
    channel: Option<String>,
    /// From which device.
    #[param(max_length = 128)]
    device: Option<String>,
    /// From which address.
    ip: Option<String>,
}

/// What is left of an allowance.
#[derive(Debug, Serialize, ToSchema)]
pub struct Allowance {
    /// How much at the most.
    #[schema(value_type = f64, example = 5)]
    pub max: ShownScore,
    /// How much is taken.
    #[schema(value_type = f64, example = 2)]
    pub used: ShownScore,
    /// How much is left.
    #[schema(value_type = f64, minimum = 0, example = 3)]
    pub left: ShownScore,
}

/// What is left of a quota.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuotaState {
    /// Its name.
    #[schema(example = "voter-minute")]
    pub name: String,
    /// Its window.
    #[schema(example = "1m")]
    pub window: String,
    /// Without what is on top.
    #[serde(flatten)]
    pub base: Allowance,
    /// What the event's channel has on top.
    pub extra: Vec<Allowance>,
    /// When more will be left: a period's end; of a sliding window that is used up, when an event of 1 would be
    /// taken. Null for never, and where all is left.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub frees_at: Option<Timestamp>,
}

/// What is left of a board's quotas.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuotaStates {
    /// Those that go by nothing else than the request names, in the order of the definition.
    pub quotas: Vec<QuotaState>,
}

impl QuotaState {
    fn new(board: &Board, used: &QuotaUse, taken: &Taken, now: Timestamp) -> Option<Self> {
        let quota = board.quotas.get(used.quota)?;
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

/// Read what is left of a board's quotas.
///
/// What an event of this voter, for this member, … would find now. Those quotas are left out that go by something
/// which the request does not name. To name a voter, a member, a device or an address takes the scope `configure`. A player finds
/// what is left for itself.
#[utoipa::path(
    get, path = "/v1/boards/{board}/quotas", tag = "events", operation_id = "get_quotas",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        QuotasParams,
    ),
    responses(
        (status = 200, description = "What is left", body = QuotaStates),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(board): Path<String>,
    Query(params): Query<QuotasParams>,
    caller: Caller,
) -> Result<JsonResponse<QuotaStates>, Problem> {
    let QuotasParams {
        voter,
        member,
        channel,
        device,
        ip,
    } = params;
    let label = |name, text: &Option<String>| parsed(name, text.as_deref(), Label::parse);
    let mut origin = Origin {
        voter: label("voter", &voter)?,
        channel: label("channel", &channel)?,
        device: label("device", &device)?,
        ip: parsed("ip", ip.as_deref(), Network::parse)?,
    };
    let player = caller.player();
    let is_other = |name: &String| player.is_none_or(|(player, _)| player.is_other(name));
    let names_others = voter.iter().chain(&member).any(is_other);
    if names_others || device.is_some() || ip.is_some() {
        caller.require(Scope::Configure)?;
    }
    if let Some((player, ip)) = player {
        origin = Origin {
            channel: origin.channel,
            ..player.origin(ip)
        };
    }
    let request = QuotasRequest {
        board: board_id(&board)?,
        origin,
        member: member.as_deref().map(member_id).transpose()?,
    };
    let FoundQuotas { live, now, counts } = app.service.quotas(&request).await?;
    let state = |(used, taken): &(QuotaUse, Taken)| QuotaState::new(&live.board, used, taken, now);
    Ok(JsonResponse(QuotaStates {
        quotas: counts.iter().filter_map(state).collect(),
    }))
}

fn parsed<T>(
    name: &str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, IdError>,
) -> Result<Option<T>, Problem> {
    let wrong = |error| Problem::new(INVALID_PARAMETER, format!("{name}: {error}"));
    text.map(parse).transpose().map_err(wrong)
}
