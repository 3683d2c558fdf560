//! The items at which background work fails. A fault of one board does not hold up the others.
//!
//! A fault is logged when it occurs. While it lasts, a metric counts it and `GET /readyz` names it. The runner tries the
//! item again after a pause that doubles each time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use metrics::gauge;
use parking_lot::Mutex;

use super::JobKind;
use crate::core::Error;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;

/// The pause after the first failure, and the longest one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// When a fault is forgotten that has not occurred again: its item no longer exists.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(3);
/// The maximum number of faults that are kept.
const FAULTS_MAX: usize = 10_000;

/// What a job failed at.
#[derive(Clone, Debug)]
pub struct Fault {
    pub job: JobKind,
    /// The board; `*` if it is work for all boards.
    pub name: String,
    pub error: String,
    /// When it first occurred.
    pub since: Timestamp,
    pause: Duration,
    retry_at: Instant,
}

/// What a fault is about: a board, and which part of it; or work for all boards.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Subject {
    name: String,
    part: String,
}

impl Subject {
    pub fn board(board: &BoardId) -> Self {
        Self::part(board, String::new())
    }

    /// A part of a board, as the log names it.
    pub fn part(board: &BoardId, part: impl Into<String>) -> Self {
        Self {
            name: board.to_string(),
            part: part.into(),
        }
    }

    pub fn all_boards() -> Self {
        Self::log("")
    }

    /// A part of the log of queued events, which is for all boards: a partition, or the topic.
    pub fn log(part: impl fmt::Display) -> Self {
        Self {
            name: "*".to_owned(),
            part: part.to_string(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Faults {
    all: Mutex<BTreeMap<(JobKind, Subject), Fault>>,
}

impl Faults {
    /// Whether it is time to try, for the first time or again.
    pub(crate) fn is_due(&self, job: JobKind, subject: &Subject) -> bool {
        let all = self.all.lock();
        let fault = all.get(&(job, subject.clone()));
        fault.is_none_or(|fault| fault.retry_at <= Instant::now())
    }

    /// Records how a job went. An error that is not a fault says nothing about the subject.
    pub(crate) fn record(
        &self,
        job: JobKind,
        subject: &Subject,
        now: Timestamp,
        error: Option<&Error>,
    ) {
        let Subject { name, part } = subject;
        let mut all = self.all.lock();
        let item = (job, subject.clone());
        match error {
            None => {
                if all.remove(&item).is_none() {
                    return;
                }
                tracing::info!(
                    job = job.name(),
                    board = name,
                    part,
                    "a background job works again"
                );
            }
            Some(error) if error.is_fault() => {
                let met = Instant::now();
                let known = all.get(&item);
                if known.is_some_and(|fault| fault.retry_at > met)
                    || (known.is_none() && all.len() >= FAULTS_MAX)
                {
                    return;
                }
                tracing::error!(job = job.name(), board = name, part, %error, "a background job failed for one board; it will be tried again");
                let pause = known.map_or(PAUSE_MIN, |fault| (fault.pause * 2).min(PAUSE_MAX));
                let fault = Fault {
                    job,
                    name: name.clone(),
                    error: error.to_string(),
                    since: known.map_or(now, |fault| fault.since),
                    pause,
                    retry_at: met + pause,
                };
                all.insert(item, fault);
            }
            Some(_) => return,
        }
        report(&mut all);
    }

    /// The boards at which a job has failed.
    pub(crate) fn boards(&self, job: JobKind) -> Vec<BoardId> {
        let all = self.all.lock();
        all.keys()
            .filter(|(other, _)| *other == job)
            .flat_map(|(_, subject)| BoardId::parse(&subject.name))
            .collect()
    }

    /// The first `count` faults, and how many there are.
    pub fn list(&self, count: usize) -> (Vec<Fault>, usize) {
        let mut all = self.all.lock();
        report(&mut all);
        (all.values().take(count).cloned().collect(), all.len())
    }
}

/// Forgets what is over, and reports how many are left.
fn report(all: &mut BTreeMap<(JobKind, Subject), Fault>) {
    all.retain(|_, fault| fault.retry_at.elapsed() < FORGOTTEN_AFTER);
    // Only these kinds of background work are done board by board.
    for job in [JobKind::Definition, JobKind::QueueSizes]
        .into_iter()
        .chain(JobKind::in_background())
    {
        let count = all.keys().filter(|(other, _)| *other == job).count();
        #[expect(clippy::cast_precision_loss, reason = "a count of faults")]
        gauge!("standings_board_faults", "job" => job.name()).set(count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::StoreError;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms_clamped(ms)
    }

    fn record(faults: &Faults, board: &str, result: Result<(), StoreError>) {
        let subject = Subject::part(&BoardId::parse(board).unwrap(), "x");
        let error = result.err().map(Error::from);
        faults.record(JobKind::Purge, &subject, at(7), error.as_ref());
    }

    fn is_due(faults: &Faults, board: &str) -> bool {
        let subject = Subject::part(&BoardId::parse(board).unwrap(), "x");
        faults.is_due(JobKind::Purge, &subject)
    }

    fn end_pauses(faults: &Faults) {
        for fault in faults.all.lock().values_mut() {
            fault.retry_at = Instant::now();
        }
    }

    #[test]
    fn a_failed_item_is_retried_later_and_others_run_at_once() {
        let faults = Faults::default();
        let bad = || Err(StoreError::Unexpected("WRONGTYPE".into()));
        assert!(is_due(&faults, "a"));
        record(&faults, "a", bad());
        assert!(!is_due(&faults, "a") && is_due(&faults, "b"));
        let (list, count) = faults.list(5);
        assert_eq!(
            (list[0].name.as_str(), list[0].since, count),
            ("a", at(7), 1)
        );
        assert!(list[0].error.contains("WRONGTYPE"));
        assert_eq!(faults.boards(JobKind::Purge).len(), 1);
        assert_eq!(faults.boards(JobKind::Rollover).len(), 0);
        end_pauses(&faults);
        assert!(is_due(&faults, "a"));
        record(&faults, "a", bad());
        let pause = faults.all.lock().values().next().unwrap().pause;
        assert_eq!(pause, 2 * PAUSE_MIN);
        end_pauses(&faults);
        record(&faults, "a", Ok(()));
        assert_eq!(faults.list(5).1, 0);
    }

    #[test]
    fn an_absent_server_is_not_the_fault_of_a_board() {
        let faults = Faults::default();
        record(&faults, "a", Err(StoreError::Unavailable("away".into())));
        assert_eq!(faults.list(5).1, 0);
    }
}
