//! The steps of seating as calls of one shard, which many requests share (`batcher.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::applier::{Reply, one_each};
use super::store::seats::{
    self, CALL_MEMBERS_MAX, KnownMember, PlayerChange, Seated, Sitter, Stepped, Wish,
};
use crate::domain::ids::MemberId;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::{Store, StoreError};
use crate::runtime::batcher::{Batcher, Work, admit};

/// About how long a step for one member keeps Redis busy, in microseconds.
const MEMBER_COST_US: usize = 60;

/// Does a step of seating for members in a shard. The answers are in their order.
type Take<J, A> =
    for<'a> fn(&'a Store, &'a Shard, &'a [J]) -> BoxFuture<'a, Result<Vec<A>, StoreError>>;

/// The calls of a step in one shard.
pub(crate) struct Calls<J, A> {
    store: Arc<Store>,
    shard: Shard,
    take: Take<J, A>,
}

/// A step of seating in one shard: jobs for one member each, and their results.
type Step<J, A> = Arc<Batcher<Calls<J, A>>>;

impl<J: Send + Sync + 'static, A: Clone + Send + 'static> Work for Calls<J, A> {
    type Job = J;
    type Answer = Reply<A>;
    type Load = usize;

    fn admit(&self, load: &mut usize, _job: &J) -> bool {
        admit(load, 1, CALL_MEMBERS_MAX)
    }

    fn cost_us(load: &usize) -> usize {
        load * MEMBER_COST_US
    }

    async fn call(&self, jobs: Vec<J>, _: usize) -> Vec<Reply<A>> {
        let answers = (self.take)(&self.store, &self.shard, &jobs).await;
        one_each(Some(answers), jobs.len())
    }
}

/// Finds cohorts with room in the shard of their tier.
async fn suggest(
    store: &Store,
    shard: &Shard,
    jobs: &[(Wish, Timestamp)],
) -> Result<Vec<Stepped<u32>>, StoreError> {
    let wishes: Vec<Wish> = jobs.iter().map(|(wish, _)| wish.clone()).collect();
    seats::suggest_cohorts(store, shard, &wishes, latest(jobs)).await
}

/// Seats members in the shard of their cohort. If two jobs are for one member, the second runs after the first.
async fn sit_down(
    store: &Store,
    shard: &Shard,
    jobs: &[(Sitter, Timestamp)],
) -> Result<Vec<Stepped<Seated>>, StoreError> {
    let (now, mut answers) = (latest(jobs), vec![None; jobs.len()]);
    while answers.contains(&None) {
        let (mut members, mut sitters, mut places) = (HashSet::new(), Vec::new(), Vec::new());
        for (place, (sitter, _)) in jobs.iter().enumerate() {
            if answers[place].is_none() && members.insert(&sitter.member) {
                sitters.push(sitter.clone());
                places.push(place);
            }
        }
        let seated = seats::seat(store, shard, &sitters, now).await?;
        for (place, seated) in places.into_iter().zip(seated) {
            answers[place] = Some(seated);
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// The latest time among jobs.
fn latest<T>(jobs: &[(T, Timestamp)]) -> Timestamp {
    jobs.iter()
        .map(|(_, now)| *now)
        .max()
        .unwrap_or(Timestamp::MIN)
}

/// The steps of seating in one shard.
#[derive(Debug)]
pub(crate) struct SeatCalls {
    /// Reads players in their home shard.
    pub(crate) read: Step<MemberId, Result<KnownMember, StoreError>>,
    /// Writes players in their home shard.
    pub(crate) write: Step<PlayerChange, Stepped>,
    pub(crate) suggest: Step<(Wish, Timestamp), Stepped<u32>>,
    pub(crate) sit_down: Step<(Sitter, Timestamp), Stepped<Seated>>,
}

impl SeatCalls {
    pub(crate) fn new(shard: &Shard, store: &Arc<Store>) -> Self {
        Self {
            read: step(shard, store, |store, shard, members| {
                seats::known_members(store, shard, members).boxed()
            }),
            write: step(shard, store, |store, shard, changes| {
                seats::write_players(store, shard, changes).boxed()
            }),
            suggest: step(shard, store, |store, shard, jobs| {
                suggest(store, shard, jobs).boxed()
            }),
            sit_down: step(shard, store, |store, shard, jobs| {
                sit_down(store, shard, jobs).boxed()
            }),
        }
    }
}

fn step<J, A>(shard: &Shard, store: &Arc<Store>, take: Take<J, A>) -> Step<J, A>
where
    Calls<J, A>: Work,
{
    Batcher::new(Calls {
        store: Arc::clone(store),
        shard: shard.clone(),
        take,
    })
}

/// Does a job of a step, together with those of other requests.
pub(crate) async fn submit<J, A>(step: &Step<J, A>, job: J) -> Reply<A>
where
    Calls<J, A>: Work<Job = J, Answer = Reply<A>>,
{
    let fault = || StoreError::Unexpected("there is no result for a step of seating".into());
    step.submit(job).await.ok_or_else(fault).flatten()
}
