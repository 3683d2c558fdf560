//! Finds the event of a correction, decides what changes, and carries it out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::sleep;

use super::counting::Concerned;
use super::store::{self, Added, AddedArgs, ChangedRow, CorrectionCall, Ended, Folds, Watch};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::board::store::boards;
use crate::core::write::events::IncomingEvent;
use crate::core::write::store::events::{self, StoredRow};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::event::{Event, FUTURE_MS_MAX, Rejection, Status};
use crate::domain::history::{HistoryState, RowDetails};
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::message::{Message, MessageKind};
use crate::domain::period::Period;
use crate::domain::plan::StandingName;
use crate::domain::problems::Problem;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::history::store::{CALL_ROWS_MAX, PlacedRow, RowRange, watched_rows_before};
use crate::history::work::KeptEvent;
use crate::periods::revisions;
use crate::queue::event_status::{self, EventStatus};
use crate::redis::StoreError;
use crate::runtime::join::try_join_all;
use crate::webhooks::outbox;

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
    /// The event as it was; `None` if it was added.
    pub before: Option<KeptEvent>,
    /// The event as it is.
    pub after: KeptEvent,
    /// The standings that had expired, and stay as they were.
    pub expired: Vec<StandingName>,
}

impl Correction {
    /// What webhooks are told.
    fn kind(&self) -> MessageKind {
        match self {
            Self::Retract => MessageKind::EventRetracted,
            Self::Restore => MessageKind::EventRestored,
            Self::Score { .. } => MessageKind::EventCorrected,
        }
    }

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
            // No script notices that what refuses it is out of date.
            boards::require_current(&engine.store, &live.board).await?;
            let (shard, member, id) = find(engine, &live, event).await?;
            let event = Named {
                id,
                ..event.clone()
            };
            correct_in(engine, live, shard, (&event, &member), correction).await
        })
        .await
}

/// The index of the shard that keeps an event, the event's member, and the id under which it is kept.
async fn find(
    engine: &Engine,
    live: &LiveBoard,
    event: &Named,
) -> Result<(usize, MemberId, EventId), Error> {
    let board = &live.board;
    if !board.keeps_events() {
        return Err(Problem::history_off(&board.id).into());
    }
    // An event of a record without an id has the place of the record.
    for id in [event.id.clone(), EventId::of_place(&event.id)] {
        let found = look(engine, live, (&id, event.member.as_ref())).await?;
        match found.as_slice() {
            [] => {}
            [(shard, member)] => return Ok((*shard, member.clone(), id)),
            found => {
                let members: Vec<_> = found.iter().map(|(_, member)| member.as_str()).collect();
                let members = members.join(", ");
                return Err(Problem::event_of_several(id.as_sent(), &members).into());
            }
        }
    }
    Err(not_kept(engine, live, event).await?)
}

/// The shards that keep an event under an id, of this member if one is given, and the events' members.
async fn look(
    engine: &Engine,
    live: &LiveBoard,
    (id, member): (&EventId, Option<&MemberId>),
) -> Result<Vec<(usize, MemberId)>, Error> {
    let board = &live.board;
    let own = member.map(|member| board.shard_of(member));
    let asked = (0..live.shards.len()).filter(|shard| own.is_none_or(|own| own == *shard));
    let looks = asked.map(async |shard| {
        let row = store::row(&engine.store, &live.shards[shard].shard, id).await?;
        Ok::<_, Error>((shard, row))
    });
    let mut found = Vec::new();
    for (shard, row) in try_join_all(looks).await? {
        let row = row.map(|row| StoredRow::read(board, &row)).transpose()?;
        let own = row.flatten().map(|row| row.details.member);
        let is_wanted = |own: &MemberId| member.is_none_or(|wanted| wanted == own);
        found.extend(own.filter(is_wanted).map(|own| (shard, own)));
    }
    Ok(found)
}

/// Why a board keeps no event with an id.
async fn not_kept(engine: &Engine, live: &LiveBoard, event: &Named) -> Result<Error, Error> {
    let board = &live.board;
    let (id, member) = (&event.id, event.member.as_ref());
    let (_, known) = event_status::find(engine, &board.id, id, member).await?;
    if known.iter().any(EventStatus::waits) {
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
    let own = &live.shards[shard].shard;
    let rows = watched(engine, own, member, async |watch| {
        let again = || Error::Again(Outdated::Read);
        let stored = store::row(&engine.store, own, &event.id).await?;
        let stored = stored.ok_or_else(again)?;
        let row = StoredRow::read(own, &stored)?.ok_or_else(again)?;
        let Some(after) = correction.of(own, &row, engine.clock.now())? else {
            return Ok(Watched::Unchanged((row.clone(), row, Vec::new())));
        };
        let changed = ChangedRow {
            id: event.id.clone(),
            after: after.encode_over(&stored)?,
            before: stored,
            counted: i8::from(!after.is_out) - i8::from(!row.is_out),
            added: None,
        };
        let kind = correction.kind();
        let change = Change {
            kind,
            row: &row,
            changed: &changed,
        };
        let expired = match carry_out(engine, &live, own, watch, &change).await? {
            Carried::Out(expired) => expired,
            Carried::Gone => return Err(not_kept(engine, &live, event).await?),
        };
        Ok(Watched::Ended((row, after, expired)))
    });
    let (before, after, expired) = rows.await?;
    let kept = |row| KeptEvent {
        id: event.id.clone(),
        row,
    };
    Ok(Corrected {
        before: Some(kept(before)),
        after: kept(after),
        expired,
        live,
    })
}

/// Adds an event to those that a board has accepted, whatever its times and quotas say. If it was accepted before, nothing
/// changes.
///
/// # Errors
///
/// [`Problem::history_off`], [`Problem::event_waiting`], [`Problem::correction_while_moving`],
/// [`Problem::correction_beyond`]; [`Rejection::IdReused`] and others of an event.
pub async fn amend(
    engine: &Engine,
    id: &BoardId,
    incoming: &IncomingEvent,
) -> Result<Corrected, Error> {
    let event_id = match &incoming.id {
        Some(id) => id.clone(),
        None => incoming.new_id()?,
    };
    engine
        .with_board(id, async |live| {
            let board = &live.board;
            boards::require_current(&engine.store, board).await?;
            if !board.keeps_events() {
                return Err(Problem::history_off(&board.id).into());
            }
            let event = Event {
                id: Some(event_id.clone()),
                ..incoming.event(board)?
            };
            if incoming.id.is_some() {
                require_not_waiting(engine, board, &event_id, &event.member).await?;
            }
            engine.note_use(&live).await?;
            amend_on(engine, live, &event_id, &event).await
        })
        .await
}

async fn amend_on(
    engine: &Engine,
    live: Arc<LiveBoard>,
    id: &EventId,
    event: &Event,
) -> Result<Corrected, Error> {
    let (store, now) = (&engine.store, engine.clock.now());
    let own = &live.shard_of(&event.member).shard;
    let at = event.at.unwrap_or(now);
    let rejected = |rejection| Error::rejected(own, rejection, at, now);
    if at.ms() > now.ms().saturating_add(FUTURE_MS_MAX) {
        return Err(rejected(Rejection::InFuture));
    }
    let row = StoredRow {
        is_out: false,
        accepted_at: now,
        at,
        erasure: 0,
        status: Status::Applied,
        details: RowDetails::new(own, event),
    };
    require_bounds(own, &row, now)?;
    let changed = ChangedRow {
        id: id.clone(),
        before: Bytes::new(),
        after: row.details.encode(),
        counted: 0,
        added: Some(AddedArgs::new(own, event, at)),
    };
    let read = async || {
        let stored = store::row(store, own, id).await?;
        let row = stored
            .map(|stored| StoredRow::read(own, &stored))
            .transpose()?;
        Ok::<_, Error>(row.flatten())
    };
    let expired = watched(engine, own, &event.member, async |watch| {
        let mut known = events::remembered(store, own, id).await?;
        if known.is_none() {
            known = engine.known_before(&live, id, &event.member).await?;
        }
        if let Some(known) = known {
            if known.fingerprint != event.fingerprint() {
                return Err(rejected(Rejection::IdReused));
            }
            return Ok(Watched::Unchanged(None));
        }
        let kind = MessageKind::EventAmended;
        let change = Change {
            kind,
            row: &row,
            changed: &changed,
        };
        match carry_out(engine, &live, own, watch, &change).await? {
            Carried::Out(expired) => Ok(Watched::Ended(Some(expired))),
            Carried::Gone => {
                engine.forget_all(&own.id).await?;
                Err(Error::Again(Outdated::Read))
            }
        }
    });
    let expired = expired.await?;
    // One that was accepted before, and whose row has run out, can't be shown.
    let row = read().await?.ok_or_else(|| rejected(Rejection::IdReused))?;
    let kept = KeptEvent {
        id: id.clone(),
        row,
    };
    Ok(Corrected {
        before: expired.is_none().then(|| kept.clone()),
        after: kept,
        expired: expired.unwrap_or_default(),
        live,
    })
}

/// Refuses to correct or to add an event that waits in the queue.
async fn require_not_waiting(
    engine: &Engine,
    board: &Board,
    id: &EventId,
    member: &MemberId,
) -> Result<(), Error> {
    let (_, known) = event_status::find(engine, &board.id, id, Some(member)).await?;
    if known.iter().any(EventStatus::waits) {
        return Err(Problem::event_waiting(id.as_sent()).into());
    }
    Ok(())
}

/// What came of a correction while its member was watched.
enum Watched<T> {
    /// It was carried out, which has ended the watch.
    Ended(T),
    /// Nothing was to be done.
    Unchanged(T),
}

/// Watches a member while a correction is worked on, once no other one runs in the shard.
async fn watched<T>(
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

/// The change of a row, and what webhooks hear of it.
struct Change<'a> {
    kind: MessageKind,
    /// The row before, or the one that is added.
    row: &'a StoredRow,
    changed: &'a ChangedRow,
}

/// How a change ended.
enum Carried {
    /// It is done, but for these standings, which have expired.
    Out(Vec<StandingName>),
    /// Nothing was changed: the member is being erased.
    Gone,
}

/// Changes a row and the standings in which it counts.
async fn carry_out(
    engine: &Engine,
    live: &LiveBoard,
    own: &Shard,
    watch: &Watch,
    change: &Change<'_>,
) -> Result<Carried, Error> {
    let Change { kind, row, changed } = *change;
    let concerned = Concerned::by(own, row);
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
        changed,
        added: changed.added.as_ref().map(|_| row),
        folds: vec![Bytes::new(); concerned.standings.len()],
        parts: Vec::new(),
    };
    let has_results = own.closes_periods();
    if has_results {
        // Before, so that no crash loses it, and after, in case the job has handled it meanwhile.
        revisions::work::begin_change(engine, &live.board).await?;
    }
    let ended = work.run().await;
    if has_results {
        board_notes::note(&engine.store, NotedFor::Revision, &live.board).await?;
    }
    let rejected = |rejection| Error::rejected(own, rejection, row.at, engine.clock.now());
    let expired = match ended? {
        Ended::Done(expired) => expired,
        Ended::More(..) | Ended::Again => return Err(Error::Again(Outdated::Read)),
        Ended::Gone => return Ok(Carried::Gone),
        Ended::Closed => return Err(Problem::correction_while_moving(&own.id).into()),
        Ended::OutOfRange => return Err(beyond(own, row)),
        Ended::Erased(at) => return Err(rejected(Rejection::Erased(at))),
        Ended::Reused => return Err(rejected(Rejection::IdReused)),
    };
    post(engine, live, (kind, row.at), &watch.occasion(own)).await?;
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
    /// The row that is added, if one is.
    added: Option<&'a StoredRow>,
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
        rows.extend(self.added.cloned());
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
