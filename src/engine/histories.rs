//! In which cohorts a member of a league sat: its history tells the newest seats. Those before are found where they have left
//! something.

use std::collections::HashSet;

use super::results::window_of;
use super::{Engine, Error, LiveBoard};
use crate::domain::ids::MemberId;
use crate::domain::league::Section;
use crate::domain::period::Period;
use crate::join::try_join_all;
use crate::store::seats::HISTORY_LINES_MAX;

/// How many cohorts are looked at side by side.
const COHORTS_AT_ONCE: usize = 100;

/// The seats of a member that are known.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Without order.
    pub(crate) seats: Vec<Section>,
}

impl History {
    /// Before which period other seats may lie, because a longer history loses its first lines; `None`: there are no others.
    pub(crate) fn is_whole_from(&self) -> Option<Period> {
        if self.seats.len() < HISTORY_LINES_MAX {
            return None;
        }
        let periods = self.seats.iter().map(|seat| seat.period);
        periods.min_by_key(|period| period.start_ms)
    }
}

impl Engine {
    /// The history of a member of a league, with its seat that is not turned yet.
    pub(super) async fn history_of(
        &self,
        live: &LiveBoard,
        member: &MemberId,
    ) -> Result<History, Error> {
        let Some(unit) = live.board.league_unit() else {
            return Ok(History { seats: Vec::new() });
        };
        let home = &live.shard_of(member).shard;
        // The player first: a seat that is turned meanwhile is in its history then.
        let found = self
            .store
            .players(home, std::slice::from_ref(member))
            .await?;
        let found = found.into_iter().next().transpose()?.flatten();
        let played = self.store.played(home, member).await?;
        let seat = found.and_then(|found| found.player.seat);
        let seat = seat.map(|seat| (seat.start, seat.cohort));
        let played = played
            .into_iter()
            .map(|played| (played.start, played.cohort));
        let seats: HashSet<Section> = seat
            .into_iter()
            .chain(played)
            .map(|(start, cohort)| Section {
                period: live.board.calendar.containing(unit, start),
                cohort: Some(cohort),
            })
            .collect();
        let seats = seats.into_iter().collect();
        Ok(History { seats })
    }

    /// The cohort in which a member sat in a period; of a period that its history does not tell any more, the one in which it has
    /// rewards.
    pub(crate) async fn rewarded_seat(
        &self,
        live: &LiveBoard,
        member: &MemberId,
        period: &Period,
    ) -> Result<Option<Section>, Error> {
        self.with_board(&live.board.id, async |live| {
            self.find_rewarded(&live, member, period).await
        })
        .await
    }

    async fn find_rewarded(
        &self,
        live: &LiveBoard,
        member: &MemberId,
        period: &Period,
    ) -> Result<Option<Section>, Error> {
        let history = self.history_of(live, member).await?;
        let known = history.seats.iter().find(|seat| seat.period == *period);
        let is_earlier = |first: Period| period.start_ms < first.start_ms;
        if known.is_some() || !history.is_whole_from().is_some_and(is_earlier) {
            return Ok(known.copied());
        }
        let (board, window) = (&live.board, window_of(&(*period).into()));
        let key = board.calendar.key(period);
        // Behind the names of its cohorts.
        let mut before = format!("{key}0");
        loop {
            let between = (Some(key.as_str()), Some(before.as_str()));
            let names = self
                .store
                .final_periods(board, window, between, COHORTS_AT_ONCE);
            let names = names.await?;
            let sections = names
                .iter()
                .filter_map(|name| board.section_named(period.unit, name));
            let won = sections.map(|section| self.has_rewards(live, section, member));
            let won = try_join_all(won).await?;
            if let Some(found) = won.into_iter().flatten().next() {
                return Ok(Some(found));
            }
            match names.into_iter().nth(COHORTS_AT_ONCE - 1) {
                Some(last) => before = last,
                None => return Ok(None),
            }
        }
    }

    /// The cohort, if a member has rewards in it.
    async fn has_rewards(
        &self,
        live: &LiveBoard,
        section: Section,
        member: &MemberId,
    ) -> Result<Option<Section>, Error> {
        let shard = &live.shard_in(section, member).shard;
        let won = self.store.rewards_of(shard, &section, member.as_str());
        let won = won.await?;
        Ok((!won.is_empty()).then_some(section))
    }
}
