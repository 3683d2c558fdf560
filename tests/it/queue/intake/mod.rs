//! Intake: records of a log come into the queues of shards, and each counts once.
//!
//! The log is made up: lists of records, which tests write and consumers read. All else is as it is with Kafka.

mod asking;
mod closings;
mod log;
mod moves;
mod random;
mod revocations;
mod taking;
