//! The job that takes names of keys that no longer exist out of registries, so that these don't grow without bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::live::LiveBoard;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::decode::Coded;
use crate::redis::dispatch::Store;
use crate::redis::kinds::{Expiry, Form, Kind};
use crate::redis::{StoreError, script};

/// How often a round walks through the registry of a shard, in milliseconds. Names of keys that have expired stay until the
/// next round.
const INTERVAL_MS: i64 = 3_600_000;
/// About how many names one call looks at: a fraction of a millisecond of Redis.
const CALL_NAMES_MAX: u32 = 200;

/// Takes names of expired and dropped keys out of the registries of all boards.
#[derive(Clone, Copy, Debug)]
pub struct Registries;

/// A round through the registries of a board's shards.
#[derive(Debug)]
pub struct RegistryRound {
    live: Arc<LiveBoard>,
    /// The index of the next shard.
    next: usize,
}

impl Job for Registries {
    type Item = RegistryRound;
    const KIND: JobKind = JobKind::Registries;
    /// Redis spends at most a fortieth of its time on a board. One with 30 million names takes about an hour.
    const PAUSE: Duration = Duration::from_millis(20);

    fn subject(&self, round: &RegistryRound) -> Subject {
        Subject::board(&round.live.board.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<RegistryRound>, Error> {
        let _planning = engine.boards.planning();
        let mut due = Vec::new();
        for id in engine.registries.due(engine.clock.now()) {
            match engine.boards.get(&id) {
                Some(live) => due.push(RegistryRound { live, next: 0 }),
                None => engine.registries.remove(&id),
            }
        }
        Ok(due)
    }

    async fn step(&self, engine: &Engine, round: &mut RegistryRound) -> Result<Progress, Error> {
        let (id, now) = (&round.live.board.id, engine.clock.now());
        let shard = &round.live.shards[round.next].shard;
        let forgotten = forget_names(&engine.store, shard, now, INTERVAL_MS).await;
        match engine.unless_again(id, forgotten).await? {
            // The board was read again, and is due again.
            None => return Ok(Progress::Done),
            Some(true) => return Ok(Progress::More),
            Some(false) => round.next += 1,
        }
        if round.next < round.live.shards.len() {
            return Ok(Progress::More);
        }
        let _planning = engine.boards.planning();
        engine.registries.set(id, now.ms() + INTERVAL_MS);
        Ok(Progress::Done)
    }
}

/// Goes on with the round through the registry of a shard, in a bounded step, or begins one if the last began so long ago.
/// Returns whether there is more to do.
async fn forget_names(
    store: &Store,
    shard: &Shard,
    now: Timestamp,
    interval_ms: i64,
) -> Result<bool, StoreError> {
    let named = Kind::ALL.iter().filter(|kind| kind.form() == Form::Named);
    // The keys of all others exist for as long as the shard, or are registered before they exist.
    let kinds = named
        .filter(|kind| kind.expiry() == Expiry::WithPeriod || **kind == Kind::Derived)
        .map(|kind| (kind.code(), kind.is_standing()));
    let parts = Kind::ALL
        .iter()
        .filter(|kind| kind.form() == Form::Part)
        .map(|kind| (kind.code(), true));
    let forgotten = store
        .call_version(&script::FORGET_NAMES, shard)
        .field("now", now.ms())
        .field("interval", interval_ms)
        .field("count", CALL_NAMES_MAX)
        .field("kinds", kinds.collect::<BTreeMap<_, _>>())
        .field("parts", parts.collect::<BTreeMap<_, _>>());
    forgotten.derive::<Coded>().await?.is("MORE", "DONE")
}
