//! Reads a page of a standing.

use std::sync::Arc;

use super::standing::{Attempt, View};
use crate::domain::ids::MemberId;
use crate::domain::series::Standing;
use crate::engine::merge::Merged;
use crate::engine::reader::{ReadError, Reader};
use crate::store::standings::{Page, Query};
use crate::store::voters::Voters;

/// The most entries of a page.
pub const PAGE_SIZE_MAX: u64 = 1_000;
/// The entries of a page unless another size is asked for.
pub const PAGE_SIZE: u64 = 50;
/// The last page that can be asked for; with the largest size, more members than Redis can hold.
pub const PAGE_MAX: u64 = 1_000_000_000;

/// Which page.
#[derive(Clone, Debug)]
pub struct PageView {
    /// From 1.
    pub page: u64,
    /// Entries per page.
    pub size: u64,
    /// Whose own entry comes along.
    pub member: Option<MemberId>,
}

/// A page.
#[derive(Clone, Debug, Default)]
pub struct FoundPage {
    /// What it says, shared by all who asked for the same.
    pub page: Arc<Page>,
    /// The voters of its entries and of its `me`.
    pub voters: Voters,
}

impl View for PageView {
    type Found = FoundPage;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<FoundPage, ReadError> {
        if attempt.target.is_expired {
            return Ok(FoundPage::default());
        }
        let offset = (self.page - 1) * self.size;
        let member = self.member.as_ref();
        let (reader, standing) = (&attempt.reader, attempt.target.standing);
        let page = reader.page(standing, offset, self.size, member).await?;
        let voters = attempt.voters_of_page(&page).await?;
        Ok(FoundPage { page, voters })
    }
}

impl Reader<'_> {
    /// Reads `count` entries of a standing behind the first `offset`, and the entry of `member`.
    pub(super) async fn page(
        &self,
        standing: Standing,
        offset: u64,
        count: u64,
        member: Option<&MemberId>,
    ) -> Result<Arc<Page>, ReadError> {
        let [shard] = &self.live.shards[..] else {
            let merged = Merged::new(self, standing);
            let page = Box::pin(merged.page(offset, count, member)).await?;
            return Ok(Arc::new(page));
        };
        let query = Query::Page {
            standing,
            offset,
            count,
            member: member.cloned(),
        };
        self.ask(shard, standing.series, query).await
    }
}
