//! Reads the totals of a standing: members, voters, events and points.

use super::standing::{Attempt, View};
use crate::core::Error;
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Amounts, Question, ShardQuery};
use crate::domain::board::Board;
use crate::domain::period::Period;
use crate::domain::series::Standing;
use crate::runtime::join::try_join_all;

/// A read of the totals of a standing.
#[derive(Clone, Copy, Debug)]
pub struct StatsView;

/// The totals of a standing.
#[derive(Clone, Debug)]
pub struct FoundStats {
    /// Members, events and points; only members where the board counts no voters.
    pub amounts: Amounts,
    /// An estimate of the distinct voters; `None` if the board does not count them.
    pub voters: Option<u64>,
}

impl View for StatsView {
    type Found = FoundStats;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<FoundStats, Error> {
        let (reader, target) = (&attempt.reader, attempt.target);
        let counts_voters = attempt.live.board.definition.uniques.is_some();
        let (amounts, voters) = if target.is_empty {
            (Amounts::default(), counts_voters.then_some(0))
        } else if counts_voters {
            let periods = target.periods(&attempt.live.board);
            let amounts = reader.amounts(target.standing, &periods).await?;
            let voters = reader.engine.voters_of_standing(attempt.live, &periods);
            (amounts, Some(voters.await?))
        } else {
            let amounts = reader.amounts(target.standing, &[]).await?;
            if amounts.members == 0 {
                attempt.require_cohort().await?;
            }
            (amounts, None)
        };
        Ok(FoundStats { amounts, voters })
    }

    fn follows_edition(&self, board: &Board) -> bool {
        board.definition.uniques.is_none()
    }
}

impl Reader<'_> {
    /// The totals of a standing over all of its shards.
    pub(crate) async fn amounts(
        &self,
        standing: Standing,
        periods: &[Period],
    ) -> Result<Amounts, Error> {
        let shards = self.live.shards_of(standing.section());
        let query = ShardQuery::new(standing, Question::Amounts(periods.to_vec()));
        let asked = shards
            .iter()
            .map(|shard| self.ask::<Amounts>(shard, query.clone()));
        let of_shards = try_join_all(asked).await?;
        Ok(of_shards.into_iter().sum())
    }
}
