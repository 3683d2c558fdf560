//! A league that is played against the service and the model side by side.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};
use standings::domain::time::Timestamp;

use super::calendar::Calendar;
use super::finals::{self, Results};
use super::naive::{Cohort, Model, Settings, Tier};
use super::{BEGIN, INSTANCES};
use crate::harness::jobs::{ClosePeriods, Registries};
use crate::harness::random::{Random, seed};
use crate::harness::redis::eventually;
use crate::harness::{Client, World};

/// An event that was taken.
#[derive(Clone)]
pub struct Sent {
    pub event: Value,
    pub at: i64,
}

/// What an attempt to have a seat has to lead to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    Open,
    /// The member has its seat.
    Seated,
    /// The last period is not closed.
    Turning,
}

/// A case that is played.
pub struct Game<'a> {
    pub world: &'a World,
    pub board: String,
    pub calendar: Calendar,
    pub finalize: i64,
    pub now: i64,
    pub names: Vec<String>,
    pub model: Model,
    pub results: Results,
    pub random: Random,
    pub sent: Vec<Sent>,
    pub ids: usize,
    /// How much was taken of each quota, by its place, the member and the period.
    pub used: BTreeMap<(usize, String, i64), i64>,
    /// The cohorts of seats that were taken, and are not checked yet.
    pub fresh: Vec<Cohort>,
    /// Up to which period jobs have closed all.
    pub closed: i64,
    pub log: Vec<String>,
}

pub fn text(at: i64) -> String {
    Timestamp::from_ms(at).unwrap().to_string()
}

pub fn is_cluster() -> bool {
    std::env::var_os("STANDINGS_TEST_CLUSTER").is_some()
}

/// A world, and its time.
pub async fn world() -> (World, i64) {
    // Members come in at one time, so that their ids decide.
    let world = World::with_stopped_clock(INSTANCES, BEGIN).await;
    (world, Timestamp::parse(BEGIN).unwrap().ms())
}

/// Random settings, with tiers of these names.
pub fn settings(random: &mut Random) -> Settings {
    let mut names = ["bronze", "silver", "gold", "gem"].to_vec();
    random.shuffle(&mut names);
    let count = 1 + random.below(4);
    let tiers = names[..count]
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let promote = random.below(7_000);
            let demote = random.below(10_001 - promote).min(6_000);
            Tier {
                name,
                promote: if index + 1 == count { 0 } else { promote },
                demote: if index == 0 { 0 } else { demote },
            }
        })
        .collect();
    let size = 2 + random.below(6);
    let bonuses = (0..random.below(3))
        .map(|_| {
            let first = 1 + random.below(3);
            (
                first,
                first + random.below(3),
                i64::try_from(random.below(5)).unwrap(),
            )
        })
        .collect();
    Settings {
        size,
        join_until: [None, Some(1_000), Some(3_600_000)][random.below(3)],
        min_cohort: 1 + random.below(size.min(4)),
        min_score: i64::try_from(random.below(6)).unwrap(),
        is_idle_demoted: random.below(2) == 0,
        tiers,
        bonuses,
    }
}

impl<'a> Game<'a> {
    /// A random league.
    pub async fn begin(world: &'a World, number: u64, now: i64) -> Self {
        let mut random = Random::new(seed(number));
        let calendar = Calendar::random(&mut random);
        let (members, settings) = (4 + random.below(24), settings(&mut random));
        Self::set_up(world, number, (now, random), (calendar, members, settings)).await
    }

    /// One of so many members, with these settings. Its periods are days.
    pub async fn of(
        world: &'a World,
        number: u64,
        now: i64,
        (members, settings): (usize, Settings),
    ) -> Self {
        let random = Random::new(seed(number));
        let of = (Calendar::days(), members, settings);
        Self::set_up(world, number, (now, random), of).await
    }

    async fn set_up(
        world: &'a World,
        number: u64,
        (now, mut random): (i64, Random),
        (calendar, members, settings): (Calendar, usize, Settings),
    ) -> Self {
        let finalize = [0, 20_000][random.below(2)];
        let results = Results::new(finals::rules(&mut random, calendar.unit));
        let definition = calendar.definition(&results.rules, finalize, &settings.json());
        let board = format!("league{number}");
        world.client().define(&board, definition.clone()).await;
        let period = calendar.period(now);
        let log = vec![format!("{board}: {definition}")];
        Self {
            world,
            board,
            calendar,
            finalize,
            now,
            names: (0..members).map(|index| format!("m{index:05}")).collect(),
            model: Model::new(period, settings),
            results,
            random,
            sent: Vec::new(),
            ids: 0,
            used: BTreeMap::new(),
            fresh: Vec::new(),
            closed: period - 1,
            log,
        }
    }

    pub fn period(&self) -> i64 {
        self.calendar.period(self.now)
    }

    /// The last period that may be closed.
    pub fn last_over(&self) -> i64 {
        self.calendar.period(self.now - self.finalize) - 1
    }

    /// When the next period begins.
    pub fn end(&self) -> i64 {
        self.calendar.start_of(self.period() + 1)
    }

    pub fn client(&mut self) -> Client {
        let index = self.random.below(INSTANCES);
        self.world.instances[index].client.clone()
    }

    pub fn name(&mut self) -> String {
        let index = self.random.below(self.names.len());
        self.names[index].clone()
    }

    pub fn path(&self, rest: &str) -> String {
        format!("/v1/boards/{}{rest}", self.board)
    }

    pub fn standing(&self, rest: &str) -> String {
        self.path(&format!("/standings/{}{rest}", self.calendar.window()))
    }

    pub fn note(&mut self, line: impl Into<String>) {
        let line = format!("{}: {}", text(self.now), line.into());
        self.log.push(line);
    }

    pub fn set_time(&mut self, now: i64) {
        self.now = now;
        self.world.set_time(&text(now));
        self.note("now");
    }

    fn advance(&mut self) {
        let end = self.end();
        let periods = 1 + i64::try_from(self.random.below(3)).unwrap();
        let later = self.calendar.start_of(self.period() + periods);
        let choices = [
            self.now + i64::try_from(self.random.below(10_000_000)).unwrap(),
            end - 1,
            end,
            end + self.finalize - 1,
            end + self.finalize,
            end + self.finalize + 1 + i64::try_from(self.random.below(100_000)).unwrap(),
            later + self.finalize,
        ];
        let next = choices[self.random.below(choices.len())];
        self.set_time(next.max(self.now + 1));
    }

    /// Takes note that a cohort is decided.
    pub fn decide(&mut self, (period, cohort): (i64, Cohort)) {
        self.results.pin(period);
        self.model.decide(period, cohort);
    }

    pub async fn run_job(&mut self) {
        self.note("job");
        let instances = &self.world.instances;
        let count = 1 + self.random.below(2);
        let first = self.random.below(INSTANCES);
        let runs = (0..count).map(async |index| {
            let engine = &instances[(first + index) % INSTANCES].engine;
            // Where a server was killed, its clients may not be back yet.
            eventually("the jobs are done", async || {
                engine.refresh_boards().await.is_ok()
                    && engine.run(&ClosePeriods).await.is_ok()
                    && engine.run(&Registries).await.is_ok()
            })
            .await;
        });
        join_all(runs).await;
        self.closed = self.last_over();
        for section in self.model.undecided(self.closed) {
            self.decide(section);
        }
        let decided: Vec<_> = self.model.decided.keys().copied().collect();
        for section in decided {
            self.results.record(&self.model, section);
        }
    }

    async fn change_settings(&mut self) {
        let settings = settings(&mut self.random);
        let league = settings.json();
        // What the rules say when a period is closed counts for it.
        self.be_decided().await;
        self.results.rules = finals::rules(&mut self.random, self.calendar.unit);
        let rewards = &self.results.rules;
        let rewards: Value = rewards
            .iter()
            .map(|rule| crate::model::answers::rule_json(rule, 0))
            .collect();
        self.note(format!("settings {league}, rewards {rewards}"));
        let (client, path) = (self.client(), self.path(""));
        // As a merge patch: nothing of the settings before stays.
        let change = json!({"league": league, "rewards": rewards});
        client.patch(&path, change).await.expect(200);
        let from = self.calendar.period(self.now + 60_000) + 1;
        self.model.settings.insert(from, settings);
    }

    pub async fn step(&mut self) {
        match self.random.below(110) {
            0..=24 => self.join().await,
            25..=54 => self.send_event().await,
            55..=61 => self.send_again().await,
            62..=73 => self.advance(),
            74..=78 => self.hide().await,
            79..=81 => self.leave().await,
            82..=84 => self.order().await,
            85..=87 => self.change_settings().await,
            88..=91 => self.run_job().await,
            92..=95 => self.rush().await,
            96..=99 => self.erase().await,
            100..=105 => self.claim().await,
            _ => self.check().await,
        }
    }
}

impl Drop for Game<'_> {
    /// Prints what was done at last if it has failed.
    #[expect(clippy::print_stderr, reason = "a test that fails tells its steps")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (first, rest) = self.log.split_at(1);
            let last = rest.len().saturating_sub(200);
            eprintln!("{}\n{}", first[0], rest[last..].join("\n"));
        }
    }
}
