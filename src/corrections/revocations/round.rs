//! A round through the events that a revocation covers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::revocation::{
    Cover, FailedMember, Failure, LISTED_MAX, LOSSES_MAX, Loss, Report, Revocation,
};
use super::store;
use crate::audit;
use crate::core::jobs::Progress;
use crate::core::write::store::events::StoredRow;
use crate::core::{Engine, Error, LiveBoard, LiveShard, Outdated};
use crate::corrections::carrying::{Carried, Change, Watched, carry_out, name_of, watched};
use crate::corrections::counting::Concerned;
use crate::domain::board::{Board, Update};
use crate::domain::history::{HistoryState, Revoking};
use crate::domain::ids::{EventId, MemberId};
use crate::domain::problems::CORRECTION_BEYOND;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::history::store::{CALL_ROWS_MAX, PlacedRow, RowRange, Rows, oldest_rows, rows_before};
use crate::queue::store::queued;
use crate::queue::store::queues::QueueName;
use crate::queue::{self, intake};
use crate::redis::entry::EntryId;
use crate::runtime::join::try_join_all;

/// How many rows of a member one step changes at most.
const CHANGES_MAX: usize = 1_000;
/// How many members are changed before the caller looks at the time again.
const MEMBERS_AT_ONCE: usize = 8;

/// A round: through all rows, or those that are named.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) live: Arc<LiveBoard>,
    pub(super) revocation: Revocation,
    pub(super) revoking: Revoking,
    /// What it covers, and what the revocations cover that are in force once it has ended.
    own: Cover,
    in_force: Vec<Cover>,
    stage: Stage,
    tally: Tally,
    /// Members with rows to be changed, and the indexes of their shards.
    waiting: VecDeque<(usize, MemberId)>,
}

#[derive(Debug)]
enum Stage {
    /// Until what was queued before is applied. Once all of it is in the queues: the last entry of each.
    Waiting(Option<Vec<Option<EntryId>>>),
    Walking(Walk),
}

/// Where the round is.
#[derive(Debug)]
enum Walk {
    /// In all rows of the shard with this index, after this text.
    All(usize, Vec<u8>),
    /// In rows of a member.
    Member(Rows, MemberId),
    /// At one of these events.
    Events(Vec<EventId>, usize),
}

/// What was found so far.
#[derive(Debug, Default)]
struct Tally {
    events: u64,
    /// By member, how many of its events count yet, and the sum of their stored scores.
    members: HashMap<MemberId, (u64, i64)>,
    failed: BTreeMap<MemberId, Failure>,
    expired: BTreeSet<(String, String)>,
}

/// A row that was read, with the index of its shard.
type Found = (usize, EventId, StoredRow);

impl Round {
    /// Begins the round of the revocation that a board is carrying out; `None` if that is not stored.
    pub(super) async fn begin(
        engine: &Engine,
        live: Arc<LiveBoard>,
        revoking: Revoking,
    ) -> Result<Option<Self>, Error> {
        let (store, board) = (&engine.store, &live.board);
        let all = store::all(store, board).await?;
        let is_own = |one: &&Revocation| one.token == revoking.token;
        let Some(revocation) = all.iter().find(is_own).cloned() else {
            return Ok(None);
        };
        let others = all.iter().filter(|one| one.is_in_force() && !is_own(one));
        let in_force = others.chain((!revoking.is_restoring).then_some(&revocation));
        let in_force: Vec<&Revocation> = in_force.collect();
        let mut own = store::covers(store, board, &[&revocation]).await?;
        let own = own.pop().ok_or(Error::Again(Outdated::Board))?;
        let mut round = Self {
            own,
            in_force: store::covers(store, board, &in_force).await?,
            stage: Stage::Waiting(None),
            tally: Tally::default(),
            waiting: VecDeque::new(),
            live,
            revocation,
            revoking,
        };
        if round.revoking.is_restoring && round.revocation.report.is_some() {
            // What it covers is in no queue any more.
            round.stage = Stage::Walking(round.walk(engine).await?);
        }
        Ok(Some(round))
    }

    /// Whether it goes on with a board as it is now.
    pub(super) fn is_on(&self, live: &LiveBoard, revoking: &Revoking) -> bool {
        let (own, board) = (&self.live.board, &live.board);
        let is_same =
            own.generation == board.generation && own.placement.current == board.placement.current;
        is_same && self.revoking == *revoking
    }

    fn history(&self) -> Result<&HistoryState, Error> {
        let history = self.live.board.history.as_ref();
        history.ok_or(Error::Again(Outdated::Board))
    }

    /// Takes a step. `Done`: the report can be made.
    pub(super) async fn step(&mut self, engine: &Engine) -> Result<Progress, Error> {
        let walk = match &mut self.stage {
            Stage::Waiting(marks) => {
                let marks = marks.clone();
                if self.waits(engine, marks).await? {
                    queue::give_time().await;
                }
                return Ok(Progress::More);
            }
            Stage::Walking(_) if !self.waiting.is_empty() => {
                for _ in 0..MEMBERS_AT_ONCE {
                    let Some((shard, member)) = self.waiting.front().cloned() else {
                        break;
                    };
                    self.change(engine, shard, member).await?;
                    self.waiting.pop_front();
                }
                return Ok(Progress::More);
            }
            Stage::Walking(walk) => walk,
        };
        let Some(found) = walk.next(engine, &self.live).await? else {
            return Ok(Progress::Done);
        };
        self.look_at(found, engine.clock.now())?;
        Ok(Progress::More)
    }

    /// Whether events wait that were queued before the revocation. Otherwise the next stage begins.
    async fn waits(
        &mut self,
        engine: &Engine,
        marks: Option<Vec<Option<EntryId>>>,
    ) -> Result<bool, Error> {
        let (store, shards) = (&engine.store, &self.live.shards);
        let Some(marks) = marks else {
            if self.waits_for_log(engine).await? {
                return Ok(true);
            }
            let last = shards.iter().map(|live| queued::last(store, &live.shard));
            self.stage = Stage::Waiting(Some(try_join_all(last).await?));
            return Ok(false);
        };
        for (live, mark) in shards.iter().zip(marks).filter(|(_, mark)| mark.is_some()) {
            let first = queued::read(store, &live.shard, None, 1).await?;
            if first.first().is_some_and(|(entry, _)| Some(*entry) <= mark) {
                return Ok(true);
            }
        }
        self.stage = Stage::Walking(self.walk(engine).await?);
        Ok(false)
    }

    /// Whether a shard has not taken all records that were in the log before the revocation.
    async fn waits_for_log(&self, engine: &Engine) -> Result<bool, Error> {
        let ends = &self.revoking.ends;
        if ends.is_empty() {
            return Ok(false);
        }
        let (mut waiting, mut reached) = (Vec::new(), Vec::new());
        for LiveShard { shard, .. } in &self.live.shards {
            let known = intake::store::all_known_offsets(&engine.store, shard).await?;
            let is_behind = |(partition, end): (&String, &i64)| {
                let own = known.get(partition).and_then(|known| known.own);
                *end > own.unwrap_or(0)
            };
            let names = if ends.iter().any(is_behind) {
                &mut waiting
            } else {
                &mut reached
            };
            names.push(QueueName::of(shard));
        }
        let waits = !waiting.is_empty();
        intake::store::want(&engine.store, waiting, true).await?;
        // A closing that still waits for these asks again.
        intake::store::want(&engine.store, reached, false).await?;
        Ok(waits)
    }

    /// Where the walk begins.
    async fn walk(&self, engine: &Engine) -> Result<Walk, Error> {
        let voter = self.revocation.criteria.voter.as_ref();
        let named = store::named(&engine.store, &self.live.board, &self.revoking.token).await?;
        let events = named.events_as_stored(voter);
        // When it is restored, its names are known no more, but the audit log may know the member.
        let member = match (named.member, &self.revocation.member) {
            (None, Some(pseudonym)) => {
                let pseudonyms = std::slice::from_ref(pseudonym);
                let found = audit::store::members_with(&engine.store, pseudonyms).await?;
                let found = found.into_iter().flatten().next();
                found.and_then(|member| MemberId::parse(&member).ok())
            }
            (member, _) => member,
        };
        Ok(match (events, member) {
            (Some(events), _) => Walk::Events(events, 0),
            (None, Some(member)) => {
                let criteria = &self.revocation.criteria;
                let between = [criteria.since, criteria.until];
                Walk::Member(Rows::of(RowRange::Member(member.clone(), between)), member)
            }
            (None, None) => Walk::All(0, Vec::new()),
        })
    }

    /// Counts the rows that the revocation covers, and notes members with rows to be changed.
    fn look_at(&mut self, found: Vec<Found>, now: Timestamp) -> Result<(), Error> {
        let mut changed: Vec<(usize, MemberId)> = Vec::new();
        for (shard, id, row) in found {
            if !self.own.has(self.history()?, &id, &row) {
                continue;
            }
            let member = &row.details.member;
            self.tally.events += 1;
            self.tally
                .expired
                .extend(expired(&self.live.board, &row, now));
            let loss = self.tally.members.entry(member.clone()).or_default();
            if !row.is_out() {
                loss.0 += 1;
                loss.1 = loss.1.saturating_add(row.details.score.scaled());
            }
            let may_change = !self.revocation.dry_run && !self.tally.failed.contains_key(member);
            let is_changed = may_change && self.wanted(&id, &row)? != row.is_revoked;
            if is_changed && changed.iter().all(|(_, known)| known != member) {
                changed.push((shard, member.clone()));
            }
        }
        self.waiting.extend(changed);
        Ok(())
    }

    /// Whether a revocation in force covers a row.
    fn wanted(&self, id: &EventId, row: &StoredRow) -> Result<bool, Error> {
        let history = self.history()?;
        Ok(self
            .in_force
            .iter()
            .any(|cover| cover.has(history, id, row)))
    }

    /// Changes all rows of a member that are to be changed.
    async fn change(
        &mut self,
        engine: &Engine,
        shard: usize,
        member: MemberId,
    ) -> Result<(), Error> {
        let live = Arc::clone(&self.live);
        let own = &live.shards[shard].shard;
        let criteria = &self.revocation.criteria;
        let range = RowRange::Member(member.clone(), [criteria.since, criteria.until]);
        let (mut rows, mut changes) = (Rows::of(range), VecDeque::new());
        while let Some(part) = rows.next(&engine.store, own).await? {
            for placed in part {
                changes.extend(self.change_of(own, &rows.range, placed)?);
            }
            let left = if rows.is_done() { 0 } else { CHANGES_MAX - 1 };
            while changes.len() > left {
                if !self.carry_out(engine, own, &member, &mut changes).await? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The change of a row; `None` if it is as it should be.
    fn change_of(
        &self,
        own: &Shard,
        range: &RowRange,
        placed: PlacedRow,
    ) -> Result<Option<Change>, Error> {
        if placed.row.is_empty() {
            return Ok(None);
        }
        let (Some(row), Some(id)) = (read_row(own, &placed.row), range.event_id(&placed.text))
        else {
            return Ok(None);
        };
        if !self.own.has(self.history()?, &id, &row) {
            return Ok(None);
        }
        let is_revoked = self.wanted(&id, &row)?;
        if row.is_revoked == is_revoked {
            return Ok(None);
        }
        let after = StoredRow {
            is_revoked,
            ..row.clone()
        };
        Ok(Some(Change {
            id,
            before: Some((placed.row, row)),
            after,
            added: None,
        }))
    }

    /// Carries out the first of these changes, as many as one step may. Returns false if no more of the member's can be.
    async fn carry_out(
        &mut self,
        engine: &Engine,
        own: &Shard,
        member: &MemberId,
        changes: &mut VecDeque<Change>,
    ) -> Result<bool, Error> {
        let mut count = changes.len().min(CHANGES_MAX);
        let changes_now = changes.make_contiguous();
        while count > 1 && Concerned::by(own, &changes_now[..count]).is_large() {
            count /= 2;
        }
        let now: Vec<Change> = changes.drain(..count).collect();
        let carried = watched(engine, own, member, async |watch| {
            Ok(Watched::Ended(carry_out(engine, own, watch, &now).await?))
        });
        match carried.await {
            Ok(Carried::Out(_)) => Ok(true),
            // It is being erased.
            Ok(Carried::Gone) => Ok(false),
            Err(error) if error.is(CORRECTION_BEYOND) || error.is_fault() => {
                let why = if error.is_fault() {
                    tracing::error!(board = %own.id, %error, "events of a member can't be revoked");
                    Failure::Fault
                } else {
                    Failure::Beyond
                };
                self.tally.failed.insert(member.clone(), why);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// What came of the revocation.
    pub(super) async fn report(&self, engine: &Engine) -> Result<Report, Error> {
        let Tally {
            events,
            members,
            failed,
            expired,
        } = &self.tally;
        let mut losses: Vec<(&MemberId, (u64, i64))> = Vec::new();
        if self.revocation.dry_run {
            let losing = members.iter().filter(|(_, (events, _))| *events > 0);
            losses = losing.map(|(member, loss)| (member, *loss)).collect();
            let is_sum = self.live.board.definition.update == Update::Sum;
            losses.sort_by_key(|(member, (events, score))| {
                (
                    Reverse(if is_sum { *score } else { 0 }),
                    Reverse(*events),
                    *member,
                )
            });
            losses.truncate(LOSSES_MAX);
        }
        let mut shown = Vec::with_capacity(losses.len());
        for (member, (events, score)) in losses {
            shown.extend(self.pseudonym(engine, member).await?.map(|member| Loss {
                member,
                events,
                score,
            }));
        }
        let mut named = Vec::new();
        for (member, failure) in failed.iter().take(LISTED_MAX) {
            let pseudonym = self.pseudonym(engine, member).await?;
            named.extend(pseudonym.map(|member| FailedMember {
                member,
                failure: *failure,
            }));
        }
        Ok(Report {
            finished_at: engine.clock.now(),
            events: *events,
            members: members.len() as u64,
            losses: shown,
            failed_count: failed.len() as u64,
            failed: named,
            expired: expired.iter().take(LISTED_MAX).cloned().collect(),
        })
    }

    /// The pseudonym of a member in the audit log; `None` if it was erased meanwhile.
    async fn pseudonym(&self, engine: &Engine, member: &MemberId) -> Result<Option<String>, Error> {
        let (store, own) = (&engine.store, &self.live.shard_of(member).shard);
        let range = RowRange::Member(member.clone(), [None, None]);
        let rows = rows_before(store, own, &range, None, 1).await?;
        if rows.iter().all(|placed| placed.row.is_empty()) {
            return Ok(None);
        }
        Ok(
            audit::store::pseudonyms(store, std::slice::from_ref(member))
                .await?
                .pop(),
        )
    }
}

/// The standings in which a row would count and that have expired: window and key.
fn expired(
    board: &Board,
    row: &StoredRow,
    now: Timestamp,
) -> impl Iterator<Item = (String, String)> {
    let writes = row.details.writes(board, row.at).into_iter();
    writes.filter_map(move |write| {
        let period = write.standing.period;
        let is_closed = board
            .end_of(&period)
            .is_some_and(|end| board.closings.until >= Some(end));
        let closed = board.expires_at_ms(&period).filter(|_| is_closed);
        let expires_ms = write.expires_at_ms.into_iter().chain(closed).min()?;
        let name = name_of(board, &period);
        let window = Window::Period(period.unit);
        let is_shown = board.definition.windows.contains(&window);
        (is_shown && expires_ms <= now.ms())
            .then(|| (name.window.to_string(), name.key.to_string()))
    })
}

impl Walk {
    /// The next rows; `None` at the end.
    async fn next(
        &mut self,
        engine: &Engine,
        live: &LiveBoard,
    ) -> Result<Option<Vec<Found>>, Error> {
        let store = &engine.store;
        match self {
            Self::All(shard, after) => {
                let Some(own) = live.shards.get(*shard) else {
                    return Ok(None);
                };
                let rows = oldest_rows(store, &own.shard, after, None, CALL_ROWS_MAX).await?;
                let found = read(*shard, &own.shard, &RowRange::Taken, &rows);
                if let Some(last) = rows.last().filter(|_| rows.len() == CALL_ROWS_MAX) {
                    *after = last.text.to_vec();
                } else {
                    (*shard, *after) = (*shard + 1, Vec::new());
                }
                Ok(Some(found))
            }
            Self::Member(rows, member) => {
                let shard = live.board.shard_of(member);
                let own = &live.shards[shard].shard;
                let part = rows.next(store, own).await?;
                Ok(part.map(|part| read(shard, own, &rows.range, &part)))
            }
            Self::Events(ids, at) => {
                let part = ids.get(*at..).unwrap_or_default();
                let part = &part[..part.len().min(CALL_ROWS_MAX)];
                if part.is_empty() {
                    return Ok(None);
                }
                let reads = live.shards.iter().enumerate().map(async |(shard, own)| {
                    let own = &own.shard;
                    let rows = super::super::store::rows(store, own, part).await?;
                    let mut found = Vec::new();
                    for (id, row) in part.iter().zip(rows) {
                        let row = row.and_then(|row| read_row(own, &row));
                        found.extend(row.map(|row| (shard, id.clone(), row)));
                    }
                    Ok::<_, Error>(found)
                });
                let found = try_join_all(reads).await?.concat();
                *at += part.len();
                Ok(Some(found))
            }
        }
    }
}

/// Reads rows of a shard, but for those that are no longer shown.
fn read(shard: usize, own: &Shard, range: &RowRange, rows: &[PlacedRow]) -> Vec<Found> {
    let shown = rows.iter().filter(|placed| !placed.row.is_empty());
    let found = shown.filter_map(|placed| {
        let row = read_row(own, &placed.row)?;
        Some((shard, range.event_id(&placed.text)?, row))
    });
    found.collect()
}

/// Reads a row; `None` if its member was erased, or it is damaged: then `standings check` reports it, and others are revoked.
fn read_row(own: &Shard, row: &[u8]) -> Option<StoredRow> {
    StoredRow::read(own, row).unwrap_or_else(|error| {
        tracing::error!(board = %own.id, %error, "a kept event can't be revoked");
        None
    })
}
