//! The calls of scripts for definitions, their announcement, and what deleted boards leave.

pub mod board_notes;
pub mod boards;
pub(crate) mod definitions;
pub mod moving;
pub mod purge;
pub mod sweep;
