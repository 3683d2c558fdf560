//! Warnings about a Redis that works but needs attention: it may lose data, or currently refuses writes. Each is logged
//! when it begins and when it ends.

pub(crate) mod job;
pub mod store;
