//! How an instance has a queued event in hand while it applies it.

use crate::domain::time::Timestamp;
use crate::redis::entry::EntryId;

/// How somebody has an event of a queue in hand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Held {
    /// Its entry.
    pub entry: EntryId,
    /// How many bytes that counts in its queue.
    pub bytes: usize,
    /// The number of the lease of the queue.
    pub lease: u64,
    /// The barrier of the closing for which it is late, if it is.
    pub late: Option<Timestamp>,
    /// When it was queued: by this it is too late, or in the future.
    pub queued_at: Timestamp,
    /// Whether it comes out of the log: then an erasure after it was queued takes it away.
    pub is_logged: bool,
}
