//! Carries out changes of a member's rows: reads its rows in parts, and changes the rows and all entries in a last step.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::sleep;

use super::counting::Concerned;
use super::store::{self, Added, AddedArgs, CorrectionCall, Ended, Folds, Watch};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::write::store::events::StoredRow;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::event::Rejection;
use crate::domain::ids::{EventId, MemberId};
use crate::domain::message::{Message, MessageKind};
use crate::domain::period::Period;
use crate::domain::plan::StandingName;
use crate::domain::problems::Problem;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::history::store::{CALL_ROWS_MAX, PlacedRow, RowRange, watched_rows_before};
use crate::periods::revisions;
use crate::redis::StoreError;
use crate::webhooks::outbox;

/// How long a correction waits for another one before it looks again, and how often it looks.
const LOOK_AFTER: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 400;
/// How often the last step is repeated because the member has got further rows.
const LAST_STEPS_MAX: usize = 200;
/// What came of a correction while its member was watched.
pub(super) enum Watched<T> {
    /// It was carried out, which has ended the watch.
    Ended(T),
    /// Nothing was to be done.
    Unchanged(T),
}

/// Watches a member while a correction is worked on, once no other one runs in the shard.
pub(super) async fn watched<T>(
    engine: &Engine,
    shard: &Shard,
    member: &MemberId,
    work: impl AsyncFnOnce(&Watch) -> Result<Watched<T>, Error>,
) -> Result<T, Error> {
    let watch = begin(engine, shard, member).await?;
    let worked = work(&watch).await;
    if let Ok(Watched::Ended(done)) = worked {
        return Ok(done);
    }
    // Also where nothing changes, this waits for replicas, so that they have what an earlier attempt has written.
    store::end(&engine.store, shard, &watch).await?;
    if worked.is_ok() && shard.closes_periods() {
        // An earlier attempt may have died before it noted this.
        board_notes::note(&engine.store, NotedFor::Revision, shard).await?;
    }
    worked.map(|(Watched::Ended(done) | Watched::Unchanged(done))| done)
}

/// The change of a row.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The id of its event.
    pub(super) id: EventId,
    /// The row as it was read; `None` if it is added.
    pub(super) before: Option<(Bytes, StoredRow)>,
    /// As it is to be from now on.
    pub(super) after: StoredRow,
    /// What one that is added has besides.
    pub(super) added: Option<AddedArgs>,
}

impl Change {
    /// How many events count more than before, but for an added one.
    pub(super) fn counted(&self) -> i64 {
        let counts = |row: &StoredRow| i64::from(!row.is_out());
        let before = self.before.as_ref();
        before.map_or(0, |(_, before)| counts(&self.after) - counts(before))
    }

    /// The row from now on as it is stored; of one that is added, its details.
    pub(super) fn stored(&self) -> Result<Vec<u8>, StoreError> {
        match &self.before {
            Some((stored, _)) => self.after.encode_over(stored),
            None => Ok(self.after.details.encode()),
        }
    }
}

/// How a change ended.
pub(super) enum Carried {
    /// It is done, but for these standings, which have expired.
    Out(Vec<StandingName>),
    /// Nothing was changed: the member is being erased.
    Gone,
}

/// Changes one row and the standings in which it counts, and tells webhooks and the job that revises results.
pub(super) async fn carry_out_one(
    engine: &Engine,
    live: &LiveBoard,
    own: &Shard,
    watch: &Watch,
    (kind, change): (MessageKind, Change),
) -> Result<Carried, Error> {
    let at = change.after.at;
    let has_results = own.closes_periods();
    if has_results {
        // Before, so that no crash loses it, and after, in case the job has handled it meanwhile.
        revisions::work::begin_change(engine, &live.board).await?;
    }
    let carried = carry_out(engine, own, watch, &[change]).await;
    if has_results {
        board_notes::note(&engine.store, NotedFor::Revision, &live.board).await?;
    }
    let carried = carried?;
    if matches!(carried, Carried::Out(_)) {
        post(engine, live, (kind, at), &watch.occasion(own)).await?;
    }
    Ok(carried)
}

/// Changes rows of one member and the standings in which they count. An added row is alone.
pub(super) async fn carry_out(
    engine: &Engine,
    own: &Shard,
    watch: &Watch,
    changes: &[Change],
) -> Result<Carried, Error> {
    let Some(Change { after: row, .. }) = changes.first() else {
        return Ok(Carried::Out(Vec::new()));
    };
    let concerned = Concerned::by(own, changes);
    let call = CorrectionCall {
        store: &engine.store,
        shard: own,
        watch,
        concerned: &concerned,
        clock: &engine.clock,
    };
    let mut work = Work {
        call,
        range: RowRange::Member(row.details.member.clone(), concerned.between),
        changes,
        changed: changes
            .iter()
            .map(|change| (&change.id, &change.after))
            .collect(),
        folds: vec![Bytes::new(); concerned.standings.len()],
        parts: Vec::new(),
    };
    let rejected = |rejection| Error::rejected(own, rejection, row.at, engine.clock.now());
    let expired = match work.run().await? {
        Ended::Done(expired) => expired,
        Ended::More(..) | Ended::Again => return Err(Error::Again(Outdated::Read)),
        Ended::Gone => return Ok(Carried::Gone),
        Ended::Closed => return Err(Problem::correction_while_moving(&own.id).into()),
        Ended::OutOfRange => return Err(beyond(own, row)),
        Ended::Erased(at) => return Err(rejected(Rejection::Erased(at))),
        Ended::Reused => return Err(rejected(Rejection::IdReused)),
    };
    let names = expired.iter().filter_map(|place| {
        let period = concerned.standings.get(*place)?.standing.period;
        let window = Window::Period(period.unit);
        let is_shown = own.definition.windows.contains(&window);
        is_shown.then(|| name_of(own, &period))
    });
    let mut expired: Vec<StandingName> = names.collect();
    expired.dedup();
    Ok(Carried::Out(expired))
}

/// Posts the message of a correction of an event at this instant.
async fn post(
    engine: &Engine,
    live: &LiveBoard,
    (kind, at): (MessageKind, Timestamp),
    occasion: &str,
) -> Result<(), Error> {
    let (store, board) = (&engine.store, &live.board);
    let message = Message::new(
        kind,
        board,
        occasion,
        engine.clock.now(),
        &json!({"at": at}),
    );
    outbox::store::post(store, board, &[message]).await?;
    Ok(board_notes::note(store, NotedFor::Outbox, board).await?)
}

pub(super) fn name_of(board: &Board, period: &Period) -> StandingName {
    StandingName {
        window: Window::Period(period.unit).to_string().into(),
        key: board.calendar.key(period).into(),
    }
}

fn beyond(board: &Board, row: &StoredRow) -> Error {
    let max = board.definition.decimals.score_max();
    let max = max.shown(board.definition.decimals);
    let member = &row.details.member;
    Problem::correction_beyond(member, &max).into()
}

/// Begins a correction once no other one runs.
async fn begin(engine: &Engine, shard: &Shard, member: &MemberId) -> Result<Watch, Error> {
    for _ in 0..LOOKS_MAX {
        let now = engine.clock.now();
        if let Some(watch) = store::begin(&engine.store, shard, member, now).await? {
            return Ok(watch);
        }
        sleep(LOOK_AFTER).await;
    }
    Err(Error::busy())
}

/// A correction that runs.
struct Work<'a> {
    call: CorrectionCall<'a>,
    range: RowRange,
    changes: &'a [Change],
    /// The changed rows, by their ids, as they are to be.
    changed: HashMap<&'a EventId, &'a StoredRow>,
    folds: Folds,
    /// For each part of the rows, the last first: the first text that it covers, and how many bytes of texts were listed when
    /// it was read.
    parts: Vec<(Bytes, usize)>,
}

impl Work<'_> {
    async fn run(&mut self) -> Result<Ended, StoreError> {
        loop {
            let before = self.parts.last().map(|(first, _)| first.clone());
            let (listed, rows) = watched_rows_before(
                self.call.store,
                self.call.shard,
                &self.range,
                before.as_deref(),
                CALL_ROWS_MAX,
            )
            .await?;
            let is_last = rows.len() < CALL_ROWS_MAX;
            let first = rows.last().filter(|_| !is_last);
            let first = first.map_or_else(Bytes::new, |placed| placed.text.clone());
            self.parts.push((first, listed));
            if is_last {
                return self.end(rows).await;
            }
            let rows = self.read(&rows)?;
            let Some(folds) = store::fold(&self.call, &self.folds, &self.added(&rows)).await?
            else {
                return Ok(Ended::Again);
            };
            self.folds = folds;
        }
    }

    /// The last step, with the rest of the rows.
    async fn end(&mut self, rest: Vec<PlacedRow>) -> Result<Ended, StoreError> {
        let (mut rows, mut seen) = (self.read(&rest)?, 0);
        let is_added = |change: &&Change| change.before.is_none();
        let added = self.changes.iter().filter(is_added);
        rows.extend(added.map(|change| change.after.clone()));
        for _ in 0..LAST_STEPS_MAX {
            let added = self.added(&rows);
            let last = (self.changes, seen);
            match store::correct(&self.call, &self.folds, &added, last).await? {
                Ended::More(listed, placed) => {
                    let further = self.unread(placed, seen);
                    seen = listed;
                    rows.extend(self.read(&further)?);
                }
                ended => return Ok(ended),
            }
            if rows.len() > CALL_ROWS_MAX {
                let folds = store::fold(&self.call, &self.folds, &self.added(&rows)).await?;
                let Some(folds) = folds else {
                    return Ok(Ended::Again);
                };
                self.folds = folds;
                rows.clear();
            }
        }
        Ok(Ended::Again)
    }

    /// Of listed rows, those that were not there yet when their part was read. Their list begins after this many bytes.
    fn unread(&self, placed: Vec<PlacedRow>, mut listed: usize) -> Vec<PlacedRow> {
        /// The length of the length of a listed text.
        const LENGTH_BYTES: usize = 2;
        let mut unread = Vec::new();
        for placed in placed {
            let covers = |(first, _): &&(Bytes, usize)| *first <= placed.text;
            let part = self.parts.iter().find(covers);
            let is_read = part.is_some_and(|(_, listed_then)| listed < *listed_then);
            listed += LENGTH_BYTES + placed.text.len();
            if !is_read {
                unread.push(placed);
            }
        }
        unread
    }

    /// Reads rows, the changed ones as they are to be.
    fn read(&self, placed: &[PlacedRow]) -> Result<Vec<StoredRow>, StoreError> {
        let mut rows = Vec::with_capacity(placed.len());
        for placed in placed {
            let id = self.range.event_id(&placed.text);
            let changed = id.and_then(|id| self.changed.get(&id).copied());
            if let Some(changed) = changed {
                rows.push(changed.clone());
            } else if !placed.row.is_empty() {
                // Without one its member is being erased, which the last step notices.
                rows.extend(StoredRow::read(self.call.shard, &placed.row)?);
            }
        }
        Ok(rows)
    }

    /// What rows add, by the standings.
    fn added<'r>(&self, rows: &'r [StoredRow]) -> Added<'r> {
        let concerned = self.call.concerned;
        let mut added = vec![Vec::new(); concerned.standings.len()];
        for row in rows {
            for (place, args) in concerned.added(self.call.shard, row) {
                added[place].push(args);
            }
        }
        added
    }
}
