//! Work in bounded steps that a request waits for.

use std::time::{Duration, Instant};

use super::Progress;
use crate::core::{Engine, Error};

/// How long a request waits for such work.
const WAIT_MAX: Duration = Duration::from_secs(8);

impl Engine {
    /// [`WAIT_MAX`], times the factor for time limits.
    pub(crate) fn steps_wait_max(&self) -> Duration {
        self.store.timeouts.times(WAIT_MAX)
    }

    /// Takes steps until one of them is the last, for a caller that waits up to a limit. What the steps have done stays
    /// done, even if one of them fails.
    ///
    /// # Errors
    ///
    /// That of a step, or [`Error::Busy`] if it takes too long: `left` says what remains to be done.
    pub(crate) async fn take_steps<S>(
        &self,
        wait_max: Duration,
        mut step: impl FnMut() -> S,
        left: impl FnOnce() -> String,
    ) -> Result<(), Error>
    where
        S: Future<Output = Result<Progress, Error>>,
    {
        let until = Instant::now() + wait_max;
        while Instant::now() < until {
            match step().await? {
                Progress::More => {}
                Progress::Done => return Ok(()),
            }
        }
        Err(Error::pending(left()))
    }
}
