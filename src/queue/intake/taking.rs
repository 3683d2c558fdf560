//! Taking records: each consumer of a partition has an [`Intake`].
//!
//! A call says: "here are all records of yours from this offset up to that one, except those that you have taken from me".
//! This must be true whatever other consumers do, and however late the call is. So the intake remembers for each shard the
//! offset of its last answer, and for shards that have not answered yet the offset at which it began to read.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use super::start::Start;
use super::store::{self, Take, Taken};
use super::{DeadCause, DeadRecord, LogEvent, Taking};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard, Outdated};
use crate::domain::ids::{BoardId, EventId};
use crate::domain::intake::{Extent, Partition};
use crate::domain::problems::Problem;
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Sharding;
use crate::domain::time::Timestamp;
use crate::queue;
use crate::queue::store::queues::QueueName;
use crate::runtime::join::join_all;

/// The most events of one call.
const CALL_EVENTS_MAX: usize = 200;

/// What one consumer knows of one partition.
pub struct Intake {
    pub(super) engine: Arc<Engine>,
    pub(super) partition: Partition,
    /// The first offset in the log at the beginning.
    first: i64,
    removed: i64,
    pub(super) position: i64,
    /// The records being taken: the readable ones from the position up to `upto`, without dead ones.
    batch: Vec<LogEvent>,
    upto: i64,
    /// Boards that are not in `boards` were given nothing after this.
    pub(super) since: i64,
    pub(super) boards: HashMap<BoardId, Given>,
    /// The shards that knew the partition at the beginning, and have not answered yet.
    known: HashSet<QueueName>,
    /// The position of the last round through all shards, and when the next one is due.
    pub(super) last_round: Option<i64>,
    pub(super) round_due: Instant,
}

/// What the shards of a board were given, and have answered.
#[derive(Debug)]
pub(super) struct Given {
    generation: u64,
    sharding: Sharding,
    /// Shards that have not answered were given nothing after this.
    since: i64,
    /// The offset up to which each shard has taken records.
    taken: Vec<Option<i64>>,
}

/// What a shard is to take.
pub(super) struct Task {
    live: Arc<LiveBoard>,
    index: usize,
    base: i64,
    is_known: bool,
    events: Vec<(i64, QueuedEvent)>,
    upto: i64,
}

pub(super) struct Outcome {
    pub(super) live: Arc<LiveBoard>,
    index: usize,
    /// The offset up to which it has taken records, if it has answered.
    taken: Option<i64>,
    /// A failure is to be retried after a pause; [`Outdated::Board`] at once, after reading the board.
    pub(super) end: Result<(), Error>,
}

/// The events of a board to be taken, with their offsets, by shard.
struct OfBoard {
    live: Arc<LiveBoard>,
    shards: Vec<Vec<(i64, QueuedEvent)>>,
}

impl Intake {
    /// Begins to take the records of a partition.
    ///
    /// # Errors
    ///
    /// The log is not the one that shards have taken records of.
    pub fn new(engine: Arc<Engine>, start: Start, log: Extent) -> Result<Self, Error> {
        let (position, removed) = start.within(log)?;
        Ok(Self {
            engine,
            partition: start.partition,
            first: log.first,
            removed,
            position,
            batch: Vec::new(),
            upto: position,
            since: position,
            boards: HashMap::new(),
            known: start.known,
            last_round: None,
            round_due: Instant::now(),
        })
    }

    /// The offset of the next record to give: all before it were taken, or are dead. At the beginning the consumer reads
    /// from here.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// At most this many offsets were removed from the log before their records were taken. If not 0, [`Intake::position`]
    /// was where the log begins. Their events are lost, so report it loudly.
    pub fn removed(&self) -> i64 {
        self.removed
    }

    /// Takes the next records, in the order of their offsets. `upto`: the offset after the last one read, including
    /// unreadable records and Kafka's own. Without events only the position moves.
    ///
    /// # Panics
    ///
    /// If the last call has not ended with [`Taking::Done`], or offsets do not ascend from the position.
    pub async fn take(&mut self, events: Vec<LogEvent>, upto: i64) -> Taking {
        assert_eq!(
            self.upto, self.position,
            "the last records were already read"
        );
        let offsets = events.iter().map(|event| event.offset);
        let ends = [self.position - 1].into_iter().chain(offsets).chain([upto]);
        assert!(ends.is_sorted_by(|a, b| a < b), "offsets ascend");
        (self.batch, self.upto) = (events, upto);
        self.resume().await
    }

    /// Continues with the records of the last [`Intake::take`].
    pub async fn resume(&mut self) -> Taking {
        for _ in 0..ATTEMPTS_MAX {
            match self.try_to_take().await {
                Ok(taking) => return taking,
                Err(Error::Again(Outdated::Intake)) => return Taking::GoneBack,
                Err(Error::Again(_)) => {}
                Err(error) => return Taking::Waits(error),
            }
        }
        Taking::Waits(Error::busy())
    }

    async fn try_to_take(&mut self) -> Result<Taking, Error> {
        let mut waits = None;
        let (boards, dead) = self.sort(&mut waits).await?;
        if !dead.is_empty() {
            self.batch
                .retain(|event| dead.iter().all(|dead| dead.offset != event.offset));
            return Ok(Taking::Dead(dead));
        }
        let mut tasks = Vec::new();
        for OfBoard { live, mut shards } in boards {
            let is_asked: Vec<bool> = shards.iter().map(|events| !events.is_empty()).collect();
            let prepared = async {
                if is_asked.contains(&true) {
                    self.engine.note_use(&live).await?;
                }
                self.leave_known(&live, &mut shards).await
            };
            let (id, prepared) = (&live.board.id, prepared.await);
            if self.engine.unless_again(id, prepared).await?.is_none() {
                return Err(Error::Again(Outdated::Board));
            }
            let of_board = shards
                .into_iter()
                .enumerate()
                .filter(|(index, _)| is_asked[*index]);
            for (index, events) in of_board {
                tasks.push(self.task(&live, index, events, self.upto));
            }
        }
        let names: Vec<QueueName> = tasks
            .iter()
            .map(|task| QueueName::of(&task.live.shards[task.index].shard))
            .collect();
        let outcomes = join_all(tasks.into_iter().map(|task| self.run(task))).await;
        queue::of(&self.engine).queues.wake(names);
        let mut is_stale = false;
        for outcome in outcomes {
            self.note(&outcome);
            match outcome.end {
                Ok(()) => {}
                Err(Error::Again(Outdated::Board)) => {
                    self.engine.reload(&outcome.live.board.id).await?;
                    is_stale = true;
                }
                Err(error @ Error::Again(_)) => return Err(error),
                Err(error) => {
                    waits.get_or_insert(error);
                }
            }
        }
        if let Some(error) = waits {
            return Err(error);
        }
        if is_stale {
            return Err(Error::Again(Outdated::Board));
        }
        self.batch.clear();
        self.position = self.upto;
        Ok(Taking::Done)
    }

    /// The events to be taken, by board and shard, and the dead ones. `waits` is set to why some have to wait.
    async fn sort(
        &mut self,
        waits: &mut Option<Error>,
    ) -> Result<(Vec<OfBoard>, Vec<DeadRecord>), Error> {
        let (batch, now) = (mem::take(&mut self.batch), self.engine.clock.now());
        let mut of_boards: HashMap<&BoardId, Vec<&LogEvent>> = HashMap::new();
        for event in &batch {
            let of_board = of_boards.entry(&event.incoming.board).or_default();
            of_board.push(event);
        }
        let (mut boards, mut dead) = (Vec::new(), Vec::new());
        for (id, events) in of_boards {
            let newest = events.iter().filter_map(|event| event.generation).max();
            let live = match self.board_of(id, newest).await {
                Ok(live) => live,
                Err(error) => {
                    waits.get_or_insert(error);
                    continue;
                }
            };
            let mut shards = vec![Vec::new(); live.as_ref().map_or(0, |live| live.shards.len())];
            if let Some(live) = &live {
                self.know(live);
            }
            for event in events {
                let offset = event.offset;
                match self.judge(live.as_deref(), event, now) {
                    Ok(None) => {}
                    Ok(Some((shard, queued))) => shards[shard].push((offset, queued)),
                    Err(cause) => dead.push(DeadRecord { offset, cause }),
                }
            }
            boards.extend(live.map(|live| OfBoard { live, shards }));
        }
        self.batch = batch;
        dead.sort_by_key(|dead| dead.offset);
        Ok((boards, dead))
    }

    /// A board, at least as new as when records of this generation were written; `None` if it does not exist.
    async fn board_of(
        &self,
        id: &BoardId,
        generation: Option<u64>,
    ) -> Result<Option<Arc<LiveBoard>>, Error> {
        let known = self.engine.boards.get(id);
        let is_old = |live: Arc<LiveBoard>| Some(live.board.generation) < generation;
        if known.is_some_and(is_old) {
            self.engine.reload(id).await?;
        }
        self.engine.find_board(id).await
    }

    /// The shard of an event, and the event as it is to be queued; `None` if it was taken.
    fn judge(
        &self,
        live: Option<&LiveBoard>,
        event: &LogEvent,
        now: Timestamp,
    ) -> Result<Option<(usize, QueuedEvent)>, DeadCause> {
        let board = match (live, event.generation) {
            (None, None) => return Err(DeadCause::UnknownBoard),
            (None, Some(_)) => return Err(DeadCause::DeletedBoard),
            (Some(live), _) => &live.board,
        };
        if event
            .generation
            .is_some_and(|generation| generation != board.generation)
        {
            return Err(DeadCause::DeletedBoard);
        }
        if board.is_league() {
            return Err(DeadCause::League);
        }
        let shard = board.shard_of(&event.incoming.member);
        let taken = self.boards[&board.id].taken[shard];
        if taken.is_some_and(|taken| event.offset < taken) {
            return Ok(None);
        }
        let id = || EventId::of_record(&self.partition, event.offset);
        let queued = event.queued(board, id, now)?;
        Ok(Some((shard, queued)))
    }

    /// Leaves out events that the board knows from before a move, as it may forget them before the queue reaches them.
    async fn leave_known(
        &self,
        live: &LiveBoard,
        shards: &mut [Vec<(i64, QueuedEvent)>],
    ) -> Result<(), Error> {
        if live.former.is_empty() {
            return Ok(());
        }
        let events = shards.iter().flatten();
        let ids: Vec<_> = events
            .map(|(_, event)| (&event.id, &event.member))
            .collect();
        let mut known = self.engine.remembered_before(live, &ids).await?.into_iter();
        for events in shards {
            events.retain(|_| known.next() == Some(false));
        }
        Ok(())
    }

    /// Registers the current state of a board. If it has moved, former shards may have been given records of the new ones.
    pub(super) fn know(&mut self, live: &LiveBoard) {
        let (generation, sharding) = (live.board.generation, live.board.placement.current);
        let given = |since| Given {
            generation,
            sharding,
            since,
            taken: vec![None; live.shards.len()],
        };
        let (since, position) = (self.since, self.position);
        let known = self
            .boards
            .entry(live.board.id.clone())
            .or_insert_with(|| given(since));
        if known.generation != generation || known.sharding != sharding {
            *known = given(position);
        }
    }

    /// What a shard is to take, of a board in a registered state ([`Intake::know`]).
    pub(super) fn task(
        &self,
        live: &Arc<LiveBoard>,
        index: usize,
        events: Vec<(i64, QueuedEvent)>,
        upto: i64,
    ) -> Task {
        let given = &self.boards[&live.board.id];
        let (taken, name) = (given.taken[index], QueueName::of(&live.shards[index].shard));
        let base = taken.unwrap_or(given.since);
        Task {
            live: Arc::clone(live),
            index,
            base,
            is_known: taken.is_some() || self.known.contains(&name),
            events,
            upto: upto.max(base),
        }
    }

    pub(super) async fn run(&self, task: Task) -> Outcome {
        let Task {
            live,
            index,
            mut base,
            mut is_known,
            events,
            upto,
        } = task;
        let engine = &self.engine;
        let (store, shard) = (&engine.store, &live.shards[index].shard);
        let mut taken = None;
        // Even without events there is one part.
        let mut parts = events.chunks(CALL_EVENTS_MAX).peekable();
        let end = loop {
            let part = parts.next().unwrap_or_default();
            let next = parts.peek().and_then(|next| next.first());
            let part_upto = next.map_or(upto, |(offset, _)| *offset);
            let take = Take {
                partition: &self.partition,
                base,
                upto: part_upto,
                first: self.first,
                is_known,
                events: part,
            };
            let room = queue::of(engine).rooms.of(store, shard);
            match store::take(store, shard, &take, room).await {
                Ok(Taken::Upto { offset, bytes }) => {
                    queue::of(engine).rooms.note(store, shard, bytes);
                    taken = Some(offset);
                    if offset < part_upto {
                        break Err(Problem::queue_full().into());
                    }
                    (base, is_known) = (part_upto, true);
                }
                Ok(Taken::Held) => break Err(Problem::board_moving(&live.board.id).into()),
                Ok(Taken::GoneBack) => break Err(Error::Again(Outdated::Intake)),
                Err(error) => break Err(error.into()),
            }
            if parts.peek().is_none() {
                break Ok(());
            }
        };
        Outcome {
            live,
            index,
            taken,
            end,
        }
    }

    /// Records a shard's answer.
    pub(super) fn note(&mut self, outcome: &Outcome) {
        let board = &outcome.live.board;
        let given = self.boards.get_mut(&board.id);
        let is_it = |given: &&mut Given| {
            given.generation == board.generation && given.sharding == board.placement.current
        };
        if let Some(given) = given.filter(is_it) {
            let taken = &mut given.taken[outcome.index];
            *taken = (*taken).max(outcome.taken);
        }
        if outcome.taken.is_some() {
            let name = QueueName::of(&outcome.live.shards[outcome.index].shard);
            self.known.remove(&name);
        }
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Intake");
        f.field("partition", &self.partition)
            .field("position", &self.position)
            .field("upto", &self.upto)
            .finish_non_exhaustive()
    }
}
