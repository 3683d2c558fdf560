//! What is left of a board's quotas for a voter, a member, a device or an address.

pub mod routes;
pub mod work;
