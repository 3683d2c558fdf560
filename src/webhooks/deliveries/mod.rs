//! Messages on their way to a webhook: claimed by one instance at a time, sent, and tried again for a day
//! (`domain/delivery.rs`).

pub mod job;
pub mod store;
