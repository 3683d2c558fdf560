//! `standings healthcheck`: asks a service whether it is ready.

use std::time::Duration;

use super::Failure;
use super::client::{http, parse_url, root_cause};

/// How long the command waits for a response.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Asks the service at this address whether it is ready. Fails if it is not, or does not respond.
pub async fn command(url: &str) -> Result<(), Failure> {
    let url = parse_url(url.trim_end_matches('/'))?;
    let client = http(&url, None)?.no_proxy().timeout(TIMEOUT).build()?;
    let url = url.as_str().trim_end_matches('/');
    let answered = client.get(format!("{url}/readyz")).send().await;
    let ready = answered.and_then(reqwest::Response::error_for_status);
    let unready = |error| format!("{url} is not ready: {}", root_cause(&error));
    ready.map(drop).map_err(|error| unready(error).into())
}
