//! How far behind the replicas may be that any instance reads from.
//!
//! An instance registers its bound before it reads from a replica, and renews that. A registration counts for
//! `COUNTS_FOR`, and the instance itself believes in it for `BELIEVED_FOR` only. It takes no answer that is older than
//! the first of the registrations that follow each other without a gap. So whoever asks for the greatest bound, and waits for
//! that long, knows that every later answer of every instance has all that was acknowledged before.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::dispatch::Store;
use super::{StoreError, keys, script};

/// For how long a registration counts, by Redis' clock.
const COUNTS_FOR: Duration = Duration::from_secs(30);
/// For how long an instance believes in its registration. The rest is for clocks that are not equally fast, or jump a little,
/// and for an answer on its way.
const BELIEVED_FOR: Duration = Duration::from_secs(10);

/// What an instance knows of its registration.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The name of the instance: another one for each process.
    instance: String,
    state: Mutex<Option<Registered>>,
}

/// A registration that was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Registered {
    /// When the first one was acknowledged that those after it followed without a gap.
    since: Instant,
    /// Until when the instance believes in it.
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
    /// Whether an answer with this age may be taken now.
    pub(crate) fn covers(&self, as_of: Instant) -> bool {
        covers(*self.state.lock(), as_of, Instant::now())
    }

    /// Takes note of a call that began and was answered then.
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
    /// Registers for a while how far behind the replicas may be that this instance reads from, if it does.
    pub async fn register_staleness(&self) -> Result<(), StoreError> {
        if let Some(replicas) = &self.replicas {
            let (registration, began) = (&replicas.registration, Instant::now());
            self.ask_staleness(&registration.instance, replicas.max_staleness)
                .await?;
            registration.renew(began, Instant::now());
        }
        Ok(())
    }

    /// How far behind the replicas may be at the most that any instance reads from; zero if none does.
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
    fn only_answers_of_the_time_of_a_registration_are_taken() {
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
