//! Completes derived standings, step by step.

use crate::domain::period::Period;
use crate::domain::plan::stretch;
use crate::domain::series::{Derived, Standing};
use crate::domain::shard::Shard;
use crate::domain::ties::TieKey;
use crate::domain::time::Timestamp;
use crate::redis::args::{LayoutArgs, closes_ms, end_ms};
use crate::redis::decode::Coded;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, script};

/// About how many members × terms a step looks at: about a millisecond of Redis.
pub const STEP_BUDGET: u32 = 1_500;
/// How many standings of past periods a series keeps after they were built for a read.
const CACHE_MAX: u32 = 16;
/// How long it keeps them unused, in milliseconds.
const CACHE_MS: u32 = 600_000;

/// Takes the derived standing that ends with `period` a bounded step further; returns whether it is complete. `running` is
/// the period that contains `now`; `budget` bounds the step, see [`STEP_BUDGET`].
pub async fn advance(
    store: &Store,
    shard: &Shard,
    derived: &Derived,
    period: &Period,
    running: &Period,
    now: Timestamp,
    budget: u32,
) -> Result<bool, StoreError> {
    let Derived {
        series,
        base,
        periods,
        has_initial,
        ..
    } = *derived;
    // One more than the window has, for the period that leaves it.
    let history = stretch(shard, *period, periods + 1);
    let start_of = |index: usize| {
        history
            .get(index)
            .map_or(i64::MIN, |period| period.start_ms)
    };
    let has_before = history.len() > usize::from(periods);
    let periods = history.len().min(usize::from(periods));
    let target = Standing::of(series, *period);
    let of_period = |period: Period| Standing::of(base, period);
    // At the very beginning of time there is nothing to continue from.
    let previous = if has_before { start_of(1) } else { i64::MIN };
    let (oldest, before) = (start_of(periods - 1), start_of(periods));
    let terms = if has_initial {
        vec![of_period(*period), shard.initial_scores()]
    } else {
        history.into_iter().map(of_period).collect()
    };
    let standings = std::iter::once(target).chain(terms);
    store
        .call_version(&script::ADVANCE, shard)
        .key(keys::state(shard, series))
        .keys(standings.flat_map(|standing| keys::standing(shard, &standing)))
        .field("layout", LayoutArgs::new(shard))
        .field("now", now.ms())
        .field("start", period.start_ms)
        .field("oldest", oldest)
        .field("before", before)
        .field("previous", previous)
        .field("periods", periods)
        .field("initial", has_initial)
        .field(
            "floor",
            shard.layout().hashed.then(|| beginning(shard, period)),
        )
        .field("ends", end_ms(period))
        .field("closes", closes_ms(shard))
        .field("keep_from", kept_from(shard, running))
        .field("cache_ms", CACHE_MS)
        .field("cache_max", CACHE_MAX)
        .field("budget", budget)
        .derive::<Coded>()
        .await?
        .is("DONE", "MORE")
}

/// The instant (ms) from which on the standings of a derived series that begin then are kept: the beginning of the period
/// before the running one. Older ones are built for reads, and dropped again.
pub fn kept_from(shard: &Shard, running: &Period) -> i64 {
    let previous = shard.calendar.previous(running);
    previous.map_or(running.start_ms, |period| period.start_ms)
}

/// The tie key of a period's beginning: the time of initial scores in it.
pub(crate) fn beginning(shard: &Shard, period: &Period) -> u64 {
    let start = period.start().unwrap_or(Timestamp::MIN);
    TieKey::new(shard.definition.ties, start).number()
}
