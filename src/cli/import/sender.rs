//! Sends batches to the service, each until all its events have results. A batch that could count twice is not sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;

use super::ImportError;
use super::memory::Memory;
use super::rejects::Rejection;
use super::rows::Batch;
use super::summary::Tally;
use crate::cli::client::{Client, ClientError, Fault, PassingFailure, ShownProblem};
use crate::domain::time::Span;

/// The problems that say nothing about the event itself: it has to be sent again.
const PASSING_PROBLEMS: [&str; 6] = [
    "queue-full",
    "log-unavailable",
    "store-unavailable",
    "store-full",
    "internal",
    "request-timeout",
];
/// The path for batches, without what each event did to the standings: that saves both sides work.
const EVENTS_PATH: &str = "/v1/events?standings=false";

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

    /// Sends the events of a batch until each has its result, and counts those that were taken.
    pub(super) async fn send(
        &self,
        batch: &Batch,
        memory: Memory,
    ) -> Result<(Tally, Vec<Rejection>), ImportError> {
        if batch.sources.is_empty() {
            return Ok(Default::default());
        }
        let first_row = batch.first_row;
        let what = format!("rows {} to {}", first_row + 1, first_row + batch.rows);
        let unsure = memory.unsure_at(first_row);
        let (mut is_resent, mut until) = (unsure.is_some(), unsure.and_then(|rows| rows.until));
        let mut last = "the import was interrupted".to_owned();
        let mut retry = self.client.retry(self.client.limits.outage_max);
        loop {
            let sent = Instant::now();
            if until.is_some_and(|until| sent >= until) {
                let idempotency = memory.idempotency;
                return Err(ImportError::Forgotten {
                    what,
                    idempotency,
                    last,
                });
            }
            let answered = self.send_once(batch, &what).await;
            let fault = match answered.and_then(|answer| self.count(&answer, batch, &what)) {
                Ok((mut tally, rejections)) => {
                    self.client.succeeded();
                    if is_resent {
                        tally.duplicate_resent = tally.duplicate;
                    }
                    return Ok((tally, rejections));
                }
                Err(fault) => fault,
            };
            let failure = retry.pause(fault).await?;
            if !failure.is_certain {
                is_resent = true;
                until.get_or_insert(sent + Memory::resend_time(memory.idempotency));
            }
            last = failure.text;
        }
    }

    async fn send_once(&self, batch: &Batch, what: &str) -> Result<Bytes, Fault> {
        let request = self
            .client
            .request(Method::POST, EVENTS_PATH)
            .header(CONTENT_TYPE, "application/json");
        // Counted before it is sent: an interruption may come before the answer.
        self.perhaps_taken.fetch_add(1, Ordering::Relaxed);
        let answered = self
            .client
            .exchange(request.body(batch.body.clone()), what)
            .await;
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

    /// Counts the results of a batch.
    fn count(
        &self,
        answer: &Bytes,
        batch: &Batch,
        what: &str,
    ) -> Result<(Tally, Vec<Rejection>), Fault> {
        let BatchAnswer { results } = self.client.parsed(answer, what)?;
        let events = batch.sources.len();
        if results.len() != events {
            let answer = format!("{} results for {events} events", results.len());
            return Err(self.client.refused(what, &answer));
        }
        let mut tally = Tally {
            generated: batch.generated,
            ..Tally::default()
        };
        let mut rejections = Vec::new();
        for (EventAnswer { status, problem }, source) in results.into_iter().zip(&batch.sources) {
            match status {
                EventStatus::Applied => tally.applied += 1,
                EventStatus::Unchanged => tally.unchanged += 1,
                EventStatus::Duplicate => tally.duplicate += 1,
                EventStatus::Queued => tally.queued += 1,
                EventStatus::Rejected => {
                    let problem = problem.unwrap_or_default();
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
                    let (title, detail) = (&problem.title, &problem.detail);
                    rejections.push(Rejection::new(source.clone(), name, title, detail));
                }
            }
        }
        Ok((tally, rejections))
    }
}

#[derive(Deserialize)]
struct BatchAnswer<'a> {
    #[serde(borrow)]
    results: Vec<EventAnswer<'a>>,
}

#[derive(Deserialize)]
struct EventAnswer<'a> {
    status: EventStatus,
    #[serde(borrow)]
    problem: Option<ShownProblem<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EventStatus {
    Applied,
    Unchanged,
    Duplicate,
    Queued,
    Rejected,
}
