//! Permits: how many streams there may be at a time, in all, of one API key, and to one address.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::access::KeyName;
use crate::domain::quota::Network;
use crate::http::problem::{OVERLOADED, Own, Problem, TOO_MANY_STREAMS};

/// When to come again who has as many streams as it may have, in seconds: one has to end first.
const RETRY_AFTER_S: u64 = 10;

/// How many streams an instance has at the most.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// In all.
    pub all: usize,
    /// Of one API key, and of the tokens that were made with it.
    pub per_key: usize,
    /// To one address, for those who send no API key.
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

/// By what streams are counted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::http) enum CountedBy {
    /// The API keys of the configuration.
    Configuration,
    /// A stored API key.
    Key(KeyName),
    /// Where its reader is.
    Address(Network),
}

/// The streams that there are.
#[derive(Debug, Default)]
pub(super) struct Permits {
    limits: StreamLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<CountedBy, usize>,
}

/// The permit of one stream. It is given back with the value.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Arc<Permits>,
    by: Vec<CountedBy>,
}

impl CountedBy {
    fn max(&self, limits: &StreamLimits) -> usize {
        match self {
            Self::Configuration | Self::Key(_) => limits.per_key,
            Self::Address(_) => limits.per_address,
        }
    }

    fn problem(&self, max: usize) -> Problem {
        let detail = match self {
            Self::Configuration | Self::Key(_) => format!("the API key has {max} streams"),
            Self::Address(_) => format!("there are {max} streams to this address"),
        };
        Problem {
            own: Some(Own::RetryAfter(RETRY_AFTER_S)),
            ..Problem::new(TOO_MANY_STREAMS, detail)
        }
    }
}

impl Permits {
    pub(super) fn new(limits: StreamLimits) -> Self {
        Self {
            limits,
            taken: Mutex::default(),
        }
    }

    /// Takes a permit that is counted by all of these.
    pub(super) fn take(self: &Arc<Self>, by: Vec<CountedBy>) -> Result<Permit, Problem> {
        let mut taken = self.taken.lock();
        if taken.all >= self.limits.all {
            let detail = "the service has as many streams as it may have; try again";
            return Err(Problem::new(OVERLOADED, detail));
        }
        for one in &by {
            let max = one.max(&self.limits);
            if taken.by.get(one).is_some_and(|count| *count >= max) {
                return Err(one.problem(max));
            }
        }
        taken.all += 1;
        for one in &by {
            *taken.by.entry(one.clone()).or_default() += 1;
        }
        Ok(Permit {
            permits: Arc::clone(self),
            by,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.taken.lock();
        taken.all -= 1;
        for one in &self.by {
            if let Some(count) = taken.by.get_mut(one) {
                *count -= 1;
                if *count == 0 {
                    taken.by.remove(one);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> CountedBy {
        CountedBy::Key(KeyName::parse("site").unwrap())
    }

    fn address(text: &str) -> CountedBy {
        CountedBy::Address(Network::parse(text).unwrap())
    }

    #[test]
    fn there_are_as_many_permits_as_each_bound_leaves_and_they_are_given_back() {
        let limits = StreamLimits {
            all: 4,
            per_key: 3,
            per_address: 2,
        };
        let permits = Arc::new(Permits::new(limits));
        let kind = |by| permits.take(by).map_err(|problem| problem.kind);
        let of_both = |from: &str| vec![key(), address(from)];
        let first = kind(of_both("10.0.0.1")).unwrap();
        let _second = kind(of_both("10.0.0.1")).unwrap();
        assert_eq!(kind(of_both("10.0.0.1")).unwrap_err(), TOO_MANY_STREAMS);
        let _third = kind(vec![key()]).unwrap();
        assert_eq!(kind(of_both("10.0.0.2")).unwrap_err(), TOO_MANY_STREAMS);
        let _fourth = kind(vec![address("10.0.0.2")]).unwrap();
        assert_eq!(kind(vec![]).unwrap_err(), OVERLOADED);
        drop(first);
        let _fifth = kind(of_both("10.0.0.1")).unwrap();
        assert_eq!(permits.taken.lock().by.len(), 3);
    }
}
