//! Decides a cohort after its period: which members move up and down, and which open their next seat with a bonus.
//!
//! Members are *counted* if they are listed and not hidden. Cuts and bonuses depend on a member's position among them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Idle, League};
use crate::domain::score::{Decimals, Score};
use crate::domain::time::Timestamp;

/// The outcome of a seat.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = LeagueMove)]
pub enum Move {
    /// To the tier above.
    Up,
    /// To the same tier.
    Stay,
    /// To the tier below.
    Down,
}

/// The outcome of a cohort for one of its members.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Its position among counted members, from 1; `None` if it was hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Its score.
    pub score: Score,
    /// Whether it moves up, down or stays.
    pub moved: Move,
    /// The score with which it opens the next period that counts.
    pub bonus: Score,
}

/// How many counted members may move up, and how many move down.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cuts {
    /// How many of the first, as far as their scores suffice.
    pub up: u64,
    /// How many of the last.
    pub down: u64,
}

/// What all members of a decided cohort have in common.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// How many members are counted.
    pub counted: u64,
    /// How many of them move up.
    pub promoted: u64,
    /// How many of them move down.
    pub demoted: u64,
    /// When it was decided.
    pub at: Timestamp,
}

/// An entry of a cohort.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Placed<M> {
    /// The member.
    pub member: M,
    /// Its score.
    pub score: Score,
    /// Whether it is hidden.
    pub is_hidden: bool,
}

impl League {
    /// The cuts of a cohort of a tier with this many counted members.
    pub fn cuts(&self, tier: u8, counted: u64) -> Cuts {
        if !self.moves(counted) {
            return Cuts::default();
        }
        let tier = self.tier(tier);
        Cuts {
            up: tier.promote.of(counted),
            down: tier.demote.of(counted),
        }
    }

    /// Whether any member moves, or gets a bonus or a reward, in a cohort with this many counted members.
    pub fn moves(&self, counted: u64) -> bool {
        counted >= u64::from(self.min_cohort)
    }

    /// Decides a cohort of a tier at an instant. Takes its entries in the order of the standing, and returns each member's
    /// outcome in the same order.
    pub fn decide<M>(
        &self,
        tier: u8,
        decimals: Decimals,
        at: Timestamp,
        entries: Vec<Placed<M>>,
    ) -> (Summary, Vec<(M, Outcome)>) {
        let counted = entries.iter().filter(|entry| !entry.is_hidden).count() as u64;
        let (may_go, Cuts { up, down }) = (self.moves(counted), self.cuts(tier, counted));
        let mut ahead = 0;
        let outcomes: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let position = (!entry.is_hidden).then_some(ahead + 1);
                ahead += u64::from(!entry.is_hidden);
                let promotes = || entry.score >= self.promotes_from(decimals);
                let moved = match position {
                    Some(position) if may_go && position > counted - down => Move::Down,
                    Some(position) if may_go && position <= up && promotes() => Move::Up,
                    None if may_go && self.idle == Idle::Demote && tier > 0 => Move::Down,
                    _ => Move::Stay,
                };
                let bonus = position.filter(|_| may_go);
                let outcome = Outcome {
                    position,
                    score: entry.score,
                    moved,
                    bonus: bonus.map_or(Score::default(), |place| self.bonus(place, decimals)),
                };
                (entry.member, outcome)
            })
            .collect();
        let who = |moved| {
            outcomes
                .iter()
                .filter(|(_, of)| of.position.is_some())
                .filter(|(_, of)| of.moved == moved)
                .count() as u64
        };
        let summary = Summary {
            counted,
            promoted: who(Move::Up),
            demoted: who(Move::Down),
            at,
        };
        (summary, outcomes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn league(more: &str) -> League {
        let json = format!(
            r#"{{"cohort_size": 100, "tiers": [
                {{"name": "bronze", "promote": 0.3, "demote": 0}},
                {{"name": "silver", "promote": 0.2, "demote": 0.2}},
                {{"name": "gold", "promote": 0, "demote": 0.3}}]{more}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn decimals(places: u64) -> Decimals {
        Decimals::try_from(places).unwrap()
    }

    /// Entries with these scores, in this order; those below zero are hidden.
    fn entries(scores: &[i64]) -> Vec<Placed<usize>> {
        let entry = |(member, score): (usize, &i64)| Placed {
            member,
            score: Score::from_stored(score.abs()),
            is_hidden: *score < 0,
        };
        scores.iter().enumerate().map(entry).collect()
    }

    fn decide(league: &League, tier: u8, scores: &[i64]) -> (Summary, Vec<Outcome>) {
        let (summary, outcomes) = league.decide(tier, decimals(0), Timestamp::MIN, entries(scores));
        let outcomes = outcomes
            .into_iter()
            .enumerate()
            .map(|(index, (member, outcome))| {
                assert_eq!(index, member, "outcomes have the order of the entries");
                outcome
            });
        (summary, outcomes.collect())
    }

    /// `u`, `s` and `d` for each entry.
    fn moves(league: &League, tier: u8, scores: &[i64]) -> String {
        let (_, outcomes) = decide(league, tier, scores);
        let letter = |outcome: &Outcome| match outcome.moved {
            Move::Up => 'u',
            Move::Stay => 's',
            Move::Down => 'd',
        };
        outcomes.iter().map(letter).collect()
    }

    #[test]
    fn shares_are_cut_downwards() {
        let league = league("");
        let cuts = |tier, counted| {
            let Cuts { up, down } = league.cuts(tier, counted);
            (up, down)
        };
        for (counted, up) in [(0, 0), (1, 0), (3, 0), (4, 1), (9, 2), (10, 3), (100, 30)] {
            assert_eq!(cuts(0, counted), (up, 0), "{counted}");
            assert_eq!(cuts(2, counted), (0, up), "{counted}");
        }
        assert_eq!(
            [4, 5, 9, 10].map(|counted| cuts(1, counted)),
            [(0, 0), (1, 1), (1, 1), (2, 2)]
        );
    }

    #[test]
    fn cuts_use_positions_even_among_equal_scores() {
        let league = league("");
        assert_eq!(
            moves(&league, 0, &[5, 5, 5, 5, 5, 5, 5, 5, 5, 5]),
            "uuusssssss"
        );
        assert_eq!(moves(&league, 1, &[9, 5, 5, 5, 1]), "usssd");
        assert_eq!(moves(&league, 2, &[9, 5, 5, 1]), "sssd");
        assert_eq!(moves(&league, 1, &[]), "");
    }

    #[test]
    fn a_whole_cohort_may_move() {
        let mut league = league("");
        league.tiers[1] =
            serde_json::from_str(r#"{"name": "silver", "promote": 0.5, "demote": 0.5}"#).unwrap();
        assert_eq!(moves(&league, 1, &[3, 2, 1]), "usd");
        assert_eq!(moves(&league, 1, &[4, 3, 2, 1]), "uudd");
        league.tiers[1] =
            serde_json::from_str(r#"{"name": "silver", "promote": 0, "demote": 1}"#).unwrap();
        assert_eq!(moves(&league, 1, &[2, 1]), "dd");
    }

    #[test]
    fn members_below_the_minimum_score_are_neither_promoted_nor_replaced() {
        let league = league(r#", "min_score_to_promote": 7"#);
        assert_eq!(
            moves(&league, 0, &[9, 7, 6, 6, 6, 6, 6, 6, 6, 6]),
            "uussssssss"
        );
        assert_eq!(moves(&league, 1, &[6, 5, 4, 3, 2]), "ssssd");
        let (summary, _) = decide(&league, 0, &[9, 6, 6, 6, 6, 6, 6, 6, 6, 6]);
        assert_eq!(
            (summary.counted, summary.promoted, summary.demoted),
            (10, 1, 0)
        );
    }

    #[test]
    fn scores_of_a_definition_have_the_decimals_of_the_board() {
        let league = league(
            r#", "min_score_to_promote": 1.5, "entry_bonus": [{"ranks": [1, 1], "score": 0.5}]"#,
        );
        let entries = entries(&[150, 149, 0, 0, 0, 0, 0]);
        let (_, outcomes) = league.decide(0, decimals(2), Timestamp::MIN, entries);
        let first = outcomes[0].1;
        assert_eq!((first.moved, first.bonus.scaled()), (Move::Up, 50));
        assert_eq!(outcomes[1].1.moved, Move::Stay);
    }

    #[test]
    fn bonuses_use_positions_and_add_up() {
        let league = league(
            r#", "entry_bonus": [{"ranks": [1, 1], "score": 50}, {"ranks": [1, 3], "score": 20},
                {"ranks": [3, 5], "score": 1}]"#,
        );
        let (_, outcomes) = decide(&league, 1, &[9, 9, -9, 9, 9]);
        let bonuses: Vec<i64> = outcomes.iter().map(|of| of.bonus.scaled()).collect();
        assert_eq!(bonuses, [70, 20, 0, 21, 1]);
    }

    #[test]
    fn hidden_members_are_idle_and_not_counted() {
        let keep = league("");
        let demote = league(r#", "idle": "demote""#);
        // Five are counted.
        let scores = [9, -8, 7, 6, -5, 4, 3];
        assert_eq!(moves(&keep, 1, &scores), "usssssd");
        assert_eq!(moves(&demote, 1, &scores), "udssdsd");
        assert_eq!(
            moves(&demote, 0, &scores),
            "ussssss",
            "the first tier does not demote"
        );
        assert_eq!(moves(&demote, 2, &scores), "sdssdsd", "the last tier does");
        let (summary, outcomes) = decide(&demote, 1, &scores);
        assert_eq!(
            (summary.counted, summary.promoted, summary.demoted),
            (5, 1, 1)
        );
        let positions: Vec<_> = outcomes.iter().map(|of| of.position).collect();
        assert_eq!(
            positions,
            [Some(1), None, Some(2), Some(3), None, Some(4), Some(5)]
        );
        assert_eq!(outcomes[1].score.scaled(), 8);
    }

    #[test]
    fn below_min_cohort_nobody_moves_or_gets_a_bonus() {
        let league = league(
            r#", "min_cohort": 5, "idle": "demote", "entry_bonus": [{"ranks": [1, 1], "score": 50}]"#,
        );
        let (summary, outcomes) = decide(&league, 1, &[9, 8, -7, 6, 5]);
        assert_eq!(
            (summary.counted, summary.promoted, summary.demoted),
            (4, 0, 0)
        );
        for outcome in &outcomes {
            assert_eq!((outcome.moved, outcome.bonus.scaled()), (Move::Stay, 0));
        }
        assert_eq!(outcomes[0].position, Some(1));
        assert_eq!(
            moves(&league, 1, &[9, 8, 7, 6, 5]),
            "usssd",
            "min_cohort members are enough"
        );
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        let (_, outcomes) = decide(&league(""), 0, &[9, -8]);
        let texts: Vec<_> = outcomes
            .iter()
            .map(|of| serde_json::to_string(of).unwrap())
            .collect();
        assert_eq!(
            texts[0],
            r#"{"position":1,"score":9,"moved":"stay","bonus":0}"#
        );
        assert_eq!(texts[1], r#"{"score":8,"moved":"stay","bonus":0}"#);
        for (text, outcome) in texts.iter().zip(&outcomes) {
            assert_eq!(serde_json::from_str::<Outcome>(text).unwrap(), *outcome);
        }
    }
}
