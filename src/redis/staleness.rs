//! How far behind the replicas may be that any instance reads from.
//!
//! An instance registers its bound before it reads from a replica, and renews the registration. Others respect it for
//! `COUNTS_FOR`, the instance itself relies on it for only `BELIEVED_FOR`. It uses no answer that is older than the first
//! of its registrations without a gap. So after reading the greatest bound and waiting for that long, a caller knows that
//! every later answer of every instance has everything that was acknowledged before.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::dispatch::Store;
use super::{StoreError, keys, script};

/// How long a registration is valid for others, by Redis' clock.
const COUNTS_FOR: Duration = Duration::from_secs(30);
/// How long an instance relies on its registration. The difference allows for clocks that drift or jump a little, and for
/// answers in flight.
const BELIEVED_FOR: Duration = Duration::from_secs(10);

/// What an instance knows of its registration.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The name of the instance, unique to each process.
    instance: String,
    state: Mutex<Option<Registered>>,
}

/// A successful registration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Registered {
    /// When the first registration since the last gap was acknowledged.
    since: Instant,
    /// Until when the instance relies on it.
    until: Instant,
}

impl Default for Registration {
    fn default() -> Self {
        Self {
            instance: format!("{:016x}", RandomState::new().build_hasher().finish()),
            state: Mutex::default(),
        }
    }
}

impl Registration {
    /// Whether an answer of this age may be used now.
    pub(crate) fn covers(&self, as_of: Instant) -> bool {
        covers(*self.state.lock(), as_of, Instant::now())
    }

    /// Records a successful call with the times of its beginning and its answer.
    fn renew(&self, began: Instant, answered: Instant) {
        let mut state = self.state.lock();
        *state = Some(renewed(*state, began, answered));
    }
}

fn covers(state: Option<Registered>, as_of: Instant, now: Instant) -> bool {
    state.is_some_and(|registered| registered.since <= as_of && now < registered.until)
}

fn renewed(before: Option<Registered>, began: Instant, answered: Instant) -> Registered {
    let goes_on = before.filter(|before| answered < before.until);
    Registered {
        since: goes_on.map_or(answered, |before| before.since),
        until: began + BELIEVED_FOR,
    }
}

impl Store {
    /// Registers for a while how far behind the replicas may be that this instance reads from, if any.
    pub async fn register_staleness(&self) -> Result<(), StoreError> {
        if let Some(replicas) = &self.replicas {
            let (registration, began) = (&replicas.registration, Instant::now());
            self.ask_staleness(&registration.instance, replicas.max_staleness)
                .await?;
            registration.renew(began, Instant::now());
        }
        Ok(())
    }

    /// The greatest registered bound of any instance; zero if no instance reads from replicas.
    pub async fn greatest_staleness(&self) -> Result<Duration, StoreError> {
        self.ask_staleness("", Duration::ZERO).await
    }

    async fn ask_staleness(&self, instance: &str, bound: Duration) -> Result<Duration, StoreError> {
        let told = self
            .call(&script::STALENESS, keys::STALENESSES)
            .key(keys::STALENESSES)
            .arg(instance)
            .arg(bound.as_millis())
            .arg(COUNTS_FOR.as_millis());
        told.write().await.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_from_the_time_of_a_registration_are_used() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert!(!covers(None, at(1), at(1)));
        let first = renewed(None, at(1), at(2));
        assert_eq!((first.since, first.until), (at(2), at(11)));
        assert!(!covers(Some(first), at(1), at(3)), "it is older");
        assert!(covers(Some(first), at(2), at(10)));
        assert!(!covers(Some(first), at(9), at(11)), "it has passed");
        let next = renewed(Some(first), at(8), at(9));
        assert_eq!((next.since, next.until), (at(2), at(18)));
        let after_gap = renewed(Some(next), at(17), at(18));
        assert_eq!((after_gap.since, after_gap.until), (at(18), at(27)));
    }
}
