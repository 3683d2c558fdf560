//! Reads the entry at a percentile of a standing.

use std::sync::Arc;

use super::page::FoundPage;
use super::standing::{Attempt, View};
use super::{Error, Service};
use crate::store::profiles::Profiles;
use crate::store::standings::Selection;

/// The last entry with at least this percentile, which is the share of the others that do not have a better rank. Where equal
/// entries share a rank, it is the last of them that is listed.
#[derive(Clone, Copy, Debug)]
pub struct PercentileView {
    /// The least percentile, in thousandths of a percent: 0 to 100,000.
    pub thousandths: u64,
}

impl View for PercentileView {
    /// A page with this entry alone; without one where nobody is listed there.
    type Found = FoundPage;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<FoundPage, Error> {
        if attempt.target.is_empty {
            return Ok(FoundPage::default());
        }
        let selection = Selection::Percentile(self.thousandths);
        let (reader, standing) = (&attempt.reader, attempt.target.standing);
        let page = reader.page(standing, selection, 1, None).await?;
        if page.total == 0 {
            attempt.require_cohort().await?;
        }
        let voters = attempt.voters_of_page(&page).await?;
        Ok(FoundPage { page, voters })
    }

    fn members(found: &FoundPage) -> Vec<Arc<str>> {
        found.members()
    }

    async fn profiles(found: &FoundPage, service: &Service) -> Result<Profiles, Error> {
        found.profiles(service).await
    }
}
