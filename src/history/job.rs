//! Removes rows that have run out, ends histories that were turned off, and notes since when a history is complete.

use std::sync::Arc;

use super::store::{self, CALL_FOLDED_MAX, PlacedRow};
use crate::core::board::store::boards::{self, Defined};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::schedule::Schedule;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::write::store::events::StoredRow;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::history::{HISTORY_KEY_BYTES, HistoryState};
use crate::domain::ids::BoardId;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::periods::revisions;
use crate::redis::{StoreError, random};

/// How often rows of a board are looked for that have run out, in milliseconds.
const INTERVAL_MS: i64 = 60_000;

/// The boards with a history, by when the job looks at them next.
#[derive(Debug, Default)]
pub struct HistorySchedule(Schedule<BoardId>);

/// The job that removes rows.
#[derive(Clone, Copy, Debug)]
pub struct Histories;

/// A round through the shards of a board.
#[derive(Debug)]
pub struct HistoryRound {
    live: Arc<LiveBoard>,
    /// The index of the next shard.
    next: usize,
    /// The last text that was read of the shard's rows, in the order in which they were accepted.
    after: Vec<u8>,
    /// Whether the rows of the shards are gone, and folded entries are unlinked.
    drops_folded: bool,
    /// How far that has come in the shard.
    cursor: Option<String>,
}

/// Plans the work on a board that is new in memory.
pub fn plan(engine: &Engine, id: &BoardId) {
    let live = engine.boards.get(id);
    let has_history = live.is_some_and(|live| live.board.history.is_some());
    schedule(engine).plan(id, has_history);
}

fn schedule(engine: &Engine) -> &Schedule<BoardId> {
    &engine.states.get::<HistorySchedule>().0
}

impl Job for Histories {
    type Item = HistoryRound;
    const KIND: JobKind = JobKind::History;

    fn subject(&self, round: &HistoryRound) -> Subject {
        Subject::board(&round.live.board.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<HistoryRound>, Error> {
        let _planning = engine.boards.planning();
        let mut due = Vec::new();
        for id in schedule(engine).due(engine.clock.now()) {
            match engine.boards.get(&id) {
                Some(live) => due.push(HistoryRound {
                    live,
                    next: 0,
                    after: Vec::new(),
                    drops_folded: false,
                    cursor: None,
                }),
                None => schedule(engine).remove(&id),
            }
        }
        Ok(due)
    }

    async fn step(&self, engine: &Engine, round: &mut HistoryRound) -> Result<Progress, Error> {
        let id = round.live.board.id.clone();
        let stepped = round.step(engine).await;
        // If the board was read again, it is due again.
        let Some(progress) = engine.unless_again(&id, stepped).await? else {
            return Ok(Progress::Done);
        };
        if progress == Progress::Done {
            let _planning = engine.boards.planning();
            schedule(engine).set(&id, engine.clock.now().ms() + INTERVAL_MS);
        }
        Ok(progress)
    }
}

impl HistoryRound {
    async fn step(&mut self, engine: &Engine) -> Result<Progress, Error> {
        let board = &self.live.board;
        let Some(history) = &board.history else {
            return Ok(Progress::Done);
        };
        if history.revoking.is_some() {
            // Rows stay until the revocation has come to all of them.
            return Ok(Progress::Done);
        }
        if self.next == 0 && (history.ending_since.is_some() || history.is_unsure()) {
            // From now on no shard takes a call that was made for an earlier definition.
            boards::open_shards(&engine.store, board).await?;
        }
        if history.is_unsure() && history.ending_since.is_none() {
            let known = history.known_by_all(engine.clock.now());
            change(engine, board, Some(known)).await?;
            return Ok(Progress::Done);
        }
        let Some(live) = self.live.shards.get(self.next) else {
            let is_ending = history.ending_since.is_some();
            return self.end_round(engine, is_ending).await;
        };
        let is_more = if self.drops_folded {
            let cursor = self.cursor.take();
            self.cursor = store::drop_folded(&engine.store, &live.shard, cursor.as_deref()).await?;
            self.cursor.is_some()
        } else {
            let read = fold_oldest(engine, &live.shard, &self.after, history.ending_since).await?;
            self.after = read.unwrap_or_default();
            !self.after.is_empty()
        };
        if !is_more {
            self.next += 1;
        }
        Ok(Progress::More)
    }

    /// After the last shard.
    async fn end_round(&mut self, engine: &Engine, is_ending: bool) -> Result<Progress, Error> {
        let board = Arc::clone(&self.live.board);
        // The new shards of a board that moves may have rows until all changes are copied.
        if !is_ending || board.placement.next.is_some() {
            return Ok(Progress::Done);
        }
        if !self.drops_folded {
            for live in &self.live.shards {
                if store::has_rows(&engine.store, &live.shard).await? {
                    // A member is being erased, or ids of erased events are to be remembered for longer.
                    return Ok(Progress::Done);
                }
            }
            (self.drops_folded, self.next) = (true, 0);
            return Ok(Progress::More);
        }
        if board.closes_periods() {
            // Results follow corrections only as long as there is a history.
            revisions::work::revise(engine, &board.id).await?;
            if revisions::corrected::is_any_left(engine, &self.live).await? {
                // A period that was corrected is still being closed.
                return Ok(Progress::Done);
            }
        }
        for live in &self.live.shards {
            if store::is_numbered(&engine.store, &live.shard).await? {
                // A later history numbers its revocations from 1 again.
                return Ok(Progress::Done);
            }
        }
        store::drop_revocations(&engine.store, &board).await?;
        change(engine, &board, None).await?;
        Ok(Progress::Done)
    }
}

/// Removes some rows of a shard that have run out, or any if its history ends. Takes the last text that was read before, and
/// returns the last one of now; `None` at the end.
async fn fold_oldest(
    engine: &Engine,
    shard: &Shard,
    after: &[u8],
    ending_since: Option<Timestamp>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let (now, is_ending) = (engine.clock.now(), ending_since.is_some());
    let until = shard.rows_until(now).filter(|_| !is_ending);
    if until.is_none() && !is_ending {
        return Ok(None);
    }
    let rows = store::oldest_rows(&engine.store, shard, after, until, CALL_FOLDED_MAX).await?;
    let is_full = rows.len() == CALL_FOLDED_MAX;
    let last = rows.last().filter(|_| is_full);
    let last = last.map(|placed| placed.text.to_vec());
    let remembered = shard.definition.idempotency;
    let stubs_until = match ending_since {
        // Like the ids of events that were not erased.
        Some(since) if since.saturating_add(remembered) > now => Timestamp::MIN,
        _ => until.unwrap_or(now).saturating_sub(remembered),
    };
    let read = |placed: PlacedRow| {
        let is_kept = !is_ending && !placed.row.is_empty();
        let row = is_kept.then(|| StoredRow::read(shard, &placed.row));
        Ok((placed, row.transpose()?.flatten()))
    };
    let rows: Vec<_> = rows
        .into_iter()
        .map(read)
        .collect::<Result<_, StoreError>>()?;
    if !rows.is_empty() {
        store::fold(&engine.store, shard, &rows, (now, stubs_until)).await?;
    }
    Ok(last)
}

/// Gives a board another state of its history; returns false if the board has changed. Without one, a history that was turned on
/// meanwhile begins.
pub(crate) async fn change(
    engine: &Engine,
    board: &Arc<Board>,
    history: Option<HistoryState>,
) -> Result<bool, Error> {
    let store = &engine.store;
    let key = random::hexadecimal::<HISTORY_KEY_BYTES>("")?;
    let stamp = boards::begin_change(store, &board.id).await?;
    let placed = board.placed(board.placement.clone(), stamp);
    let changed = Board { history, ..placed }.with_history(key, engine.clock.now());
    let defined = boards::define(store, &changed, Some(board), None).await?;
    if defined != Defined::Stored {
        boards::end_change(store, &board.id, stamp).await?;
    }
    engine.reload(&board.id).await?;
    boards::announce(store, &board.id, Some(stamp)).await?;
    Ok(defined == Defined::Stored)
}
