//! Sends planned events to the shards of their members, or of their cohorts, in calls of bounded cost. Events of several
//! requests may share a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::store::events::{self, CALL_COST_US_MAX, EventReply, KEPT_COST_US, PlannedEvent};
use super::submission::{Attempt, Submission};
use crate::core::LiveBoard;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::{Store, StoreError};
use crate::runtime::batcher::{Work, admit};
use crate::runtime::join::join_all;

/// Sends the planned events, and stores the answers in their submissions.
pub(crate) async fn apply(attempt: &Attempt, submissions: &mut [Submission]) {
    let mut groups = EventGroups::new(attempt);
    for (index, submission) in submissions.iter_mut().enumerate() {
        groups.push(index, submission);
    }
    for (index, reply) in groups.send().await {
        submissions[index].stage = submissions[index].stage_after(attempt, reply);
    }
}

/// Applies events of one shard.
#[derive(Debug)]
pub struct Applier {
    pub store: Arc<Store>,
    pub shard: Shard,
    /// Whether more events are put into the shard's queue than one call takes.
    pub is_flooded: Arc<AtomicBool>,
}

/// Events of one request that go in one call, their cost, and when they were planned.
#[derive(Debug)]
pub struct EventGroup {
    events: Vec<PlannedEvent>,
    cost_us: usize,
    planned_at: Timestamp,
}

impl Work for Applier {
    type Item = EventGroup;
    type Answer = Result<Vec<EventReply>, StoreError>;
    type Load = usize;

    fn admit(&self, cost_us: &mut usize, group: &EventGroup) -> bool {
        admit(cost_us, group.cost_us, CALL_COST_US_MAX)
    }

    fn cost_us(cost_us: &usize) -> usize {
        *cost_us
    }

    /// While more events are put into the queue than one call takes, as at a peak, this leaves them more of Redis.
    fn makes_way(&self) -> bool {
        self.is_flooded.load(Ordering::Relaxed)
    }

    fn call(
        &self,
        groups: Vec<EventGroup>,
        _: usize,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send {
        let now = groups.iter().map(|group| group.planned_at).max();
        let lengths: Vec<usize> = groups.iter().map(|group| group.events.len()).collect();
        let mut events = Vec::with_capacity(lengths.iter().sum());
        for group in groups {
            events.extend(group.events);
        }
        let now = now.unwrap_or(Timestamp::from_ms_clamped(0));
        let reply = events::apply(&self.store, &self.shard, events, now);
        async move { share_out(reply.await, &lengths) }
    }
}

/// The events of one request in groups of bounded cost for each shard, and the indexes of their submissions.
pub(crate) struct EventGroups<'a> {
    live: &'a LiveBoard,
    all: Vec<(usize, Vec<usize>, EventGroup)>,
    /// The last group of each shard.
    last_of: Vec<Option<usize>>,
    planned_at: Timestamp,
}

impl<'a> EventGroups<'a> {
    /// No groups yet.
    pub(crate) fn new(attempt: &'a Attempt) -> Self {
        Self {
            live: &attempt.live,
            all: Vec::new(),
            last_of: vec![None; attempt.live.shards.len()],
            planned_at: attempt.now,
        }
    }

    /// Adds an event to those of its shard, if it is planned.
    pub(crate) fn push(&mut self, index: usize, submission: &mut Submission) {
        let Some(planned) = submission.send() else {
            return;
        };
        let shard = planned.plan.shard(&self.live.board);
        let is_kept = self.live.board.keeps_events();
        let cost_us = planned.cost_us() + usize::from(is_kept) * KEPT_COST_US;
        match self.last_of[shard].and_then(|last| self.all.get_mut(last)) {
            Some((_, indexes, group)) if group.cost_us + cost_us <= CALL_COST_US_MAX => {
                indexes.push(index);
                group.events.push(planned);
                group.cost_us += cost_us;
            }
            _ => {
                let group = EventGroup {
                    events: vec![planned],
                    cost_us,
                    planned_at: self.planned_at,
                };
                self.last_of[shard] = Some(self.all.len());
                self.all.push((shard, vec![index], group));
            }
        }
    }

    /// Sends all groups at once. Returns the answer to each event, with the index of its submission.
    pub(crate) async fn send(
        self,
    ) -> impl Iterator<Item = (usize, Result<EventReply, StoreError>)> {
        let shards = &self.live.shards;
        let submit = async |(shard, indexes, group): (usize, Vec<usize>, EventGroup)| {
            let reply = shards[shard].applier.submit(group).await;
            let replies = one_each(reply, indexes.len());
            indexes.into_iter().zip(replies)
        };
        let mut all = self.all;
        // Usually there is only one.
        let sent = match (all.pop(), all.is_empty()) {
            (Some(only), true) => vec![submit(only).await],
            (last, _) => join_all(all.into_iter().chain(last).map(submit)).await,
        };
        sent.into_iter().flatten()
    }
}

/// Splits the answers of a call among its items; `lengths` says how many answers each item gets.
pub(crate) fn share_out<T>(
    reply: Result<Vec<T>, StoreError>,
    lengths: &[usize],
) -> Vec<Result<Vec<T>, StoreError>> {
    match reply {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            let of_item = |length: &usize| answers.by_ref().take(*length).collect();
            lengths.iter().map(of_item).map(Ok).collect()
        }
        Err(error) => lengths.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// The answers to `count` events. A reply of `None` means that the call failed by a fault of this program.
pub(crate) fn one_each<T>(
    reply: Option<Result<Vec<T>, StoreError>>,
    count: usize,
) -> Vec<Result<T, StoreError>> {
    let fault = || StoreError::Unexpected("there are no results for events".into());
    match reply.ok_or_else(fault).flatten() {
        Ok(answers) => {
            assert_eq!(answers.len(), count, "each event has an answer");
            answers.into_iter().map(Ok).collect()
        }
        Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
    }
}
