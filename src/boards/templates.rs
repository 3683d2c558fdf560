//! Definitions to begin with: those that most people come for. `/`, the console and the OpenAPI document show them.

use super::draft::{Draft, Fields};
use crate::domain::board::Definition;
use crate::domain::ids::BoardId;

/// A definition to begin with.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Its name in addresses, and an id for the board.
    pub id: &'static str,
    /// What people call such a board.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// The fields that are not left out, as JSON.
    pub fields: &'static str,
}

/// All of them, the plainest first.
pub const TEMPLATES: [Template; 4] = [
    Template {
        id: "high-scores",
        name: "High scores",
        about: "The best score of each player, in each week and of all time.",
        fields: r#"{"title": "High scores", "update": "max", "windows": ["week", "all"]}"#,
    },
    Template {
        id: "season-points",
        name: "Points in a season",
        about: "Points add up in each week and in each season of four weeks. An hour after its end a season is final, and the first three have won a medal.",
        fields: r#"{"title": "Points", "windows": ["week", "season"],
 "season": {"start": "2026-01-05T00:00:00Z", "length": "28d"}, "finalize": "1h",
 "rewards": [{"id": "podium", "window": "season", "ranks": [1, 3], "reward": {"item": "medal"}}]}"#,
    },
    Template {
        id: "poll",
        name: "Poll",
        about: "Each voter has one vote a day, and distinct voters are counted.",
        fields: r#"{"title": "Poll", "windows": ["day", "all"], "score_min": 1, "score_max": 1, "uniques": "board",
 "quotas": [{"name": "voter-day", "by": ["voter"], "window": "day", "max": 1}]}"#,
    },
    Template {
        id: "league",
        name: "League",
        about: "Groups of 30 players. At the end of each week a fifth of each group moves up a tier, and a fifth down.",
        fields: r#"{"title": "League", "windows": ["week"], "score_min": 0, "league": {"cohort_size": 30, "tiers": [
  {"name": "bronze", "promote": 0.2, "demote": 0},
  {"name": "silver", "promote": 0.2, "demote": 0.2},
  {"name": "gold", "promote": 0, "demote": 0.2}]}}"#,
    },
];

impl Template {
    /// The whole definition, with the defaults of a new board.
    pub fn definition(&self) -> Definition {
        let fields: Fields = serde_json::from_str(self.fields).expect("invariant: it is JSON");
        new_board(fields)
    }
}

pub fn named(id: &str) -> Option<&'static Template> {
    TEMPLATES.iter().find(|template| template.id == id)
}

/// The definition of a new board with these fields, which are valid.
pub fn new_board(fields: Fields) -> Definition {
    let id = BoardId::parse("new").expect("invariant: it is an id");
    let definition = Draft::Whole(fields).definition(&id, None, None);
    definition.expect("invariant: the fields are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_a_valid_definition() {
        for template in &TEMPLATES {
            assert_eq!(template.definition().check(), [], "{}", template.id);
        }
    }
}
