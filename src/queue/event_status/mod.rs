//! The outcome of an event, by its id.

pub mod routes;
pub mod work;
