//! The service as the import uses it: every request is sent until it is answered for good, or it is given up.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode, Url, redirect};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::memory::{Memory, REQUEST_TIME_MAX};
use super::progress::Progress;
use super::rejects::Rejection;
use super::rows::Batch;
use super::summary::{Tally, shortened};
use crate::config::Secret;
use crate::domain::ids::BoardId;
use crate::domain::time::Span;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for an answer. The service gives a request up after 10 s for its body and 20 s for the
/// rest: whoever waits longer than that learns how it ended.
const REQUEST_TIMEOUT: Duration = REQUEST_TIME_MAX;
/// The largest answer that is read, in bytes: 1,000 results with 16 standings each take a few MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A service may ask for a longer pause, but is asked again after this time.
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// The problems that say nothing about the event itself: it is to be sent again.
const PASSING_PROBLEMS: [&str; 4] = [
    "store-unavailable",
    "store-full",
    "internal",
    "request-timeout",
];
/// Where batches go; what each event did to the standings isn't asked for, which spares both sides work.
const EVENTS_PATH: &str = "/v1/events?standings=false";
const BOARD_NOT_FOUND: &str = "board-not-found";
/// What problem types begin with.
const PROBLEMS_PATH: &str = "/problems/";

/// Why the service did not take what was sent.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The settings make no sense.
    #[error("{0}")]
    Setting(String),
    /// It wants a key, or another one.
    #[error(
        "{url} does not accept the API key (401): give one with the role write in --key or STANDINGS_API_KEY"
    )]
    Unauthenticated {
        /// The service.
        url: String,
    },
    /// The key isn't allowed to send events.
    #[error("the API key may not send events (403): {detail}")]
    Forbidden {
        /// What the service says.
        detail: String,
    },
    /// The board isn't there.
    #[error("there is no board {board} at {url}: create it first")]
    BoardNotFound {
        /// The board.
        board: String,
        /// The service.
        url: String,
    },
    /// A whole request was refused, and would be refused again.
    #[error("{url} refused {what}: {answer}")]
    Refused {
        /// The service.
        url: String,
        /// What was sent.
        what: String,
        /// What it answered.
        answer: String,
    },
    /// Nothing has got through for too long.
    #[error("gave up after {} s without success: {last}", waited.as_secs())]
    GaveUp {
        /// How long.
        waited: Duration,
        /// What went wrong last.
        last: String,
    },
    /// A request whose fate is not known can't be sent again, since it could count twice by now.
    #[error(
        "{what} may have been taken, and the board, which remembers ids for {idempotency}, may not know them any more: {last}"
    )]
    Forgotten {
        /// What was sent.
        what: String,
        /// For how long the board remembers ids.
        idempotency: Span,
        /// What went wrong last.
        last: String,
    },
}

/// How patient the client is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// How long requests may fail, without any success between, before the import is given up.
    pub(super) outage_max: Duration,
    /// The same for the first request of all, so that a wrong address is told soon.
    pub(super) first_contact_max: Duration,
    /// The pause before the first repetition; each further one is twice as long.
    pub(super) pause_min: Duration,
    /// The longest such pause.
    pub(super) pause_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            outage_max: Duration::from_mins(2),
            first_contact_max: Duration::from_secs(10),
            pause_min: Duration::from_millis(200),
            pause_max: Duration::from_secs(10),
        }
    }
}

/// What has to be known of the board.
#[derive(Clone, Debug)]
pub(super) struct BoardFacts {
    /// For how long it remembers ids, at least.
    pub(super) idempotency: Span,
    /// What changes with every change of its definition; `None` if the service doesn't say.
    pub(super) version: Option<String>,
}

/// Sends requests to one service, for one board.
pub(super) struct Client {
    http: reqwest::Client,
    url: String,
    board: BoardId,
    patience: Patience,
    progress: Arc<Progress>,
    last_success: Mutex<Option<Instant>>,
    /// Whether requests fail at the moment.
    is_outage: AtomicBool,
    /// How many requests may have been taken: all that weren't certainly refused.
    perhaps_taken: AtomicU64,
}

/// How one sending of a request ended.
enum Attempt<T> {
    Done(T),
    /// It is to be sent again.
    Again(Failure),
    Failed(ServiceError),
}

/// How long a request can be sent again without counting twice.
#[derive(Clone, Copy, Debug)]
struct Resend {
    /// For how long the board remembers ids.
    idempotency: Span,
    /// The end of that time, if it may have been sent before.
    until: Option<Instant>,
}

struct Failure {
    text: String,
    /// What the service asks for.
    pause: Option<Duration>,
    /// Whether the request can't have done anything.
    is_certain: bool,
}

impl Client {
    /// Checks the settings. `url` has no `/` at its end.
    pub(super) fn new(
        url: &str,
        key: Option<&Secret>,
        board: BoardId,
        patience: Patience,
        progress: Arc<Progress>,
    ) -> Result<Self, ServiceError> {
        let http = http_client(&parse_url(url)?, key)?;
        Ok(Self {
            http,
            url: url.to_owned(),
            board,
            patience,
            progress,
            last_success: Mutex::new(None),
            is_outage: AtomicBool::new(false),
            perhaps_taken: AtomicU64::new(0),
        })
    }

    /// Reads the board: whether the service can be reached, the key is right and the board is there shows
    /// before anything is sent.
    pub(super) async fn board(&self) -> Result<BoardFacts, ServiceError> {
        let (url, what) = (
            format!("{}/v1/boards/{}", self.url, self.board),
            "the question for the board",
        );
        let ask = async || {
            let answer = match self.exchange(self.http.get(&url), what).await {
                Attempt::Done(answer) => answer,
                Attempt::Again(failure) => return Attempt::Again(failure),
                Attempt::Failed(error) => return Attempt::Failed(error),
            };
            match serde_json::from_slice::<BoardAnswer>(&answer.body) {
                Ok(BoardAnswer { idempotency }) => Attempt::Done(BoardFacts {
                    idempotency,
                    version: answer.version,
                }),
                Err(error) => {
                    Attempt::Failed(self.refused(what, &format!("no board, but {error}")))
                }
            }
        };
        self.persist(what, self.patience.first_contact_max, None, ask)
            .await
    }

    /// Sends the events of a batch until each has its result, and counts those that were taken.
    pub(super) async fn post(
        &self,
        batch: &Batch,
        memory: Memory,
    ) -> Result<(Tally, Vec<Rejection>), ServiceError> {
        if batch.sources.is_empty() {
            return Ok(Default::default());
        }
        let url = format!("{}{EVENTS_PATH}", self.url);
        let what = format!(
            "rows {} to {}",
            batch.first_row + 1,
            batch.first_row + batch.rows
        );
        let mut is_resent = memory.is_unsure(batch.first_row);
        let resend = Resend {
            idempotency: memory.idempotency,
            until: memory.until(batch.first_row),
        };
        let send = async || {
            let request = self
                .http
                .post(&url)
                .header(CONTENT_TYPE, "application/json")
                .body(batch.body.clone());
            // Before it is sent: an interruption may come before the answer.
            self.perhaps_taken.fetch_add(1, Ordering::Relaxed);
            let answer = match self.exchange(request, &what).await {
                Attempt::Done(answer) => answer,
                Attempt::Again(failure) => {
                    if failure.is_certain {
                        self.perhaps_taken.fetch_sub(1, Ordering::Relaxed);
                    }
                    is_resent |= !failure.is_certain;
                    return Attempt::Again(failure);
                }
                Attempt::Failed(error) => {
                    self.perhaps_taken.fetch_sub(1, Ordering::Relaxed);
                    return Attempt::Failed(error);
                }
            };
            let counted = self.count(&answer.body, batch, &what, is_resent);
            is_resent = true;
            counted
        };
        self.persist(&what, self.patience.outage_max, Some(resend), send)
            .await
    }

    /// Whether any event may have been taken.
    pub(super) fn has_perhaps_sent(&self) -> bool {
        self.perhaps_taken.load(Ordering::Relaxed) > 0
    }

    /// Repeats an attempt, with growing pauses, until it ends for good or has been in vain for too long.
    /// `resend`: of what must not count twice.
    async fn persist<T>(
        &self,
        what: &str,
        outage_max: Duration,
        mut resend: Option<Resend>,
        mut attempt: impl AsyncFnMut() -> Attempt<T>,
    ) -> Result<T, ServiceError> {
        let begun = Instant::now();
        let mut last = "the import was interrupted".to_owned();
        let mut repetition = 0;
        loop {
            let sent = Instant::now();
            if let Some(Resend {
                idempotency,
                until: Some(end),
            }) = resend
                && sent >= end
            {
                return Err(ServiceError::Forgotten {
                    what: what.to_owned(),
                    idempotency,
                    last,
                });
            }
            let failure = match attempt().await {
                Attempt::Done(done) => {
                    self.succeeded();
                    return Ok(done);
                }
                Attempt::Failed(error) => return Err(error),
                Attempt::Again(failure) => failure,
            };
            if let (Some(resend), false) = (&mut resend, failure.is_certain) {
                let end = sent + Memory::resend_time(resend.idempotency);
                resend.until.get_or_insert(end);
            }
            let fails_since = self
                .last_success
                .lock()
                .map_or(begun, |success| success.max(begun));
            let waited = fails_since.elapsed();
            let Some(left) = outage_max
                .checked_sub(waited)
                .filter(|left| !left.is_zero())
            else {
                return Err(ServiceError::GaveUp {
                    waited,
                    last: failure.text,
                });
            };
            self.failed(&failure.text, left);
            let pause = self
                .pause(repetition)
                .max(failure.pause.unwrap_or_default())
                .min(PAUSE_MAX);
            tokio::time::sleep(pause.min(left)).await;
            last = failure.text;
            repetition += 1;
        }
    }

    fn succeeded(&self) {
        *self.last_success.lock() = Some(Instant::now());
        if self.is_outage.swap(false, Ordering::Relaxed) {
            self.progress.notice("the service answers again");
        }
    }

    /// Says so once, and not again before the next success.
    fn failed(&self, text: &str, left: Duration) {
        if !self.is_outage.swap(true, Ordering::Relaxed) {
            self.progress
                .notice(&format!("{text}; trying again for {} s", left.as_secs()));
        }
    }

    /// Between half and all of a time that doubles with each repetition, so that requests which failed
    /// together don't come back together.
    fn pause(&self, repetition: u32) -> Duration {
        let whole = self
            .patience
            .pause_min
            .saturating_mul(2_u32.saturating_pow(repetition));
        let half = whole.min(self.patience.pause_max) / 2;
        // Each `RandomState` has another key.
        let dice = RandomState::new().hash_one(repetition) % 1_000;
        half + half * u32::try_from(dice).unwrap_or_default() / 1_000
    }

    /// Sends a request once.
    async fn exchange(&self, request: RequestBuilder, what: &str) -> Attempt<Answer> {
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_builder() => {
                return Attempt::Failed(ServiceError::Setting(root_cause(&error)));
            }
            Err(error) => return self.unanswered(&error),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let body = match read_body(response).await {
            Ok(Some(body)) => body,
            Ok(None) => return Attempt::Failed(self.refused(what, "an answer that is too long")),
            Err(error) => return self.unanswered(&error),
        };
        if status == StatusCode::OK {
            return Attempt::Done(Answer {
                body,
                version: version(&headers),
            });
        }
        let problem = serde_json::from_slice(&body).unwrap_or_default();
        let text = describe(status, &problem);
        if is_passing(status) {
            let is_certain = status == StatusCode::TOO_MANY_REQUESTS;
            let text = format!("{} answers {text}", self.url);
            return Attempt::Again(Failure {
                text,
                pause: requested_pause(&headers),
                is_certain,
            });
        }
        let url = self.url.clone();
        Attempt::Failed(match status {
            StatusCode::UNAUTHORIZED => ServiceError::Unauthenticated { url },
            StatusCode::FORBIDDEN => ServiceError::Forbidden {
                detail: shortened(&problem.detail),
            },
            StatusCode::NOT_FOUND if problem.name() == BOARD_NOT_FOUND => self.board_not_found(),
            _ => self.refused(what, &text),
        })
    }

    fn unanswered<T>(&self, error: &reqwest::Error) -> Attempt<T> {
        let cause = if error.is_timeout() {
            "no answer in time".to_owned()
        } else {
            root_cause(error)
        };
        let text = format!("can't reach {}: {cause}", self.url);
        Attempt::Again(Failure {
            text,
            pause: None,
            is_certain: error.is_connect(),
        })
    }

    fn refused(&self, what: &str, answer: &str) -> ServiceError {
        ServiceError::Refused {
            url: self.url.clone(),
            what: what.to_owned(),
            answer: shortened(answer),
        }
    }

    fn board_not_found(&self) -> ServiceError {
        ServiceError::BoardNotFound {
            board: self.board.to_string(),
            url: self.url.clone(),
        }
    }

    /// Counts the results of a batch.
    fn count(
        &self,
        body: &[u8],
        batch: &Batch,
        what: &str,
        is_resent: bool,
    ) -> Attempt<(Tally, Vec<Rejection>)> {
        let results = match serde_json::from_slice::<BatchAnswer<'_>>(body) {
            Ok(answer) => answer.results,
            Err(error) => {
                return Attempt::Failed(self.refused(what, &format!("no results, but {error}")));
            }
        };
        let events = batch.sources.len();
        if results.len() != events {
            let answer = format!("{} results for {events} events", results.len());
            return Attempt::Failed(self.refused(what, &answer));
        }
        let mut tally = Tally {
            generated: batch.generated,
            ..Tally::default()
        };
        let mut rejections = Vec::new();
        for (result, source) in results.iter().zip(&batch.sources) {
            match result.status {
                EventStatus::Applied => tally.applied += 1,
                EventStatus::Unchanged => tally.unchanged += 1,
                EventStatus::Duplicate => tally.duplicate += 1,
                EventStatus::Rejected => {
                    let Problem { title, detail, .. } = &result.problem;
                    match result.problem.name() {
                        BOARD_NOT_FOUND => return Attempt::Failed(self.board_not_found()),
                        name if PASSING_PROBLEMS.contains(&name) => {
                            let text = format!("{} answers {name}", self.url);
                            return Attempt::Again(Failure {
                                text,
                                pause: None,
                                is_certain: false,
                            });
                        }
                        name => {
                            rejections.push(Rejection::new(source.clone(), name, title, detail));
                        }
                    }
                }
            }
        }
        if is_resent {
            tally.duplicate_resent = tally.duplicate;
        }
        Attempt::Done((tally, rejections))
    }
}

/// An answer with the status 200.
struct Answer {
    body: Bytes,
    version: Option<String>,
}

#[derive(Deserialize)]
struct BoardAnswer {
    idempotency: Span,
}

#[derive(Deserialize)]
struct BatchAnswer<'a> {
    #[serde(borrow)]
    results: Vec<EventAnswer<'a>>,
}

#[derive(Deserialize)]
struct EventAnswer<'a> {
    status: EventStatus,
    #[serde(borrow, default, deserialize_with = "or_default")]
    problem: Problem<'a>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EventStatus {
    Applied,
    Unchanged,
    Duplicate,
    Rejected,
}

/// A problem (RFC 9457), as far as it is shown.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    title: Cow<'a, str>,
    #[serde(borrow)]
    detail: Cow<'a, str>,
}

impl Problem<'_> {
    /// The type without its path.
    fn name(&self) -> &str {
        match self.kind.strip_prefix(PROBLEMS_PATH).unwrap_or(&self.kind) {
            "" => "unknown",
            name => name,
        }
    }
}

/// `null` is as good as nothing.
fn or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Problem<'de>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

pub(crate) fn parse_url(text: &str) -> Result<Url, ServiceError> {
    let setting = |detail: &str| ServiceError::Setting(format!("--url: {detail}"));
    let url = Url::parse(text).map_err(|error| setting(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(setting(
            "an address is like http://127.0.0.1:8080 or https://host",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(setting(
            "an address names no user; an API key is given with --key",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(setting("an address ends before ? and #"));
    }
    Ok(url)
}

pub(crate) fn http_client(
    url: &Url,
    key: Option<&Secret>,
) -> Result<reqwest::Client, ServiceError> {
    // It fails if the process has a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("standings/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        // A redirected POST becomes a GET: better to be told of the right address.
        .redirect(redirect::Policy::none());
    if url.scheme() == "http" {
        // Without TLS the system's certificates aren't needed, and a small container has none.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        // No proxy stands between a machine and itself.
        builder = builder.no_proxy();
    }
    if let Some(Secret(key)) = key.filter(|Secret(key)| !key.is_empty()) {
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
            ServiceError::Setting("the API key has characters that no key has".to_owned())
        })?;
        value.set_sensitive(true);
        builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
    }
    builder
        .build()
        .map_err(|error| ServiceError::Setting(root_cause(&error)))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether the same request may be answered otherwise later.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

/// `None` if it is longer than any answer should be.
async fn read_body(mut response: Response) -> Result<Option<Bytes>, reqwest::Error> {
    let announced = response
        .content_length()
        .and_then(|length| usize::try_from(length).ok());
    let mut body = Vec::with_capacity(announced.unwrap_or_default().min(ANSWER_BYTES_MAX));
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body.into()))
}

/// The entity tag, also where a proxy has made it a weak one.
fn version(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    Some(tag.trim_start_matches("W/").trim_matches('"').to_owned())
}

/// `Retry-After` in seconds. The service doesn't send dates.
fn requested_pause(headers: &HeaderMap) -> Option<Duration> {
    headers
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
        .map(Duration::from_secs)
}

fn describe(status: StatusCode, problem: &Problem<'_>) -> String {
    let title = if problem.title.is_empty() {
        status.canonical_reason().unwrap_or_default()
    } else {
        &*problem.title
    };
    let text = format!("{} {title}", status.as_u16());
    if problem.detail.is_empty() {
        shortened(&text)
    } else {
        shortened(&format!("{text}: {}", problem.detail))
    }
}

/// The innermost cause says what happened; those around it say only that a request failed.
fn root_cause(error: &reqwest::Error) -> String {
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
    fn an_address_is_one_of_a_service() {
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
