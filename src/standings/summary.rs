//! Reads what a frontend needs to know about a board: its title, and the running standing of each window.

use std::sync::Arc;
use std::time::Instant;

use super::page::{Entries, PageView};
use super::standing::{self, Attempt, FoundIn, StandingRequest, View};
use super::tiers::TiersView;
use crate::core::read::period::{Choice, CohortChoice};
use crate::core::read::reader::ReadSize;
use crate::core::read::store::standings::Visibility;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::ids::BoardId;
use crate::domain::include::Includes;
use crate::domain::problems::UNKNOWN_WINDOW;
use crate::domain::series::Track;
use crate::redis::Freshness;
use crate::runtime::join::try_join_all;

/// A board and its running standings.
#[derive(Clone, Debug)]
pub struct BoardSummary {
    pub live: Arc<LiveBoard>,
    /// The running standing of each of its windows, and how many members it has.
    pub windows: Vec<FoundIn<u64>>,
    /// The response includes everything acknowledged by then; `None`: everything before the request.
    pub as_of: Option<Instant>,
}

/// How many members a standing has; in a league, how many have a seat in the period.
#[derive(Clone, Copy, Debug)]
struct SummaryView;

impl View for SummaryView {
    type Found = u64;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<u64, Error> {
        if attempt.live.board.is_league() {
            let tiers = TiersView.read(attempt).await?;
            return Ok(tiers.iter().map(|tier| tier.members).sum());
        }
        let view = PageView::of_first(Entries::All, 1);
        Ok(view.read(attempt).await?.page.total)
    }
}

/// Sums up a board. Each window is read separately, so this is not a snapshot.
pub async fn summarize(
    engine: &Engine,
    id: &BoardId,
    freshness: Freshness,
) -> Result<BoardSummary, Error> {
    engine
        .with_board(id, async |live| {
            let windows = live.board.definition.windows.iter();
            let is_league = live.board.is_league();
            let requests: Vec<StandingRequest> = windows
                .map(|window| StandingRequest {
                    board: id.clone(),
                    window: window.to_string(),
                    choice: Choice::Current,
                    cohort: if is_league {
                        CohortChoice::All
                    } else {
                        CohortChoice::Unnamed
                    },
                    track: Track::default(),
                    includes: Includes::default(),
                    freshness,
                    size: ReadSize::Small,
                    visibility: Visibility::Visible,
                    taker: None,
                })
                .collect();
            let read = requests
                .iter()
                .map(|request| standing::read(engine, request, &SummaryView));
            let found = try_join_all(read).await.map_err(|error| match error {
                // The definition has changed meanwhile.
                error if error.is(UNKNOWN_WINDOW) => Error::Again(Outdated::Board),
                error => error,
            })?;
            let live = found
                .last()
                .map(|last| Arc::clone(&last.live))
                .ok_or(Error::Again(Outdated::Board))?;
            if found.iter().any(|one| one.live.board != live.board) {
                return Err(Error::Again(Outdated::Board));
            }
            Ok(BoardSummary {
                live,
                as_of: found.iter().filter_map(|one| one.as_of).min(),
                windows: found,
            })
        })
        .await
}
