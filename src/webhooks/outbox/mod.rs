//! Messages that boards have posted and that are not queued for webhooks yet.

pub mod job;
pub mod store;
