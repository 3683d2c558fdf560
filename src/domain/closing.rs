//! Closings: what makes the periods of a board final.
//!
//! A period is *live* until its end, and *closing* while events of it may still count; it is *ended* if no closing will
//! come. A closing is decided for an instant: all periods that end up to it become final together. It pins what the
//! definition says then. From then on the *barrier* of every shard is at that instant or later: no shard takes an event
//! with an earlier `at` any more (`scripts/core/write/apply.lua`). A barrier never falls.

use serde::{Deserialize, Serialize};

use super::board::{Board, Ranking};
use super::period::{Period, Unit};
use super::reward::Rule;
use super::series::{List, Standing};
use super::time::{Span, Timestamp};
use super::window::Window;

/// The longest `finalize`.
pub const FINALIZE_MAX: Span = Span::days(31);
/// The shortest `max_delay`. The longest is the maximum wait of an event in its queue.
pub const MAX_DELAY_MIN: Span = Span::seconds(1);
/// How long a standing waits for its closing beyond its retention, in milliseconds: 366 days. After that it expires even
/// without a closing, because the service is down or `finalize` was removed.
pub const UNCLOSED_MS_MAX: u64 = 366 * 86_400_000;

/// The progress of a board's closings. The copy in memory may be outdated: see [`Board::terms_of`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Closings {
    /// The greatest instant for which a closing was decided.
    pub until: Option<Timestamp>,
    /// The results of all periods that end up to this instant are recorded.
    pub results_until: Option<Timestamp>,
    /// What the closings have pinned, in chronological order.
    pub terms: Vec<ClosingTerms>,
}

/// What the definition said when closings were decided, for the periods that end up to an instant and after that of the
/// previous item.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ClosingTerms {
    /// The instant of the last of these closings.
    pub until: Timestamp,
    /// The amendment of the definition at the first of them.
    #[serde(rename = "revision")]
    pub amendment: u64,
    /// How ranks count.
    pub ranking: Ranking,
    /// What members win.
    #[serde(default)]
    pub rewards: Vec<Rule>,
    /// The maximum wait for queued events; `None`: until all are applied.
    pub max_delay: Option<Span>,
}

impl ClosingTerms {
    /// Whether a later closing pins the same.
    fn is_same(&self, later: &Self) -> bool {
        self.ranking == later.ranking
            && self.rewards == later.rewards
            && self.max_delay == later.max_delay
    }
}

impl Closings {
    /// Whether results of a decided closing may be missing.
    pub fn is_pending(&self) -> bool {
        self.results_until < self.until
    }

    /// The maximum wait of the last decided closing for queued events; `None`: until all are applied.
    pub fn max_delay(&self) -> Option<Span> {
        self.terms.last()?.max_delay
    }
}

impl Board {
    /// The end of a period on this board: at the latest when the board closes. `None` if it never ends.
    pub fn end_of(&self, period: &Period) -> Option<Timestamp> {
        let closes_at = self.definition.closes_at;
        period.end().into_iter().chain(closes_at).min()
    }

    /// Whether the periods that end at this instant become final: a closing was decided for them, or may be. Periods that
    /// had ended when `finalize` was set become final only with ones that end later.
    pub fn closes(&self, end: Timestamp) -> bool {
        self.closings.until >= Some(end) || self.finalize_since.is_some_and(|since| end > since)
    }

    /// Whether a period gets a result when it is final: it is one of a window, and begins before the board closes.
    pub fn has_result(&self, period: &Period) -> bool {
        let closes_at = self.definition.closes_at;
        self.definition
            .windows
            .contains(&Window::Period(period.unit))
            && closes_at.is_none_or(|closes_at| period.start_ms < closes_at.ms())
    }

    /// What was pinned for a period; `None` if no closing was decided for it, or none that this copy has. A copy has all
    /// closings except those with its own definition, so in both cases the definition applies.
    pub fn terms_of(&self, period: &Period) -> Option<&ClosingTerms> {
        let end = self.end_of(period)?;
        let mut terms = self.closings.terms.iter();
        terms.find(|terms| terms.until >= end)
    }

    /// The ranking of a period.
    pub fn ranking_of(&self, period: &Period) -> Ranking {
        let terms = self.terms_of(period);
        terms.map_or(self.definition.ranking, |terms| terms.ranking)
    }

    /// The maximum wait of a period's closing for queued events; `None`: until all are applied.
    pub fn max_delay_of(&self, period: &Period) -> Option<Span> {
        let terms = self.terms_of(period);
        terms.map_or(self.definition.max_delay, |terms| terms.max_delay)
    }

    /// The periods around an instant that get results when they end, with their ends.
    pub fn ending_around(&self, at: Timestamp) -> impl Iterator<Item = (Period, Timestamp)> {
        let periods = self.recorded_units();
        periods
            .map(move |unit| self.calendar.containing(unit, at))
            .filter(|period| self.has_result(period))
            .filter_map(|period| Some((period, self.end_of(&period)?)))
    }

    /// All reward rules of the board that apply to a period, including those for other windows: a rule is identified by its
    /// index.
    pub fn all_rules_of(&self, period: &Period) -> &[Rule] {
        let terms = self.terms_of(period);
        terms.map_or(&self.definition.rewards, |terms| &terms.rewards)
    }

    /// The reward rules for a period, with their indexes.
    pub fn rules_of(&self, period: &Period) -> impl Iterator<Item = (usize, &Rule)> + Clone {
        let window = Window::Period(period.unit);
        self.all_rules_of(period)
            .iter()
            .enumerate()
            .filter(move |(_, rule)| rule.window == window)
    }

    /// The pinned terms including those of a closing decided for this instant.
    pub fn terms_with(&self, until: Timestamp) -> Vec<ClosingTerms> {
        let mut all = self.closings.terms.clone();
        let new = ClosingTerms {
            until,
            amendment: self.amendment,
            ranking: self.definition.ranking,
            rewards: self.definition.rewards.clone(),
            max_delay: self.definition.max_delay,
        };
        match all.last_mut() {
            Some(last) if last.is_same(&new) => last.until = until,
            _ => all.push(new),
        }
        all
    }

    /// When a standing written to now may expire, in milliseconds since the epoch: `None` for never. One that waits for a
    /// closing is kept longer; the closing then sets its expiry ([`Board::expires_at_ms`]).
    pub fn kept_until_ms(&self, period: &Period) -> Option<i64> {
        let expires_ms = self.expires_at_ms(period)?;
        let is_closed_later = self
            .finalize_since
            .is_some_and(|since| self.end_of(period).is_none_or(|end| end > since));
        let unclosed_ms = if is_closed_later { UNCLOSED_MS_MAX } else { 0 };
        Some(expires_ms.saturating_add_unsigned(unclosed_ms))
    }

    /// Whether periods of the board may be closed. Then only its shards know which events they refuse.
    pub fn closes_periods(&self) -> bool {
        self.definition.finalize.is_some() || self.closings.until.is_some()
    }

    /// The earliest end, in milliseconds since the epoch, of a period with initial scores that may still be kept.
    pub fn initial_kept_from_ms(&self, now: Timestamp) -> i64 {
        let kept_from_ms = |unit: &Unit| {
            let running = self.calendar.containing(*unit, now);
            let kept_ms = self.kept_until_ms(&running)?.checked_sub(running.end_ms)?;
            Some(now.ms().saturating_sub(kept_ms))
        };
        self.definition
            .initial
            .iter()
            .map(|unit| kept_from_ms(unit).unwrap_or(i64::MIN))
            .min()
            .unwrap_or(i64::MIN)
    }

    /// When a standing ends, if it keeps the lines of erased members once it is final: if it is of a period of one of the
    /// board's windows, and periods of the board are closed.
    pub fn keeps_lines_from(&self, standing: &Standing) -> Option<Timestamp> {
        let is_of_window = match standing.series.list {
            List::Period(unit) | List::Initial(unit) => {
                self.definition.windows.contains(&Window::Period(unit))
            }
            List::Base(_) | List::Rolling(_) | List::InitialScores => false,
        };
        let end = self.end_of(&standing.period);
        end.filter(|_| self.closes_periods() && is_of_window)
    }

    /// The last period of a unit that is final with this barrier.
    pub fn last_final(&self, unit: Unit, barrier: Timestamp) -> Option<Period> {
        let before = Timestamp::from_ms_clamped(barrier.ms().saturating_sub(1));
        let period = self.calendar.containing(unit, before);
        if self.end_of(&period).is_some_and(|end| end <= barrier) {
            return Some(period);
        }
        self.calendar.previous(&period)
    }

    /// The units whose periods this board closes.
    fn closed_units(&self) -> impl Iterator<Item = Unit> {
        self.recorded_units().filter(|unit| *unit != Unit::All)
    }
}

/// The greatest instant for which a closing may be decided now, if it is after the last `decided` one. With `finalize`,
/// that is the last end of a period at least so long ago. Periods that had ended when `finalize` was set get no closing of
/// their own: they have no results to track its progress by.
pub fn due(board: &Board, decided: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let waited = now.saturating_sub(board.definition.finalize?);
    let closes_at = board.definition.closes_at;
    let is_over = closes_at.filter(|closes_at| *closes_at <= waited);
    let starts = board.closed_units().filter_map(|unit| {
        let period = board.calendar.containing(unit, waited);
        period.start()
    });
    // Nothing ends after the board.
    let due = is_over.or_else(|| starts.max());
    due.filter(|due| Some(*due) > decided.max(board.finalize_since))
}

/// When [`due`] will return another instant, in milliseconds since the epoch; `None` for never.
pub fn next_due_ms(board: &Board, now: Timestamp) -> Option<i64> {
    let finalize = board.definition.finalize?;
    Some(next(board, now)?.saturating_add(finalize).ms())
}

/// The next instant that [`due`] will return.
pub fn next(board: &Board, now: Timestamp) -> Option<Timestamp> {
    let waited = now.saturating_sub(board.definition.finalize?);
    let closes_at = board.definition.closes_at;
    if closes_at.is_some_and(|closes_at| closes_at <= waited) {
        return None;
    }
    let units = board.closed_units();
    units
        .filter_map(|unit| board.calendar.containing(unit, waited).end())
        .chain(closes_at)
        .min()
}

#[cfg(test)]
mod tests {
    use super::super::time::at;
    use super::*;

    #[test]
    fn a_closing_is_due_when_the_wait_after_an_end_is_over() {
        let board = Board::defined(r#"{"windows": ["hour", "last-7-days"], "finalize": "10m"}"#);
        let due = |now| due(&board, None, at(now));
        assert_eq!(
            due("2026-11-21T12:10:00Z"),
            Some(at("2026-11-21T12:00:00Z"))
        );
        assert_eq!(
            due("2026-11-21T12:09:59.999Z"),
            Some(at("2026-11-21T11:00:00Z"))
        );
        assert_eq!(
            due("2026-11-22T00:10:00Z"),
            Some(at("2026-11-22T00:00:00Z"))
        );
        let decided = Some(at("2026-11-21T12:00:00Z"));
        assert_eq!(
            super::due(&board, decided, at("2026-11-21T12:50:00Z")),
            None
        );
        let next = next_due_ms(&board, at("2026-11-21T12:10:00Z"));
        assert_eq!(next, Some(at("2026-11-21T13:10:00Z").ms()));
    }

    #[test]
    fn a_board_without_finalize_or_without_an_end_is_never_due() {
        for json in [
            r#"{"windows": ["hour"]}"#,
            r#"{"windows": ["all"], "finalize": "0s"}"#,
        ] {
            let board = Board::defined(json);
            let now = at("2026-11-21T12:00:00Z");
            assert_eq!(
                (due(&board, None, now), next_due_ms(&board, now)),
                (None, None)
            );
        }
    }

    #[test]
    fn past_initial_scores_are_kept_for_as_long_as_any_period_that_counts_them() {
        let kept = |retention: &str| {
            let json = format!(
                r#"{{"windows": ["day", "week"], "initial": ["day", "week"], "retention": {retention}}}"#
            );
            let now = at("2026-11-21T12:00:00Z");
            let board = Board::defined(&json);
            now.ms().checked_sub(board.initial_kept_from_ms(now))
        };
        let days = |count| Some(i64::from(count) * 86_400_000);
        assert_eq!(kept(r#"{"day": "1d", "week": "3d"}"#), days(3));
        assert_eq!(kept(r#"{"day": "5d", "week": "3d"}"#), days(5));
        assert_eq!(kept(r#"{"day": "1d"}"#), None, "weeks are kept permanently");
    }

    #[test]
    fn nothing_is_due_after_the_end_of_the_board() {
        let board = Board::defined(
            r#"{"windows": ["all", "day"], "finalize": "1h", "closes_at": "2026-11-21T12:30:00Z"}"#,
        );
        let due = |now| due(&board, None, at(now));
        assert_eq!(
            due("2026-11-21T13:29:00Z"),
            Some(at("2026-11-21T00:00:00Z"))
        );
        let next = next_due_ms(&board, at("2026-11-21T13:29:00Z"));
        assert_eq!(next, Some(at("2026-11-21T13:30:00Z").ms()));
        for now in ["2026-11-21T13:30:00Z", "2027-11-21T13:30:00Z"] {
            assert_eq!(due(now), Some(at("2026-11-21T12:30:00Z")));
            assert_eq!(next_due_ms(&board, at(now)), None);
        }
        let period = |unit, now| board.calendar.containing(unit, at(now));
        let day = period(Unit::Day, "2026-11-21T12:00:00Z");
        assert_eq!(board.end_of(&day), Some(at("2026-11-21T12:30:00Z")));
        let all = period(Unit::All, "2026-11-21T12:00:00Z");
        assert_eq!(board.end_of(&all), Some(at("2026-11-21T12:30:00Z")));
        let next = period(Unit::Day, "2026-11-22T12:00:00Z");
        let week = period(Unit::Week, "2026-11-21T12:00:00Z");
        let have = [day, all, next, week].map(|period| board.has_result(&period));
        assert_eq!(have, [true, true, false, false]);
    }

    #[test]
    fn a_closed_period_follows_its_pinned_terms() {
        let json = |ranking| {
            format!(
                r#"{{"windows": ["day"], "finalize": "0s", "ranking": "{ranking}",
                    "rewards": [{{"id": "{ranking}", "window": "day", "ranks": [1, 1], "reward": 1}}]}}"#
            )
        };
        let mut board = Board::defined(&json("ordinal"));
        for day in ["2026-11-02", "2026-11-03"] {
            board.closings.terms = board.terms_with(at(&format!("{day}T00:00:00Z")));
        }
        assert_eq!(board.closings.terms.len(), 1);
        let definition = serde_json::from_str(&json("competition")).unwrap();
        let mut board = board.replaced(definition, 7, at("2026-11-04T12:00:00Z"));
        let of = |board: &Board, day: &str| {
            let at = at(&format!("{day}T12:00:00Z"));
            board.ranking_of(&board.calendar.containing(Unit::Day, at))
        };
        for _ in 0..2 {
            let first = board
                .calendar
                .containing(Unit::Day, at("2026-11-01T12:00:00Z"));
            let rules: Vec<&str> = board
                .rules_of(&first)
                .map(|(_, rule)| rule.id.as_str())
                .collect();
            assert_eq!(rules, ["ordinal"]);
            assert_eq!(of(&board, "2026-11-01"), Ranking::Ordinal);
            assert_eq!(of(&board, "2026-11-02"), Ranking::Ordinal);
            assert_eq!(of(&board, "2026-11-03"), Ranking::Competition);
            board.closings.terms = board.terms_with(at("2026-11-04T00:00:00Z"));
        }
        assert_eq!(board.closings.terms.len(), 2);
        assert_eq!(board.closings.terms[1].amendment, 7);
    }

    #[test]
    fn data_that_waits_for_its_closing_is_kept_longer() {
        let mut board =
            Board::defined(r#"{"windows": ["day"], "finalize": "1h", "retention": {"day": "7d"}}"#);
        let day = board
            .calendar
            .containing(Unit::Day, at("2026-11-21T12:00:00Z"));
        let expires = board.expires_at_ms(&day);
        assert_eq!(board.kept_until_ms(&day), expires);
        board.finalize_since = Some(at("2026-11-21T12:00:00Z"));
        let later = expires.unwrap() + i64::try_from(UNCLOSED_MS_MAX).unwrap();
        assert_eq!(board.kept_until_ms(&day), Some(later));
        let before = board.calendar.previous(&day).unwrap();
        assert_eq!(board.kept_until_ms(&before), board.expires_at_ms(&before));
    }
}
