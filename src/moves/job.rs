//! Moving a board to another number of shards, while events and reads go on.
//!
//! ```text
//! capture ─▶ copy every standing ─▶ copy what has changed ─▶ close ─▶ copy the rest ─▶ open, flip ─▶ unlink
//!            └──────── again, while there is much ────────┘
//! ```
//!
//! - Until the flip the old shards are in use. From the first step on they record each change in the step that makes it
//!   (`scripts/lib/capture.lua`), so that the job copies a changed entry again. Entries are set, never added, so copying
//!   twice does no harm.
//! - When little is left the job *pauses* the board with a new version of its definition. Events and reads wait for some
//!   hundredths of a second, then go to the new shards.
//! - A step of the job copies a bounded part, so that boards take turns. Once a board is paused, one step finishes the
//!   move, because clients wait for it.
//! - All progress is stored in Redis. One instance at a time works on a move (`scripts/redis/lease.lua`). If it dies, another one
//!   continues. New shards refuse late calls of the former one.
//! - Queues are not copied: from the version that begins a move, requests queue nothing (`queue/putting.rs`), and shards
//!   refuse calls made for an earlier one. Records of the log enter the old queues until little is left to copy; then these
//!   are held (`scripts/queue/hold_queue.lua`). The board is paused only when all old queues are empty. The new shards get the
//!   offsets that the old ones have taken.
//! - Remembered event ids are not copied. They stay where they are until they expire, and are looked up there
//!   (`core/write/recall.rs`). Counts of quotas belong to no member, and are never copied. `redis/kinds.rs` says how each
//!   kind is copied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::copier::Copier;
use super::store;
use super::walk::Walk;
use crate::core::board::purge::{self, Cause, Unneeded};
use crate::core::board::store::board_notes::{self, NotedBoard, NotedFor};
use crate::core::board::store::boards::{self, Defined};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::lease::Lease;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::write::store::events::remember_ms;
use crate::core::{Engine, Error, Outdated};
use crate::domain::board::Board;
use crate::domain::shard::{Shard, Sharding};
use crate::periods::{results, revisions};
use crate::queue::store::queues;
use crate::queue::{self, intake};
use crate::redis::leases::Leased;
use crate::runtime::join::try_join_all;

/// How many changes may be left in each shard when the board is paused: some milliseconds of work.
pub(crate) const REMAINING_MAX: u64 = 300;
/// How many old shards are read at the same time.
const SHARDS_AT_ONCE: usize = 4;

/// The job that moves boards to another number of shards.
#[derive(Clone, Copy, Debug)]
pub struct Moves;

pub struct Moving {
    board: NotedBoard,
    /// The move, once this instance has the lease.
    mover: Option<Mover>,
}

/// The progress of a move, as stored in its lease.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Position {
    /// The sharding that the board moves to.
    to: Option<Sharding>,
    /// The number of entries copied, including repeated copies.
    pub copied: u64,
    /// The cursors for the next part of partly copied standings, by their sorted sets.
    cursors: BTreeMap<String, String>,
}

impl Job for Moves {
    type Item = Moving;
    const KIND: JobKind = JobKind::Reshard;

    fn subject(&self, moving: &Moving) -> Subject {
        Subject::board(&moving.board.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Moving>, Error> {
        let noted = board_notes::noted(&engine.store, NotedFor::Move).await?;
        let moving = |board| Moving { board, mover: None };
        Ok(noted.into_iter().map(moving).collect())
    }

    async fn step(&self, engine: &Engine, moving: &mut Moving) -> Result<Progress, Error> {
        if moving.mover.is_none() {
            moving.mover = Mover::take(engine, &moving.board).await?;
        }
        let Some(mut mover) = moving.mover.take() else {
            return Ok(Progress::Done);
        };
        let stepped = mover.step(engine).await;
        if matches!(stepped, Ok(Progress::More)) {
            moving.mover = Some(mover);
            return Ok(Progress::More);
        }
        let position = match stepped {
            Ok(_) => String::new(),
            Err(_) => mover.position(),
        };
        let given_back = mover.copier.lease.give_back(&position).await;
        match stepped {
            // If another instance has taken over, or the definition has changed, the next holder of the lease continues.
            Ok(_) | Err(Error::Again(_)) => given_back?,
            Err(error) => return Err(error),
        }
        Ok(Progress::Done)
    }
}

/// The lease for moving a board. It has a [`Position`].
pub fn lease_of(board: &Board) -> Leased {
    Leased::of_board(board, "move")
}

impl Position {
    /// Parses the text of a lease; an invalid one gives the beginning.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

struct Mover {
    board: Arc<Board>,
    copier: Copier,
    /// The copying of each old shard; empty before the first step.
    walks: Vec<Walk>,
}

impl Mover {
    /// Takes the lease of a board; `None` if another instance has it, or there is nothing to move.
    async fn take(engine: &Engine, noted: &NotedBoard) -> Result<Option<Self>, Error> {
        // A board is noted before the definition that has it move is stored, and again afterwards. Only the notes that
        // were there before the board is looked at here are removed.
        let stored = boards::load(&engine.store, &noted.id).await?.transpose()?;
        let moving = stored.and_then(|board| Some((board.placement.next?.to, board)));
        let Some((to, board)) = moving else {
            board_notes::forget(&engine.store, NotedFor::Move, noted).await?;
            return Ok(None);
        };
        let lease = Lease::take(&engine.store, lease_of(&board)).await?;
        Ok(lease.map(|lease| Self {
            copier: Copier::new(&engine.store, lease, &board, to),
            walks: Vec::new(),
            board,
        }))
    }

    async fn step(&mut self, engine: &Engine) -> Result<Progress, Error> {
        if self.walks.is_empty() {
            self.begin().await?;
        }
        let is_closed = self.board.placement.is_closing();
        while !self.copy_on().await? {
            if !is_closed {
                return Ok(Progress::More);
            }
        }
        if !is_closed {
            // From now on nothing is taken from the log, so the queues run empty.
            intake::store::hold_queues(&self.copier.store, &self.board).await?;
            if !queues::are_empty(&self.copier.store, &self.board).await? {
                queue::give_time().await;
                self.copier.copy_in_all(Vec::new(), false).await?;
                return Ok(Progress::More);
            }
            if self.board.history.is_some() {
                // While the board moves no closed period is corrected, so the old shards have no note of one then.
                Box::pin(revisions::work::revise(engine, &self.board.id)).await?;
                let live = engine.live_board(&self.board.id).await?;
                if revisions::corrected::is_any_left(engine, &live).await? {
                    queue::give_time().await;
                    return Ok(Progress::More);
                }
            }
            self.close().await?;
        }
        self.finish(engine).await?;
        Ok(Progress::Done)
    }

    async fn begin(&mut self) -> Result<(), Error> {
        let (board, copier) = (&self.board, &self.copier);
        store::announce_shards(&copier.store, board, copier.to).await?;
        // From now on the new shards refuse calls in flight from an earlier holder of the lease.
        copier.hold().await?;
        if board.placement.is_closing() {
            // Nearly everything was copied before it was paused, unless something was lost since.
            let from = board.placement.current;
            store::retire_shards(&copier.store, board, from).await?;
        }
        if !board.placement.current.is_together() {
            // From now on the old shards refuse puts made before the move. (A single shard has the head of the board, which
            // knows of the move.)
            boards::open_shards(&copier.store, board).await?;
        }
        let old = board.shards();
        try_join_all(old.iter().map(|old| store::capture(&copier.store, old))).await?;
        let mut stored = Position::parse(&copier.position);
        if stored.to != Some(copier.to) {
            stored.cursors.clear();
        }
        let walks = old
            .into_iter()
            .map(|old| Walk::begin(&copier.store, old, &stored.cursors));
        self.walks = try_join_all(walks).await?;
        Ok(())
    }

    /// The stored progress, with which another instance can continue.
    fn position(&self) -> String {
        if self.walks.is_empty() {
            return self.copier.position.clone();
        }
        let cursors = self.walks.iter().flat_map(|walk| walk.cursors.clone());
        let position = Position {
            to: Some(self.copier.to),
            copied: self.copier.copied.load(Ordering::Relaxed),
            cursors: cursors.collect(),
        };
        serde_json::to_string(&position).unwrap_or_default()
    }

    /// Copies the next part of each old shard. Returns whether little is left.
    async fn copy_on(&mut self) -> Result<bool, Error> {
        self.copier.position = self.position();
        let copier = &self.copier;
        let walking: Vec<_> = self
            .walks
            .iter_mut()
            .filter(|walk| !walk.is_ended())
            .map(|walk| walk.step(copier))
            .collect();
        stream::iter(walking)
            .buffer_unordered(SHARDS_AT_ONCE)
            .try_collect::<()>()
            .await?;
        if !self.walks.iter().all(Walk::is_ended) {
            return Ok(false);
        }
        if self.walks.iter().any(|walk| walk.is_fresh) {
            // Some standings may have been created since the beginning.
            let again = self.walks.iter().map(|walk| walk.again(&copier.store));
            self.walks = try_join_all(again).await?;
            return Ok(false);
        }
        let rest = self
            .walks
            .iter()
            .map(|walk| &walk.old)
            .map(|old| copier.copy_changes(old, REMAINING_MAX));
        Ok(!try_join_all(rest).await?.contains(&false))
    }

    /// Makes events and reads wait.
    async fn close(&mut self) -> Result<(), Error> {
        let (board, store) = (&self.board, &self.copier.store);
        let stamp = boards::begin_change(store, &board.id).await?;
        let closed = Arc::new(board.placed(board.placement.closing(), stamp));
        let unneeded = Unneeded {
            generation: board.generation,
            id: board.id.clone(),
            sharding: board.placement.current,
            cause: Cause::Moved,
        };
        purge::mark(store, &unneeded).await?;
        let defined = boards::define(store, &closed, Some(board), None).await?;
        // Callers that find the board paused wait, so there is nothing to announce.
        boards::end_change(store, &board.id, stamp).await?;
        if defined != Defined::Stored {
            // The definition has changed meanwhile: the next move pauses the new one.
            return Err(Error::Again(Outdated::Board));
        }
        self.board = closed;
        Ok(())
    }

    /// While events and reads wait: copies the rest, and switches to the new shards.
    async fn finish(&self, engine: &Engine) -> Result<(), Error> {
        let (board, copier, store) = (&self.board, &self.copier, &self.copier.store);
        store::retire_shards(store, board, board.placement.current).await?;
        let old: Vec<Shard> = board.shards();
        let rest = old.iter().map(|old| async {
            while !copier.copy_changes(old, 0).await? {}
            Ok::<_, Error>(())
        });
        try_join_all(rest).await?;
        copier.hand_over_derived(board, &old).await?;
        self.hand_over_journals(engine, &old).await?;
        copier.hand_over_letters(&old).await?;
        copier
            .hand_over_intake(board.placement.current, &old)
            .await?;
        // The lease must still be held when the shards are opened.
        copier.hand_over_barrier(&old).await?;
        let now_ms = engine.clock.redis_now().ms();
        let ids_until_ms = now_ms.saturating_add_unsigned(remember_ms(board));
        let stamp = boards::begin_change(store, &board.id).await?;
        let moved = Arc::new(board.placed(board.placement.moved(ids_until_ms), stamp));
        boards::open_shards(store, &moved).await?;
        if boards::define(store, &moved, Some(board), None).await? != Defined::Stored {
            boards::end_change(store, &board.id, stamp).await?;
            return Err(Error::Again(Outdated::Board));
        }
        engine.reload(&moved.id).await?;
        boards::announce(store, &moved.id, Some(stamp)).await?;
        Ok(())
    }

    /// While events and reads wait: records for which lines of the old journals results must still be revised, since the new
    /// shards have their own journals, without these lines.
    async fn hand_over_journals(&self, engine: &Engine, old: &[Shard]) -> Result<(), Error> {
        let (board, store) = (&self.board, &self.copier.store);
        loop {
            let known = revisions::store::revised(store, board).await?;
            let of_old: Vec<(&Shard, u64)> = old
                .iter()
                .filter_map(|old| Some((old, *known.get(old.tag())?)))
                .collect();
            if of_old.is_empty() {
                return Ok(());
            }
            let noted = of_old.iter().map(|(old, known)| {
                revisions::journals::note_journal(engine, board, old, *known, true)
            });
            let noted = try_join_all(noted).await?;
            if noted.iter().any(|(_, is_more)| *is_more) {
                continue;
            }
            for new in &self.copier.new {
                let last = results::store::change_counters(store, new).await?.hides;
                let known = known.get(new.tag()).copied();
                revisions::store::note_lines(store, board, new.tag(), (known, last), &[]).await?;
            }
            return Ok(());
        }
    }
}
