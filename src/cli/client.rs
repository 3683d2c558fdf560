//! The HTTP client of the commands. It repeats a request until its outcome is known, or gives up.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use thiserror::Error;
use url::Host;

use super::ServiceArgs;
use super::args::Secret;
use super::text::shortened;
use crate::domain::ids::BoardId;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for an answer. The service takes up to 10 s to read a body, and up to 20 s for the rest: a client
/// that waits longer than that learns the outcome.
pub(super) const REQUEST_TIME_MAX: Duration = Duration::from_secs(35);
/// The largest response that is read, in bytes: 1,000 results with 16 standings each take a few MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The longest pause. If a service asks for a longer one, the client tries again after this time.
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// The name of the problem of an unknown board.
const BOARD_NOT_FOUND: &str = "board-not-found";
/// The prefix of problem types.
const PROBLEMS_PATH: &str = "/problems/";

/// Why a request failed permanently.
#[derive(Debug, Error)]
pub(super) enum ClientError {
    #[error("{0}")]
    Setting(String),
    /// The service requires a key, or a different one.
    #[error(
        "{url} does not accept the API key (401): set --api-key or STANDINGS_API_KEY to one that has {scopes}"
    )]
    Unauthenticated { url: String, scopes: &'static str },
    /// The key lacks a scope.
    #[error("the API key is not allowed to {act} (403): {detail}")]
    Forbidden { act: &'static str, detail: String },
    /// The board does not exist.
    #[error("there is no board {board} at {url} (404): create it first")]
    BoardNotFound { board: BoardId, url: String },
    /// A request was refused, and repeating it would not help.
    #[error("{what} failed at {url}: {answer}")]
    Refused {
        url: String,
        what: String,
        answer: String,
    },
    /// No request has succeeded for too long.
    #[error("gave up after {} s without success: {last}", waited.as_secs())]
    GaveUp { waited: Duration, last: String },
}

/// How one attempt of a request failed.
pub(super) enum Fault {
    /// The failure may pass, so the request is repeated.
    Passing(PassingFailure),
    /// A repetition would fail, too.
    Final(ClientError),
}

/// A failure that may pass.
pub(super) struct PassingFailure {
    pub(super) text: String,
    /// The pause that the service asks for.
    pub(super) pause: Option<Duration>,
    /// Whether it is certain that the request had no effect.
    pub(super) is_certain: bool,
}

/// How long a client repeats requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryLimits {
    /// How long requests may fail, without any success in between, before the client gives up.
    pub(super) outage_max: Duration,
    /// The limit for the very first request, so that the user soon learns of a wrong address.
    pub(super) first_contact_max: Duration,
    /// The pause before the first repetition; pauses double.
    pub(super) pause_min: Duration,
    /// The longest of these pauses.
    pub(super) pause_max: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            outage_max: Duration::from_mins(2),
            first_contact_max: Duration::from_secs(10),
            pause_min: Duration::from_millis(200),
            pause_max: Duration::from_secs(10),
        }
    }
}

/// What a command does with a board, and the scopes that it needs for that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    pub(super) act: &'static str,
    pub(super) scopes: &'static str,
}

/// Sends requests to one service, for one board.
pub(super) struct Client {
    http: reqwest::Client,
    /// Without a trailing `/`.
    url: String,
    board: BoardId,
    purpose: Purpose,
    pub(super) limits: RetryLimits,
    notice: Box<dyn Fn(&str) + Send + Sync>,
    last_success: Mutex<Option<Instant>>,
    /// Whether requests currently fail.
    is_outage: AtomicBool,
}

/// The repetitions of one request.
pub(super) struct Retry<'c> {
    client: &'c Client,
    begun: Instant,
    outage_max: Duration,
    repetition: u32,
}

impl Client {
    /// Checks the settings. `notice` informs the user when the service fails, and when it responds again.
    pub(super) fn new(
        args: &ServiceArgs,
        board: BoardId,
        purpose: Purpose,
        limits: RetryLimits,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, ClientError> {
        let url = args.url.trim_end_matches('/').to_owned();
        let http = http(&parse_url(&url)?, args.api_key.as_ref())?.build();
        Ok(Self {
            http: http.map_err(|error| ClientError::Setting(root_cause(&error)))?,
            url,
            board,
            purpose,
            limits,
            notice: Box::new(notice),
            last_success: Mutex::new(None),
            is_outage: AtomicBool::new(false),
        })
    }

    /// The service's address, without a trailing `/`.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The board of its requests.
    pub(super) fn board(&self) -> &BoardId {
        &self.board
    }

    /// A request; `path` begins with `/`.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// A request for the board, or for a path under it.
    pub(super) fn board_request(&self, method: Method, under: &str) -> RequestBuilder {
        self.request(method, &format!("/v1/boards/{}{under}", self.board))
    }

    /// Sends a request once, and returns the body of a successful response. `what` names the request in messages.
    pub(super) async fn exchange(
        &self,
        request: RequestBuilder,
        what: &str,
    ) -> Result<Bytes, Fault> {
        let response = self.open(request, what).await?;
        self.body_of(response, what).await
    }

    /// Sends a request once, and returns a successful response, whose body is still to be read.
    pub(super) async fn open(
        &self,
        request: RequestBuilder,
        what: &str,
    ) -> Result<Response, Fault> {
        let sent = request.send().await;
        let response = sent.map_err(|error| self.unanswered(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body_of(response, what).await?;
        let problem: ShownProblem<'_> = serde_json::from_slice(&body).unwrap_or_default();
        let text = problem.described(status);
        if is_passing(status) {
            return Err(Fault::Passing(PassingFailure {
                text: format!("{} returned {text}", self.url),
                pause: requested_pause(&headers),
                is_certain: status == StatusCode::TOO_MANY_REQUESTS,
            }));
        }
        let (url, Purpose { act, scopes }) = (self.url.clone(), self.purpose);
        Err(match status {
            StatusCode::UNAUTHORIZED => Fault::Final(ClientError::Unauthenticated { url, scopes }),
            StatusCode::FORBIDDEN => {
                let detail = shortened(&problem.detail);
                Fault::Final(ClientError::Forbidden { act, detail })
            }
            _ => {
                let missing = self.as_missing_board(problem.name());
                missing.unwrap_or_else(|| self.refused(what, &text))
            }
        })
    }

    async fn body_of(&self, response: Response, what: &str) -> Result<Bytes, Fault> {
        match read_body(response).await {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(self.refused(what, "the response is too long")),
            Err(error) => Err(self.unanswered(&error)),
        }
    }

    /// Sends a request until its outcome is known, or `outage_max` has passed without success, and parses the response.
    pub(super) async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        request: impl Fn() -> RequestBuilder,
        what: &str,
        outage_max: Duration,
    ) -> Result<T, ClientError> {
        let mut retry = self.retry(outage_max);
        loop {
            let answered = self.exchange(request(), what).await;
            match answered.and_then(|answer| self.parsed(&answer, what)) {
                Ok(answer) => {
                    self.succeeded();
                    return Ok(answer);
                }
                Err(fault) => retry.pause(fault).await?,
            };
        }
    }

    /// Parses the body of a response.
    pub(super) fn parsed<'a, T: Deserialize<'a>>(
        &self,
        answer: &'a Bytes,
        what: &str,
    ) -> Result<T, Fault> {
        serde_json::from_slice(answer).map_err(|error| {
            let text = format!("the response can't be read: {error}");
            self.refused(what, &text)
        })
    }

    /// The repetitions of a request. They end if no request has succeeded for `outage_max`.
    pub(super) fn retry(&self, outage_max: Duration) -> Retry<'_> {
        Retry {
            client: self,
            begun: Instant::now(),
            outage_max,
            repetition: 0,
        }
    }

    /// Notes that a request has succeeded.
    pub(super) fn succeeded(&self) {
        *self.last_success.lock() = Some(Instant::now());
        if self.is_outage.swap(false, Ordering::Relaxed) {
            (self.notice)("the service can be reached again");
        }
    }

    /// The fault of a request for a board that does not exist, if the problem has that name.
    pub(super) fn as_missing_board(&self, problem: &str) -> Option<Fault> {
        (problem == BOARD_NOT_FOUND).then(|| {
            Fault::Final(ClientError::BoardNotFound {
                board: self.board.clone(),
                url: self.url.clone(),
            })
        })
    }

    /// The fault of a request whose repetition would be refused, too.
    pub(super) fn refused(&self, what: &str, answer: &str) -> Fault {
        Fault::Final(ClientError::Refused {
            url: self.url.clone(),
            what: what.to_owned(),
            answer: shortened(answer),
        })
    }

    fn unanswered(&self, error: &reqwest::Error) -> Fault {
        if error.is_builder() {
            return Fault::Final(ClientError::Setting(root_cause(error)));
        }
        let cause = if error.is_timeout() {
            "no answer in time".to_owned()
        } else {
            root_cause(error)
        };
        Fault::Passing(PassingFailure {
            text: format!("can't reach {}: {cause}", self.url),
            pause: None,
            is_certain: error.is_connect(),
        })
    }
}

impl Retry<'_> {
    /// Waits before the next repetition, and returns the failure that caused it.
    ///
    /// # Errors
    /// Fails if the fault will not pass, or if no request has succeeded for too long.
    pub(super) async fn pause(&mut self, fault: Fault) -> Result<PassingFailure, ClientError> {
        let failure = match fault {
            Fault::Passing(failure) => failure,
            Fault::Final(error) => return Err(error),
        };
        let last_success = *self.client.last_success.lock();
        let fails_since = last_success.map_or(self.begun, |success| success.max(self.begun));
        let waited = fails_since.elapsed();
        let remaining = self.outage_max.saturating_sub(waited);
        if remaining.is_zero() {
            let last = failure.text;
            return Err(ClientError::GaveUp { waited, last });
        }
        // The user is informed of an outage once.
        if !self.client.is_outage.swap(true, Ordering::Relaxed) {
            let seconds = remaining.as_secs();
            (self.client.notice)(&format!("{}; trying again for {seconds} s", failure.text));
        }
        let pause = self.growing_pause().max(failure.pause.unwrap_or_default());
        tokio::time::sleep(pause.min(PAUSE_MAX).min(remaining)).await;
        self.repetition += 1;
        Ok(failure)
    }

    /// A random time between half and all of a time that doubles with each repetition, so that requests that failed
    /// together are not repeated together.
    fn growing_pause(&self) -> Duration {
        let limits = self.client.limits;
        let factor = 2_u32.saturating_pow(self.repetition);
        let whole = limits.pause_min.saturating_mul(factor);
        let half = whole.min(limits.pause_max) / 2;
        half + half.mul_f64(fastrand::f64())
    }
}

/// The fields of a problem (RFC 9457) that are shown.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownProblem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) title: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) detail: Cow<'a, str>,
}

impl ShownProblem<'_> {
    /// The type without its path.
    pub(super) fn name(&self) -> &str {
        match self.kind.strip_prefix(PROBLEMS_PATH).unwrap_or(&self.kind) {
            "" => "unknown",
            name => name,
        }
    }

    fn described(&self, status: StatusCode) -> String {
        let title = match &*self.title {
            "" => status.canonical_reason().unwrap_or_default(),
            title => title,
        };
        let separator = if self.detail.is_empty() { "" } else { ": " };
        let text = format!("{} {title}{separator}{}", status.as_u16(), self.detail);
        shortened(&text)
    }
}

/// The address of a service.
pub(super) fn parse_url(text: &str) -> Result<Url, ClientError> {
    let setting = |detail: &str| ClientError::Setting(format!("--url: {detail}"));
    let url = Url::parse(text).map_err(|error| setting(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(setting(
            "must be like http://127.0.0.1:8080 or https://host",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(setting(
            "must not have a user or a password; give an API key with --api-key",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(setting("must not have a query (?) or a fragment (#)"));
    }
    Ok(url)
}

/// An HTTP client for a service.
pub(super) fn http(url: &Url, key: Option<&Secret>) -> Result<ClientBuilder, ClientError> {
    // It fails if the process already has a provider, which will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("standings/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIME_MAX)
        // A redirected POST becomes a GET: better to report the right address.
        .redirect(redirect::Policy::none());
    if url.scheme() == "http" {
        // Without TLS the system's certificates aren't needed, and a small container has none.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        // No proxy is needed to reach the machine itself.
        builder = builder.no_proxy();
    }
    if let Some(Secret(key)) = key.filter(|Secret(key)| !key.is_empty()) {
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| ClientError::Setting("the API key has invalid characters".to_owned()))?;
        value.set_sensitive(true);
        builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
    }
    Ok(builder)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether the same request may succeed later.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

/// `None` if it is longer than any response should be.
async fn read_body(mut response: Response) -> Result<Option<Bytes>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body.into()))
}

/// `Retry-After` in seconds. The service doesn't send dates.
fn requested_pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// The innermost cause says what happened; the outer ones only say that a request failed.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    shortened(&cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_addresses_are_parsed_and_invalid_ones_refused() {
        for good in [
            "http://127.0.0.1:8080",
            "https://host/base",
            "http://[::1]:1",
        ] {
            assert!(parse_url(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "host:80",
            "ftp://host",
            "http://",
            "http://user@host",
            "http://host/?a=b",
            "http://h#f",
        ] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
        let loopback = |url: &str| is_loopback(&parse_url(url).unwrap());
        assert!(
            loopback("http://localhost:1")
                && loopback("http://127.9.9.9")
                && loopback("http://[::1]")
        );
        assert!(!loopback("http://localhost.example") && !loopback("http://10.0.0.1"));
    }
}
