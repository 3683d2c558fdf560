//! The lease of an item: one instance at a time works on it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::redis::leases::{Given, Leased};
use crate::redis::{Store, StoreError};

/// How long an instance that does not answer keeps others from taking over, in milliseconds.
const DURATION_MS: u64 = 5_000;
/// How often the holder renews a lease.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// A lease that this instance holds. It expires if the instance dies.
#[derive(Debug)]
pub struct Lease {
    /// Its number: greater than that of each earlier holder.
    pub number: u64,
    /// How far the last holder came; empty at the beginning of the work.
    pub position: String,
    store: Arc<Store>,
    leased: Leased,
    holder: String,
    renewed: Mutex<Instant>,
}

impl Lease {
    /// Takes a lease; `None` if another instance holds it, or its board was deleted.
    pub async fn take(store: &Arc<Store>, leased: Leased) -> Result<Option<Self>, StoreError> {
        // A new one each time, so that calls in flight from an earlier holder in this process are refused too.
        let holder = format!("{:016x}", RandomState::new().build_hasher().finish());
        let given = store.lease(&leased, &holder, DURATION_MS, "").await?;
        Ok(given.map(|Given { number, position }| Self {
            number,
            position,
            store: Arc::clone(store),
            leased,
            holder,
            renewed: Mutex::new(Instant::now()),
        }))
    }

    /// Renews the lease if that is due, and stores how far the work has come. Returns whether it is still held.
    pub async fn renew(&self, position: &str) -> Result<bool, StoreError> {
        if self.renewed.lock().elapsed() < RENEWAL_INTERVAL {
            return Ok(true);
        }
        self.confirm(position).await
    }

    /// Renews the lease now, and stores how far the work has come. Returns whether it is still held.
    pub async fn confirm(&self, position: &str) -> Result<bool, StoreError> {
        *self.renewed.lock() = Instant::now();
        let given = self
            .store
            .lease(&self.leased, &self.holder, DURATION_MS, position);
        Ok(given
            .await?
            .is_some_and(|given| given.number == self.number))
    }

    /// Does some work while the lease is held, and renews it meanwhile. `None`: the lease was lost, or could not be
    /// renewed, and the work was dropped.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let lost = async {
            loop {
                tokio::time::sleep(RENEWAL_INTERVAL).await;
                if !matches!(self.renew(&self.position).await, Ok(true)) {
                    return;
                }
            }
        };
        tokio::select! {
            done = work => Some(done),
            () = lost => None,
        }
    }

    /// Gives the lease back; an empty position means that the work is finished.
    pub async fn give_back(self, position: &str) -> Result<(), StoreError> {
        self.store
            .lease(&self.leased, &self.holder, 0, position)
            .await
            .map(drop)
    }
}
