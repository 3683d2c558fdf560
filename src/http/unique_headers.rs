//! What the head of a request says once: the headers that decide who may do what.
//!
//! With two of them a proxy may go by one, and the service by the other.

use axum::http::{HeaderMap, HeaderName, header};

use super::problem::{MALFORMED_REQUEST, Problem};

const ONCE: [HeaderName; 3] = [header::HOST, header::ORIGIN, header::AUTHORIZATION];

/// Checks that none of them comes twice.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let is_repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    match ONCE.iter().find(is_repeated) {
        Some(name) => {
            let detail = format!("the header `{name}` comes more than once");
            Err(Problem::new(MALFORMED_REQUEST, detail))
        }
        None => Ok(()),
    }
}
