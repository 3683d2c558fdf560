//! The headers of draft-ietf-httpapi-ratelimit-headers: `RateLimit-Policy` says what quotas allow, `RateLimit` what remains
//! of them. An API key with a rate has them too.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::domain::access::Spent;
use crate::domain::problems::UsedUp;
use crate::events::work::RemainingQuota;

/// What remains of quotas.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// What quotas allow.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The headers with what remains after an event that was taken.
pub fn of_quotas(quotas: &[RemainingQuota]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !quotas.is_empty() {
        let policy = |quota: &RemainingQuota| policy(&quota.name, quota.max, quota.window_s);
        let limit = |quota: &RemainingQuota| limit(&quota.name, quota.remaining, quota.wait_s);
        let (policies, limits) = (quotas.iter().map(policy), quotas.iter().map(limit));
        add(&mut headers, policies.collect(), limits.collect());
    }
    headers
}

/// Adds what remains of the rate of an API key; with `Retry-After` if that is too little.
pub fn of_key(spent: &Spent, headers: &mut HeaderMap) {
    const NAME: &str = "api-key";
    let (rate, wait) = (&spent.rate, spent.wait);
    let wait_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    if spent.remaining.is_none() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_s.max(1)));
    }
    let policy = policy(NAME, rate.count.get().into(), Some(rate.seconds.into()));
    let limit = limit(NAME, spent.remaining.unwrap_or(0).into(), Some(wait_s));
    add(headers, vec![policy], vec![limit]);
}

/// Adds that a quota is used up; with `Retry-After`.
pub fn of_used_up(quota: &UsedUp, headers: &mut HeaderMap) {
    let policies = vec![policy(&quota.name, quota.max, quota.window_s)];
    add(headers, policies, vec![limit(&quota.name, 0, quota.wait_s)]);
    if let Some(wait_s) = quota.wait_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_s.max(1)));
    }
}

fn policy(name: &str, max: u64, window_s: Option<u64>) -> String {
    format!("\"{name}\";q={max}{}", parameter("w", window_s))
}

fn limit(name: &str, remaining: u64, wait_s: Option<u64>) -> String {
    format!("\"{name}\";r={remaining}{}", parameter("t", wait_s))
}

fn parameter(key: &str, seconds: Option<u64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!(";{key}={seconds}"))
}

fn add(headers: &mut HeaderMap, policies: Vec<String>, limits: Vec<String>) {
    for (name, items) in [(RATE_LIMIT_POLICY, policies), (RATE_LIMIT, limits)] {
        if let Ok(value) = HeaderValue::try_from(items.join(", ")) {
            headers.append(name, value);
        }
    }
}
