//! What all snapshots of an instance may take: memory, and how many are taken at once.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::core::Error;
use crate::domain::problems::{OVERLOADED, Problem};

/// How many snapshots there may be at once.
const AT_ONCE: usize = 4;
/// How long another one waits.
const WAIT_TIME_MAX: Duration = Duration::from_secs(5);

/// The bounds of snapshots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SnapshotBounds {
    /// How many bytes all of them together may take, about.
    pub bytes: u64,
    /// How many entries one call reads: half a millisecond of Redis.
    pub step_entries: u64,
}

/// What an instance has for snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    pub(crate) step_entries: u64,
    kib_max: u32,
    memory: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// What one snapshot takes of that, until it is dropped.
#[derive(Debug)]
pub(super) struct Allowance {
    kib_max: u32,
    memory: Arc<Semaphore>,
    held: Mutex<Held>,
    _turn: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Held {
    /// How many bytes it takes now.
    bytes: u64,
    /// The most KiB that it took so far.
    kib: OwnedSemaphorePermit,
}

impl Default for SnapshotBounds {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            step_entries: 1_000,
        }
    }
}

impl Default for Snapshots {
    fn default() -> Self {
        Self::new(SnapshotBounds::default())
    }
}

impl Snapshots {
    pub(crate) fn new(bounds: SnapshotBounds) -> Self {
        let kib_max = u32::try_from(bounds.bytes >> 10).unwrap_or(u32::MAX);
        Self {
            step_entries: bounds.step_entries,
            kib_max,
            memory: Arc::new(Semaphore::new(kib_max as usize)),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Begins a snapshot, once there are less than [`AT_ONCE`].
    ///
    /// # Errors
    ///
    /// [`OVERLOADED`] after [`WAIT_TIME_MAX`].
    pub(super) async fn begin(&self) -> Result<Allowance, Error> {
        let turn = Arc::clone(&self.turns).acquire_owned();
        let turn = tokio::time::timeout(WAIT_TIME_MAX, turn).await;
        let none = Arc::clone(&self.memory).try_acquire_many_owned(0);
        let (Ok(Ok(turn)), Ok(kib)) = (turn, none) else {
            let detail =
                "too many exports of standings that are not final are being sent; try again";
            return Err(Error::try_again(Problem::new(OVERLOADED, detail)));
        };
        Ok(Allowance {
            kib_max: self.kib_max,
            memory: Arc::clone(&self.memory),
            held: Mutex::new(Held { bytes: 0, kib }),
            _turn: turn,
        })
    }
}

impl Allowance {
    /// Notes that a shard takes `after` bytes instead of `before`.
    ///
    /// # Errors
    ///
    /// [`Problem::export_too_large`] if it would be too much even alone, [`OVERLOADED`] if others have the rest.
    pub(super) fn grow(&self, before: u64, after: u64) -> Result<(), Error> {
        let mut held = self.held.lock();
        held.bytes = held.bytes + after - before;
        let needed = u32::try_from(held.bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        if needed > self.kib_max {
            return Err(Problem::export_too_large(self.kib_max >> 10).into());
        }
        let had = u32::try_from(held.kib.num_permits()).unwrap_or(u32::MAX);
        let more = needed.saturating_sub(had);
        let Ok(more) = Arc::clone(&self.memory).try_acquire_many_owned(more) else {
            let detail = "other exports use the memory for exports; try again";
            return Err(Error::try_again(Problem::new(OVERLOADED, detail)));
        };
        held.kib.merge(more);
        Ok(())
    }

    /// Notes that a shard takes these bytes no longer.
    pub(super) fn give_back(&self, bytes: u64) {
        self.held.lock().bytes -= bytes;
    }

    /// Notes that no shard takes anything.
    pub(super) fn clear(&self) {
        self.held.lock().bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const KIB: u64 = 1 << 10;

    fn name(error: Error) -> &'static str {
        Problem::from(error).kind.name
    }

    #[tokio::test]
    async fn snapshots_share_memory_until_they_are_dropped() {
        let snapshots = Snapshots::new(SnapshotBounds {
            bytes: 10 * KIB,
            step_entries: 1,
        });
        let one = snapshots.begin().await.unwrap();
        let other = snapshots.begin().await.unwrap();
        one.grow(0, 6 * KIB).unwrap();
        one.grow(6 * KIB, 2 * KIB).unwrap();
        other.grow(0, 4 * KIB).unwrap();
        assert_eq!(
            name(other.grow(4 * KIB, 4 * KIB + 1).unwrap_err()),
            "overloaded"
        );
        assert_eq!(
            name(other.grow(0, 10 * KIB).unwrap_err()),
            "export-too-large"
        );
        drop(one);
        other.clear();
        other.grow(0, 10 * KIB).unwrap();
    }

    #[tokio::test]
    async fn few_snapshots_are_taken_at_once() {
        let snapshots = Snapshots::default();
        let mut begun = Vec::new();
        for _ in 0..AT_ONCE {
            begun.push(snapshots.begin().await.unwrap());
        }
        assert!(snapshots.begin().now_or_never().is_none());
        begun.pop();
        snapshots.begin().await.unwrap();
    }
}
