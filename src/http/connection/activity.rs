//! What happens on a connection, in counters.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use futures::task::AtomicWaker;

/// What happens on a connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// How many requests have begun.
    pub(super) begun: AtomicU64,
    /// How many are in flight: their heads have come in, and their answers have not been written completely.
    pub(super) requests: AtomicUsize,
    /// How many of them have an answer with an end.
    pub(super) answers: AtomicUsize,
    /// How many of them have an answer without an end.
    pub(super) streams: AtomicUsize,
    /// Bytes of answers.
    pub(super) written: AtomicU64,
    /// Whether bytes wait for the client to read them.
    pub(super) is_blocked: AtomicBool,
    /// Whether something has come in since the last request.
    pub(super) has_head: AtomicBool,
    pub(super) is_http2: AtomicBool,
    /// Woken at the end of each request, once the connection is to close after the last of them.
    pub(super) end: AtomicWaker,
    pub(super) is_stopping: AtomicBool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// The next request.
    Idle,
    /// The rest of a request's head.
    Head,
    /// The service's own answers.
    Working,
    /// The client, to read the answers.
    Answering,
    /// The client, to read what a stream has sent.
    Streaming,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Head => "head",
            Self::Working => "working",
            Self::Answering => "unread",
            Self::Streaming => "streaming",
        }
    }
}

impl Activity {
    /// Whether a request is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0 || self.is_blocked.load(Ordering::Acquire)
    }

    /// The counter of answers in flight: of those without an end, or of the others.
    pub(super) fn counter(&self, is_stream: bool) -> &AtomicUsize {
        if is_stream {
            &self.streams
        } else {
            &self.answers
        }
    }

    pub(super) fn phase(&self) -> Phase {
        let is_blocked = self.is_blocked.load(Ordering::Acquire);
        if is_blocked && self.streams.load(Ordering::Acquire) > 0 {
            return Phase::Streaming;
        }
        if is_blocked || self.answers.load(Ordering::Acquire) > 0 {
            return Phase::Answering;
        }
        if self.requests.load(Ordering::Acquire) > 0 {
            return Phase::Working;
        }
        // HTTP/2 also sends frames that belong to no request.
        let is_half =
            self.has_head.load(Ordering::Acquire) && !self.is_http2.load(Ordering::Acquire);
        if is_half || self.begun.load(Ordering::Acquire) == 0 {
            Phase::Head
        } else {
            Phase::Idle
        }
    }
}
