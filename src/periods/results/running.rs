//! Exports of standings that are not final: from a snapshot, so that a file shows one instant in each shard.

use std::sync::Arc;
use std::time::Duration;

use super::periods::PeriodName;
use crate::core::read::period::{Target, find_window};
use crate::core::read::snapshot::{self, Snapshot};
use crate::core::read::store::standings::{Entry, Visibility};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::problems::{ANSWER_TIMEOUT, PERIOD_NOT_FINAL, Problem};
use crate::domain::series::Track;
use crate::domain::time::Timestamp;
use crate::runtime::expiring::Expiring;

/// How long the entries of a snapshot can be taken: a slow client must not keep its memory.
const TAKING_TIME_MAX: Duration = Duration::from_mins(30);

#[derive(Debug)]
pub struct RunningExport {
    pub(crate) board: Arc<Board>,
    pub(crate) target: Target,
    /// See [`Snapshot::as_of`].
    pub(crate) as_of: Timestamp,
    /// Its memory is not that of a client that does not read.
    snapshot: Expiring<Snapshot>,
}

/// Whether a window is rolling: then no standing of it ever becomes final.
pub(crate) fn is_rolling(live: &LiveBoard, at: &PeriodName) -> Result<bool, Error> {
    Ok(find_window(&live.board, &at.window)?.is_rolling())
}

/// Begins the export of a standing as it is now.
///
/// # Errors
///
/// [`PERIOD_NOT_FINAL`] on a board with `keep_top`; those of [`snapshot::take`].
pub(crate) async fn begin(
    engine: &Engine,
    at: &PeriodName,
    cohort: Option<&str>,
    visibility: Visibility,
) -> Result<RunningExport, Error> {
    let find = |live: &LiveBoard| {
        let now = engine.clock.now();
        let target = Target::find(live, &at.window, Track::Shown, &at.choice, now)?;
        if live.board.definition.keep_top.is_some() {
            return Err(of_short_list(&target, live));
        }
        target.in_cohort(&live.board, cohort)
    };
    let snapshot = snapshot::take(engine, &at.board, visibility, find).await?;
    Ok(RunningExport {
        board: Arc::clone(&snapshot.board),
        target: snapshot.target.clone(),
        as_of: snapshot.as_of,
        snapshot: Expiring::new(snapshot, TAKING_TIME_MAX),
    })
}

/// The next `count` entries, or fewer at the end, as [`Snapshot::next`] returns them.
///
/// # Errors
///
/// [`ANSWER_TIMEOUT`] after [`TAKING_TIME_MAX`].
pub(crate) fn next_entries(
    export: &RunningExport,
    count: usize,
) -> Result<Vec<(Entry, bool)>, Error> {
    let entries = export.snapshot.with(|snapshot| snapshot.next(count));
    entries.unwrap_or_else(|| {
        let detail = "the client did not read the export in 30 minutes";
        Err(Problem::new(ANSWER_TIMEOUT, detail).into())
    })
}

fn of_short_list(target: &Target, live: &LiveBoard) -> Error {
    let (name, id) = (target.name(), &live.board.id);
    let detail = format!(
        "the standing {name} of board {id} is not final, and a list with `keep_top` is exported only then; read its pages"
    );
    Problem::new(PERIOD_NOT_FINAL, detail).into()
}
