//! The members of a sorted set, checked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::args::{Task, TieOrder, Work};
use super::names::SortedSet;
use super::read_there;
use super::target::Target;
use super::times::Fraction;
use crate::cli::Failure;
use crate::cli::import::now;
use crate::cli::text::shortened;
use crate::domain::event::FUTURE_MS_MAX;
use crate::domain::ids::MemberId;
use crate::domain::period::Period;
use crate::domain::score::{Bound, Decimals, Score, ScoreError};
use crate::redis::source::Source;

/// How many members are named for each reason.
const EXAMPLES_MAX: usize = 5;

/// What a score must be.
#[derive(Debug)]
pub(super) struct Checks {
    decimals: Decimals,
    reading: Reading,
    min: Option<Score>,
    max: Option<Score>,
    /// The time in a score.
    fraction: Option<Fraction>,
}

/// Which part of a double is the score.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// All of it, in as few digits as name it.
    Exact,
    /// All of it, rounded to these decimals.
    Rounded(usize),
    /// The greatest whole number that is not above it.
    Whole,
}

/// Why a member can't come over.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Refusal {
    /// Its name is no id: see [`MemberId`].
    Id,
    Infinite,
    Range,
    Decimals,
    Bounds,
    Time,
}

impl Refusal {
    fn text(self) -> &'static str {
        match self {
            Self::Id => {
                "the name is not a valid id: that has 1 to 128 bytes of UTF-8 without control characters"
            }
            Self::Infinite => "the score is infinite",
            Self::Range => "the score has more digits than the board can keep",
            Self::Decimals => "the score has more decimals than the board keeps: --round rounds it",
            Self::Time => "the time in the score is not in its period, or still to come",
            Self::Bounds => "the score is beyond the board's `score_min` or `score_max`",
        }
    }
}

/// The members of a sorted set.
#[derive(Debug, Default)]
pub(super) struct SetCopy {
    /// The ids of those that can come over, in order.
    pub(super) members: Vec<Box<str>>,
    /// Those of others whose names are ids.
    pub(super) refused_ids: Vec<Box<str>>,
    /// The others by reason: how many, and the first of them.
    pub(super) refused: BTreeMap<Refusal, (u64, Vec<String>)>,
    /// How many scores are rounded.
    pub(super) rounded: u64,
}

impl Checks {
    pub(super) fn new(work: &Work, target: &Target) -> Self {
        let definition = &target.board.definition;
        let decimals = definition.decimals;
        let reading = match (work.sets.ties, work.sets.round) {
            (TieOrder::ScoreFraction, _) => Reading::Whole,
            (_, Some(round)) => Reading::Rounded(round.digits().into()),
            _ => Reading::Exact,
        };
        // They are those of events: of whole scores only if each is an event.
        let bound = |bound: Option<Bound>| {
            let bound = bound.filter(|_| work.task == Task::Import);
            bound.and_then(|bound| bound.score(decimals).ok())
        };
        let has_fraction = work.sets.ties == TieOrder::ScoreFraction;
        Self {
            decimals,
            reading,
            min: bound(definition.score_min),
            max: bound(definition.score_max),
            fraction: has_fraction.then(|| Fraction::new(work)),
        }
    }

    /// The score of the board that a double of this period stands for.
    ///
    /// # Errors
    /// Why it stands for none.
    pub(super) fn score_in(&self, period: &Period, value: f64) -> Result<Score, Refusal> {
        let score = self.score(value)?;
        self.check_time(value, period)?;
        Ok(score)
    }

    fn score(&self, value: f64) -> Result<Score, Refusal> {
        if !value.is_finite() {
            return Err(Refusal::Infinite);
        }
        let text = match self.reading {
            Reading::Exact => value.to_string(),
            Reading::Rounded(decimals) => format!("{value:.decimals$}"),
            Reading::Whole => value.floor().to_string(),
        };
        let score = Score::parse(&text, self.decimals).map_err(|error| match error {
            ScoreError::Decimals { .. } => Refusal::Decimals,
            ScoreError::Range { .. } | ScoreError::Syntax => Refusal::Range,
        })?;
        let is_within =
            self.min.is_none_or(|min| score >= min) && self.max.is_none_or(|max| score <= max);
        is_within.then_some(score).ok_or(Refusal::Bounds)
    }

    /// Checks the time in a score, if it has one.
    fn check_time(&self, value: f64, period: &Period) -> Result<(), Refusal> {
        let is_valid = self.fraction.is_none_or(|fraction| {
            let at = fraction.time(value);
            period.contains(at) && at.ms() <= now().ms().saturating_add(FUTURE_MS_MAX)
        });
        is_valid.then_some(()).ok_or(Refusal::Time)
    }

    /// Whether rounding changes a score.
    fn is_rounded(&self, value: f64) -> bool {
        match self.reading {
            Reading::Rounded(decimals) => format!("{value:.decimals$}").parse() != Ok(value),
            Reading::Exact | Reading::Whole => false,
        }
    }
}

impl SetCopy {
    /// Copies a sorted set, in steps. If its server is replaced meanwhile, the copy begins again.
    pub(super) async fn of(
        source: &Source,
        SortedSet { key, period }: &SortedSet,
        checks: &Checks,
    ) -> Result<Self, Failure> {
        let copied = read_there(async || {
            let mut copy = Self::default();
            let each = |member: &[u8], score| copy.take(member, score, (checks, period));
            source.members(key, each).await.map(|()| copy)
        });
        let copy = copied
            .await
            .map_err(|error| format!("{}: {error}", shortened(key)))?;
        if copy.is_empty() {
            return Err(format!("there is no sorted set {}", shortened(key)).into());
        }
        Ok(copy.sorted())
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty() && self.refused.is_empty()
    }

    fn take(&mut self, member: &[u8], score: f64, (checks, period): (&Checks, &Period)) {
        let id = str::from_utf8(member).ok();
        let id = id.filter(|id| MemberId::parse(id).is_ok());
        let checked = id.ok_or(Refusal::Id).and_then(|id| {
            checks.score_in(period, score)?;
            Ok(id)
        });
        match checked {
            Ok(id) => {
                self.rounded += u64::from(checks.is_rounded(score));
                self.members.push(id.into());
            }
            Err(refusal) => {
                self.refused_ids.extend(id.map(Box::from));
                let (count, examples) = self.refused.entry(refusal).or_default();
                *count += 1;
                if examples.len() < EXAMPLES_MAX {
                    let name = shortened(&String::from_utf8_lossy(member));
                    examples.push(format!("{name} ({score})"));
                }
            }
        }
    }

    /// In the order of ids. Of a member that a scan has returned twice, one stays.
    fn sorted(mut self) -> Self {
        self.members.sort_unstable();
        self.members.dedup();
        self
    }

    /// How many members can't come over.
    pub(super) fn refused_count(&self) -> u64 {
        self.refused.values().map(|(count, _)| count).sum()
    }

    /// The members that can't come over, a line for each reason.
    pub(super) fn refusals(&self, key: &str) -> String {
        let mut text = String::new();
        for (refusal, (count, examples)) in &self.refused {
            let (key, why, names) = (shortened(key), refusal.text(), examples.join(", "));
            let more = if *count > examples.len() as u64 {
                ", …"
            } else {
                ""
            };
            let _ = writeln!(text, "{key}: of {count} members {why}: {names}{more}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::period::Unit;

    fn checks(decimals: u64, reading: Reading) -> Checks {
        Checks {
            decimals: Decimals::try_from(decimals).unwrap(),
            reading,
            min: None,
            max: Some(Score::from_stored(10_i64.pow(15))),
            fraction: None,
        }
    }

    #[test]
    fn a_double_is_the_score_that_names_it() {
        let exact = checks(2, Reading::Exact);
        // As servers before Redis 7.2 print it.
        let printed: f64 = "0.10000000000000001".parse().unwrap();
        assert_eq!(exact.score(printed), Ok(Score::from_stored(10)));
        assert_eq!(exact.score(-0.0), Ok(Score::from_stored(0)));
        assert_eq!(exact.score(0.125), Err(Refusal::Decimals));
        assert_eq!(exact.score(1e16), Err(Refusal::Range));
        assert_eq!(exact.score(f64::NEG_INFINITY), Err(Refusal::Infinite));
        assert_eq!(
            checks(0, Reading::Exact).score(1e15 + 1.0),
            Err(Refusal::Bounds)
        );

        let rounded = checks(2, Reading::Rounded(1));
        assert_eq!(rounded.score(0.16), Ok(Score::from_stored(20)));
        assert!(rounded.is_rounded(0.16) && !rounded.is_rounded(0.5));
        assert_eq!(
            checks(0, Reading::Whole).score(-1.5),
            Ok(Score::from_stored(-2))
        );
    }

    #[test]
    fn members_are_in_order_and_refusals_are_counted() {
        let checks = checks(0, Reading::Exact);
        let mut copy = SetCopy::default();
        for (member, score) in [
            (&b"b"[..], 1.0),
            (b"a", 2.0),
            (b"b", 1.0),
            (b"\xff", 1.0),
            (b"c", 0.5),
            (b"", 1.0),
        ] {
            copy.take(member, score, (&checks, &Period::endless(Unit::All)));
        }
        let copy = copy.sorted();
        assert_eq!(copy.members, ["a", "b"].map(Box::from));
        assert_eq!(copy.refused_ids, ["c"].map(Box::from));
        assert_eq!(copy.refused_count(), 3);
        assert!(
            copy.refusals("k")
                .starts_with("k: of 2 members the name is not a valid id")
        );
    }
}
