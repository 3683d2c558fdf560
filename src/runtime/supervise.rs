//! Background tasks. A task that panics is restarted, and the log and a metric say so.
//!
//! If a task that can't be restarted ends, the process shuts down cleanly (`server.rs`). If a task keeps panicking,
//! `/livez` says so.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use metrics::counter;
use parking_lot::Mutex;

/// The first and the longest pause before a restart; pauses in between double.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// After running this long, a task counts as recovered.
const STEADY_AFTER: Duration = Duration::from_mins(1);
/// After this many panics without recovering in between, a task is failing.
const PANICS_MAX: u32 = 3;

/// The tasks of the process that have panicked.
static FAULTS: Mutex<BTreeMap<u64, Fault>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, Debug)]
struct Fault {
    task: &'static str,
    /// Panics since it last recovered.
    panics: u32,
    last: Instant,
}

/// Runs a task to its end: one that panics is restarted after a pause, logged, and counted in
/// `standings_task_restarts_total`. A task that must never end returns `Infallible`.
pub async fn restarted<F: Future>(task: &'static str, mut begin: impl FnMut() -> F) -> F::Output {
    let mut faults = Faults::default();
    loop {
        let run = AssertUnwindSafe(async { begin().await }).catch_unwind();
        let panic = match run.await {
            Ok(output) => return output,
            Err(panic) => panic,
        };
        let panics = faults.note(task, Instant::now());
        let message = message_of(&*panic);
        tracing::error!(
            task,
            message,
            "a background task has panicked; restarting it"
        );
        counter!("standings_task_restarts_total", "task" => task).increment(1);
        let doublings = 1_u32.checked_shl(panics - 1).unwrap_or(u32::MAX);
        tokio::time::sleep(PAUSE_MIN.saturating_mul(doublings).min(PAUSE_MAX)).await;
    }
}

/// The tasks that keep panicking.
pub fn failing(now: Instant) -> Vec<&'static str> {
    let faults = FAULTS.lock();
    faults
        .values()
        .filter(|fault| fault.panics >= PANICS_MAX && now.duration_since(fault.last) < STEADY_AFTER)
        .map(|fault| fault.task)
        .collect()
}

pub fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// The faults of one task, as long as it exists.
#[derive(Default)]
struct Faults(Option<u64>);

impl Faults {
    /// Notes a panic; returns how many there were since the task last recovered.
    fn note(&mut self, task: &'static str, now: Instant) -> u32 {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let id = *self
            .0
            .get_or_insert_with(|| COUNT.fetch_add(1, Ordering::Relaxed));
        let mut faults = FAULTS.lock();
        let fault = faults.entry(id).or_insert(Fault {
            task,
            panics: 0,
            last: now,
        });
        let is_well_before = now.duration_since(fault.last) >= STEADY_AFTER;
        let before = if is_well_before { 0 } else { fault.panics };
        fault.panics = before.saturating_add(1);
        fault.last = now;
        fault.panics
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            FAULTS.lock().remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_restarted_and_one_that_ends_is_not() {
        let mut runs = 0;
        let output = restarted("test", || {
            runs += 1;
            let run = runs;
            async move {
                tokio::task::yield_now().await;
                assert!(run > 2, "a fault");
                run
            }
        });
        assert_eq!(output.await, 3);
        let mut begun = 0;
        let output = restarted("test", || {
            begun += 1;
            assert!(begun > 1, "a fault before the task is there");
            async { "done" }
        });
        assert_eq!(output.await, "done");
    }

    #[test]
    fn a_task_that_keeps_panicking_is_failing_until_it_recovers_or_ends() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let is_failing = |s| failing(at(s)).contains(&"failing");
        let mut faults = Faults::default();
        assert_eq!(faults.note("failing", at(0)), 1);
        assert_eq!(faults.note("failing", at(10)), 2);
        assert!(!is_failing(10));
        assert_eq!(faults.note("failing", at(20)), 3);
        assert!(is_failing(20));
        assert!(!is_failing(90), "it has gone on since");
        assert_eq!(faults.note("failing", at(100)), 1, "it was well in between");
        assert!(!is_failing(100));
        faults.note("failing", at(101));
        faults.note("failing", at(102));
        assert!(is_failing(102));
        drop(faults);
        assert!(!is_failing(102), "it is not there any more");
    }

    #[test]
    fn the_message_of_a_panic_is_found() {
        for (panic, message) in [
            (Box::new("text") as Box<dyn Any + Send>, "text"),
            (Box::new("owned".to_owned()), "owned"),
            (Box::new(1), "no message"),
        ] {
            assert_eq!(message_of(&*panic), message);
        }
    }
}
