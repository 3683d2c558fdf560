//! Permits: how many concurrent streams there may be, in total, per API key, per player, and per address.

use crate::http::problem::{OVERLOADED, Own, Problem, TOO_MANY_STREAMS};
use crate::http::supply::{Shortage, Supply, Taken, Taker, Takers};

/// `Retry-After` in seconds when all permits are taken: a stream has to end first.
const RETRY_AFTER_S: u64 = 10;

/// The limits of concurrent streams on an instance.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// In total.
    pub all: usize,
    /// Per API key, including tokens made with it.
    pub per_key: usize,
    /// Per player, and per address for clients without an API key.
    pub per_address: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            all: 10_000,
            per_key: 5_000,
            per_address: 100,
        }
    }
}

#[derive(Debug)]
pub(super) struct Permits {
    limits: StreamLimits,
    supply: Supply,
}

impl Permits {
    pub(super) fn new(limits: StreamLimits) -> Self {
        let supply = Supply::new(limits.all);
        Self { limits, supply }
    }

    /// Takes a permit for one stream.
    pub(super) fn take(&self, by: &Takers) -> Result<Taken, Problem> {
        let taken = self.supply.try_take_within(by, 1, |one| self.bound(one));
        taken.map_err(|shortage| match shortage {
            Shortage::All => {
                let detail = "there are too many streams to open another one; try again";
                Problem::new(OVERLOADED, detail)
            }
            Shortage::Of(one) => {
                let max = self.bound(one);
                let who = match one {
                    Taker::Configured(_) | Taker::Key(_) => "the API key",
                    Taker::Player(_) => "the player",
                    Taker::Address(_) => "this address",
                };
                let detail = format!("{who} already has {max} streams");
                Problem::new(TOO_MANY_STREAMS, detail).with(Own::RetryAfter(RETRY_AFTER_S))
            }
        })
    }

    fn bound(&self, taker: &Taker) -> usize {
        match taker {
            Taker::Configured(_) | Taker::Key(_) => self.limits.per_key,
            Taker::Player(_) | Taker::Address(_) => self.limits.per_address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::access::KeyName;
    use crate::domain::quota::Network;

    fn address(text: &str) -> Taker {
        Taker::Address(Network::parse(text).unwrap())
    }

    #[test]
    fn permits_respect_each_bound_and_are_returned() {
        let permits = Permits::new(StreamLimits {
            all: 4,
            per_key: 3,
            per_address: 2,
        });
        let key = || Some(Taker::Key(KeyName::parse("site").unwrap()));
        let take = |by| permits.take(&by).map_err(|problem| problem.kind);
        let of_both = |from: &str| Takers::both(key(), Some(address(from)));
        let first = take(of_both("10.0.0.1")).unwrap();
        let _second = take(of_both("10.0.0.1")).unwrap();
        assert_eq!(take(of_both("10.0.0.1")).unwrap_err(), TOO_MANY_STREAMS);
        let _third = take(Takers::one(key())).unwrap();
        assert_eq!(take(of_both("10.0.0.2")).unwrap_err(), TOO_MANY_STREAMS);
        let _fourth = take(Takers::one(address("10.0.0.2"))).unwrap();
        assert_eq!(take(Takers::default()).unwrap_err(), OVERLOADED);
        drop(first);
        assert!(take(of_both("10.0.0.1")).is_ok());
    }

    #[test]
    fn a_key_with_many_streams_leaves_some_for_another() {
        let permits = Permits::new(StreamLimits {
            all: 80,
            per_key: 80,
            per_address: 80,
        });
        let take = |key| permits.take(&Takers::one(Taker::Configured(key)));
        let many: Vec<_> = std::iter::from_fn(|| take(1).ok()).collect();
        assert_eq!(many.len(), 70);
        assert_eq!(take(1).unwrap_err().kind, OVERLOADED);
        assert!(take(2).is_ok());
    }
}
