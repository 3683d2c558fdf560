//! How old an answer may be, and the header that says how old it is.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use utoipa::IntoParams;

use super::App;
use super::problem::Problem;
use crate::redis::{Dated, Freshness};

/// The header of a read that a replica may answer. `tests/it/openapi/document.rs` describes such an answer.
#[expect(dead_code, reason = "it only describes the header")]
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct NoCache {
    /// With `no-cache` the service does not read from a replica
    #[param(rename = "Cache-Control", nullable)]
    cache_control: Option<String>,
}

/// The maximum age of an answer by a replica, in milliseconds: everything that was acknowledged before that is in it.
pub const MAX_STALENESS_MS: HeaderName = HeaderName::from_static("max-staleness-ms");

/// `Cache-Control: no-cache` asks for current data; anything else allows an answer by a replica, if there is one
/// (RFC 9111, 5.2.1.4).
impl<S: Send + Sync> FromRequestParts<S> for Freshness {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut directives = parts
            .headers
            .get_all(header::CACHE_CONTROL)
            .iter()
            .flat_map(|line| line.to_str().unwrap_or("").split(','));
        let is_no_cache = |directive: &str| directive.trim().eq_ignore_ascii_case("no-cache");
        Ok(if directives.any(is_no_cache) {
            Self::Current
        } else {
            Self::Bounded
        })
    }
}

/// Answers a request, and says how old the answer is at most. If it has become older than is allowed on the way, it is not sent:
/// the response then has current data.
pub async fn answer<F>(
    app: &App,
    freshness: Freshness,
    read: impl Fn(Freshness) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<Dated<Response>, Problem>>,
{
    let Dated { mut value, as_of } = read(freshness).await?;
    let Some(as_of) = as_of else {
        return Ok(value);
    };
    let max = app.engine.store.max_staleness().unwrap_or_default();
    if let Some(ms) = staleness_ms(as_of.elapsed(), max) {
        let headers = value.headers_mut();
        headers.insert(MAX_STALENESS_MS, HeaderValue::from(ms));
        return Ok(value);
    }
    // Frees the memory that the second attempt needs.
    drop(value);
    Ok(read(Freshness::Current).await?.value)
}

/// An age in whole milliseconds, rounded up; `None` if that is more than is allowed.
fn staleness_ms(age: Duration, max: Duration) -> Option<u64> {
    let ms = age.as_millis().saturating_add(1);
    u64::try_from(ms).ok().filter(|_| ms <= max.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_rounded_up_within_its_limit() {
        let max = Duration::from_millis(500);
        let ms = |micros| staleness_ms(Duration::from_micros(micros), max);
        assert_eq!(ms(0), Some(1));
        assert_eq!(ms(120_900), Some(121));
        assert_eq!(ms(499_999), Some(500));
        assert_eq!(ms(500_000), None);
        assert_eq!(ms(561_000), None);
    }
}
