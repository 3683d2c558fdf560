//! Reads a member of a standing, its neighbours, and its place in the previous period.

use std::sync::Arc;

use futures::FutureExt;

use super::league_member::InLeague;
use super::standing::{Attempt, View};
use crate::core::Error;
use crate::core::read::merge::Merged;
use crate::core::read::period::Target;
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Entry, Neighbourhood, Question, ShardQuery};
use crate::core::read::voters::Voters;
use crate::domain::ids::MemberId;
use crate::domain::problems::Problem;
use crate::domain::series::Standing;

/// The maximum number of neighbours on each side.
pub const AROUND_MAX: u64 = 100;

/// A member to read. A response that it is not listed is always current, whatever freshness is required.
#[derive(Clone, Debug)]
pub struct MemberView {
    pub member: MemberId,
    /// How many neighbours on each side, if any.
    pub around: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct FoundMember {
    /// The previous standing, if there is one.
    pub previous: Option<Target>,
    /// Its entry, with at least one neighbour on each side where there is one.
    pub neighbourhood: Arc<Neighbourhood>,
    pub voters: Voters,
    /// On a league, its league data.
    pub league: Option<Box<InLeague>>,
}

impl View for MemberView {
    type Found = FoundMember;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<FoundMember, Error> {
        if attempt.live.board.is_league() {
            let (neighbourhood, league) = self.read_in_league(attempt).boxed().await?;
            return Ok(FoundMember {
                previous: None,
                neighbourhood: Arc::new(neighbourhood),
                voters: Voters::default(),
                league: Some(Box::new(league)),
            });
        }
        let (reader, target) = (&attempt.reader, attempt.target);
        if target.is_empty {
            return Err(self.not_found(attempt));
        }
        let previous = target.previous(&attempt.live.board, attempt.now);
        let before = previous.as_ref().map(|previous| previous.standing);
        let standings = (target.standing, before);
        let around = self.around.unwrap_or(0).max(1);
        let mut found = reader.member(standings, &self.member, around).await?;
        if found.is_none() && reader.as_of().is_some() {
            // Its first event may just have been applied.
            reader.insist();
            found = reader.member(standings, &self.member, around).await?;
        }
        let neighbourhood = found.ok_or_else(|| self.not_found(attempt))?;
        let voters = attempt.voters(neighbourhood.entries.iter()).await?;
        Ok(FoundMember {
            previous,
            neighbourhood,
            voters,
            league: None,
        })
    }

    fn before(&self, attempt: &Attempt<'_>) -> Option<Standing> {
        let previous = attempt.target.previous(&attempt.live.board, attempt.now);
        previous.map(|target| target.standing)
    }

    fn entries(found: &FoundMember) -> Vec<&Entry> {
        found.neighbourhood.entries.iter().collect()
    }
}

impl MemberView {
    /// The error that the member is not listed.
    pub(crate) fn not_found(&self, Attempt { live, target, .. }: &Attempt<'_>) -> Error {
        let (board, standing) = (&live.board.id, target.name());
        let cohort = target.cohort.as_deref();
        Problem::member_not_found(board, &standing, cohort, self.member.as_str()).into()
    }
}

impl Reader<'_> {
    /// A member's place in the standing and in the previous one; `None` where it is not listed.
    async fn member(
        &self,
        (standing, before): (Standing, Option<Standing>),
        member: &MemberId,
        around: u64,
    ) -> Result<Option<Arc<Neighbourhood>>, Error> {
        let [shard] = self.live.shards_of(standing.section()) else {
            let before = before.map(|before| Merged::new(self, before));
            let merged = Merged::new(self, standing);
            return merged.member(member, around, before.as_ref()).boxed().await;
        };
        let query = ShardQuery {
            standings: [Some(standing), before],
            question: Question::Member {
                member: member.clone(),
                around,
            },
            with_data: false,
        };
        self.ask(shard, query).await
    }
}
