//! The job that searches all keys for leftovers of deleted boards: keys that expire by themselves and are in no registry.

use std::time::Duration;

use super::store::sweep::{self, Deleted, Sweep as Walk};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::lease::Lease;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::redis::leases::Leased;

/// Unlinks remembered events and counts of quotas of deleted boards. One instance walks over all keys of all servers, once
/// for all boards deleted by then: it takes about a minute for a million keys.
#[derive(Clone, Copy, Debug)]
pub struct Sweep;

/// Boards that were deleted, and the walk for them.
#[derive(Debug)]
pub struct Sweeping {
    deleted: Vec<Deleted>,
    /// The walk, once this instance has the lease.
    under_way: Option<(Lease, Walk)>,
}

impl Job for Sweep {
    type Item = Sweeping;
    const KIND: JobKind = JobKind::Sweep;
    /// Redis spends at most a fortieth of its time on this.
    const PAUSE: Duration = Duration::from_millis(20);

    fn subject(&self, sweeping: &Sweeping) -> Subject {
        Subject::board(&sweeping.deleted[0].id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Sweeping>, Error> {
        let deleted = sweep::swept_boards(&engine.store).await?;
        let sweeping = (!deleted.is_empty()).then_some(Sweeping {
            deleted,
            under_way: None,
        });
        Ok(sweeping.into_iter().collect())
    }

    async fn step(&self, engine: &Engine, sweeping: &mut Sweeping) -> Result<Progress, Error> {
        let store = &engine.store;
        let (lease, mut walk) = match sweeping.under_way.take() {
            Some(under_way) => under_way,
            None => match Lease::take(store, Leased::of_all("sweep")).await? {
                Some(lease) => (lease, sweep::begin(store, sweeping.deleted.clone())),
                None => return Ok(Progress::Done),
            },
        };
        if sweep::advance(store, &mut walk).await? {
            if !lease.renew("").await? {
                return Ok(Progress::Done);
            }
            sweeping.under_way = Some((lease, walk));
            return Ok(Progress::More);
        }
        lease.give_back("").await?;
        let (boards, keys) = (walk.deleted.len(), walk.unlinked);
        tracing::info!(boards, keys, "data of deleted boards was unlinked");
        Ok(Progress::Done)
    }
}
