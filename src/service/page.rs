//! Reading a page of a standing.

use std::sync::Arc;

use super::period::{Choice, Target};
use super::{ATTEMPTS_MAX, Error, LiveBoard, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::store::standings::Page;

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
    pub page: Page,
}

impl Service {
    /// Reads a page.
    pub async fn page(&self, request: &PageRequest) -> Result<FoundPage, Error> {
        let PageRequest { page, size, .. } = *request;
        let offset = (page - 1) * size;
        let member = request.member.as_ref();
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(&request.board).await?;
            let target = Target::find(&live, &request.window, &request.choice, self.clock.now())?;
            if target.is_expired {
                return Ok(FoundPage {
                    live,
                    target,
                    page: Page::default(),
                });
            }
            let read = self
                .store
                .page(&live.board, &target.standing, offset, size, member)
                .await?;
            if let Some(page) = self.settle(&live, target.window, read).await? {
                return Ok(FoundPage { live, target, page });
            }
        }
        Err(Error::busy())
    }
}
