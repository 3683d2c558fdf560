//! Events that were taken before their board moved to other shards: their ids are remembered where it was.

use std::sync::Arc;

use futures::future::join_all;

use super::applier::Reply;
use super::submission::Submission;
use super::{Engine, LiveBoard};
use crate::domain::board::Board;
use crate::domain::event::Rejection;
use crate::domain::ids::MemberId;
use crate::domain::shard::{Shard, Sharding};
use crate::domain::time::Timestamp;
use crate::store::events::{Answer, CALL_EVENTS_MAX, Recalled, Remembered};
use crate::store::{StoreError, Versioned};

/// Shards that a board has moved away from.
#[derive(Debug)]
pub(crate) struct FormerShards {
    sharding: Sharding,
    shards: Vec<Shard>,
    ids_until_ms: i64,
}

impl FormerShards {
    /// All of a board's.
    pub(crate) fn of(board: &Arc<Board>) -> Vec<Self> {
        let former = board.placement.former.iter().map(|former| Self {
            sharding: former.sharding,
            shards: board.shards_of(former.sharding),
            ids_until_ms: former.ids_until_ms,
        });
        former.collect()
    }
}

impl Engine {
    /// Ends the planned events that former shards remember. Former shards take no more events: an id that is unknown
    /// there now will never be known there.
    pub(crate) async fn recall(
        &self,
        live: &Arc<LiveBoard>,
        submissions: &mut [Submission],
        now: Timestamp,
    ) {
        let redis_now_ms = self.clock.redis_now().ms();
        let remember = |former: &&FormerShards| redis_now_ms <= former.ids_until_ms;
        for former in live.former.iter().filter(remember) {
            for (index, known) in self.recall_from(former, submissions).await {
                let submission = &mut submissions[index];
                let reply = match known {
                    Ok(None) => continue,
                    Ok(Some(recalled)) => {
                        let member = submission.incoming().member.clone();
                        submission.send();
                        self.answer(live, &member, recalled).await
                    }
                    Err(error) => {
                        submission.fail(error.into());
                        continue;
                    }
                };
                submission.hear(live, reply, now);
            }
        }
    }

    /// The answer to an event of which this is remembered. Former shards do not know of later erasures.
    async fn answer(
        &self,
        live: &LiveBoard,
        member: &MemberId,
        recalled: Recalled,
    ) -> Reply<Answer> {
        let Recalled::Taken(Remembered {
            mut outcome,
            erasure,
        }) = recalled
        else {
            return Ok(Versioned::Current(Answer::Rejected(Rejection::IdReused)));
        };
        let shard = &live.shard_of(member).shard;
        let Versioned::Current(last) = self.store.last_erasures(shard, &[member]).await? else {
            return Ok(Versioned::Stale);
        };
        if last != [erasure] {
            outcome.changes.clear();
        }
        Ok(Versioned::Current(Answer::Duplicate(outcome)))
    }

    /// What is remembered of those that are planned and have an id, by their indexes.
    async fn recall_from(
        &self,
        former: &FormerShards,
        submissions: &[Submission],
    ) -> impl Iterator<Item = (usize, Result<Option<Recalled>, StoreError>)> + use<> {
        let mut of_shards = vec![Vec::new(); former.shards.len()];
        for (index, submission) in submissions.iter().enumerate() {
            let plan = submission.planned().map(|ready| &ready.plan);
            if let Some(plan) = plan.filter(|plan| plan.event.id.is_some()) {
                of_shards[former.sharding.index_of(&plan.event.member)].push((index, plan));
            }
        }
        let calls = of_shards.iter().zip(&former.shards);
        let calls = calls.flat_map(|(events, shard)| {
            let parts = events.chunks(CALL_EVENTS_MAX);
            parts.map(async |events| {
                let plans = events.iter().map(|(_, plan)| *plan).collect();
                let known = match self.store.recall(shard, plans).await {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error); events.len()],
                };
                let indexes = events.iter().map(|(index, _)| *index);
                indexes.zip(known).collect::<Vec<_>>()
            })
        });
        join_all(calls).await.into_iter().flatten()
    }
}
