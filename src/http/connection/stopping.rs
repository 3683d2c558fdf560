//! That all connections are to end.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Whether connections are to end. They look at it each time that something has happened on them, so that has to be cheap.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    has_begun: AtomicBool,
    token: CancellationToken,
}

impl Stopping {
    /// Has connections end, and wakes those that wait for it.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether they are to end.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Waits until they are. A task that has begun to wait is woken, also if it does not ask this future again.
    pub(super) async fn begun(&self) {
        self.token.cancelled().await;
    }
}
