//! Where a board's data is stored, and where it is moving to (`moves/job.rs` moves it).

use serde::{Deserialize, Serialize};

use super::shard::Sharding;

/// Where a board's data is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Placement {
    /// The sharding that events and reads use.
    pub current: Sharding,
    /// The sharding that the data is moving to.
    pub next: Option<Resharding>,
    /// Former shardings, oldest first.
    pub former: Vec<Former>,
    /// Whether the board is new, and events and reads wait until standing orders are applied to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_opening: bool,
}

/// A move of a board's data.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Resharding {
    /// The target.
    pub to: Sharding,
    /// Whether so little is left that events and reads wait for it.
    pub is_closing: bool,
}

/// A former sharding of a board.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Former {
    /// The sharding.
    pub sharding: Sharding,
    /// When event ids stop being remembered there, in milliseconds since the epoch.
    pub ids_until_ms: i64,
}

impl Placement {
    /// The placement of a new board.
    pub fn first(shards: u16) -> Self {
        Self {
            current: Sharding::first(shards),
            next: None,
            former: Vec::new(),
            is_opening: false,
        }
    }

    /// The first sharding of the board. Data that does not belong to members stays in its slots.
    pub fn home(&self) -> Sharding {
        self.former
            .first()
            .map_or(self.current, |former| former.sharding)
    }

    /// The number of shards that the board has, or will have after its move.
    pub fn wanted(&self) -> u16 {
        self.next.map_or(self.current, |next| next.to).shards
    }

    /// Whether events and reads wait.
    pub fn is_paused(&self) -> bool {
        self.is_opening || self.is_closing()
    }

    /// The placement of an opening board once standing orders are applied.
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

    /// The placement with a move to this many shards begun; unchanged if the board has that many or is moving there.
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

    /// The placement in the last phase of a move, while events and reads wait.
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

    /// The placement after a move. `ids_until_ms`: until when the ids of events from before are remembered.
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
        self.former
            .iter()
            .map(|former| former.sharding)
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
    use std::sync::Arc;

    use super::super::board::Board;
    use super::*;

    #[test]
    fn no_two_shardings_of_a_board_share_a_tag() {
        let mut board = Board::defined(r#"{"windows": ["all"]}"#);
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
        let shardings: Vec<String> = board
            .placement
            .all()
            .map(|sharding| sharding.to_string())
            .collect();
        assert_eq!(shardings, ["1", "4.1", "1.2", "4.3", "2.4"]);
        for (text, sharding) in shardings.iter().zip(board.placement.all()) {
            assert_eq!(text.parse(), Ok(sharding));
        }
    }
}
