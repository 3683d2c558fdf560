//! The arguments of apply.lua.

use serde::Serialize;

use crate::core::write::store::quotas::QuotaRule;
use crate::core::write::store::reservations::Token;
use crate::domain::board::{Uniques, Update};
use crate::domain::plan;
use crate::domain::shard::Shard;
use crate::redis::args::{LayoutArgs, OrFalse};

/// The arguments of a call, in the order of apply.lua, which documents them. Indexes of lists count from 1, as in Lua.
#[derive(Serialize)]
pub(super) struct CallArgs {
    pub(super) version: String,
    pub(super) now: i64,
    pub(super) confirm: bool,
    pub(super) remember: String,
    pub(super) ranking: &'static str,
    pub(super) update: &'static str,
    pub(super) score_max: i64,
    pub(super) layout: LayoutArgs,
    pub(super) routes: Vec<RouteArgs>,
}

/// The arguments of every event, in columns, in the order of apply.lua.
#[derive(Serialize)]
pub(super) struct EventArgs<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) members: Vec<usize>,
    pub(super) ids: Vec<usize>,
    pub(super) ats: Vec<u64>,
    pub(super) fingerprints: Vec<u64>,
    pub(super) on_routes: Vec<usize>,
    pub(super) details: Vec<u8>,
    pub(super) refusals: Vec<u8>,
    pub(super) amounts: Vec<Vec<i64>>,
}

/// The arguments that only some boards or events need, as apply.lua documents them.
#[derive(Serialize)]
pub(super) struct MoreArgs<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sums: Vec<SumArgs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) follow_until: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recalled: Option<Vec<bool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turnouts: Option<TurnoutArgs<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quotas: Option<QuotaArgs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reservations: Option<ReservationArgs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<QueueArgs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<HistoryArgs>,
}

impl EventArgs<'_> {
    pub(super) fn with_capacity(shard: &Shard, count: usize) -> Self {
        Self {
            names: Vec::with_capacity(count),
            members: Vec::with_capacity(count),
            ids: Vec::with_capacity(count),
            ats: Vec::with_capacity(count),
            fingerprints: Vec::with_capacity(count),
            on_routes: Vec::with_capacity(count),
            details: Vec::with_capacity(count),
            refusals: Vec::new(),
            amounts: vec![Vec::with_capacity(count); plan::columns(shard)],
        }
    }
}

impl<'a> MoreArgs<'a> {
    pub(super) fn new(shard: &'a Shard, quotas: Option<QuotaArgs>) -> Self {
        let definition = &shard.definition;
        Self {
            sums: Vec::new(),
            data: shard.layout().data.then(Vec::new),
            follow_until: (definition.update == Update::Last).then(Vec::new),
            recalled: shard.is_league().then(Vec::new),
            turnouts: definition.uniques.map(|uniques| TurnoutArgs {
                periods: Vec::new(),
                tag: shard.tag(),
                voters: Vec::new(),
                by_member: uniques == Uniques::Member,
            }),
            quotas,
            reservations: shard.reserves().then(ReservationArgs::default),
            queue: None,
            history: shard.history.is_some().then(|| HistoryArgs {
                keeps: shard.keeps_events(),
                unkept: Vec::new(),
                revocation: shard.last_revocation(),
            }),
        }
    }
}

/// The arguments where events are kept.
#[derive(Serialize)]
pub(super) struct HistoryArgs {
    pub(super) keeps: bool,
    pub(super) unkept: Vec<usize>,
    pub(super) revocation: u64,
}

/// The arguments where voters are counted.
#[derive(Serialize)]
pub(super) struct TurnoutArgs<'a> {
    pub(super) periods: Vec<(usize, usize, i64)>,
    pub(super) tag: &'a str,
    pub(super) voters: Vec<&'a str>,
    pub(super) by_member: bool,
}

/// The arguments where quotas are counted in other slots.
#[derive(Default, Serialize)]
pub(super) struct ReservationArgs {
    pub(super) tokens: Vec<OrFalse<Token>>,
    pub(super) voids: Vec<usize>,
}

/// The arguments if events come from the shard's queue. The lists end with the last of these.
#[derive(Default, Serialize)]
pub(super) struct QueueArgs {
    pub(super) entries: Vec<String>,
    pub(super) bytes: Vec<usize>,
    pub(super) leases: Vec<String>,
    pub(super) lates: Vec<i64>,
    pub(super) revocations: Vec<u64>,
    pub(super) logged_ats: Vec<i64>,
}

/// The arguments where the board has quotas.
#[derive(Serialize)]
pub(super) struct QuotaArgs {
    pub(super) registry: usize,
    pub(super) rules: Vec<QuotaRule>,
    pub(super) instants: Vec<i64>,
    pub(super) uses: Vec<Vec<i64>>,
    pub(super) asks: Vec<bool>,
}

/// In the order of apply.lua.
#[derive(Serialize)]
pub(super) struct RouteArgs {
    /// Five numbers each.
    pub(super) writes: Vec<i64>,
    pub(super) sums: Vec<usize>,
    pub(super) turnouts: Vec<usize>,
    pub(super) seats: Option<usize>,
}

#[derive(Serialize)]
pub(super) struct SumArgs {
    pub(super) state: usize,
    pub(super) code: u16,
    pub(super) reported: u8,
    pub(super) column: usize,
    pub(super) lists_zero: bool,
    pub(super) start: i64,
    pub(super) base: usize,
    pub(super) expires: i64,
    pub(super) later: Vec<(i64, usize)>,
    pub(super) history: Vec<usize>,
}
