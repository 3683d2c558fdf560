//! Work that is done in bounded steps, and that a request waits for.

use std::time::{Duration, Instant};

use super::jobs::Progress;
use super::{Engine, Error};

/// How long a request waits for such work.
const WAIT_MAX: Duration = Duration::from_secs(8);

impl Engine {
    /// Takes one step after the other until one of them is the last. What the steps have done stays, also if one of them fails.
    ///
    /// # Errors
    ///
    /// That of a step, or [`Error::Busy`] if it takes too long: `left` says what is still being done.
    pub(super) async fn take_steps<S>(
        &self,
        mut step: impl FnMut() -> S,
        left: impl FnOnce() -> String,
    ) -> Result<(), Error>
    where
        S: Future<Output = Result<Progress, Error>>,
    {
        let (begun, wait_max) = (Instant::now(), self.store.timeouts.times(WAIT_MAX));
        while begun.elapsed() < wait_max {
            match step().await? {
                Progress::More => {}
                Progress::Done => return Ok(()),
            }
        }
        Err(Error::Busy(left()))
    }
}
