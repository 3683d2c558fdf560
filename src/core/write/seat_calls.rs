//! The steps of seating as calls of one shard, which many requests share (`batcher.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::applier::one_each;
use super::store::seats::{
    self, CALL_MEMBERS_MAX, KnownMember, PlayerChange, Seated, Sitter, Stepped, Wish,
};
use crate::domain::ids::MemberId;
use crate::domain::shard::Shard;
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

/// A step of seating in one shard: items for one member each, and their results.
type Step<J, A> = Arc<Batcher<Calls<J, A>>>;

impl<J: Send + Sync + 'static, A: Clone + Send + 'static> Work for Calls<J, A> {
    type Item = J;
    type Answer = Result<A, StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, _item: &J) -> bool {
        admit(load, 1, CALL_MEMBERS_MAX)
    }

    fn cost_us(load: &usize) -> usize {
        load * MEMBER_COST_US
    }

    async fn call(&self, items: Vec<J>, _: usize) -> Vec<Result<A, StoreError>> {
        let answers = (self.take)(&self.store, &self.shard, &items).await;
        one_each(Some(answers), items.len())
    }
}

/// Seats members in the shard of their cohort. If two items are for one member, the second runs after the first.
async fn sit_down(
    store: &Store,
    shard: &Shard,
    sitters: &[Sitter],
) -> Result<Vec<Stepped<Seated>>, StoreError> {
    let mut answers = vec![None; sitters.len()];
    while answers.contains(&None) {
        let (mut members, mut part, mut places) = (HashSet::new(), Vec::new(), Vec::new());
        for (place, sitter) in sitters.iter().enumerate() {
            if answers[place].is_none() && members.insert(&sitter.member) {
                part.push(sitter.clone());
                places.push(place);
            }
        }
        let seated = seats::seat(store, shard, &part).await?;
        for (place, seated) in places.into_iter().zip(seated) {
            answers[place] = Some(seated);
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// The steps of seating in one shard.
#[derive(Debug)]
pub(crate) struct SeatCalls {
    /// Reads players in their home shard.
    pub(crate) read: Step<MemberId, Result<KnownMember, StoreError>>,
    /// Writes players in their home shard.
    pub(crate) write: Step<PlayerChange, Stepped>,
    pub(crate) suggest: Step<Wish, Stepped<u32>>,
    pub(crate) sit_down: Step<Sitter, Stepped<Seated>>,
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
            suggest: step(shard, store, |store, shard, wishes| {
                seats::suggest_cohorts(store, shard, wishes).boxed()
            }),
            sit_down: step(shard, store, |store, shard, sitters| {
                sit_down(store, shard, sitters).boxed()
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

/// Does an item of a step, together with those of other requests.
pub(crate) async fn submit<J, A>(step: &Step<J, A>, item: J) -> Result<A, StoreError>
where
    Calls<J, A>: Work<Item = J, Answer = Result<A, StoreError>>,
{
    let fault = || StoreError::Unexpected("there is no result for a step of seating".into());
    step.submit(item).await.ok_or_else(fault).flatten()
}
