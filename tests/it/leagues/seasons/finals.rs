//! The naive model of what is kept of decided cohorts: who has won what, what was claimed, and how that was revised. It builds on that of
//! the final periods of all boards.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::naive::{Model, Section, shown_name};
use crate::harness::random::Random;
use crate::model::answers::time_text;
use crate::model::finals::{Claiming, Final, Now, Revised, Rule, Wins, Won};
use crate::model::naive::Unit;

/// The results of cohorts.
#[derive(Default)]
pub struct Results {
    /// The rules of periods that are not closed yet.
    pub rules: Vec<Rule>,
    /// Those of periods that are, or were when their first cohort was decided.
    pinned: BTreeMap<i64, Vec<Rule>>,
    pub finals: BTreeMap<Section, Final>,
}

/// Random rules of rewards.
pub fn rules(random: &mut Random, unit: Unit) -> Vec<Rule> {
    let rules = (0..random.below(4)).map(|number| {
        let first = 1 + random.below(3);
        let wins = if random.below(2) == 0 {
            Wins::Ranks(first, first + random.below(3))
        } else {
            // In millionths of a percent.
            Wins::Top(1 + random.below(60_000_000))
        };
        let min_score = i64::try_from(random.below(8)).unwrap();
        Rule {
            id: format!("r{number}"),
            unit,
            wins,
            min_score: (random.below(2) == 0).then_some(min_score),
            prize: u8::try_from(random.below(200)).unwrap(),
        }
    });
    rules.collect()
}

impl Results {
    pub fn new(rules: Vec<Rule>) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Has the rules of this moment count for a period, unless others do.
    pub fn pin(&mut self, period: i64) {
        let rules = &self.rules;
        self.pinned.entry(period).or_insert_with(|| rules.clone());
    }

    pub fn rules_of(&self, period: i64) -> &[Rule] {
        &self.pinned[&period]
    }

    /// Records the result of a decided cohort, unless there is one.
    pub fn record(&mut self, model: &Model, section: Section) {
        if !self.finals.contains_key(&section) {
            let total = model.shown(section.0, section.1).len();
            let result = Final::new(self.won(model, section), total);
            self.finals.insert(section, result);
        }
    }

    fn won(&self, model: &Model, section: Section) -> Won {
        let (period, cohort) = section;
        let shown = model.shown(period, cohort);
        let mut won = Won::new();
        if model.decided[&section].counted < model.settings_of(period).min_cohort {
            return won;
        }
        for (index, (name, seat)) in shown.iter().enumerate() {
            let is_same = |(_, other): &(&str, &super::naive::Seat)| other.score == seat.score;
            // Of those that are tied, the first.
            let first = shown.iter().position(is_same).unwrap();
            for (place, rule) in self.rules_of(period).iter().enumerate() {
                let is_placed = match rule.wins {
                    Wins::Ranks(first, last) => (first..=last).contains(&(index + 1)),
                    Wins::Top(share) => first * 100_000_000 < share * shown.len(),
                };
                if is_placed && rule.min_score.is_none_or(|min| seat.score >= min) {
                    won.insert((place, (*name).to_owned()), (index + 1, seat.score));
                }
            }
        }
        won
    }

    /// Takes note of a member that was hidden or brought back.
    pub fn note(&mut self, model: &Model, name: &str, is_hidden: bool) {
        for (section, result) in &mut self.finals {
            if model.sits_in(name, *section) {
                result.note(name, is_hidden);
            }
        }
    }

    /// Has an erased member stand under another name, or nowhere.
    pub fn erase(&mut self, name: &str, nameless: Option<&String>) {
        for result in self.finals.values_mut() {
            result.rename(name, nameless);
        }
    }

    /// The results that do not count all hides yet.
    pub fn unrevised(&self) -> Vec<Section> {
        let finals = self.finals.iter();
        let behind = finals.filter(|(_, result)| result.is_behind());
        behind.map(|(section, _)| *section).collect()
    }

    /// Has all hides so far be in a result, and compares with what its history says by now.
    pub fn revise(
        &mut self,
        model: &Model,
        section: Section,
        told: &[Revised],
    ) -> Result<(), String> {
        let shown = model.shown(section.0, section.1);
        let place = |name: &str| {
            let own = model.seat(name, section.0).unwrap().score;
            1 + shown.iter().filter(|(_, seat)| seat.score > own).count()
        };
        let now = Now {
            won: self.won(model, section),
            total: shown.len(),
            has: &|name| model.sits_in(name, section),
            place: &place,
        };
        let result = self.finals[&section].revised(told, now)?;
        self.finals.insert(section, result);
        Ok(())
    }

    /// Claims what a member has won in its cohort by a rule.
    pub fn claim(
        &mut self,
        model: &Model,
        section: Section,
        (rule, name): (&str, &str),
        claimed: (&str, i64),
    ) -> Claiming {
        let mut rules = self.rules_of(section.0).iter();
        let Some(place) = rules
            .position(|own| own.id == rule)
            .filter(|_| !model.member(name).is_hidden)
        else {
            return Claiming::None;
        };
        let result = self.finals.get_mut(&section).unwrap();
        result.claim(place, name, claimed)
    }
}

/// The first of a cohort.
pub fn winner(model: &Model, (period, cohort): Section) -> Value {
    let shown = model.shown(period, cohort);
    let winner = shown.first().map(|(name, seat)| {
        let reached_at = time_text(seat.reached_at);
        json!({"member": shown_name(name), "score": seat.score, "reached_at": reached_at})
    });
    winner.unwrap_or_default()
}

/// The exports of a cohort: as NDJSON, and as CSV.
pub fn exports(model: &Model, (period, cohort): Section) -> [String; 2] {
    let mut exports = [String::new(), "rank,member,score,reached_at\n".to_owned()];
    for (index, (name, seat)) in model.shown(period, cohort).iter().enumerate() {
        let (rank, name, score) = (index + 1, shown_name(name), seat.score);
        let (at, member) = (time_text(seat.reached_at), json!(name));
        let line =
            format!(r#"{{"rank":{rank},"member":{member},"score":{score},"reached_at":"{at}"}}"#);
        writeln!(exports[0], "{line}").unwrap();
        let member = name.unwrap_or_default();
        writeln!(exports[1], "{rank},{member},{score},{at}").unwrap();
    }
    exports
}
