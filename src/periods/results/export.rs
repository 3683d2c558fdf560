//! Reads the whole standing of a final period, one part in memory at a time. Each read continues after the last entry, and
//! ranks are counted here.

use super::recording::{self, standing_of};
use super::store::PeriodResult;
use super::work::FoundResult;
use crate::core::read::scroll::{Scroll, ScrollPlace};
use crate::core::read::store::standings::Entry;
use crate::core::{Engine, Error};
use crate::domain::problems::Problem;

/// How many entries one read returns.
pub const PART_ENTRIES: usize = 1_000;

#[derive(Debug)]
pub struct Export {
    scroll: Scroll,
    pub found: FoundResult,
    /// The result at its start.
    pub result: PeriodResult,
}

/// Begins the export of a final period.
///
/// # Errors
///
/// [`Problem::period_not_found`] if it has no result; [`Problem::period_expired`] if its entries have expired.
pub async fn begin(engine: &Engine, found: FoundResult) -> Result<Export, Error> {
    let (board, target) = (&found.live.board, &found.period.target);
    let Some(result) = found.period.result.clone() else {
        return Err(target.without_result(board, true));
    };
    let standing = standing_of(board, &target.standing.section());
    let mut first = Scroll::new(board, standing, ScrollPlace::default());
    let is_expected = result.total > 0 && !found.is_revising;
    if is_expected && first.next(engine, 1).await?.is_empty() {
        return Err(Problem::period_expired(&board.id, &target.name()).into());
    }
    Ok(Export {
        scroll: Scroll::new(board, standing, ScrollPlace::default()),
        result,
        found,
    })
}

/// The next entries of an export; fewer than [`PART_ENTRIES`] at its end.
pub async fn next_entries(engine: &Engine, export: &mut Export) -> Result<Vec<Entry>, Error> {
    export.scroll.next(engine, PART_ENTRIES as u64).await
}

/// Whether the standing may have changed during the export. If not, all entries were read.
pub async fn has_changed(engine: &Engine, export: &Export) -> Result<bool, Error> {
    let (found, id) = (&export.found, &export.found.live.board.id);
    let live = engine.live_board(id).await?;
    let section = found.period.target.standing.section();
    if found.is_revising
        || recording::change_counters(engine, &live, &section).await? != found.basis
    {
        return Ok(true);
    }
    let listed = found.live.board.listed(export.result.total);
    if export.scroll.place.entries == listed {
        Ok(false)
    } else {
        Err(Error::try_again(Problem::board_changes(id)))
    }
}
