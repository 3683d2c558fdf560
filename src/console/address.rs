//! Addresses of routes of `/v1`, and of pages that many link to.

use crate::http::inner::address;

/// A route of `/v1` with these parts of its path.
pub(super) fn v1(path: &[&str]) -> String {
    v1_with(path, &[])
}

/// A route of `/v1` with these parts of its path, and those parameters that have a value.
pub(super) fn v1_with(path: &[&str], query: &[(&str, &str)]) -> String {
    address(&[&["v1"], path].concat(), query)
}

/// The page of a member on all boards.
pub(super) fn member_everywhere(member: &str) -> String {
    address(&["console", "member"], &[("member", member)])
}
