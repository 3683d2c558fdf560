//! Keys.

pub mod routes;
pub mod work;
