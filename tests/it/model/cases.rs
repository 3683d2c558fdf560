//! Random boards, and random things that happen to them.
//!
//! What a step means is found when it is played: an event's time lies so many periods before the clock, a
//! repeated event is one of those sent by then. So any list of steps makes sense, and a failing one is
//! shortened by leaving steps out.

use std::ops::RangeInclusive;

use chrono_tz::Tz;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::finals::{Rule, Wins};
use super::naive::{
    Board, DAY, Extra, HOUR, Quota, QuotaWindow, Ranking, SCORE_MAX, Ties, Uniques, Unit, Update,
    Weight, Window,
};

/// Members whose names are easily mixed up, sorted wrongly or cut in the wrong place.
pub const MEMBERS: [&str; 12] = [
    "a",
    "ab",
    "a,b",
    "Z",
    "ann:1",
    "é",
    "e\u{301}",
    "日本 語",
    "a/b?c#d%20&e=f",
    " ",
    "\u{10ffff}{x}",
    "0",
];

const CHANNELS: [&str; 3] = ["app", "web", "partner"];

/// Data in its canonical form, and written in another way. Some differ late, one is as long as data may be.
pub const DATA: [(&str, &str); 8] = [
    ("{}", " { } "),
    (r#"{"a":1}"#, r#"{"a": 1.0}"#),
    (r#"{"a":10,"b":[]}"#, r#"{"b": [ ], "a": 1e1}"#),
    (r#"{"a":2}"#, r#"{"\u0061":2}"#),
    (r#"{"a":"é"}"#, r#"{"a":"\u00e9"}"#),
    (
        r#"{"a":"0123456789012345678901234567890123456789 é"}"#,
        r#"{ "a" :"0123456789012345678901234567890123456789 \u00e9"}"#,
    ),
    (
        r#"{"a":"0123456789012345678901234567890123456789 ê"}"#,
        r#"{ "a" :"0123456789012345678901234567890123456789 \u00ea"}"#,
    ),
    (LONG_DATA, LONG_DATA),
];
const LONG_DATA: &str = concat!(
    r#"{"a":""#,
    "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123",
    r#""}"#
);

/// Scores so small that no sum of a case is out of range.
const LARGE: &[i64] = &[100, -100, SCORE_MAX / 1000, -SCORE_MAX / 1000];
const HUGE: &[i64] = &[
    SCORE_MAX,
    -SCORE_MAX,
    SCORE_MAX / 2 + 1,
    -SCORE_MAX / 2,
    SCORE_MAX - 1,
];

/// What a test is about.
#[derive(Clone)]
pub struct Theme {
    pub boards: usize,
    pub units: &'static [Unit],
    /// How many windows of either kind a board has.
    pub periods: RangeInclusive<usize>,
    pub rolling: RangeInclusive<usize>,
    /// Time zones, and the instants near which the clock begins.
    pub begins: &'static [(Tz, &'static [&'static str])],
    /// Whether scores come near the bound. Which of two such events is refused depends on which comes
    /// first, so that nothing is sent side by side then.
    pub has_huge_scores: bool,
    /// Whether most of the time some standing is half built: small steps towards it alternate with events,
    /// and little is read, since a read builds what it needs.
    pub is_half_way: bool,
    /// How likely a board has each of what votes need: weights, initial scores, unique voters, a list that ends.
    pub votes: f64,
    /// How likely a board has several shards.
    pub shards: f64,
    /// How likely it has quotas, to 3.
    pub quotas: u32,
    /// How likely the periods of a board are closed.
    pub closings: f64,
    /// Whether servers are killed.
    pub kills: bool,
    pub steps: RangeInclusive<usize>,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub boards: Vec<Board>,
    pub begin: i64,
    /// How many of [`MEMBERS`] there are: the fewer, the more ties and sums of zero.
    pub members: usize,
    pub has_huge_scores: bool,
    pub steps: Vec<Step>,
    /// At last the boards are deleted while they move, and the instance that moves them is killed after so many waits.
    pub deleted_after: Option<u16>,
    /// Of the choices that make no difference: which page size, which instance, which order.
    pub seed: u64,
}

/// A number that chooses one of so many things that there are when the step is played.
pub type Pick = u8;

#[derive(Clone, Debug)]
pub enum Step {
    /// The clock moves on.
    Advance { board: Pick, to: Time },
    /// Several batches are sent side by side.
    Send(Vec<Batch>),
    /// Initial scores are set, or taken away.
    SetInitialScores {
        instance: Pick,
        board: Pick,
        scores: Vec<(Pick, Option<Amount>)>,
    },
    /// A member is erased. `forgotten`: whoever does it dies when it is in force, after so many waits of the removal.
    Erase {
        instance: Pick,
        board: Pick,
        member: Pick,
        forgotten: Option<u16>,
    },
    /// What erased members have left is removed.
    Forget { instance: Pick },
    /// Members are hidden (`true`), or brought back.
    Hide {
        instance: Pick,
        board: Pick,
        members: Vec<(Pick, bool)>,
    },
    /// The background step.
    RollOver { instance: Pick },
    /// What was reserved is settled.
    Settle { instance: Pick },
    /// A part of the background step, for the period that lies so many after the running one.
    RollOverPartly {
        instance: Pick,
        board: Pick,
        window: Pick,
        ahead: i64,
        budget: u32,
        times: usize,
    },
    /// A board of several shards gets another number of them, and perhaps its data moves there while a batch is sent.
    Reshard {
        instance: Pick,
        board: Pick,
        shards: u16,
        during: Option<Batch>,
        closing: Option<Closing>,
        /// Who is hidden meanwhile, or brought back.
        hides: Vec<(Pick, bool)>,
        /// After so many waits the instance that moves it is killed.
        killed_after: Option<u16>,
    },
    /// An instance deletes a board, and the next one creates it again, with another number of shards if it has several.
    Recreate {
        instance: Pick,
        board: Pick,
        shards: u16,
    },
    /// Periods are closed, while a batch is sent. After so many waits the instance that closes them is killed.
    Close {
        instance: Pick,
        closing: Closing,
        during: Option<Batch>,
        killed_after: Option<u16>,
    },
    /// A server is killed without a warning, perhaps while a batch of events with ids is sent, and started again.
    Kill {
        server: Pick,
        during: Option<Batch>,
        closing: Option<Closing>,
        /// Who is hidden meanwhile, or brought back.
        hides: Vec<(Pick, bool)>,
    },
    /// The definition gets another `ranking`, if the board may have it, and other rules of rewards.
    Redefine {
        instance: Pick,
        board: Pick,
        is_ordinal: bool,
        rewards: Option<Vec<Rule>>,
    },
    /// The board keeps its events from now on, for another time, or no longer; rows that have run out are removed. The job dies
    /// after so many waits.
    Keep {
        instance: Pick,
        board: Pick,
        history: Option<i64>,
        killed_after: Option<u16>,
    },
    /// An event is added, whatever refuses other ones.
    Amend { instance: Pick, event: NewEvent },
    /// An event is retracted, restored, or gets the score of another one. Whoever does it dies after so many waits, and it is
    /// repeated.
    Correct {
        instance: Pick,
        board: Pick,
        event: Pick,
        change: Change,
        killed_after: Option<u16>,
    },
    /// All events that match are revoked: some, or all of a member or a voter in no closed period.
    Revoke {
        instance: Pick,
        board: Pick,
        event: Pick,
        by: RevokedBy,
    },
    /// A revocation is restored.
    RestoreAll {
        instance: Pick,
        board: Pick,
        revocation: Pick,
    },
    /// A reward is claimed by several callers at once: each an instance, and under which name it claims.
    Claim {
        board: Pick,
        period: Pick,
        reward: Pick,
        callers: Vec<(Pick, u8)>,
    },
    /// A result is read.
    ReadResult { board: Pick, period: Pick },
    /// Some standings are read.
    Read { count: usize },
}

/// Which events are revoked.
#[derive(Clone, Copy, Debug)]
pub enum RevokedBy {
    /// That of the step, and so many others.
    Events(u8),
    Member,
    Voter,
}

/// What is done with an event.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Retract,
    Restore,
    /// It gets the score of another event, and perhaps data of [`DATA`].
    Score(Pick, Option<Pick>),
}

/// All periods of a board are closed that end up to the beginning of one of them, so many before the running one.
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    pub board: Pick,
    pub unit: Pick,
    pub before: i64,
}

/// How much an outcome tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detail {
    Status,
    Standings,
    Ranks,
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub instance: Pick,
    /// Whether each event is a request of its own.
    pub is_single: bool,
    pub detail: Detail,
    pub events: Vec<Sending>,
}

#[derive(Clone, Debug)]
pub enum Sending {
    New(NewEvent),
    /// One that was sent before, with an id.
    Again(Pick),
    /// Another one with an id that was sent before.
    SameId(Pick, NewEvent),
}

#[derive(Clone, Debug)]
pub struct NewEvent {
    pub board: Pick,
    pub has_id: bool,
    pub member: Pick,
    pub score: Amount,
    pub at: Time,
    /// From 0; `None` where it doesn't tell.
    pub voter: Option<u8>,
    pub channel: Option<&'static str>,
    /// Of [`DATA`], where the board takes data.
    pub data: Option<Pick>,
}

#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// In the smallest unit.
    Scaled(i64),
    /// In the smallest unit where scores go up to 2^53 − 1; elsewhere in proportion.
    Wide(i64),
    /// In whole points.
    Points(i64),
    /// One digit more than the board keeps.
    TooFine,
    /// The first that is out of range.
    TooLarge,
}

/// An instant, in milliseconds from another one.
#[derive(Clone, Copy, Debug)]
pub enum Time {
    Now,
    Near(i64),
    /// From the beginning of the period that lies so many after the running one, in a unit of the board.
    Edge {
        unit: Pick,
        periods: i64,
        after: i64,
    },
    /// At the instant of an earlier event.
    SameAs(Pick),
}

pub fn cases(theme: &Theme) -> impl Strategy<Value = Case> + use<> {
    let has_huge_scores = theme.has_huge_scores;
    let begins: Vec<(Tz, &str)> = theme
        .begins
        .iter()
        .flat_map(|(zone, instants)| instants.iter().map(|instant| (*zone, *instant)))
        .collect();
    let members = prop_oneof![3 => 1..=4_usize, 1 => 5..=MEMBERS.len()];
    let begin = (select(begins), any_near());
    let step = if theme.kills {
        prop_oneof![6 => step(theme), 1 => kill()].boxed()
    } else {
        step(theme).boxed()
    };
    let steps = vec(step, theme.steps.clone());
    (
        vec(board(theme), 1..=theme.boards),
        begin,
        members,
        steps,
        killed_after(),
        any::<u64>().no_shrink(),
    )
        .prop_map(
            move |(mut boards, ((zone, begin), near), members, steps, deleted_after, seed)| {
                // The first board's clocks change, the others' zones are what they are.
                boards[0].zone = zone;
                for board in &mut boards {
                    make_sound(board);
                }
                let begin = begin
                    .parse::<chrono::DateTime<chrono::Utc>>()
                    .unwrap()
                    .timestamp_millis()
                    + near;
                Case {
                    boards,
                    begin,
                    members,
                    has_huge_scores,
                    steps,
                    deleted_after,
                    seed,
                }
            },
        )
}

fn board(theme: &Theme) -> impl Strategy<Value = Board> + use<> {
    let zones: Vec<Tz> = theme.begins.iter().map(|(zone, _)| *zone).collect();
    let rolling_units = [Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month]
        .into_iter()
        .filter(|unit| theme.units.contains(unit))
        .collect::<Vec<_>>();
    let counts = prop_oneof![20 => 2..=9_i64, 2 => Just(30), 1 => Just(366)];
    let rolling = vec((select(rolling_units), counts), theme.rolling.clone());
    let needs_sum = *theme.rolling.start() > 0;
    let update = prop_oneof![
        3 => Just(Update::Sum),
        2 => select(if needs_sum { vec![Update::Sum] } else { vec![Update::Max, Update::Min, Update::Last] }),
    ];
    let scores = (
        update,
        any::<bool>(),
        0..=6_u32,
        select(vec![Ties::First, Ties::Last, Ties::Member]),
        select(vec![Ranking::Ordinal, Ranking::Competition, Ranking::Dense]),
    );
    let carried = select(vec![1_i64, 200_000, 333_333, 500_000, 999_999, 1_000_000]);
    let carryover = subsequence(theme.units.to_vec(), 0..=theme.units.len().min(4)).prop_flat_map(
        move |units| {
            units
                .into_iter()
                .map(|unit| (Just(unit), carried.clone()))
                .collect::<Vec<_>>()
        },
    );
    let accept_late = select(vec![
        None,
        None,
        Some(2 * DAY),
        Some(2 * DAY),
        Some(HOUR),
        Some(1000),
        Some(0),
    ]);
    let season = (
        -1000..=1000_i64,
        select(vec![1, 45, 24 * 60, 36 * 60, 14 * 24 * 60]),
    );
    let score_min = prop_oneof![8 => Just(None), 1 => (-2..=1_i64).prop_map(Some)];
    let score_max = select(vec![None, None, None, Some(0), Some(5)]);
    let quotas = prop_oneof![3 => Just(Vec::new()), theme.quotas => vec(quota(), 1..=2)];
    let time = (select(zones), 0..7_i64, season, accept_late);
    let limits = (score_min, score_max, quotas);
    let units = theme.units;
    let initial = subsequence(units.to_vec(), 1..=units.len());
    let uniques = select(vec![Uniques::Board, Uniques::Member]);
    let votes = (
        option::weighted(theme.votes, weight()),
        option::weighted(theme.votes, initial),
        option::weighted(theme.votes, uniques),
        option::weighted(theme.votes, 1..=5_usize),
        option::weighted(theme.shards, select(vec![2, 7, 16])),
        prop::bool::weighted(0.6),
        (
            prop::bool::weighted(theme.closings),
            option::of(Just(1_000)),
        ),
        (rules(units), option::weighted(0.4, kept_for())),
    );
    let ending: Vec<Unit> = units
        .iter()
        .copied()
        .filter(|unit| *unit != Unit::All)
        .collect();
    let retention =
        prop_oneof![2 => Just(Vec::new()), 1 => subsequence(ending.clone(), 0..=ending.len())];
    let periods = subsequence(theme.units.to_vec(), theme.periods.clone()).prop_shuffle();
    // The contract doesn't say what becomes of an initial score and events that pass the bound together.
    let has_initial = !theme.has_huge_scores;
    let windows = (periods, rolling, carryover, retention);
    (scores, time, windows, limits, votes).prop_map(
        move |(scores, time, (periods, rolling, carryover, retention), limits, votes)| {
            let (update, descending, decimals, ties, ranking) = scores;
            let (zone, week_start, (season_start, season_length), accept_late) = time;
            let (score_min, score_max, quotas) = limits;
            let (weight, initial, uniques, keep_top, shards, entry_data, ends, (rewards, history)) =
                votes;
            let (finalizes, max_delay) = ends;
            let periods = periods.into_iter().map(Window::Period);
            let rolling = rolling
                .into_iter()
                .map(|(unit, count)| Window::Rolling(unit, count));
            Board {
                update,
                descending,
                decimals,
                ties,
                ranking,
                zone,
                week_start,
                season_start: 1_790_000_000_000 / HOUR * HOUR + season_start * 60_000,
                season_length: season_length * 60_000,
                windows: periods.chain(rolling).collect(),
                carryover: carryover.into_iter().collect(),
                accept_late,
                score_min,
                score_max,
                quotas,
                weight,
                initial: initial.filter(|_| has_initial).unwrap_or_default(),
                uniques,
                keep_top,
                shards: shards.unwrap_or(1),
                retention,
                entry_data,
                finalizes,
                max_delay,
                rewards,
                history,
            }
        },
    )
}

/// Rules of rewards, each with another name. [`sound_rules`] leaves out what a board can't have.
fn rules(units: &'static [Unit]) -> impl Strategy<Value = Vec<Rule>> + use<> {
    let share = select(vec![1, 10_000_000, 33_333_333, 50_000_000, 100_000_000]);
    let wins = prop_oneof![
        3 => (1..=3_usize, 0..=2_usize).prop_map(|(first, more)| Wins::Ranks(first, first + more)),
        2 => share.prop_map(Wins::Top),
    ];
    let min_score = option::weighted(0.3, select(vec![-1, 0, 1, 2, 5]));
    let rule = (select(units.to_vec()), wins, min_score, any::<u8>());
    let names = subsequence(vec!["a", "b", "c.1"], 0..=3).prop_shuffle();
    (names, vec(rule, 3)).prop_map(|(names, rules)| {
        let pairs = names.into_iter().zip(rules);
        let rule = |(id, (unit, wins, min_score, prize)): (&str, _)| Rule {
            id: id.to_owned(),
            unit,
            wins,
            min_score,
            prize,
        };
        pairs.map(rule).collect()
    })
}

/// The rules, as this board can have them.
pub fn sound_rules(board: &Board, rules: &[Rule]) -> Vec<Rule> {
    let periods: Vec<Unit> = board
        .windows
        .iter()
        .filter_map(|window| match window {
            Window::Period(unit) => Some(*unit),
            Window::Rolling(..) => None,
        })
        .collect();
    if !board.finalizes || periods.is_empty() {
        return Vec::new();
    }
    let of_board = rules.iter().cloned().map(|rule| Rule {
        unit: periods[rule.unit as usize % periods.len()],
        ..rule
    });
    let stays_within = |rule: &Rule| match (board.keep_top, rule.wins) {
        (None, _) => true,
        (Some(top), Wins::Ranks(_, last)) => board.ranking == Ranking::Ordinal && last <= top,
        (Some(_), Wins::Top(_)) => false,
    };
    of_board.filter(stays_within).collect()
}

fn weight() -> impl Strategy<Value = Weight> {
    // Those before the last keep all sums of a case within the bound; with the last a large score passes it alone.
    let factor = || select(vec![1, 2, 3, 7, 1_000_000]);
    let member = select(&MEMBERS[..4]).prop_map(ToOwned::to_owned);
    (factor(), btree_map(member, factor(), 0..=4))
        .prop_map(|(default, members)| Weight { default, members })
}

fn quota() -> impl Strategy<Value = Quota> {
    let by = select(vec![(true, false), (false, true), (true, true)]);
    let window = select(vec![
        QuotaWindow::Sliding(1000),
        QuotaWindow::Sliding(60_000),
        QuotaWindow::Sliding(HOUR),
        QuotaWindow::Period(Unit::Minute),
        QuotaWindow::Period(Unit::Hour),
        QuotaWindow::Period(Unit::Day),
        QuotaWindow::Period(Unit::Month),
        QuotaWindow::Total,
    ]);
    let channels = subsequence(CHANNELS.to_vec(), 1..=2);
    let extra = (channels, 1..=4_i64).prop_map(|(channels, max)| Extra {
        channels: channels.into_iter().map(ToOwned::to_owned).collect(),
        max,
    });
    let extra = prop_oneof![2 => Just(Vec::new()), 1 => vec(extra, 1..=2)];
    (by, window, 1..=6_i64, any::<bool>(), extra).prop_map(
        |((by_voter, by_member), window, max, counts_points, extra)| Quota {
            by_voter,
            by_member,
            window,
            max,
            counts_points,
            extra,
        },
    )
}

/// Leaves out what no definition may hold.
fn make_sound(board: &mut Board) {
    let mut windows = Vec::new();
    for window in board.windows.drain(..) {
        // Half an hour of daylight saving: where its hours begin is more than a naive model knows.
        let is_sound = (board.zone != Tz::Australia__Lord_Howe || window.unit() != Unit::Hour)
            && (board.update == Update::Sum || matches!(window, Window::Period(_)))
            && !windows.contains(&window);
        if is_sound {
            windows.push(window);
        }
    }
    if windows.is_empty() {
        windows.push(Window::Period(Unit::All));
    }
    let is_sum = board.update == Update::Sum;
    let is_rolling = windows
        .iter()
        .any(|window| matches!(window, Window::Rolling(..)));
    if is_rolling || board.update == Update::Last {
        board.keep_top = None;
    }
    if board.keep_top.is_some() {
        // No member may fall.
        board.descending = board.update != Update::Min;
        board.carryover.clear();
        if is_sum {
            board.score_min = Some(1);
        } else if board.ties == Ties::Last {
            board.ties = Ties::First;
        }
    }
    if board.shards > 1 && board.ranking == Ranking::Dense {
        board.ranking = Ranking::Competition;
    }
    let (min, point) = (board.score_min, board.point());
    board
        .score_max
        .take_if(|max| min.is_some_and(|min| *max * point < min));
    let has_sums = |unit: &Unit| is_sum && windows.contains(&Window::Period(*unit));
    board
        .carryover
        .retain(|unit, _| *unit != Unit::All && has_sums(unit));
    board.initial.retain(has_sums);
    board.weight.take_if(|_| !is_sum);
    board.entry_data &= board.ties != Ties::Member;
    board.windows = windows;
    board.rewards = sound_rules(board, &board.rewards);
    board.quotas.retain(|quota| match quota.window {
        // What a sliding window counts is kept for as long as an event may be late.
        QuotaWindow::Sliding(_) => board.accept_late.is_some(),
        QuotaWindow::Period(Unit::Hour) => board.zone != Tz::Australia__Lord_Howe,
        _ => true,
    });
    // What an event takes from depends on those before it. They are carried out in the order of their batch, but
    // not where some have to wait until a rolling standing is complete.
    if is_rolling {
        for quota in &mut board.quotas {
            quota.extra.clear();
        }
    }
}

fn step(theme: &Theme) -> impl Strategy<Value = Step> + use<> {
    let Theme {
        has_huge_scores,
        is_half_way,
        votes,
        shards,
        closings,
        ..
    } = *theme;
    let events_max = if is_half_way { 5 } else { 12 };
    let batch = move || batch(events_max, has_huge_scores);
    let budget = if is_half_way { 1..=4_u32 } else { 1..=20 };
    let ahead = prop_oneof![3 => 0..=1_i64, 1 => -3..=-1_i64];
    let partly = (
        any::<Pick>(),
        any::<Pick>(),
        any::<Pick>(),
        ahead,
        budget,
        1..=3_usize,
    )
        .prop_map(
            |(instance, board, window, ahead, budget, times)| Step::RollOverPartly {
                instance,
                board,
                window,
                ahead,
                budget,
                times,
            },
        );
    let scores = vec(
        (any::<Pick>(), option::weighted(0.8, amount(2, LARGE))),
        1..=4,
    );
    let set_initial_scores =
        (any::<Pick>(), any::<Pick>(), scores).prop_map(|(instance, board, scores)| {
            Step::SetInitialScores {
                instance,
                board,
                scores,
            }
        });
    let number = select(vec![1, 2, 7, 16]);
    let during = (
        option::weighted(0.8, batch()),
        option::weighted(0.3, closing()),
        hides(0..=3),
    );
    let reshard = (any::<Pick>(), any::<Pick>(), number, during, killed_after()).prop_map(
        |(instance, board, shards, (during, closing, hides), killed_after)| Step::Reshard {
            instance,
            board,
            shards,
            during,
            closing,
            hides,
            killed_after,
        },
    );
    let recreate = (any::<Pick>(), any::<Pick>(), select(vec![2, 3, 16])).prop_map(
        |(instance, board, shards)| Step::Recreate {
            instance,
            board,
            shards,
        },
    );
    let killed = option::weighted(0.3, 1..=12_u16);
    let close = (
        any::<Pick>(),
        closing(),
        option::weighted(0.5, batch()),
        killed,
    )
        .prop_map(|(instance, closing, during, killed_after)| Step::Close {
            instance,
            closing,
            during,
            killed_after,
        });
    let hide =
        (any::<Pick>(), any::<Pick>(), hides(1..=4)).prop_map(|(instance, board, members)| {
            Step::Hide {
                instance,
                board,
                members,
            }
        });
    let [alone, side_by_side, advance, partly_often, read] = if is_half_way {
        [16, 2, 5, 16, 1]
    } else {
        [6, 2, 5, 4, 3]
    };
    let callers = vec((any::<Pick>(), 0..3_u8), 1..=3);
    let claim = (any::<Pick>(), any::<Pick>(), any::<Pick>(), callers).prop_map(
        |(board, period, reward, callers)| Step::Claim {
            board,
            period,
            reward,
            callers,
        },
    );
    let redefine = (
        any::<Pick>(),
        any::<Pick>(),
        any::<bool>(),
        option::weighted(0.6, rules(theme.units)),
    )
        .prop_map(|(instance, board, is_ordinal, rewards)| Step::Redefine {
            instance,
            board,
            is_ordinal,
            rewards,
        });
    let keep = (
        any::<Pick>(),
        any::<Pick>(),
        option::weighted(0.8, kept_for()),
        killed_after(),
    )
        .prop_map(|(instance, board, history, killed_after)| Step::Keep {
            instance,
            board,
            history,
            killed_after,
        });
    let amend = (any::<Pick>(), event(has_huge_scores))
        .prop_map(|(instance, event)| Step::Amend { instance, event });
    let change = prop_oneof![
        3 => Just(Change::Retract),
        2 => Just(Change::Restore),
        3 => (any::<Pick>(), option::weighted(0.5, any::<Pick>()))
            .prop_map(|(of, data)| Change::Score(of, data)),
    ];
    let correct = (
        any::<Pick>(),
        any::<Pick>(),
        any::<Pick>(),
        change,
        killed_after(),
    )
        .prop_map(
            |(instance, board, event, change, killed_after)| Step::Correct {
                instance,
                board,
                event,
                change,
                killed_after,
            },
        );
    let by = prop_oneof![
        (0..4_u8).prop_map(RevokedBy::Events),
        Just(RevokedBy::Member),
        Just(RevokedBy::Voter),
    ];
    let revoke = (any::<Pick>(), any::<Pick>(), any::<Pick>(), by).prop_map(
        |(instance, board, event, by)| Step::Revoke {
            instance,
            board,
            event,
            by,
        },
    );
    let restore =
        (any::<Pick>(), any::<Pick>(), any::<Pick>()).prop_map(|(instance, board, revocation)| {
            Step::RestoreAll {
                instance,
                board,
                revocation,
            }
        });
    let read_result = (any::<Pick>(), any::<Pick>())
        .prop_map(|(board, period)| Step::ReadResult { board, period });
    let [claims, redefines, reads_of_results] = if closings > 0.5 { [7, 2, 3] } else { [1, 1, 1] };
    let forgotten = option::weighted(0.6, 1..=16_u16);
    let erase = (any::<Pick>(), any::<Pick>(), any::<Pick>(), forgotten).prop_map(
        |(instance, board, member, forgotten)| Step::Erase {
            instance,
            board,
            member,
            forgotten,
        },
    );
    prop_oneof![
        1 => erase,
        1 => any::<Pick>().prop_map(|instance| Step::Forget { instance }),
        alone => vec(batch(), 1).prop_map(Step::Send),
        side_by_side => vec(batch(), 2..=3).prop_map(Step::Send),
        advance => (any::<Pick>(), self::advance()).prop_map(|(board, to)| Step::Advance { board, to }),
        1 => any::<Pick>().prop_map(|instance| Step::RollOver { instance }),
        1 => any::<Pick>().prop_map(|instance| Step::Settle { instance }),
        if votes > 0.1 { 3 } else { 1 } => set_initial_scores,
        if is_half_way { 5 } else { 2 } => hide,
        partly_often => partly,
        if shards > 0.5 { 4 } else { 1 } => reshard,
        1 => recreate,
        if closings > 0.5 { 6 } else { 2 } => close,
        claims => claim,
        redefines => redefine,
        2 => keep,
        if is_half_way { 8 } else { 4 } => correct,
        2 => amend,
        3 => revoke,
        2 => restore,
        reads_of_results => read_result,
        read => (1..=4_usize).prop_map(|count| Step::Read { count }),
    ]
}

/// For how many ms events are kept.
fn kept_for() -> impl Strategy<Value = i64> + use<> {
    select(vec![i64::MAX, i64::MAX, 0, 2 * DAY, 40 * DAY])
}

fn closing() -> impl Strategy<Value = Closing> + use<> {
    (any::<Pick>(), any::<Pick>(), 0..=2_i64).prop_map(|(board, unit, before)| Closing {
        board,
        unit,
        before,
    })
}

/// Members, and whether each is hidden or brought back.
fn hides(count: RangeInclusive<usize>) -> impl Strategy<Value = Vec<(Pick, bool)>> + use<> {
    vec((any::<Pick>(), prop::bool::weighted(0.6)), count)
}

/// A small board has moved after some hundreds.
fn killed_after() -> impl Strategy<Value = Option<u16>> {
    option::weighted(0.4, prop_oneof![1..=40_u16, 1..=400_u16])
}

fn kill() -> impl Strategy<Value = Step> {
    let during = batch(12, false).prop_map(|mut batch| {
        for sending in &mut batch.events {
            if let Sending::New(event) = sending {
                event.has_id = true;
            }
        }
        batch
    });
    let during = option::weighted(0.8, during);
    let closing = option::weighted(0.5, closing());
    (any::<Pick>(), during, closing, hides(0..=2)).prop_map(|(server, during, closing, hides)| {
        Step::Kill {
            server,
            during,
            closing,
            hides,
        }
    })
}

fn batch(events_max: usize, has_huge_scores: bool) -> impl Strategy<Value = Batch> {
    let event = move || event(has_huge_scores);
    let sending = prop_oneof![
        8 => event().prop_map(Sending::New),
        2 => any::<Pick>().prop_map(Sending::Again),
        1 => (any::<Pick>(), event()).prop_map(|(pick, event)| Sending::SameId(pick, event)),
    ];
    let detail = prop_oneof![
        1 => Just(Detail::Status),
        3 => Just(Detail::Standings),
        2 => Just(Detail::Ranks),
    ];
    (
        any::<Pick>(),
        any::<bool>(),
        detail,
        vec(sending, 1..=events_max),
    )
        .prop_map(|(instance, is_single, detail, events)| Batch {
            instance,
            is_single,
            detail,
            events,
        })
}

fn event(has_huge_scores: bool) -> impl Strategy<Value = NewEvent> {
    let score = if has_huge_scores {
        amount(40, HUGE)
    } else {
        amount(2, LARGE)
    };
    (
        any::<Pick>(),
        prop::bool::weighted(0.8),
        any::<Pick>(),
        score,
        event_time(),
        option::weighted(0.9, 0..3_u8),
        option::weighted(0.7, select(CHANNELS.to_vec())),
        option::weighted(0.8, any::<Pick>()),
    )
        .prop_map(
            |(board, has_id, member, score, at, voter, channel, data)| NewEvent {
                board,
                has_id,
                member,
                score,
                at,
                voter,
                channel,
                data,
            },
        )
}

/// Small ones, or so often one of the others.
fn amount(often: u32, others: &'static [i64]) -> impl Strategy<Value = Amount> {
    let small = || select(vec![0, 0, 1, 1, -1, 2, -2, 3, 5, -5, 10]);
    prop_oneof![
        20 => small().prop_map(Amount::Scaled),
        20 => small().prop_map(Amount::Points),
        1 => Just(Amount::TooFine),
        1 => Just(Amount::TooLarge),
        often => select(others).prop_map(Amount::Wide),
    ]
}

/// What lies before, on and after a boundary.
fn any_near() -> impl Strategy<Value = i64> + Clone {
    prop_oneof![
        select(vec![
            -1, 0, 1, -1000, 1000, 59_999, -60_000, 60_000, HOUR, -HOUR
        ]),
        -HOUR..=HOUR,
        -2 * DAY..=2 * DAY,
    ]
}

fn event_time() -> impl Strategy<Value = Time> {
    // The clock accepts what lies up to a minute ahead.
    let near = prop_oneof![
        select(vec![0, -1, 1, 59_999, 60_000, 60_001]),
        -5000..=5000_i64,
        -HOUR..=0
    ];
    let late = prop_oneof![6 => -3..=1_i64, 3 => -12..=0_i64, 1 => -40..=0_i64];
    let after = prop_oneof![3 => select(vec![-1, 0, 1, 1000]), 1 => any_near()];
    prop_oneof![
        2 => Just(Time::Now),
        3 => near.prop_map(Time::Near),
        8 => (any::<Pick>(), late, after).prop_map(|(unit, periods, after)| Time::Edge { unit, periods, after }),
        2 => any::<Pick>().prop_map(Time::SameAs),
    ]
}

fn advance() -> impl Strategy<Value = Time> {
    let periods = prop_oneof![4 => Just(1_i64), 2 => 2..=4_i64, 1 => 5..=35_i64];
    prop_oneof![
        2 => (0..=HOUR).prop_map(Time::Near),
        1 => (0..=3000_i64).prop_map(Time::Near),
        6 => (any::<Pick>(), periods, select(vec![-60_000, -1, 0, 0, 1, 1000]))
            .prop_map(|(unit, periods, after)| Time::Edge { unit, periods, after }),
    ]
}
