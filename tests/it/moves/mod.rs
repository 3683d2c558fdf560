//! Boards of several shards, and boards that move to others.

mod barriers;
mod resharding;
pub mod shards;
