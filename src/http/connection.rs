//! One connection: how long it may have no request, half of one, or an answer that the client does not read; and how it
//! ends.
//!
//! The HTTP library bounds the time for the head of a request, uses the same bound for idle connections, and has none for
//! writing. So this module counts beside the library: bytes in and out (`Counted`), and requests from their head to the last
//! byte of their answer (`Flight`).

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, Response, StatusCode, Version};
use bytes::{Buf, Bytes};
use futures::task::AtomicWaker;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use metrics::counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::observe::refusal;
use super::proxies::Peer;

/// The longest head of a request, in bytes; beyond it the answer is 431, and 414 where the address is that long.
const HEAD_BYTES_MAX: usize = 128 << 10;
/// The most requests of an HTTP/2 connection at one time.
const STREAMS_MAX: u32 = 100;
/// How often the peer of an HTTP/2 connection is asked whether it is there, and the longest wait for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
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

/// What goes on on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// How many requests have begun.
    begun: AtomicU64,
    /// How many are under way: their heads are there, and their answers have not been written out.
    requests: AtomicUsize,
    /// Of how many of them an answer is there that has an end.
    answers: AtomicUsize,
    /// How many of them have an answer without an end.
    streams: AtomicUsize,
    /// Bytes of answers.
    written: AtomicU64,
    /// Whether bytes wait for the client to take them.
    is_blocked: AtomicBool,
    /// Whether something has come in since the last request.
    has_head: AtomicBool,
    is_http2: AtomicBool,
    /// Woken by the end of each request, once the connection is to end with the last of them.
    end: AtomicWaker,
    is_stopping: AtomicBool,
}

/// Marks an answer without an end: while nothing waits to be taken, it may go on for as long as it likes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endless;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
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
    fn name(self) -> &'static str {
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
    pub(super) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0 || self.is_blocked.load(Ordering::Acquire)
    }

    fn phase(&self) -> Phase {
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

/// Since when a connection is in its phase.
struct Watch {
    phase: Phase,
    since: Instant,
    begun: u64,
    written: u64,
}

impl Watch {
    fn new() -> Self {
        Self {
            phase: Phase::Head,
            since: Instant::now(),
            begun: 0,
            written: 0,
        }
    }

    /// Until when the connection may go on like this.
    fn deadline(&mut self, activity: &Activity, times: &Times) -> Option<Instant> {
        let (phase, begun) = (activity.phase(), activity.begun.load(Ordering::Acquire));
        let written = activity.written.load(Ordering::Acquire);
        let is_unread = matches!(phase, Phase::Answering | Phase::Streaming);
        let gets_on = is_unread && written - self.written >= UNREAD_BYTES_MIN;
        if phase != self.phase || begun != self.begun || gets_on {
            *self = Self {
                phase,
                since: Instant::now(),
                begun,
                written,
            };
        }
        match phase {
            Phase::Head => Some(self.since + times.head),
            Phase::Idle => Some(self.since + times.idle),
            Phase::Answering | Phase::Streaming => Some(self.since + times.unread),
            // Handlers have limits of their own.
            Phase::Working => None,
        }
    }
}

/// Serves one connection, until it ends, is too slow, or has no request after `stop`.
pub(super) async fn drive(
    stream: TcpStream,
    router: Router,
    activity: Arc<Activity>,
    times: Times,
    keep_alive: bool,
    stop: CancellationToken,
) {
    let shared = Arc::clone(&activity);
    let peer = stream.peer_addr().ok().map(|peer| Peer(peer.ip()));
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        let flight = Flight::begin(&shared, request.version());
        let mut router = router.clone();
        async move {
            let answer = router.call(request.map(Body::new)).await?;
            Ok::<_, Infallible>(flight.answer(answer))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(keep_alive);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX);
    let io = TokioIo::new(Counted {
        stream,
        activity: Arc::clone(&activity),
        refusal: Bytes::new(),
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut watch = Watch::new();
    let mut alarm = pin!(tokio::time::sleep(times.head));
    let mut stopped = pin!(stop.cancelled());
    let mut is_stopping = false;
    let timed_out = poll_fn(|context| {
        loop {
            let was_busy = activity.is_busy();
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            if !is_stopping && stopped.as_mut().poll(context).is_ready() {
                is_stopping = true;
                activity.end.register(context.waker());
                activity.is_stopping.store(true, Ordering::Release);
                connection.as_mut().graceful_shutdown();
                continue;
            }
            if is_stopping && !activity.is_busy() {
                if was_busy {
                    // The last that was answered goes out.
                    continue;
                }
                return Poll::Ready(None);
            }
            let Some(deadline) = watch.deadline(&activity, &times) else {
                return Poll::Pending;
            };
            if deadline <= Instant::now() {
                return Poll::Ready(Some(watch.phase));
            }
            // Later is soon enough: the alarm looks again when it ends.
            if deadline < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(deadline);
            }
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    });
    if let Some(phase) = timed_out.await {
        counter!("standings_http_connections_timed_out_total", "while" => phase.name())
            .increment(1);
    }
}

/// A request under way, from its head to the last byte of its answer.
struct Flight {
    activity: Arc<Activity>,
    counted_as: OnceLock<CountedAs>,
}

/// What an answer under way is counted as.
#[derive(Clone, Copy, Debug)]
enum CountedAs {
    Answer,
    Stream,
}

impl CountedAs {
    fn count(self, activity: &Activity) -> &AtomicUsize {
        match self {
            Self::Answer => &activity.answers,
            Self::Stream => &activity.streams,
        }
    }
}

impl Flight {
    fn begin(activity: &Arc<Activity>, version: Version) -> Arc<Self> {
        activity.begun.fetch_add(1, Ordering::AcqRel);
        activity.requests.fetch_add(1, Ordering::AcqRel);
        activity.has_head.store(false, Ordering::Release);
        activity
            .is_http2
            .store(version == Version::HTTP_2, Ordering::Release);
        Arc::new(Self {
            activity: Arc::clone(activity),
            counted_as: OnceLock::new(),
        })
    }

    fn answer(self: Arc<Self>, answer: Response<Body>) -> Response<Answer> {
        let is_endless = answer.extensions().get::<Endless>().is_some();
        let counted_as = if is_endless {
            CountedAs::Stream
        } else {
            CountedAs::Answer
        };
        if self.counted_as.set(counted_as).is_ok() {
            counted_as
                .count(&self.activity)
                .fetch_add(1, Ordering::AcqRel);
        }
        answer.map(|body| Answer { body, flight: self })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(counted_as) = self.counted_as.get() {
            counted_as
                .count(&self.activity)
                .fetch_sub(1, Ordering::AcqRel);
        }
        self.activity.requests.fetch_sub(1, Ordering::AcqRel);
        if self.activity.is_stopping.load(Ordering::Acquire) {
            self.activity.end.wake();
        }
    }
}

/// The body of an answer.
struct Answer {
    body: Body,
    flight: Arc<Flight>,
}

/// A part of it, until it is written.
struct Part {
    bytes: Bytes,
    _flight: Arc<Flight>,
}

impl HttpBody for Answer {
    type Data = Part;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let part = |bytes| Part {
            bytes,
            _flight: Arc::clone(&self.flight),
        };
        frame.map_ok(|frame| frame.map_data(part))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// A stream whose bytes are counted. What the HTTP library answers by itself, a status alone, becomes a problem here.
struct Counted {
    stream: TcpStream,
    activity: Arc<Activity>,
    /// A problem, as far as it is not written yet.
    refusal: Bytes,
}

/// The status of an answer of the HTTP library's own: to a head that it can't read, and without a body.
fn status_of_refusal(answer: &[u8]) -> Option<StatusCode> {
    const NO_BODY: &[u8] = b"content-length: 0\r\n";
    let status = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let status = StatusCode::from_bytes(status).ok()?;
    let is_refusal = matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::URI_TOO_LONG
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    );
    let mut lines = answer.windows(NO_BODY.len());
    (is_refusal && lines.any(|line| line == NO_BODY)).then_some(status)
}

impl Counted {
    /// Takes over an answer of the HTTP library's own; returns whether it was one.
    fn refuses(&mut self, answer: &[u8]) -> bool {
        if self.activity.requests.load(Ordering::Acquire) > 0 {
            return false;
        }
        let Some(status) = status_of_refusal(answer) else {
            return false;
        };
        self.refusal = refusal(status).into();
        true
    }

    /// Writes the rest of a problem.
    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.refusal);
            self.count(&written);
            let count = ready!(written)?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.refusal.advance(count);
        }
        Poll::Ready(Ok(()))
    }

    fn count(&self, written: &Poll<io::Result<usize>>) {
        self.activity
            .is_blocked
            .store(written.is_pending(), Ordering::Release);
        if let Poll::Ready(Ok(count)) = written {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            self.activity.written.fetch_add(count, Ordering::AcqRel);
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = bytes.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, bytes);
        if bytes.filled().len() > before && self.activity.requests.load(Ordering::Acquire) == 0 {
            self.activity.has_head.store(true, Ordering::Release);
        }
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.refuses(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.first().is_some_and(|head| self.refuses(head)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
