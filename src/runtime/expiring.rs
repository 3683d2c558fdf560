//! What is held for a limited time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

/// A value that is dropped after a time, whether somebody uses it or not.
#[derive(Debug)]
pub(crate) struct Expiring<T> {
    value: Arc<Mutex<Option<T>>>,
    _end: AbortOnDropHandle<()>,
}

impl<T: Send + 'static> Expiring<T> {
    pub(crate) fn new(value: T, time: Duration) -> Self {
        let value = Arc::new(Mutex::new(Some(value)));
        let held = Arc::downgrade(&value);
        let end = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            if let Some(held) = held.upgrade() {
                held.lock().take();
            }
        });
        Self {
            value,
            _end: AbortOnDropHandle::new(end),
        }
    }

    /// Uses the value; `None` if it was dropped.
    pub(crate) fn with<R>(&self, using: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.value.lock().as_mut().map(using)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_is_dropped_after_its_time_or_with_its_holder() {
        let value = Arc::new(());
        let held = Expiring::new(Arc::clone(&value), Duration::from_hours(1));
        assert_eq!(held.with(|_| 7), Some(7));
        drop(held);
        assert_eq!(Arc::strong_count(&value), 1);

        let held = Expiring::new(Arc::clone(&value), Duration::from_millis(1));
        while held.with(|_| ()).is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
