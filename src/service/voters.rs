//! The distinct voters of members, where a board counts them.
//!
//! They are estimates, and are read right after the entries that they belong to.

use std::sync::Arc;

use super::ask::SharedPage;
use super::period::Target;
use super::{Error, Service};
use crate::domain::board::{Board, Uniques};
use crate::store::standings::Entry;

/// The voters of some entries, in their order; of none where the board does not count them.
#[derive(Clone, Debug, Default)]
pub struct Voters(Option<Arc<[u64]>>);

impl Voters {
    /// Those of the entry at this place.
    pub fn of(&self, place: usize) -> Option<u64> {
        self.0.as_ref()?.get(place).copied()
    }
}

impl Service {
    /// Estimates the voters of a page's entries and of its `me`, once for all who share it.
    pub(super) async fn voters_of_page(
        &self,
        board: &Board,
        target: &Target,
        shared: &SharedPage,
    ) -> Result<Voters, Error> {
        if board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let entries = shared.page.entries.iter().chain(&shared.page.me);
        let voters = || Box::pin(self.voters(board, target, entries));
        shared.voters.get_or_try_init(voters).await.cloned()
    }

    /// Estimates the voters of entries of a standing.
    pub(super) async fn voters(
        &self,
        board: &Board,
        target: &Target,
        entries: impl Iterator<Item = &Entry>,
    ) -> Result<Voters, Error> {
        if board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let members = entries.map(|entry| &*entry.member);
        let periods = target.periods(board);
        let counts = self.store.member_voters(board, &periods, members).await?;
        Ok(Voters(Some(counts.into())))
    }
}
