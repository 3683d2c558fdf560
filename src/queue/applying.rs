//! The job that applies queued events.
//!
//! One instance at a time works on a queue, under a *lease* of its shard. A step reads the first events of the queue,
//! submits them like all events (`submission.rs`), ends those that are not applied, and repeats until its time is over. So
//! boards take turns.
//!
//! - An event leaves its queue in the step that applies it (`scripts/core/write/apply.lua`), or that stores why it isn't applied
//!   (`scripts/queue/end_queued.lua`). Both check the number of the lease, so nothing is applied twice by a worker that wakes up
//!   late, and nothing is lost wherever one dies.
//! - Events of a member are applied in order, as far as possible: one that has to wait for others, or for a server that did
//!   not answer, holds up its member's later ones for this *pass* through the queue. The next pass begins with it. A step
//!   that fails ends its pass.
//! - If a script aborts a call, each of its events is sent again alone. An event that fails alone becomes a dead letter.
//! - The lease of an empty queue is kept for a moment, since more events may follow soon.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;

use super::dead_letters::store::DeadReason;
use super::fate::{self, Fate};
use super::hold::{Hold, Pass, Stop, WAITING_PAUSE};
use super::intake::DyingEvent;
use super::store::queued::{self, End, Ended, QueueEntry};
use super::store::queues::{self, QueueName};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::write::events::{HeldEntry, IncomingEvent, Report};
use crate::core::write::obstacles::Budget;
use crate::core::{Engine, Error, LiveBoard, LiveShard};
use crate::domain::ids::MemberId;
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::entry::EntryId;
use crate::runtime::join::join_all;
use crate::runtime::throttle;

/// The maximum number of events that one read returns.
const BATCH_MAX: usize = 1_000;
/// The maximum number of events that one call ends.
const CALL_ENDS_MAX: usize = 100;
/// How long a step takes at most.
const STEP_TIME: Duration = Duration::from_millis(50);
/// The pause before an empty queue is read again; shorter if this instance puts something in.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// How long a queue has to be empty before its lease is released.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// The pause after a server did not answer, or when another instance has the lease.
const AWAY_PAUSE: Duration = Duration::from_millis(500);
/// How long a queue waits for the log to confirm: less than its lease lasts. The log itself keeps trying for longer.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);

/// The job that applies queued events.
#[derive(Clone, Copy, Debug)]
pub struct ApplyQueues;

struct Worker<'a> {
    engine: &'a Engine,
    name: &'a QueueName,
    live: Arc<LiveBoard>,
    /// The index of the shard in the board.
    index: usize,
    hold: Hold,
}

/// Events to be ended, with their member if they could be read.
type Ends = Vec<(EntryId, End, Option<MemberId>)>;

impl Job for ApplyQueues {
    type Item = QueueName;
    const KIND: JobKind = JobKind::Queues;
    const AT_ONCE: usize = 16;
    const LOOK_INTERVAL: Duration = Duration::from_millis(100);

    fn subject(&self, name: &QueueName) -> Subject {
        Subject::part(&name.id, name.shard.tag(&name.id))
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<QueueName>, Error> {
        let listed = match queues::listed(&engine.store).await {
            // Only the server of the index may be unavailable.
            Err(_) if super::of(engine).queues.has_work() => Vec::new(),
            listed => listed?,
        };
        Ok(super::of(engine).queues.due(listed))
    }

    async fn step(&self, engine: &Engine, name: &mut QueueName) -> Result<Progress, Error> {
        let step = async {
            let Some(mut worker) = Worker::begin(engine, name).await? else {
                super::of(engine).queues.pause(name, AWAY_PAUSE);
                return Ok(Progress::Done);
            };
            let stopped = worker.work().await;
            worker.lay_down(stopped).await
        };
        match step.await {
            // A server that does not answer is not the queue's fault. Other queues go on meanwhile.
            Err(error) if !error.is_fault() => {
                super::of(engine).queues.pause(name, AWAY_PAUSE);
                throttle::say(&format!("queue: {error}"), |more| {
                    tracing::warn!(queue = %name, %error, more, "a queue can't be applied; trying again");
                });
                Ok(Progress::Done)
            }
            stepped => stepped,
        }
    }
}

/// Forgets a queue that is done, or that another instance works on.
fn forget_queue(engine: &Engine, name: &QueueName) {
    super::of(engine).queues.forget(name);
    note_full_letters(engine, name, None);
}

/// Records whether events stay in a queue because there are too many dead letters.
fn note_full_letters(engine: &Engine, name: &QueueName, error: Option<&Error>) {
    let part = format!("{}, dead letters", name.shard.tag(&name.id));
    let subject = Subject::part(&name.id, part);
    let now = engine.clock.now();
    engine.faults.record(JobKind::Queues, &subject, now, error);
}

/// Removes a queue from the index that is no longer in use because its board has moved.
async fn unlist_left(engine: &Engine, name: &QueueName) -> Result<(), Error> {
    // It was in use when it was listed, so what is read now is at least as new.
    engine.reload(&name.id).await?;
    let live = engine.boards.get(&name.id);
    let is_current = live.is_none_or(|live| live.board.placement.current == name.shard.of);
    if !is_current && queues::size(&engine.store, name).await?.events == 0 {
        queues::unlist(&engine.store, name, queues::ANY_EPOCH).await?;
        forget_queue(engine, name);
    }
    Ok(())
}

impl<'a> Worker<'a> {
    /// Starts work on a queue; `None` if this instance has nothing to do there now.
    async fn begin(engine: &'a Engine, name: &'a QueueName) -> Result<Option<Self>, Error> {
        let live = engine.find_board(&name.id).await?;
        let Some(live) = live.filter(|live| live.board.generation <= name.generation) else {
            queues::unlist(&engine.store, name, queues::ANY_EPOCH).await?;
            forget_queue(engine, name);
            return Ok(None);
        };
        if live.board.generation < name.generation {
            engine.reload(&name.id).await?;
            return Ok(None);
        }
        let is_it = |live: &LiveShard| live.shard.shard_id == name.shard;
        let Some(index) = live.shards.iter().position(is_it) else {
            unlist_left(engine, name).await?;
            return Ok(None);
        };
        let mut hold = super::of(engine).queues.take(name);
        if hold.is_none() {
            hold = Hold::take(engine, &live.shards[index].shard).await?;
        }
        Ok(hold.map(|hold| Self {
            engine,
            name,
            live,
            index,
            hold,
        }))
    }

    fn shard(&self) -> &Shard {
        &self.live.shards[self.index].shard
    }

    /// Puts the work back after a step, and schedules the next one.
    async fn lay_down(mut self, stopped: Result<Stop, Error>) -> Result<Progress, Error> {
        let (engine, name) = (self.engine, self.name);
        let is_idle = |since: Instant| since.elapsed() >= IDLE_TIME;
        let (pause, progress) = match stopped {
            Ok(Stop::Time) => (Duration::ZERO, Ok(Progress::More)),
            Ok(Stop::Empty) if self.hold.empty_since.is_some_and(is_idle) => {
                let cleared = queues::clear(&engine.store, self.shard()).await;
                if matches!(cleared, Ok(true)) {
                    forget_queue(engine, name);
                    self.hold.lease.give_back("").await?;
                    return Ok(Progress::Done);
                }
                let progress = cleared.map(|_| Progress::Done);
                (Duration::ZERO, progress.map_err(Error::from))
            }
            Ok(Stop::Empty) => (IDLE_PAUSE, Ok(Progress::Done)),
            Ok(Stop::Waits) => (self.hold.pause, Ok(Progress::Done)),
            Ok(Stop::Lost) => {
                note_full_letters(engine, name, None);
                super::of(engine).queues.pause(name, WAITING_PAUSE);
                self.hold.lease.give_back("").await?;
                return Ok(Progress::Done);
            }
            Err(error) => {
                // Events that were read but not applied come first again.
                self.hold.pass = Pass::default();
                self.hold.lost.clear();
                (Duration::ZERO, Err(error))
            }
        };
        super::of(engine).queues.lay_down(name, self.hold);
        super::of(engine).queues.pause(name, pause);
        progress
    }

    /// Applies queued events until the time of a step is over.
    async fn work(&mut self) -> Result<Stop, Error> {
        let begun = Instant::now();
        loop {
            if !self.hold.lease.renew("").await? {
                return Ok(Stop::Lost);
            }
            let (store, after) = (&self.engine.store, self.hold.pass.after);
            let entries = queued::read(store, self.shard(), after, BATCH_MAX).await?;
            let is_last = entries.len() < BATCH_MAX;
            if let Some((last, _)) = entries.last() {
                self.hold.pass.after = Some(*last);
                self.hold.empty_since = None;
                if self.take(entries).await? {
                    if !self.hold.lease.confirm("").await? {
                        return Ok(Stop::Lost);
                    }
                    // Entries that are no longer in the queue are not read again.
                    self.hold.pass = Pass::default();
                    return Ok(Stop::Time);
                }
            }
            if is_last {
                if !self.hold.pass.is_full && mem::take(&mut self.hold.is_full) {
                    self.hold.buried.clear();
                    note_full_letters(self.engine, self.name, None);
                }
                return Ok(self.hold.end_pass());
            }
            if self.hold.pass.waiting.is_empty() {
                self.hold.pass = Pass::default();
            }
            if begun.elapsed() >= STEP_TIME {
                return Ok(Stop::Time);
            }
        }
    }

    /// Handles some events of the queue. Returns whether another worker had some of them.
    async fn take(&mut self, entries: Vec<(EntryId, QueueEntry)>) -> Result<bool, Error> {
        let now = self.engine.clock.now();
        let (mut open, mut ends) = (Vec::new(), Ends::new());
        for (entry, read) in &entries {
            match self.read(*entry, read, now) {
                Ok(incoming) => open.extend(incoming),
                Err((end, member)) => ends.push((*entry, end, member)),
            }
        }
        let is_lost = self.apply(open, &mut ends).await?;
        self.bury(&entries, &ends).await;
        Ok(self.end(&ends).await? || is_lost)
    }

    /// Reads an entry; `None` if it waits. Fails if it is to be ended, with its member if events of that may have to wait.
    fn read(
        &self,
        entry: EntryId,
        read: &QueueEntry,
        now: Timestamp,
    ) -> Result<Option<IncomingEvent>, (End, Option<MemberId>)> {
        let dead = |reason, detail, member| Err((End::Dead { reason, detail }, member));
        let event = match QueuedEvent::decode(&read.event_id, &read.event) {
            Ok(event) if self.live.board.shard_of(&event.member) == self.index => event,
            Ok(_) => {
                let detail = "the member is in another shard".into();
                return dead(DeadReason::Unreadable, detail, None);
            }
            Err(detail) => return dead(DeadReason::Unreadable, detail, None),
        };
        if self.hold.lost.contains(&entry) {
            let detail = "its id is missing from the queue's index".into();
            return dead(DeadReason::Failed, detail, Some(event.member));
        }
        if self.hold.pass.waiting.contains(&event.member) {
            return Ok(None);
        }
        if let Some(detail) = event.too_long_wait(now) {
            return dead(DeadReason::TooOld, detail, None);
        }
        let held = HeldEntry {
            entry,
            at: event.at,
            bytes: read.bytes(),
            lease: self.hold.lease.number,
            late: read.late,
            revocation: read.revocation,
            queued_at: event.queued_at,
            is_logged: read.is_logged,
        };
        Ok(Some(IncomingEvent {
            board: self.name.id.clone(),
            id: Some(event.id),
            member: event.member,
            score: event.score,
            at: event.sent_at,
            arrived_at: event.queued_at,
            origin: event.origin,
            data: event.data,
            queued: Some(held),
        }))
    }

    /// Applies events, and collects those to be ended. Returns whether another worker had some of them.
    async fn apply(&mut self, open: Vec<IncomingEvent>, ends: &mut Ends) -> Result<bool, Error> {
        let request: Arc<[IncomingEvent]> = open.into();
        let (mut is_lost, mut broken) = (false, Vec::new());
        for (index, fate) in self.submit(&request, (0..request.len()).collect()).await? {
            match fate {
                Fate::BrokeOff(_) if request.len() > 1 => broken.push(index),
                fate => is_lost |= self.sort(&request[index], fate, ends),
            }
        }
        broken.sort_unstable();
        for index in broken {
            for (_, fate) in self.submit(&request, vec![index]).await? {
                is_lost |= self.sort(&request[index], fate, ends);
            }
        }
        Ok(is_lost)
    }

    /// Submits some events, and returns the fate of each.
    async fn submit(
        &self,
        request: &Arc<[IncomingEvent]>,
        indexes: Vec<usize>,
    ) -> Result<Vec<(usize, Fate)>, Error> {
        let (id, budget) = (&self.name.id, Budget::of_queue(self.hold.is_careful));
        let submitted = self
            .engine
            .submit(id, request, indexes, Report::default(), budget)
            .boxed()
            .await;
        let (board, now) = (&self.live.board, self.engine.clock.now());
        submitted
            .into_iter()
            .map(|(index, result)| Ok((index, Fate::of(&request[index], result, board, now)?)))
            .collect()
    }

    /// Records the fate of an event. Returns whether another worker had it.
    fn sort(&mut self, incoming: &IncomingEvent, fate: Fate, ends: &mut Ends) -> bool {
        let entry = incoming.queued.map(|held| held.entry);
        let end = match fate {
            Fate::Lost => {
                self.hold.lost.extend(entry);
                return true;
            }
            Fate::Left => {
                self.hold.pass.has_moved = true;
                return false;
            }
            Fate::Waits => {
                self.hold.pass.waiting.insert(incoming.member.clone());
                return false;
            }
            Fate::Ends(end) => end,
            Fate::BrokeOff(detail) => End::Dead {
                reason: DeadReason::Failed,
                detail,
            },
        };
        let member = Some(incoming.member.clone());
        ends.extend(entry.map(|entry| (entry, end, member)));
        false
    }

    /// Sends events to the log before they become dead letters. The board's list is authoritative: the log may have an event
    /// twice if a worker dies in between, and lacks it only if it does not confirm in time, since no queue waits for that.
    async fn bury(&self, entries: &[(EntryId, QueueEntry)], ends: &Ends) {
        let Some(log) = &super::of(self.engine).log else {
            return;
        };
        let buried = ends.iter().filter_map(|(entry, end, _)| {
            let End::Dead { reason, detail } = end else {
                return None;
            };
            let place = entries.binary_search_by_key(entry, |(entry, _)| *entry);
            let (_, read) = entries.get(place.ok()?)?;
            let is_new = !self.hold.buried.contains(entry);
            is_new.then(|| {
                log.bury(DyingEvent {
                    board: &self.live.board,
                    queue: self.name,
                    entry: *entry,
                    event: QueuedEvent::decode(&read.event_id, &read.event).ok(),
                    reason: *reason,
                    detail,
                })
            })
        });
        let failed = match tokio::time::timeout(CONFIRMED_WITHIN, join_all(buried)).await {
            Ok(buried) => buried.into_iter().find_map(Result::err),
            Err(_) => Some(Error::Log("it did not confirm in time".to_owned())),
        };
        if let Some(error) = failed {
            let queue = self.name;
            throttle::say(&format!("dead letters in the log: {error}"), |more| {
                tracing::error!(%queue, %error, more, "the topic for dead letters may lack some; the board's list has them");
            });
        }
    }

    /// Ends events. Returns whether another worker had some of them.
    async fn end(&mut self, ends: &Ends) -> Result<bool, Error> {
        let mut is_lost = false;
        for part in ends.chunks(CALL_ENDS_MAX) {
            let (store, lease) = (&self.engine.store, self.hold.lease.number);
            let all = part.iter().map(|(entry, end, _)| (*entry, end)).collect();
            let ended = match queued::end(store, self.shard(), lease, all).await {
                Err(StoreError::Stale) => return Ok(true),
                ended => ended?,
            };
            let mut all = part.iter().zip(&ended);
            let has_died = |((_, end, _), ended): (&(_, End, _), &Ended)| {
                matches!(end, End::Dead { .. }) && *ended == Ended::Done
            };
            if all.any(has_died) {
                board_notes::note(store, NotedFor::DeadLetters, &self.live.board).await?;
            }
            for ((entry, end, member), ended) in part.iter().zip(ended) {
                match ended {
                    Ended::Done => {
                        self.hold.pass.has_moved = true;
                        self.hold.buried.remove(entry);
                        self.tell_end(*entry, end);
                    }
                    Ended::Gone => is_lost = true,
                    Ended::Full => {
                        self.hold.pass.waiting.extend(member.clone());
                        self.hold.pass.is_full = true;
                        self.hold.is_full = true;
                        self.hold.buried.insert(*entry);
                        self.tell_full(end);
                    }
                }
            }
        }
        Ok(is_lost)
    }

    fn tell_end(&self, entry: EntryId, end: &End) {
        let status = match end {
            End::Known => "duplicate",
            End::Refused { .. } => "rejected",
            End::Dead { reason, detail } => {
                let (queue, reason) = (self.name, reason.name());
                throttle::say(&format!("dead letter: {reason}"), |more| {
                    tracing::error!(%queue, %entry, reason, detail, more, "a queued event became a dead letter");
                });
                "dead"
            }
        };
        fate::count(status);
    }

    /// Reports that an event which can't be applied stays in the queue, because there are too many dead letters.
    fn tell_full(&self, end: &End) {
        let End::Dead { detail, .. } = end else {
            return;
        };
        let error = StoreError::Unexpected(format!(
            "there are too many dead letters, so queued events that can't be applied wait: {detail}"
        ));
        note_full_letters(self.engine, self.name, Some(&error.into()));
    }
}
