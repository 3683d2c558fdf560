//! Script calls for definitions, their announcement, and the leftovers of deleted boards.

pub mod board_notes;
pub mod boards;
pub(crate) mod definitions;
pub mod deletions;
pub mod purge;
pub mod registries;
pub mod sweep;
