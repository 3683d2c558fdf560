//! For operators: health and metrics (`health.rs`); instances, queues, moves and memory by board (`upkeep/`); problems of Redis
//! (`warnings/`).

pub mod health;
pub mod upkeep;
pub mod warnings;
