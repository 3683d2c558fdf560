//! Reading a page of a standing.

use std::sync::Arc;
use std::time::Instant;

use super::period::{Choice, Target};
use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::{Standing, Track};
use crate::engine::merge::Merged;
use crate::engine::reader::{Found, Reader, SharedPage, Size};
use crate::engine::voters::Voters;
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::Freshness;
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
    /// How fresh the page has to be.
    pub freshness: Freshness,
    /// How much the request reads that it belongs to.
    pub size_in_all: Size,
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
    /// All that was acknowledged by then is in it; `None`: all that was before the request.
    pub as_of: Option<Instant>,
}

impl Service {
    /// Reads a page.
    pub async fn page(&self, request: &PageRequest) -> Result<FoundPage, Error> {
        let PageRequest { page, size, .. } = *request;
        let offset = (page - 1) * size;
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(&request.board).await?;
            let now = self.engine.clock.now();
            let target = Target::find(&live, &request.window, request.track, &request.choice, now)?;
            if target.is_expired {
                return Ok(FoundPage {
                    live,
                    target,
                    shared: Arc::default(),
                    voters: Voters::default(),
                    as_of: None,
                });
            }
            let member = request.member.as_ref();
            let reader =
                Reader::new(&self.engine, &live, request.freshness).of_size(request.size_in_all);
            if let Some(shared) = reader.page(target.standing, offset, size, member).await? {
                let voters = self
                    .engine
                    .voters_of_page(&live, &target.periods(&live.board), &shared)
                    .await?;
                let as_of = reader.as_of();
                return Ok(FoundPage {
                    live,
                    target,
                    shared,
                    voters,
                    as_of,
                });
            }
        }
        Err(Error::busy())
    }
}

impl Reader<'_> {
    /// Reads `count` entries of a standing behind the first `offset`, and the entry of `member`; `None` if it has to
    /// begin anew.
    pub(super) async fn page(
        &self,
        standing: Standing,
        offset: u64,
        count: u64,
        member: Option<&MemberId>,
    ) -> Result<Option<Arc<SharedPage>>, Error> {
        let [shard] = &self.live.shards[..] else {
            let merged = Merged::new(self, standing);
            let page = Box::pin(merged.page(offset, count, member)).await?;
            return Ok(page.map(SharedPage::new).map(Arc::new));
        };
        let query = Query::Page {
            standing,
            offset,
            count,
            member: member.cloned(),
        };
        let page = |found| match found {
            Found::Page(page) => Some(page),
            _ => None,
        };
        self.ask(shard, standing.series, query, page).await
    }
}
