//! Keeping the order of what goes on side by side.

use std::pin::pin;
use std::task::Poll;

use futures::poll;

/// Runs a future that has begun when the guard is let go: it is polled once before that. So whoever waits for the guard
/// begins after it, though it may end before it.
pub async fn begin_under<T>(guard: impl Sized, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let begun = poll!(&mut future);
    drop(guard);
    match begun {
        Poll::Ready(value) => value,
        Poll::Pending => future.await,
    }
}
