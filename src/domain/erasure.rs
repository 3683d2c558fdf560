//! Erasing a member of a board: what was written of it before counts for nothing, and what comes in later begins from
//! nothing.

use super::time::Timestamp;

/// An erasure of a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Erasure {
    /// A stamp: of two erasures the later one has the greater number.
    pub number: u64,
    /// When it was asked for. An event has to lie after it. If the member was erased at that instant or later before, the
    /// erasure counts for the millisecond behind.
    pub at: Timestamp,
}
