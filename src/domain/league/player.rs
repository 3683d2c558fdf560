//! The players of a league: what is stored about a member, and its tier.
//!
//! A member's tier follows from its seats and their outcomes, from missed periods, and from moderators' orders. A seat is
//! *turned* after its period: the player takes over its outcome, and the seat is removed. It makes no difference when that is
//! done, or by which instance.

use serde::{Deserialize, Serialize};

use super::decision::{Move, Outcome};
use super::{Cohort, Idle, TierName};
use crate::domain::board::Board;
use crate::domain::period::{Period, Unit};
use crate::domain::score::Score;
use crate::domain::time::Timestamp;

/// The stored state of a league's member.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Player {
    /// The tier in which it plays from `from` on, as an index into that period's settings. Missed periods and `order` are
    /// not applied yet.
    pub tier: u8,
    /// The beginning of that period. All seats before it are turned.
    pub from: Timestamp,
    /// The score with which it opens its next listed seat, in whichever period that is.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub bonus: Score,
    /// Its newest seat, if not turned; its period does not begin before `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<Seat>,
    /// The outcome of its last turned seat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Played>,
    /// A moderator's order, until it is applied to `tier`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<TierOrder>,
    /// Set if it has left: from this period on events do not seat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_from: Option<Timestamp>,
}

/// A member's seat in a period. It counts once the member is listed in the cohort.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The beginning of the period.
    pub start: Timestamp,
    /// The cohort.
    pub cohort: Cohort,
    /// The score with which the member begins.
    pub opening: Score,
    /// When the seat was taken.
    pub joined_at: Timestamp,
}

/// The outcome of a seat: a line of the member's history.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Played {
    /// The beginning of the period.
    pub start: Timestamp,
    /// The tier's name at that time.
    pub tier: TierName,
    /// The cohort.
    pub cohort: Cohort,
    /// The member's place in it, from 1; `None` if it was hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Its score.
    pub score: Score,
    /// Whether it was promoted, demoted or kept.
    pub moved: Move,
    /// The score with which its next seat opens.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub bonus: Score,
}

/// A tier assigned by a moderator.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TierOrder {
    /// The beginning of the first period in that tier.
    pub from: Timestamp,
    /// The tier's name, by which it is found if the settings are replaced before the period begins.
    pub tier: TierName,
    /// Its index in the settings at the time of the order.
    pub index: u8,
}

/// Where a player gets its seat in a period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The tier, as an index into the settings of the period.
    pub tier: u8,
    /// The score with which it begins.
    pub opening: Score,
}

/// A player whose seat was turned.
#[derive(Clone, Debug, PartialEq)]
pub struct Turned {
    /// The player without the seat.
    pub player: Player,
    /// The line for its history, if the seat counted.
    pub line: Option<Played>,
}

impl Player {
    /// A player that is new in this period.
    pub fn new(period: &Period) -> Self {
        Self {
            tier: 0,
            from: start_of(period),
            bonus: Score::default(),
            seat: None,
            before: None,
            order: None,
            left_from: None,
        }
    }

    /// Its seat in a period.
    pub fn seat_in(&self, period: &Period) -> Option<&Seat> {
        let seat = self.seat.as_ref();
        seat.filter(|seat| seat.start == start_of(period))
    }

    /// Whether it has a seat in an earlier period, which must be turned before it gets another one.
    pub fn is_to_be_turned(&self, period: &Period) -> bool {
        let seat = self.seat.as_ref();
        seat.is_some_and(|seat| seat.start < start_of(period))
    }

    /// Whether it has left, so that no event seats it in this period.
    pub fn has_left(&self, period: &Period) -> bool {
        self.left_from.is_some_and(|from| from <= start_of(period))
    }

    /// Where it gets its seat in a period. `missed`: the periods since `from`, in order, in which it had no seat that
    /// counted, and others had.
    ///
    /// # Panics
    ///
    /// If a seat of an earlier period is not turned.
    pub fn place_in(&self, board: &Board, period: &Period, missed: &[Period]) -> Place {
        assert!(
            !self.is_to_be_turned(period),
            "invariant: earlier seats are turned first"
        );
        let mut walk = Walk {
            board,
            at: period_from(board, period.unit, self.from),
            tier: self.tier,
            order: self.order.as_ref(),
        };
        for missed in missed {
            walk.miss(missed);
        }
        walk.go_to(period);
        Place {
            tier: walk.tier,
            opening: self.bonus,
        }
    }

    /// The player as of a period, with everything earlier applied to its tier.
    #[must_use]
    pub fn advanced_to(&self, board: &Board, period: &Period, missed: &[Period]) -> Self {
        let Place { tier, .. } = self.place_in(board, period, missed);
        let start = start_of(period);
        Self {
            tier,
            from: start,
            order: self.order.clone().filter(|order| order.from > start),
            ..self.clone()
        }
    }

    /// The player with its seat turned. `None`: the member was never listed there, so the seat did not count.
    ///
    /// # Panics
    ///
    /// If it has no seat.
    pub fn turned(&self, board: &Board, unit: Unit, outcome: Option<&Outcome>) -> Turned {
        let seat = self
            .seat
            .as_ref()
            .expect("invariant: who is turned has a seat");
        let without = Self {
            seat: None,
            ..self.clone()
        };
        let Some(outcome) = outcome else {
            let (player, line) = (without, None);
            return Turned { player, line };
        };
        let period = period_from(board, unit, seat.start);
        let league = board
            .league_of(&period)
            .expect("invariant: a board with seats is a league");
        let own = seat.cohort.tier;
        let moved = match outcome.moved {
            Move::Up => own.saturating_add(1).min(league.last_tier()),
            Move::Stay => own,
            Move::Down => own.saturating_sub(1),
        };
        let line = Played {
            start: seat.start,
            tier: league.tier(own).name.clone(),
            cohort: seat.cohort,
            position: outcome.position,
            score: outcome.score,
            moved: outcome.moved,
            bonus: outcome.bonus,
        };
        let next = board.calendar.next(&period).unwrap_or(period);
        let player = Self {
            tier: board.tier_in(moved, &period, &next),
            from: start_of(&next),
            bonus: outcome.bonus,
            before: Some(line.clone()),
            ..without
        };
        let line = Some(line);
        Turned { player, line }
    }

    /// The player with a seat.
    #[must_use]
    pub fn seated(self, seat: Seat) -> Self {
        Self {
            seat: Some(seat),
            ..self
        }
    }

    /// The player after joining, which cancels that it has left.
    #[must_use]
    pub fn joined(self) -> Self {
        Self {
            left_from: None,
            ..self
        }
    }

    /// The player after leaving: it has left from the period after this one, or from an earlier one as before.
    #[must_use]
    pub fn left(self, next: &Period) -> Self {
        let from = start_of(next);
        let left_from = self.left_from.map_or(from, |left| left.min(from));
        Self {
            left_from: Some(left_from),
            ..self
        }
    }

    /// The player with an order, which replaces one that is not applied yet. The caller first advances it to the running
    /// period, so that no earlier order is lost.
    #[must_use]
    pub fn ordered(self, order: TierOrder) -> Self {
        Self {
            order: Some(order),
            ..self
        }
    }
}

/// Advances a player from a period to a later one.
struct Walk<'a> {
    board: &'a Board,
    at: Period,
    tier: u8,
    order: Option<&'a TierOrder>,
}

impl Walk<'_> {
    /// Goes to a period, applying orders on the way.
    fn go_to(&mut self, period: &Period) {
        if let Some(order) = self.order.take_if(|order| order.from <= start_of(period)) {
            self.at = period_from(self.board, period.unit, order.from);
            let league = self
                .board
                .league_of(&self.at)
                .expect("invariant: a board with players is a league");
            let same = league.tier_named(order.tier.as_str());
            self.tier = same.unwrap_or_else(|| order.index.min(league.last_tier()));
        }
        self.tier = self.board.tier_in(self.tier, &self.at, period);
        self.at = *period;
    }

    /// Goes to a period and misses it.
    fn miss(&mut self, period: &Period) {
        self.go_to(period);
        let league = self.board.league_of(period);
        if league.is_some_and(|league| league.idle == Idle::Demote) {
            self.tier = self.tier.saturating_sub(1);
        }
    }
}

/// The beginning of a period of a league, each of which has one.
pub fn start_of(period: &Period) -> Timestamp {
    period.start().unwrap_or(Timestamp::MIN)
}

fn period_from(board: &Board, unit: Unit, start: Timestamp) -> Period {
    board.calendar.containing(unit, start)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_nothing(score: &Score) -> bool {
    *score == Score::default()
}

#[cfg(test)]
mod tests {
    use super::super::{FormerLeague, League};
    use super::*;

    /// Tiers of these names, from the first to the last.
    fn league(names: &[&str], idle: &str) -> League {
        let tiers = names
            .iter()
            .map(|name| format!(r#"{{"name": "{name}", "promote": 0, "demote": 0}}"#))
            .collect::<Vec<_>>()
            .join(",");
        serde_json::from_str(&format!(r#"{{"idle": "{idle}", "tiers": [{tiers}]}}"#)).unwrap()
    }

    /// A league of days.
    fn board(league: League) -> Board {
        let json = r#"{"windows": ["day"], "score_min": 0, "finalize": "0s", "shards": 16,
            "league": {"tiers": [{"name": "a", "promote": 0, "demote": 0}]}}"#;
        let mut board = Board::defined(json);
        board.definition.league = Some(league);
        board
    }

    /// A day of November 2026.
    fn day(board: &Board, day: u32) -> Period {
        board
            .calendar
            .parse_key(Unit::Day, &format!("2026-11-{day:02}"))
            .unwrap()
    }

    fn days(board: &Board, days: &[u32]) -> Vec<Period> {
        days.iter().map(|number| day(board, *number)).collect()
    }

    fn seat(board: &Board, number: u32, tier: u8) -> Seat {
        Seat {
            start: start_of(&day(board, number)),
            cohort: Cohort { tier, number: 1 },
            opening: Score::default(),
            joined_at: start_of(&day(board, number)),
        }
    }

    fn outcome(moved: Move, bonus: i64) -> Outcome {
        Outcome {
            position: Some(1),
            score: Score::from_stored(7),
            moved,
            bonus: Score::from_stored(bonus),
        }
    }

    fn order(board: &Board, from: u32, tier: &str, index: u8) -> TierOrder {
        let tier = serde_json::from_value(serde_json::json!(tier)).unwrap();
        let from = start_of(&day(board, from));
        TierOrder { from, tier, index }
    }

    /// Tier and opening score on a day.
    fn place(player: &Player, board: &Board, on: u32, missed: &[u32]) -> (u8, i64) {
        let place = player.place_in(board, &day(board, on), &days(board, missed));
        (place.tier, place.opening.scaled())
    }

    #[test]
    fn a_seat_that_counted_leads_to_another_tier_and_to_a_bonus_for_the_next_seat() {
        let board = board(league(&["bronze", "silver", "gold"], "keep"));
        let player = Player::new(&day(&board, 2));
        assert_eq!(place(&player, &board, 2, &[]), (0, 0));
        for (tier, moved, expected) in [
            (0, Move::Up, 1),
            (2, Move::Up, 2),
            (1, Move::Stay, 1),
            (1, Move::Down, 0),
            (0, Move::Down, 0),
        ] {
            let seated = player.clone().seated(seat(&board, 2, tier));
            let turned = seated.turned(&board, Unit::Day, Some(&outcome(moved, 20)));
            assert_eq!(place(&turned.player, &board, 3, &[]), (expected, 20));
            let line = turned.line.unwrap();
            assert_eq!(
                line.tier.as_str(),
                ["bronze", "silver", "gold"][usize::from(tier)]
            );
            assert_eq!(turned.player.before, Some(line));
            assert_eq!(turned.player.seat, None);
        }
    }

    #[test]
    fn a_seat_that_never_counted_does_not_change_the_player() {
        let board = board(league(&["bronze", "silver"], "demote"));
        let player = Player {
            tier: 1,
            bonus: Score::from_stored(5),
            ..Player::new(&day(&board, 2))
        };
        let seated = player.clone().seated(seat(&board, 2, 1));
        let turned = seated.turned(&board, Unit::Day, None);
        assert_eq!(turned.player, player);
        assert_eq!(turned.line, None);
        // The day counts as missed if others had seats.
        assert_eq!(place(&turned.player, &board, 3, &[2]), (0, 5));
        assert_eq!(place(&turned.player, &board, 3, &[]), (1, 5));
    }

    #[test]
    fn missed_days_count_one_after_the_other_and_leave_the_bonus() {
        for (idle, after_one, after_three) in [("keep", 2, 2), ("demote", 1, 0)] {
            let board = board(league(&["bronze", "silver", "gold"], idle));
            let player = Player {
                tier: 2,
                bonus: Score::from_stored(5),
                ..Player::new(&day(&board, 2))
            };
            // Days on which nobody had a seat are skipped.
            assert_eq!(place(&player, &board, 9, &[]), (2, 5));
            assert_eq!(place(&player, &board, 9, &[4]), (after_one, 5));
            assert_eq!(place(&player, &board, 9, &[4, 6, 7]), (after_three, 5));
            assert_eq!(place(&player, &board, 9, &[2, 3, 4, 5]), (after_three, 5));
            // The next listed seat uses it up.
            let away = player.advanced_to(&board, &day(&board, 9), &days(&board, &[4]));
            let seated = away.seated(seat(&board, 9, after_one));
            let turned = seated.turned(&board, Unit::Day, Some(&outcome(Move::Stay, 0)));
            assert_eq!(place(&turned.player, &board, 10, &[]), (after_one, 0));
        }
    }

    #[test]
    fn missed_days_count_alike_whenever_they_are_read() {
        let mut board = board(league(&["bronze", "silver", "gold", "crystal"], "demote"));
        let former = |until, names: &[&str], idle| FormerLeague {
            until: start_of(&day(&board, until)),
            league: league(names, idle),
        };
        let before = vec![
            former(5, &["wood", "bronze", "silver"], "demote"),
            former(9, &["bronze", "wood"], "keep"),
        ];
        board.league_before = before;
        for missed in [&[][..], &[3], &[3, 4, 6, 8, 10], &[5, 9], &[2, 11, 12]] {
            for tier in 0..3 {
                let player = Player {
                    tier,
                    bonus: Score::from_stored(5),
                    order: (tier == 1).then(|| order(&board, 7, "wood", 1)),
                    ..Player::new(&day(&board, 2))
                };
                let at_once = place(&player, &board, 13, missed);
                for stop in 3..13 {
                    let (early, late): (Vec<u32>, Vec<u32>) =
                        missed.iter().partition(|missed| **missed < stop);
                    let stopped =
                        player.advanced_to(&board, &day(&board, stop), &days(&board, &early));
                    assert_eq!(stopped.from, start_of(&day(&board, stop)));
                    assert_eq!(
                        place(&stopped, &board, 13, &late),
                        at_once,
                        "{missed:?} {stop}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_order_applies_from_its_day_on_whatever_came_before() {
        let board = board(league(&["bronze", "silver", "gold"], "demote"));
        let player = Player::new(&day(&board, 2)).ordered(order(&board, 5, "gold", 2));
        assert_eq!(place(&player, &board, 4, &[]), (0, 0));
        assert_eq!(place(&player, &board, 5, &[3, 4]), (2, 0));
        assert_eq!(place(&player, &board, 7, &[3, 5, 6]), (0, 0));
        // It applies to the day after a seat that is turned later.
        let seated = player.seated(seat(&board, 4, 1));
        let turned = seated.turned(&board, Unit::Day, Some(&outcome(Move::Down, 20)));
        assert_eq!(place(&turned.player, &board, 5, &[]), (2, 20));
        // A later order replaces it once it is applied.
        let advanced = turned.player.advanced_to(&board, &day(&board, 6), &[]);
        assert_eq!((advanced.tier, &advanced.order), (2, &None));
        let again = advanced.ordered(order(&board, 7, "silver", 1));
        assert_eq!(place(&again, &board, 6, &[]).0, 2);
        assert_eq!(place(&again, &board, 7, &[6]).0, 1);
    }

    #[test]
    fn tiers_are_matched_by_name_or_else_by_place() {
        let mut board = board(league(&["silver", "gold", "crystal"], "keep"));
        let old = league(&["bronze", "silver", "gold", "diamond"], "keep");
        let until = start_of(&day(&board, 5));
        board.league_before = vec![FormerLeague { until, league: old }];
        for (tier, expected) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            let player = Player {
                tier,
                ..Player::new(&day(&board, 2))
            };
            assert_eq!(place(&player, &board, 4, &[]).0, tier);
            assert_eq!(place(&player, &board, 5, &[]).0, expected, "{tier}");
            let seated = player.seated(seat(&board, 4, tier));
            let turned = seated.turned(&board, Unit::Day, Some(&outcome(Move::Stay, 0)));
            assert_eq!(turned.player.tier, expected);
            assert_eq!(turned.player.from, until);
        }
        // So does an order for a tier that no longer exists on its day.
        for (name, index, expected) in [("gold", 2, 1), ("bronze", 0, 0), ("diamond", 3, 2)] {
            let order = order(&board, 5, name, index);
            let player = Player::new(&day(&board, 4)).ordered(order);
            assert_eq!(place(&player, &board, 5, &[]).0, expected, "{name}");
        }
    }

    #[test]
    fn a_player_that_left_stays_out_until_it_joins() {
        let board = board(league(&["bronze"], "keep"));
        let left = Player::new(&day(&board, 2)).left(&day(&board, 3));
        let has_left = |player: &Player, on| player.has_left(&day(&board, on));
        assert_eq!([2, 3, 4].map(|on| has_left(&left, on)), [false, true, true]);
        let again = left.clone().left(&day(&board, 9));
        assert_eq!(again, left);
        assert!(!has_left(&left.joined(), 9));
    }

    #[test]
    fn a_player_is_stored_and_read_again() {
        let board = board(league(&["bronze", "silver"], "keep"));
        let player = Player::new(&day(&board, 2));
        let short = serde_json::to_string(&player).unwrap();
        assert_eq!(short, r#"{"tier":0,"from":"2026-11-02T00:00:00.000Z"}"#);
        let seated = player.seated(seat(&board, 2, 1));
        let turned = seated.turned(&board, Unit::Day, Some(&outcome(Move::Up, 20)));
        let full = turned
            .player
            .seated(seat(&board, 3, 1))
            .ordered(order(&board, 4, "silver", 1))
            .left(&day(&board, 4));
        for player in [player_of(&short), full] {
            let json = serde_json::to_string(&player).unwrap();
            assert_eq!(player_of(&json), player, "{json}");
        }
    }

    fn player_of(json: &str) -> Player {
        serde_json::from_str(json).unwrap()
    }
}
