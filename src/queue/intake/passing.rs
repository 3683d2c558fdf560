//! Passing: shards that get no records are told the position of a consumer, too.
//!
//! - Nothing can be concluded from a shard that had no record for long. So a consumer begins where the shard that is farthest behind says, and
//!   it has all shards come up to its position in *rounds*, also to find out if one has gone back.
//! - A shard that says nothing of a partition is new, or Redis has lost its first word. After each round the *floor* of the partition rises to the
//!   position of the round before: then no record that lies before it is of such a shard, unless Redis has lost more than the time
//!   between two rounds.
//! - A closing waits until its shards have come up to the ends of the log. It puts their names into a set, and takes them out; consumers
//!   have these pass at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};

use super::start::{self, AT_ONCE};
use super::taking::Intake;
use super::{PASS_INTERVAL, store};
use crate::core::{ATTEMPTS_MAX, Error, LiveBoard, Outdated};
use crate::domain::ids::BoardId;
use crate::queue::store::queues::QueueName;

/// The pause between two rounds is at least this, since Redis may lose its last second or two,
const ROUND_PAUSE_MIN: Duration = Duration::from_secs(5);
/// at the most this,
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(30);
/// and in between so much for each shard.
const ROUND_PAUSE_PER_SHARD: Duration = Duration::from_millis(1);

impl Intake {
    /// Has shards note the position: now those that a closing waits for, and from time to time all. To be called about every
    /// [`PASS_INTERVAL`], also while records wait.
    ///
    /// # Errors
    ///
    /// [`Outdated::Intake`] is as [`Taking::GoneBack`](super::Taking::GoneBack). Otherwise some shards could not be reached. The next call
    /// tries again; so an error is only to be told.
    pub async fn pass(&mut self) -> Result<(), Error> {
        self.pass_wanted().await?;
        if self.round_due > Instant::now() {
            return Ok(());
        }
        self.pass_all().await
    }

    /// Has all shards of all boards note the position.
    ///
    /// # Errors
    ///
    /// As of [`Intake::pass`].
    pub async fn pass_all(&mut self) -> Result<(), Error> {
        self.round_due = Instant::now() + PASS_INTERVAL;
        let ids = start::all_boards(&self.engine).await?;
        let shards = self.pass_boards(&ids, |_, _| true).await?;
        let pause = ROUND_PAUSE_PER_SHARD.saturating_mul(shards);
        self.round_due = Instant::now() + pause.clamp(ROUND_PAUSE_MIN, ROUND_PAUSE_MAX);
        // All shards have come so far. What is not there any more need not be known, and what comes was given nothing.
        self.since = self.position;
        self.boards.retain(|id, _| ids.contains(id));
        if let Some(floor) = self.last_round {
            let store = &self.engine.store;
            store::raise_floor(store, &self.partition, floor).await?;
        }
        self.last_round = Some(self.position);
        Ok(())
    }

    /// Has those shards note the position that closings wait for.
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
        // Those of boards that are gone, or have moved; their closings are gone, too, or wait for other shards.
        let is_gone = |name: &QueueName| {
            let live = self.engine.boards.get(&name.id);
            let mut shards = live.iter().flat_map(|live| &live.shards);
            !shards.any(|live| QueueName::of(&live.shard) == *name)
        };
        let gone = wanted.iter().filter(|name| is_gone(name)).cloned();
        let gone = gone.collect();
        store::want(&self.engine.store, gone, false).await?;
        Ok(())
    }

    /// Has shards of these boards note the position, and returns how many did. What can't be reached holds up no other.
    async fn pass_boards(
        &mut self,
        ids: &BTreeSet<BoardId>,
        is_wanted: impl Fn(&LiveBoard, usize) -> bool,
    ) -> Result<u32, Error> {
        let (mut left, mut count, mut failed) = (ids.clone(), 0, None);
        for _ in 0..ATTEMPTS_MAX {
            let boards = self.load(&left, &mut failed).await;
            left.clear();
            let mut tasks = Vec::new();
            for live in &boards {
                self.know(live);
                let shards = (0..live.shards.len()).filter(|index| is_wanted(live, *index));
                tasks.extend(shards.map(|index| self.task(live, index, Vec::new(), self.position)));
            }
            let running = stream::iter(tasks).map(|task| self.run(task));
            let running = running.buffer_unordered(AT_ONCE);
            let outcomes: Vec<_> = running.collect().await;
            for outcome in outcomes {
                self.note(&outcome);
                match outcome.end {
                    Ok(()) => count += 1,
                    Err(Error::Again(Outdated::Board)) => {
                        left.insert(outcome.live.board.id.clone());
                    }
                    Err(error @ Error::Again(_)) => return Err(error),
                    Err(error) => failed = Some(error),
                }
            }
            if left.is_empty() {
                break;
            }
            for id in &left {
                // Whoever reads it next tells the error.
                let _ = self.engine.reload(id).await;
            }
        }
        if !left.is_empty() {
            failed.get_or_insert_with(Error::busy);
        }
        failed.map_or(Ok(count), Err)
    }

    /// The boards of these that have queues.
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
