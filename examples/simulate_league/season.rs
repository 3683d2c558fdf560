//! A season of a league that is played in memory.

use std::mem;

use thiserror::Error;

use standings::domain::board::Board;
use standings::domain::league::decision::Placed;
use standings::domain::league::player::{Player, Seat, start_of};
use standings::domain::league::{Cohort, League, Share};
use standings::domain::period::Period;
use standings::domain::score::Score;
use standings::domain::time::Timestamp;

/// Into how many groups of equal size the members are parted by their skill.
pub(super) const SKILL_GROUPS: usize = 10;
/// One whole in the unit of attendance.
const WHOLE: u64 = 1_000_000;

/// Who plays.
#[derive(Clone, Debug)]
pub(super) struct Population {
    /// How many members.
    pub(super) members: u32,
    /// In which share of the periods a member plays, on average.
    pub(super) attendance: Share,
    /// Which share of a score is chance.
    pub(super) luck: Share,
    /// The mean of what a member scores in a period.
    pub(super) points: u32,
    /// What the chance follows from.
    pub(super) seed: u64,
}

/// What a season has led to.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Season {
    /// For each period its tiers.
    pub(super) periods: Vec<Vec<TierPeriod>>,
    /// How many members each tier has afterwards.
    pub(super) sizes: Vec<u64>,
    /// How many of them are of each group of skill, the least first.
    pub(super) skills: Vec<[u64; SKILL_GROUPS]>,
}

/// A tier in a period.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct TierPeriod {
    /// How many members it has as the period begins, with those who do not play.
    pub(super) members: u64,
    /// How many play.
    pub(super) played: u64,
    /// How many cohorts they fill.
    pub(super) cohorts: u64,
    /// How many members begin the next period in a higher tier.
    pub(super) up: u64,
    /// How many begin it in a lower one.
    pub(super) down: u64,
}

/// More periods were asked for than there are.
#[derive(Debug, Error)]
#[error("that many periods of this league would end after the year 2185")]
pub(super) struct TooLong;

/// A member.
struct Member {
    /// In how many of [`WHOLE`] periods it plays, on average.
    attendance: u64,
    player: Player,
}

/// A member that plays.
struct Entry {
    index: usize,
    score: Score,
}

/// A league that is played.
struct Game<'a> {
    board: &'a Board,
    league: &'a League,
    population: &'a Population,
    period: Period,
    random: fastrand::Rng,
    /// The least skilled first.
    members: Vec<Member>,
}

impl Season {
    /// Plays some periods of a league. All members begin as new ones.
    ///
    /// # Panics
    ///
    /// If the board is not a league.
    pub(super) fn play(
        board: &Board,
        population: &Population,
        periods: u32,
    ) -> Result<Self, TooLong> {
        let mut game = Game::new(board, population);
        let played = (0..periods).map(|_| game.play_period());
        let periods = played.collect::<Result<_, _>>()?;
        let tiers = game.league.tiers.len();
        let mut skills = vec![[0; SKILL_GROUPS]; tiers];
        for (index, member) in game.members.iter().enumerate() {
            let group = index * SKILL_GROUPS / game.members.len();
            skills[usize::from(member.player.tier)][group] += 1;
        }
        Ok(Self {
            periods,
            sizes: skills.iter().map(|groups| groups.iter().sum()).collect(),
            skills,
        })
    }
}

impl<'a> Game<'a> {
    fn new(board: &'a Board, population: &'a Population) -> Self {
        let (league, unit) = board
            .definition
            .league
            .as_ref()
            .zip(board.league_unit())
            .expect("invariant: only leagues are played");
        let epoch = Timestamp::from_ms_clamped(0);
        let period = board.calendar.containing(unit, epoch);
        let mut random = fastrand::Rng::with_seed(population.seed);
        let mean = population.attendance.of(WHOLE);
        let bounds = (2 * mean).saturating_sub(WHOLE)..=(2 * mean).min(WHOLE);
        let members = (0..population.members).map(|_| Member {
            attendance: random.u64(bounds.clone()),
            player: Player::new(&period),
        });
        Self {
            board,
            league,
            population,
            period,
            members: members.collect(),
            random,
        }
    }

    /// Plays a period, and goes to the next one.
    fn play_period(&mut self) -> Result<Vec<TierPeriod>, TooLong> {
        let before: Vec<u8> = self
            .members
            .iter()
            .map(|member| member.player.tier)
            .collect();
        let mut tiers = vec![TierPeriod::default(); self.league.tiers.len()];
        for (tier, cohorts) in tiers.iter_mut().zip(self.seat_all()) {
            tier.cohorts = cohorts.len() as u64;
            for entries in cohorts {
                tier.played += entries.len() as u64;
                self.turn(entries);
            }
        }
        self.go_on(tiers.iter().any(|tier| tier.played > 0))?;
        for (member, before) in self.members.iter().zip(before) {
            let tier = &mut tiers[usize::from(before)];
            tier.members += 1;
            tier.up += u64::from(member.player.tier > before);
            tier.down += u64::from(member.player.tier < before);
        }
        Ok(tiers)
    }

    /// Seats all who play, in the order in which they join. Returns the cohorts of each tier.
    fn seat_all(&mut self) -> Vec<Vec<Vec<Entry>>> {
        let size = self.league.cohort_size as usize;
        let mut cohorts: Vec<Vec<Vec<Entry>>> = Vec::new();
        cohorts.resize_with(self.league.tiers.len(), Vec::new);
        for index in self.who_play() {
            let tier = self.members[index].player.tier;
            let open = &mut cohorts[usize::from(tier)];
            if open.last().is_none_or(|last| last.len() == size) {
                open.push(Vec::new());
            }
            let number =
                u32::try_from(open.len()).expect("invariant: cohorts are counted in 32 bits");
            let last = open.last_mut().expect("invariant: there is an open cohort");
            let opening = self.members[index].player.bonus;
            let seat = Seat {
                start: start_of(&self.period),
                cohort: Cohort { tier, number },
                opening,
                joined_at: start_of(&self.period),
            };
            self.sit_down(index, seat);
            let score = self.score(index, opening);
            last.push(Entry { index, score });
        }
        cohorts
    }

    fn who_play(&mut self) -> Vec<usize> {
        let random = &mut self.random;
        let all = self.members.iter().enumerate();
        let play = all.filter(|(_, member)| random.u64(0..WHOLE) < member.attendance);
        let mut indexes: Vec<usize> = play.map(|(index, _)| index).collect();
        random.shuffle(&mut indexes);
        indexes
    }

    fn sit_down(&mut self, index: usize, seat: Seat) {
        self.change(index, |_, player| player.seated(seat));
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&Board, Player) -> Player) {
        let player = &mut self.members[index].player;
        let before = mem::replace(player, Player::new(&self.period));
        *player = change(self.board, before);
    }

    /// What a member scores in a period that it opens with this.
    fn score(&mut self, index: usize, opening: Score) -> Score {
        let decimals = self.board.definition.decimals;
        let unit = 10_u64.pow(u32::from(decimals.digits()));
        let most = 2 * u64::from(self.population.points) * unit;
        let of_chance = self.population.luck.of(most);
        let of_skill = u128::from(most - of_chance);
        // From 0 to nearly 1, evenly.
        let skill = of_skill * index as u128 / self.members.len() as u128;
        let points = skill + u128::from(self.random.u64(0..=of_chance));
        let score = i64::try_from(points).unwrap_or(i64::MAX);
        let sum = score.saturating_add(opening.scaled());
        Score::from_stored(sum.min(decimals.score_max().scaled()))
    }

    /// Decides a cohort whose members have joined in this order, and turns their seats.
    fn turn(&mut self, mut entries: Vec<Entry>) {
        let Some(first) = entries.first() else { return };
        let tier = self.members[first.index].player.tier;
        // Whoever has joined first is ahead among equals: the order stays.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.score.scaled()));
        let placed = entries.iter().map(|entry| Placed {
            member: entry.index,
            score: entry.score,
            is_hidden: false,
        });
        let decimals = self.board.definition.decimals;
        let end = self.period.end().unwrap_or(Timestamp::MAX);
        let (_, outcomes) = self.league.decide(tier, decimals, end, placed.collect());
        let unit = self.period.unit;
        for (index, outcome) in outcomes {
            self.change(index, |board, player| {
                player.turned(board, unit, Some(&outcome)).player
            });
        }
    }

    /// Goes to the next period. If somebody has played in this one, all others have missed it.
    fn go_on(&mut self, is_played: bool) -> Result<(), TooLong> {
        let (missed, next) = (self.period, self.board.calendar.next(&self.period));
        self.period = next.ok_or(TooLong)?;
        let next = self.period;
        for index in 0..self.members.len() {
            self.change(index, |board, player| {
                let has_missed = is_played && player.from <= start_of(&missed);
                let missed = has_missed.then_some(missed);
                player.advanced_to(board, &next, missed.as_slice())
            });
        }
        Ok(())
    }
}
