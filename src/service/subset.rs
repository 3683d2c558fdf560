//! Reading some members of a standing: a circle of friends.

use std::sync::Arc;
use std::time::Instant;

use super::period::{Choice, Target};
use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::{Standing, Track};
use crate::engine::merge::Merged;
use crate::engine::reader::{Found, Reader};
use crate::engine::voters::Voters;
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::Freshness;
use crate::store::standings::{Entry, Query, Subset};

/// The most members of a subset.
pub const SUBSET_MAX: usize = 500;

/// Which members.
#[derive(Clone, Debug)]
pub struct SubsetRequest {
    /// Of which board.
    pub board: BoardId,
    /// Of which window.
    pub window: String,
    /// Of which period.
    pub choice: Choice,
    /// On which track.
    pub track: Track,
    /// Who: each named once.
    pub members: Vec<MemberId>,
    /// How fresh the answer has to be.
    pub freshness: Freshness,
}

/// The members, and what they were read from.
#[derive(Clone, Debug)]
pub struct FoundSubset {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The standing.
    pub target: Target,
    /// How many members the standing has.
    pub total: u64,
    /// Those who are members, in the order of the standing.
    pub entries: Vec<Entry>,
    /// Their voters.
    pub voters: Voters,
    /// Those who are not, in the order in which they were named.
    pub not_found: Vec<MemberId>,
    /// All that was acknowledged by then is in it; `None`: all that was before the request.
    pub as_of: Option<Instant>,
}

impl Service {
    /// Reads some members.
    pub async fn subset(&self, request: &SubsetRequest) -> Result<FoundSubset, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(&request.board).await?;
            let now = self.engine.clock.now();
            let target = Target::find(&live, &request.window, request.track, &request.choice, now)?;
            let reader = Reader::new(&self.engine, &live, request.freshness);
            let subset = if target.is_expired {
                Arc::new(Subset {
                    total: 0,
                    entries: vec![None; request.members.len()],
                })
            } else {
                match reader.subset(target.standing, &request.members).await? {
                    Some(subset) => subset,
                    None => continue,
                }
            };
            let mut listed = Vec::new();
            let mut not_found = Vec::new();
            for (member, entry) in request.members.iter().zip(&subset.entries) {
                match entry {
                    Some(entry) => listed.push(entry.clone()),
                    None => not_found.push(member.clone()),
                }
            }
            listed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            let entries: Vec<Entry> = listed.into_iter().map(|(_, entry)| entry).collect();
            let voters = self
                .engine
                .voters(&live, &target.periods(&live.board), entries.iter())
                .await?;
            let as_of = reader.as_of();
            return Ok(FoundSubset {
                live,
                target,
                as_of,
                total: subset.total,
                entries,
                voters,
                not_found,
            });
        }
        Err(Error::busy())
    }
}

impl Reader<'_> {
    /// Reads some members of a standing; `None` if it has to begin anew.
    async fn subset(
        &self,
        standing: Standing,
        members: &[MemberId],
    ) -> Result<Option<Arc<Subset>>, Error> {
        let [shard] = &self.live.shards[..] else {
            let merged = Merged::new(self, standing);
            let subset = Box::pin(merged.subset(members)).await?;
            return Ok(subset.map(Arc::new));
        };
        let query = Query::Subset {
            standing,
            members: members.to_vec(),
        };
        let subset = |found| match found {
            Found::Subset(subset) => Some(subset),
            _ => None,
        };
        self.ask(shard, standing.series, query, subset).await
    }
}
