//! One connection: how long it may have no request, half of one, or an unread answer; and how it ends.
//!
//! The HTTP library bounds the time for the head of a request, uses the same bound for idle connections, and has none for
//! writing. So this module counts in addition to the library: bytes in and out (`socket.rs`), and requests from their head
//! to the last byte of their answer (`flight.rs`); `watch.rs` applies the limits to these counts. Answers without an end
//! leave the library once their head is written (`endless.rs`).

mod activity;
mod endless;
mod flight;
mod place;
mod socket;
mod stopping;
mod watch;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures::TryFutureExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use metrics::counter;
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};
use tower::Service;

use self::activity::Phase;
use self::endless::Handover;
use self::flight::Flight;
use self::socket::{HTTP2_PREFACE, Socket, opening};
use self::watch::Watch;
use super::listener::Routers;
use super::proxies::Peer;

pub(crate) use self::activity::Activity;
pub(crate) use self::endless::Endless;
pub(crate) use self::place::Place;
pub(crate) use self::stopping::Stopping;
pub use self::watch::Times;

/// The longest head of a request, in bytes; beyond it the answer is 431, or 414 if the address alone is that long.
const HEAD_BYTES_MAX: usize = 128 << 10;
/// The maximum number of concurrent requests of an HTTP/2 connection.
const STREAMS_MAX: u32 = 100;
/// How often an HTTP/2 connection is pinged, and the longest wait for the reply.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// What handles the requests of a connection.
pub(crate) struct Answering {
    pub(crate) routers: Routers,
    /// `None` beyond the bound of connections.
    pub(crate) place: Option<Arc<Place>>,
}

impl Answering {
    fn router(&self, request: &Request<Incoming>) -> Router {
        let place = self.place.as_ref();
        let routers = &self.routers;
        if place.is_some_and(|place| place.is_for(request.headers(), request.extensions())) {
            routers.all.clone()
        } else {
            routers.reserve.clone()
        }
    }
}

/// The client was too slow.
#[derive(Debug)]
struct TimedOut(Phase);

/// Serves one connection until it ends, is too slow, or is idle once all connections have to end.
pub(crate) async fn drive(
    stream: TcpStream,
    answering: Answering,
    activity: Arc<Activity>,
    times: Times,
    stopping: Arc<Stopping>,
) {
    // An answer without an end outlives what has begun it.
    let place = answering.place.clone();
    if let Err(TimedOut(phase)) = serve(stream, answering, activity, times, &stopping).await {
        counter!("standings_http_connections_timed_out_total", "while" => phase.name())
            .increment(1);
    }
    drop(place);
}

async fn serve(
    mut stream: TcpStream,
    answering: Answering,
    activity: Arc<Activity>,
    times: Times,
    stopping: &Stopping,
) -> Result<(), TimedOut> {
    // Pools of clients open connections for requests that others take then. Such a one is idle like any other.
    let mut first = [0];
    let begin = tokio::select! {
        biased;
        () = stopping.begun() => return Ok(()),
        begin = timeout(times.idle, stream.peek(&mut first)) => begin,
    };
    begin.map_err(|_| TimedOut(Phase::Idle))?.ok();
    let mut watch = Watch::new(Arc::clone(&activity), times);
    let opening = tokio::select! {
        biased;
        () = stopping.begun() => return Ok(()),
        opening = timeout_at(watch.head_until(), opening(&mut stream)) => opening,
    };
    let Ok(opening) = opening.map_err(|_| TimedOut(Phase::Head))? else {
        return Ok(());
    };
    let is_http2 = opening == HTTP2_PREFACE;
    let http1 = http1(answering.place.is_some());
    let handover = Arc::new(Handover::default());
    let service = {
        let (activity, handover) = (Arc::clone(&activity), Arc::clone(&handover));
        let peer = stream.peer_addr().ok().map(|peer| Peer(peer.ip()));
        service_fn(move |mut request: Request<Incoming>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            let (method, version) = (request.method().clone(), request.version());
            let flight = Flight::begin(&activity, version);
            let handover = Arc::clone(&handover);
            let answer = answering.router(&request).call(request.map(Body::new));
            answer.map_ok(move |answer| {
                let answer = handover.keep(&method, version, answer, &flight);
                flight.answer(answer)
            })
        })
    };
    let socket = TokioIo::new(Socket::new(stream, opening, Arc::clone(&activity)));
    if is_http2 {
        let mut connection = Box::pin(http2().serve_connection(socket, service));
        let shut_down = http2::Connection::graceful_shutdown;
        let pinned = connection.as_mut();
        return run(pinned, shut_down, &mut watch, &handover, stopping).await;
    }
    let mut connection = Box::new(http1.serve_connection(socket, service));
    let shut_down = http1::Connection::graceful_shutdown;
    let pinned = Pin::new(&mut *connection);
    run(pinned, shut_down, &mut watch, &handover, stopping).await?;
    match handover.take() {
        Some(rest) => {
            let socket = connection.into_parts().io.into_inner();
            watch.over(rest.write(socket)).await
        }
        None => Ok(()),
    }
}

fn http1(keep_alive: bool) -> http1::Builder {
    let mut http1 = http1::Builder::new();
    http1
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(keep_alive);
    http1
}

fn http2() -> http2::Builder<TokioExecutor> {
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX);
    http2
}

/// Drives the HTTP library until the connection ends or an answer without an end leaves the library.
async fn run<C: Future>(
    mut connection: Pin<&mut C>,
    shut_down: fn(Pin<&mut C>),
    watch: &mut Watch,
    handover: &Handover,
    stopping: &Stopping,
) -> Result<(), TimedOut> {
    let activity = Arc::clone(&watch.activity);
    // One future for the whole time, so that it wakes this task.
    let mut begun = std::pin::pin!(stopping.begun());
    let mut is_waiting = false;
    let mut is_stopping = false;
    let mut poll = |context: &mut Context<'_>| {
        loop {
            let was_busy = activity.is_busy();
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            // The library writes out what it has before it waits.
            if handover.is_full() && !activity.is_blocked.load(Ordering::Acquire) {
                return Poll::Ready(Ok(()));
            }
            if !is_waiting {
                is_waiting = true;
                let _ = begun.as_mut().poll(context);
            }
            if !is_stopping && stopping.has_begun() {
                is_stopping = true;
                activity.end.register(context.waker());
                activity.is_stopping.store(true, Ordering::Release);
                shut_down(connection.as_mut());
                continue;
            }
            if is_stopping && !activity.is_busy() {
                if was_busy {
                    // Flushes the last answer.
                    continue;
                }
                return Poll::Ready(Ok(()));
            }
            return watch.poll(context).map(Err);
        }
    };
    poll_fn(|context| poll(context)).await
}
