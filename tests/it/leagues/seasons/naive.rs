//! A naive model of a league: who has a seat where is told to it, and all else follows. It shares no code with the service.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::naive::NAMELESS;

/// One whole in the unit of shares.
const WHOLE: usize = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    pub name: &'static str,
    /// Of [`WHOLE`].
    pub promote: usize,
    pub demote: usize,
}

impl Tier {
    pub fn new(name: &'static str, promote: usize, demote: usize) -> Self {
        Self {
            name,
            promote,
            demote,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub size: usize,
    /// How long after the beginning of a period new cohorts are preferred to free seats.
    pub join_until: Option<i64>,
    pub min_cohort: usize,
    pub min_score: i64,
    pub is_idle_demoted: bool,
    pub tiers: Vec<Tier>,
    /// The first and the last place, from 1, and the score.
    pub bonuses: Vec<(usize, usize, i64)>,
}

/// A tier, from 0, and a number, from 1.
pub type Cohort = (usize, usize);

/// A period, and a cohort of it.
pub type Section = (i64, Cohort);

#[derive(Clone, Debug)]
pub struct Seat {
    pub cohort: Cohort,
    pub score: i64,
    pub reached_at: i64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Move {
    Up,
    Stay,
    Down,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub position: Option<usize>,
    pub score: i64,
    pub moved: Move,
    pub bonus: i64,
}

#[derive(Clone, Debug, Default)]
pub struct Member {
    /// The period in which it was first known.
    pub since: Option<i64>,
    pub seats: BTreeMap<i64, Seat>,
    /// From which period on; the name of the tier, and the index that it had.
    pub orders: BTreeMap<i64, (&'static str, usize)>,
    pub left_from: Option<i64>,
    pub is_hidden: bool,
    /// When it was erased last.
    pub erased_at: Option<i64>,
}

/// The seats of a tier in a period.
#[derive(Clone, Debug, Default)]
pub struct Seats {
    /// How many were given out, one cohort after the other.
    pub taken: usize,
    /// The cohorts of those that erased members have left.
    pub free: Vec<usize>,
}

/// What a cohort was decided to be.
#[derive(Clone, Debug)]
pub struct Decision {
    pub counted: usize,
    pub promoted: usize,
    pub demoted: usize,
    /// Of all members that were listed.
    outcomes: BTreeMap<String, Outcome>,
}

pub struct Model {
    /// From which period on they hold.
    pub settings: BTreeMap<i64, Settings>,
    pub members: BTreeMap<String, Member>,
    /// Who sits in each cohort.
    sections: BTreeMap<Section, BTreeSet<String>>,
    /// By periods and tiers.
    pub seats: BTreeMap<(i64, usize), Seats>,
    pub decided: BTreeMap<Section, Decision>,
    /// How many lines have outlived their members.
    nameless: usize,
}

/// A member as users see it: `None` if it was erased.
pub fn shown_name(name: &str) -> Option<&str> {
    (!name.contains(NAMELESS)).then_some(name)
}

impl Settings {
    pub fn json(&self) -> Value {
        let share = |share: usize| f64::from(u16::try_from(share).unwrap()) / 10_000.0;
        let tiers = self.tiers.iter().map(|tier| {
            json!({"name": tier.name, "promote": share(tier.promote), "demote": share(tier.demote)})
        });
        let bonuses = self
            .bonuses
            .iter()
            .map(|(first, last, score)| json!({"ranks": [first, last], "score": score}));
        let join_until = self.join_until.map(|until| format!("{}s", until / 1_000));
        json!({"cohort_size": self.size, "join_until": join_until, "min_cohort": self.min_cohort,
            "min_score_to_promote": self.min_score, "idle": if self.is_idle_demoted { "demote" } else { "keep" },
            "tiers": tiers.collect::<Vec<_>>(), "entry_bonus": bonuses.collect::<Vec<_>>()})
    }

    pub fn name(&self, (tier, number): Cohort) -> String {
        format!("{}-{number}", self.tiers[tier].name)
    }

    pub fn cohort(&self, name: &str) -> Cohort {
        let (tier, number) = name.rsplit_once('-').unwrap();
        let tier = self.tiers.iter().position(|own| own.name == tier);
        (
            tier.unwrap_or_else(|| panic!("no tier of {name}")),
            number.parse().unwrap(),
        )
    }

    fn last(&self) -> usize {
        self.tiers.len() - 1
    }

    fn index(&self, name: &str, otherwise: usize) -> usize {
        let same = self.tiers.iter().position(|tier| tier.name == name);
        same.unwrap_or(otherwise.min(self.last()))
    }

    /// How many of so many members go up at most, and down.
    fn cuts(&self, tier: usize, counted: usize) -> (usize, usize) {
        if counted < self.min_cohort {
            return (0, 0);
        }
        let Tier {
            promote, demote, ..
        } = self.tiers[tier];
        (promote * counted / WHOLE, demote * counted / WHOLE)
    }
}

impl Member {
    /// Whether reads leave it out. Of an erased member nobody knows that it is hidden until it is there again.
    pub fn is_out_of_sight(&self) -> bool {
        self.is_hidden && (self.erased_at.is_none() || self.since.is_some())
    }
}

impl Model {
    pub fn new(period: i64, settings: Settings) -> Self {
        Self {
            settings: [(period, settings)].into(),
            members: BTreeMap::new(),
            sections: BTreeMap::new(),
            seats: BTreeMap::new(),
            decided: BTreeMap::new(),
            nameless: 0,
        }
    }

    pub fn settings_of(&self, period: i64) -> &Settings {
        let mut before = self.settings.range(..=period);
        before.next_back().unwrap().1
    }

    pub fn member(&self, name: &str) -> Member {
        self.members.get(name).cloned().unwrap_or_default()
    }

    pub fn seat(&self, name: &str, period: i64) -> Option<&Seat> {
        self.members.get(name)?.seats.get(&period)
    }

    /// Gives a member a seat.
    pub fn sit(&mut self, name: &str, period: i64, seat: Seat) {
        let section = (period, seat.cohort);
        let members = self.sections.entry(section).or_default();
        members.insert(name.to_owned());
        let member = self.members.entry(name.to_owned()).or_default();
        member.since.get_or_insert(period);
        member.seats.insert(period, seat);
    }

    /// All cohorts of a period with their members.
    pub fn cohorts(&self, period: i64) -> BTreeMap<Cohort, Vec<&str>> {
        let (first, last) = ((period, (0, 0)), (period + 1, (0, 0)));
        let of_period = self.sections.range(first..last);
        let cohorts = of_period.map(|((_, cohort), members)| {
            let members = members.iter().map(String::as_str);
            (*cohort, members.collect())
        });
        cohorts.collect()
    }

    /// The numbers of the cohorts of which one may be suggested to the next member of a tier. `is_late`: whether all free seats are
    /// given out first.
    fn open_cohorts(&self, period: i64, tier: usize, is_late: bool) -> Vec<usize> {
        let size = self.settings_of(period).size;
        let Seats { taken, free } = self.seats.get(&(period, tier)).cloned().unwrap_or_default();
        let newest = taken.div_ceil(size);
        let mut open = free;
        open.retain(|number| is_late || *number == newest);
        if open.is_empty() {
            open.push(taken / size + 1);
        }
        open
    }

    /// Takes note of seats that were taken, in any order, in cohorts of these numbers.
    pub fn take_seats(
        &mut self,
        (period, tier): (i64, usize),
        is_late: bool,
        mut numbers: Vec<usize>,
    ) -> Result<(), String> {
        while !numbers.is_empty() {
            let open = self.open_cohorts(period, tier, is_late);
            let place = numbers.iter().position(|number| open.contains(number));
            let seats = self.seats.entry((period, tier)).or_default();
            let Some(place) = place else {
                return Err(format!(
                    "{open:?} of {seats:?} are open, and not {numbers:?}"
                ));
            };
            let number = numbers.swap_remove(place);
            match seats.free.iter().position(|free| *free == number) {
                Some(free) => drop(seats.free.remove(free)),
                None => seats.taken += 1,
            }
        }
        Ok(())
    }

    /// Erases a member. Its lines stay in the cohorts of periods up to `closed`, unless it is hidden. Returns the name that they have
    /// then.
    pub fn erase(&mut self, name: &str, now: i64, closed: i64) -> Option<String> {
        let member = self.members.remove(name).unwrap_or_default();
        let new = Member {
            is_hidden: member.is_hidden,
            erased_at: Some(now),
            ..Member::default()
        };
        self.members.insert(name.to_owned(), new);
        self.nameless += 1;
        let nameless = format!("{name}{NAMELESS}{}", self.nameless);
        let mut has_lines = false;
        for (period, seat) in member.seats {
            let section = (period, seat.cohort);
            let members = self.sections.get_mut(&section).unwrap();
            members.remove(name);
            if members.is_empty() {
                self.sections.remove(&section);
            }
            let (tier, number) = seat.cohort;
            self.seats
                .entry((period, tier))
                .or_default()
                .free
                .push(number);
            let decision = self.decided.get_mut(&section);
            let outcome = decision.and_then(|decision| decision.outcomes.remove(name));
            if period <= closed && !member.is_hidden {
                self.sit(&nameless, period, seat);
                let decision = self.decided.get_mut(&section).unwrap();
                decision.outcomes.insert(nameless.clone(), outcome.unwrap());
                has_lines = true;
            }
        }
        has_lines.then_some(nameless)
    }

    /// The entries of a cohort, with hidden ones, in their order.
    fn entries(&self, period: i64, cohort: Cohort) -> Vec<(&str, &Seat)> {
        let members = self.sections.get(&(period, cohort)).into_iter().flatten();
        let mut entries: Vec<_> = members
            .map(|name| (name.as_str(), &self.members[name].seats[&period]))
            .collect();
        entries.sort_by_key(|(name, seat)| (Reverse(seat.score), seat.reached_at, *name));
        entries
    }

    /// The entries of a cohort that are shown.
    pub fn shown(&self, period: i64, cohort: Cohort) -> Vec<(&str, &Seat)> {
        let mut entries = self.entries(period, cohort);
        entries.retain(|(name, _)| !self.members[*name].is_hidden);
        entries
    }

    /// Whether a member has a seat in a cohort.
    pub fn sits_in(&self, name: &str, section: Section) -> bool {
        let members = self.sections.get(&section);
        members.is_some_and(|members| members.contains(name))
    }

    fn decision(&self, period: i64, cohort: Cohort) -> Decision {
        let outcomes = self.outcomes(period, cohort);
        let counted = outcomes.values().filter(|of| of.position.is_some());
        let who = |moved| counted.clone().filter(|of| of.moved == moved).count();
        Decision {
            counted: counted.clone().count(),
            promoted: who(Move::Up),
            demoted: who(Move::Down),
            outcomes,
        }
    }

    fn outcomes(&self, period: i64, cohort: Cohort) -> BTreeMap<String, Outcome> {
        let settings = self.settings_of(period);
        let tier = cohort.0;
        let entries = self.entries(period, cohort);
        let counted = self.shown(period, cohort).len();
        let (up, down) = settings.cuts(tier, counted);
        let can_move = counted >= settings.min_cohort;
        let mut ahead = 0;
        let outcomes = entries.into_iter().map(|(name, seat)| {
            let is_hidden = self.members[name].is_hidden;
            let (moved, bonus) = if !can_move {
                (Move::Stay, 0)
            } else if is_hidden {
                let falls = settings.is_idle_demoted && tier > 0;
                (if falls { Move::Down } else { Move::Stay }, 0)
            } else {
                let place = ahead + 1;
                let won = settings
                    .bonuses
                    .iter()
                    .filter(|(first, last, _)| (*first..=*last).contains(&place));
                let bonus = won.map(|(_, _, score)| score).sum();
                let moved = if ahead < up && seat.score >= settings.min_score {
                    Move::Up
                } else if ahead >= counted - down {
                    Move::Down
                } else {
                    Move::Stay
                };
                (moved, bonus)
            };
            ahead += usize::from(!is_hidden);
            let position = (!is_hidden).then_some(ahead);
            let score = seat.score;
            (
                name.to_owned(),
                Outcome {
                    position,
                    score,
                    moved,
                    bonus,
                },
            )
        });
        outcomes.collect()
    }

    pub fn is_decided(&self, period: i64, cohort: Cohort) -> bool {
        self.decided.contains_key(&(period, cohort))
    }

    /// Decides a cohort by the hides of this moment, unless it is decided.
    pub fn decide(&mut self, period: i64, cohort: Cohort) {
        if !self.is_decided(period, cohort) {
            let decision = self.decision(period, cohort);
            self.decided.insert((period, cohort), decision);
        }
    }

    /// The cohorts of periods up to this one that are not decided.
    pub fn undecided(&self, last: i64) -> BTreeSet<Section> {
        let sections = self
            .sections
            .range(..(last + 1, (0, 0)))
            .map(|(section, _)| *section);
        sections
            .filter(|section| !self.decided.contains_key(section))
            .collect()
    }

    pub fn decide_all(&mut self, last: i64) {
        for (period, cohort) in self.undecided(last) {
            self.decide(period, cohort);
        }
    }

    fn outcome(&self, name: &str, period: i64, cohort: Cohort) -> &Outcome {
        &self.decided[&(period, cohort)].outcomes[name]
    }

    /// Somebody has a seat in it, or had one when it was decided.
    fn is_seated(&self, period: i64) -> bool {
        let (first, last) = ((period, (0, 0)), (period + 1, (0, 0)));
        let mut sections = self.sections.range(first..last);
        let mut decided = self.decided.range(first..last);
        sections.next().is_some() || decided.next().is_some()
    }

    /// In which tier a member plays in a period, and with which score it opens.
    pub fn place(&self, name: &str, period: i64) -> (usize, i64) {
        let member = self.member(name);
        let (mut tier, mut bonus) = (0, 0);
        let since = member.since.unwrap_or(period);
        for at in since..=period {
            let settings = self.settings_of(at);
            if at > since {
                let before = self.settings_of(at - 1);
                if before != settings {
                    tier = settings.index(before.tiers[tier].name, tier);
                }
            }
            if let Some((ordered, index)) = member.orders.get(&at) {
                tier = settings.index(ordered, *index);
            }
            if at == period {
                break;
            }
            if let Some(seat) = member.seats.get(&at) {
                let outcome = self.outcome(name, at, seat.cohort);
                tier = match outcome.moved {
                    Move::Up => (seat.cohort.0 + 1).min(settings.last()),
                    Move::Stay => seat.cohort.0,
                    Move::Down => seat.cohort.0.saturating_sub(1),
                };
                bonus = outcome.bonus;
            } else if self.is_seated(at) {
                tier = if settings.is_idle_demoted {
                    tier.saturating_sub(1)
                } else {
                    tier
                };
            }
        }
        (tier, bonus)
    }

    /// What a seat that is decided has led to, as users read it.
    fn line(&self, name: &str, period: i64, key: &str) -> Value {
        let settings = self.settings_of(period);
        let cohort = self.members[name].seats[&period].cohort;
        let Outcome {
            position,
            score,
            moved,
            bonus,
        } = self.outcome(name, period, cohort);
        let moved = format!("{moved:?}").to_lowercase();
        json!({"key": key, "tier": settings.tiers[cohort.0].name, "cohort": settings.name(cohort),
            "position": position, "score": score, "move": moved, "bonus": bonus})
    }

    /// The history of a member in periods before this one, the newest first.
    pub fn history(&self, name: &str, before: i64, key: impl Fn(i64) -> String) -> Vec<Value> {
        let member = self.member(name);
        let seats = member.seats.range(..before).rev();
        seats
            .map(|(period, _)| self.line(name, *period, &key(*period)))
            .collect()
    }

    /// The zone of a member that is shown, and its points to promotion, to safety and to demotion.
    pub fn zone(&self, name: &str, period: i64, cohort: Cohort) -> Value {
        let settings = self.settings_of(period);
        let entries = self.shown(period, cohort);
        let (up, down) = settings.cuts(cohort.0, entries.len());
        let safe_to = entries.len() - down;
        let index = entries
            .iter()
            .position(|(other, _)| *other == name)
            .unwrap();
        let score = |index: usize| entries[index].1.score;
        let own = score(index);
        let zone = if index < up && own >= settings.min_score {
            "promotion"
        } else if index < safe_to {
            "safe"
        } else {
            "demotion"
        };
        let to_promotion = (up > 0 && zone != "promotion").then(|| {
            let needed = if index < up { 0 } else { score(up - 1) + 1 };
            needed.max(settings.min_score) - own
        });
        let to_safety = (zone == "demotion" && safe_to > 0).then(|| score(safe_to - 1) + 1 - own);
        let to_demotion = (down > 0 && index < safe_to).then(|| own - score(safe_to));
        json!({"zone": zone, "to_promotion": to_promotion, "to_safety": to_safety, "to_demotion": to_demotion})
    }
}
