//! Accepting connections: how many there may be, and what happens to those beyond.
//!
//! Beyond the bound the listener takes a few more connections. On these the service answers only `/livez`, `/readyz` and
//! `/metrics`, and everything else with 503. When these are used up too, the oldest one that has not sent its request yet
//! makes room for the newest. So a client that sends its request at once gets an answer, however many others only hold
//! connections.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use metrics::{counter, gauge};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::connection::{Activity, Times, drive};

/// Connections beyond the bound.
pub const RESERVE: usize = 32;
/// The shortest and the longest pause after a connection could not be accepted; they double.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many there may be; there are [`RESERVE`] more.
    pub connections: usize,
    /// How long they may take.
    pub times: Times,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Routers {
    /// To everybody.
    pub all: Router,
    /// On connections beyond the bound.
    pub reserve: Router,
}

/// A connection beyond the bound.
struct Reserved {
    activity: Arc<Activity>,
    task: AbortHandle,
}

/// One more open connection, as long as this value lives.
struct Open;

impl Open {
    fn new() -> Self {
        gauge!("standings_http_connections").increment(1.0);
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!("standings_http_connections").decrement(1.0);
    }
}

/// Serves until `stop`, and then until the requests that were accepted have been answered. Connections without one are
/// closed at once. With this future all connections end.
pub async fn serve(
    listener: TcpListener,
    routers: Routers,
    limits: Limits,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let mut reserved: VecDeque<Reserved> = VecDeque::with_capacity(RESERVE);
    let mut connections = JoinSet::new();
    let mut pause = PAUSE_MIN;
    // So that they are there before the first connection.
    gauge!("standings_http_connections").set(0.0);
    counter!("standings_http_connections_refused_total").increment(0);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_the_client(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                let slept = tokio::time::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
                if stop.run_until_cancelled(slept).await.is_none() {
                    break;
                }
                continue;
            }
        };
        pause = PAUSE_MIN;
        prepare(&stream);
        let activity = Arc::new(Activity::default());
        // One of its own, since all connections would ask a shared one, at each of their requests.
        let (times, stop) = (limits.times, stop.child_token());
        let open = Open::new();
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            let router = routers.all.clone();
            connections.spawn(async move {
                drive(stream, router, activity, times, true, stop).await;
                drop((permit, open));
            });
            continue;
        }
        counter!("standings_http_connections_refused_total").increment(1);
        make_room(&mut reserved);
        let (router, shared) = (routers.reserve.clone(), Arc::clone(&activity));
        let task = connections.spawn(async move {
            drive(stream, router, shared, times, false, stop).await;
            drop(open);
        });
        reserved.push_back(Reserved { activity, task });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Closes the oldest connection of the reserve that has no request under way, if there is no room for another one.
fn make_room(reserved: &mut VecDeque<Reserved>) {
    reserved.retain(|one| !one.task.is_finished());
    if reserved.len() < RESERVE {
        return;
    }
    let oldest = reserved.iter().position(|one| !one.activity.is_busy());
    if let Some(one) = reserved.remove(oldest.unwrap_or(0)) {
        one.task.abort();
    }
}

fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "nodelay could not be set");
    }
}

/// Whether accepting has failed since the client has gone away already.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
