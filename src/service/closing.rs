//! Makes a period final before its wait is over.

use super::period::{Choice, Target};
use super::results::{FoundResult, unit_of};
use super::{Error, Service};
use crate::domain::ids::BoardId;
use crate::domain::series::Track;
use crate::problems::{NOT_FINALIZED, PERIOD_NOT_FOUND, Problem};

impl Service {
    /// Makes a period final that has ended, and with it every period of the board that ends no later. Returns its result;
    /// `None` if it has no data.
    pub async fn close_period(
        &self,
        id: &BoardId,
        window: &str,
        choice: &Choice,
    ) -> Result<Option<FoundResult>, Error> {
        let now = self.engine.trusted_now().await?;
        let live = self.engine.live_board(id).await?;
        unit_of(&live, window)?;
        let target = Target::find(&live, window, Track::Shown, choice, now)?;
        // What is in memory may be behind.
        let board = self.engine.board(id).await?;
        let end = board.end_of(&target.standing.period);
        let Some(end) = end.filter(|end| *end <= now) else {
            return Err(Problem::period_running(id, &target.name(), end).into());
        };
        if !board.closes(end) {
            let detail = match board.finalize_since {
                None => format!("board {id} has no `finalize`"),
                Some(since) => format!("the period had ended when `finalize` was set, at {since}"),
            };
            return Err(Problem::new(NOT_FINALIZED, detail).into());
        }
        self.engine.close_until(id, end).await?;
        let closed = Choice::Key(target.key);
        match self.period_result(id, window, &closed, None).await {
            Err(error) if error.is(PERIOD_NOT_FOUND) => Ok(None),
            found => found.map(Some),
        }
    }
}
