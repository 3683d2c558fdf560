//! Makes a period final before its wait is over.

use super::period::{Choice, Target};
use super::{Error, Service};
use crate::domain::ids::BoardId;
use crate::domain::series::Track;
use crate::domain::window::Window;

impl Service {
    /// Makes a period final that has ended, and with it every period of the board that ends no later.
    pub async fn close_period(&self, id: &BoardId, window: &str, key: &str) -> Result<(), Error> {
        let now = self.engine.trusted_now().await?;
        let live = self.engine.live_board(id).await?;
        let choice = Choice::Key(key.to_owned());
        let target = Target::find(&live, window, Track::Shown, &choice, now)?;
        if matches!(target.window, Window::Rolling { .. }) {
            return Err(Error::InvalidParameter {
                name: "window",
                detail: "a rolling window has no result; close the period with which it ends"
                    .to_owned(),
            });
        }
        // What is in memory may be behind.
        let board = self.engine.board(id).await?;
        let end = board.end_of(&target.standing.period);
        let Some(end) = end.filter(|end| *end <= now) else {
            return Err(Error::PeriodRunning {
                board: id.clone(),
                window: target.window,
                key: target.key,
                end,
            });
        };
        let ended_after_since = board.finalize_since.is_some_and(|since| end > since);
        if board.closings.until < Some(end) && !ended_after_since {
            let detail = match board.finalize_since {
                None => format!("board {id} has no `finalize`"),
                Some(since) => format!("the period had ended when `finalize` was set, at {since}"),
            };
            return Err(Error::NotFinalized(detail));
        }
        self.engine.close_until(id, end).await
    }
}
