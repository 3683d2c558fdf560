//! Attempts at work that depends on something that may change meanwhile: the definition of a board, or other stored data.
//! Code that finds it changed returns [`Error::Again`], which `?` carries up to here. Then the work starts again.

use std::sync::Arc;

use super::jobs::Progress;
use super::{ATTEMPTS_MAX, Engine, Error, LiveBoard, Outdated};
use crate::domain::ids::BoardId;
use crate::domain::problems::Problem;

/// Repeats an attempt until nothing that it depends on changes meanwhile.
///
/// # Errors
///
/// [`Error::Busy`] after [`ATTEMPTS_MAX`] attempts.
pub(crate) async fn until_unchanged<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 0..ATTEMPTS_MAX {
        match attempt().await {
            Err(Error::Again(_)) => {}
            ended => return ended,
        }
    }
    Err(Error::busy())
}

impl Engine {
    /// Does something with the board in memory. Whenever the board has changed, it is read and the attempt repeated.
    ///
    /// # Errors
    ///
    /// [`Error::BoardNotFound`]; [`Error::Busy`] after [`ATTEMPTS_MAX`] attempts.
    pub(crate) async fn with_board<T, F>(
        &self,
        id: &BoardId,
        attempt: impl Fn(Arc<LiveBoard>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        for _ in 0..ATTEMPTS_MAX {
            let attempted = attempt(self.live_board(id).await?).await;
            if let Some(done) = self.unless_again(id, attempted).await? {
                return Ok(done);
            }
        }
        Err(Error::try_again(Problem::board_changes(id)))
    }

    /// Takes one step with the board in memory. If the board has changed, it is read, and the caller repeats the step.
    pub(crate) async fn step_with_board<F>(
        &self,
        id: &BoardId,
        step: impl FnOnce(Arc<LiveBoard>) -> F,
    ) -> Result<Progress, Error>
    where
        F: Future<Output = Result<Progress, Error>>,
    {
        let stepped = step(self.live_board(id).await?).await;
        let progress = self.unless_again(id, stepped).await?;
        Ok(progress.unwrap_or(Progress::More))
    }

    /// The result of an attempt with the board in memory; `None`: repeat it, and the board was read if it had changed.
    pub(crate) async fn unless_again<T>(
        &self,
        id: &BoardId,
        attempted: Result<T, impl Into<Error>>,
    ) -> Result<Option<T>, Error> {
        match attempted.map_err(Into::into) {
            Ok(done) => Ok(Some(done)),
            Err(Error::Again(Outdated::Board)) => self.reload(id).await.map(|()| None),
            Err(Error::Again(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the board in memory is still this one, so that no request is refused by an outdated definition.
    ///
    /// # Errors
    ///
    /// [`Error::Again`] if it has changed.
    pub(crate) fn require_current(&self, live: &LiveBoard) -> Result<(), Error> {
        let held = self.boards.get(&live.board.id);
        let is_current = held.is_some_and(|held| held.board.version() == live.board.version());
        is_current
            .then_some(())
            .ok_or(Error::Again(Outdated::Board))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::domain::problems::CONTENTION;
    use crate::redis::StoreError;

    #[tokio::test]
    async fn attempts_are_made_until_one_ends_or_the_limit_is_reached() {
        let count = Cell::new(0);
        let attempt = |needed| {
            let count = &count;
            move || async move {
                count.set(count.get() + 1);
                if count.get() < needed {
                    return Err(StoreError::Stale.into());
                }
                Ok(count.get())
            }
        };
        assert_eq!(until_unchanged(attempt(3)).await.unwrap(), 3);
        count.set(0);
        let ended = until_unchanged(attempt(ATTEMPTS_MAX + 1)).await;
        assert!(matches!(ended, Err(Error::Busy(_))), "{ended:?}");
        assert_eq!(Problem::from(ended.unwrap_err()).kind, CONTENTION);
        assert_eq!(count.get(), ATTEMPTS_MAX);
    }
}
