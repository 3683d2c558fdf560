//! The zone of its cohort in which a member is, and its distance from the edges of the zones.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::League;
use super::decision::{Cuts, Move};
use crate::domain::score::{Decimals, Score};

/// The outcome of a place in a cohort if the period ended now.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Zone {
    /// The member goes up by a tier.
    Promotion,
    /// It stays.
    Safe,
    /// It goes down by a tier.
    Demotion,
}

impl From<Move> for Zone {
    fn from(moved: Move) -> Self {
        match moved {
            Move::Up => Self::Promotion,
            Move::Stay => Self::Safe,
            Move::Down => Self::Demotion,
        }
    }
}

/// A member's position relative to the zones of its cohort. Points are scaled like scores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Edges {
    /// Its zone.
    pub zone: Zone,
    /// How many points it must gain to enter the promotion zone, if the others gain none. `None` if it is there, or if the
    /// cohort has no such zone.
    pub to_promotion: Option<i64>,
    /// How many points it must gain to leave the demotion zone. `None` if it is not there, or if nobody of the cohort can
    /// leave it.
    pub to_safety: Option<i64>,
    /// How many points it is ahead of the first member of the demotion zone. `None` if it is in that zone, or if the cohort
    /// has none.
    pub to_demotion: Option<i64>,
}

impl Edges {
    /// For a decided cohort: nothing can be gained any more.
    pub fn decided(moved: Move) -> Self {
        Self {
            zone: moved.into(),
            to_promotion: None,
            to_safety: None,
            to_demotion: None,
        }
    }
}

impl League {
    /// The position of the member at this index in a cohort of a tier.
    ///
    /// `scores`: those of all counted members, in the order of the standing.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn edges(&self, tier: u8, scores: &[Score], index: usize, decimals: Decimals) -> Edges {
        let count = |positions: u64| usize::try_from(positions).unwrap_or(usize::MAX);
        let Cuts { up, down } = self.cuts(tier, scores.len() as u64);
        let (up, safe_to) = (count(up), scores.len().saturating_sub(count(down)));
        let promotes_from = self.promotes_from(decimals);
        let own = scores[index];
        let zone = match index {
            index if index < up && own >= promotes_from => Zone::Promotion,
            index if index < safe_to => Zone::Safe,
            _ => Zone::Demotion,
        };
        // A member that reaches the score of another is placed after it.
        let ahead_of = |other: usize| Some(scores.get(other)?.scaled() + 1);
        let to_promotion = || {
            let overtaken = if index < up { None } else { ahead_of(up - 1) };
            let needed = promotes_from.scaled().max(overtaken.unwrap_or(i64::MIN));
            needed - own.scaled()
        };
        let to_safety = || Some(ahead_of(safe_to.checked_sub(1)?)? - own.scaled());
        let first_to_fall = scores.get(safe_to).filter(|_| index < safe_to);
        Edges {
            zone,
            to_promotion: (up > 0 && zone != Zone::Promotion).then(to_promotion),
            to_safety: (zone == Zone::Demotion).then(to_safety).flatten(),
            to_demotion: first_to_fall.map(|first| own.scaled() - first.scaled()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decision::Placed;
    use super::*;
    use crate::domain::time::Timestamp;

    fn decimals() -> Decimals {
        Decimals::default()
    }

    /// A league whose middle tier, which is tier 1, has these shares in ten-thousandths.
    fn league(shares: [u64; 2], min_cohort: u64, min_score: i64) -> League {
        let [promote, demote] = shares.map(|share| format!("0.{share:04}"));
        let json = format!(
            r#"{{"min_cohort": {min_cohort}, "min_score_to_promote": {min_score}, "tiers": [
                {{"name": "bronze", "promote": 0.3, "demote": 0}},
                {{"name": "silver", "promote": {promote}, "demote": {demote}}},
                {{"name": "gold", "promote": 0, "demote": 0.3}}]}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn scores(scores: &[i64]) -> Vec<Score> {
        scores
            .iter()
            .map(|score| Score::from_stored(*score))
            .collect()
    }

    fn edges(league: &League, tier: u8, of: &[i64], index: usize) -> (Zone, [Option<i64>; 3]) {
        let edges = league.edges(tier, &scores(of), index, decimals());
        let points = [edges.to_promotion, edges.to_safety, edges.to_demotion];
        (edges.zone, points)
    }

    #[test]
    fn the_edges_of_ten_members() {
        let (own, of) = (
            league([2_000, 2_000], 10, 5),
            [9, 8, 7, 7, 6, 5, 4, 3, 3, 1],
        );
        let expected = [
            (Zone::Promotion, [None, None, Some(6)]),
            (Zone::Promotion, [None, None, Some(5)]),
            // To be ahead of 8 takes 9: a member that reaches a score later is placed after it.
            (Zone::Safe, [Some(2), None, Some(4)]),
            (Zone::Safe, [Some(2), None, Some(4)]),
            (Zone::Safe, [Some(3), None, Some(3)]),
            (Zone::Safe, [Some(4), None, Some(2)]),
            (Zone::Safe, [Some(5), None, Some(1)]),
            (Zone::Safe, [Some(6), None, Some(0)]),
            (Zone::Demotion, [Some(6), Some(1), None]),
            (Zone::Demotion, [Some(8), Some(3), None]),
        ];
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(edges(&own, 1, &of, index), expected, "{index}");
        }
        // One fewer than `min_cohort`: no member moves.
        let safe = (Zone::Safe, [None; 3]);
        for index in 0..9 {
            assert_eq!(edges(&own, 1, &of[..9], index), safe, "{index}");
        }
        // The first tier has no demotion zone, the last no promotion zone.
        assert_eq!(edges(&own, 0, &of, 9), (Zone::Safe, [Some(7), None, None]));
        assert_eq!(edges(&own, 0, &of, 2), (Zone::Promotion, [None; 3]));
        assert_eq!(edges(&own, 2, &of, 0), (Zone::Safe, [None, None, Some(6)]));
        assert_eq!(
            edges(&own, 2, &of, 7),
            (Zone::Demotion, [None, Some(2), None])
        );
    }

    #[test]
    fn too_few_points_prevent_promotion_from_the_first_places() {
        let own = league([5_000, 0], 1, 10);
        assert_eq!(
            edges(&own, 1, &[12, 8, 8, 0], 0),
            (Zone::Promotion, [None; 3])
        );
        assert_eq!(
            edges(&own, 1, &[12, 8, 8, 0], 1),
            (Zone::Safe, [Some(2), None, None])
        );
        assert_eq!(
            edges(&own, 1, &[12, 8, 8, 0], 3),
            (Zone::Safe, [Some(10), None, None])
        );
        assert_eq!(
            edges(&own, 1, &[12, 11, 8, 0], 3),
            (Zone::Safe, [Some(12), None, None])
        );
    }

    #[test]
    fn nobody_can_leave_the_zone_if_all_are_demoted() {
        let own: League = serde_json::from_str(
            r#"{"tiers": [{"name": "a", "promote": 0, "demote": 0}, {"name": "b", "promote": 0, "demote": 1}]}"#,
        )
        .unwrap();
        assert_eq!(edges(&own, 1, &[3, 2], 0), (Zone::Demotion, [None; 3]));
    }

    /// The standing once the member at this index has gained this many points.
    fn gained(of: &[i64], index: usize, points: i64) -> (Vec<i64>, usize) {
        let mut of = of.to_vec();
        let score = of.remove(index) + points;
        let index = of
            .iter()
            .take_while(|other| **other >= score)
            .count()
            .min(index);
        of.insert(index, score);
        (of, index)
    }

    proptest! {
        /// The zones match the decision, and the points are exactly those needed to cross the edges.
        #[test]
        fn edges_are_where_the_decision_changes(
            of in prop::collection::vec(0_i64..12, 1..30),
            promote in 0_u64..=5_000,
            demote in 0_u64..5_000,
            min_cohort in 1_u64..6,
            min_score in 0_i64..10,
            index in any::<prop::sample::Index>(),
        ) {
            let mut of = of;
            of.sort_unstable_by(|one, other| other.cmp(one));
            let (own, index) = (league([promote, demote], min_cohort, min_score), index.index(of.len()));
            let zone = |of: &[i64], index: usize| {
                let entries = scores(of).into_iter().enumerate().map(|(member, score)| Placed { member, score, is_hidden: false });
                let (_, outcomes) = own.decide(1, decimals(), Timestamp::MIN, entries.collect());
                Zone::from(outcomes[index].1.moved)
            };
            let after = |points: i64| {
                let (of, index) = gained(&of, index, points);
                zone(&of, index)
            };
            let (is_in, [to_promotion, to_safety, to_demotion]) = edges(&own, 1, &of, index);
            prop_assert_eq!(is_in, zone(&of, index));
            if let Some(points) = to_promotion {
                prop_assert!(points > 0 && is_in != Zone::Promotion);
                prop_assert_eq!(after(points), Zone::Promotion);
                prop_assert_ne!(after(points - 1), Zone::Promotion);
            } else {
                prop_assert!(is_in == Zone::Promotion || after(100) != Zone::Promotion);
            }
            if let Some(points) = to_safety {
                prop_assert!(points > 0 && is_in == Zone::Demotion);
                prop_assert_ne!(after(points), Zone::Demotion);
                prop_assert_eq!(after(points - 1), Zone::Demotion);
            } else {
                prop_assert!(is_in != Zone::Demotion || after(100) == Zone::Demotion);
            }
            let first = (index..of.len()).find(|other| zone(&of, *other) == Zone::Demotion);
            let lead = first.filter(|_| is_in != Zone::Demotion).map(|first| of[index] - of[first]);
            prop_assert_eq!(to_demotion, lead);
        }
    }
}
