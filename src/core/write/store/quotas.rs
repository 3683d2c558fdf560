//! Reads how much of quotas was taken.

use serde::Serialize;

use crate::domain::board::{AcceptLate, Board};
use crate::domain::event::{FUTURE_MS_MAX, Shortage};
use crate::domain::quota::{Measure, Quota, QuotaUse, QuotaWindow, waiting_ms};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::decode::{Done, Tail};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::reply::Reply;
use crate::redis::{StoreError, keys, script};

/// A quota, as the scripts take it (`scripts/lib/quota.lua`).
#[derive(Serialize)]
pub(crate) struct QuotaRule {
    log: u64,
    keep: u64,
    is_points: bool,
    allowances: Vec<i64>,
}

/// A board's quotas, as the scripts take them.
pub(crate) fn rules(board: &Board) -> Vec<QuotaRule> {
    let definition = &board.definition;
    let late = match definition.accept_late {
        AcceptLate::Within(span) => span.ms(),
        AcceptLate::Any => 0,
    };
    let rule = |quota: &Quota| {
        let log = match quota.window {
            QuotaWindow::Sliding(span) => span.ms(),
            QuotaWindow::Period(_) | QuotaWindow::Total => 0,
        };
        QuotaRule {
            log,
            keep: log + late + FUTURE_MS_MAX.unsigned_abs() + waiting_ms(board),
            is_points: quota.measure == Measure::Score,
            allowances: quota.allowances(board),
        }
    };
    board.definition.quotas.iter().map(rule).collect()
}

/// The uses of an event, as the scripts take them (`scripts/lib/quota.lua`); adds their keys to `keys`.
pub(crate) fn use_args(shard: &Shard, uses: &[QuotaUse], keys: &mut Vec<String>) -> Vec<i64> {
    let quotas = &shard.definition.quotas;
    let mut args = Vec::new();
    for used in uses {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let expires = used.expires_at_ms.unwrap_or(0);
        args.extend([number(used.quota + 1), used.amount, expires]);
        let first_pool = args.len();
        args.resize(first_pool + 1 + quotas[used.quota].extra.len(), 0);
        for pool in &used.pools {
            keys.push(keys::named(shard, Kind::Quota, &pool.name));
            args[first_pool + pool.index] = number(keys.len());
        }
    }
    args
}

/// Reads a script's reply that a quota has too little left.
pub(crate) fn shortage(reply: &mut Reply) -> Result<Shortage, StoreError> {
    Ok(Shortage {
        quota: reply.index()?,
        frees_at_ms: reply.integer()?,
        taken: reply.integer()?,
        allowed: reply.integer()?,
        amount: reply.integer()?,
    })
}

/// How much of a quota was taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuotaCount {
    /// When a used-up sliding window frees; `None` if it is not sliding or not used up.
    pub frees_at: Option<Timestamp>,
    /// What was taken of each of its allowances: events, or scaled points; 0 for those not asked for.
    pub of_allowances: Vec<i64>,
}

/// Reads how much of these quotas was taken, as of one instant.
pub async fn counts(
    store: &Store,
    home: &Shard,
    uses: &[QuotaUse],
    now: Timestamp,
) -> Result<Vec<QuotaCount>, StoreError> {
    let mut keys = vec![keys::counts_head(home.tag(), home.placement.home())];
    let uses = use_args(home, uses, &mut keys);
    let Done::Ok(Tail(counts)) = store
        .call(&script::QUOTAS, home.tag())
        .keys(keys)
        .field("version", home.version())
        .field("instant", now.ms())
        .field("uses", uses)
        .field("rules", rules(home))
        .read::<Done<Tail<Vec<_>>>>()
        .await?;
    Ok(counts
        .into_iter()
        .map(|(frees_at_ms, Tail(of_allowances))| QuotaCount {
            frees_at: (frees_at_ms > 0).then(|| Timestamp::from_ms_clamped(frees_at_ms)),
            of_allowances,
        })
        .collect())
}
