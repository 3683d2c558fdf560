//! Signals that all connections have to end.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Whether connections have to end. They check it after each event on them, so that has to be cheap.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    has_begun: AtomicBool,
    token: CancellationToken,
}

impl Stopping {
    /// Ends connections, and wakes those that wait for it.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        self.token.cancel();
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Waits until they have to. A task that has begun to wait is woken even if it does not poll this future again.
    pub(super) async fn begun(&self) {
        self.token.cancelled().await;
    }
}
