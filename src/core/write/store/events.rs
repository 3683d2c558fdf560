//! Carries out the plans of events.
//!
//! One call takes many events of one board. Their number is bounded by their cost for Redis, so that no other client waits
//! longer than a millisecond or two.

mod args;
mod decode;
mod encode;
mod rows;

pub use self::encode::{remember_ms, update_name};
pub use self::rows::{RowArgs, StoredRow, member_of_row};

use bytes::Bytes;

use super::reservations::Token;
use crate::core::write::events::HeldEntry;
use crate::core::write::obstacles::Obstacle;
use crate::domain::edition::Changed;
use crate::domain::event::{Detail, Outcome, Rejection};
use crate::domain::ids::EventId;
use crate::domain::plan::{Plan, Route, Sum};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::reply::{Reply, require};
use crate::redis::{StoreError, keys, script};

/// How long the events of one call may keep Redis busy, in microseconds.
pub const CALL_COST_US_MAX: usize = 1_000;
/// About how long a kept event keeps Redis busy in addition, in microseconds.
pub const KEPT_COST_US: usize = 5;
/// The maximum number of events in one call that asks whether they are remembered.
pub const CALL_EVENTS_MAX: usize = 200;

/// An event with its plan, ready to be sent.
#[derive(Clone, Debug)]
pub struct PlannedEvent {
    /// What to do.
    pub plan: Plan,
    /// What the outcome contains.
    pub detail: Detail,
    /// Whether to return what remains of the board's quotas.
    pub asks_quotas: bool,
    /// The limit (exclusive) if it may be moved to directly after its member's last change.
    pub follows_until: Option<Timestamp>,
    /// Whether the history of rolling windows is sent, for those whose standing does not exist.
    pub with_history: bool,
    /// The token of its reservation, if it has one.
    pub token: Option<Token>,
    /// Whether its id was looked up in all shards of the board.
    pub is_recalled: bool,
    /// Its entry, if it comes from the queue of its shard.
    pub queued: Option<HeldEntry>,
}

impl PlannedEvent {
    /// About how long it keeps Redis busy, in microseconds. Measured on one machine; it keeps calls alike in length.
    pub fn cost_us(&self) -> usize {
        let Route {
            writes,
            sums,
            turnouts,
            ..
        } = &*self.plan.route;
        let history = sums
            .iter()
            .filter(|sum| self.sends_history(sum))
            .map(|sum| sum.history.len())
            .sum::<usize>();
        // Each standing stores its own copy of the data.
        let data = self.plan.event.data.as_ref().map_or(0, |data| {
            data.as_str().len() * (writes.len() + sums.len()) / 128
        });
        let ranked = writes.len() * usize::from(self.detail == Detail::Ranks);
        let queued = usize::from(self.queued.is_some());
        6 + 6 * writes.len()
            + 10 * sums.len()
            + history
            + data
            + 20 * ranked
            + 4 * turnouts.len()
            + 6 * self.plan.quotas.len()
            + 3 * queued
    }

    fn sends_history(&self, sum: &Sum) -> bool {
        // With initial scores the history is short, and needed for every member that has one.
        sum.derived.has_initial
            || self.with_history
            || (sum.is_past && self.detail == Detail::Standings)
    }
}

/// What a script replies for an event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventReply {
    Taken {
        /// What it did.
        outcome: Outcome,
        /// If requested, what remains of each of the board's quotas: events, or scaled points.
        remaining: Vec<i64>,
        /// The change counter of its shard after the call.
        changed: Option<Changed>,
    },
    /// Its id was known: the first outcome, and the change counter of the shard, unless another shard remembers the id.
    Duplicate(Outcome, Option<Changed>),
    /// It was refused and has changed nothing.
    Rejected(Rejection),
    /// Nothing was done.
    Prevented(Obstacle),
    /// Nothing was done: it has left the queue that it was read from, or the lease of the queue has another number.
    Gone,
}

/// What the record of an event says.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The fingerprint of its content: [`crate::domain::event::Event::fingerprint`].
    pub fingerprint: u64,
    /// What it did. If its content is not known, its changes lack the scores before it.
    pub outcome: Outcome,
    /// The number of its member's last erasure before it; 0 for none.
    pub erasure: u64,
    /// Whether it was retracted.
    pub is_out: bool,
}

/// What a former shard remembers of an event. [`Rejection::IdReused`]: an event with this id and other content.
pub type Recalled = Result<Remembered, Rejection>;

/// What a former shard remembers of events, which all have an id; `None` for those that it does not remember.
pub async fn recall(
    store: &Store,
    shard: &Shard,
    plans: Vec<&Plan>,
) -> Result<Vec<Option<Recalled>>, StoreError> {
    let ids = plans.iter().filter_map(|plan| plan.event.id.as_ref());
    let fingerprints = plans.iter().map(|plan| plan.event.fingerprint());
    let reply = store
        .call(&script::RECALL, shard.tag())
        .key(keys::head(shard.tag()))
        .keys(ids.map(|id| keys::event(shard, id)))
        .field("generation", shard.generation.to_string())
        .field("fingerprints", fingerprints.collect::<Vec<_>>())
        .field("confirm", store.waits_for_replicas())
        .write_for_reply();
    let mut reply = Reply::answer(reply.await?)?;
    plans
        .into_iter()
        .map(|plan| decode::recalled(shard, plan, reply.next()?))
        .collect()
}

/// For each of these ids, whether a former shard remembers an event under it.
pub async fn remembers(
    store: &Store,
    shard: &Shard,
    ids: Vec<&EventId>,
) -> Result<Vec<bool>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let keys = ids.into_iter().map(|id| keys::event(shard, id));
    let records: Vec<Option<Bytes>> = store.command("MGET", keys).await?;
    Ok(records.iter().map(Option::is_some).collect())
}

/// What a shard remembers of the event with this id, if it was applied there.
pub async fn remembered(
    store: &Store,
    shard: &Shard,
    id: &EventId,
) -> Result<Option<Remembered>, StoreError> {
    let record: Option<Bytes> = store.command("GET", [keys::event(shard, id)]).await?;
    if record.is_none() && shard.history.is_some() {
        let row = [&keys::single(shard, Kind::Events), id.as_str()];
        let row: Option<Bytes> = store.command("HGET", row).await?;
        return row.map(|row| rows::remembered(shard, &row)).transpose();
    }
    record
        .map(|record| decode::remembered(shard, None, &record))
        .transpose()
}

/// Carries out events of one board in one call, see [`CALL_COST_US_MAX`]. The answers are in their order. The call comes
/// after those for which this was called before, whenever its future is polled.
pub fn apply<'a>(
    store: &'a Store,
    shard: &'a Shard,
    events: Vec<PlannedEvent>,
    now: Timestamp,
) -> impl Future<Output = Result<Vec<EventReply>, StoreError>> + Send + use<'a> {
    let call = encode::call(shard, &events, now, store.waits_for_replicas());
    let reply = call.map(|call| store.write_at(shard.tag().to_owned(), call));
    async move {
        let mut reply = Reply::answer(reply?.await?)?;
        let mut replies = Vec::with_capacity(events.len());
        for event in &events {
            replies.push(decode::reply(shard, &event.plan, reply.next()?)?);
        }
        let now_changed = Changed::from_stored(&reply.text()?);
        let now_changed = require(now_changed, "a head lacks the number of its changes")?;
        for reply in &mut replies {
            if let EventReply::Taken { changed, .. } | EventReply::Duplicate(_, changed) = reply {
                *changed = Some(now_changed);
            }
        }
        let replies = reply.is_empty().then_some(replies);
        require(replies, "there is not one result for each event")
    }
}
