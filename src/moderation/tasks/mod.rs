//! Tasks: moderation of all boards, and its progress. To clients these are jobs.

pub mod job;
pub mod model;
pub mod routes;
pub mod store;
