//! The job that looks among all keys for what deleted boards have left: keys that expire by themselves and are in no
//! registry.

use std::time::Duration;

use super::jobs::faults::Subject;
use super::jobs::lease::Lease;
use super::jobs::{Job, JobKind, Progress};
use super::{Engine, Error};
use crate::store::leases::Leased;
use crate::store::sweep::Deleted;

/// The pause between two parts, so that Redis spends a fortieth of its time on them at the most.
const PAUSE: Duration = Duration::from_millis(20);

/// Unlinks remembered events and counts of quotas of boards that were deleted. One instance walks over all keys of all
/// servers, once for all boards that are gone by then: it takes about a minute for a million keys.
#[derive(Clone, Copy, Debug)]
pub struct Sweep;

impl Job for Sweep {
    type Item = Vec<Deleted>;
    const KIND: JobKind = JobKind::Sweep;

    fn subject(&self, deleted: &Self::Item) -> Subject {
        Subject::board(&deleted[0].id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Self::Item>, Error> {
        let deleted = engine.store.swept_boards().await?;
        Ok(if deleted.is_empty() {
            Vec::new()
        } else {
            vec![deleted]
        })
    }

    async fn step(&self, engine: &Engine, deleted: &Self::Item) -> Result<Progress, Error> {
        let Some(lease) = Lease::take(&engine.store, Leased::of_all("sweep")).await? else {
            return Ok(Progress::Done);
        };
        let mut sweep = engine.store.begin_sweep(deleted.clone());
        while engine.store.sweep_on(&mut sweep).await? {
            tokio::time::sleep(PAUSE).await;
            if !lease.renew("").await? {
                return Ok(Progress::Done);
            }
        }
        lease.give_back("").await?;
        let (boards, keys) = (deleted.len(), sweep.unlinked);
        tracing::info!(boards, keys, "what deleted boards had left was unlinked");
        Ok(Progress::Done)
    }
}
