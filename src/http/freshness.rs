//! How fresh an answer has to be, and how old it may be.

use std::convert::Infallible;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};

use crate::store::Freshness;

/// How old an answer by a replica is at the most, in milliseconds: all that was acknowledged before is in it.
pub const MAX_STALENESS_MS: HeaderName = HeaderName::from_static("max-staleness-ms");

/// `Cache-Control: no-cache` asks for what is right now; anything else leaves the answer to a replica, where there is one
/// (RFC 9111, 5.2.1.4).
impl<S: Send + Sync> FromRequestParts<S> for Freshness {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let directives = parts.headers.get_all(header::CACHE_CONTROL).into_iter();
        let mut directives = directives
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        let is_no_cache = |directive: &str| directive.trim().eq_ignore_ascii_case("no-cache");
        Ok(if directives.any(is_no_cache) {
            Self::Current
        } else {
            Self::Bounded
        })
    }
}

/// The header of an answer in which all is that was acknowledged by then.
pub fn max_staleness(as_of: Option<Instant>) -> Option<(HeaderName, HeaderValue)> {
    let ms = u64::try_from(as_of?.elapsed().as_millis()).unwrap_or(u64::MAX);
    // What is counted in whole milliseconds is rounded up.
    Some((MAX_STALENESS_MS, HeaderValue::from(ms.saturating_add(1))))
}
