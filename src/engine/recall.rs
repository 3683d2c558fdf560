//! Events that were taken before their board moved to other shards: their ids are remembered where it was.

use std::sync::Arc;

use futures::future::try_join_all;

use super::submission::{Pending, Results, Way};
use super::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::shard::{Shard, Sharding};
use crate::domain::time::Timestamp;
use crate::store::StoreError;
use crate::store::events::{Answer, CALL_EVENTS_MAX};

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
    /// Answers the events that are remembered in former shards, and returns the others. Nothing is taken in there any
    /// more: whatever is not remembered now never will be.
    pub(crate) async fn recall<'a>(
        &self,
        live: &Arc<LiveBoard>,
        mut planned: Vec<Way<'a>>,
        now: Timestamp,
        results: &mut Results,
    ) -> Result<Vec<Way<'a>>, (Error, Vec<Pending<'a>>)> {
        for former in &live.former {
            if self.clock.redis_now().ms() > former.ids_until_ms {
                continue;
            }
            let answers = match self.recall_from(former, &planned).await {
                Ok(answers) => answers,
                Err(error) => {
                    let left = planned
                        .into_iter()
                        .map(|(planned, _)| planned.into_pending());
                    return Err((error.into(), left.collect()));
                }
            };
            let mut unknown = Vec::with_capacity(planned.len());
            for ((planned, ready), answer) in planned.into_iter().zip(answers) {
                match answer {
                    // What is remembered is a result, and never has to be sent again.
                    Some(answer) => results.extend(planned.result(live, answer, now).ok()),
                    None => unknown.push((planned, ready)),
                }
            }
            planned = unknown;
        }
        Ok(planned)
    }

    async fn recall_from(
        &self,
        former: &FormerShards,
        planned: &[Way<'_>],
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        let mut places = vec![Vec::new(); former.shards.len()];
        for (place, (_, ready)) in planned.iter().enumerate() {
            let event = &ready.plan.event;
            if event.id.is_some() {
                places[former.sharding.index_of(&event.member)].push(place);
            }
        }
        let calls = places.iter().zip(&former.shards);
        let calls = calls.flat_map(|(places, shard)| {
            let some = places.chunks(CALL_EVENTS_MAX);
            some.map(move |places| (places, shard))
        });
        let asked = calls.map(async |(places, shard)| {
            let plans = places.iter().map(|place| &planned[*place].1.plan);
            let answers = self.store.recall(shard, plans.collect()).await?;
            Ok::<_, StoreError>(places.iter().copied().zip(answers))
        });
        let mut found = vec![None; planned.len()];
        for (place, answer) in try_join_all(asked).await?.into_iter().flatten() {
            found[place] = answer;
        }
        Ok(found)
    }
}
