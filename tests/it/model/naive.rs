//! The naive model: a board keeps every event that it has taken, and a standing is a filter and a fold over
//! them. It is written from the contract alone, and shares no code with the service.
//!
//! All times are milliseconds since the epoch, and all scores are in the smallest unit of their board.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use chrono::{DateTime, Datelike, Offset, TimeZone, Utc};
use chrono_tz::Tz;
use serde_json::Value;

use super::finals::{Final, Rule};

/// How many microseconds a millisecond has.
pub const US: i64 = 1_000;
/// The greatest whole number, 2^53 − 1.
pub const SCORE_MAX: i64 = 9_007_199_254_740_991;
const MINUTE: i64 = 60_000;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;
/// Longer than half the time that any test is about: [`Board::start`] looks so far around 2026.
const LONG: i64 = 1 << 41;
/// 1900, when scores were reached that were there from the beginning of `all`.
const BEGINNING: i64 = -2_208_988_800_000;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    All,
    Season,
}

impl Unit {
    pub const EACH: [Self; 8] = [
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Year,
        Self::All,
        Self::Season,
    ];
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Window {
    Period(Unit),
    /// The last so many periods.
    Rolling(Unit, i64),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Update {
    Sum,
    Max,
    Min,
    Last,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ties {
    First,
    Last,
    Member,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ranking {
    Ordinal,
    Competition,
    Dense,
}

#[derive(Clone, Debug)]
pub struct Board {
    pub update: Update,
    pub descending: bool,
    pub decimals: u32,
    pub ties: Ties,
    pub ranking: Ranking,
    pub zone: Tz,
    /// 0 is Monday.
    pub week_start: i64,
    pub season_start: i64,
    pub season_length: i64,
    pub windows: Vec<Window>,
    /// In millionths.
    pub carryover: BTreeMap<Unit, i64>,
    /// `None` for any age.
    pub accept_late: Option<i64>,
    pub score_min: Option<i64>,
    /// In whole points.
    pub score_max: Option<i64>,
    pub quotas: Vec<Quota>,
    pub weight: Option<Weight>,
    /// Whose standings open with the initial scores.
    pub initial: Vec<Unit>,
    pub uniques: Option<Uniques>,
    /// How many members of a standing are listed; `None` for all.
    pub keep_top: Option<usize>,
    /// Shows nowhere.
    pub shards: u16,
    /// Whose standings expire, after more years than a case has.
    pub retention: Vec<Unit>,
    /// Whether its entries have data.
    pub entry_data: bool,
    /// Whether its periods are closed.
    pub finalizes: bool,
    /// How long closings wait for queued events, in milliseconds; `None`: until all are applied.
    pub max_delay: Option<i64>,
    /// What members win in final periods.
    pub rewards: Vec<Rule>,
    /// For how many ms it keeps its events, [`i64::MAX`] as long as it exists. Shows in no standing.
    pub history: Option<i64>,
}

impl Board {
    /// A board that adds up events of any age in these windows, and has nothing else.
    pub fn of(windows: Vec<Window>) -> Self {
        Self {
            update: Update::Sum,
            descending: true,
            decimals: 0,
            ties: Ties::First,
            ranking: Ranking::Ordinal,
            zone: Tz::UTC,
            week_start: 0,
            season_start: 0,
            season_length: DAY,
            windows,
            carryover: BTreeMap::new(),
            accept_late: None,
            score_min: None,
            score_max: None,
            quotas: Vec::new(),
            weight: None,
            initial: Vec::new(),
            uniques: None,
            keep_top: None,
            shards: 1,
            retention: Vec::new(),
            entry_data: false,
            finalizes: false,
            max_delay: None,
            rewards: Vec::new(),
            history: None,
        }
    }
}

/// What the scores of these members, and of all others, are multiplied by.
#[derive(Clone, Debug)]
pub struct Weight {
    pub default: i64,
    pub members: BTreeMap<String, i64>,
}

/// Where different voters are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Uniques {
    Board,
    /// And for each member.
    Member,
}

/// How much is taken of events with the same voter, the same member, or both.
#[derive(Clone, Debug)]
pub struct Quota {
    pub by_voter: bool,
    pub by_member: bool,
    pub window: QuotaWindow,
    pub max: i64,
    /// Whether scores without their signs are counted, rather than events.
    pub counts_points: bool,
    pub extra: Vec<Extra>,
}

/// An allowance on top, for events of some channels.
#[derive(Clone, Debug)]
pub struct Extra {
    pub channels: Vec<String>,
    pub max: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QuotaWindow {
    /// Every stretch of so many milliseconds.
    Sliding(i64),
    Period(Unit),
    Total,
}

/// An event as it is sent; two are the same content if they are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub member: String,
    /// `None` for a number that is no score of the board.
    pub score: Option<i64>,
    pub at: Option<i64>,
    pub voter: Option<String>,
    pub channel: Option<String>,
    /// In the canonical form.
    pub data: Option<&'static str>,
}

/// An event that was taken.
#[derive(Clone, Debug)]
struct Taken {
    event: Event,
    score: i64,
    /// What it counts for, in microseconds since the epoch; everything else here is in milliseconds.
    at: i64,
    /// The period that it lies in, for each unit.
    periods: [i64; 8],
    /// What it took from, of each quota: 0 is its `max`, and then come its extra allowances.
    pools: Vec<usize>,
    /// What its answer said of the standings, as a duplicate has to repeat it.
    standings: Value,
    /// The data with which it counts, and its score when it was taken, of which quotas are used.
    data: Option<&'static str>,
    charged: i64,
    /// Whether it counts no more: it was retracted, or a revocation in force covers it.
    is_out: bool,
    /// Whether its board certainly keeps it.
    is_kept: bool,
    /// Whether its member was erased since: it counts for quotas and turnouts alone, and for the line that its member has left.
    is_erased: bool,
    left: Option<Line>,
}

/// Stands in the name of a line that has outlived its member.
pub const NAMELESS: char = '\u{1e}';

/// A line that a member who was erased has left in final standings.
#[derive(Clone, Debug)]
struct Line {
    /// Where it sorts.
    name: String,
    /// Up to when periods were closed.
    closed_until: i64,
}

/// A member's score, when it was reached, and the data of the event with which it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Score {
    pub value: i64,
    /// In microseconds since the epoch.
    pub at: i64,
    /// Whether nothing but zeros was added up: they reach nothing, so they give it a time only until something else does.
    pub is_of_zeros: bool,
    pub data: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    /// `None` where it is not listed.
    pub rank: Option<usize>,
    pub member: String,
    pub score: Score,
}

/// What has to become of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Taken,
    /// It was taken before for this instant, and this was said of the standings.
    Duplicate(i64, Value),
    /// The name of the problem.
    Rejected(&'static str),
}

impl Window {
    pub fn unit(self) -> Unit {
        let (Self::Period(unit) | Self::Rolling(unit, _)) = self;
        unit
    }

    /// How many periods it shows.
    pub fn length(self) -> i64 {
        match self {
            Self::Period(_) => 1,
            Self::Rolling(_, count) => count,
        }
    }
}

impl Taken {
    /// The millisecond in which it lies.
    fn ms(&self) -> i64 {
        self.at.div_euclid(US)
    }

    /// Whether it still counts for its member.
    fn counts(&self) -> bool {
        !self.is_erased && !self.is_out
    }

    /// Whether it happened in a standing's periods.
    fn lies_in(&self, window: Window, period: i64) -> bool {
        let own = self.periods[window.unit() as usize];
        (own..own + window.length()).contains(&period)
    }
}

/// Periods are numbered, in each unit, in the order of time.
impl Board {
    /// The period that an instant lies in: by its local date, which never goes back in the zones of the tests.
    pub fn period(&self, unit: Unit, at: i64) -> i64 {
        let local = self.zone.timestamp_millis_opt(at).unwrap();
        // Day 1 is a Monday.
        let day = i64::from(local.num_days_from_ce());
        let year = i64::from(local.year());
        match unit {
            Unit::Minute => at.div_euclid(MINUTE),
            // The clocks change by whole hours in the zones of the tests that look at hours.
            Unit::Hour => (at + 1000 * i64::from(local.offset().fix().local_minus_utc()) % HOUR)
                .div_euclid(HOUR),
            Unit::Day => day,
            Unit::Week => (day - 1 - self.week_start).div_euclid(7),
            Unit::Month => year * 12 + i64::from(local.month0()),
            Unit::Year => year,
            Unit::All => 0,
            Unit::Season => (at - self.season_start).div_euclid(self.season_length),
        }
    }

    /// The first instant of a period; `all` has none.
    pub fn start(&self, unit: Unit, period: i64) -> Option<i64> {
        let mut before = 1_800_000_000_000 - LONG;
        let mut not_before = 1_800_000_000_000 + LONG;
        while not_before - before > 1 {
            let middle = before.midpoint(not_before);
            if self.period(unit, middle) < period {
                before = middle;
            } else {
                not_before = middle;
            }
        }
        (unit != Unit::All).then_some(not_before)
    }

    pub fn key(&self, unit: Unit, period: i64) -> String {
        let Some(start) = self.start(unit, period) else {
            return "all".to_owned();
        };
        let local = self.zone.timestamp_millis_opt(start).unwrap();
        match unit {
            Unit::Day | Unit::Week => local.format("%Y-%m-%d").to_string(),
            Unit::Month => local.format("%Y-%m").to_string(),
            Unit::Year => local.format("%Y").to_string(),
            _ => utc(start).format("%Y-%m-%dT%H:%MZ").to_string(),
        }
    }

    /// Whether a window's standings are built when their time comes, so that there is none beyond the next period.
    pub fn is_built(&self, window: Window) -> bool {
        match window {
            Window::Rolling(..) => true,
            Window::Period(unit) => self.initial.contains(&unit),
        }
    }

    /// The greatest score: a whole number is exact up to 2^53 − 1, one with decimals with up to 15 digits.
    pub fn greatest(&self) -> i64 {
        if self.decimals == 0 {
            SCORE_MAX
        } else {
            999_999_999_999_999
        }
    }

    /// A point in the smallest unit.
    pub fn point(&self) -> i64 {
        10_i64.pow(self.decimals)
    }

    fn weight(&self, member: &str) -> i64 {
        let of_member = |weight: &Weight| *weight.members.get(member).unwrap_or(&weight.default);
        self.weight.as_ref().map_or(1, of_member)
    }
}

pub fn utc(at: i64) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(at).unwrap()
}

#[derive(Clone, Debug)]
pub struct Model {
    pub board: Board,
    taken: Vec<Taken>,
    initial_scores: BTreeMap<String, i64>,
    closings: Vec<Closing>,
    /// Since when its periods are closed.
    finalizes_since: i64,
    /// The results of periods that ended since then, and were not empty.
    pub(super) finals: BTreeMap<(Unit, i64), Final>,
    /// When members were erased last.
    erased: BTreeMap<String, i64>,
    /// How many were.
    lines: usize,
    /// Those whom no standing shows.
    hidden: BTreeSet<String>,
    /// Whether no history of it was ever turned off.
    keeps_all: bool,
    /// The events that were retracted.
    retracted: BTreeSet<usize>,
    /// The events that its revocations cover, and whether these are in force.
    revocations: Vec<(BTreeSet<usize>, bool)>,
}

/// An event that may be corrected.
#[derive(Clone, Debug)]
pub struct Correctable {
    pub number: usize,
    pub id: String,
    pub member: String,
    pub score: i64,
    pub is_kept: bool,
}

/// What counts for the periods that a closing has closed.
#[derive(Clone, Debug)]
struct Closing {
    /// They end up to this instant.
    until: i64,
    initial_scores: BTreeMap<String, i64>,
    ranking: Ranking,
    rewards: Vec<Rule>,
}

impl Model {
    pub fn new(board: Board) -> Self {
        Self {
            board,
            taken: Vec::new(),
            initial_scores: BTreeMap::new(),
            closings: Vec::new(),
            finalizes_since: i64::MAX,
            finals: BTreeMap::new(),
            erased: BTreeMap::new(),
            lines: 0,
            hidden: BTreeSet::new(),
            keeps_all: true,
            retracted: BTreeSet::new(),
            revocations: Vec::new(),
        }
    }

    /// The same with results of the periods that end after an instant.
    pub fn with_results_since(self, finalizes_since: i64) -> Self {
        Self {
            finalizes_since,
            ..self
        }
    }

    /// The raw track: the same events on the board without weights and initial scores.
    pub fn raw(&self) -> Self {
        let mut raw = self.clone();
        raw.board.weight = None;
        raw.board.initial.clear();
        raw
    }

    /// The instants of all events that were taken.
    pub fn instants(&self) -> impl Iterator<Item = i64> {
        self.taken.iter().map(Taken::ms)
    }

    /// What the latest event counts for, in microseconds since the epoch.
    pub fn latest_at(&self) -> i64 {
        self.taken.last().unwrap().at
    }

    /// The events that happened in a standing's periods.
    fn events(&self, window: Window, period: i64) -> impl Iterator<Item = &Taken> {
        let events = self.taken.iter();
        events.filter(move |taken| taken.lies_in(window, period))
    }

    pub fn event_count(&self, window: Window, period: i64) -> usize {
        let events = self.events(window, period);
        events.filter(|taken| !taken.is_out).count()
    }

    /// How many different voters there are, for one member or for all.
    pub fn voter_count(&self, window: Window, period: i64, member: Option<&str>) -> usize {
        self.events(window, period)
            .filter(|taken| {
                member.is_none_or(|member| taken.event.member == member && !taken.is_erased)
            })
            .filter_map(|taken| taken.event.voter.as_ref())
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// What an event adds to a standing, or sets there; `None` if it is no part of it.
    fn amount(&self, taken: &Taken, window: Window, period: i64) -> Option<i64> {
        let score = taken.score * self.board.weight(&taken.event.member);
        if taken.lies_in(window, period) {
            return Some(score);
        }
        match window {
            Window::Period(unit) if taken.lies_in(window, period - 1) => {
                let millionths = i128::from(*self.board.carryover.get(&unit)?);
                let carried = (i128::from(score) * millionths).div_euclid(1_000_000);
                Some(i64::try_from(carried).unwrap())
            }
            _ => None,
        }
    }

    fn merge(&self, kept: Score, new: Score) -> Score {
        match self.board.update {
            Update::Sum => Score {
                value: kept.value + new.value,
                ..std::cmp::max_by_key(kept, new, |score| {
                    let at = if score.is_of_zeros {
                        -score.at
                    } else {
                        score.at
                    };
                    (!score.is_of_zeros, at, score.data)
                })
            },
            Update::Max => std::cmp::max_by_key(kept, new, |score| {
                (score.value, Reverse(score.at), score.data)
            }),
            Update::Min => std::cmp::min_by_key(kept, new, |score| {
                (score.value, score.at, Reverse(score.data))
            }),
            Update::Last => std::cmp::max_by_key(kept, new, |score| {
                let goodness = if self.board.descending {
                    score.value
                } else {
                    -score.value
                };
                (score.at, goodness, score.data)
            }),
        }
    }

    pub(super) fn scores(&self, window: Window, period: i64) -> BTreeMap<&str, Score> {
        let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
        for taken in self.taken.iter().filter(|taken| !taken.is_out) {
            let left = taken
                .left
                .as_ref()
                .filter(|line| self.is_kept(window, period, line.closed_until));
            let (member, data) = match left {
                Some(line) => (&line.name, None),
                None if taken.counts() => (&taken.event.member, taken.data),
                None => continue,
            };
            if let Some(value) = self.amount(taken, window, period) {
                let new = Score {
                    value,
                    at: taken.at,
                    is_of_zeros: value == 0 && self.board.update == Update::Sum,
                    data,
                };
                scores
                    .entry(member)
                    .and_modify(|kept| *kept = self.merge(*kept, new))
                    .or_insert(new);
            }
        }
        match window {
            Window::Rolling(..) => scores.retain(|_, score| score.value != 0),
            Window::Period(unit) if self.board.initial.contains(&unit) => {
                let at = US * self.board.start(unit, period).unwrap_or(BEGINNING);
                for (member, value) in self.initial_scores_of(unit, period) {
                    let nothing = Score {
                        value: 0,
                        at,
                        is_of_zeros: true,
                        data: None,
                    };
                    let score = scores.entry(member).or_insert(nothing);
                    if score.is_of_zeros {
                        *score = nothing;
                    }
                    score.value += value;
                }
            }
            Window::Period(_) => {}
        }
        scores
    }

    /// Whether a standing keeps the lines of those who were erased when periods were closed up to an instant: a final one of a
    /// period that a window shows.
    fn is_kept(&self, window: Window, period: i64, closed_until: i64) -> bool {
        let Window::Period(unit) = window else {
            return false;
        };
        let end = self.board.start(unit, period + 1);
        self.board.windows.contains(&window) && end.is_some_and(|end| end <= closed_until)
    }

    /// The closing of a period, if it is closed.
    fn closing_of(&self, unit: Unit, period: i64) -> Option<&Closing> {
        let end = self.board.start(unit, period + 1)?;
        self.closings.iter().find(|closing| end <= closing.until)
    }

    /// The initial scores that a period counts.
    fn initial_scores_of(&self, unit: Unit, period: i64) -> &BTreeMap<String, i64> {
        let closing = self.closing_of(unit, period);
        closing.map_or(&self.initial_scores, |closing| &closing.initial_scores)
    }

    /// How ranks count in a period.
    pub fn ranking_of(&self, unit: Unit, period: i64) -> Ranking {
        let closing = self.closing_of(unit, period);
        closing.map_or(self.board.ranking, |closing| closing.ranking)
    }

    /// What members win in a period.
    pub fn rules_of(&self, unit: Unit, period: i64) -> &[Rule] {
        let closing = self.closing_of(unit, period);
        closing.map_or(&self.board.rewards, |closing| &closing.rewards)
    }

    /// Closes all periods that end up to this instant.
    pub fn close(&mut self, until: i64) {
        if self.closed_until() >= until {
            return;
        }
        self.closings.push(Closing {
            until,
            initial_scores: self.initial_scores.clone(),
            ranking: self.board.ranking,
            rewards: self.board.rewards.clone(),
        });
        for (unit, period) in self.periods_with_events() {
            let end = self.board.start(unit, period + 1);
            let is_final = end.is_some_and(|end| self.finalizes_since < end && end <= until);
            if is_final && !self.finals.contains_key(&(unit, period)) {
                let result = self.result_of(unit, period);
                self.finals.insert((unit, period), result);
            }
        }
    }

    /// Counts an event that a closing did not wait for in the results of its periods.
    pub fn cut_off(&mut self, at: i64) {
        let board = &self.board;
        for ((unit, period), result) in &mut self.finals {
            result.cut_off += usize::from(board.period(*unit, at) == *period);
        }
    }

    /// The periods of windows in which a member has a score by an event.
    fn periods_with_events(&self) -> BTreeSet<(Unit, i64)> {
        let mut periods = BTreeSet::new();
        for window in &self.board.windows {
            let Window::Period(unit) = *window else {
                continue;
            };
            for taken in self.taken.iter().filter(|taken| taken.counts()) {
                let own = taken.periods[unit as usize];
                let near = (own..=own + 1).map(|period| (unit, period));
                periods.extend(
                    near.filter(|(_, period)| self.amount(taken, *window, *period).is_some()),
                );
            }
        }
        periods
    }

    /// No event that lies before this instant is taken any more.
    /// Up to when its periods are closed, in ms.
    pub fn closed_until(&self) -> i64 {
        self.closings
            .last()
            .map_or(i64::MIN, |closing| closing.until)
    }

    /// What had ended by then gets no result, and is not closed alone.
    pub fn finalizes_since(&self) -> i64 {
        self.finalizes_since
    }

    /// Whether a period that ends at this instant becomes final.
    fn is_closing(&self, end: i64) -> bool {
        self.board.finalizes && self.finalizes_since < end
    }

    /// How far a period has come at this time.
    pub fn state(&self, unit: Unit, period: i64, now: i64) -> &'static str {
        match self.board.start(unit, period + 1) {
            Some(end) if end <= self.closed_until() => "final",
            Some(end) if end <= now && self.is_closing(end) => "closing",
            Some(end) if end <= now => "ended",
            _ if self
                .board
                .start(unit, period)
                .is_some_and(|start| now < start) =>
            {
                "upcoming"
            }
            _ => "live",
        }
    }

    /// A member's score, listed or not.
    pub fn score(&self, window: Window, period: i64, member: &str) -> Option<Score> {
        self.scores(window, period).get(member).copied()
    }

    /// Hides a member, or brings it back; returns whether that is new.
    pub fn set_hidden(&mut self, member: &str, is_hidden: bool) -> bool {
        let is_new = if is_hidden {
            self.hidden.insert(member.to_owned())
        } else {
            self.hidden.remove(member)
        };
        for result in self.finals.values_mut().filter(|_| is_new) {
            result.note(member, is_hidden);
        }
        is_new
    }

    /// Whether a member is hidden.
    pub fn is_hidden(&self, member: &str) -> bool {
        self.hidden.contains(member)
    }

    /// Who is hidden, in the order of their bytes.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        self.hidden.iter().map(String::as_str)
    }

    /// Whether a member was ever erased.
    pub fn was_erased(&self, member: &str) -> bool {
        self.erased.contains_key(member)
    }

    /// Whether any member was ever erased.
    pub fn has_erased(&self) -> bool {
        !self.erased.is_empty()
    }

    /// A standing, first rank first, and those behind its end.
    pub fn standing(&self, window: Window, period: i64) -> Vec<Entry> {
        // Where it sorts: a score that is better is smaller.
        let better = |score: Score| {
            if self.board.descending {
                -score.value
            } else {
                score.value
            }
        };
        let tie = |score: Score| match self.board.ties {
            Ties::First => score.at,
            Ties::Last => -score.at,
            Ties::Member => 0,
        };
        let mut scores: Vec<(&str, Score)> = self.scores(window, period).into_iter().collect();
        scores.retain(|(member, _)| !self.hidden.contains(*member));
        scores.sort_by_key(|(member, score)| (better(*score), tie(*score), member.as_bytes()));
        let ahead = |score: Score| {
            scores
                .iter()
                .map(|(_, other)| better(*other))
                .filter(move |other| *other < better(score))
        };
        let rank = |place: usize, score: Score| match self.ranking_of(window.unit(), period) {
            Ranking::Ordinal => place,
            Ranking::Competition => 1 + ahead(score).count(),
            Ranking::Dense => 1 + ahead(score).collect::<BTreeSet<_>>().len(),
        };
        let is_listed = |place: usize| self.board.keep_top.is_none_or(|top| place <= top);
        (1..)
            .zip(&scores)
            .map(|(place, (member, score))| Entry {
                rank: is_listed(place).then(|| rank(place, *score)),
                member: (*member).to_owned(),
                score: *score,
            })
            .collect()
    }

    /// Sets initial scores, or takes them away; returns how many there are now.
    pub fn set_initial_scores(&mut self, scores: BTreeMap<String, Option<i64>>) -> usize {
        for (member, score) in scores {
            match score {
                Some(score) => self.initial_scores.insert(member, score),
                None => self.initial_scores.remove(&member),
            };
        }
        self.initial_scores.len()
    }

    /// The initial scores that are listed, best first.
    pub fn initial_scores(&self) -> Vec<(&str, i64)> {
        let mut scores: Vec<(&str, i64)> = self
            .initial_scores
            .iter()
            .map(|(member, score)| (member.as_str(), *score))
            .collect();
        scores.sort_by_key(|(member, score)| {
            let stored = if self.board.descending {
                -score
            } else {
                *score
            };
            (stored, *member)
        });
        scores.truncate(self.board.keep_top.unwrap_or(usize::MAX));
        scores
    }

    /// What has to become of an event that comes in now; if it is to be taken, it is. One without an instant counts for the one that its
    /// answer has reported, in microseconds: what counts is that it is a time of now.
    pub fn take(&mut self, event: &Event, now: i64, reported_at: Option<i64>) -> Verdict {
        let Some(score) = event.score else {
            return Verdict::Rejected("score-out-of-range");
        };
        let same_id = |taken: &&Taken| event.id.is_some() && taken.event.id == event.id;
        if let Some(first) = self.taken.iter().find(same_id) {
            return if first.event == *event {
                Verdict::Duplicate(first.at, first.standings.clone())
            } else {
                Verdict::Rejected("event-id-reused")
            };
        }
        let closed_until = self.closed_until();
        let now = match event.at {
            // It comes in after the closing, whatever the clock shows.
            None => now.max(closed_until),
            Some(_) => now,
        };
        let at_us = match (event.at, reported_at) {
            (Some(at), _) => US * at,
            (None, Some(at)) if at % US == 0 || !(now..now + 1_000).contains(&(at / US)) => {
                return Verdict::Rejected("the time that was reported is not that of now");
            }
            (None, Some(at)) => at,
            (None, None) => US * now,
        };
        let at = at_us.div_euclid(US);
        if at < closed_until {
            return Verdict::Rejected("period-closed");
        }
        if self.board.accept_late.is_some_and(|age| at < now - age) {
            return Verdict::Rejected("event-too-late");
        }
        let max = self.board.score_max.map(|max| max * self.board.point());
        let weighted = i128::from(score) * i128::from(self.board.weight(&event.member));
        if self.board.score_min.is_some_and(|min| score < min)
            || max.is_some_and(|max| score > max)
            || weighted.abs() > self.board.greatest().into()
        {
            return Verdict::Rejected("score-out-of-range");
        }
        if event.voter.is_none() && self.board.quotas.iter().any(|quota| quota.by_voter) {
            return Verdict::Rejected("validation-failed");
        }
        if at > now + MINUTE {
            return Verdict::Rejected("event-in-future");
        }
        let is_erased = |erased_at: &i64| event.at.is_some_and(|at| at <= *erased_at);
        if self.erased.get(&event.member).is_some_and(is_erased) {
            return Verdict::Rejected("member-erased");
        }
        self.add(event, score, at_us);
        if self.is_out_of_range() {
            self.taken.pop();
            return Verdict::Rejected("score-out-of-range");
        }
        let Some(pools) = self.pools() else {
            self.taken.pop();
            return Verdict::Rejected("quota-exceeded");
        };
        self.taken.last_mut().unwrap().pools = pools;
        Verdict::Taken
    }

    /// Takes an event of an instant in microseconds, whatever the board's bounds and quotas say.
    pub fn add(&mut self, event: &Event, score: i64, at: i64) {
        let periods = Unit::EACH.map(|unit| self.board.period(unit, at.div_euclid(US)));
        self.taken.push(Taken {
            event: event.clone(),
            score,
            at,
            periods,
            pools: Vec::new(),
            standings: Value::Null,
            data: event.data,
            charged: score,
            is_out: false,
            is_kept: self.keeps_certainly() && self.board.history == Some(i64::MAX),
            is_erased: false,
            left: None,
        });
    }

    /// Adds an event, unless something refuses it that is no matter of time or quotas.
    pub fn amend(&mut self, event: &Event, now: i64) -> Verdict {
        if self.board.history.is_none() || self.board.keep_top.is_some() {
            return Verdict::Rejected("history-off");
        }
        let (Some(score), Some(at)) = (event.score, event.at) else {
            return Verdict::Rejected("score-out-of-range");
        };
        let max = self.board.score_max.map(|max| max * self.board.point());
        let weighted = i128::from(score) * i128::from(self.board.weight(&event.member));
        if at > now + MINUTE {
            return Verdict::Rejected("event-in-future");
        }
        if self.board.score_min.is_some_and(|min| score < min)
            || max.is_some_and(|max| score > max)
            || weighted.abs() > self.board.greatest().into()
        {
            return Verdict::Rejected("score-out-of-range");
        }
        if self
            .erased
            .get(&event.member)
            .is_some_and(|erased| at <= *erased)
        {
            return Verdict::Rejected("member-erased");
        }
        self.add(event, score, US * at);
        self.taken.last_mut().unwrap().pools = vec![usize::MAX; self.board.quotas.len()];
        Verdict::Taken
    }

    /// Takes the latest event back.
    pub fn take_back(&mut self) {
        self.taken.pop();
    }

    /// Whether accepted events certainly get rows.
    pub fn keeps_certainly(&self) -> bool {
        self.keeps_all && self.board.history.is_some() && self.board.keep_top.is_none()
    }

    /// Whether an instant is in a closed period.
    pub fn is_closed_at(&self, at: i64) -> bool {
        at < self.closed_until()
    }

    /// Keeps its events for another time from now on, or no longer.
    pub fn keep(&mut self, history: Option<i64>) {
        self.board.history = history;
        // The end of a history takes until its job has run, and until then no other one begins.
        self.keeps_all &= history.is_some();
        if history != Some(i64::MAX) {
            for taken in &mut self.taken {
                taken.is_kept = false;
            }
        }
    }

    /// The events that may be corrected: with ids, of members that were not erased, and in no closed period; for each its number,
    /// id, member and score, and whether the board certainly keeps it.
    pub fn correctable(&self) -> Vec<Correctable> {
        let until = self.closed_until();
        let is_open = |taken: &Taken| {
            let mut units = self.board.windows.iter().map(|window| window.unit());
            units.all(|unit| {
                let end = self.board.start(unit, taken.periods[unit as usize] + 1);
                end.is_none_or(|end| end > until)
            })
        };
        let found =
            self.taken.iter().enumerate().filter(|(_, taken)| {
                taken.event.id.is_some() && !taken.is_erased && is_open(taken)
            });
        let correctable = |(number, taken): (usize, &Taken)| Correctable {
            number,
            id: taken.event.id.clone().unwrap(),
            member: taken.event.member.clone(),
            score: taken.score,
            is_kept: taken.is_kept,
        };
        found.map(correctable).collect()
    }

    /// Retracts an event, or has it count again.
    pub fn set_out(&mut self, number: usize, is_out: bool) {
        if is_out {
            self.retracted.insert(number);
        } else {
            self.retracted.remove(&number);
        }
        self.count_out();
    }

    /// Which events are out now.
    fn count_out(&mut self) {
        for (number, taken) in self.taken.iter_mut().enumerate() {
            let revoked = |(covered, in_force): &(BTreeSet<usize>, bool)| {
                *in_force && covered.contains(&number)
            };
            taken.is_out = self.retracted.contains(&number) || self.revocations.iter().any(revoked);
        }
    }

    /// The events that a revocation covers which covers those that match and count for this instant (ms) or a later one; `None` if
    /// a period of them is closed, or it is not certain that all are kept.
    pub fn revocable(
        &self,
        since: i64,
        matches: impl Fn(usize, &Event) -> bool,
    ) -> Option<BTreeSet<usize>> {
        let found = self.taken.iter().enumerate().filter(|(number, taken)| {
            taken.ms() >= since && !taken.is_erased && matches(*number, &taken.event)
        });
        let found: BTreeSet<usize> = found.map(|(number, _)| number).collect();
        self.may_change(&found).then_some(found)
    }

    /// Whether all of these events are kept for certain, and no period of them is closed.
    fn may_change(&self, numbers: &BTreeSet<usize>) -> bool {
        let until = self.closed_until();
        numbers.iter().all(|number| {
            let taken = &self.taken[*number];
            taken.is_erased || taken.is_kept && taken.ms() >= until
        })
    }

    /// Revokes these events; returns how many.
    pub fn revoke(&mut self, covered: BTreeSet<usize>) -> usize {
        let count = covered.len();
        self.revocations.push((covered, true));
        self.count_out();
        count
    }

    /// How many revocations there were.
    pub fn revocation_count(&self) -> usize {
        self.revocations.len()
    }

    /// Whether all events of a revocation are still kept for certain, and no period of them is closed.
    pub fn may_restore(&self, number: usize) -> bool {
        self.may_change(&self.revocations[number].0)
    }

    /// Restores a revocation.
    pub fn restore(&mut self, number: usize) {
        self.revocations[number].1 = false;
        self.count_out();
    }

    /// The voter of an event.
    pub fn voter_of(&self, number: usize) -> Option<String> {
        self.taken[number].event.voter.clone()
    }

    /// Has an event count for another score.
    pub fn set_score(&mut self, number: usize, score: i64, data: Option<&'static str>) {
        let taken = &mut self.taken[number];
        taken.score = score;
        taken.data = data.or(taken.data);
    }

    /// Erases a member.
    pub fn erase(&mut self, member: &str, now: i64) {
        // Those who are hidden have no line.
        let leaves_line = !self.hidden.contains(member);
        // Their places are known where none is a sum.
        let keeps_place = self.board.initial.is_empty();
        let place = if keeps_place { member } else { "" };
        self.lines += 1;
        let line = Line {
            name: format!("{place}{NAMELESS}{}", self.lines),
            closed_until: self.closed_until(),
        };
        let of_member = self.taken.iter_mut();
        for taken in of_member.filter(|taken| taken.event.member == member) {
            if !taken.is_erased && leaves_line {
                taken.left = Some(line.clone());
            }
            taken.is_erased = true;
            taken.standings = Value::Array(Vec::new());
        }
        self.initial_scores.remove(member);
        for Closing { initial_scores, .. } in &mut self.closings {
            let score = initial_scores.remove(member);
            if let Some(score) = score.filter(|_| leaves_line) {
                initial_scores.insert(line.name.clone(), score);
            }
        }
        for result in self.finals.values_mut() {
            result.rename(member, leaves_line.then_some(&line.name));
        }
        self.erased.insert(member.to_owned(), now);
    }

    /// What the latest event takes from: of each quota the first pool for it that has enough left; `None` if some
    /// quota has no such pool.
    fn pools(&self) -> Option<Vec<usize>> {
        let channel = self.taken.last().unwrap().event.channel.as_ref();
        let pool_of = |(place, quota): (usize, &Quota)| {
            let extra = quota.extra.iter().map(|extra| {
                let is_for = |channel| extra.channels.contains(channel);
                channel.is_some_and(is_for).then_some(extra.max)
            });
            let mut allowances = (0..).zip(iter::once(Some(quota.max)).chain(extra));
            allowances.find_map(|(pool, max)| self.has_enough(place, pool, max?).then_some(pool))
        };
        (0..).zip(&self.board.quotas).map(pool_of).collect()
    }

    /// Whether so much in a pool of this quota is enough with the latest event.
    fn has_enough(&self, quota: usize, pool: usize, max: i64) -> bool {
        let (latest, earlier) = self.taken.split_last().unwrap();
        let from_pool = earlier.iter().filter(|taken| taken.pools[quota] == pool);
        let quota = &self.board.quotas[quota];
        let alike = |taken: &&Taken| {
            (!quota.by_voter || taken.event.voter == latest.event.voter)
                && (!quota.by_member || taken.event.member == latest.event.member)
        };
        let counted: Vec<&Taken> = from_pool.filter(alike).chain([latest]).collect();
        let amount = |taken: &Taken| {
            if quota.counts_points {
                taken.charged.abs()
            } else {
                1
            }
        };
        let max = if quota.counts_points {
            max * self.board.point()
        } else {
            max
        };
        let sum = |is_in: &dyn Fn(&Taken) -> bool| -> i64 {
            let within = counted.iter().filter(|taken| is_in(taken));
            within.map(|taken| amount(taken)).sum()
        };
        match quota.window {
            QuotaWindow::Total => sum(&|_| true) <= max,
            QuotaWindow::Period(unit) => {
                let unit = unit as usize;
                sum(&|taken| taken.periods[unit] == latest.periods[unit]) <= max
            }
            QuotaWindow::Sliding(length) => counted.iter().all(|first| {
                let stretch = first.ms()..first.ms() + length;
                sum(&|taken| stretch.contains(&taken.ms())) <= max
            }),
        }
    }

    /// Keeps what was answered to the latest event.
    pub fn remember(&mut self, standings: Value) {
        self.taken.last_mut().unwrap().standings = standings;
    }

    /// Whether the latest event takes its member past the bound in a standing that it is part of.
    fn is_out_of_range(&self) -> bool {
        let latest = self.taken.last().unwrap();
        // A rolling standing is made of those of the single periods, without what was carried into them.
        let of_periods = self.board.windows.iter().map(|window| match *window {
            Window::Rolling(unit, _) => Window::Rolling(unit, 1),
            period @ Window::Period(_) => period,
        });
        self.board
            .windows
            .iter()
            .copied()
            .chain(of_periods)
            .any(|window| {
                let own = latest.periods[window.unit() as usize];
                let last = match window {
                    Window::Period(_) => own + 1,
                    Window::Rolling(_, count) => own + count - 1,
                };
                let mine =
                    |taken: &&Taken| taken.event.member == latest.event.member && taken.counts();
                (own..=last).any(|period| {
                    let amounts = || {
                        self.taken
                            .iter()
                            .filter(mine)
                            .filter_map(|taken| self.amount(taken, window, period))
                    };
                    self.board.update == Update::Sum
                        && amounts().sum::<i64>().abs() > self.board.greatest()
                })
            })
    }
}
