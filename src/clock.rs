//! The time, as all instances of the service agree on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::Utc;

use crate::domain::time::Timestamp;

/// Follows Redis' clock, or stands where a test has set it. Clones share it.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    System { ahead_ms: Arc<AtomicI64> },
    Set { now_ms: Arc<AtomicI64> },
}

impl Clock {
    /// This machine's clock, corrected by [`Clock::follow`].
    pub fn system() -> Self {
        Self(Kind::System {
            ahead_ms: Arc::default(),
        })
    }

    /// A clock that stands still until it is set.
    pub fn set_to(now: Timestamp) -> Self {
        Self(Kind::Set {
            now_ms: Arc::new(AtomicI64::new(now.ms())),
        })
    }

    /// Moves a clock that stands; does nothing to one that runs.
    pub fn set(&self, now: Timestamp) {
        if let Kind::Set { now_ms } = &self.0 {
            now_ms.store(now.ms(), Ordering::SeqCst);
        }
    }

    /// Corrects a running clock by what Redis' clock showed at the middle of an exchange that, by this
    /// machine's clock, began and ended at these times. All in milliseconds since the epoch.
    pub fn follow(&self, redis_ms: i64, began_ms: i64, ended_ms: i64) {
        if let Kind::System { ahead_ms } = &self.0 {
            ahead_ms.store(
                redis_ms - i64::midpoint(began_ms, ended_ms),
                Ordering::SeqCst,
            );
        }
    }

    /// This machine's own time in milliseconds since the epoch.
    pub fn local_ms() -> i64 {
        Utc::now().timestamp_millis()
    }

    /// What Redis' clock shows, by which keys expire: the time now, unless a test has set that.
    pub fn redis_now(&self) -> Timestamp {
        match &self.0 {
            Kind::System { .. } => self.now(),
            Kind::Set { .. } => Timestamp::from_ms_clamped(Self::local_ms()),
        }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let ms = match &self.0 {
            Kind::System { ahead_ms } => Self::local_ms() + ahead_ms.load(Ordering::SeqCst),
            Kind::Set { now_ms } => now_ms.load(Ordering::SeqCst),
        };
        Timestamp::from_ms_clamped(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_local_clock_is_corrected() {
        let clock = Clock::system();
        let local = Clock::local_ms();
        clock.follow(local + 3_600_000, local - 10, local + 10);
        let ahead = clock.now().ms() - Clock::local_ms();
        assert!((3_599_000..=3_601_000).contains(&ahead), "{ahead}");
    }
}
