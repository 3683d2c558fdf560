//! The remaining quotas of a board for a voter, a member, a device or an address.

pub mod routes;
pub mod work;
