//! Events that were applied before their board moved to other shards, or in a league before the last period ended: their
//! ids are remembered in the former shards, and in the last cohorts of their members.

use std::sync::Arc;

use super::applier::one_each;
use super::store::events::{self, CALL_EVENTS_MAX, EventReply, Recalled, Remembered, remember_ms};
use super::submission::{Attempt, Submission};
use crate::core::hide::store::erasures;
use crate::core::{Engine, LiveBoard};
use crate::domain::board::Board;
use crate::domain::ids::{EventId, MemberId};
use crate::domain::shard::{Shard, Sharding};
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::runtime::join::{join_all, try_join_all};

/// The shards of an earlier placement of a board.
#[derive(Debug)]
pub(crate) struct FormerShards {
    sharding: Sharding,
    shards: Vec<Shard>,
    ids_until_ms: i64,
}

impl FormerShards {
    /// Those that may remember the id of an event: of this member, or of any.
    pub(crate) fn shards_for(&self, member: Option<&MemberId>) -> &[Shard] {
        match member {
            Some(member) => std::slice::from_ref(&self.shards[self.sharding.index_of(member)]),
            None => &self.shards,
        }
    }

    pub(crate) fn of(board: &Arc<Board>) -> Vec<Self> {
        board
            .placement
            .former
            .iter()
            .map(|former| Self {
                sharding: former.sharding,
                shards: board.shards_of(former.sharding),
                ids_until_ms: former.ids_until_ms,
            })
            .collect()
    }
}

impl LiveBoard {
    /// The former shards that remember ids at this instant of Redis.
    fn remembering(&self, redis_now: Timestamp) -> impl Iterator<Item = &FormerShards> {
        self.former
            .iter()
            .filter(move |former| redis_now.ms() <= former.ids_until_ms)
    }
}

impl Engine {
    /// Which of these events' ids former shards remember, whatever the content of the events.
    pub(crate) async fn remembered_before(
        &self,
        live: &LiveBoard,
        events: &[(&EventId, &MemberId)],
    ) -> Result<Vec<bool>, StoreError> {
        let mut remembered = vec![false; events.len()];
        for former in live.remembering(self.clock.redis_now()) {
            let mut of_shards = vec![Vec::new(); former.shards.len()];
            for (index, (_, member)) in events.iter().enumerate() {
                of_shards[former.sharding.index_of(member)].push(index);
            }
            let asked = of_shards
                .iter()
                .zip(&former.shards)
                .map(|(indexes, shard)| {
                    let ids = indexes.iter().map(|index| events[*index].0).collect();
                    events::remembers(&self.store, shard, ids)
                });
            let answers = try_join_all(asked).await?;
            for (index, is_known) in of_shards.iter().flatten().zip(answers.iter().flatten()) {
                remembered[*index] |= is_known;
            }
        }
        Ok(remembered)
    }

    /// What former shards remember under the id of an event of this member.
    pub(crate) async fn known_before(
        &self,
        live: &LiveBoard,
        id: &EventId,
        member: &MemberId,
    ) -> Result<Option<Remembered>, StoreError> {
        let now = self.clock.redis_now();
        let shards = live
            .remembering(now)
            .flat_map(|former| former.shards_for(Some(member)));
        for shard in shards {
            let remembered = events::remembered(&self.store, shard, id).await?;
            if remembered.is_some() {
                return Ok(remembered);
            }
        }
        Ok(None)
    }

    /// Ends the planned events that former shards remember, or in a league the last cohorts of their members before. Both
    /// accept no events any more: an id that is unknown there now stays unknown. (If the cohort is not decided yet, its
    /// member has no later seat. Then the event is planned again once it has one.)
    pub(crate) async fn recall(&self, attempt: &Attempt, submissions: &mut [Submission]) {
        let Attempt { live, now, .. } = attempt;
        for former in live.remembering(self.clock.redis_now()) {
            let shards: Vec<&Shard> = former.shards.iter().collect();
            let places = |submission: &Submission| {
                let member = &submission.incoming().member;
                vec![former.sharding.index_of(member)]
            };
            self.recall_from(attempt, &shards, places, submissions)
                .await;
        }
        if live.board.is_league() {
            let shards: Vec<&Shard> = live.shards.iter().map(|live| &live.shard).collect();
            let places = |submission: &Submission| {
                if submission.searches {
                    (0..shards.len()).collect()
                } else {
                    Vec::from_iter(earlier_shard(&live.board, submission, *now))
                }
            };
            self.recall_from(attempt, &shards, places, submissions)
                .await;
        }
    }

    /// Ends the planned events that these shards remember; `places` says which of them may remember an event.
    async fn recall_from(
        &self,
        attempt: &Attempt,
        shards: &[&Shard],
        places: impl Fn(&Submission) -> Vec<usize>,
        submissions: &mut [Submission],
    ) {
        let known = self.known_in(shards, places, submissions).await;
        let sent = &*submissions;
        let replies = known.into_iter().map(async |(index, known)| {
            let member = &sent[index].incoming().member;
            let reply = match known {
                Ok(known) => self.reply(&attempt.live, member, known?).await,
                Err(error) => Err(error),
            };
            Some((index, reply))
        });
        for (index, reply) in join_all(replies).await.into_iter().flatten() {
            let submission = &mut submissions[index];
            // Otherwise another shard has remembered it.
            if submission.send().is_some() {
                submission.stage = submission.stage_after(attempt, reply);
            }
        }
    }

    /// The reply for a remembered event. Former shards do not know of later erasures.
    async fn reply(
        &self,
        live: &LiveBoard,
        member: &MemberId,
        recalled: Recalled,
    ) -> Result<EventReply, StoreError> {
        let Remembered {
            mut outcome,
            erasure,
            ..
        } = match recalled {
            Ok(remembered) => remembered,
            Err(rejection) => return Ok(EventReply::Rejected(rejection)),
        };
        let shard = &live.shard_of(member).shard;
        let last = erasures::last(&self.store, shard, member).await?;
        if last.map_or(0, |last| last.number) != erasure {
            outcome.changes.clear();
        }
        Ok(EventReply::Duplicate(outcome, None))
    }

    /// What is remembered of the planned events that have an id, by their indexes.
    async fn known_in(
        &self,
        shards: &[&Shard],
        places: impl Fn(&Submission) -> Vec<usize>,
        submissions: &[Submission],
    ) -> Vec<(usize, Result<Option<Recalled>, StoreError>)> {
        let mut of_shards = vec![Vec::new(); shards.len()];
        for (index, submission) in submissions.iter().enumerate() {
            let plan = submission
                .planned()
                .map(|planned| &planned.plan)
                .filter(|plan| plan.event.id.is_some());
            let places = plan.map_or_else(Vec::new, |_| places(submission));
            for (plan, shard) in plan.into_iter().cycle().zip(places) {
                of_shards[shard].push((index, plan));
            }
        }
        let calls = of_shards.iter().zip(shards).flat_map(|(events, shard)| {
            events.chunks(CALL_EVENTS_MAX).map(async |events| {
                let plans = events.iter().map(|(_, plan)| *plan).collect();
                let known = events::recall(&self.store, shard, plans).await;
                let known = one_each(Some(known), events.len());
                events
                    .iter()
                    .map(|(index, _)| *index)
                    .zip(known)
                    .collect::<Vec<_>>()
            })
        });
        join_all(calls).await.concat()
    }
}

/// The shard of an earlier period's cohort that may remember the event's id, as long as that period's ids are remembered.
fn earlier_shard(board: &Board, submission: &Submission, now: Timestamp) -> Option<usize> {
    let earlier = submission.sitting.before?;
    let plan = &submission.planned()?.plan;
    let period = plan.route.writes.first()?.standing.period;
    let remembered_ms = i64::try_from(remember_ms(board)).ok()?;
    let is_remembered = now.ms().saturating_sub(remembered_ms) < period.start_ms;
    let cohort = earlier.cohort.filter(|_| is_remembered)?;
    Some(board.shard_of_cohort(&earlier.period, cohort))
}
