//! The job that fills the index of the words of names when the search is on, and removes it when it is off.

use std::time::Duration;

use super::{is_on, store};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::lease::Lease;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::profile::ReviewStatus;
use crate::profiles::store::{self as profiles, ProfileChange, ReviewPlace};
use crate::redis::dispatch::Store;
use crate::redis::keys::ProfileBucket;
use crate::redis::leases::Leased;
use crate::runtime::join::try_join_all;

/// How many profiles one step writes.
const STEP_PROFILES: usize = 100;

/// Fills the indexes of all buckets, one after the other, or removes them.
#[derive(Clone, Copy, Debug)]
pub struct NameIndex;

/// The filling of indexes by one instance.
#[derive(Debug)]
pub struct Filling {
    /// The remaining buckets; the one being filled is last.
    buckets: Vec<ProfileBucket>,
    /// How far that one is filled, if it was begun.
    place: Option<Place>,
    /// Once this instance has it.
    lease: Option<Lease>,
}

/// A place among the profiles of a bucket: they are listed by the reviews of their names. Those that move, in a list or to
/// another, are written, and so added to the index.
#[derive(Debug, Default)]
struct Place {
    list: usize,
    after: Option<ReviewPlace>,
}

impl Job for NameIndex {
    type Item = Filling;
    const KIND: JobKind = JobKind::NameIndex;
    /// Redis spends about a third of its time on this.
    const PAUSE: Duration = Duration::from_millis(5);

    fn subject(&self, _: &Filling) -> Subject {
        Subject::all_boards()
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Filling>, Error> {
        if !is_on(engine) {
            let removed = ProfileBucket::all().map(|bucket| store::remove(&engine.store, bucket));
            try_join_all(removed).await?;
            return Ok(Vec::new());
        }
        let buckets = store::unfilled(&engine.store).await?;
        let filling = (!buckets.is_empty()).then_some(Filling {
            buckets,
            place: None,
            lease: None,
        });
        Ok(filling.into_iter().collect())
    }

    async fn step(&self, engine: &Engine, filling: &mut Filling) -> Result<Progress, Error> {
        let store = &engine.store;
        let lease = match filling.lease.take() {
            Some(lease) => lease,
            None => match Lease::take(store, Leased::of_all("name-index")).await? {
                Some(lease) => lease,
                None => return Ok(Progress::Done),
            },
        };
        let Some(bucket) = filling.buckets.last().copied() else {
            lease.give_back("").await?;
            return Ok(Progress::Done);
        };
        if filling.place.is_none() {
            store::begin(store, bucket, lease.number).await?;
        }
        filling.place = fill(store, bucket, filling.place.take().unwrap_or_default()).await?;
        if filling.place.is_none() {
            store::end(store, bucket, lease.number).await?;
            filling.buckets.pop();
        }
        let is_held = lease.renew("").await?;
        filling.lease = Some(lease);
        Ok(Progress::more_if(is_held))
    }
}

/// Adds the next profiles of a bucket to its index. Returns where to go on; `None` at the end.
async fn fill(store: &Store, bucket: ProfileBucket, place: Place) -> Result<Option<Place>, Error> {
    let Some(status) = ReviewStatus::ALL.get(place.list).copied() else {
        return Ok(None);
    };
    let after = place.after.as_ref();
    let (places, _) = profiles::reviewed_in(store, bucket, status, after, STEP_PROFILES).await?;
    let ids: Vec<_> = places.iter().map(|place| place.member.as_str()).collect();
    let stored = profiles::load(store, &ids).await?;
    let last = places.last().cloned();
    let unchanged: Vec<_> = places
        .into_iter()
        .zip(stored)
        .filter_map(|(ReviewPlace { at_ms, member }, stored)| {
            Some(ProfileChange {
                member,
                seen: stored.clone(),
                new: stored?,
                status,
                at_ms,
            })
        })
        .collect();
    for written in profiles::write(store, &unchanged).await {
        written?;
    }
    Ok(Some(match last {
        Some(last) => Place {
            after: Some(last),
            ..place
        },
        None => Place {
            list: place.list + 1,
            after: None,
        },
    }))
}
