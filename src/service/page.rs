//! Reading a page of a standing.

use std::sync::Arc;

use super::ask::{Found, SharedPage};
use super::period::{Choice, Target};
use super::voters::Voters;
use super::{ATTEMPTS_MAX, Error, LiveBoard, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::Track;
use crate::store::standings::Query;

/// The most entries of a page.
pub const PAGE_SIZE_MAX: u64 = 1_000;
/// The entries of a page unless another size is asked for.
pub const PAGE_SIZE: u64 = 50;
/// The last page that can be asked for; with the largest size, more members than Redis can hold.
pub const PAGE_MAX: u64 = 1_000_000_000;

/// Which page.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Of which board.
    pub board: BoardId,
    /// Of which window.
    pub window: String,
    /// Of which period.
    pub choice: Choice,
    /// On which track.
    pub track: Track,
    /// From 1.
    pub page: u64,
    /// Entries per page.
    pub size: u64,
    /// Whose own entry comes along.
    pub member: Option<MemberId>,
}

/// A page, and what it was read from.
#[derive(Clone, Debug)]
pub struct FoundPage {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The standing.
    pub target: Target,
    /// What it says.
    pub shared: Arc<SharedPage>,
    /// The voters of its entries and of its `me`.
    pub voters: Voters,
}

impl Service {
    /// Reads a page.
    pub async fn page(&self, request: &PageRequest) -> Result<FoundPage, Error> {
        let PageRequest { page, size, .. } = *request;
        let offset = (page - 1) * size;
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(&request.board).await?;
            let now = self.clock.now();
            let target = Target::find(&live, &request.window, request.track, &request.choice, now)?;
            if target.is_expired {
                return Ok(FoundPage {
                    live,
                    target,
                    shared: Arc::default(),
                    voters: Voters::default(),
                });
            }
            let query = Query::Page {
                standing: target.standing,
                offset,
                count: size,
                member: request.member.clone(),
            };
            let page = |found| match found {
                Found::Page(page) => Some(page),
                _ => None,
            };
            let series = target.standing.series;
            if let Some(shared) = self.ask(&live, series, query, page).await? {
                let voters = self.voters_of_page(&live.board, &target, &shared).await?;
                return Ok(FoundPage {
                    live,
                    target,
                    shared,
                    voters,
                });
            }
        }
        Err(Error::busy())
    }
}
