//! The one law, as a property: **a standing is a pure function of the set of events that were accepted for
//! it.** Random boards and random events, repeated, in any order, cut into random batches and sent through
//! random instances of the service on one Redis, side by side or one after another, while the clock moves over
//! the boundaries of periods and daylight saving, and the background step runs at random moments, twice,
//! half-way, or never. Initial scores are set in between, periods are closed, definitions change, rewards are claimed, boards move
//! to other shards, and servers are killed and started again. At every moment each answer, on either track, must be what a naive model says, number by
//! number.
//!
//! - `naive.rs` is the model: an event is a line in a list, and a standing is a filter and a fold over it.
//!   `finals.rs` has what final periods have beside.
//! - `answers.rs` says it in JSON. `cases.rs` makes the random cases, `player.rs` plays them.
//!
//! A failure prints the shortest case found, all that was sent in it, and at last what differs.

pub mod answers;
mod cases;
pub mod finals;
pub mod naive;
mod player;
mod reads;
pub mod results;

use chrono_tz::Tz;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use self::cases::{Theme, cases};
use self::naive::Unit;
use self::player::Table;
pub use self::player::expect_equal;
use crate::harness::random::{case_count, seed};

/// Few enough that all these tests together take less than a minute; `make soak` plays more.
const CASES: usize = 6;
/// A server of a cluster that was killed waits for two seconds before it takes writes again.
const CASES_WITH_KILLS: usize = 3;
const INSTANCES: usize = 3;

const NEW_YORK: (Tz, &[&str]) = (
    Tz::America__New_York,
    &[
        "2026-03-08T07:00:00Z",
        "2026-11-01T05:00:00Z",
        "2026-11-01T06:00:00Z",
        "2026-11-01T07:00:00Z",
    ],
);
const BERLIN: (Tz, &[&str]) = (
    Tz::Europe__Berlin,
    &["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"],
);
/// At midnight: a day without its first hour, and one whose last hour comes twice.
const SAO_PAULO: (Tz, &[&str]) = (
    Tz::America__Sao_Paulo,
    &[
        "2017-10-15T03:00:00Z",
        "2018-02-18T02:00:00Z",
        "2018-02-18T03:00:00Z",
        "2018-11-04T03:00:00Z",
    ],
);
/// By half an hour.
const LORD_HOWE: (Tz, &[&str]) = (
    Tz::Australia__Lord_Howe,
    &["2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z"],
);
/// Half an hour away from the whole hours of UTC.
const ADELAIDE: (Tz, &[&str]) = (
    Tz::Australia__Adelaide,
    &["2026-04-04T16:30:00Z", "2026-10-03T16:30:00Z"],
);
const KATHMANDU: (Tz, &[&str]) = (
    Tz::Asia__Kathmandu,
    &["2026-12-31T18:15:00Z", "2028-02-28T18:15:00Z"],
);
const KOLKATA: (Tz, &[&str]) = (
    Tz::Asia__Kolkata,
    &["2026-12-31T18:30:00Z", "2026-11-21T00:30:00Z"],
);
const SHANGHAI: (Tz, &[&str]) = (
    Tz::Asia__Shanghai,
    &["2026-12-31T16:00:00Z", "2026-11-22T16:00:00Z"],
);
const UTC: (Tz, &[&str]) = (
    Tz::UTC,
    &[
        "2026-12-31T00:00:00Z",
        "2028-02-29T00:00:00Z",
        "2026-11-21T12:00:00Z",
    ],
);

const ROLLING_UNITS: &[Unit] = &[Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month];
const DAYLIGHT: &[(Tz, &[&str])] = &[NEW_YORK, BERLIN, SAO_PAULO, LORD_HOWE, ADELAIDE];
const ZONES: &[(Tz, &[&str])] = &[
    NEW_YORK, BERLIN, SAO_PAULO, LORD_HOWE, ADELAIDE, KATHMANDU, KOLKATA, SHANGHAI, UTC,
];

const EVERYTHING: Theme = Theme {
    boards: 2,
    units: &Unit::EACH,
    periods: 0..=5,
    rolling: 0..=3,
    begins: ZONES,
    has_huge_scores: false,
    is_half_way: false,
    votes: 0.08,
    shards: 0.1,
    quotas: 1,
    closings: 0.3,
    kills: false,
    steps: 1..=16,
};

#[test]
fn periods_follow_the_law() {
    let begins = &[KATHMANDU, KOLKATA, SHANGHAI, UTC];
    play(
        "periods",
        &Theme {
            boards: 1,
            rolling: 0..=0,
            begins,
            ..EVERYTHING
        },
    );
}

#[test]
fn rolling_windows_follow_the_law() {
    let theme = Theme {
        boards: 1,
        units: ROLLING_UNITS,
        periods: 0..=3,
        rolling: 1..=3,
        steps: 4..=24,
        ..EVERYTHING
    };
    play("rolling", &theme);
}

#[test]
fn half_built_standings_follow_the_law() {
    let theme = Theme {
        boards: 1,
        units: ROLLING_UNITS,
        periods: 0..=1,
        rolling: 1..=2,
        is_half_way: true,
        votes: 0.25,
        steps: 4..=40,
        ..EVERYTHING
    };
    play("half-way", &theme);
}

#[test]
fn the_law_holds_when_clocks_change() {
    let units = &[Unit::Hour, Unit::Day, Unit::Week];
    play(
        "clocks",
        &Theme {
            boards: 1,
            units,
            periods: 0..=3,
            begins: DAYLIGHT,
            ..EVERYTHING
        },
    );
}

#[test]
fn several_boards_follow_the_law() {
    play("boards", &EVERYTHING);
}

#[test]
fn votes_follow_the_law() {
    let theme = Theme {
        boards: 1,
        periods: 1..=4,
        rolling: 0..=2,
        votes: 0.6,
        steps: 4..=24,
        ..EVERYTHING
    };
    play("votes", &theme);
}

#[test]
fn boards_of_several_shards_follow_the_law() {
    let theme = Theme {
        votes: 0.2,
        shards: 0.95,
        steps: 4..=24,
        ..EVERYTHING
    };
    play("shards", &theme);
}

#[test]
fn quotas_of_several_shards_follow_the_law() {
    let theme = Theme {
        boards: 1,
        periods: 1..=2,
        rolling: 0..=1,
        shards: 0.95,
        quotas: 30,
        steps: 4..=24,
        ..EVERYTHING
    };
    play("quotas", &theme);
}

#[test]
fn the_law_holds_while_servers_are_killed() {
    let theme = Theme {
        votes: 0.2,
        shards: 0.7,
        closings: 0.6,
        kills: true,
        steps: 4..=16,
        ..EVERYTHING
    };
    play("killed", &theme);
}

#[test]
fn closed_periods_follow_the_law() {
    let theme = Theme {
        votes: 0.4,
        shards: 0.5,
        closings: 0.95,
        steps: 4..=24,
        ..EVERYTHING
    };
    play("closed", &theme);
}

/// Without rolling windows: their standings that nobody has asked for yet are not looked at when an event comes
/// in, so that a sum past the bound is found too late.
#[test]
fn scores_near_the_bound_follow_the_law() {
    let theme = Theme {
        boards: 1,
        rolling: 0..=0,
        has_huge_scores: true,
        ..EVERYTHING
    };
    play("bound", &theme);
}

fn play(name: &'static str, theme: &Theme) {
    let cases_usually = if theme.kills { CASES_WITH_KILLS } else { CASES };
    let config = Config {
        cases: u32::try_from(case_count(cases_usually)).unwrap(),
        failure_persistence: None,
        max_shrink_iters: 100_000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed(0).to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let table = runtime.block_on(Table::set_up(name, INSTANCES));
    let result = TestRunner::new_with_rng(config, rng).run(&cases(theme), |case| {
        runtime
            .block_on(table.play(&case))
            .map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => {
            panic!("in {case:?}\n{why}")
        }
        Err(error) => panic!("{error}"),
    }
}
