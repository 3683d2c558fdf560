//! The naive model of final periods: who has won what, what was claimed, and how that was revised.
//!
//! Whether a reward is open, claimed, revoked or gone follows from who wins now, and from who has claimed what. How a result came to
//! that is its history, in which a hide may be left out if the member was brought back before anybody looked.

use std::collections::{BTreeMap, BTreeSet};

use super::naive::{Entry, Model, NAMELESS, Unit, Window};

/// What members of final periods win.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub id: String,
    pub unit: Unit,
    pub wins: Wins,
    /// Only who has this score, or a better one.
    pub min_score: Option<i64>,
    /// What it gives.
    pub prize: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wins {
    /// From this rank to that.
    Ranks(usize, usize),
    /// The best so many millionths of a percent.
    Top(usize),
}

/// The result of a period.
#[derive(Clone, Debug)]
pub struct Final {
    /// What was ever claimed, or is won: by the places of the rules, and the members.
    pub rewards: BTreeMap<(usize, String), Reward>,
    pub history: Vec<Revised>,
    pub total: usize,
    /// How many queued events of it its closing did not wait for.
    pub cut_off: usize,
    /// Who was hidden (`true`) or brought back since it was revised.
    unrevised: Vec<(String, bool)>,
    /// Whether these, the closing and revisions were side by side.
    is_disturbed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Reward {
    /// Of the member when it had won last; 0 where nobody knows when that was.
    pub rank: usize,
    pub score: i64,
    pub is_won: bool,
    pub claim: Option<Claim>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub by: String,
    pub at: i64,
    /// Of the member at that time.
    pub rank: usize,
}

/// A revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Revised {
    /// Who was hidden or brought back.
    pub members: Vec<RevisedMember>,
    pub total_before: usize,
    pub total: usize,
    /// By which rule whose reward has changed, and how, in this order. Who was erased since has no name.
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RevisedMember {
    /// `None` for one who was erased since.
    pub member: Option<String>,
    pub is_hidden: bool,
    pub place: usize,
}

pub type Change = (usize, String, &'static str);

/// Who wins by which rule, with which rank and score.
pub type Won = BTreeMap<(usize, String), (usize, i64)>;

/// What a result has to say now.
pub struct Now<'a> {
    pub won: Won,
    pub total: usize,
    /// Whether a member is in the standing, hidden or not.
    pub has: &'a dyn Fn(&str) -> bool,
    /// How many of those that are shown have a better score than a member, and 1 more.
    pub place: &'a dyn Fn(&str) -> usize,
}

/// What has to become of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claiming {
    /// It is the first one.
    New(Reward),
    /// It was claimed by the same.
    Same(Reward),
    /// It was claimed by another one.
    Taken(Claim),
    /// It was claimed, and is not won any more.
    Revoked(Claim),
    /// There is no such reward.
    None,
}

impl Reward {
    pub fn state(&self) -> &'static str {
        match (self.is_won, &self.claim) {
            (true, None) => "open",
            (true, Some(_)) => "claimed",
            (false, _) => "revoked",
        }
    }
}

impl Final {
    pub fn new(won: Won, total: usize) -> Self {
        let mut result = Self {
            rewards: BTreeMap::new(),
            history: Vec::new(),
            total: 0,
            cut_off: 0,
            unrevised: Vec::new(),
            is_disturbed: false,
        };
        result.follow(won, total);
        result
    }

    /// Has the rewards be as members win now; returns what has changed.
    fn follow(&mut self, won: Won, total: usize) -> Vec<Change> {
        let mut changes = BTreeMap::new();
        for (key, reward) in &mut self.rewards {
            if reward.is_won && !won.contains_key(key) {
                let is_claimed = reward.claim.is_some();
                changes.insert(key.clone(), if is_claimed { "revoked" } else { "lost" });
                reward.is_won = false;
                if self.is_disturbed {
                    reward.rank = 0;
                }
            }
        }
        for (key, (rank, score)) in won {
            let before = self.rewards.get(&key);
            match before.map(|reward| reward.is_won) {
                None => changes.insert(key.clone(), "gained"),
                Some(false) => changes.insert(key.clone(), "restored"),
                Some(true) => None,
            };
            let claim = before.and_then(|reward| reward.claim.clone());
            let is_won = true;
            self.rewards.insert(
                key,
                Reward {
                    rank,
                    score,
                    is_won,
                    claim,
                },
            );
        }
        self.rewards
            .retain(|_, reward| reward.is_won || reward.claim.is_some());
        self.total = total;
        let shown = |member: String| {
            if member.contains(NAMELESS) {
                String::new()
            } else {
                member
            }
        };
        let mut changes: Vec<Change> = changes
            .into_iter()
            .map(|((rule, member), change)| (rule, shown(member), change))
            .collect();
        changes.sort_unstable();
        changes
    }

    /// Takes note of a member that was hidden or brought back.
    pub fn note(&mut self, member: &str, is_hidden: bool) {
        self.unrevised.push((member.to_owned(), is_hidden));
    }

    /// Has an erased member stand under another name, or nowhere.
    pub fn rename(&mut self, member: &str, name: Option<&String>) {
        let is_behind = self.unrevised.iter().any(|(other, _)| other == member);
        self.is_disturbed |= is_behind;
        for revised in &mut self.history {
            for one in &mut revised.members {
                one.member.take_if(|other| other == member);
            }
            if name.is_none() {
                revised.changes.retain(|(_, other, _)| other != member);
            }
            for (_, other, _) in &mut revised.changes {
                if other == member {
                    other.clear();
                }
            }
            revised.changes.sort_unstable();
        }
        let rewards = std::mem::take(&mut self.rewards).into_iter();
        let renamed = rewards.filter_map(|((rule, other), reward)| {
            let name = if other == member {
                name?.clone()
            } else {
                other
            };
            Some(((rule, name), reward))
        });
        self.rewards = renamed.collect();
    }

    /// Whether it does not count all hides yet.
    pub fn is_behind(&self) -> bool {
        !self.unrevised.is_empty() || self.is_disturbed
    }

    /// Takes note that hides and revisions were side by side: nobody knows which came first.
    pub fn disturb(&mut self) {
        self.is_disturbed = true;
    }

    /// The same with all hides so far, compared with what its history says by now.
    pub fn revised(&self, told: &[Revised], now: Now<'_>) -> Result<Self, String> {
        let mut result = self.clone();
        let Some(new) = told.strip_prefix(&result.history[..]) else {
            return Err(format!("the history was {:?}", result.history));
        };
        let hides: Vec<(String, bool)> = result
            .unrevised
            .drain(..)
            .filter(|(member, _)| result.is_disturbed || (now.has)(member))
            .collect();
        let members: BTreeSet<&str> = hides.iter().map(|(member, _)| member.as_str()).collect();
        let total_before = result.total;
        let changes = result.follow(now.won, now.total);
        let named: Vec<&RevisedMember> = new.iter().flat_map(|of| &of.members).collect();
        let few = if result.is_disturbed {
            0
        } else {
            members.len()
        };
        if !(few..=hides.len()).contains(&named.len()) {
            return Err(format!("{hides:?} make other revisions"));
        }
        // One revision makes all changes, since it sees all hides.
        let revised = Revised {
            members: named.into_iter().cloned().collect(),
            total_before,
            total: result.total,
            changes,
        };
        let mut expected: Vec<Revised> = Vec::new();
        expected.extend((!revised.members.is_empty()).then_some(revised));
        if let ([first], [(member, is_hidden)]) = (&mut expected[..], &hides[..]) {
            first.members = vec![RevisedMember {
                member: Some(member.clone()),
                is_hidden: *is_hidden,
                place: (now.place)(member),
            }];
        }
        if !result.is_disturbed && new != expected {
            return Err(format!("expected {expected:?}"));
        }
        result.history = told.to_vec();
        result.is_disturbed = false;
        Ok(result)
    }

    /// Claims what a member that is not hidden has won by a rule.
    pub fn claim(&mut self, rule: usize, member: &str, (by, at): (&str, i64)) -> Claiming {
        let Some(reward) = self.rewards.get_mut(&(rule, member.to_owned())) else {
            return Claiming::None;
        };
        match &reward.claim {
            Some(claim) if !reward.is_won => Claiming::Revoked(claim.clone()),
            Some(claim) if claim.by != by => Claiming::Taken(claim.clone()),
            Some(claim) => Claiming::Same(Reward {
                rank: claim.rank,
                ..reward.clone()
            }),
            None => {
                let (by, rank) = (by.to_owned(), reward.rank);
                reward.claim = Some(Claim { by, at, rank });
                Claiming::New(reward.clone())
            }
        }
    }

    /// How many rewards are won.
    pub fn won(&self) -> usize {
        self.rewards.values().filter(|reward| reward.is_won).count()
    }
}

/// Who wins in a period.
fn winners(model: &Model, unit: Unit, period: i64) -> Won {
    let standing = model.standing(Window::Period(unit), period);
    let mut winners = BTreeMap::new();
    for entry in &standing {
        let score = entry.score.value;
        // Of those that are tied, the first.
        let first = standing.iter().position(|other| other.score.value == score);
        for (place, rule) in model.rules_of(unit, period).iter().enumerate() {
            let wins = match rule.wins {
                Wins::Ranks(first, last) => entry
                    .rank
                    .is_some_and(|rank| (first..=last).contains(&rank)),
                Wins::Top(share) => first.unwrap() * 100_000_000 < share * standing.len(),
            };
            let is_good = rule.min_score.is_none_or(|min| {
                if model.board.descending {
                    score >= min
                } else {
                    score <= min
                }
            });
            if rule.unit == unit && wins && is_good {
                let rank = entry.rank.unwrap();
                winners.insert((place, entry.member.clone()), (rank, score));
            }
        }
    }
    winners
}

impl Model {
    /// The result of a period that is closed now.
    pub fn result_of(&self, unit: Unit, period: i64) -> Final {
        let total = self.standing(Window::Period(unit), period).len();
        Final::new(winners(self, unit, period), total)
    }

    /// The results that do not count all hides yet.
    pub fn unrevised(&self) -> Vec<(Unit, i64)> {
        let finals = self.finals.iter();
        let unrevised = finals.filter(|(_, of)| of.is_behind());
        unrevised.map(|(key, _)| *key).collect()
    }

    /// Takes note that hides, closings and revisions were side by side: nobody knows which came first.
    pub fn disturb_results(&mut self) {
        self.finals.values_mut().for_each(Final::disturb);
    }

    /// Has all hides so far be in a result, and compares with what its history says by now.
    pub fn revise(&mut self, (unit, period): (Unit, i64), told: &[Revised]) -> Result<(), String> {
        let standing = self.scores(Window::Period(unit), period);
        let now = Now {
            won: winners(self, unit, period),
            total: self.standing(Window::Period(unit), period).len(),
            has: &|member| standing.contains_key(member),
            place: &|member| self.place((unit, period), member),
        };
        let result = self.finals[&(unit, period)].revised(told, now)?;
        self.finals.insert((unit, period), result);
        Ok(())
    }

    /// How many of those that are shown have a better score than a member, and 1 more.
    fn place(&self, (unit, period): (Unit, i64), member: &str) -> usize {
        let window = Window::Period(unit);
        let sign = if self.board.descending { -1 } else { 1 };
        let own = self.score(window, period, member);
        let is_better =
            |entry: &Entry| own.is_some_and(|own| sign * entry.score.value < sign * own.value);
        let shown = self.standing(window, period).into_iter();
        1 + shown.filter(is_better).count()
    }

    /// Claims a reward.
    pub fn claim(
        &mut self,
        (unit, period): (Unit, i64),
        (rule, member): (&str, &str),
        (by, at): (&str, i64),
    ) -> Claiming {
        let rules = self.rules_of(unit, period).iter();
        let Some(place) = rules
            .clone()
            .position(|own| own.id == rule && own.unit == unit)
            .filter(|_| !self.is_hidden(member))
        else {
            return Claiming::None;
        };
        let result = self.finals.get_mut(&(unit, period)).unwrap();
        result.claim(place, member, (by, at))
    }
}
