//! Headers that a request may have only once: those that decide who may do what.
//!
//! If there were two of them, a proxy might use one, and the service the other.

use axum::http::{HeaderMap, HeaderName, header};

use super::problem::{MALFORMED_REQUEST, Problem};

const ONCE: [HeaderName; 3] = [header::HOST, header::ORIGIN, header::AUTHORIZATION];

/// Checks that none of them is repeated.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let is_repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    match ONCE.iter().find(is_repeated) {
        Some(name) => {
            let detail = format!("the header `{name}` was sent more than once");
            Err(Problem::new(MALFORMED_REQUEST, detail))
        }
        None => Ok(()),
    }
}
