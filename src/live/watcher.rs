//! A watcher: takes the last message of a topic when it changes, and sends comments to keep the stream alive otherwise.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use metrics::counter;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::hub::{TICK, Watching};
use super::message::{self, COMMENT, StreamMessage};
use super::progress::News;
use crate::access::{Caller, Needs};
use crate::http::App;
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::supply::Taken;

/// The longest time without a byte: proxies consider a connection dead that is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The shortest time between two messages: four a second, even while new watchers cause more looks at the board.
const MESSAGE_INTERVAL: Duration = TICK;
/// The pause before a message is retried while the reader's access can't be checked.
const UNCERTAIN_PAUSE: Duration = Duration::from_millis(500);
/// How long browsers wait before they reconnect, in milliseconds: minimum and maximum.
const RETRY_MS: [u32; 2] = [1_000, 6_000];

/// A reader of a stream.
pub(super) struct Watcher {
    app: Arc<App>,
    caller: Caller,
    needs: Needs,
    /// Released when the stream ends.
    _held: (Watching, Taken),
    news: Receiver<News>,
    /// What to send next.
    parts: VecDeque<Bytes>,
    /// The key of the period last sent to the reader.
    key: Option<Arc<str>>,
    /// The id of the last message before the reader reconnected, if it did.
    known: Option<String>,
    /// The earliest time for the next message.
    quiet_until: Instant,
    /// The latest time for the next byte.
    silent_until: Instant,
    is_over: bool,
}

impl Watcher {
    /// A watcher that is admitted, with the id of the last message that it has had.
    pub(super) fn new(
        app: &Arc<App>,
        (caller, needs): (Caller, Needs),
        (watching, permit, news): (Watching, Taken, Receiver<News>),
        known: Option<&str>,
    ) -> Self {
        Self {
            app: Arc::clone(app),
            caller,
            needs,
            _held: (watching, permit),
            news,
            parts: VecDeque::from([message::retry(retry_ms())]),
            key: None,
            known: known.map(ToOwned::to_owned),
            quiet_until: Instant::now(),
            silent_until: Instant::now() + KEEP_ALIVE,
            is_over: false,
        }
    }

    pub(super) fn parts(mut self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        self.news.mark_changed();
        unfold(self, async |mut watcher| {
            let part = watcher.next().await?;
            Some((Ok(part), watcher))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                self.silent_until = Instant::now() + KEEP_ALIVE;
                return Some(part);
            }
            if self.is_over {
                return None;
            }
            let quiet_until = self.quiet_until;
            let news = async {
                sleep_until(quiet_until).await;
                self.news.changed().await
            };
            tokio::select! {
                biased;
                () = self.app.shutdown.cancelled() => {
                    // All reconnect, but not all at once.
                    self.parts.push_back(message::retry(retry_ms()));
                    self.is_over = true;
                }
                changed = news => match changed {
                    Ok(()) => self.hear().await,
                    Err(_) => self.is_over = true,
                },
                () = sleep_until(self.silent_until) => self.stay(),
            }
        }
    }

    /// Takes the last news of the topic.
    async fn hear(&mut self) {
        let news = self.news.borrow_and_update().clone();
        match news {
            News::None => {}
            News::Message(message) => {
                if !self.tell(&message) {
                    self.news.mark_changed();
                    tokio::time::sleep(UNCERTAIN_PAUSE).await;
                }
            }
            News::End(problem) => self.end(&problem),
        }
    }

    /// Sends a message; `false`: try again.
    fn tell(&mut self, message: &StreamMessage) -> bool {
        match self.check(message) {
            Ok(()) => {}
            Err(problem) if problem.kind == STORE_UNAVAILABLE => {
                if self.silent_until <= Instant::now() {
                    self.parts.push_back(COMMENT);
                }
                return false;
            }
            Err(problem) => {
                self.end(&problem);
                return true;
            }
        }
        let ended = self.key.replace(Arc::clone(&message.key));
        // A reconnecting reader may have the first message already.
        if self.known.take().is_some_and(|known| known == message.id) {
            return true;
        }
        let ended = ended.filter(|ended| *ended != message.key);
        let period = ended.map(|ended| message::period(&ended, &message.key));
        self.parts.extend(period);
        self.parts.extend(message.parts.iter().cloned());
        self.quiet_until = Instant::now() + MESSAGE_INTERVAL;
        counter!("standings_stream_messages_total").increment(1);
        true
    }

    /// Sends a comment, if the reader still has access.
    fn stay(&mut self) {
        let last = self.news.borrow().clone();
        if let News::Message(message) = last
            && let Err(problem) = self.check(&message)
            && problem.kind != STORE_UNAVAILABLE
        {
            self.end(&problem);
            return;
        }
        self.parts.push_back(COMMENT);
    }

    /// Checks that the reader may see a message.
    fn check(&self, message: &StreamMessage) -> Result<(), Problem> {
        self.caller
            .check_still(&self.app, &message.board, self.needs)
    }

    fn end(&mut self, problem: &Problem) {
        self.parts.push_back(message::end(problem));
        self.is_over = true;
    }
}

/// A random pause.
fn retry_ms() -> u32 {
    let [from, to] = RETRY_MS;
    fastrand::u32(from..=to)
}
