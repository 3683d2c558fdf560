//! Reads a page of a standing.

use std::sync::Arc;

use futures::FutureExt;

use super::standing::{Attempt, View, members};
use crate::core::read::merge::Merged;
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Entry, Page, Question, Selection, ShardQuery};
use crate::core::read::voters::Voters;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::ids::MemberId;
use crate::domain::problems::Problem;
use crate::domain::profile::Profiles;
use crate::domain::score::Score;
use crate::domain::series::Standing;
use crate::profiles;

/// The maximum size of a page.
pub const PAGE_SIZE_MAX: u64 = 1_000;
/// The default size of a page.
pub const PAGE_SIZE: u64 = 50;
/// The last page number; with the largest size, more members than Redis can hold.
pub const PAGE_MAX: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub struct PageView {
    /// The entries that pages consist of.
    pub entries: Entries,
    /// The page's number, from 1.
    pub page: u64,
    /// Entries per page.
    pub size: u64,
    /// A member whose own entry is returned, too.
    pub member: Option<MemberId>,
}

/// Which entries pages consist of. Scores are JSON numbers as text, since only the board knows its decimals.
#[derive(Clone, Debug, Default)]
pub enum Entries {
    #[default]
    All,
    /// Those between two scores, both included; see [`Self::between`].
    Between([Option<String>; 2]),
    /// Half of them better than a score, the others equal or worse; a single page.
    Around(String),
    /// The last entry with at least this percentile, in thousandths of a percent (0 to 100,000): the share of the other
    /// members whose rank is not better. Where equal scores share a rank, the last listed of them. A single page with one
    /// entry, or none if no member is listed.
    Percentile(u64),
}

#[derive(Clone, Debug, Default)]
pub struct FoundPage {
    /// The page, shared by identical requests.
    pub page: Arc<Page>,
    /// The voters of its entries and of its `me`.
    pub voters: Voters,
}

impl View for PageView {
    type Found = FoundPage;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<FoundPage, Error> {
        if attempt.target.is_empty {
            return Ok(FoundPage::default());
        }
        let selection = self.selection(&attempt.live.board)?;
        let member = self.member.as_ref();
        let (reader, standing) = (&attempt.reader, attempt.target.standing);
        let page = reader.page(standing, selection, self.size, member).await?;
        if page.total == 0 {
            attempt.require_cohort().boxed().await?;
        }
        let voters = attempt.voters_of_page(&page).await?;
        Ok(FoundPage { page, voters })
    }

    fn entries(found: &FoundPage) -> Vec<&Entry> {
        found.page.entries.iter().chain(&found.page.me).collect()
    }

    async fn profiles(found: &FoundPage, engine: &Engine) -> Result<Profiles, Error> {
        let profiles = || profiles::work::read(engine, members(Self::entries(found)));
        found.page.profiles.get_or_try_init(profiles).await.cloned()
    }
}

impl Entries {
    /// Those between two scores, each of which may be missing.
    pub fn between(scores: [Option<String>; 2]) -> Self {
        match scores {
            [None, None] => Self::All,
            scores => Self::Between(scores),
        }
    }
}

impl PageView {
    /// The first page of such entries.
    pub fn of_first(entries: Entries, size: u64) -> Self {
        Self {
            entries,
            page: 1,
            size,
            member: None,
        }
    }

    /// Its page number, if there can be several pages.
    pub fn number(&self) -> Option<u64> {
        match self.entries {
            Entries::All | Entries::Between(_) => Some(self.page),
            Entries::Around(_) | Entries::Percentile(_) => None,
        }
    }

    fn selection(&self, board: &Board) -> Result<Selection, Error> {
        let offset = (self.page - 1) * self.size;
        match &self.entries {
            Entries::All => Ok(Selection::Behind(offset)),
            Entries::Percentile(thousandths) => Ok(Selection::Percentile(*thousandths)),
            Entries::Around(score) => {
                let score = score_of(board, "around_score", score)?;
                Ok(Selection::around(board, score, self.size / 2))
            }
            Entries::Between([from, to]) => {
                let score = |name, text: &Option<String>| {
                    let text = text.as_deref();
                    text.map(|text| score_of(board, name, text)).transpose()
                };
                let (from, to) = (score("from_score", from)?, score("to_score", to)?);
                if from.zip(to).is_some_and(|(from, to)| from > to) {
                    let detail = "must not be less than `from_score`";
                    return Err(Problem::invalid_parameter("to_score", detail).into());
                }
                Ok(Selection::between(board, [from, to], offset))
            }
        }
    }
}

/// The score that a parameter has.
fn score_of(board: &Board, name: &str, text: &str) -> Result<Score, Error> {
    let score = Score::parse(text, board.definition.decimals);
    score.map_err(|error| Problem::invalid_parameter(name, error).into())
}

impl Reader<'_> {
    /// Reads `count` entries of a standing, and the entry of `member`.
    pub(crate) async fn page(
        &self,
        standing: Standing,
        selection: Selection,
        count: u64,
        member: Option<&MemberId>,
    ) -> Result<Arc<Page>, Error> {
        let [shard] = self.live.shards_of(standing.section()) else {
            let merged = Merged::new(self, standing);
            let page = merged.page(selection, count, member).boxed().await?;
            return Ok(Arc::new(page));
        };
        let page = Question::Page {
            selection,
            count,
            member: member.cloned(),
        };
        self.ask(shard, ShardQuery::new(standing, page)).await
    }
}
