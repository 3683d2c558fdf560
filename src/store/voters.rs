//! Counting distinct voters.

use super::args::pack;
use super::connection::Store;
use super::reply::Reply;
use super::{StoreError, keys, script};
use crate::domain::board::Board;
use crate::domain::period::Period;

/// How many periods' voters one call may merge: about a millisecond of Redis, where there are many voters.
const CALL_PERIODS_MAX: usize = 100;

impl Store {
    /// Estimates how many distinct voters there were in these periods together.
    pub async fn voters(&self, board: &Board, periods: &[Period]) -> Result<u64, StoreError> {
        let keys = periods.iter().map(|period| keys::voters(board, period));
        let counts = self.count_voters(board, &[keys.collect()]).await?;
        counts.first().copied().ok_or_else(missing)
    }

    /// The same for each of some members.
    pub async fn member_voters(
        &self,
        board: &Board,
        periods: &[Period],
        members: impl Iterator<Item = &str>,
    ) -> Result<Vec<u64>, StoreError> {
        let of_periods: Vec<String> = periods
            .iter()
            .map(|period| keys::voters(board, period))
            .collect();
        let of_member = |member| {
            let keys = of_periods.iter();
            keys.map(|voters| keys::member_voters(voters, member))
                .collect()
        };
        let groups: Vec<Vec<String>> = members.map(of_member).collect();
        let together = (CALL_PERIODS_MAX / periods.len().max(1)).max(1);
        let mut counts = Vec::with_capacity(groups.len());
        for groups in groups.chunks(together) {
            counts.extend(self.count_voters(board, groups).await?);
        }
        Ok(counts)
    }

    async fn count_voters(
        &self,
        board: &Board,
        groups: &[Vec<String>],
    ) -> Result<Vec<u64>, StoreError> {
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        let voters = groups.iter().flatten().cloned();
        let keys = std::iter::once(keys::head(&board.tag())).chain(voters);
        let reply = self
            .read(&script::VOTERS, keys.collect(), vec![pack(&sizes)?])
            .await?;
        let mut reply = Reply::new(reply)?;
        groups.iter().map(|_| reply.count()).collect()
    }
}

fn missing() -> StoreError {
    StoreError::Unexpected("no count of voters".into())
}
