//! Keeps repeated lines from flooding the log: one line a second for each cause, with the number of lines left out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The pause between two lines of a cause.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a cause must have had no line before the omitted ones are reported separately: a flood would have had a line.
const SILENT_AFTER: Duration = Duration::from_secs(2);
/// How many causes are kept separately. All others count as one.
const CAUSES_MAX: usize = 64;
/// The name of all other causes.
const OTHER: &str = "other causes";

static LINES: Throttle = Throttle::new();

/// Logs a line, unless one with the same cause was logged less than a second ago. `log` gets the number of lines omitted
/// since the last one, if any.
pub fn say(cause: &str, log: impl FnOnce(Option<u64>)) {
    if let Some(left_out) = LINES.admit(cause, Instant::now()) {
        log(Some(left_out).filter(|count| *count > 0));
    }
}

/// Reports how many lines were omitted where no further line does, until `stop`.
pub async fn tell_of_the_rest(stop: CancellationToken) {
    loop {
        let slept = stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await;
        let is_last = slept.is_none();
        let now = Instant::now();
        let rest = LINES.rest(if is_last { now + SILENT_AFTER } else { now });
        for (cause, more) in rest {
            tracing::warn!(cause, more, "more lines like this were left out");
        }
        if is_last {
            return;
        }
    }
}

struct Throttle(Mutex<BTreeMap<String, Said>>);

/// When a cause had its last line, and how many were omitted since.
struct Said {
    at: Instant,
    left_out: u64,
}

impl Throttle {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// The number of lines omitted since the last one, if a line may be logged now.
    fn admit(&self, cause: &str, now: Instant) -> Option<u64> {
        let mut causes = self.0.lock();
        let is_new = !causes.contains_key(cause);
        let cause = if is_new && causes.len() >= CAUSES_MAX {
            OTHER
        } else {
            cause
        };
        if let Some(said) = causes.get_mut(cause) {
            if now.duration_since(said.at) < INTERVAL {
                said.left_out += 1;
                return None;
            }
            said.at = now;
            return Some(std::mem::take(&mut said.left_out));
        }
        let said = Said {
            at: now,
            left_out: 0,
        };
        causes.insert(cause.to_owned(), said);
        Some(0)
    }

    /// The omitted lines of causes that have had no line for a while. These causes are forgotten.
    fn rest(&self, now: Instant) -> Vec<(String, u64)> {
        let mut causes = self.0.lock();
        let old = causes.extract_if(.., |_, said| now.duration_since(said.at) >= SILENT_AFTER);
        old.map(|(cause, said)| (cause, said.left_out))
            .filter(|(_, left_out)| *left_out > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_logged_once_a_second_and_always_counted() {
        let lines = Throttle::new();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(lines.admit("a", at(0)), Some(0));
        for ms in 1..=100 {
            assert_eq!(lines.admit("a", at(ms)), None);
        }
        assert_eq!(lines.admit("b", at(100)), Some(0));
        assert_eq!(lines.admit("a", at(1_000)), Some(100));
        assert_eq!(lines.admit("a", at(1_001)), None);
        assert_eq!(lines.rest(at(2_999)), [], "b had none left out");
        assert_eq!(lines.rest(at(3_000)), [("a".to_owned(), 1)]);
        assert_eq!(lines.rest(at(9_000)), []);
        assert_eq!(lines.admit("a", at(9_000)), Some(0));
    }

    #[test]
    fn unforeseen_causes_take_bounded_memory() {
        let lines = Throttle::new();
        let now = Instant::now();
        let admitted = (0..1_000).filter(|number| lines.admit(&number.to_string(), now).is_some());
        assert_eq!(admitted.count(), CAUSES_MAX + 1);
        let rest = lines.rest(now + SILENT_AFTER);
        let left_out = 1_000 - CAUSES_MAX as u64 - 1;
        assert_eq!(rest, [(OTHER.to_owned(), left_out)]);
    }
}
