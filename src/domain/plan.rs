//! The plan of an event: which standings it is added to, and with what amount.
//!
//! This is the heart of the service. A [`Plan`] is a pure function of a board, an event and the time; the store carries it
//! out in one atomic step. Most of it, the [`Route`], is the same for all events in the same periods, and is shared.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::board::{AcceptLate, Board, Update};
use super::event::{Event, FUTURE_MS_MAX, Rejection};
use super::ids::MemberId;
use super::league::{Cohort, Section};
use super::period::{Period, Unit};
use super::quota::{self, QuotaUse};
use super::score::Score;
use super::series::{Derived, List, Series, Standing, Track};
use super::time::Timestamp;
use super::window::Window;

/// How many routes of a board are kept for reuse.
const ROUTES_MAX: usize = 16;
/// How many periods the sums of a board's kept routes may name: about 2 MB.
const SUM_PERIODS_MAX: usize = 100_000;

/// What to do with one event.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The event.
    pub event: Event,
    /// The instant that it counts for.
    pub at: Timestamp,
    /// Why it is refused, unless its id shows that it was applied before.
    pub rejection: Option<Rejection>,
    /// The standings that it changes.
    pub route: Arc<Route>,
    /// What it adds to them, by [`Amount::column`].
    pub amounts: Vec<Score>,
    /// What it takes of the board's quotas.
    pub quotas: Vec<QuotaUse>,
    /// In a league, its member's cohort in the period of `at`.
    pub cohort: Option<Cohort>,
}

impl Plan {
    /// The plan of an event with these instants, which takes this route.
    pub fn new(board: &Board, event: Event, instants: Instants, route: Arc<Route>) -> Self {
        let Instants { at, came_in, .. } = instants;
        let rejection = reject(board, event.score, at, came_in);
        let (rejection, amounts) = match amounts(board, &event) {
            Ok(amounts) => (rejection, amounts),
            Err(beyond) => {
                let none = vec![Score::default(); columns(board)];
                (rejection.or(Some(beyond)), none)
            }
        };
        let (rejection, quotas) = match quota::uses(board, &event, at) {
            Ok(quotas) => (rejection, quotas),
            Err(missing) => (rejection.or(Some(Rejection::Missing(missing))), Vec::new()),
        };
        // Last, since only this one passes with time: an event that is sent again is then not refused for another reason.
        let is_early = at > came_in && came_in < due(board, at);
        let rejection = rejection.or(is_early.then_some(Rejection::InFuture));
        Self {
            event,
            at,
            rejection,
            route,
            amounts,
            quotas,
            cohort: None,
        }
    }

    /// The index of the shard that it goes to: that of its cohort, or else of its member.
    pub fn shard(&self, board: &Board) -> usize {
        let section = self.section();
        let cohort = section.and_then(|section| Some((section.period, section.cohort?)));
        cohort.map_or_else(
            || board.shard_of(&self.event.member),
            |(period, cohort)| board.shard_of_cohort(&period, cohort),
        )
    }

    /// On a board that keeps the last value: up to which instant (exclusive) it could count and keep this plan.
    pub fn until(&self, board: &Board) -> Option<Timestamp> {
        let definition = &board.definition;
        if definition.update != Update::Last {
            return None;
        }
        let of_route = Timestamp::from_ms_clamped(self.route.at_ms.end);
        Some(
            board
                .definition
                .quotas
                .iter()
                .filter_map(|quota| quota.frees_at(board, self.at))
                .chain(definition.closes_at)
                .fold(of_route, Timestamp::min),
        )
    }

    /// In a league, the cohort that it counts in.
    pub fn section(&self) -> Option<Section> {
        // A league records one unit, on one track.
        let period = self.route.writes.first()?.standing.period;
        let cohort = Some(self.cohort?);
        Some(Section { period, cohort })
    }
}

/// The standings of all events whose instants are in the same periods.
#[derive(Debug, PartialEq)]
pub struct Route {
    /// The instants, in milliseconds, of events that take this route.
    at_ms: Range<i64>,
    /// The clock times, in milliseconds, at which it can be used.
    now_ms: Range<i64>,
    /// The standings of single periods.
    pub writes: Vec<Write>,
    /// The standings that are sums.
    pub sums: Vec<Arc<Sum>>,
    /// The periods in which the event and its voter are counted, and when those counts may be dropped.
    pub turnouts: Vec<(Period, Option<i64>)>,
    /// The names of the standings in which outcomes report changes.
    names: Vec<(Window, StandingName)>,
}

/// The name of a board's standing in answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StandingName {
    /// Its window.
    pub window: Arc<str>,
    /// Its period's key.
    pub key: Arc<str>,
}

impl fmt::Display for StandingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { window, key } = self;
        // For all time there is only one standing.
        if window == key {
            write!(f, "{window}")
        } else {
            write!(f, "{window} {key}")
        }
    }
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
    /// When it may be dropped, in milliseconds since the epoch; after that it is not written any more.
    pub expires_at_ms: Option<i64>,
}

/// Which of an event's amounts a standing gets.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Amount {
    /// With weights, or without.
    pub track: Track,
    /// The share that is carried over, by its index in the board's `carryover`; `None`: the score itself.
    pub carried: Option<usize>,
}

impl Amount {
    /// Its index in [`Plan::amounts`].
    pub fn column(self, board: &Board) -> usize {
        let of_track = 1 + board.definition.carryover.len();
        let first = match self.track {
            Track::Shown => 0,
            Track::Raw => of_track,
        };
        first + self.carried.map_or(0, |index| index + 1)
    }
}

/// A derived series that an event is added to: every existing standing of it that contains the event's period.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sum {
    /// The series.
    pub derived: Derived,
    /// The event's period, or the one that it is carried over to.
    pub period: Period,
    /// What is added.
    pub amount: Amount,
    /// Whether the outcome reports the standing that ends with that period.
    pub is_reported: bool,
    /// The periods after the event's, up to the next period, newest first. If a standing does not list the member,
    /// because its sum is zero, the time of its score comes from the newest of these in which the member is listed.
    pub later: Vec<Period>,
    /// The periods of the standing that ends with the event's period, newest first. If that standing is not stored, the
    /// outcome is computed from these.
    pub history: Vec<Period>,
    /// Whether that standing is probably not stored, so that `history` should be sent at once.
    pub is_past: bool,
    /// When the oldest of `history` may be dropped; after that the standing is not reported.
    pub expires_at_ms: Option<i64>,
}

/// The instants that decide about an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Instants {
    /// The instant that it counts for.
    pub at: Timestamp,
    /// When it came in: this decides whether it is too late, or in the future.
    pub came_in: Timestamp,
    /// Decides which standings exist. It is later than `came_in` if the event waited in a queue.
    pub now: Timestamp,
}

impl Instants {
    /// For an event that has just come in.
    pub fn of(event: &Event, arrived_at: Timestamp) -> Self {
        Self {
            at: event.at.unwrap_or(arrived_at),
            came_in: arrived_at,
            now: arrived_at,
        }
    }
}

/// What a [`Sum`] is made from: a derived series, the event's period or the one that it is carried over to, the running
/// period, and what is added.
type Term = (Derived, Period, Period, Amount);

/// The latest routes of a board's events, for reuse.
#[derive(Debug, Default)]
pub struct Routes {
    latest: VecDeque<Arc<Route>>,
    sums: HashMap<Term, Arc<Sum>>,
    /// How many periods the sums name.
    sum_periods: usize,
}

impl Routes {
    /// Plans an event that has just come in.
    pub fn plan(&mut self, board: &Board, event: Event, arrived_at: Timestamp) -> Plan {
        let instants = Instants::of(&event, arrived_at);
        let route = self.route(board, instants);
        Plan::new(board, event, instants, route)
    }

    /// The route of an event with these instants.
    pub fn route(&mut self, board: &Board, instants: Instants) -> Arc<Route> {
        let Instants { at, now, .. } = instants;
        let usable = |route: &&Arc<Route>| {
            route.at_ms.contains(&at.ms()) && route.now_ms.contains(&now.ms())
        };
        if let Some(route) = self.latest.iter().rev().find(usable) {
            return Arc::clone(route);
        }
        if self.latest.len() == ROUTES_MAX {
            self.latest.pop_front();
        }
        let route = Route::new(board, at, now, |term| self.sum(board, term));
        let route = Arc::new(route);
        self.latest.push_back(Arc::clone(&route));
        route
    }

    fn sum(&mut self, board: &Board, term: Term) -> Arc<Sum> {
        if let Some(sum) = self.sums.get(&term) {
            return Arc::clone(sum);
        }
        if self.sum_periods > SUM_PERIODS_MAX {
            self.sums.clear();
            self.sum_periods = 0;
        }
        let sum = Arc::new(Sum::new(board, term));
        self.sum_periods += sum.history.len() + sum.later.len();
        self.sums.insert(term, Arc::clone(&sum));
        sum
    }
}

/// How many amounts an event of the board has.
pub fn columns(board: &Board) -> usize {
    board.tracks().len() * (1 + board.definition.carryover.len())
}

impl Board {
    /// A member's score as it counts on a track; `None` if it is out of range.
    pub fn weighed(&self, member: &MemberId, score: Score, track: Track) -> Option<Score> {
        match (track, &self.definition.weight) {
            (Track::Shown, Some(weights)) => weights.weigh(member, score, self.definition.decimals),
            _ => Some(score),
        }
    }
}

/// What an event adds to standings, by [`Amount::column`].
fn amounts(board: &Board, event: &Event) -> Result<Vec<Score>, Rejection> {
    let definition = &board.definition;
    let mut amounts = Vec::with_capacity(columns(board));
    for track in board.tracks() {
        let score = board.weighed(&event.member, event.score, *track);
        let beyond = || Rejection::OutOfRange(definition.windows[0]);
        let score = score.ok_or_else(beyond)?;
        amounts.push(score);
        amounts.extend(definition.carryover.values().map(|ratio| ratio.of(score)));
    }
    Ok(amounts)
}

/// The time from which on an event of this instant is not in the future: a minute before, but no earlier than the beginning
/// of its period of a league, since no member has a seat before that.
pub fn due(board: &Board, at: Timestamp) -> Timestamp {
    let near_ms = at.ms().saturating_sub(FUTURE_MS_MAX);
    let period = board
        .league_unit()
        .map(|unit| board.calendar.containing(unit, at));
    Timestamp::from_ms_clamped(period.map_or(near_ms, |period| near_ms.max(period.start_ms)))
}

/// Why the board will never take events with this score and instant, if so.
fn reject(board: &Board, score: Score, at: Timestamp, came_in: Timestamp) -> Option<Rejection> {
    let definition = &board.definition;
    if let Some(rejection) = reject_in_league(board, at, came_in) {
        return Some(rejection);
    }
    if let AcceptLate::Within(span) = definition.accept_late
        && at.ms().saturating_add_unsigned(span.ms()) < came_in.ms()
    {
        return Some(Rejection::TooLate);
    }
    let too_early = definition.opens_at.is_some_and(|opens| at < opens);
    let closed = definition.closes_at.is_some_and(|closes| at >= closes);
    if too_early || closed {
        return Some(Rejection::BoardClosed);
    }
    (!definition.takes_score(score)).then_some(Rejection::ScoreBounds)
}

/// Refuses events of closed periods of a league: deciding a cohort requires that the clock has passed the end of the wait.
fn reject_in_league(board: &Board, at: Timestamp, came_in: Timestamp) -> Option<Rejection> {
    let period = board.calendar.containing(board.league_unit()?, at);
    let wait = board.definition.finalize?;
    let end = board.end_of(&period)?;
    (at < end && end.saturating_add(wait) <= came_in).then_some(Rejection::PeriodClosed(end))
}

impl Route {
    /// The route of events at `at`, while the clock is near `now`.
    fn new(
        board: &Board,
        at: Timestamp,
        now: Timestamp,
        mut sum: impl FnMut(Term) -> Arc<Sum>,
    ) -> Self {
        let mut route = Self {
            at_ms: i64::MIN..i64::MAX,
            now_ms: i64::MIN..i64::MAX,
            writes: Vec::new(),
            sums: Vec::new(),
            turnouts: Vec::new(),
            names: Vec::new(),
        };
        for window in &board.definition.windows {
            let name = StandingName::new(board, *window, at);
            route.names.push((*window, name));
        }
        for unit in board.recorded_units() {
            let period = board.calendar.containing(unit, at);
            route.at_ms = intersection(&route.at_ms, &period);
            for track in board.tracks() {
                route.add_period(board, period, *track);
            }
            if board.definition.uniques.is_some() {
                route.turnouts.push((period, board.kept_until_ms(&period)));
            }
        }
        for derived in board.derived() {
            let unit = derived.window.unit();
            let period = board.calendar.containing(unit, at);
            let running = board.calendar.containing(unit, now);
            route.now_ms = intersection(&route.now_ms, &running);
            let track = derived.series.track;
            let mut add = |period, carried| {
                let amount = Amount { track, carried };
                route.sums.push(sum((derived, period, running, amount)));
            };
            add(period, None);
            // Rolling windows don't count what is carried over.
            if derived.has_initial
                && let Some((carried, next)) = carried_to(board, &period)
            {
                add(next, Some(carried));
            }
        }
        route
    }

    /// The name of the standing of a window in which an event at this instant is reported.
    pub fn name(&self, board: &Board, window: Window, at: Timestamp) -> StandingName {
        let known = self.names.iter().find(|(known, _)| *known == window);
        match known.filter(|_| self.at_ms.contains(&at.ms())) {
            Some((_, name)) => name.clone(),
            // The outcome of a duplicate may be for another time, or for an older definition.
            None => StandingName::new(board, window, at),
        }
    }

    fn add_period(&mut self, board: &Board, period: Period, track: Track) {
        let unit = period.unit;
        let window = Window::Period(unit);
        let series = Series {
            list: List::Period(unit),
            track,
        };
        let base = board.base(unit, track);
        let mut write = |series, period, amount, reported| {
            let expires_at_ms = board.kept_until_ms(&period);
            let standing = Standing::of(series, period);
            self.writes.push(Write {
                standing,
                amount,
                reported,
                expires_at_ms,
            });
        };
        let is_shown = board.definition.windows.contains(&window)
            && series == board.series(window, Track::Shown);
        let amount = |carried| Amount { track, carried };
        write(series, period, amount(None), is_shown.then_some(window));
        if let Some((carried, next)) = carried_to(board, &period) {
            write(series, next, amount(Some(carried)), None);
        }
        if base != series && board.definition.rolls(unit) {
            write(base, period, amount(None), None);
        }
    }
}

/// The period to which a share of a period's scores is carried over, and the share's index in the board's `carryover`.
fn carried_to(board: &Board, period: &Period) -> Option<(usize, Period)> {
    let index = board
        .definition
        .carryover
        .keys()
        .position(|unit| *unit == period.unit)?;
    Some((index, board.calendar.next(period)?))
}

impl Sum {
    fn new(board: &Board, (derived, period, running, amount): Term) -> Self {
        let calendar = &board.calendar;
        let periods = derived.periods;
        let history = stretch(board, period, periods);
        let oldest = history.last().copied().unwrap_or(period);
        // No standing that contains the event ends later than N − 1 periods after it.
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
            derived,
            period,
            amount,
            is_reported: amount.carried.is_none()
                && derived.series == board.series(derived.window, Track::Shown),
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
    use super::super::event::Origin;
    use super::super::ids::{Label, MemberId};
    use super::super::quota::Dimension;
    use super::super::score::Decimals;
    use super::super::time::at;
    use super::*;

    fn event(score: i64, at: Timestamp) -> Event {
        Event {
            id: None,
            member: MemberId::parse("m").unwrap(),
            score: Score::from_scaled(score, Decimals::default()).unwrap(),
            at: Some(at),
            origin: Origin::default(),
            data: None,
        }
    }

    #[test]
    fn a_queued_event_is_late_by_its_time_of_queuing_and_uses_current_standings() {
        let board = Board::defined(r#"{"windows": ["day", "last-3-days"], "accept_late": "1h"}"#);
        let now = at("2026-11-22T11:00:00Z");
        let instants = |event, came_in| Instants {
            at: at(event),
            came_in: at(came_in),
            now,
        };
        let mut routes = Routes::default();
        let plan = |routes: &mut Routes, instants: Instants| {
            let event = Event {
                at: None,
                ..event(1, now)
            };
            let route = routes.route(&board, instants);
            Plan::new(&board, event, instants, route)
        };
        let taken = plan(
            &mut routes,
            instants("2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z"),
        );
        assert_eq!(taken.rejection, None);
        assert_eq!(taken.at, at("2026-11-21T11:00:00Z"));
        let sync = routes.plan(&board, event(1, taken.at), now);
        assert_eq!(sync.rejection, Some(Rejection::TooLate));
        assert!(Arc::ptr_eq(&sync.route, &taken.route));
        let late = plan(
            &mut routes,
            instants("2026-11-21T11:00:00Z", "2026-11-21T12:00:00.001Z"),
        );
        assert_eq!(late.rejection, Some(Rejection::TooLate));
        let early = plan(
            &mut routes,
            instants("2026-11-21T12:01:00.001Z", "2026-11-21T12:00:00Z"),
        );
        assert_eq!(early.rejection, Some(Rejection::InFuture));
    }

    #[test]
    fn an_event_counts_in_each_period_and_carries_its_share_over() {
        let board = Board::defined(
            r#"{"windows": ["day", "week", "all", "last-3-days"], "carryover": {"day": 0.2, "week": 0.5}}"#,
        );
        let now = at("2026-11-21T12:00:00Z");
        let plan = Routes::default().plan(&board, event(9, now), now);
        assert_eq!(plan.rejection, None);
        assert_eq!(
            plan.amounts
                .iter()
                .map(|score| score.scaled())
                .collect::<Vec<_>>(),
            [9, 1, 4]
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
                    write.amount.column(&board),
                    write.reported.is_some(),
                )
            })
            .collect();
        let [day, week, all] =
            [Unit::Day, Unit::Week, Unit::All].map(|unit| Series::shown(List::Period(unit)));
        let base = Series::shown(List::Base(Unit::Day));
        assert_eq!(
            writes,
            [
                (day, "2026-11-21".into(), 0, true),
                (day, "2026-11-22".into(), 1, false),
                (base, "2026-11-21".into(), 0, false),
                (week, "2026-11-16".into(), 0, true),
                (week, "2026-11-23".into(), 2, false),
                (all, "all".into(), 0, true),
            ]
        );
    }

    #[test]
    fn weights_count_on_the_shown_track_and_initial_scores_are_added_there() {
        let board = Board::defined(
            r#"{"windows": ["day", "last-2-days"], "weight": {"default": 2, "members": {"m": 3}}, "initial": ["day"], "carryover": {"day": 0.5}}"#,
        );
        let now = at("2026-11-21T12:00:00Z");
        let plan = Routes::default().plan(&board, event(5, now), now);
        let amounts: Vec<_> = plan.amounts.iter().map(|score| score.scaled()).collect();
        assert_eq!(amounts, [15, 7, 5, 2]);
        let raw: Vec<_> = plan
            .route
            .writes
            .iter()
            .filter(|write| write.standing.series.track == Track::Raw)
            .map(|write| (write.standing.series.list, write.amount.column(&board)))
            .collect();
        let (day, base) = (List::Period(Unit::Day), List::Base(Unit::Day));
        assert_eq!(raw, [(day, 2), (day, 3), (base, 2)]);
        assert!(
            plan.route
                .writes
                .iter()
                .all(|write| write.reported.is_none())
        );
        let sums: Vec<_> = plan
            .route
            .sums
            .iter()
            .map(|sum| {
                let key = board.calendar.key(&sum.period);
                (
                    sum.derived.series,
                    key,
                    sum.amount.column(&board),
                    sum.is_reported,
                )
            })
            .collect();
        let initial = Series::shown(List::Initial(Unit::Day));
        let rolling = List::Rolling("last-2-days".parse().unwrap());
        let track = Track::Raw;
        assert_eq!(
            sums,
            [
                (initial, "2026-11-21".into(), 0, true),
                (initial, "2026-11-22".into(), 1, false),
                (Series::shown(rolling), "2026-11-21".into(), 0, true),
                (
                    Series {
                        list: rolling,
                        track
                    },
                    "2026-11-21".into(),
                    2,
                    false
                ),
            ]
        );

        let too_much = Routes::default().plan(&board, event(1 << 52, now), now);
        let beyond = Rejection::OutOfRange(Window::Period(Unit::Day));
        assert_eq!(too_much.rejection, Some(beyond));
    }

    #[test]
    fn a_rolling_window_has_its_history_and_later_periods() {
        let board = Board::defined(r#"{"windows": ["last-3-days"], "accept_late": "any"}"#);
        let now = at("2026-11-21T12:00:00Z");
        let keys = |periods: &[Period]| -> Vec<String> {
            periods
                .iter()
                .map(|period| board.calendar.key(period))
                .collect()
        };
        let sum = |text| {
            let instants = Instants {
                at: at(text),
                came_in: now,
                now,
            };
            Routes::default().route(&board, instants).sums[0].clone()
        };

        let today = sum("2026-11-21T00:00:00Z");
        assert_eq!(
            keys(&today.history),
            ["2026-11-21", "2026-11-20", "2026-11-19"]
        );
        assert_eq!(keys(&today.later), ["2026-11-22"]);
        assert!(!today.is_past);

        let late = sum("2026-11-19T23:59:59Z");
        assert_eq!(keys(&late.later), ["2026-11-21", "2026-11-20"]);
        assert!(late.is_past);
        assert!(keys(&sum("2026-11-01T00:00:00Z").later) == ["2026-11-03", "2026-11-02"]);
    }

    #[test]
    fn events_of_the_same_periods_share_a_route_until_the_clock_passes_a_boundary() {
        let board = Board::defined(r#"{"windows": ["hour", "day", "last-7-days"]}"#);
        let mut routes = Routes::default();
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
    fn a_temporary_obstacle_is_reported_only_without_a_permanent_one() {
        let board = Board::defined(
            r#"{"windows": ["all"], "score_max": 9, "closes_at": "2026-11-22T00:00:00Z",
                "quotas": [{"name": "q", "by": ["voter"], "window": "day", "max": 9}]}"#,
        );
        let now = at("2026-11-21T23:58:59.998Z");
        let verdict = |score: i64, when: &str, voter: Option<&str>| {
            let mut event = event(score, at(when));
            event.origin.voter = voter.map(|voter| Label::parse(voter).unwrap());
            Routes::default().plan(&board, event, now).rejection
        };
        let early = "2026-11-21T23:59:59.999Z";
        assert_eq!(verdict(9, "2026-11-21T23:59:59.998999Z", Some("v")), None);
        for (score, when, voter, rejection) in [
            (9, early, Some("v"), Rejection::InFuture),
            (9, early, None, Rejection::Missing(Dimension::Voter)),
            (10, early, Some("v"), Rejection::ScoreBounds),
            (9, "2026-11-22T00:00:00Z", Some("v"), Rejection::BoardClosed),
        ] {
            assert_eq!(verdict(score, when, voter), Some(rejection), "{when}");
        }
    }

    #[test]
    fn an_event_is_due_a_minute_before_it_happens_but_in_its_period_of_a_league() {
        let anywhere = Board::defined(r#"{"windows": ["day"]}"#);
        let league = Board::defined(
            r#"{"windows": ["day"], "score_min": 0,
                "league": {"tiers": [{"name": "a", "promote": 0, "demote": 0}]}}"#,
        );
        let due = |board: &Board, when: &str| due(board, at(when)).to_string();
        assert_eq!(
            due(&anywhere, "2026-11-21T00:00:59.5Z"),
            "2026-11-20T23:59:59.500Z"
        );
        assert_eq!(
            due(&league, "2026-11-21T00:00:59.5Z"),
            "2026-11-21T00:00:00.000Z"
        );
        assert_eq!(
            due(&league, "2026-11-21T00:01:00.5Z"),
            "2026-11-21T00:00:00.500Z"
        );
    }

    #[test]
    fn a_score_outside_the_bounds_is_refused() {
        let board = Board::defined(
            r#"{"windows": ["all"], "decimals": 1, "score_min": -0.5, "score_max": 3}"#,
        );
        let now = at("2026-11-21T00:00:00Z");
        let verdict = |scaled| reject(&board, Score::from_stored(scaled), now, now);
        assert_eq!((verdict(-5), verdict(30)), (None, None));
        assert_eq!(verdict(-6), Some(Rejection::ScoreBounds));
        assert_eq!(verdict(31), Some(Rejection::ScoreBounds));
    }

    #[test]
    fn an_event_is_accepted_by_its_time() {
        let board = Board::defined(
            r#"{"windows": ["all"], "opens_at": "2026-11-20T00:00:00Z", "closes_at": "2026-11-22T00:00:00Z"}"#,
        );
        let score = Score::from_stored(1);
        let verdict = |when: &str, now: &str| reject(&board, score, at(when), at(now));
        assert_eq!(
            verdict("2026-11-21T00:01:00Z", "2026-11-21T00:00:00Z"),
            None
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
            Some(Rejection::BoardClosed)
        );
        assert_eq!(
            verdict("2026-11-22T00:00:00Z", "2026-11-22T00:00:00Z"),
            Some(Rejection::BoardClosed)
        );
    }
}
