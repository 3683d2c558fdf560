//! The plan of an event: which standings it is added to, and with what amount.
//!
//! This is the heart of the service. A [`Plan`] is a pure function of a board, an event and the time; the
//! store carries it out in one atomic step. Most of it, the [`Route`], is the same for all events that lie
//! in the same periods, so routes are made once and shared.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::board::{AcceptLate, Board, Series, Standing};
use super::event::{Event, FUTURE_MS_MAX, Rejection};
use super::period::{Period, Unit};
use super::quota::{self, QuotaUse};
use super::score::Score;
use super::time::Timestamp;
use super::window::Window;

/// How many routes of a board are kept for reuse.
const ROUTES_MAX: usize = 16;
/// How many periods the rolls of a board that are kept for reuse may name: about 2 MB.
const ROLL_PERIODS_MAX: usize = 100_000;

/// What to do with one event.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The event.
    pub event: Event,
    /// The instant that it counts for.
    pub at: Timestamp,
    /// Why it is not taken, unless its id shows that it was taken before.
    pub rejection: Option<Rejection>,
    /// Where it goes.
    pub route: Arc<Route>,
    /// The carried amounts, in the order of [`Amount::Carried`].
    pub carried: Vec<Score>,
    /// What it takes of the board's quotas.
    pub quotas: Vec<QuotaUse>,
}

/// The standings of all events whose instants lie in the same periods.
#[derive(Debug, PartialEq)]
pub struct Route {
    /// The instants of events, in milliseconds, that take this route.
    at_ms: Range<i64>,
    /// The times of the clock, in milliseconds, at which it can be used.
    now_ms: Range<i64>,
    /// The periods' standings.
    pub writes: Vec<Write>,
    /// The rolling standings.
    pub rolls: Vec<Arc<Roll>>,
    /// What outcomes call the standings that they report.
    names: Vec<(Window, StandingName)>,
}

/// What a standing is called in answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StandingName {
    /// Its window.
    pub window: Arc<str>,
    /// Its period's key.
    pub key: Arc<str>,
}

impl StandingName {
    fn new(board: &Board, window: Window, at: Timestamp) -> Self {
        let period = board.calendar.containing(window.unit(), at);
        Self {
            window: window.to_string().into(),
            key: board.calendar.key(&period).into(),
        }
    }
}

/// One period's standing that an event is added to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Write {
    /// The standing.
    pub standing: Standing,
    /// What is added.
    pub amount: Amount,
    /// The window as which the outcome reports it.
    pub reported: Option<Window>,
    /// When it may be dropped, in milliseconds since the epoch; past that it is not written any more.
    pub expires_at_ms: Option<i64>,
}

/// Which of an event's amounts a write adds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Amount {
    /// The score itself.
    Score,
    /// The carried amount with this index in [`Plan::carried`].
    Carried(usize),
}

/// A rolling window that an event is added to: every standing of it that exists and contains the
/// event's period.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Roll {
    /// The window.
    pub window: Window,
    /// The event's period: the outcome reports the rolling standing that ends with it.
    pub period: Period,
    /// The series whose standings it adds up.
    pub base: Series,
    /// The periods after the event's up to the one after the running one, newest first: where a member
    /// whose sum is zero has its latest time.
    pub later: Vec<Period>,
    /// The window's periods, newest first, `period` among them: what the reported standing is the sum of
    /// while it is not there itself.
    pub history: Vec<Period>,
    /// Whether the reported standing is likely not there, so that the history should be sent at once.
    pub is_past: bool,
    /// When the oldest of the history may be dropped; past that the standing is not reported.
    pub expires_at_ms: Option<i64>,
}

/// What was planned last for a board's events, for reuse.
#[derive(Debug, Default)]
pub struct Routes(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    routes: VecDeque<Arc<Route>>,
    /// By window and the starts of the event's and of the running period.
    rolls: HashMap<(Window, i64, i64), Arc<Roll>>,
    /// How many periods the rolls name.
    roll_periods: usize,
}

impl Routes {
    /// Plans an event that comes in at `now`.
    pub fn plan(&self, board: &Board, event: Event, now: Timestamp) -> Plan {
        let at = event.at.unwrap_or(now);
        let route = self.0.lock().route(board, at, now);
        let carryover = board.definition.carryover.values();
        let carried = carryover.map(|ratio| ratio.of(event.score)).collect();
        let rejection = reject(board, event.score, at, now);
        let (rejection, quotas) = match quota::uses(board, &event, at) {
            Ok(quotas) => (rejection, quotas),
            Err(missing) => (rejection.or(Some(Rejection::Missing(missing))), Vec::new()),
        };
        Plan {
            event,
            at,
            rejection,
            route,
            carried,
            quotas,
        }
    }
}

impl Recent {
    fn route(&mut self, board: &Board, at: Timestamp, now: Timestamp) -> Arc<Route> {
        let usable = |route: &&Arc<Route>| {
            route.at_ms.contains(&at.ms()) && route.now_ms.contains(&now.ms())
        };
        if let Some(route) = self.routes.iter().rev().find(usable) {
            return Arc::clone(route);
        }
        if self.routes.len() == ROUTES_MAX {
            self.routes.pop_front();
        }
        let route = Arc::new(Route::new(
            board,
            at,
            now,
            |window, period, running, periods| self.roll(board, window, period, running, periods),
        ));
        self.routes.push_back(Arc::clone(&route));
        route
    }

    fn roll(
        &mut self,
        board: &Board,
        window: Window,
        period: Period,
        running: Period,
        periods: u16,
    ) -> Arc<Roll> {
        let key = (window, period.start_ms, running.start_ms);
        if let Some(roll) = self.rolls.get(&key) {
            return Arc::clone(roll);
        }
        if self.roll_periods > ROLL_PERIODS_MAX {
            self.rolls.clear();
            self.roll_periods = 0;
        }
        let roll = Arc::new(Roll::new(board, window, period, running, periods));
        self.roll_periods += roll.history.len() + roll.later.len();
        self.rolls.insert(key, Arc::clone(&roll));
        roll
    }
}

/// Whether the board takes events of that score and instant now.
fn reject(board: &Board, score: Score, at: Timestamp, now: Timestamp) -> Option<Rejection> {
    let definition = &board.definition;
    if at.ms() > now.ms() + FUTURE_MS_MAX {
        return Some(Rejection::InFuture);
    }
    if let AcceptLate::Within(span) = definition.accept_late
        && at.ms().saturating_add_unsigned(span.ms()) < now.ms()
    {
        return Some(Rejection::TooLate);
    }
    let too_early = definition.opens_at.is_some_and(|opens| at < opens);
    let closed = definition.closes_at.is_some_and(|closes| at >= closes);
    if too_early || closed {
        return Some(Rejection::Closed);
    }
    (!definition.takes_score(score)).then_some(Rejection::ScoreBounds)
}

impl Route {
    /// The route of events at `at`, while the clock is near `now`.
    fn new(
        board: &Board,
        at: Timestamp,
        now: Timestamp,
        mut roll: impl FnMut(Window, Period, Period, u16) -> Arc<Roll>,
    ) -> Self {
        let mut route = Self {
            at_ms: i64::MIN..i64::MAX,
            now_ms: i64::MIN..i64::MAX,
            writes: Vec::new(),
            rolls: Vec::new(),
            names: Vec::new(),
        };
        for window in &board.definition.windows {
            let name = StandingName::new(board, *window, at);
            route.names.push((*window, name));
        }
        for unit in board.recorded_units() {
            let period = board.calendar.containing(unit, at);
            route.at_ms = intersection(&route.at_ms, &period);
            route.add_period(board, period);
        }
        for (window, unit, periods) in board.rolling_windows() {
            let period = board.calendar.containing(unit, at);
            let running = board.calendar.containing(unit, now);
            route.now_ms = intersection(&route.now_ms, &running);
            route.rolls.push(roll(window, period, running, periods));
        }
        route
    }

    /// What the standing of a window is called that an event of this board is reported in.
    pub fn name(&self, board: &Board, window: Window, at: Timestamp) -> StandingName {
        let known = self.names.iter().find(|(known, _)| *known == window);
        match known.filter(|_| self.at_ms.contains(&at.ms())) {
            Some((_, name)) => name.clone(),
            // The outcome of a duplicate tells of another time, or of an older definition.
            None => StandingName::new(board, window, at),
        }
    }

    fn add_period(&mut self, board: &Board, period: Period) {
        let unit = period.unit;
        let window = Window::Period(unit);
        let shown = Series::Period(unit);
        let base = board.base(unit);
        let mut write = |series, period, amount, reported| {
            let expires_at_ms = board.expires_at_ms(&period);
            let standing = Standing { series, period };
            self.writes.push(Write {
                standing,
                amount,
                reported,
                expires_at_ms,
            });
        };
        let reported = board.definition.windows.contains(&window).then_some(window);
        write(shown, period, Amount::Score, reported);
        if let Some(index) = board
            .definition
            .carryover
            .keys()
            .position(|other| *other == unit)
            && let Some(next) = board.calendar.next(&period)
        {
            write(shown, next, Amount::Carried(index), None);
        }
        if base != shown && board.rolling_windows().any(|(_, other, _)| other == unit) {
            write(base, period, Amount::Score, None);
        }
    }
}

impl Roll {
    fn new(board: &Board, window: Window, period: Period, running: Period, periods: u16) -> Self {
        let calendar = &board.calendar;
        let history = stretch(board, period, periods);
        let oldest = history.last().copied().unwrap_or(period);
        // No rolling standing that contains the event ends later than N − 1 periods after it.
        let mut later: Vec<Period> =
            std::iter::successors(calendar.next(&period), |after| calendar.next(after))
                .take(usize::from(periods) - 1)
                .take_while(|after| after.start_ms <= running.end_ms)
                .collect();
        later.reverse();
        let is_past = calendar
            .next(&period)
            .is_some_and(|next| next.end_ms <= running.start_ms);
        Self {
            window,
            period,
            base: board.base(period.unit),
            later,
            history,
            is_past,
            expires_at_ms: board.expires_at_ms(&oldest),
        }
    }
}

/// The last `periods` periods up to `newest`, newest first.
pub fn stretch(board: &Board, newest: Period, periods: u16) -> Vec<Period> {
    std::iter::successors(Some(newest), |period| board.calendar.previous(period))
        .take(usize::from(periods))
        .collect()
}

fn intersection(range: &Range<i64>, period: &Period) -> Range<i64> {
    if period.unit == Unit::All {
        return range.clone();
    }
    range.start.max(period.start_ms)..range.end.min(period.end_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::Origin;
    use crate::domain::ids::{BoardId, MemberId};

    fn board(json: &str) -> Board {
        let definition = serde_json::from_str(json).unwrap();
        Board::new(
            BoardId::parse("b").unwrap(),
            definition,
            1,
            1,
            std::collections::BTreeMap::new(),
        )
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn event(score: i64, at: Timestamp) -> Event {
        Event {
            id: None,
            member: MemberId::parse("m").unwrap(),
            score: Score::from_scaled(score).unwrap(),
            at: Some(at),
            origin: Origin::default(),
        }
    }

    #[test]
    fn an_event_goes_to_each_period_and_its_share_to_the_next() {
        let board = board(
            r#"{"windows": ["day", "week", "all", "last-3-days"], "carryover": {"day": 0.2, "week": 0.5}}"#,
        );
        let now = at("2026-11-21T12:00:00Z");
        let plan = Routes::default().plan(&board, event(9, now), now);
        assert_eq!(plan.rejection, None);
        assert_eq!(
            plan.carried
                .iter()
                .map(|score| score.scaled())
                .collect::<Vec<_>>(),
            [1, 4]
        );
        let writes: Vec<_> = plan
            .route
            .writes
            .iter()
            .map(|write| {
                let key = board.calendar.key(&write.standing.period);
                (
                    write.standing.series,
                    key,
                    write.amount,
                    write.reported.is_some(),
                )
            })
            .collect();
        let day = Series::Period(Unit::Day);
        let week = Series::Period(Unit::Week);
        assert_eq!(
            writes,
            [
                (day, "2026-11-21".into(), Amount::Score, true),
                (day, "2026-11-22".into(), Amount::Carried(0), false),
                (
                    Series::Base(Unit::Day),
                    "2026-11-21".into(),
                    Amount::Score,
                    false
                ),
                (week, "2026-11-16".into(), Amount::Score, true),
                (week, "2026-11-23".into(), Amount::Carried(1), false),
                (Series::Period(Unit::All), "all".into(), Amount::Score, true),
            ]
        );
    }

    #[test]
    fn a_rolling_window_knows_its_history_and_what_came_later() {
        let board = board(r#"{"windows": ["last-3-days"], "accept_late": "any"}"#);
        let now = at("2026-11-21T12:00:00Z");
        let keys = |periods: &[Period]| -> Vec<String> {
            periods
                .iter()
                .map(|period| board.calendar.key(period))
                .collect()
        };
        let roll = |text| Recent::default().route(&board, at(text), now).rolls[0].clone();

        let today = roll("2026-11-21T00:00:00Z");
        assert_eq!(
            keys(&today.history),
            ["2026-11-21", "2026-11-20", "2026-11-19"]
        );
        assert_eq!(keys(&today.later), ["2026-11-22"]);
        assert!(!today.is_past);

        let late = roll("2026-11-19T23:59:59Z");
        assert_eq!(keys(&late.later), ["2026-11-21", "2026-11-20"]);
        assert!(late.is_past);
        assert!(keys(&roll("2026-11-01T00:00:00Z").later) == ["2026-11-03", "2026-11-02"]);
    }

    #[test]
    fn events_of_the_same_periods_share_a_route_until_the_clock_passes_a_boundary() {
        let board = board(r#"{"windows": ["hour", "day", "last-7-days"]}"#);
        let routes = Routes::default();
        let now = at("2026-11-21T12:00:00Z");
        let first = routes.plan(&board, event(1, at("2026-11-21T11:00:00Z")), now);
        let same = routes.plan(&board, event(1, at("2026-11-21T11:59:59.999Z")), now);
        let next_hour = routes.plan(&board, event(1, now), now);
        let next_day = routes.plan(
            &board,
            event(1, at("2026-11-21T11:00:00Z")),
            at("2026-11-22T00:00:00Z"),
        );
        assert!(Arc::ptr_eq(&first.route, &same.route));
        assert!(!Arc::ptr_eq(&first.route, &next_hour.route));
        assert!(!Arc::ptr_eq(&first.route, &next_day.route));
    }

    #[test]
    fn bounds_of_scores_belong_to_what_is_taken() {
        let board =
            board(r#"{"windows": ["all"], "decimals": 1, "score_min": -0.5, "score_max": 3}"#);
        let now = at("2026-11-21T00:00:00Z");
        let verdict = |scaled| reject(&board, Score::from_stored(scaled), now, now);
        assert_eq!((verdict(-5), verdict(30)), (None, None));
        assert_eq!(verdict(-6), Some(Rejection::ScoreBounds));
        assert_eq!(verdict(31), Some(Rejection::ScoreBounds));
    }

    #[test]
    fn time_decides_what_is_taken() {
        let board = board(
            r#"{"windows": ["all"], "opens_at": "2026-11-20T00:00:00Z", "closes_at": "2026-11-22T00:00:00Z"}"#,
        );
        let score = Score::from_stored(1);
        let verdict = |when: &str, now: &str| reject(&board, score, at(when), at(now));
        assert_eq!(
            verdict("2026-11-21T00:01:00Z", "2026-11-21T00:00:00Z"),
            None
        );
        assert_eq!(
            verdict("2026-11-21T00:01:00.001Z", "2026-11-21T00:00:00Z"),
            Some(Rejection::InFuture)
        );
        assert_eq!(
            verdict("2026-11-20T00:00:00Z", "2026-11-22T00:00:00Z"),
            None
        );
        assert_eq!(
            verdict("2026-11-20T00:00:00Z", "2026-11-22T00:00:00.001Z"),
            Some(Rejection::TooLate)
        );
        assert_eq!(
            verdict("2026-11-19T23:59:59.999Z", "2026-11-20T00:00:00Z"),
            Some(Rejection::Closed)
        );
        assert_eq!(
            verdict("2026-11-22T00:00:00Z", "2026-11-22T00:00:00Z"),
            Some(Rejection::Closed)
        );
    }
}
