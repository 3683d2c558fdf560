//! How much one event counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::board::{FieldError, require};
use super::ids::MemberId;
use super::score::{Decimals, Score};

/// The greatest weight.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// How many members may have their own weights.
pub const MEMBERS_MAX: usize = 10_000;

/// How much an event counts in public standings: a score of 2 with a weight of 3 adds 6.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Weight)]
pub struct Weights {
    /// For members that are not named.
    #[serde(default = "super::board::one")]
    #[schema(minimum = 1, maximum = 1_000_000, default = 1)]
    pub default: u32,
    /// The weights of members, by id; up to 10,000.
    #[serde(default)]
    #[schema(default = json!({}), example = json!({"alice": 3}))]
    pub members: BTreeMap<MemberId, u32>,
}

impl Weights {
    /// A member's weighted score; `None` if it is out of range.
    pub fn weigh(&self, member: &MemberId, score: Score, decimals: Decimals) -> Option<Score> {
        let weight = self.members.get(member).unwrap_or(&self.default);
        let scaled = score.scaled().checked_mul(i64::from(*weight))?;
        Score::from_scaled(scaled, decimals)
    }

    /// The errors, with their places.
    pub fn check(&self) -> Vec<FieldError> {
        const RANGE: &str = "must be a whole number from 1 to 1,000,000";
        let is_sound = |weight: u32| (1..=WEIGHT_MAX).contains(&weight);
        let mut errors = Vec::new();
        require! { errors; "/weight/default", is_sound(self.default) => RANGE; }
        for (member, weight) in &self.members {
            let pointer = || FieldError::pointer(["weight", "members", member.as_str()]);
            require! { errors; pointer(), is_sound(*weight) => RANGE; }
        }
        require! { errors;
            "/weight/members", self.members.len() <= MEMBERS_MAX
                => "at most 10,000 members can have their own weights";
        }
        errors
    }
}
