//! What goes on on a connection, as far as it can be counted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use futures::task::AtomicWaker;

/// What goes on on a connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// How many requests have begun.
    pub(super) begun: AtomicU64,
    /// How many are under way: their heads are there, and their answers have not been written out.
    pub(super) requests: AtomicUsize,
    /// Of how many of them an answer is there that has an end.
    pub(super) answers: AtomicUsize,
    /// How many of them have an answer without an end.
    pub(super) streams: AtomicUsize,
    /// Bytes of answers.
    pub(super) written: AtomicU64,
    /// Whether bytes wait for the client to take them.
    pub(super) is_blocked: AtomicBool,
    /// Whether something has come in since the last request.
    pub(super) has_head: AtomicBool,
    pub(super) is_http2: AtomicBool,
    /// Woken by the end of each request, once the connection is to end with the last of them.
    pub(super) end: AtomicWaker,
    pub(super) is_stopping: AtomicBool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// The next request.
    Idle,
    /// The rest of a head.
    Head,
    /// Its own answers.
    Working,
    /// The client, to take them.
    Answering,
    /// The client, to take what a stream has for it.
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
    /// Whether a request is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0 || self.is_blocked.load(Ordering::Acquire)
    }

    /// Counts the answers under way: those without an end, or the others.
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
        // HTTP/2 sends more than requests.
        let is_half =
            self.has_head.load(Ordering::Acquire) && !self.is_http2.load(Ordering::Acquire);
        if is_half || self.begun.load(Ordering::Acquire) == 0 {
            Phase::Head
        } else {
            Phase::Idle
        }
    }
}
