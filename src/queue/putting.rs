//! Queuing events: they join the queues of their shards, in calls shared with other requests, or the log, from which they
//! enter the queues later (`queue/intake/`). Everything that needs no data is checked before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;

use super::Queues;
use super::capacity::Rooms;
use super::intake::EventLog;
use super::store::queues::{self, Put, QueueName};
use crate::core::board::store::boards;
use crate::core::write::applier::{one_each, share_out};
use crate::core::write::events::{IncomingEvent, random_id};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard, LiveShard};
use crate::domain::board::{Board, Ingest};
use crate::domain::ids::MemberId;
use crate::domain::plan::Instants;
use crate::domain::problems::Problem;
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::redis::decode::Raw;
use crate::redis::{Store, StoreError};
use crate::runtime::batcher::{Batcher, Work, admit};
use crate::runtime::join::join_all;

/// The maximum number of events of one call.
const CALL_EVENTS_MAX: usize = 200;
/// About how long an event occupies Redis, in microseconds.
const EVENT_COST_US: usize = 4;

/// Puts events into the queue of one shard.
#[derive(Debug)]
pub(crate) struct Putter {
    store: Arc<Store>,
    shard: Shard,
    /// How much room there is.
    rooms: Arc<Rooms>,
    /// What this instance knows of queues.
    queues: Arc<Queues>,
    /// Whether more events wait here than fit into the next call. The shard's applying then makes way.
    is_flooded: Arc<AtomicBool>,
}

impl Work for Putter {
    type Item = Vec<Arc<QueuedEvent>>;
    type Answer = Result<Vec<Put>, StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, events: &Self::Item) -> bool {
        admit(load, events.len(), CALL_EVENTS_MAX)
    }

    fn cost_us(load: &usize) -> usize {
        load * EVENT_COST_US
    }

    fn note_behind(&self, is_behind: bool) {
        self.is_flooded.store(is_behind, Ordering::Relaxed);
    }

    fn call(
        &self,
        items: Vec<Self::Item>,
        _: usize,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send {
        let lengths: Vec<usize> = items.iter().map(Vec::len).collect();
        let events = items.into_iter().flatten().collect();
        let room = self.rooms.of(&self.store, &self.shard);
        let put = queues::put(&self.store, &self.shard, events, room);
        put.map(move |put| {
            if let Ok(put) = &put {
                let bytes = put.iter().map(|put| match put {
                    Put::Queued(bytes) => *bytes,
                    Put::Known(_) | Put::BeforeBarrier | Put::NoRoom => 0,
                });
                self.rooms.note(&self.store, &self.shard, bytes.sum());
            }
            self.queues.wake([QueueName::of(&self.shard)]);
            share_out(put, &lengths)
        })
    }
}

/// The batcher that puts events into the queue of a shard.
fn putter<'a>(engine: &Engine, live: &'a LiveShard) -> &'a Arc<Batcher<Putter>> {
    let putter = live
        .putter
        .get_or_init(|| {
            let state = super::of(engine);
            Box::new(Batcher::new(Putter {
                store: Arc::clone(&engine.store),
                shard: live.shard.clone(),
                rooms: Arc::clone(&state.rooms),
                queues: Arc::clone(&state.queues),
                is_flooded: Arc::clone(&live.is_flooded),
            }))
        })
        .downcast_ref();
    putter.expect("invariant: nobody else makes it")
}

impl Board {
    /// Whether events of the board are queued, given whether the request asks for it.
    pub(crate) fn queues(&self, is_asked_for: bool) -> bool {
        self.has_queues() && (is_asked_for || self.definition.ingest == Ingest::Async)
    }

    /// Whether events of the board can be queued.
    pub(crate) fn has_queues(&self) -> bool {
        // The slot of a league's event is only known once its member has a seat. While a board moves, its queues have to
        // run empty (`moves/job.rs`).
        !self.is_league() && self.placement.next.is_none()
    }
}

/// The outcome of an event to be queued; `None`: only its shard can decide, on the synchronous path.
pub(crate) type QueueOutcome = Result<Option<Arc<QueuedEvent>>, Error>;

/// Queues those events of a request, all of this board, that have these indexes. Ids that a player sends are kept apart
/// from those of others. Returns each outcome, with its index.
pub(crate) async fn queue_events(
    engine: &Engine,
    mut live: Arc<LiveBoard>,
    request: &[IncomingEvent],
    mut open: Vec<usize>,
    player: Option<&MemberId>,
) -> Vec<(usize, QueueOutcome)> {
    let mut ended = Vec::with_capacity(open.len());
    let queued = async {
        for _ in 0..ATTEMPTS_MAX {
            let tried = try_to_queue(engine, &live, request, &open, player, &mut ended).await;
            if engine.unless_again(&live.board.id, tried).await?.is_some() {
                // The board of these has changed.
                let is_open = |(_, outcome): &mut (usize, QueueOutcome)| {
                    matches!(outcome, Err(Error::Again(_)))
                };
                open.clear();
                open.extend(ended.extract_if(.., is_open).map(|(index, _)| index));
                if open.is_empty() {
                    return Ok(());
                }
                engine.reload(&live.board.id).await?;
            }
            live = engine.live_board(&live.board.id).await?;
        }
        Err(Error::try_again(Problem::board_changes(&live.board.id)))
    };
    if let Err(error) = queued.await {
        let failed = open.into_iter().map(|index| (index, Err(error.clone())));
        ended.extend(failed);
    }
    ended
}

/// Puts events into the queues of their shards, or into the log, and adds their outcomes.
async fn try_to_queue(
    engine: &Engine,
    live: &LiveBoard,
    request: &[IncomingEvent],
    indexes: &[usize],
    player: Option<&MemberId>,
    outcomes: &mut Vec<(usize, QueueOutcome)>,
) -> Result<(), Error> {
    if !live.board.has_queues() {
        outcomes.extend(indexes.iter().map(|index| (*index, Ok(None))));
        return Ok(());
    }
    let log = super::of(engine).log.as_ref();
    engine.note_use(live).await?;
    if log.is_some() {
        // The log itself takes events of any board, even of a deleted one.
        boards::require_current(&engine.store, &live.board).await?;
    }
    let (mut takable, mut refused) = (Vec::with_capacity(indexes.len()), Vec::new());
    for &index in indexes {
        match judge(live, &request[index], player) {
            Ok((Some(event), false)) => takable.push(Takable {
                index,
                shard: live.board.shard_of(&event.member),
                event: Arc::new(event),
            }),
            Ok((Some(event), true)) => refused.push((index, event)),
            Ok((None, _)) => outcomes.push((index, Ok(None))),
            Err(error) => outcomes.push((index, Err(error))),
        }
    }
    if !refused.is_empty() {
        // Boxed because it is rare.
        outcomes.extend(find_waiting(engine, live, refused).boxed().await);
    }
    if !live.former.is_empty() {
        leave_known(engine, live, &mut takable, outcomes).await;
    }
    let replies = match log {
        Some(log) => append(log.as_ref(), live, &takable).await,
        None => put_all(engine, live, &mut takable).await,
    };
    let put = takable.into_iter().zip(replies);
    outcomes.extend(put.map(|(takable, reply)| (takable.index, outcome(takable.event, reply))));
    Ok(())
}

/// Leaves out events that the board knows from before a move, as it may forget them before the queue reaches them.
async fn leave_known(
    engine: &Engine,
    live: &LiveBoard,
    takable: &mut Vec<Takable>,
    outcomes: &mut Vec<(usize, QueueOutcome)>,
) {
    let ids: Vec<_> = takable
        .iter()
        .map(|one| (&one.event.id, &one.event.member))
        .collect();
    match engine.remembered_before(live, &ids).boxed().await {
        Ok(known) => {
            let mut known = known.into_iter();
            let left = takable.extract_if(.., |_| known.next() == Some(true));
            outcomes.extend(left.map(|one| (one.index, Ok(None))));
        }
        Err(error) => {
            let failed = takable.drain(..);
            outcomes.extend(failed.map(|one| (one.index, Err(error.clone().into()))));
        }
    }
}

/// Finds those of these events that already wait, although they would be refused now.
async fn find_waiting(
    engine: &Engine,
    live: &LiveBoard,
    events: Vec<(usize, QueuedEvent)>,
) -> Vec<(usize, QueueOutcome)> {
    let found = events.into_iter().map(async |(index, event)| {
        let shard = &live.shard_of(&event.member).shard;
        let is_it = |waiting: &QueuedEvent| waiting.fingerprint == event.fingerprint;
        let waiting = queues::find(&engine.store, shard, &event.id).await;
        let found = waiting.map(|waiting| waiting.into_iter().find(is_it).map(Arc::new));
        (index, found.map_err(Error::from))
    });
    join_all(found).await
}

struct Takable {
    /// Its index in the request.
    index: usize,
    shard: usize,
    event: Arc<QueuedEvent>,
}

/// Appends events to the log. Results are in their order.
async fn append(
    log: &dyn EventLog,
    live: &LiveBoard,
    events: &[Takable],
) -> Vec<Result<Put, Error>> {
    let appended = events.iter().map(async |takable| {
        let appended = log.append(&live.board, &takable.event).await;
        // It does not count in any queue yet.
        appended.map(|()| Put::Queued(0))
    });
    join_all(appended).await
}

/// Puts events into the queues of their shards, split into parts of one call each. Sorts the events by shard; the results
/// are in that order.
async fn put_all(
    engine: &Engine,
    live: &LiveBoard,
    events: &mut [Takable],
) -> Vec<Result<Put, Error>> {
    events.sort_by_key(|takable| takable.shard);
    let of_shards = events.chunk_by(|one, next| one.shard == next.shard);
    let puts = of_shards
        .flat_map(|events| events.chunks(CALL_EVENTS_MAX))
        .map(async |part| {
            let events = part.iter().map(|takable| Arc::clone(&takable.event));
            let shard = &live.shards[part[0].shard];
            let reply = putter(engine, shard).submit(events.collect()).await;
            one_each(reply, part.len())
        });
    join_all(puts)
        .await
        .into_iter()
        .flatten()
        .map(|reply| reply.map_err(Error::from))
        .collect()
}

/// Checks an event without the data of its board: the event to be queued, and whether it is refused. A refused event may
/// already wait if it has an id, and takes the synchronous path if it has none.
fn judge(
    live: &LiveBoard,
    incoming: &IncomingEvent,
    player: Option<&MemberId>,
) -> Result<(Option<QueuedEvent>, bool), Error> {
    let event = incoming.event(&live.board)?;
    let arrived_at = incoming.arrived_at;
    let instants = Instants::of(&event, arrived_at);
    let plan = live.plan(event, instants);
    let is_refused = plan.rejection.is_some();
    let id = match &plan.event.id {
        Some(id) => id.clone(),
        None if is_refused => return Ok((None, true)),
        None => random_id(player)?,
    };
    let event = QueuedEvent::new(&live.board, id, plan.event, arrived_at);
    Ok((Some(event), is_refused))
}

/// The outcome of putting an event.
fn outcome(event: Arc<QueuedEvent>, reply: Result<Put, Error>) -> QueueOutcome {
    Ok(Some(match reply? {
        Put::BeforeBarrier => return Ok(None),
        Put::Queued(_) => event,
        Put::Known(Raw(known)) => {
            let known = QueuedEvent::decode(event.id.as_str().as_bytes(), &known);
            Arc::new(known.map_err(|why| {
                let detail = format!("the event is already queued, but can't be read: {why}");
                StoreError::Unexpected(detail)
            })?)
        }
        Put::NoRoom => return Err(Problem::queue_full().into()),
    }))
}
