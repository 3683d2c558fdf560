//! A queued event while an instance applies it.

use crate::domain::time::Timestamp;
use crate::redis::entry::EntryId;

/// A queued event that an instance holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Held {
    pub entry: EntryId,
    /// The bytes that the entry counts in its queue.
    pub bytes: usize,
    /// The number of the lease of the queue.
    pub lease: u64,
    /// If it is late, the barrier of the closing that it missed.
    pub late: Option<Timestamp>,
    /// When it was queued: this decides whether it is too late, or in the future.
    pub queued_at: Timestamp,
    /// Whether it comes from the log: then an erasure after it was queued removes it.
    pub is_logged: bool,
}
