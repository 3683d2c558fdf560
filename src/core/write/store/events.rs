//! Carries out the plans of events.
//!
//! One call takes many events of one board. Their number is bounded by their cost for Redis, so that no other client waits
//! longer than a millisecond or two.

mod decode;
mod encode;

pub use self::encode::remember_ms;

use crate::redis::Value;
use bytes::Bytes;

use super::held::Held;
use super::reservations::Token;
use crate::domain::edition::Changed;
use crate::domain::event::{Detail, Outcome, Rejection, Status};
use crate::domain::ids::EventId;
use crate::domain::plan::{Plan, Route, Sum};
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::redis::dispatch::Store;
use crate::redis::reply::{Reply, require};
use crate::redis::{StoreError, keys, script};

/// How long the events of one call may keep Redis busy, in microseconds.
pub const CALL_COST_US_MAX: usize = 1_000;
/// The most events in one call that asks whether they are remembered.
pub const CALL_EVENTS_MAX: usize = 200;

/// An event that is ready to be sent.
#[derive(Clone, Debug)]
pub struct Ready {
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
    pub queued: Option<Held>,
}

impl Ready {
    /// About how long it keeps Redis busy, in microseconds. Measured on one machine; it keeps calls alike in length.
    pub fn cost_us(&self) -> usize {
        let Route {
            writes,
            sums,
            turnouts,
            ..
        } = &*self.plan.route;
        let history = |sum: &Sum| {
            if self.sends_history(sum) {
                sum.history.len()
            } else {
                0
            }
        };
        // Each standing stores its own copy of the data.
        let data = self.plan.event.data.as_ref().map_or(0, |data| {
            data.as_str().len() * (writes.len() + sums.len()) / 128
        });
        let sums = sums.iter().map(|sum| 10 + history(sum)).sum::<usize>();
        let ranks = if self.detail == Detail::Ranks {
            20 * writes.len()
        } else {
            0
        };
        let queued = if self.queued.is_some() { 3 } else { 0 };
        let turnouts = 4 * turnouts.len();
        6 + 6 * writes.len() + sums + data + ranks + turnouts + 6 * self.plan.quotas.len() + queued
    }

    fn sends_history(&self, sum: &Sum) -> bool {
        // With initial scores the history is short, and needed for every member that has one.
        sum.derived.has_initial
            || self.with_history
            || (sum.is_past && self.detail == Detail::Standings)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
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
    /// Nothing was done: it must be sent with history.
    NeedsHistory,
    /// Nothing was done: the standing of this window that ends with the event's period must be completed.
    NeedsStanding(Window),
    /// Nothing was done: its reservation is void, and it needs another one.
    Void,
    /// Nothing was done: some data of the erased member is left, and must be removed.
    Erasing,
    /// Nothing was done: it must count for this instant or a later one, in another period.
    Behind(Timestamp),
    /// Nothing was done: the member has no seat in the cohort.
    Unseated,
    /// Nothing was done: the member was erased, and another cohort may remember the id.
    Elsewhere,
    /// Nothing was done: it has left the queue that it was read from, or the lease of the queue has another number.
    Gone,
    /// Nothing was done: it waits in the queue of its shard, where it counts for this instant.
    Waiting {
        at: Timestamp,
        queued_at: Timestamp,
        /// Why it would be refused in any case, if so.
        rejection: Option<Rejection>,
    },
}

/// What a former shard remembers of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Recalled {
    Taken(Remembered),
    /// An event with this id and other content was applied.
    Reused,
}

/// What is remembered of an applied event.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// What it did.
    pub outcome: Outcome,
    /// The number of its member's last erasure before it; 0 for none.
    pub erasure: u64,
}

/// What the record of an event says if the event's content is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The fingerprint of its content: [`crate::domain::event::Event::fingerprint`].
    pub fingerprint: u64,
    /// Its outcome.
    pub status: Status,
    /// The instant that it counted for.
    pub at: Timestamp,
    /// The scores that its member then had in the windows' standings, in the order of the windows.
    pub scores: Vec<(Window, Score)>,
    /// The number of its member's last erasure before it; 0 for none.
    pub erasure: u64,
}

/// The first outcomes of events in a former shard; `None` for those that it does not remember. All must have an id.
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
        .map(|plan| {
            let result = reply.next()?;
            let is_known = matches!(result, Value::Array(_));
            let known = is_known.then(|| decode::recalled(shard, plan, result));
            known.transpose()
        })
        .collect()
}

/// For each of these ids, whether a shard remembers an event under it.
pub async fn remembers(
    store: &Store,
    shard: &Shard,
    ids: &[&EventId],
) -> Result<Vec<bool>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let keys = ids.iter().map(|id| keys::event(shard, id));
    let records: Vec<Option<Bytes>> = store.command("MGET", keys).await?;
    Ok(records.iter().map(Option::is_some).collect())
}

/// What a shard remembers of the event with this id, if it was applied there.
pub async fn known(
    store: &Store,
    shard: &Shard,
    id: &EventId,
) -> Result<Option<Known>, StoreError> {
    let record: Option<Bytes> = store.command("GET", [keys::event(shard, id)]).await?;
    let known = record.map(|record| decode::known(shard, &record));
    known.transpose()
}

/// Carries out events of one board in one call, see [`CALL_COST_US_MAX`]. The answers are in their order. The call comes
/// after those for which this was called before, whenever its future is polled.
pub fn apply<'a>(
    store: &'a Store,
    shard: &'a Shard,
    events: Vec<Ready>,
    now: Timestamp,
) -> impl Future<Output = Result<Vec<Answer>, StoreError>> + Send + use<'a> {
    let call = encode::call(shard, &events, now, store.waits_for_replicas());
    let reply = call.map(|call| store.write_at(shard.tag().to_owned(), call));
    async move {
        let mut reply = Reply::answer(reply?.await?)?;
        let mut answers = Vec::with_capacity(events.len());
        for event in &events {
            answers.push(decode::answer(shard, &event.plan, reply.next()?)?);
        }
        let changed = Changed::from_stored(&reply.text()?);
        let changed = require(changed, "a head lacks the number of its changes")?;
        for answer in &mut answers {
            if let Answer::Taken { changed: known, .. } | Answer::Duplicate(_, known) = answer {
                *known = Some(changed);
            }
        }
        let answers = reply.is_empty().then_some(answers);
        require(answers, "there is not one result for each event")
    }
}
