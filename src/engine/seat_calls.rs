//! The steps of seating as calls of one shard, each of which many requests share (`batcher.rs`).

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::applier::{Reply, one_each};
use super::batcher::{Batcher, Work};
use crate::domain::ids::MemberId;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::store::seats::{
    CALL_MEMBERS_MAX, KnownMember, PlayerChange, PlayerWritten, Seated, Sitter, Suggested, Wish,
};
use crate::store::{Store, StoreError};

/// What many calls of a step say.
type Answers<S> = Result<Vec<<S as Step>::Answer>, StoreError>;

/// A step of seating.
pub(crate) trait Step: Send + Sync + 'static {
    /// What it is to do for one member.
    type Job: Send + Sync;
    /// What came of that.
    type Answer: Clone + Send;

    /// Does it for some members. The answers are in their order.
    fn take(
        store: &Store,
        shard: &Shard,
        jobs: &[Self::Job],
    ) -> impl Future<Output = Answers<Self>> + Send
    where
        Self: Sized;
}

/// The calls of a step in one shard.
pub(crate) struct Calls<S> {
    store: Arc<Store>,
    shard: Shard,
    step: PhantomData<S>,
}

impl<S: Step> Work for Calls<S> {
    type Job = S::Job;
    type Answer = Reply<S::Answer>;
    type Load = usize;

    fn admit(&self, load: &mut usize, _job: &S::Job) -> bool {
        *load += 1;
        *load <= CALL_MEMBERS_MAX
    }

    fn is_small(load: &usize) -> bool {
        *load == 1
    }

    async fn call(&self, jobs: Vec<S::Job>) -> Vec<Self::Answer> {
        let answers = S::take(&self.store, &self.shard, &jobs).await;
        one_each(Some(answers), jobs.len())
    }
}

/// Reads players in their home shard.
pub(crate) enum ReadPlayers {}

impl Step for ReadPlayers {
    type Job = MemberId;
    type Answer = Result<KnownMember, StoreError>;

    async fn take(store: &Store, shard: &Shard, members: &[MemberId]) -> Answers<Self> {
        store.known_members(shard, members).await
    }
}

/// Writes players in their home shard.
pub(crate) enum WritePlayers {}

impl Step for WritePlayers {
    type Job = PlayerChange;
    type Answer = PlayerWritten;

    async fn take(store: &Store, shard: &Shard, changes: &[PlayerChange]) -> Answers<Self> {
        store.write_players(shard, changes).await
    }
}

/// Finds cohorts with room in the shard of their tier.
pub(crate) enum Suggest {}

impl Step for Suggest {
    type Job = (Wish, Timestamp);
    type Answer = Suggested;

    async fn take(store: &Store, shard: &Shard, jobs: &[Self::Job]) -> Answers<Self> {
        let wishes: Vec<Wish> = jobs.iter().map(|(wish, _)| wish.clone()).collect();
        store.suggest_cohorts(shard, &wishes, latest(jobs)).await
    }
}

/// Seats members in the shard of their cohort.
pub(crate) enum SitDown {}

impl Step for SitDown {
    type Job = (Sitter, Timestamp);
    type Answer = Seated;

    /// If two jobs are about one member, the second goes behind the first.
    async fn take(store: &Store, shard: &Shard, jobs: &[Self::Job]) -> Answers<Self> {
        let (now, mut answers) = (latest(jobs), vec![None; jobs.len()]);
        while answers.contains(&None) {
            let (mut members, mut sitters, mut places) = (HashSet::new(), Vec::new(), Vec::new());
            for (place, (sitter, _)) in jobs.iter().enumerate() {
                if answers[place].is_none() && members.insert(&sitter.member) {
                    sitters.push(sitter.clone());
                    places.push(place);
                }
            }
            let seated = store.seat(shard, &sitters, now).await?;
            for (place, seated) in places.into_iter().zip(seated) {
                answers[place] = Some(seated);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }
}

/// The latest time of jobs that come with theirs.
fn latest<T>(jobs: &[(T, Timestamp)]) -> Timestamp {
    let times = jobs.iter().map(|(_, now)| *now);
    times.max().unwrap_or(Timestamp::MIN)
}

/// The steps of seating in one shard.
#[derive(Debug)]
pub(crate) struct SeatCalls {
    pub(crate) read: Arc<Batcher<Calls<ReadPlayers>>>,
    pub(crate) write: Arc<Batcher<Calls<WritePlayers>>>,
    pub(crate) suggest: Arc<Batcher<Calls<Suggest>>>,
    pub(crate) sit_down: Arc<Batcher<Calls<SitDown>>>,
}

impl SeatCalls {
    pub(crate) fn new(shard: &Shard, store: &Arc<Store>) -> Self {
        Self {
            read: batcher(shard, store),
            write: batcher(shard, store),
            suggest: batcher(shard, store),
            sit_down: batcher(shard, store),
        }
    }
}

fn batcher<S: Step>(shard: &Shard, store: &Arc<Store>) -> Arc<Batcher<Calls<S>>> {
    Batcher::new(Calls {
        store: Arc::clone(store),
        shard: shard.clone(),
        step: PhantomData,
    })
}

/// Does a job of a step, together with those of other requests.
pub(crate) async fn submit<S: Step>(
    batcher: &Arc<Batcher<Calls<S>>>,
    job: S::Job,
) -> Reply<S::Answer> {
    let fault = || StoreError::Unexpected("a step of seating without its answer".into());
    batcher.submit(job).await.ok_or_else(fault).flatten()
}

impl<S> fmt::Debug for Calls<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}
