//! Warnings about a Redis that works but needs attention: it may lose data, or refuses writes just now. Each is logged when it
//! begins and when it is over.

pub(crate) mod job;
pub mod store;
