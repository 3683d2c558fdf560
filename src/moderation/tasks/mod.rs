//! Tasks: what somebody has ordered for all boards, and how far it has come. To clients they are jobs.

pub mod job;
pub mod model;
pub mod routes;
pub mod store;
