//! Sends batches to the service, each until all its events have results. A batch that could count twice is not sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ImportError;
use super::memory::Memory;
use super::rejects::Rejection;
use super::rows::{Batch, SentRow};
use super::summary::Tally;
use crate::cli::client::{Client, ClientError, Fault, PassingFailure, ShownProblem};
use crate::domain::board::Definition;
use crate::domain::time::Span;

/// The problems that say nothing about the item itself: it has to be sent again.
const PASSING_PROBLEMS: [&str; 7] = [
    "queue-full",
    "log-unavailable",
    "store-unavailable",
    "store-full",
    "contention",
    "internal",
    "request-timeout",
];
/// The path for batches, without what each event did to the standings: that saves both sides work.
const EVENTS_PATH: &str = "/v1/events?standings=false";
const PROFILES_PATH: &str = "/v1/profiles";

/// The facts about the board that the import needs.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BoardFacts {
    /// The shortest time for which it remembers ids.
    pub(super) idempotency: Span,
    /// Changes with every change of its definition; `None` if the service doesn't send it.
    pub(super) version: Option<String>,
}

/// Sends the batches of an import.
pub(super) struct BatchSender {
    client: Client,
    /// How many requests may have been taken: all that weren't certainly refused.
    perhaps_taken: AtomicU64,
}

impl BatchSender {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            perhaps_taken: AtomicU64::new(0),
        }
    }

    /// The client that it sends with.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads the board: this shows whether the service can be reached, the key is right and the board exists before
    /// anything is sent.
    pub(super) async fn board(&self) -> Result<BoardFacts, ClientError> {
        let request = || self.client.board_request(Method::GET, "/summary");
        let limits = self.client.limits.first_contact_max;
        self.client.ask(request, "reading the board", limits).await
    }

    /// Whether any event may have been taken.
    pub(super) fn has_perhaps_sent(&self) -> bool {
        self.perhaps_taken.load(Ordering::Relaxed) > 0
    }

    /// The definition of the board; `None` if the key may not read it, or if another release wrote it.
    pub(super) async fn definition(&self) -> Result<Option<Definition>, ClientError> {
        let request = || self.client.board_request(Method::GET, "");
        let limits = self.client.limits.first_contact_max;
        let answer = self
            .client
            .ask(request, "reading the definition", limits)
            .await;
        let mut fields: Map<String, Value> = match answer {
            Err(ClientError::Forbidden { .. }) => return Ok(None),
            answer => answer?,
        };
        fields.remove("board");
        Ok(serde_json::from_str(&Value::Object(fields).to_string()).ok())
    }

    /// Sends a batch until all of it has results. Returns the counts of what was taken, and the rejected rows.
    pub(super) async fn send(
        &self,
        batch: &Batch,
        memory: Memory,
    ) -> Result<(Tally, Vec<Rejection>), ImportError> {
        let first_row = batch.first_row;
        let rows = format!("rows {} to {}", first_row + 1, first_row + batch.rows);
        let of_profiles = Request {
            path: PROFILES_PATH,
            body: batch.profiles.as_ref(),
            items: batch.sent.iter().filter(|row| row.has_profile).count(),
            what: format!("the profiles of {rows}"),
        };
        let of_events = Request {
            path: EVENTS_PATH,
            body: batch.events.as_ref(),
            items: batch.sent.iter().filter(|row| row.has_event).count(),
            what: rows,
        };
        // Profiles come first: if the key may not write them, no event is counted.
        let profiles = self
            .answers(&of_profiles, &mut Resending::default())
            .await?;
        let mut resending = Resending::of_events(first_row, memory);
        let events = self.answers(&of_events, &mut resending).await?;
        let (mut tally, rejections) = counted(&batch.sent, events, profiles);
        tally.generated = batch.generated;
        tally.skipped = batch.skipped;
        if resending.is_resent {
            tally.duplicate_resent = tally.duplicate;
        }
        Ok((tally, rejections))
    }

    /// Sends a request until each of its items has an answer.
    async fn answers(
        &self,
        request: &Request<'_>,
        resending: &mut Resending,
    ) -> Result<Vec<ItemAnswer>, ImportError> {
        let Some(body) = request.body else {
            return Ok(Vec::new());
        };
        let mut last = "the import was interrupted".to_owned();
        let mut retry = self.client.retry(self.client.limits.outage_max);
        loop {
            let sent = Instant::now();
            if let Some(idempotency) = resending.ended(sent) {
                return Err(ImportError::Forgotten {
                    what: request.what.clone(),
                    idempotency,
                    last,
                });
            }
            let answered = self.send_once(request, body).await;
            let fault = match answered.and_then(|answer| self.read(&answer, request)) {
                Ok(answers) => {
                    self.client.succeeded();
                    return Ok(answers);
                }
                Err(fault) => fault,
            };
            let failure = retry.pause(fault).await?;
            if !failure.is_certain {
                resending.note(sent);
            }
            last = failure.text;
        }
    }

    async fn send_once(&self, request: &Request<'_>, body: &Bytes) -> Result<Bytes, Fault> {
        let builder = self
            .client
            .request(Method::POST, request.path)
            .header(CONTENT_TYPE, "application/json")
            .body(body.clone());
        // Counted before it is sent: an interruption may come before the answer.
        self.perhaps_taken.fetch_add(1, Ordering::Relaxed);
        let answered = self.client.exchange(builder, &request.what).await;
        let is_certain = match &answered {
            Ok(_) => false,
            Err(Fault::Passing(failure)) => failure.is_certain,
            Err(Fault::Final(_)) => true,
        };
        if is_certain {
            self.perhaps_taken.fetch_sub(1, Ordering::Relaxed);
        }
        answered
    }

    /// Reads the answers of all items.
    fn read(&self, answer: &Bytes, request: &Request<'_>) -> Result<Vec<ItemAnswer>, Fault> {
        let Results { results } = self.client.parsed(answer, &request.what)?;
        if results.len() != request.items {
            let answer = format!("{} results for {} items", results.len(), request.items);
            return Err(self.client.refused(&request.what, &answer));
        }
        let read = |result: ItemResult<'_>| {
            if result.status != ItemStatus::Rejected {
                return Ok(Ok(result.status));
            }
            let problem = result.problem.unwrap_or_default();
            let name = problem.name();
            if let Some(fault) = self.client.as_missing_board(name) {
                return Err(fault);
            }
            if PASSING_PROBLEMS.contains(&name) {
                return Err(Fault::Passing(PassingFailure {
                    text: format!("{} returned {name}", self.client.url()),
                    pause: None,
                    is_certain: false,
                }));
            }
            Ok(Err(Refusal {
                kind: name.to_owned(),
                title: problem.title.into_owned(),
                detail: problem.detail.into_owned(),
            }))
        };
        results.into_iter().map(read).collect()
    }
}

/// A request with many items.
struct Request<'a> {
    path: &'static str,
    /// `None` if there is nothing to send.
    body: Option<&'a Bytes>,
    items: usize,
    /// Its name in messages.
    what: String,
}

/// Whether a request was sent before, and until when it can be sent again. By default at any time, as profiles.
#[derive(Default)]
struct Resending {
    is_resent: bool,
    until: Option<Instant>,
    /// For how long the board remembers the ids of events.
    idempotency: Option<Span>,
}

impl Resending {
    /// Of the events of a batch after this many rows.
    fn of_events(first_row: u64, memory: Memory) -> Self {
        let unsure = memory.unsure_at(first_row);
        Self {
            is_resent: unsure.is_some(),
            until: unsure.and_then(|rows| rows.until),
            idempotency: Some(memory.idempotency),
        }
    }

    /// If the request can't be sent at this time any more: for how long the board remembers ids.
    fn ended(&self, now: Instant) -> Option<Span> {
        self.idempotency
            .filter(|_| self.until.is_some_and(|until| now >= until))
    }

    /// Notes that the request may have been taken, at this time or later.
    fn note(&mut self, sent: Instant) {
        self.is_resent = true;
        if let Some(idempotency) = self.idempotency {
            self.until
                .get_or_insert(sent + Memory::resend_time(idempotency));
        }
    }
}

/// Why an item was not taken: the name, title and detail of the problem.
pub(super) struct Refusal {
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) detail: String,
}

/// The outcome of an item that was taken, or why it was not.
pub(super) type ItemAnswer = Result<ItemStatus, Refusal>;

/// Counts what was taken of rows, and lists those of which something was rejected, with one rejection for each row.
pub(super) fn counted(
    rows: &[SentRow],
    events: Vec<ItemAnswer>,
    profiles: Vec<ItemAnswer>,
) -> (Tally, Vec<Rejection>) {
    let (mut tally, mut rejections) = (Tally::default(), Vec::new());
    let (mut events, mut profiles) = (events.into_iter(), profiles.into_iter());
    for row in rows {
        let event = row.has_event.then(|| events.next()).flatten();
        let profile = row.has_profile.then(|| profiles.next()).flatten();
        let mut refusal = |answer: Option<ItemAnswer>| match answer? {
            Ok(status) => {
                tally.count(status);
                None
            }
            Err(refusal) => Some(refusal),
        };
        let (event, profile) = (refusal(event), refusal(profile));
        rejections.extend(rejection(row, event, profile));
    }
    (tally, rejections)
}

/// The rejection of a row, if its event or its profile was refused.
fn rejection(row: &SentRow, event: Option<Refusal>, profile: Option<Refusal>) -> Option<Rejection> {
    let is_taken = row.has_event && event.is_none();
    let of_profile = profile
        .as_ref()
        .map(|refusal| format!("profile: {}", refusal.detail));
    let of_event = event.as_ref().map(|refusal| refusal.detail.clone());
    let details: Vec<String> = [of_event, of_profile].into_iter().flatten().collect();
    let Refusal { kind, title, .. } = event.or(profile)?;
    let source = row.source.clone();
    Some(Rejection {
        is_taken,
        ..Rejection::new(source, &kind, &title, &details.join("; "))
    })
}

#[derive(Deserialize)]
struct Results<'a> {
    #[serde(borrow)]
    results: Vec<ItemResult<'a>>,
}

#[derive(Deserialize)]
struct ItemResult<'a> {
    status: ItemStatus,
    #[serde(borrow)]
    problem: Option<ShownProblem<'a>>,
}

/// The outcome of an event, or of a profile.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ItemStatus {
    Applied,
    Unchanged,
    Duplicate,
    Queued,
    Stored,
    Rejected,
}
