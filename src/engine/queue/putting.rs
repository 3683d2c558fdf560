//! Taking events at once: those that can be taken go into the queues of their shards, in calls that they may share with the events of
//! other requests, or into the log, out of which they come into the queues later (`engine/intake/`). What can be judged without the data is
//! judged before.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;

use crate::domain::board::{Board, Ingest};
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::engine::applier::{Reply, one_each, share_out};
use crate::engine::batcher::{SMALL_COST_US_MAX, Work};
use crate::engine::events::Incoming;
use crate::engine::intake::EventLog;
use crate::engine::queue::Queues;
use crate::engine::queue::room::Rooms;
use crate::engine::{ATTEMPTS_MAX, Engine, Error, LiveBoard};
use crate::store::queues::{Put, QueueName};
use crate::store::{Store, StoreError, Versioned, random};

/// The most events of one call.
const CALL_EVENTS_MAX: usize = 200;
/// About how long an event keeps Redis busy, in microseconds.
const EVENT_COST_US: usize = 4;
/// How many random bytes the id has of an event that came without one.
const ID_BYTES: usize = 12;

/// Puts events into the queue of one shard.
#[derive(Debug)]
pub struct Putter {
    /// Redis.
    pub store: Arc<Store>,
    /// The shard.
    pub shard: Shard,
    /// How much room there is.
    pub rooms: Arc<Rooms>,
    /// Who applies what is in queues.
    pub queues: Arc<Queues>,
}

impl Work for Putter {
    type Job = Vec<Arc<QueuedEvent>>;
    type Answer = Reply<Vec<Put>>;
    type Load = usize;

    fn admit(&self, load: &mut usize, events: &Self::Job) -> bool {
        *load += events.len();
        *load <= CALL_EVENTS_MAX
    }

    fn is_small(load: &usize) -> bool {
        load * EVENT_COST_US <= SMALL_COST_US_MAX
    }

    fn call(&self, jobs: Vec<Self::Job>) -> impl Future<Output = Vec<Self::Answer>> + Send {
        let lengths: Vec<usize> = jobs.iter().map(Vec::len).collect();
        let events = jobs.into_iter().flatten().collect();
        let room = self.rooms.of(&self.store, &self.shard);
        let put = self.store.put(&self.shard, events, room);
        put.map(move |put| {
            if let Ok(Versioned::Current(answers)) = &put {
                let bytes = answers.iter().map(Put::bytes).sum();
                self.rooms.note(&self.store, &self.shard, bytes);
            }
            self.queues.wake([QueueName::of(&self.shard)]);
            share_out(put, &lengths)
        })
    }
}

/// What became of events that were to be queued, by their indexes in the request.
#[derive(Debug, Default)]
pub(crate) struct QueuedBatch {
    /// Those that are queued, and those that are not taken.
    pub(crate) ended: Vec<(usize, Result<Arc<QueuedEvent>, Error>)>,
    /// Those that have to be carried out at once: only their shard can say what becomes of them.
    pub(crate) left: Vec<usize>,
}

impl Board {
    /// Whether its events are queued, if the request asks for that or not.
    pub(crate) fn queues(&self, is_asked_for: bool) -> bool {
        self.has_queues() && (is_asked_for || self.definition.ingest == Ingest::Async)
    }

    /// Whether its events can be queued.
    pub(super) fn has_queues(&self) -> bool {
        // In which slot an event of a league lies is known only once its member is seated. The queues of a board that moves have to
        // come to their end (`engine/moves.rs`).
        !self.is_league() && self.placement.next.is_none()
    }
}

impl Engine {
    /// Queues the events of a request with these indexes, which are of this board. If a player has sent them, its ids are apart from
    /// those of others.
    pub(crate) async fn queue(
        &self,
        board: &BoardId,
        request: &[Incoming],
        mut open: Vec<usize>,
        player: Option<&MemberId>,
    ) -> QueuedBatch {
        let mut batch = QueuedBatch::default();
        let mut error = None;
        for _ in 0..ATTEMPTS_MAX {
            match self
                .try_to_queue(board, request, &mut open, player, &mut batch)
                .await
            {
                Ok(()) if open.is_empty() => return batch,
                Ok(()) => {}
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            }
        }
        let error = error.unwrap_or_else(Error::busy);
        let failed = open.into_iter();
        let failed = failed.map(|index| (index, Err(error.clone())));
        batch.ended.extend(failed);
        batch
    }

    /// Puts the events that are open into the queues of their shards, or into the log. Those whose board has changed stay open.
    async fn try_to_queue(
        &self,
        id: &BoardId,
        request: &[Incoming],
        open: &mut Vec<usize>,
        player: Option<&MemberId>,
        batch: &mut QueuedBatch,
    ) -> Result<(), Error> {
        let live = self.live_board(id).await?;
        if !live.board.has_queues() {
            batch.left.append(open);
            return Ok(());
        }
        if !self.note_use(&live).await? {
            return Ok(());
        }
        let now = self.clock.now();
        let mut takable = Vec::with_capacity(open.len());
        for index in open.drain(..) {
            match judge(&live, &request[index], player, now) {
                Ok(Judged::Takable(event)) => takable.push((index, Arc::new(event))),
                Ok(Judged::Refused(None)) => batch.left.push(index),
                Ok(Judged::Refused(Some(event))) => match self.find_waiting(&live, &event).await {
                    Ok(Some(waiting)) => batch.ended.push((index, Ok(Arc::new(waiting)))),
                    Ok(None) => batch.left.push(index),
                    Err(error) => batch.ended.push((index, Err(error))),
                },
                Err(error) => batch.ended.push((index, Err(error))),
            }
        }
        self.leave_known(&live, &mut takable, batch).await;
        let heard = match &self.log {
            Some(log) => append(log.as_ref(), &live, takable).await,
            None => put_all(&live, takable).await,
        };
        for (index, event, reply) in heard {
            batch.hear(index, event, reply, open);
        }
        if !open.is_empty() {
            self.reload(id).await?;
        }
        Ok(())
    }

    /// Takes out the events that the board remembers from before a move: by the time that their turn comes, they may be forgotten.
    async fn leave_known(
        &self,
        live: &LiveBoard,
        takable: &mut Vec<Takable>,
        batch: &mut QueuedBatch,
    ) {
        if live.former.is_empty() {
            return;
        }
        let ids = takable.iter();
        let ids: Vec<_> = ids.map(|(_, event)| (&event.id, &event.member)).collect();
        match Box::pin(self.remembered_before(live, &ids)).await {
            Ok(known) => {
                let mut known = known.into_iter();
                let left = takable.extract_if(.., |_| known.next() == Some(true));
                batch.left.extend(left.map(|(index, _)| index));
            }
            Err(error) => {
                let failed = takable.drain(..);
                let failed = failed.map(|(index, _)| (index, Err(error.clone().into())));
                batch.ended.extend(failed);
            }
        }
    }

    /// Finds an event that waits already, although it would be refused by now.
    async fn find_waiting(
        &self,
        live: &LiveBoard,
        event: &QueuedEvent,
    ) -> Result<Option<QueuedEvent>, Error> {
        let shard = &live.shard_of(&event.member).shard;
        let waiting = Box::pin(self.store.queued(shard, &event.id)).await?;
        let is_it = |waiting: &QueuedEvent| waiting.fingerprint == event.fingerprint;
        Ok(waiting.into_iter().find(is_it))
    }
}

/// An event that can be queued, with its index in the request.
type Takable = (usize, Arc<QueuedEvent>);

/// Such an event, and what was said when it was queued.
type Heard = (usize, Arc<QueuedEvent>, Result<Versioned<Put>, Error>);

/// Appends events to the log.
async fn append(log: &dyn EventLog, live: &LiveBoard, events: Vec<Takable>) -> Vec<Heard> {
    let appended = events.into_iter().map(async |(index, event)| {
        let appended = log.append(&live.board, &event).await;
        // It does not count in any queue yet.
        let reply = appended.map(|()| Versioned::Current(Put::Queued(0)));
        (index, event, reply)
    });
    join_all(appended).await
}

/// Puts events into the queues of their shards, in parts that go into one call each.
async fn put_all(live: &LiveBoard, events: Vec<Takable>) -> Vec<Heard> {
    let mut parts: Vec<(usize, Vec<Takable>)> = Vec::new();
    // The last part of each shard.
    let mut last_of = vec![None; live.shards.len()];
    for takable in events {
        let shard = live.board.shard_of(&takable.1.member);
        match last_of[shard].map(|last: usize| &mut parts[last].1) {
            Some(part) if part.len() < CALL_EVENTS_MAX => part.push(takable),
            _ => {
                last_of[shard] = Some(parts.len());
                parts.push((shard, vec![takable]));
            }
        }
    }
    let puts = parts.into_iter().map(async |(shard, part)| {
        let events = part.iter().map(|(_, event)| Arc::clone(event)).collect();
        let reply = live.shards[shard].putter.submit(events).await;
        let replies = one_each(reply, part.len()).into_iter();
        let replies = replies.map(|reply| reply.map_err(Error::from));
        let heard = part.into_iter().zip(replies);
        let heard = heard.map(|((index, event), reply)| (index, event, reply));
        heard.collect::<Vec<_>>()
    });
    join_all(puts).await.into_iter().flatten().collect()
}

/// What can be said of an event without the data of its board.
enum Judged {
    /// It can be taken.
    Takable(QueuedEvent),
    /// It is refused, unless its id is known. If it has one, it may wait already, as this.
    Refused(Option<QueuedEvent>),
}

fn judge(
    live: &LiveBoard,
    incoming: &Incoming,
    player: Option<&MemberId>,
    now: Timestamp,
) -> Result<Judged, Error> {
    let event = incoming.event(&live.board)?;
    let plan = live.routes.plan(&live.board, event, now);
    let is_refused = plan.rejection.is_some();
    let id = match &plan.event.id {
        Some(id) => id.clone(),
        None if is_refused => return Ok(Judged::Refused(None)),
        None => random_id(player)?,
    };
    let event = QueuedEvent::new(&live.board, id, plan.event, now);
    Ok(if is_refused {
        Judged::Refused(Some(event))
    } else {
        Judged::Takable(event)
    })
}

/// An id for an event that came without one.
fn random_id(player: Option<&MemberId>) -> Result<EventId, Error> {
    let text = random::hexadecimal::<ID_BYTES>("")?;
    let id = EventId::parse(&text).map_err(|error| StoreError::Unexpected(error.to_string()))?;
    Ok(player.map_or_else(|| id.clone(), |player| EventId::of_player(player, &id)))
}

impl QueuedBatch {
    /// Takes note of what the store says of an event that was to be put.
    fn hear(
        &mut self,
        index: usize,
        event: Arc<QueuedEvent>,
        reply: Result<Versioned<Put>, Error>,
        open: &mut Vec<usize>,
    ) {
        let result = match reply {
            Ok(Versioned::Stale) => return open.push(index),
            Ok(Versioned::Current(Put::BeforeBarrier)) => return self.left.push(index),
            Ok(Versioned::Current(Put::Queued(_))) => Ok(event),
            Ok(Versioned::Current(Put::Known(known))) => Ok(known),
            Ok(Versioned::Current(Put::Unreadable(why))) => {
                let detail = format!("the event waits already, and can't be read: {why}");
                Err(StoreError::Unexpected(detail).into())
            }
            Ok(Versioned::Current(Put::NoRoom)) => Err(Error::QueueFull),
            Err(error) => Err(error),
        };
        self.ended.push((index, result));
    }
}
