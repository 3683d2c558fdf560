//! In which closed periods of a league members were seated: what a player has missed is decided by these.

use super::seats::SeatObstacle;
use super::store::seats;
use crate::core::board::store::boards;
use crate::core::{Engine, LiveBoard};
use crate::domain::league::player::{Player, start_of};
use crate::domain::period::Period;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::runtime::join::try_join_all;

/// The periods in which some member was seated, among those from one instant to another.
#[derive(Debug)]
pub(super) struct KnownPeriods {
    since: Timestamp,
    until: Timestamp,
    seated: Vec<Period>,
}

impl Engine {
    /// The periods before this one, which has begun, that a player has missed: only others had a seat. All must be final.
    pub(super) async fn missed_periods(
        &self,
        live: &LiveBoard,
        player: &Player,
        period: &Period,
    ) -> Result<Vec<Period>, SeatObstacle> {
        let (since, until) = (player.from, start_of(period));
        if since >= until {
            return Ok(Vec::new());
        }
        let mut known = live.seating.known.lock().await;
        let has_all = |known: &&KnownPeriods| known.since <= since && known.until >= until;
        let all = if let Some(known) = known.as_ref().filter(has_all) {
            &known.seated
        } else {
            // Once they are closed, no member can be seated there.
            let closings = boards::closings(&self.store, &live.board.id).await?;
            if closings.results_until < Some(until) {
                (self.hooks.close_league_until)(self, &live.board.id, until).await?;
            }
            let before = known.as_ref().map_or(since, |known| known.since);
            let read = self.seated_periods(live, before.min(since), period);
            &known.insert(read.await?).seated
        };
        let is_missed = |seated: &&Period| (since..until).contains(&start_of(seated));
        Ok(all.iter().filter(is_missed).copied().collect())
    }

    /// The periods in which some member was seated, from an instant to a period, exclusive: all of these are closed.
    async fn seated_periods(
        &self,
        live: &LiveBoard,
        since: Timestamp,
        before: &Period,
    ) -> Result<KnownPeriods, SeatObstacle> {
        let (board, unit) = (&live.board, before.unit);
        let first = board.calendar.key(&board.calendar.containing(unit, since));
        let last = board.calendar.key(before);
        let range = (first.as_str(), last.as_str());
        // A result outlives its standings, and periods without a result still have their standings.
        let mut keys = seats::seated_in_final(&self.store, board, unit, range).await?;
        let reads = live
            .shards
            .iter()
            .map(|live| seats::seated_in_shard(&self.store, &live.shard, unit, range));
        keys.extend(try_join_all(reads).await?.into_iter().flatten());
        keys.sort_unstable();
        keys.dedup();
        let seated = keys
            .iter()
            .map(|key| board.calendar.parse_key(unit, key))
            .collect::<Result<_, _>>()
            .map_err(|error| {
                StoreError::Unexpected(format!("a period with seats can't be read: {error}"))
            })?;
        Ok(KnownPeriods {
            since,
            until: start_of(before),
            seated,
        })
    }
}
