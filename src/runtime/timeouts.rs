//! Time limits, and the factor that multiplies those of the service.

use std::pin::pin;
use std::str::FromStr;
use std::task::Poll;
use std::time::Duration;

use thiserror::Error;

const FACTOR_MAX: u32 = 100;

/// The factor by which the service multiplies each time limit that ends in an error: how long it waits for Redis, and how
/// long a request may take. The limits themselves are constants of the modules that apply them.
///
/// With the factor 1, the default, a caller gets an answer or a 503 within 20 s, and a Redis server that does not answer is
/// given up after 2.4 s. A slow machine, or a distant Redis, needs more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeoutFactor(u32);

/// The text is not a valid factor.
#[derive(Debug, Error, PartialEq)]
#[error("must be a whole number from 1 to {FACTOR_MAX}")]
pub struct TimeoutFactorError;

/// The result of a future, or `None` after `limit`. A future that is ready at once needs no timer.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    match futures::poll!(future.as_mut()) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => Box::pin(tokio::time::timeout(limit, future)).await.ok(),
    }
}

impl TimeoutFactor {
    /// How long to wait instead of `limit`.
    pub fn times(self, limit: Duration) -> Duration {
        limit * self.0
    }
}

impl Default for TimeoutFactor {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<u32> for TimeoutFactor {
    type Error = TimeoutFactorError;

    fn try_from(factor: u32) -> Result<Self, TimeoutFactorError> {
        if (1..=FACTOR_MAX).contains(&factor) {
            Ok(Self(factor))
        } else {
            Err(TimeoutFactorError)
        }
    }
}

impl FromStr for TimeoutFactor {
    type Err = TimeoutFactorError;

    fn from_str(text: &str) -> Result<Self, TimeoutFactorError> {
        let factor: u32 = text.parse().map_err(|_| TimeoutFactorError)?;
        factor.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_multiplied_by_a_bounded_factor() {
        let limit = Duration::from_secs(4);
        assert_eq!(TimeoutFactor::default().times(limit), limit);
        let factor: TimeoutFactor = "15".parse().unwrap();
        assert_eq!(factor.times(limit), Duration::from_mins(1));
        for text in ["0", "101", "-1", "1.5", "", "4294967296"] {
            assert_eq!(text.parse::<TimeoutFactor>(), Err(TimeoutFactorError));
        }
    }
}
