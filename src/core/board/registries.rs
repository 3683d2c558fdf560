//! The job that takes names of keys that no longer exist out of registries, so that these don't grow without bound.

use std::sync::Arc;
use std::time::Duration;

use super::live::LiveBoard;
use super::store::registries;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};

/// How often a round walks through the registry of a shard, in milliseconds. Names of keys that have expired stay until the
/// next round.
const INTERVAL_MS: i64 = 3_600_000;

/// Takes names of expired and dropped keys out of the registries of all boards.
#[derive(Clone, Copy, Debug)]
pub struct Registries;

/// A round through the registries of a board's shards.
#[derive(Debug)]
pub struct Round {
    live: Arc<LiveBoard>,
    /// The index of the next shard.
    next: usize,
}

impl Job for Registries {
    type Item = Round;
    const KIND: JobKind = JobKind::Registries;
    /// Redis spends at most a fortieth of its time on a board. One with 30 million names takes about an hour.
    const PAUSE: Duration = Duration::from_millis(20);

    fn subject(&self, round: &Round) -> Subject {
        Subject::board(&round.live.board.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Round>, Error> {
        let _planning = engine.boards.planning();
        let mut due = Vec::new();
        for id in engine.registries.due(engine.clock.now()) {
            match engine.boards.get(&id) {
                Some(live) => due.push(Round { live, next: 0 }),
                None => engine.registries.remove(&id),
            }
        }
        Ok(due)
    }

    async fn step(&self, engine: &Engine, round: &mut Round) -> Result<Progress, Error> {
        let (id, now) = (&round.live.board.id, engine.clock.now());
        let shard = &round.live.shards[round.next].shard;
        let forgotten = registries::forget_names(&engine.store, shard, now, INTERVAL_MS).await;
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
