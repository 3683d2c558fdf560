//! Whether events can still change a standing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::board::Board;
use super::period::Period;
use super::time::Timestamp;

/// How far a period has come.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PeriodState {
    /// It has not ended.
    Live,
    /// It is over; events of it may still count.
    Closing,
    /// No event counts for it any more.
    Final,
}

impl PeriodState {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// The place among all of them.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What the calls of a read have seen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// The least barrier that they have seen: no event before it counts any more. `None`: one of them saw none.
    pub barrier: Option<Timestamp>,
    /// Whether they have seen the barriers as they are now: a replica may lack the last one.
    pub is_current: bool,
}

impl Board {
    /// The state of a period at this time, for a read that has seen this; `None` where that does not tell.
    pub fn state_of(&self, period: &Period, seen: Seen, now: Timestamp) -> Option<PeriodState> {
        let end = self.end_of(period);
        let is_behind = |instant: Option<Timestamp>| end.is_some_and(|end| instant >= Some(end));
        if is_behind(seen.barrier) {
            return Some(PeriodState::Final);
        }
        if !is_behind(Some(now)) {
            return Some(PeriodState::Live);
        }
        let may_be_final = self.definition.finalize.is_some() || is_behind(self.closings.until);
        (seen.is_current || !may_be_final).then_some(PeriodState::Closing)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::ids::BoardId;
    use crate::domain::period::Unit;

    fn board(json: &str) -> Board {
        let id = BoardId::parse("b").unwrap();
        let definition = serde_json::from_str(json).unwrap();
        Board::new(id, definition, 1, 1, BTreeMap::new())
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn state(
        board: &Board,
        unit: Unit,
        barrier: Option<&str>,
        now: &str,
    ) -> [Option<PeriodState>; 2] {
        let period = board.calendar.containing(unit, at("2026-11-21T12:00:00Z"));
        let barrier = barrier.map(at);
        [true, false].map(|is_current| {
            let seen = Seen {
                barrier,
                is_current,
            };
            board.state_of(&period, seen, at(now))
        })
    }

    #[test]
    fn a_period_is_final_where_its_barrier_was_seen_and_at_no_time_by_itself() {
        let board = board(r#"{"windows": ["day", "all"], "finalize": "10m"}"#);
        let (before, end) = ("2026-11-21T23:59:59.999Z", "2026-11-22T00:00:00Z");
        let of_day = |barrier, now| state(&board, Unit::Day, barrier, now);
        assert_eq!(of_day(None, before), [Some(PeriodState::Live); 2]);
        assert_eq!(of_day(None, end), [Some(PeriodState::Closing), None]);
        assert_eq!(
            of_day(Some(before), end),
            [Some(PeriodState::Closing), None]
        );
        assert_eq!(of_day(Some(end), end), [Some(PeriodState::Final); 2]);
        // This instance's clock is late.
        assert_eq!(of_day(Some(end), before), [Some(PeriodState::Final); 2]);
        let of_all = state(&board, Unit::All, Some(end), end);
        assert_eq!(of_all, [Some(PeriodState::Live); 2]);
    }

    #[test]
    fn what_can_not_be_final_is_closing_whoever_answers() {
        let mut board = board(r#"{"windows": ["day"], "closes_at": "2026-11-21T18:00:00Z"}"#);
        let of_day = |board: &Board| state(board, Unit::Day, None, "2026-11-21T18:00:00Z");
        assert_eq!(of_day(&board), [Some(PeriodState::Closing); 2]);
        board.closings.until = Some(at("2026-11-21T18:00:00Z"));
        assert_eq!(of_day(&board), [Some(PeriodState::Closing), None]);
    }
}
