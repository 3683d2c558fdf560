//! Finds out what became of events, by their ids.

use std::sync::Arc;

use futures::future::try_join_all;

use super::{Error, Service};
use crate::domain::event::Status;
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::queued::QueuedEvent;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::engine::LiveBoard;
use crate::engine::queue::refusal::Refusal;
use crate::store::events::Known;
use crate::store::{StoreError, Versioned};

/// Which events are looked for.
#[derive(Clone, Debug)]
pub struct EventsRequest {
    /// Of which board.
    pub board: BoardId,
    /// Under which id.
    pub id: EventId,
    /// Of which member; without one, all shards are asked.
    pub member: Option<MemberId>,
}

/// The events of an id.
#[derive(Debug)]
pub struct FoundEvents {
    /// Their board.
    pub live: Arc<LiveBoard>,
    /// What became of them; first those that wait.
    pub events: Vec<EventStatus>,
}

/// What became of an event.
#[derive(Debug)]
pub enum EventStatus {
    /// It waits to be applied.
    Queued(Box<QueuedEvent>),
    /// It was taken.
    Applied {
        /// How it ended.
        status: Status,
        /// The instant that it counted for.
        at: Timestamp,
        /// The scores that its member had then, in the order of the windows. None if somebody was erased since who may be its member.
        scores: Vec<(Window, Score)>,
    },
    /// A rule has refused it when it was to be applied.
    Rejected {
        /// The instant that it would have counted for.
        at: Timestamp,
        /// Why.
        error: Error,
    },
}

impl Service {
    /// Finds the events that wait under an id, and the one that was taken, as long as it is remembered.
    pub async fn event_status(&self, request: &EventsRequest) -> Result<FoundEvents, Error> {
        let live = self.engine.live_board(&request.board).await?;
        let (id, member) = (&request.id, request.member.as_ref());
        let of_shards = shards_for(&live, member).into_iter();
        let of_shards = of_shards.map(async |shard| {
            // In this order: what is applied between the two is met twice, and not missed.
            let waiting = self.engine.store.queued(shard, &[id]).await?.concat();
            let known = self.engine.store.known(shard, id).await?;
            let refused = self.engine.store.refused_events(shard, &[id]).await?;
            Ok::<_, Error>((waiting, known, refused))
        });
        let (mut waiting, mut known, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for of_shard in try_join_all(of_shards).await? {
            waiting.extend(of_shard.0);
            known.extend(of_shard.1);
            refused.extend(of_shard.2.into_iter().flatten());
        }
        let is_known = |event: &QueuedEvent| {
            let mut known = known.iter();
            known.any(|known| known.fingerprint == event.fingerprint)
        };
        let is_taken = !known.is_empty();
        let waiting = waiting.into_iter().filter(|event| !is_known(event));
        let mut events: Vec<_> = waiting
            .map(|event| EventStatus::Queued(Box::new(event)))
            .collect();
        for known in known {
            events.push(self.applied(&live, member, known).await?);
        }
        // An event that was refused blocks no other under its id.
        for refused in refused.iter().filter(|_| !is_taken) {
            events.push(refusal(refused)?);
        }
        Ok(FoundEvents { live, events })
    }

    /// An event that was taken; without its scores if they may be from before an erasure of its member.
    async fn applied(
        &self,
        live: &LiveBoard,
        member: Option<&MemberId>,
        known: Known,
    ) -> Result<EventStatus, Error> {
        let is_current = match member {
            Some(member) => self.last_erasure(live, member).await? == known.erasure,
            None => !self.has_erased(live).await?,
        };
        let scores = known.scores.into_iter().filter(|_| is_current);
        Ok(EventStatus::Applied {
            status: known.status,
            at: known.at,
            scores: scores.collect(),
        })
    }

    /// The number of the last erasure of a member; 0 if it was never erased.
    async fn last_erasure(&self, live: &LiveBoard, member: &MemberId) -> Result<u64, Error> {
        let shard = &live.shard_of(member).shard;
        let last = self.engine.store.last_erasures(shard, &[member]).await?;
        let Versioned::Current(last) = last else {
            self.engine.reload(&live.board.id).await?;
            return Err(Error::busy());
        };
        let last = last.into_iter().flatten().next();
        Ok(last.map_or(0, |last| last.number))
    }

    /// Whether any member of a board was ever erased.
    async fn has_erased(&self, live: &LiveBoard) -> Result<bool, Error> {
        let asked = live.shards.iter();
        let asked = asked.map(|live| self.engine.store.has_erased(&live.shard));
        Ok(try_join_all(asked).await?.contains(&true))
    }
}

/// An event that was refused, as that is stored.
fn refusal(json: &str) -> Result<EventStatus, Error> {
    let read = serde_json::from_str::<Refusal>(json);
    let refusal = read.map_err(|error| {
        let message = format!("a refusal that can't be read: {error}");
        StoreError::Unexpected(message)
    })?;
    Ok(EventStatus::Rejected {
        at: refusal.at,
        error: refusal.into(),
    })
}

/// The shards, also former ones, that may know of an event of a member, or of any.
fn shards_for<'a>(live: &'a LiveBoard, member: Option<&MemberId>) -> Vec<&'a Shard> {
    // In a league, any cohort may remember it.
    let current: Vec<&Shard> = match member {
        Some(member) if !live.board.is_league() => vec![&live.shard_of(member).shard],
        _ => live.shards.iter().map(|live| &live.shard).collect(),
    };
    let former = live.former.iter();
    let former = former.flat_map(|former| former.shards_for(member));
    current.into_iter().chain(former).collect()
}
