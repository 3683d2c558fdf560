//! The calls of scripts for queues: putting, listing, reading, ending.

pub mod queued;
pub mod queues;
