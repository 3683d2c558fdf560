//! Reading one member of a standing, its neighbours, and where it stood before.

use std::sync::Arc;
use std::time::Instant;

use super::period::{Choice, Target};
use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::{Standing, Track};
use crate::engine::merge::Merged;
use crate::engine::reader::{Found, Reader, Size};
use crate::engine::voters::Voters;
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::Freshness;
use crate::store::standings::{Neighbourhood, Query};

/// The most neighbours on each side.
pub const AROUND_MAX: u64 = 100;

/// Which member.
#[derive(Clone, Debug)]
pub struct MemberRequest {
    /// Of which board.
    pub board: BoardId,
    /// Of which window.
    pub window: String,
    /// Of which period.
    pub choice: Choice,
    /// On which track.
    pub track: Track,
    /// Who.
    pub member: MemberId,
    /// How many neighbours on each side, if any are wanted.
    pub around: Option<u64>,
    /// How fresh the answer has to be. That somebody is not listed is always so at the time of the request.
    pub freshness: Freshness,
    /// How much the request reads that it belongs to.
    pub size_in_all: Size,
}

/// A member, and what it was read from.
#[derive(Clone, Debug)]
pub struct FoundMember {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The standing.
    pub target: Target,
    /// The standing before, if there is one.
    pub previous: Option<Target>,
    /// What the standing says; at least one neighbour on each side, where there is one.
    pub found: Arc<Neighbourhood>,
    /// The voters of its entries.
    pub voters: Voters,
    /// All that was acknowledged by then is in it; `None`: all that was before the request.
    pub as_of: Option<Instant>,
}

impl Service {
    /// Reads a member.
    pub async fn member(&self, request: &MemberRequest) -> Result<FoundMember, Error> {
        let around = request.around.unwrap_or(0).max(1);
        let mut freshness = request.freshness;
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(&request.board).await?;
            let board = &live.board;
            let now = self.engine.clock.now();
            let target = Target::find(&live, &request.window, request.track, &request.choice, now)?;
            let not_found = || Error::MemberNotFound {
                board: board.id.clone(),
                window: target.window.to_string(),
                key: target.key.clone(),
                member: request.member.to_string(),
            };
            if target.is_expired {
                return Err(not_found());
            }
            let previous = target.previous(board, now);
            let before = previous.as_ref().map(|target| target.standing);
            let standings = (target.standing, before);
            let reader = Reader::new(&self.engine, &live, freshness).of_size(request.size_in_all);
            match reader.member(standings, &request.member, around).await? {
                Some(Some(found)) => {
                    let entries = found.entries.iter();
                    let voters = self
                        .engine
                        .voters(&live, &target.periods(&live.board), entries)
                        .await?;
                    let as_of = reader.as_of();
                    let live = Arc::clone(&live);
                    return Ok(FoundMember {
                        live,
                        target,
                        previous,
                        found,
                        voters,
                        as_of,
                    });
                }
                // Its first event may just have been taken.
                Some(None) if reader.as_of().is_some() => freshness = Freshness::Current,
                Some(None) => return Err(not_found()),
                None => {}
            }
        }
        Err(Error::busy())
    }
}

impl Reader<'_> {
    /// Reads a member of a standing, and where it stood in the one before; `None` if it has to begin anew.
    async fn member(
        &self,
        (standing, before): (Standing, Option<Standing>),
        member: &MemberId,
        around: u64,
    ) -> Result<Option<Option<Arc<Neighbourhood>>>, Error> {
        let [shard] = &self.live.shards[..] else {
            let before = before.map(|before| Merged::new(self, before));
            let merged = Merged::new(self, standing);
            return Box::pin(merged.member(member, around, before.as_ref())).await;
        };
        let query = Query::Member {
            standing,
            previous: before,
            member: member.clone(),
            around,
        };
        let member = |found| match found {
            Found::Member(member) => Some(member),
            _ => None,
        };
        self.ask(shard, standing.series, query, member).await
    }
}
