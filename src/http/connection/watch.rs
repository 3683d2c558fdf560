//! How long a connection may be in its phase.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::TimedOut;
use super::activity::{Activity, Phase};

/// So much of an answer has to be taken in each [`Times::unread`], in bytes, or all that is left of it.
const UNREAD_BYTES_MIN: u64 = 32 << 10;

/// How long connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For the head of a request, from the first byte of it; of the first request from the beginning of the connection.
    pub head: Duration,
    /// Without a request.
    pub idle: Duration,
    /// To take a part of an answer.
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

/// Since when a connection is in its phase, and the alarm for that it is for too long.
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
    /// That of a new connection.
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

    /// Until when the first head has to be there.
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
            // Handlers have limits of their own.
            Phase::Working => None,
        }
    }

    /// Waits for that the connection is too slow; to be asked each time that something has happened on it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<TimedOut> {
        loop {
            let Some(deadline) = self.deadline() else {
                return Poll::Pending;
            };
            // A later one is soon enough: it is looked at when the alarm ends.
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

    /// Watches over work on the connection until it ends.
    pub(super) async fn over<T>(&mut self, work: impl Future<Output = T>) -> Result<T, TimedOut> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll(context).map(Err),
        })
        .await
    }
}
