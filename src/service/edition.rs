//! Waits until the standings of a board have what somebody has seen of them.

use std::time::{Duration, Instant};

use super::{Error, Service};
use crate::domain::edition::{Edition, Reached};
use crate::domain::ids::BoardId;
use crate::join::try_join_all;
use crate::problems::Problem;
use crate::store::Freshness;

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The pause between two looks. All who wait share the calls of a shard.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

impl Service {
    /// Waits until the primaries have this edition. A read that begins afterwards, and that asks primaries, has it.
    ///
    /// # Errors
    ///
    /// [`Problem::revision_unknown`]; [`Problem::revision_pending`] if that takes too long.
    pub async fn await_edition(&self, board: &BoardId, wanted: &Edition) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            match self.look_for(board, wanted).await? {
                Reached::Yes => return Ok(()),
                Reached::Unknown => return Err(Problem::revision_unknown(board).into()),
                Reached::NotYet if begun.elapsed() >= WAIT_MAX => {
                    return Err(Problem::revision_pending(board).into());
                }
                Reached::NotYet => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    }

    /// Whether a board has an edition now.
    async fn look_for(&self, board: &BoardId, wanted: &Edition) -> Result<Reached, Error> {
        self.engine
            .with_board(board, async |live| {
                if !wanted.is_of(&live.board) {
                    // Another instance may know a later definition.
                    self.engine.reload(board).await?;
                    self.engine.require_current(&live)?;
                    return Ok(Reached::Unknown);
                }
                let looks = wanted.shards().map(async |index| {
                    let (changed, _) = live.shards[index].changed(Freshness::Current).await?;
                    Ok::<_, Error>(wanted.reached(index, changed))
                });
                let looks = try_join_all(looks).await?;
                Ok(looks.into_iter().max().unwrap_or(Reached::Yes))
            })
            .await
    }
}
