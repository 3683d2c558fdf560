//! Script calls for definitions, their announcement, and notes of boards.

pub mod board_notes;
pub mod boards;
pub(crate) mod definitions;
