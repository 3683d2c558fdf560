//! What the background work fails at, by itself: the fault of one board holds up nothing else.
//!
//! A fault is in the log when it is met, in a metric, and in `GET /readyz` for as long as it lasts. What has failed is
//! tried again after a pause that doubles.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metrics::gauge;
use parking_lot::Mutex;

use super::Error;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;

/// The pause after the first failure, and the longest one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// When a fault is forgotten that nobody has met again: what it was about is gone.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(3);
/// The most faults that are kept.
const FAULTS_MAX: usize = 10_000;

/// What is done in the background for boards, one by one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Job {
    /// Holding its definition in memory.
    Definition,
    /// Completing its derived standings ahead of time.
    Rollover,
    /// Moving its data to other shards.
    Reshard,
    /// Unlinking data that is not needed any more.
    Purge,
    /// Settling reservations that are left behind.
    Reservations,
    /// Announcing a change whose maker is gone.
    Announcement,
}

impl Job {
    const ALL: [Self; 6] = [
        Self::Definition,
        Self::Rollover,
        Self::Reshard,
        Self::Purge,
        Self::Reservations,
        Self::Announcement,
    ];

    /// Its name, a label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::Rollover => "rollover",
            Self::Reshard => "reshard",
            Self::Purge => "purge",
            Self::Reservations => "reservations",
            Self::Announcement => "announcement",
        }
    }
}

/// What a job failed at.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The job.
    pub job: Job,
    /// The board.
    pub board: BoardId,
    /// Why.
    pub error: String,
    /// When it was first met.
    pub since: Timestamp,
    pause: Duration,
    retry_at: Instant,
}

/// One thing that a job is done for: which of its board's data.
type Item = (Job, BoardId, String);

/// The faults of this instance.
#[derive(Debug, Default)]
pub struct Faults {
    all: Mutex<BTreeMap<Item, Fault>>,
}

impl Faults {
    /// Does a job for one thing, unless it has failed a short time ago. Returns what came of it; `None` if there is a
    /// fault. Errors that are none are for the caller.
    pub(crate) async fn guard<T>(
        &self,
        job: Job,
        board: &BoardId,
        part: &str,
        now: Timestamp,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        if !self.is_due(job, board, part) {
            return Ok(None);
        }
        let done = work.await;
        self.record(job, board, part, now, done.as_ref().err());
        match done {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_fault() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether it is time to try, for the first time or again.
    pub(crate) fn is_due(&self, job: Job, board: &BoardId, part: &str) -> bool {
        let all = self.all.lock();
        let fault = all.get(&(job, board.clone(), part.to_owned()));
        fault.is_none_or(|fault| fault.retry_at <= Instant::now())
    }

    /// Takes note of how a job went.
    pub(crate) fn record(
        &self,
        job: Job,
        board: &BoardId,
        part: &str,
        now: Timestamp,
        error: Option<&Error>,
    ) {
        let mut all = self.all.lock();
        let item = (job, board.clone(), part.to_owned());
        match error {
            None => {
                if all.remove(&item).is_none() {
                    return;
                }
                tracing::info!(job = job.name(), %board, part, "a fault is over");
            }
            Some(error) if error.is_fault() => {
                let met = Instant::now();
                let known = all.get(&item);
                if known.is_some_and(|fault| fault.retry_at > met)
                    || (known.is_none() && all.len() >= FAULTS_MAX)
                {
                    return;
                }
                tracing::error!(job = job.name(), %board, part, %error, "a fault of one board; it will be tried again");
                let pause = known.map_or(PAUSE_MIN, |fault| (fault.pause * 2).min(PAUSE_MAX));
                let fault = Fault {
                    job,
                    board: board.clone(),
                    error: error.to_string(),
                    since: known.map_or(now, |fault| fault.since),
                    pause,
                    retry_at: met + pause,
                };
                all.insert(item, fault);
            }
            // Nothing is known of it.
            Some(_) => return,
        }
        report(&mut all);
    }

    /// The boards that a job has failed at.
    pub(crate) fn boards(&self, job: Job) -> Vec<BoardId> {
        let all = self.all.lock();
        let boards = all.keys().filter(|(other, ..)| *other == job);
        boards.map(|(_, board, _)| board.clone()).collect()
    }

    /// The first of the faults, and how many there are.
    pub fn list(&self, count: usize) -> (Vec<Fault>, usize) {
        let mut all = self.all.lock();
        report(&mut all);
        (all.values().take(count).cloned().collect(), all.len())
    }
}

/// Forgets what is over, and tells how many are left.
fn report(all: &mut BTreeMap<Item, Fault>) {
    all.retain(|_, fault| fault.retry_at.elapsed() < FORGOTTEN_AFTER);
    for job in Job::ALL {
        let count = all.keys().filter(|(other, ..)| *other == job).count();
        #[expect(clippy::cast_precision_loss, reason = "a count of faults")]
        gauge!("standings_board_faults", "job" => job.name()).set(count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms_clamped(ms)
    }

    async fn run(
        faults: &Faults,
        board: &str,
        result: Result<u8, StoreError>,
    ) -> Result<Option<u8>, Error> {
        let board = BoardId::parse(board).unwrap();
        let work = async { result.map_err(Error::from) };
        faults.guard(Job::Purge, &board, "x", at(7), work).await
    }

    #[tokio::test]
    async fn what_has_failed_is_tried_again_later_and_other_things_at_once() {
        let faults = Faults::default();
        let bad = || Err(StoreError::Unexpected("WRONGTYPE".into()));
        assert_eq!(run(&faults, "a", bad()).await.unwrap(), None);
        assert_eq!(run(&faults, "a", Ok(1)).await.unwrap(), None, "not tried");
        assert_eq!(run(&faults, "b", Ok(1)).await.unwrap(), Some(1));
        let (list, count) = faults.list(5);
        assert_eq!(
            (list[0].board.as_str(), list[0].since, count),
            ("a", at(7), 1)
        );
        assert!(list[0].error.contains("WRONGTYPE"));
        assert_eq!(faults.boards(Job::Purge).len(), 1);
        assert_eq!(faults.boards(Job::Rollover).len(), 0);
        // The pause is over.
        faults
            .all
            .lock()
            .values_mut()
            .for_each(|fault| fault.retry_at = Instant::now());
        assert_eq!(run(&faults, "a", bad()).await.unwrap(), None);
        let pauses: Vec<Duration> = faults
            .all
            .lock()
            .values()
            .map(|fault| fault.pause)
            .collect();
        assert_eq!(pauses, [2 * PAUSE_MIN]);
        faults
            .all
            .lock()
            .values_mut()
            .for_each(|fault| fault.retry_at = Instant::now());
        assert_eq!(run(&faults, "a", Ok(1)).await.unwrap(), Some(1));
        assert_eq!(faults.list(5).1, 0);
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_no_fault_of_a_board() {
        let faults = Faults::default();
        let away = Err(StoreError::Unavailable("away".into()));
        assert!(run(&faults, "a", away).await.is_err());
        assert_eq!(faults.list(5).1, 0);
    }
}
