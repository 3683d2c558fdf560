//! What operators look at: health, metrics, instances, what waits in queues, memory by board, and what is wrong with Redis.

pub mod health;
pub mod upkeep;
pub mod warnings;
