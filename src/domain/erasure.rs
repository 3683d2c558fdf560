//! Erasing a member of a board: nothing written about it before counts, and later events start from nothing.

use super::time::Timestamp;

/// An erasure of a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Erasure {
    /// A stamp: later erasures have greater numbers.
    pub number: u64,
    /// When it was requested; only later events count. If an earlier erasure of the member has this instant or a later one,
    /// this one is a millisecond after it.
    pub at: Timestamp,
}
