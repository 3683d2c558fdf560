//! Taking events at once: those that can be taken go into the queues of their shards, in calls that they may share with the events of
//! other requests, or into the log, out of which they come into the queues later (`engine/intake/`). What can be judged without the data is
//! judged before.

use std::sync::Arc;

use futures::future::join_all;

use crate::domain::board::{Board, Ingest};
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::engine::applier::{Reply, one_each, share_out};
use crate::engine::batcher::{SMALL_COST_US_MAX, Work};
use crate::engine::intake::EventLog;
use crate::engine::queue::room::Rooms;
use crate::engine::submission::Submission;
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
}

impl Work for Putter {
    type Job = Vec<QueuedEvent>;
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
        let events: Vec<QueuedEvent> = jobs.into_iter().flatten().collect();
        let room = self.rooms.of(&self.store, &self.shard);
        let put = self.store.put(&self.shard, &events, room);
        async move {
            let put = put.await;
            if let Ok(Versioned::Current(answers)) = &put {
                let bytes = answers.iter().map(Put::bytes).sum();
                self.rooms.note(&self.store, &self.shard, bytes);
            }
            share_out(put, &lengths)
        }
    }
}

/// What became of events that were to be queued.
#[derive(Debug, Default)]
pub(crate) struct QueuedBatch {
    /// Those that are queued, and those that are not taken, by their indexes.
    pub(crate) ended: Vec<(usize, Result<QueuedEvent, Error>)>,
    /// Those that have to be carried out at once: only their shard can say what becomes of them.
    pub(crate) left: Vec<Submission>,
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
    /// Queues events of one request that are of this board. If a player has sent them, its ids are apart from those of others.
    pub(crate) async fn queue(
        &self,
        board: &BoardId,
        mut open: Vec<Submission>,
        player: Option<&MemberId>,
    ) -> QueuedBatch {
        let mut batch = QueuedBatch::default();
        let mut error = None;
        for _ in 0..ATTEMPTS_MAX {
            match self
                .try_to_queue(board, &mut open, player, &mut batch)
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
        let failed = failed.map(|event| (event.index(), Err(error.clone())));
        batch.ended.extend(failed);
        batch
    }

    /// Puts the events that are open into the queues of their shards, or into the log. Those whose board has changed stay open.
    async fn try_to_queue(
        &self,
        id: &BoardId,
        open: &mut Vec<Submission>,
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
        let mut of_shards: Vec<Parts> = live.shards.iter().map(|_| Parts::default()).collect();
        for submission in open.drain(..) {
            match self.judge(&live, &submission, player, now).await {
                Ok(Judged::Takable(event)) => {
                    let shard = live.board.shard_of(&event.member);
                    of_shards[shard].push((submission, event));
                }
                Ok(Judged::Known(event)) => batch.ended.push((submission.index(), Ok(*event))),
                Ok(Judged::Refused) => batch.left.push(submission),
                Err(error) => batch.ended.push((submission.index(), Err(error))),
            }
        }
        self.leave_known(&live, &mut of_shards, batch).await;
        let queued = match &self.log {
            Some(log) => append(log.as_ref(), &live, of_shards).await,
            None => self.put_all(&live, of_shards).await,
        };
        for (submission, event, reply) in queued {
            batch.hear(submission, event, reply, open);
        }
        if !open.is_empty() {
            self.reload(id).await?;
        }
        Ok(())
    }

    /// Puts events into the queues of their shards.
    async fn put_all(&self, live: &LiveBoard, of_shards: Vec<Parts>) -> Vec<Heard> {
        let puts = of_shards.into_iter().zip(&live.shards);
        let puts = puts.filter(|(parts, _)| !parts.0.is_empty());
        let mut names = Vec::new();
        let puts = puts.inspect(|(_, shard)| names.push(QueueName::of(&shard.shard)));
        let puts = puts.flat_map(|(parts, shard)| {
            parts.0.into_iter().map(async |part| {
                let events = part.iter().map(|(_, event)| event.clone()).collect();
                let replies = one_each(shard.putter.submit(events).await, part.len());
                let heard = part.into_iter().zip(replies);
                let heard = heard.map(|((submission, event), reply)| {
                    (submission, event, reply.map_err(Error::from))
                });
                heard.collect::<Vec<_>>()
            })
        });
        // With their number known, few of them need no queue of futures.
        let puts: Vec<_> = puts.collect();
        let puts = join_all(puts).await;
        self.queues.wake(names);
        puts.into_iter().flatten().collect()
    }

    /// Takes out the events that the board remembers from before a move: by the time that their turn comes, they may be forgotten.
    async fn leave_known(
        &self,
        live: &LiveBoard,
        of_shards: &mut [Parts],
        batch: &mut QueuedBatch,
    ) {
        if live.former.is_empty() {
            return;
        }
        let events = of_shards.iter().flat_map(|parts| parts.0.iter().flatten());
        let ids: Vec<_> = events
            .map(|(_, event)| (&event.id, &event.member))
            .collect();
        let known = self.remembered_before(live, &ids).await;
        let parts = of_shards.iter_mut().flat_map(|parts| &mut parts.0);
        match known {
            Ok(known) => {
                let mut known = known.into_iter();
                for part in parts {
                    let left = part.extract_if(.., |_| known.next() == Some(true));
                    batch.left.extend(left.map(|(submission, _)| submission));
                }
            }
            Err(error) => {
                let failed = parts.flat_map(|part| part.drain(..));
                let failed = failed.map(|(event, _)| (event.index(), Err(error.clone().into())));
                batch.ended.extend(failed);
            }
        }
        for parts in of_shards {
            parts.0.retain(|part| !part.is_empty());
        }
    }

    /// Says what can be said of an event without the data of its board.
    async fn judge(
        &self,
        live: &LiveBoard,
        submission: &Submission,
        player: Option<&MemberId>,
        now: Timestamp,
    ) -> Result<Judged, Error> {
        let event = submission.incoming().event(&live.board)?;
        let plan = live.routes.plan(&live.board, event, now);
        let is_refused = plan.rejection.is_some();
        let id = match &plan.event.id {
            Some(id) => id.clone(),
            None if is_refused => return Ok(Judged::Refused),
            None => random_id(player)?,
        };
        let event = QueuedEvent::new(&live.board, id, plan.event, now);
        if !is_refused {
            return Ok(Judged::Takable(event));
        }
        let shard = &live.shard_of(&event.member).shard;
        let waiting = self.store.queued(shard, &event.id).await?;
        let is_it = |waiting: &QueuedEvent| waiting.fingerprint == event.fingerprint;
        let known = waiting.into_iter().find(is_it);
        Ok(known.map_or(Judged::Refused, |event| Judged::Known(Box::new(event))))
    }
}

/// An event that was to be queued, and what was said to that.
type Heard = (Submission, QueuedEvent, Result<Versioned<Put>, Error>);

/// Appends events to the log.
async fn append(log: &dyn EventLog, live: &LiveBoard, of_shards: Vec<Parts>) -> Vec<Heard> {
    let events = of_shards.into_iter().flat_map(|parts| parts.0).flatten();
    let appended = events.map(async |(submission, event)| {
        let appended = log.append(&live.board, &event).await;
        // It does not count in any queue yet.
        let reply = appended.map(|()| Versioned::Current(Put::Queued(0)));
        (submission, event, reply)
    });
    let appended: Vec<_> = appended.collect();
    join_all(appended).await
}

/// Events of one shard, in parts that go into one call each.
#[derive(Debug, Default)]
struct Parts(Vec<Vec<(Submission, QueuedEvent)>>);

impl Parts {
    fn push(&mut self, event: (Submission, QueuedEvent)) {
        match self.0.last_mut() {
            Some(part) if part.len() < CALL_EVENTS_MAX => part.push(event),
            _ => self.0.push(vec![event]),
        }
    }
}

/// What can be said of an event without the data of its board.
enum Judged {
    /// It can be taken.
    Takable(QueuedEvent),
    /// It would be refused by now, and waits already.
    Known(Box<QueuedEvent>),
    /// It is refused, unless its id is known.
    Refused,
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
        submission: Submission,
        event: QueuedEvent,
        reply: Result<Versioned<Put>, Error>,
        open: &mut Vec<Submission>,
    ) {
        let result = match reply {
            Ok(Versioned::Stale) => return open.push(submission),
            Ok(Versioned::Current(Put::BeforeBarrier)) => return self.left.push(submission),
            Ok(Versioned::Current(Put::Queued(_))) => Ok(event),
            Ok(Versioned::Current(Put::Known(known))) => Ok(*known),
            Ok(Versioned::Current(Put::Unreadable(why))) => {
                let detail = format!("the event waits already, and can't be read: {why}");
                Err(StoreError::Unexpected(detail).into())
            }
            Ok(Versioned::Current(Put::NoRoom)) => Err(Error::QueueFull),
            Err(error) => Err(error),
        };
        self.ended.push((submission.index(), result));
    }
}
