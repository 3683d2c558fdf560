//! File descriptors: how many the process may have, and how many of them are for connections of clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::http::listener::RESERVE;
use crate::webhooks::deliveries::job::ALL_AT_ONCE;

/// What the service needs in addition to connections of clients and to webhooks: connections to Redis, of which each node
/// of a cluster and each replica have a few; files, pipes and timers; and connections that are being closed.
const OWN_NEEDS: u64 = 160;
/// The maximum number of connections, unless another number is configured.
const CONNECTIONS_DEFAULT_MAX: u64 = 20_000;
const CONNECTIONS_MIN: u64 = 16;

/// The limit to request if there is no upper bound: macOS accepts no more.
const UNLIMITED: u64 = 10_240;

/// Raises the process's limit of descriptors as far as possible; returns the limit.
pub fn raise_limit() -> u64 {
    let now = getrlimit(Resource::Nofile);
    let possible = now.maximum.unwrap_or(UNLIMITED);
    if now.current.is_some_and(|current| current < possible) {
        let raised = Rlimit {
            current: Some(possible),
            maximum: now.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of file descriptors can't be raised");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many connections of clients there may be with this many descriptors; `configured` is 0 if the service chooses.
pub fn connections_max(configured: u32, descriptors: u64) -> usize {
    let possible = descriptors
        .saturating_sub(OWN_NEEDS + (RESERVE + ALL_AT_ONCE) as u64)
        .max(CONNECTIONS_MIN);
    let wanted = match configured {
        0 => CONNECTIONS_DEFAULT_MAX,
        configured => configured.into(),
    };
    if wanted > possible && configured > 0 {
        tracing::warn!(
            configured,
            descriptors,
            possible,
            "the limit of file descriptors allows fewer connections than STANDINGS_MAX_CONNECTIONS"
        );
    }
    usize::try_from(wanted.min(possible)).unwrap_or(usize::MAX)
}

/// How many of the connections may be streams; `configured` is 0 if the service chooses. The others are for requests.
pub fn streams_max(configured: u32, connections: usize) -> usize {
    match usize::try_from(configured).unwrap_or(usize::MAX) {
        0 => connections / 2,
        configured => configured.min(connections),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_connections_for_requests() {
        assert_eq!(streams_max(0, 20_000), 10_000);
        assert_eq!(streams_max(15_000, 20_000), 15_000);
        assert_eq!(streams_max(15_000, 632), 632);
    }

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        assert_eq!(connections_max(0, u64::MAX), 20_000);
        assert_eq!(connections_max(0, 1_024), 632);
        assert_eq!(connections_max(500, 1_024), 500);
        assert_eq!(connections_max(5_000, 1_024), 632);
        assert_eq!(connections_max(30_000, 1 << 20), 30_000);
        assert_eq!(connections_max(0, 64), 16);
    }
}
