//! For operators: health, metrics, instances, queues, memory by board, and problems of Redis.

pub mod health;
pub mod upkeep;
pub mod warnings;
