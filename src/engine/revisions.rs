//! Revises the results of final periods after members were hidden or brought back: who has won, how many members there are, and
//! who gets which reward.
//!
//! Each line of a journal of hides is one revision of each result whose standing has the member. Lines are taken in their
//! order, and a result says up to which line of each shard it was revised. So any number of callers may revise at once, and stop
//! half-way. Who needs a result that is up to date revises it; otherwise a job does.

use std::collections::BTreeMap;
use std::ops::Bound;

use futures::future::{join_all, try_join_all};
use parking_lot::Mutex;
use serde_json::json;

use super::jobs::faults::Subject;
use super::jobs::{Job, JobKind, Progress};
use super::merge::Merged;
use super::reader::{ReadError, Reader};
use super::results::standing_of;
use super::rewards::Handing;
use super::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::message::{Message, MessageKind};
use crate::domain::period::{Period, Unit};
use crate::domain::shard::Shard;
use crate::domain::window::Window;
use crate::store::closings::Keys;
use crate::store::results::PeriodResult;
use crate::store::revisions::{JournalLine, ModeratedNote, Moderation, RevisedPeriod, Revision};
use crate::store::standings::{Mark, Query, Sight, Subset};
use crate::store::{Freshness, Versioned};

/// How many periods are looked at side by side.
const PERIODS_AT_ONCE: usize = 100;
/// How many periods a message names.
const NAMED_MAX: usize = 100;

/// Which hides are in all results of a board: up to which number, by the tags of the shards. Of a shard that is missing, all
/// are that there are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Revised(BTreeMap<String, u64>);

impl Revised {
    /// Whether these hides of a shard are in all results.
    pub(crate) fn has(&self, tag: &str, hides: u64) -> bool {
        self.0.get(tag).is_none_or(|known| *known >= hides)
    }
}

impl Engine {
    /// Notes that somebody is about to hide a member of a shard, or to bring it back.
    pub(super) async fn begin_moderation(&self, board: &Board, shard: &Shard) -> Result<(), Error> {
        self.store.note_moderated(board).await?;
        let known = self.store.revised(board).await?;
        if !known.contains_key(shard.tag()) {
            // What was hidden before is in all results that there are.
            let last = self.store.moderated(shard).await?.hides;
            let begun = self.store.note_lines(board, shard.tag(), (None, last), &[]);
            begun.await?;
        }
        Ok(())
    }

    /// Takes the revision of all results of a board to its end. All hides that were answered before are in them then.
    pub(crate) async fn revise(&self, id: &BoardId) -> Result<Revised, Error> {
        let left = || format!("the results of board {id} are still being revised");
        let revised = Mutex::default();
        let step = || async {
            let Some(done) = self.revise_on(id).await? else {
                return Ok(Progress::More);
            };
            *revised.lock() = done;
            Ok(Progress::Done)
        };
        self.take_steps(step, left).await?;
        Ok(revised.into_inner())
    }

    /// Revises results of a board by a bounded step; `None` if there may be more to do.
    async fn revise_on(&self, id: &BoardId) -> Result<Option<Revised>, Error> {
        let live = self.live_board(id).await?;
        let known = self.store.revised(&live.board).await?;
        if known.is_empty() {
            return Ok(Some(Revised(known)));
        }
        let shards = live.shards.iter().map(|live| &live.shard);
        let noted = shards.filter_map(|shard| {
            let known = *known.get(shard.tag())?;
            Some(self.note_journal(&live.board, shard, known, false))
        });
        match try_join_all(noted).await {
            Ok(noted) if noted.contains(&true) => return Ok(None),
            Ok(_) => {}
            Err(ReadError::Retry) => return self.reload(id).await.map(|()| None),
            Err(ReadError::Failed(error)) => return Err(error),
        }
        let Some(cause) = self.store.line_to_revise(&live.board).await? else {
            return Ok(Some(Revised(known)));
        };
        match self.revise_by(&live, &cause).await {
            Ok(()) => {}
            Err(ReadError::Retry) => self.reload(id).await?,
            Err(ReadError::Failed(error)) => return Err(error),
        }
        Ok(None)
    }

    /// Notes some lines of a shard's journal behind the one that is `known`. Returns whether there may be more.
    pub(super) async fn note_journal(
        &self,
        board: &Board,
        shard: &Shard,
        known: u64,
        is_closed: bool,
    ) -> Result<bool, ReadError> {
        let journal = self.store.journal(shard, known, is_closed).await?;
        let (last, lines) = journal.ok_or(ReadError::Retry)?;
        if last <= known {
            return Ok(false);
        }
        let noted = self
            .store
            .note_lines(board, shard.tag(), (Some(known), last), &lines);
        noted.await?.ok_or(ReadError::Retry)?;
        Ok(true)
    }

    /// Revises all results by a line, and tells of it.
    async fn revise_by(&self, live: &LiveBoard, cause: &JournalLine) -> Result<(), ReadError> {
        let board = &live.board;
        let windows = board.definition.windows.iter();
        for unit in windows.filter_map(|window| match window {
            Window::Period(unit) => Some(*unit),
            Window::Rolling { .. } => None,
        }) {
            self.revise_unit(live, unit, cause).await?;
        }
        let periods = self.store.revised_periods(board, cause).await?;
        let messages = messages_of(self, board, cause, &periods);
        if !messages.is_empty() {
            self.store
                .post(board, &messages)
                .await?
                .ok_or(ReadError::Retry)?;
            self.store.note_outbox(board).await?;
        }
        Ok(self.store.end_line(board, cause).await?)
    }

    /// Revises the results of the periods of a unit by a line.
    async fn revise_unit(
        &self,
        live: &LiveBoard,
        unit: Unit,
        cause: &JournalLine,
    ) -> Result<(), ReadError> {
        let shard = &live.shard_of(&cause.member).shard;
        let mut after: Option<String> = None;
        loop {
            let keys = Keys {
                from: after.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
                to: Bound::Unbounded,
                is_newest_first: false,
            };
            let found = self
                .store
                .periods(shard, unit, keys, PERIODS_AT_ONCE)
                .await?;
            let keys = found.ok_or(ReadError::Retry)?;
            self.revise_periods(live, (unit, &keys), cause).await?;
            if keys.len() < PERIODS_AT_ONCE {
                return Ok(());
            }
            after = keys.into_iter().next_back();
        }
    }

    /// Revises the results of some periods by a line.
    async fn revise_periods(
        &self,
        live: &LiveBoard,
        (unit, keys): (Unit, &[String]),
        cause: &JournalLine,
    ) -> Result<(), ReadError> {
        let (board, window) = (&live.board, Window::Period(unit));
        let results = self.store.results(board, window, keys).await?;
        let recorded = keys.iter().zip(results).filter_map(|(key, recorded)| {
            let is_due = !cause.is_in(&recorded?.result.hides);
            let period = board.calendar.parse_key(unit, key).ok()?;
            is_due.then_some(period)
        });
        let now_ms = self.clock.now().ms();
        let is_kept = |period: &Period| {
            let expires_ms = board.expires_at_ms(period);
            expires_ms.is_none_or(|expires_ms| expires_ms > now_ms)
        };
        let periods: Vec<Period> = recorded.filter(is_kept).collect();
        let places = periods
            .iter()
            .map(|period| self.find(live, period, &cause.member));
        let places = join_all(places).await;
        for (period, mark) in periods.iter().zip(places) {
            if let Some(mark) = mark? {
                self.revise_period(live, period, cause, &mark).await?;
            }
        }
        Ok(())
    }

    /// Where a member stands in a period, hidden or not.
    async fn find(
        &self,
        live: &LiveBoard,
        period: &Period,
        member: &MemberId,
    ) -> Result<Option<Mark>, ReadError> {
        let standing = standing_of(&live.board, period);
        let query = Query::Subset {
            standing,
            members: vec![member.clone()],
        };
        let reader = Reader::new(self, live, Freshness::Current).with_sight(Sight::Everybody);
        let asked = reader.ask(live.shard_of(member), standing.series, query);
        let found: std::sync::Arc<Subset> = Box::pin(asked).await?;
        Ok(found
            .entries
            .iter()
            .flatten()
            .next()
            .map(|(mark, _)| mark.clone()))
    }

    /// Revises the result of a period by a line, whose member stands there.
    async fn revise_period(
        &self,
        live: &LiveBoard,
        period: &Period,
        cause: &JournalLine,
        mark: &Mark,
    ) -> Result<(), ReadError> {
        let mut handing = self.handing(live, period).await?;
        let revised = self
            .revise_under(live, period, (cause, mark), &mut handing)
            .await;
        handing.give_back().await?;
        revised
    }

    async fn revise_under(
        &self,
        live: &LiveBoard,
        period: &Period,
        (cause, mark): (&JournalLine, &Mark),
        handing: &mut Handing,
    ) -> Result<(), ReadError> {
        let (board, window) = (&live.board, Window::Period(period.unit));
        let key = board.calendar.key(period);
        let known = self
            .store
            .results(board, window, std::slice::from_ref(&key))
            .await?;
        let Some(seen) = known.into_iter().flatten().next() else {
            return Ok(());
        };
        if cause.is_in(&seen.result.hides) {
            // Another instance was here.
            return Ok(());
        }
        let next = seen.result.revision + 1;
        let made = self.make_result(live, period, next, handing).await?;
        let made = made.ok_or(ReadError::Retry)?;
        let reader = Reader::new(self, live, Freshness::Current);
        let list = Merged::new(&reader, standing_of(board, period));
        let ahead = Box::pin(list.positions(vec![mark.of_score()])).await?;
        let revision = Revision {
            at: self.clock.now(),
            action: cause.says(),
            place: ahead.first().map_or(0, |ahead| ahead + 1),
            total_before: seen.result.total,
            total: made.total,
        };
        let mut hides = seen.result.hides.clone();
        hides.insert(cause.tag.clone(), cause.number);
        let result = PeriodResult {
            hides,
            total: made.total,
            winner: made.winner,
            revision: next,
            rewards: made.rewards,
            ..seen.result.clone()
        };
        let change = (cause, &revision);
        let revised = self
            .store
            .revise_result(board, (window, &key), (&seen, &result), change);
        match revised.await? {
            Versioned::Current(true) => Ok(()),
            Versioned::Current(false) | Versioned::Stale => Err(ReadError::Retry),
        }
    }
}

/// What webhooks are told of a line.
fn messages_of(
    engine: &Engine,
    board: &Board,
    cause: &JournalLine,
    periods: &[RevisedPeriod],
) -> Vec<Message> {
    let occasion = format!("{}:{}", cause.tag, cause.number);
    let now = engine.clock.now();
    let message = |kind, data| Message::new(kind, board, &occasion, now, &data);
    let mut messages = Vec::new();
    if cause.says() == Moderation::Hidden {
        messages.push(message(MessageKind::MemberHidden, json!({})));
    }
    if !periods.is_empty() {
        let named = &periods[..periods.len().min(NAMED_MAX)];
        let data = json!({"periods": named, "count": periods.len()});
        messages.push(message(MessageKind::PeriodRevised, data));
    }
    messages
}

/// The job: revises results after members were hidden or brought back.
#[derive(Clone, Copy, Debug)]
pub struct Revisions;

/// A board on which that was done.
#[derive(Clone, Debug)]
pub struct Moderated {
    id: BoardId,
    generation: u64,
    notes: Vec<ModeratedNote>,
}

impl Job for Revisions {
    type Item = Moderated;
    const KIND: JobKind = JobKind::Revisions;

    fn subject(&self, moderated: &Moderated) -> Subject {
        Subject::board(&moderated.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Moderated>, Error> {
        let mut of_boards: BTreeMap<(BoardId, u64), Vec<ModeratedNote>> = BTreeMap::new();
        for note in engine.store.moderated_notes().await? {
            let of = (note.board.clone(), note.generation);
            of_boards.entry(of).or_default().push(note);
        }
        let boards = of_boards.into_iter();
        let moderated = boards.map(|((id, generation), notes)| Moderated {
            id,
            generation,
            notes,
        });
        Ok(moderated.collect())
    }

    async fn step(&self, engine: &Engine, moderated: &mut Moderated) -> Result<Progress, Error> {
        let stepped = match engine.live_board(&moderated.id).await {
            Err(Error::BoardNotFound(_)) => Progress::Done,
            Ok(live) if live.board.generation != moderated.generation => Progress::Done,
            Ok(_) => match engine.revise_on(&moderated.id).await? {
                Some(_) => Progress::Done,
                None => Progress::More,
            },
            Err(error) => return Err(error),
        };
        if stepped == Progress::Done {
            engine.store.forget_moderated(&moderated.notes).await?;
        }
        Ok(stepped)
    }
}
