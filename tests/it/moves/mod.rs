//! Boards of several shards, and boards that move to others.

mod barriers;
mod resharding;
mod shards;
