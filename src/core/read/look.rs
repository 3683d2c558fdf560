//! Looks at a board: whether anything that its standings show has changed. All clients that watch share one look. Also
//! waits until the standings include an edition that a client has seen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::period::{Choice, Target, find_window};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::edition::{Changed, Edition, Reached};
use crate::domain::ids::BoardId;
use crate::domain::problems::Problem;
use crate::domain::series::Track;
use crate::domain::state::{PeriodState, Seen};
use crate::domain::time::Timestamp;
use crate::redis::Freshness;
use crate::runtime::join::try_join_all;

/// The longest wait for an edition.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The pause between two looks for it. All that wait share the calls of a shard.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A quick look at a board. It costs one small call per shard.
#[derive(Clone, Debug)]
pub struct Look {
    pub live: Arc<LiveBoard>,
    /// Everything that was acknowledged before this was seen.
    pub begun: Instant,
    /// The change counter of each shard.
    changes: Vec<Changed>,
    seen: Seen,
}

/// What a look shows of a running standing. While it stays equal, so do scores, ranks and the state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moment {
    generation: u64,
    amendment: u64,
    epoch: u32,
    changes: Vec<Changed>,
    key: String,
    state: Option<PeriodState>,
}

impl Look {
    /// What it shows of the standing of a window that runs at this time.
    ///
    /// # Errors
    ///
    /// [`UNKNOWN_WINDOW`](crate::domain::problems::UNKNOWN_WINDOW).
    pub fn of_running(&self, window: &str, track: Track, now: Timestamp) -> Result<Moment, Error> {
        let board = &self.live.board;
        let target = Target::find(&self.live, window, track, &Choice::Current, now)?;
        Ok(Moment {
            generation: board.generation,
            amendment: board.amendment,
            epoch: board.placement.current.epoch,
            changes: self.changes.clone(),
            state: board.state_of(&target.standing.period, self.seen, now),
            key: target.key,
        })
    }
}

/// Checks that a board has a window of this name.
///
/// # Errors
///
/// [`Error::BoardNotFound`], [`UNKNOWN_WINDOW`](crate::domain::problems::UNKNOWN_WINDOW).
pub async fn check_window(engine: &Engine, board: &BoardId, window: &str) -> Result<(), Error> {
    let live = engine.live_board(board).await?;
    find_window(&live.board, window).map(|_| ())
}

/// Looks at a board. Simultaneous looks share their calls.
///
/// # Errors
///
/// [`Error::BoardNotFound`]; an error if Redis does not answer.
pub async fn at(engine: &Engine, board: &BoardId) -> Result<Look, Error> {
    engine
        .with_board(board, async |live| {
            let begun = Instant::now();
            let seen = live
                .shards
                .iter()
                .map(|shard| shard.changed(Freshness::Current));
            let (changes, barriers): (Vec<_>, Vec<_>) =
                try_join_all(seen).await?.into_iter().unzip();
            let barrier = barriers.into_iter().min().flatten();
            Ok(Look {
                live,
                begun,
                changes,
                seen: Seen {
                    barrier,
                    is_current: true,
                },
            })
        })
        .await
}

/// Waits until the primaries have this edition. A later read from primaries then includes it.
///
/// # Errors
///
/// [`Problem::revision_unknown`]; [`Problem::revision_pending`] if that takes too long.
pub async fn await_edition(
    engine: &Engine,
    board: &BoardId,
    wanted: &Edition,
) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match look_for(engine, board, wanted).await? {
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
async fn look_for(engine: &Engine, board: &BoardId, wanted: &Edition) -> Result<Reached, Error> {
    engine
        .with_board(board, async |live| {
            if !wanted.is_of(&live.board) {
                // Another instance may know a later definition.
                engine.reload(board).await?;
                engine.require_current(&live)?;
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
