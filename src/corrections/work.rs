//! Finds the event of a correction, decides what changes, and carries it out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::counting::Concerned;
use super::store::{self, Added, ChangedRow, CorrectionCall, Ended, Folds, Watch};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::write::store::events::StoredRow;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::event::Rejection;
use crate::domain::history::HistoryState;
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::period::Period;
use crate::domain::plan::StandingName;
use crate::domain::problems::Problem;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::history::store::{CALL_ROWS_MAX, PlacedRow, RowRange, watched_rows_before};
use crate::history::work::KeptEvent;
use crate::queue::event_status::{self, EventStatus};
use crate::redis::StoreError;
use crate::runtime::join::try_join_all;

/// How long a correction waits for another one before it looks again, and how often it looks.
const LOOK_AFTER: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 400;
/// How often the last step is repeated because the member has got further rows.
const LAST_STEPS_MAX: usize = 200;

/// What is done with an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Correction {
    /// It counts no more.
    Retract,
    /// It counts again.
    Restore,
    /// It counts for another score.
    Score {
        /// The score that it counts for now, a JSON number as text.
        from: String,
        /// The one that it counts for from then on, likewise.
        score: String,
        /// Its data from then on; `None`: it keeps its data.
        data: Option<EntryData>,
    },
}

/// An event that is corrected.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its id.
    pub id: EventId,
    /// Its member, if events of several have this id.
    pub member: Option<MemberId>,
}

/// A correction that was carried out, now or before.
#[derive(Clone, Debug)]
pub struct Corrected {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The event as it was.
    pub before: KeptEvent,
    /// The event as it is.
    pub after: KeptEvent,
    /// The standings that had expired, and stay as they were.
    pub expired: Vec<StandingName>,
}

impl Correction {
    /// The row after the correction; `None` if it is so already.
    fn of(
        &self,
        board: &Board,
        row: &StoredRow,
        now: Timestamp,
    ) -> Result<Option<StoredRow>, Error> {
        let mut after = row.clone();
        match self {
            Self::Retract => after.is_out = true,
            Self::Restore => after.is_out = false,
            Self::Score { from, score, data } => {
                let read = |text: &String| {
                    let score = Score::parse(text, board.definition.decimals);
                    score.map_err(|error| Problem::score(text, &error))
                };
                let (from, score) = (read(from)?, read(score)?);
                if data.is_some() && !board.definition.entry_data {
                    return Err(Problem::no_entry_data(&board.id).into());
                }
                after.details.score = score;
                after.details.data = data.clone().or(after.details.data);
                if after != *row {
                    require_from(board, row, from)?;
                    require_bounds(board, &after, now)?;
                }
            }
        }
        Ok((after != *row).then_some(after))
    }
}

/// Refuses a correction of an event that counts for another score than the caller knows.
fn require_from(board: &Board, row: &StoredRow, from: Score) -> Result<(), Problem> {
    let own = row.details.score;
    if own == from {
        return Ok(());
    }
    let shown = |score: Score| score.shown(board.definition.decimals);
    Err(Problem::score_changed(&shown(own), &shown(from)))
}

/// Refuses a score that the board would not take with an event.
fn require_bounds(board: &Board, row: &StoredRow, now: Timestamp) -> Result<(), Error> {
    let definition = &board.definition;
    let score = row.details.score;
    if !definition.takes_score(score) {
        return Err(Error::out_of_bounds(definition, score));
    }
    let tracks = board.tracks().iter();
    let weighed = tracks.map(|track| board.weighed(&row.details.member, score, *track));
    if weighed.into_iter().any(|score| score.is_none()) {
        let beyond = Rejection::OutOfRange(definition.windows[0]);
        return Err(Error::rejected(board, beyond, row.at, now));
    }
    Ok(())
}

/// Corrects an event that a board keeps. Repeating it changes nothing.
///
/// # Errors
///
/// [`Problem::history_off`], [`Problem::event_not_kept`], [`Problem::event_waiting`], [`Problem::event_of_several`],
/// [`Problem::score_changed`], [`Problem::correction_while_moving`], [`Problem::correction_beyond`], [`Problem::score`].
pub async fn correct(
    engine: &Engine,
    id: &BoardId,
    event: &Named,
    correction: &Correction,
) -> Result<Corrected, Error> {
    engine
        .with_board(id, async |live| {
            let (shard, member) = find(engine, &live, event).await?;
            correct_in(engine, live, shard, (event, &member), correction).await
        })
        .await
}

/// The index of the shard that keeps an event, and the event's member.
async fn find(
    engine: &Engine,
    live: &LiveBoard,
    event: &Named,
) -> Result<(usize, MemberId), Error> {
    let board = &live.board;
    if !board.keeps_events() {
        return Err(Problem::history_off(&board.id).into());
    }
    let own = event.member.as_ref().map(|member| board.shard_of(member));
    let asked = (0..live.shards.len()).filter(|shard| own.is_none_or(|own| own == *shard));
    let looks = asked.map(async |shard| {
        let row = store::row(&engine.store, &live.shards[shard].shard, &event.id).await?;
        Ok::<_, Error>((shard, row))
    });
    let mut found = Vec::new();
    for (shard, row) in try_join_all(looks).await? {
        let row = row.map(|row| StoredRow::read(board, &row)).transpose()?;
        let member = row.flatten().map(|row| row.details.member);
        let is_wanted = |own: &MemberId| event.member.as_ref().is_none_or(|wanted| wanted == own);
        found.extend(member.filter(is_wanted).map(|member| (shard, member)));
    }
    match found.as_slice() {
        [] => Err(not_kept(engine, live, event).await?),
        [(shard, member)] => Ok((*shard, member.clone())),
        found => {
            let members: Vec<_> = found.iter().map(|(_, member)| member.as_str()).collect();
            Err(Problem::event_of_several(event.id.as_sent(), &members.join(", ")).into())
        }
    }
}

/// Why a board keeps no event with an id.
async fn not_kept(engine: &Engine, live: &LiveBoard, event: &Named) -> Result<Error, Error> {
    let board = &live.board;
    let (id, member) = (&event.id, event.member.as_ref());
    let (_, known) = event_status::find(engine, &board.id, id, member).await?;
    let waits = |status: &EventStatus| matches!(status, EventStatus::Queued(_));
    if known.iter().any(waits) {
        return Ok(Problem::event_waiting(id.as_sent()).into());
    }
    let shards = live.shards.iter();
    let from = shards.map(|live| store::events_from(&engine.store, &live.shard));
    let gone = try_join_all(from).await?.into_iter().flatten().max();
    let begun = board.history.as_ref().and_then(HistoryState::since);
    let reach = match gone.max(begun) {
        Some(reach) if reach > Timestamp::MIN => format!("since {reach}"),
        _ => "since it was created".to_owned(),
    };
    Ok(Problem::event_not_kept(&board.id, id.as_sent(), &reach).into())
}

async fn correct_in(
    engine: &Engine,
    live: Arc<LiveBoard>,
    shard: usize,
    (event, member): (&Named, &MemberId),
    correction: &Correction,
) -> Result<Corrected, Error> {
    let (store, own) = (&engine.store, &live.shards[shard].shard);
    let watch = begin(engine, own, member).await?;
    let corrected = correct_watched(engine, &live, own, (event, &watch), correction).await;
    match &corrected {
        // The last step has ended it.
        Ok((_, _, Some(_))) => {}
        _ => store::end(store, own, &watch).await?,
    }
    let (before, after, expired) = corrected?;
    let kept = |row| KeptEvent {
        id: event.id.clone(),
        row,
    };
    Ok(Corrected {
        before: kept(before),
        after: kept(after),
        expired: expired.unwrap_or_default(),
        live,
    })
}

/// Corrects an event while its member is watched. Returns the row before and after, and the standings that have expired; `None`
/// if nothing has changed.
async fn correct_watched(
    engine: &Engine,
    live: &LiveBoard,
    own: &Shard,
    (event, watch): (&Named, &Watch),
    correction: &Correction,
) -> Result<(StoredRow, StoredRow, Option<Vec<StandingName>>), Error> {
    let again = || Error::Again(Outdated::Read);
    let stored = store::row(&engine.store, own, &event.id)
        .await?
        .ok_or_else(again)?;
    let row = StoredRow::read(own, &stored)?.ok_or_else(again)?;
    let Some(after) = correction.of(own, &row, engine.clock.now())? else {
        return Ok((row.clone(), row, None));
    };
    let changed = ChangedRow {
        id: event.id.clone(),
        after: after.encode_over(&stored)?,
        before: stored,
        counted: i8::from(!after.is_out) - i8::from(!row.is_out),
    };
    let concerned = Concerned::by(own, &row);
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
        changed: &changed,
        folds: vec![Bytes::new(); concerned.standings.len()],
        parts: Vec::new(),
    };
    let has_results = own.closes_periods();
    if has_results {
        // Before, so that no crash loses it, and after, in case the job has handled it meanwhile.
        board_notes::note(&engine.store, NotedFor::Revision, &live.board).await?;
    }
    let ended = work.run().await;
    if has_results {
        board_notes::note(&engine.store, NotedFor::Revision, &live.board).await?;
    }
    let expired = match ended? {
        Ended::Done(expired) => expired,
        Ended::More(..) | Ended::Again => return Err(again()),
        Ended::Gone => return Err(not_kept(engine, live, event).await?),
        Ended::Closed => return Err(Problem::correction_while_moving(&own.id).into()),
        Ended::OutOfRange => return Err(beyond(own, &after)),
    };
    let names = expired.iter().filter_map(|place| {
        let period = concerned.standings.get(*place)?.standing.period;
        let window = Window::Period(period.unit);
        let is_shown = own.definition.windows.contains(&window);
        is_shown.then(|| name_of(own, &period))
    });
    let mut expired: Vec<StandingName> = names.collect();
    expired.dedup();
    Ok((row, after, Some(expired)))
}

fn name_of(board: &Board, period: &Period) -> StandingName {
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
    changed: &'a ChangedRow,
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
        for _ in 0..LAST_STEPS_MAX {
            let added = self.added(&rows);
            let last = (self.changed, seen);
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

    /// Reads rows, the changed one as it is to be.
    fn read(&self, placed: &[PlacedRow]) -> Result<Vec<StoredRow>, StoreError> {
        let mut rows = Vec::with_capacity(placed.len());
        for placed in placed {
            let id = self.range.event_id(&placed.text);
            let is_changed = id.as_ref() == Some(&self.changed.id);
            let row: &[u8] = if is_changed {
                &self.changed.after
            } else {
                &placed.row
            };
            // Without one its member is being erased, which the last step notices.
            if !row.is_empty() {
                rows.extend(StoredRow::read(self.call.shard, row)?);
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
