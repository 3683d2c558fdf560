//! Taking records: each consumer of a partition has an [`Intake`].
//!
//! A call says: "here are all records of yours from this offset up to that one, except those that you have taken from me".
//! This must be true whatever other consumers do, and however late the call is. So the intake remembers for each shard the
//! offset of its last answer, and for shards that have not answered yet the offset at which it began to read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use futures::stream::{self, StreamExt};

use super::start::{AT_ONCE, Start};
use super::store::{self, ShardTaken, Take};
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

/// The maximum number of events of one call.
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
    pub(super) boards: HashMap<BoardId, GivenRecords>,
    /// The shards that knew the partition at the beginning, and have not answered yet.
    known: HashSet<QueueName>,
    /// The position of the last round through all shards, and when the next one is due.
    pub(super) last_round: Option<i64>,
    pub(super) round_due: Instant,
}

/// What the shards of a board were given, and have answered.
#[derive(Debug)]
pub(super) struct GivenRecords {
    generation: u64,
    sharding: Sharding,
    /// Shards that have not answered were given nothing after this.
    since: i64,
    /// The offset up to which each shard has taken records.
    taken: Vec<Option<i64>>,
}

/// What a shard is to take.
pub(super) struct ShardShare {
    live: Arc<LiveBoard>,
    index: usize,
    base: i64,
    is_known: bool,
    events: Vec<(i64, QueuedEvent)>,
    upto: i64,
}

impl ShardShare {
    fn name(&self) -> QueueName {
        QueueName::of(&self.live.shards[self.index].shard)
    }
}

/// The outcome of taking.
#[derive(Default)]
pub(super) struct TakeOutcome {
    /// How many shards took everything.
    pub(super) count: u32,
    /// Boards that have changed: read them, and try again at once.
    pub(super) stale: BTreeSet<BoardId>,
    /// Why some shards failed: try again after a pause.
    pub(super) failed: Option<Error>,
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
        let (boards, dead, waits) = self.sort().await;
        if !dead.is_empty() {
            self.batch
                .retain(|event| dead.iter().all(|dead| dead.offset != event.offset));
            return Ok(Taking::Dead(dead));
        }
        let mut asked = Vec::new();
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
            for (index, events) in shards.into_iter().enumerate() {
                if is_asked[index] {
                    asked.push(self.share(&live, index, events, self.upto));
                }
            }
        }
        let names: Vec<_> = asked.iter().map(ShardShare::name).collect();
        let outcome = self.run(asked).await;
        queue::of(&self.engine).queues.wake(names);
        let TakeOutcome { stale, failed, .. } = outcome?;
        for id in &stale {
            self.engine.reload(id).await?;
        }
        if let Some(error) = waits.or(failed) {
            return Err(error);
        }
        if !stale.is_empty() {
            return Err(Error::Again(Outdated::Board));
        }
        self.batch.clear();
        self.position = self.upto;
        Ok(Taking::Done)
    }

    /// The events to be taken, by board and shard, the dead ones, and why some have to wait.
    async fn sort(&mut self) -> (Vec<OfBoard>, Vec<DeadRecord>, Option<Error>) {
        let (batch, now) = (mem::take(&mut self.batch), self.engine.clock.now());
        let mut of_boards: HashMap<&BoardId, Vec<&LogEvent>> = HashMap::new();
        for event in &batch {
            let id = &event.incoming.board;
            of_boards.entry(id).or_default().push(event);
        }
        let (mut boards, mut dead, mut waits) = (Vec::new(), Vec::new(), None);
        for (id, events) in of_boards {
            let newest = events.iter().filter_map(|event| event.generation).max();
            let live = match self.board_of(id, newest).await {
                Ok(live) => live,
                Err(error) => {
                    waits = waits.or(Some(error));
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
        (boards, dead, waits)
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

    /// Leaves out events that the board knows from before a move, because it may forget them before the queue reaches them.
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
        let given = |since| GivenRecords {
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
    pub(super) fn share(
        &self,
        live: &Arc<LiveBoard>,
        index: usize,
        events: Vec<(i64, QueuedEvent)>,
        upto: i64,
    ) -> ShardShare {
        let given = &self.boards[&live.board.id];
        let (taken, name) = (given.taken[index], QueueName::of(&live.shards[index].shard));
        let base = taken.unwrap_or(given.since);
        ShardShare {
            live: Arc::clone(live),
            index,
            base,
            is_known: taken.is_some() || self.known.contains(&name),
            events,
            upto: upto.max(base),
        }
    }

    /// Makes shards take what they are to take, and records their answers.
    pub(super) async fn run(&mut self, asked: Vec<ShardShare>) -> Result<TakeOutcome, Error> {
        let outcomes: Vec<_> = stream::iter(asked)
            .map(async |share| {
                let (reached, end) = self.take_share(&share).await;
                (share, reached, end)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut outcome = TakeOutcome::default();
        for (share, reached, end) in outcomes {
            self.note(&share, reached);
            match end {
                Ok(()) => outcome.count += 1,
                Err(Error::Again(Outdated::Board)) => {
                    outcome.stale.insert(share.live.board.id.clone());
                }
                Err(error @ Error::Again(_)) => return Err(error),
                Err(error) => outcome.failed = outcome.failed.or(Some(error)),
            }
        }
        Ok(outcome)
    }

    /// Makes a shard take its share. Returns the offset up to which it has taken records, if it has answered.
    async fn take_share(&self, asked: &ShardShare) -> (Option<i64>, Result<(), Error>) {
        let (engine, shard) = (&self.engine, &asked.live.shards[asked.index].shard);
        let rooms = &queue::of(engine).rooms;
        let (mut base, mut is_known, mut reached) = (asked.base, asked.is_known, None);
        // Even without events there is one part.
        let mut parts = asked.events.chunks(CALL_EVENTS_MAX).peekable();
        loop {
            let part = parts.next().unwrap_or_default();
            let next = parts.peek().and_then(|next| next.first());
            let upto = next.map_or(asked.upto, |(offset, _)| *offset);
            let take = Take {
                partition: &self.partition,
                base,
                upto,
                first: self.first,
                is_known,
                events: part,
            };
            let room = rooms.of(&engine.store, shard);
            match store::take(&engine.store, shard, &take, room).await {
                Ok(ShardTaken::Upto { offset, bytes }) => {
                    rooms.note(&engine.store, shard, bytes);
                    reached = Some(offset);
                    if offset < upto {
                        return (reached, Err(Problem::queue_full().into()));
                    }
                    (base, is_known) = (upto, true);
                }
                Ok(ShardTaken::Held) => {
                    return (reached, Err(Problem::board_moving(&shard.id).into()));
                }
                Ok(ShardTaken::GoneBack) => return (reached, Err(Error::Again(Outdated::Intake))),
                Err(error) => return (reached, Err(error.into())),
            }
            if parts.peek().is_none() {
                return (reached, Ok(()));
            }
        }
    }

    /// Records up to which offset a shard has taken records, if it has answered.
    fn note(&mut self, share: &ShardShare, offset: Option<i64>) {
        let board = &share.live.board;
        if let Some(given) = self.boards.get_mut(&board.id)
            && given.generation == board.generation
            && given.sharding == board.placement.current
        {
            let taken = &mut given.taken[share.index];
            *taken = (*taken).max(offset);
        }
        if offset.is_some() {
            self.known.remove(&share.name());
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
