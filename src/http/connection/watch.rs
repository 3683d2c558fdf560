//! How long a connection may stay in its phase.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::TimedOut;
use super::activity::{Activity, Phase};

/// How many bytes of an answer have to be read in each [`Times::unread`], unless less remains.
const UNREAD_BYTES_MIN: u64 = 32 << 10;

/// How long connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For the head of a request, from its first byte.
    pub head: Duration,
    /// Without a request.
    pub idle: Duration,
    /// To read a part of an answer.
    pub unread: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            unread: Duration::from_secs(30),
        }
    }
}

/// When a connection entered its phase, and the timer for staying in it too long.
pub(super) struct Watch {
    pub(super) activity: Arc<Activity>,
    times: Times,
    phase: Phase,
    since: Instant,
    begun: u64,
    written: u64,
    alarm: Pin<Box<Sleep>>,
}

impl Watch {
    /// The watch over a connection whose first bytes have come.
    pub(super) fn new(activity: Arc<Activity>, times: Times) -> Self {
        let since = Instant::now();
        Self {
            activity,
            times,
            phase: Phase::Head,
            since,
            begun: 0,
            written: 0,
            alarm: Box::pin(sleep_until(since + times.head)),
        }
    }

    /// Until when the first head has to be complete.
    pub(super) fn head_until(&self) -> Instant {
        self.since + self.times.head
    }

    /// Until when the connection may go on like this.
    fn deadline(&mut self) -> Option<Instant> {
        let (activity, times) = (&self.activity, &self.times);
        let (phase, begun) = (activity.phase(), activity.begun.load(Ordering::Acquire));
        let written = activity.written.load(Ordering::Acquire);
        let is_unread = matches!(phase, Phase::Answering | Phase::Streaming);
        let gets_on = is_unread && written - self.written >= UNREAD_BYTES_MIN;
        if phase != self.phase || begun != self.begun || gets_on {
            self.phase = phase;
            self.since = Instant::now();
            self.begun = begun;
            self.written = written;
        }
        match phase {
            Phase::Head => Some(self.since + times.head),
            Phase::Idle => Some(self.since + times.idle),
            Phase::Answering | Phase::Streaming => Some(self.since + times.unread),
            // Handlers have their own limits.
            Phase::Working => None,
        }
    }

    /// Ready when the connection is too slow; to be polled after each event on it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<TimedOut> {
        loop {
            let Some(deadline) = self.deadline() else {
                return Poll::Pending;
            };
            // A later deadline can wait: it is checked when the timer fires.
            if deadline < self.alarm.deadline() {
                self.alarm.as_mut().reset(deadline);
            }
            ready!(self.alarm.as_mut().poll(context));
            if deadline <= Instant::now() {
                return Poll::Ready(TimedOut(self.phase));
            }
            self.alarm.as_mut().reset(deadline);
        }
    }

    /// Runs work on the connection until it ends, or the connection is too slow.
    pub(super) async fn over<T>(&mut self, work: impl Future<Output = T>) -> Result<T, TimedOut> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll(context).map(Err),
        })
        .await
    }
}
