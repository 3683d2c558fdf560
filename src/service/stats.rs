//! Reading what a standing amounts to: how many took part.

use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;

use super::period::{Choice, Target};
use super::{Error, Service};
use crate::domain::ids::BoardId;
use crate::domain::period::Period;
use crate::domain::series::{Standing, Track};
use crate::engine::reader::{Found, Reader};
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::Freshness;
use crate::store::standings::{Amounts, Query};

/// Which standing.
#[derive(Clone, Debug)]
pub struct StatsRequest {
    /// Of which board.
    pub board: BoardId,
    /// Of which window.
    pub window: String,
    /// Of which period.
    pub choice: Choice,
    /// On which track.
    pub track: Track,
    /// How fresh the answer has to be.
    pub freshness: Freshness,
}

/// What a standing amounts to, and what it was read from.
#[derive(Clone, Debug)]
pub struct FoundStats {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The standing.
    pub target: Target,
    /// How many members, events and points; only the members where the board counts no voters.
    pub amounts: Amounts,
    /// An estimate of the distinct voters; `None` where the board does not count them.
    pub voters: Option<u64>,
    /// All that was acknowledged by then is in it; `None`: all that was before the request.
    pub as_of: Option<Instant>,
}

impl Service {
    /// Reads what a standing amounts to.
    pub async fn stats(&self, request: &StatsRequest) -> Result<FoundStats, Error> {
        let StatsRequest {
            window,
            choice,
            track,
            ..
        } = request;
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(&request.board).await?;
            let board = &live.board;
            let target = Target::find(&live, window, *track, choice, self.engine.clock.now())?;
            let counts_voters = board.definition.uniques.is_some();
            if target.is_expired {
                return Ok(FoundStats {
                    live,
                    target,
                    amounts: Amounts::default(),
                    voters: counts_voters.then_some(0),
                    as_of: None,
                });
            }
            let periods = if counts_voters {
                target.periods(board)
            } else {
                Vec::new()
            };
            let reader = Reader::new(&self.engine, &live, request.freshness);
            let Some(amounts) = reader.amounts(target.standing, &periods).await? else {
                continue;
            };
            let voters = if counts_voters {
                Some(self.engine.voters_of_standing(&live, &periods).await?)
            } else {
                None
            };
            let as_of = reader.as_of();
            return Ok(FoundStats {
                live,
                target,
                amounts,
                voters,
                as_of,
            });
        }
        Err(Error::busy())
    }
}

impl Reader<'_> {
    /// Reads what the shards of a standing amount to together; `None` if it has to begin anew.
    async fn amounts(
        &self,
        standing: Standing,
        periods: &[Period],
    ) -> Result<Option<Amounts>, Error> {
        let amounts = |found| match found {
            Found::Amounts(amounts) => Some(amounts),
            _ => None,
        };
        let asked = self.live.shards.iter().map(|shard| {
            let query = Query::Amounts {
                standing,
                periods: periods.to_vec(),
            };
            self.ask(shard, standing.series, query, amounts)
        });
        let of_shards = try_join_all(asked).await?;
        Ok(of_shards.into_iter().sum())
    }
}
