//! Passing: giving the position of a consumer also to shards that get no records.
//!
//! - A shard that had no record for long has a stale offset. So a consumer begins at the smallest offset of all shards, and
//!   makes all of them catch up in *rounds*, which also detects a shard whose Redis has lost writes.
//! - A shard without an offset for a partition is new, or Redis has lost its first one. After each round the *floor* of the
//!   partition rises to the position of the round before: no record before it is of such a shard, unless Redis has lost
//!   more than the time between two rounds.
//! - A closing waits until its shards have reached the ends of the log. It adds them to a set, and removes them later;
//!   consumers pass them at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};

use super::start::{self, AT_ONCE};
use super::taking::Intake;
use super::{PASS_INTERVAL, store};
use crate::core::{ATTEMPTS_MAX, Error, LiveBoard};
use crate::domain::ids::BoardId;
use crate::queue::store::queues::QueueName;

/// The least pause between two rounds, since Redis may lose its last second or two.
const ROUND_PAUSE_MIN: Duration = Duration::from_secs(5);
/// The longest pause between two rounds.
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The pause for each shard, between these bounds.
const ROUND_PAUSE_PER_SHARD: Duration = Duration::from_millis(1);

impl Intake {
    /// Makes shards store the position: those that a closing waits for now, and from time to time all. Call it about every
    /// [`PASS_INTERVAL`], also while records wait.
    ///
    /// # Errors
    ///
    /// [`Outdated::Intake`](crate::core::Outdated::Intake) means [`Taking::GoneBack`](super::Taking::GoneBack). Otherwise some
    /// shards could not be reached; the next call tries again, so the error need only be reported.
    pub async fn pass(&mut self) -> Result<(), Error> {
        self.pass_wanted().await?;
        if self.round_due > Instant::now() {
            return Ok(());
        }
        self.pass_all().await
    }

    /// Makes all shards of all boards store the position.
    ///
    /// # Errors
    ///
    /// Like [`Intake::pass`].
    pub async fn pass_all(&mut self) -> Result<(), Error> {
        self.round_due = Instant::now() + PASS_INTERVAL;
        let ids = start::all_boards(&self.engine).await?;
        let shards = self.pass_boards(&ids, |_, _| true).await?;
        let pause = ROUND_PAUSE_PER_SHARD.saturating_mul(shards);
        self.round_due = Instant::now() + pause.clamp(ROUND_PAUSE_MIN, ROUND_PAUSE_MAX);
        // All shards have reached this position. Deleted ones don't matter, and new ones were given nothing.
        self.since = self.position;
        self.boards.retain(|id, _| ids.contains(id));
        if let Some(floor) = self.last_round {
            let store = &self.engine.store;
            store::raise_floor(store, &self.partition, floor).await?;
        }
        self.last_round = Some(self.position);
        Ok(())
    }

    /// Makes those shards store the position that closings wait for.
    async fn pass_wanted(&mut self) -> Result<(), Error> {
        let wanted = store::wanted(&self.engine.store).await?;
        if wanted.is_empty() {
            return Ok(());
        }
        let ids = wanted.iter().map(|name| name.id.clone()).collect();
        let is_wanted = |live: &LiveBoard, index: usize| {
            let name = QueueName::of(&live.shards[index].shard);
            wanted.contains(&name)
        };
        self.pass_boards(&ids, is_wanted).await?;
        // Those of boards that were deleted or have moved: their closings are gone, too, or wait for other shards.
        let is_gone = |name: &QueueName| {
            let live = self.engine.boards.get(&name.id);
            let mut shards = live.iter().flat_map(|live| &live.shards);
            !shards.any(|live| QueueName::of(&live.shard) == *name)
        };
        let gone = wanted
            .iter()
            .filter(|name| is_gone(name))
            .cloned()
            .collect();
        store::want(&self.engine.store, gone, false).await?;
        Ok(())
    }

    /// Makes the shards of these boards store the position, and returns how many did. Unreachable ones don't block the others.
    async fn pass_boards(
        &mut self,
        ids: &BTreeSet<BoardId>,
        is_wanted: impl Fn(&LiveBoard, usize) -> bool,
    ) -> Result<u32, Error> {
        let (mut left, mut count, mut failed) = (ids.clone(), 0, None);
        for _ in 0..ATTEMPTS_MAX {
            let boards = self.load(&left, &mut failed).await;
            let mut asked = Vec::new();
            for live in &boards {
                self.know(live);
                let shards = (0..live.shards.len()).filter(|index| is_wanted(live, *index));
                asked
                    .extend(shards.map(|index| self.share(live, index, Vec::new(), self.position)));
            }
            let outcome = self.run(asked).await?;
            (left, count) = (outcome.stale, count + outcome.count);
            failed = outcome.failed.or(failed);
            if left.is_empty() {
                break;
            }
            for id in &left {
                // The next read reports the error.
                let _ = self.engine.reload(id).await;
            }
        }
        if !left.is_empty() {
            failed.get_or_insert_with(Error::busy);
        }
        failed.map_or(Ok(count), Err)
    }

    /// Those of these boards that have queues.
    async fn load(
        &self,
        ids: &BTreeSet<BoardId>,
        failed: &mut Option<Error>,
    ) -> Vec<Arc<LiveBoard>> {
        let engine = &self.engine;
        let reads: Vec<_> = ids.iter().map(|id| engine.find_board(id)).collect();
        let reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        let read: Vec<_> = reads.collect().await;
        let mut boards = Vec::with_capacity(read.len());
        for live in read {
            match live {
                Ok(live) => boards.extend(live.filter(|live| !live.board.is_league())),
                Err(error) => *failed = Some(error),
            }
        }
        boards
    }
}
