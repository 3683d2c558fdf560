//! The periods of a league, in a time zone: those of the naive model of all boards.

use chrono_tz::Tz;
use serde_json::{Value, json};

use crate::harness::random::Random;
use crate::model::answers;
use crate::model::finals::Rule;
use crate::model::naive::{Board, DAY, HOUR, Quota, QuotaWindow, Unit, Window};

pub const MINUTE: i64 = HOUR / 60;
/// In some of them clocks change, in one by half an hour.
const ZONES: [Tz; 5] = [
    Tz::UTC,
    Tz::America__New_York,
    Tz::Australia__Lord_Howe,
    Tz::Asia__Kathmandu,
    Tz::Europe__Berlin,
];
/// How long seasons are.
const SEASONS: [i64; 3] = [90 * MINUTE, 36 * HOUR, 10 * DAY];

/// What a league has of any board: its periods, its quotas, and how long it remembers ids.
#[derive(Clone, Debug)]
pub struct Calendar {
    pub unit: Unit,
    pub quotas: Vec<Quota>,
    board: Board,
    pub idempotency: i64,
}

impl Calendar {
    /// Random periods, and quotas by member.
    pub fn random(random: &mut Random) -> Self {
        let units = [Unit::Day, Unit::Week, Unit::Month, Unit::Season];
        let unit = units[random.below(units.len())];
        let small = |random: &mut Random, bound| i64::try_from(random.below(bound)).unwrap();
        let quotas = (0..random.below(3))
            .map(|_| {
                let counts_points = random.below(2) == 0;
                Quota {
                    by_voter: false,
                    by_member: true,
                    window: [
                        QuotaWindow::Total,
                        QuotaWindow::Period(Unit::Day),
                        QuotaWindow::Period(unit),
                    ][random.below(3)],
                    max: if counts_points {
                        20 + small(random, 40)
                    } else {
                        3 + small(random, 6)
                    },
                    counts_points,
                    extra: Vec::new(),
                }
            })
            .collect();
        let board = Board {
            zone: ZONES[random.below(ZONES.len())],
            week_start: small(random, 7),
            season_start: 7 * MINUTE * small(random, 1_000),
            season_length: SEASONS[random.below(SEASONS.len())],
            quotas,
            ..board(unit)
        };
        Self::new(unit, board)
    }

    /// Days in UTC, without quotas.
    pub fn days() -> Self {
        Self::new(Unit::Day, board(Unit::Day))
    }

    fn new(unit: Unit, board: Board) -> Self {
        let longest = match unit {
            Unit::Day => 20 * HOUR,
            Unit::Week => 6 * DAY,
            Unit::Month => 27 * DAY,
            _ => board.season_length,
        };
        Self {
            unit,
            quotas: board.quotas.clone(),
            board,
            // Together with `finalize` it is at most that.
            idempotency: longest - MINUTE,
        }
    }

    /// The definition of a league with these rules of rewards.
    pub fn definition(&self, rewards: &[Rule], finalize: i64, league: &Value) -> Value {
        let board = Board {
            rewards: rewards.to_vec(),
            ..self.board.clone()
        };
        let mut definition = answers::definition(&board);
        definition["idempotency"] = json!(format!("{}m", self.idempotency / MINUTE));
        definition["finalize"] = json!(format!("{}s", finalize / 1_000));
        definition["league"] = league.clone();
        definition
    }

    pub fn window(&self) -> String {
        answers::unit_name(self.unit)
    }

    /// The period that an instant lies in.
    pub fn period(&self, at: i64) -> i64 {
        self.board.period(self.unit, at)
    }

    /// In which period of a quota an instant lies.
    pub fn period_of(&self, quota: &Quota, at: i64) -> i64 {
        match quota.window {
            QuotaWindow::Period(unit) => self.board.period(unit, at),
            QuotaWindow::Total | QuotaWindow::Sliding(_) => 0,
        }
    }

    pub fn start_of(&self, period: i64) -> i64 {
        self.board.start(self.unit, period).unwrap()
    }

    pub fn key(&self, period: i64) -> String {
        self.board.key(self.unit, period)
    }
}

/// A board with what all leagues have.
fn board(unit: Unit) -> Board {
    Board {
        score_min: Some(0),
        finalizes: true,
        ..Board::of(vec![Window::Period(unit)])
    }
}
