//! Where a board's data lies, and where it is moving to (`moves/job.rs` moves it).

use serde::{Deserialize, Serialize};

use super::shard::Sharding;

/// Where a board's data lies.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Placement {
    /// What events go to and reads come from.
    pub current: Sharding,
    /// What the data is on its way to.
    pub next: Option<Resharding>,
    /// Those before, the oldest first.
    pub former: Vec<Former>,
    /// Whether the board is new, and events and reads wait until standing orders were carried out on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_opening: bool,
}

/// A move of a board's data.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Resharding {
    /// Where to.
    pub to: Sharding,
    /// Whether what is left is so little that events and reads wait for it.
    pub is_closing: bool,
}

/// A sharding that a board had.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Former {
    /// Which.
    pub sharding: Sharding,
    /// Until when event ids are remembered there, in milliseconds since the epoch.
    pub ids_until_ms: i64,
}

impl Placement {
    /// That of a new board.
    pub fn first(shards: u16) -> Self {
        Self {
            current: Sharding::first(shards),
            next: None,
            former: Vec::new(),
            is_opening: false,
        }
    }

    /// The sharding that the board began with. What does not go by members stays in its slots.
    pub fn home(&self) -> Sharding {
        self.former
            .first()
            .map_or(self.current, |former| former.sharding)
    }

    /// Over how many shards the board is to be spread.
    pub fn wanted(&self) -> u16 {
        self.next.map_or(self.current, |next| next.to).shards
    }

    /// Whether events and reads wait.
    pub fn is_paused(&self) -> bool {
        self.is_opening || self.is_closing()
    }

    /// The placement of a board that was opening, when standing orders were carried out.
    #[must_use]
    pub fn opened(&self) -> Self {
        Self {
            is_opening: false,
            ..self.clone()
        }
    }

    /// Whether events and reads wait for a move to end.
    pub fn is_closing(&self) -> bool {
        self.next.is_some_and(|next| next.is_closing)
    }

    /// The placement when a move to so many shards has begun; the same if the board has so many, or is moving there.
    #[must_use]
    pub fn towards(&self, shards: u16) -> Self {
        let mut placement = self.clone();
        if shards != self.wanted() {
            let epoch = self.current.epoch + 1;
            placement.next = Some(Resharding {
                to: Sharding { shards, epoch },
                is_closing: false,
            });
        }
        placement
    }

    /// The placement in the last part of a move, while events and reads wait.
    #[must_use]
    pub fn closing(&self) -> Self {
        let next = self.next.map(|next| Resharding {
            is_closing: true,
            ..next
        });
        Self {
            next,
            ..self.clone()
        }
    }

    /// The placement after a move. `ids_until_ms`: until when the ids of events that came in before are remembered.
    #[must_use]
    pub fn moved(&self, ids_until_ms: i64) -> Self {
        let Some(Resharding { to, .. }) = self.next else {
            return self.clone();
        };
        let mut former = self.former.clone();
        former.push(Former {
            sharding: self.current,
            ids_until_ms,
        });
        Self {
            current: to,
            next: None,
            former,
            is_opening: self.is_opening,
        }
    }

    /// All shardings that may have left data.
    pub fn all(&self) -> impl Iterator<Item = Sharding> {
        let former = self.former.iter().map(|former| former.sharding);
        former
            .chain([self.current])
            .chain(self.next.map(|next| next.to))
    }

    /// Whether the data of a sharding is needed.
    pub fn needs(&self, sharding: Sharding) -> bool {
        sharding == self.current || self.next.is_some_and(|next| next.to == sharding)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use std::sync::Arc;

    use super::super::board::Board;
    use super::super::ids::BoardId;
    use super::*;

    #[test]
    fn no_two_shardings_of_a_board_share_a_tag() {
        let definition = serde_json::from_str(r#"{"windows": ["all"]}"#).unwrap();
        let id = BoardId::parse("b").unwrap();
        let mut board = Board::new(id, definition, 1, 1, BTreeMap::new());
        let tags = |board: &Board| -> Vec<String> {
            let shards = Arc::new(board.clone()).shards();
            shards.iter().map(|shard| shard.tag().to_owned()).collect()
        };
        let mut seen = tags(&board);
        assert_eq!(seen, ["b"]);
        for shards in [4, 1, 4, 2] {
            let placement = board.placement.towards(shards);
            assert_eq!(placement.towards(shards), placement);
            assert_eq!(placement.wanted(), shards);
            assert!(placement.closing().is_closing());
            board.placement = placement.closing().moved(7);
            assert_eq!(board.placement.home(), Sharding::first(1));
            for tag in tags(&board) {
                assert!(!seen.contains(&tag), "{tag}");
                seen.push(tag);
            }
        }
        assert_eq!(seen[1], "b:4:0:1");
        let shardings = board.placement.all().map(|sharding| sharding.to_string());
        let shardings: Vec<String> = shardings.collect();
        assert_eq!(shardings, ["1", "4.1", "1.2", "4.3", "2.4"]);
        for (text, sharding) in shardings.iter().zip(board.placement.all()) {
            assert_eq!(text.parse(), Ok(sharding));
        }
    }
}
