//! About what events take of Redis' memory. Figures of entries and kept events are those of docs/scaling.md, "Cost".

use crate::domain::board::{Definition, Ranking};
use crate::domain::ties::Ties;

/// The memory of an entry of a standing, in bytes.
const ENTRY_BYTES: u64 = 190;
/// The same on a board with `ties: member`.
const ENTRY_WITHOUT_TIME_BYTES: u64 = 105;
/// What `ranking: dense` adds to an entry.
const DENSE_BYTES: u64 = 100;
/// The memory of a remembered id, in bytes: of one with 30 characters, as imports make them, on a board with one window.
const ID_BYTES: u64 = 200;
/// The memory of a kept event, with its id, in bytes.
const KEPT_EVENT_BYTES: u64 = 220;

/// The memory that a board takes, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// For a member of a standing.
    pub(super) entry: u64,
    /// For an event: its id, or with a history all of it.
    pub(super) event: u64,
}

impl Cost {
    pub(super) fn of(definition: &Definition) -> Self {
        let dense = definition.ranking == Ranking::Dense;
        let entry = match definition.ties {
            Ties::Member => ENTRY_WITHOUT_TIME_BYTES,
            Ties::First | Ties::Last => ENTRY_BYTES,
        };
        Self {
            entry: entry + if dense { DENSE_BYTES } else { 0 },
            event: match definition.history {
                Some(_) => KEPT_EVENT_BYTES,
                None => ID_BYTES,
            },
        }
    }
}
