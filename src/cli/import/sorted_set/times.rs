//! The times of events: they order members with equal scores as their old home does.

use super::args::{TieOrder, Work};
use super::names::SortedSet;
use super::target::Target;
use crate::domain::board::Order;
use crate::domain::ties::Ties;
use crate::domain::time::Timestamp;

/// The times of the members of a sorted set.
#[derive(Debug)]
pub(super) struct Times {
    /// The time of the first event.
    pub(super) begin: Timestamp,
    rule: Rule,
    /// How many members there are.
    count: usize,
}

#[derive(Debug)]
enum Rule {
    /// All have the same time, so the smaller id is first.
    Equal,
    /// The smallest id has the earliest time.
    Rising,
    /// The smallest id has the latest time.
    Falling,
    /// The decimals of the score are the time.
    Fraction(Fraction),
}

/// How the decimals of a score give a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fraction {
    epoch: Timestamp,
    /// What they cover from 0 to 1.
    seconds: f64,
    falls: bool,
}

impl Times {
    pub(super) fn new(work: &Work, target: &Target, set: &SortedSet, count: usize) -> Self {
        let definition = &target.board.definition;
        let rule = match (work.sets.ties, definition.order, definition.ties) {
            (TieOrder::ScoreFraction, ..) => Rule::Fraction(Fraction::new(work)),
            // `ZREVRANGE` has the greater id first: it reached the score first, or last.
            (TieOrder::Lex, Order::Desc, Ties::First) => Rule::Falling,
            (TieOrder::Lex, Order::Desc, Ties::Last) => Rule::Rising,
            // `ZRANGE` has the smaller id first, as the board has at equal times.
            _ => Rule::Equal,
        };
        Self {
            begin: set.begin(work.at),
            rule,
            count,
        }
    }

    /// The latest time; `None` if the scores say it, or there are no members.
    pub(super) fn last(&self) -> Option<Timestamp> {
        let last = self.count.checked_sub(1)?;
        match self.rule {
            Rule::Fraction(_) => None,
            Rule::Equal | Rule::Rising => Some(self.of(last, 0.0)),
            Rule::Falling => Some(self.of(0, 0.0)),
        }
    }

    /// The time in a score there, if scores have one.
    pub(super) fn in_score(&self, score: f64) -> Option<Timestamp> {
        match self.rule {
            Rule::Fraction(fraction) => Some(fraction.time(score)),
            Rule::Equal | Rule::Rising | Rule::Falling => None,
        }
    }

    /// The time of a member: its place in the order of all ids, from 0, and its score there.
    pub(super) fn of(&self, place: usize, score: f64) -> Timestamp {
        let after = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
        let us = match self.rule {
            Rule::Equal => 0,
            Rule::Rising => after(place),
            Rule::Falling => after(self.count - 1 - place),
            Rule::Fraction(fraction) => return fraction.time(score),
        };
        Timestamp::from_us_clamped(self.begin.us().saturating_add(us))
    }
}

impl Fraction {
    pub(super) fn new(work: &Work) -> Self {
        let epoch = work.sets.fraction_epoch;
        Self {
            epoch: epoch.unwrap_or(Timestamp::from_us_clamped(0)),
            seconds: work.sets.fraction_seconds.unwrap_or_default(),
            falls: work.sets.fraction_falls,
        }
    }

    /// The time in the decimals of a score, to the microsecond; the double itself is coarser.
    pub(super) fn time(self, score: f64) -> Timestamp {
        let fraction = score - score.floor();
        let fraction = if self.falls { 1.0 - fraction } else { fraction };
        let us = fraction * self.seconds * 1e6;
        #[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
        Timestamp::from_us_clamped(self.epoch.us().saturating_add(us.round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rule: Rule) -> Vec<i64> {
        let begin = Timestamp::parse("2000-01-01T00:00:00Z").unwrap();
        let times = Times {
            begin,
            rule,
            count: 3,
        };
        let since = |place| times.of(place, 0.0).us() - begin.us();
        (0..3).map(since).collect()
    }

    #[test]
    fn times_order_ids_as_the_other_redis_does() {
        assert_eq!(times(Rule::Equal), [0, 0, 0]);
        assert_eq!(times(Rule::Rising), [0, 1, 2]);
        assert_eq!(times(Rule::Falling), [2, 1, 0]);
    }

    #[test]
    fn the_decimals_of_a_score_are_a_time() {
        let epoch = Timestamp::from_us(0).unwrap();
        let seconds_of = |score, falls| {
            let seconds = 1e10;
            let fraction = Fraction {
                epoch,
                seconds,
                falls,
            };
            fraction.time(score).us() / 1_000_000
        };
        // The double keeps about 2 ms of it.
        assert_eq!(
            seconds_of(1_234.0 + 1_795_000_000.5 / 1e10, false),
            1_795_000_000
        );
        assert_eq!(
            seconds_of(1_234.0 + 1.0 - 1_795_000_000.5 / 1e10, true),
            1_795_000_000
        );
        assert_eq!(
            seconds_of(-1.0 + 1_795_000_000.5 / 1e10, false),
            1_795_000_000
        );
    }
}
