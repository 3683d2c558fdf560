//! Deliveries of messages to a webhook: claimed by one instance at a time, sent, and retried for a day
//! (`domain/delivery.rs`).

pub mod job;
pub mod store;
