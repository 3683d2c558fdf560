//! Whether events can still change a standing.

use utoipa::ToSchema;

use super::board::Board;
use super::period::Period;
use super::texts::words;
use super::time::Timestamp;

words! {
    /// The state of a period.
    #[derive(Hash, ToSchema)]
    pub enum PeriodState {
        /// It has not begun.
        Upcoming = "upcoming",
        /// It has begun, and has not ended.
        Live = "live",
        /// It is over, and becomes final; until then events of it may still count.
        Closing = "closing",
        /// It is over, but not due to become final; late events may still change it if `accept_late` allows them.
        Ended = "ended",
        /// No event counts for it any more.
        Final = "final",
    }
}

impl PeriodState {
    /// The number of states.
    pub const COUNT: usize = Self::ALL.len();

    /// The index in the order of declaration.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What the calls of a read have seen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// The lowest barrier that they have seen: events before it no longer count. `None`: one of them saw none.
    pub barrier: Option<Timestamp>,
    /// Whether they have seen the current barriers: a replica may lack the last one.
    pub is_current: bool,
}

impl Board {
    /// The state of a period at this time, for a read that has seen this; `None` if that is not enough to determine it.
    pub fn state_of(&self, period: &Period, seen: Seen, now: Timestamp) -> Option<PeriodState> {
        let end = self.end_of(period);
        let is_behind = |instant: Option<Timestamp>| end.is_some_and(|end| instant >= Some(end));
        if is_behind(seen.barrier) {
            return Some(PeriodState::Final);
        }
        if !is_behind(Some(now)) {
            return Some(if now.ms() < period.start_ms {
                PeriodState::Upcoming
            } else {
                PeriodState::Live
            });
        }
        let may_be_final = self.definition.finalize.is_some() || is_behind(self.closings.until);
        (seen.is_current || !may_be_final).then_some(if end.is_some_and(|end| self.closes(end)) {
            PeriodState::Closing
        } else {
            PeriodState::Ended
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::period::Unit;
    use super::super::time::at;
    use super::*;

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
    fn a_period_is_final_by_its_barrier_and_never_by_time_alone() {
        let mut board = Board::defined(r#"{"windows": ["day", "all"], "finalize": "10m"}"#);
        board.finalize_since = Some(at("2026-11-21T23:00:00Z"));
        let (before, end) = ("2026-11-21T23:59:59.999Z", "2026-11-22T00:00:00Z");
        let of_day = |barrier, now| state(&board, Unit::Day, barrier, now);
        assert_eq!(of_day(None, before), [Some(PeriodState::Live); 2]);
        assert_eq!(of_day(None, end), [Some(PeriodState::Closing), None]);
        assert_eq!(
            of_day(Some(before), end),
            [Some(PeriodState::Closing), None]
        );
        assert_eq!(of_day(Some(end), end), [Some(PeriodState::Final); 2]);
        // This instance's clock is behind.
        assert_eq!(of_day(Some(end), before), [Some(PeriodState::Final); 2]);
        let of_all = state(&board, Unit::All, Some(end), end);
        assert_eq!(of_all, [Some(PeriodState::Live); 2]);
    }

    #[test]
    fn a_period_without_finalize_is_ended() {
        let (end, midnight) = ("2026-11-21T18:00:00Z", "2026-11-22T00:00:00Z");
        let mut board =
            Board::defined(r#"{"windows": ["day"], "closes_at": "2026-11-21T18:00:00Z"}"#);
        let of_day = |board: &Board| state(board, Unit::Day, None, end);
        // It can't be final, so a replica can't miss that.
        assert_eq!(of_day(&board), [Some(PeriodState::Ended); 2]);
        board.closings.until = Some(at(end));
        assert_eq!(of_day(&board), [Some(PeriodState::Closing), None]);
        // It had ended when `finalize` was set: only a later closing makes it final.
        let mut board = Board::defined(r#"{"windows": ["day"], "finalize": "10m"}"#);
        board.finalize_since = Some(at(midnight));
        let of_day = |barrier| state(&board, Unit::Day, barrier, midnight);
        assert_eq!(of_day(None), [Some(PeriodState::Ended), None]);
        assert_eq!(of_day(Some(midnight)), [Some(PeriodState::Final); 2]);
    }

    #[test]
    fn a_period_that_has_not_begun_is_upcoming() {
        let board =
            Board::defined(r#"{"windows": ["day", "all"], "closes_at": "2026-11-20T18:00:00Z"}"#);
        let of = |unit, now| state(&board, unit, None, now)[0];
        assert_eq!(
            of(Unit::Day, "2026-11-20T12:00:00Z"),
            Some(PeriodState::Upcoming)
        );
        assert_eq!(
            of(Unit::All, "2026-11-20T12:00:00Z"),
            Some(PeriodState::Live)
        );
        // The board has closed before.
        assert_eq!(
            of(Unit::Day, "2026-11-20T18:00:00Z"),
            Some(PeriodState::Ended)
        );
        let open = Board::defined(r#"{"windows": ["day"]}"#);
        let of = |now| state(&open, Unit::Day, None, now)[0];
        assert_eq!(of("2026-11-20T23:59:59.999Z"), Some(PeriodState::Upcoming));
        assert_eq!(of("2026-11-21T00:00:00Z"), Some(PeriodState::Live));
    }
}
