//! One connection to a Redis server.
//!
//! Many tasks share a connection, and their commands are pipelined. The client library has one task for each connection,
//! with a queue in front. [`Connection::send`] is not an `async fn`: when it returns, the command is in that queue. So the
//! order of calls is the order of their sends.
//!
//! This module bounds what the client library does not: how long a connection is used after the server has stopped
//! answering. One task per connection notices its loss, and wakes the waiting calls. No call is ever repeated here: a write
//! that timed out may have been carried out, and only the client's event id makes it safe to repeat.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, ServerConfig, TcpConfig,
};
use fred::types::{Builder, ClusterHash, CustomCommand, FromValue, Key, Value};
use futures::future::{Either, Ready, ready};
use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{Unconstrained, unconstrained};
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use super::failure::{self, Failure};
use super::script::Script;
use crate::runtime::supervise::restarted;
use crate::runtime::throttle;
use crate::runtime::timeouts::TimeoutFactor;

/// The longest wait for a reply.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(4);
/// The longest wait for a connection, and for the commands that set it up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a connection is pinged, and how many unanswered pings end it.
const PING_INTERVAL: Duration = Duration::from_millis(800);
const PINGS_LOST_MAX: u32 = 2;
/// The longest wait for closing a lost connection.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for replicas to confirm a write.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the state of a doubtful connection is checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How to reach servers, and how long to wait for them.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) config: Config,
    pub(crate) timeouts: TimeoutFactor,
}

impl Access {
    /// The address for people, without user and password.
    pub(crate) fn address(&self) -> String {
        let server = &self.config.server;
        if let ServerConfig::Unix { path } = server {
            return format!("unix://{}", path.display());
        }
        let tls = if self.config.tls.is_some() { "s" } else { "" };
        let kind = match server {
            ServerConfig::Clustered { .. } => "-cluster",
            ServerConfig::Sentinel { .. } => "-sentinel",
            _ => "",
        };
        let mut hosts: Vec<_> = server.hosts().iter().map(Server::to_string).collect();
        hosts.sort();
        format!("redis{tls}{kind}://{}", hosts.join(","))
    }

    /// Access to another server with the same configuration.
    pub(crate) fn to(&self, server: &Server) -> Self {
        let mut access = self.clone();
        access.config.server = ServerConfig::Centralized {
            server: server.clone(),
        };
        access
    }
}

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<Key>,
    pub(crate) args: Vec<Value>,
}

impl Call {
    /// The arguments of its command.
    fn words(&self, script: &'static str) -> Vec<Value> {
        let count = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let mut words = Vec::with_capacity(2 + self.keys.len() + self.args.len());
        words.extend([Value::from_static_str(script), Value::from(count)]);
        words.extend(self.keys.iter().map(|key| Value::from(key.clone())));
        words.extend(self.args.iter().cloned());
        words
    }
}

/// A connection; while this value lives, it reconnects whenever it is lost.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    pub(crate) timeouts: TimeoutFactor,
    health: Arc<Health>,
    _watchdog: AbortOnDropHandle<Infallible>,
}

/// The state of a connection that the client library does not track.
#[derive(Debug, Default)]
struct Health {
    /// The last reason for a missing connection, if known.
    trouble: Mutex<Option<Error>>,
    /// Wakes the task that checks whether the connection is lost.
    doubt: Notify,
    /// Wakes the calls that wait for replies when the connection is lost.
    loss: Notify,
}

impl Connection {
    /// Starts connecting.
    pub(crate) fn open(access: &Access) -> Result<Self, StoreError> {
        let client = client(access)?;
        let timeouts = access.timeouts;
        let health = Arc::<Health>::default();
        let (kept, shared) = (client.clone(), Arc::clone(&health));
        let watchdog = tokio::spawn(restarted("connection", move || {
            watch_over(kept.clone(), timeouts, Arc::clone(&shared))
        }));
        Ok(Self {
            client,
            timeouts,
            health,
            _watchdog: AbortOnDropHandle::new(watchdog),
        })
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Fails at once if a call would only wait for a new connection.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.client.is_connected() {
            return Ok(());
        }
        let Some(trouble) = self.health.trouble.lock().clone() else {
            return Err(StoreError::Unavailable("it does not answer".into()));
        };
        let reason = failure::why_no_connection(&trouble);
        Err(match Failure::from(trouble).into() {
            error @ StoreError::Unusable(_) => error,
            _ => StoreError::Unavailable(format!("it {reason}")),
        })
    }

    /// Sends a script, after everything sent before; the future waits for the reply, and until `min_replicas` replicas have
    /// everything that this connection has written.
    pub(crate) fn send(
        &self,
        call: &Arc<Call>,
        min_replicas: u8,
    ) -> impl Future<Output = Result<Value, Failure>> + Send + use<> {
        let (begun, script) = (Instant::now(), call.script);
        let timeout = self.timeouts.times(CONFIRM_TIMEOUT);
        let running = run(self.client.clone(), Arc::clone(call), min_replicas, timeout);
        let reply = self.queue(running);
        async move {
            let reply = reply.await;
            measure(script, begun, reply.is_ok());
            reply
        }
    }

    pub(crate) async fn command<R: FromValue>(
        &self,
        name: &'static str,
        args: Vec<String>,
    ) -> Result<R, Failure> {
        let client = self.client.clone();
        Ok(self
            .queue(async move { Ok(client.custom::<Value, _>(command(name), args).await?) })
            .await?
            .convert()?)
    }

    /// Puts the command of a future into the client's queue. The returned future waits for the reply, or fails when the
    /// connection is lost, although the client lets such calls wait for a new one. These still end when their time is up,
    /// and are not sent after that.
    fn queue<T, F>(&self, reply: F) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let queued = self.check().map(|()| queued(reply));
        let health = Arc::clone(&self.health);
        async move {
            let mut reply = queued?;
            tokio::select! {
                biased;
                reply = &mut reply => return reply,
                () = health.loss.notified() => {}
            }
            tokio::spawn(reply);
            Err(StoreError::Unavailable("the connection was lost".into()).into())
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let client = self.client.clone();
        // The client closes its connection in the background.
        runtime.spawn(async move { client.quit().await });
    }
}

fn measure(script: &Script, begun: Instant, is_ok: bool) {
    script.meter.calls.increment(1);
    script.meter.seconds.record(begun.elapsed().as_secs_f64());
    if !is_ok {
        counter!("standings_script_errors_total", "script" => script.name).increment(1);
    }
}

/// Polls a future of the client once, which puts its command into the client's queue. The task's cooperative budget must
/// not prevent that (`unconstrained`).
fn queued<F: Future>(reply: F) -> Either<Ready<F::Output>, Pin<Box<Unconstrained<F>>>> {
    let mut reply = Box::pin(unconstrained(reply));
    match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Either::Left(ready(value)),
        Poll::Pending => Either::Right(reply),
    }
}

fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::FirstKey, false)
}

/// Runs a script, and waits until enough replicas have everything that this connection has written.
async fn run(
    client: Client,
    call: Arc<Call>,
    min_replicas: u8,
    timeout: Duration,
) -> Result<Value, Failure> {
    let confirm =
        (min_replicas > 0).then(|| [min_replicas.to_string(), timeout.as_millis().to_string()]);
    let by_name = call.words(&call.script.sha);
    let mut replies = send_once(&client, "EVALSHA", by_name, confirm.as_ref()).await;
    if replies.as_ref().is_err_and(failure::says_unknown_script) {
        // EVAL runs the script and loads it.
        let by_source = call.words(&call.script.source);
        replies = send_once(&client, "EVAL", by_source, confirm.as_ref()).await;
    }
    let (reply, confirmed) = replies?;
    if confirmed >= u64::from(min_replicas) {
        return Ok(reply);
    }
    let message = format!("{confirmed} replicas have confirmed a write, {min_replicas} are needed");
    Err(StoreError::Unavailable(message).into())
}

/// Sends a script, followed by WAIT if replicas are to confirm it. Both are sent together: on a new connection WAIT would
/// count replicas that lack the write.
async fn send_once(
    client: &Client,
    name: &'static str,
    words: Vec<Value>,
    confirm: Option<&[String; 2]>,
) -> Result<(Value, u64), Error> {
    let Some(confirm) = confirm else {
        return Ok((client.custom(command(name), words).await?, 0));
    };
    let pipeline = client.pipeline();
    let () = pipeline.custom(command(name), words).await?;
    let () = pipeline.custom(command("WAIT"), confirm.to_vec()).await?;
    let mut replies = pipeline.try_all::<Value>().await.into_iter();
    let mut next = || replies.next().unwrap_or(Ok(Value::Null));
    Ok((next()?, next()?.as_u64().unwrap_or(0)))
}

fn client(access: &Access) -> Result<Client, StoreError> {
    let Access {
        mut config,
        timeouts,
    } = access.clone();
    if config.password.is_none() {
        // Without credentials the library begins with PING, which a server refuses if it can't write to its disk. A user
        // without a password accepts any.
        config.username.get_or_insert_with(|| "default".into());
        config.password = Some(String::new());
    }
    Builder::from_config(config)
        .with_performance_config(|performance: &mut PerformanceConfig| {
            performance.default_command_timeout = timeouts.times(COMMAND_TIMEOUT);
        })
        .with_connection_config(|connection: &mut ConnectionConfig| {
            let timeout = timeouts.times(CONNECT_TIMEOUT);
            connection.connection_timeout = timeout;
            connection.internal_command_timeout = timeout;
            connection.max_command_attempts = 1;
            connection.tcp = TcpConfig {
                user_timeout: Some(timeouts.times(RECONNECT_TIMEOUT)),
                ..TcpConfig::default()
            };
        })
        // Retries never end; the pauses grow from 50 ms to 1 s.
        .set_policy(ReconnectPolicy::new_exponential(0, 50, 1_000, 2))
        .build()
        .map_err(|error| StoreError::Url(error.details().into()))
}

/// Keeps a client connected, and wakes waiting calls when it is not.
async fn watch_over(client: Client, timeouts: TimeoutFactor, health: Arc<Health>) -> Infallible {
    let (never, _) = tokio::join!(
        keep_connected(&client, timeouts, &health),
        tell_losses(&client, timeouts, &health)
    );
    never
}

/// Records why the connection is lost, and wakes the calls that wait for replies. The client reports an error a little
/// before its state shows it. So after an error, or another reason for doubt, its state is polled until it is connected and
/// the calls sent before have ended.
async fn tell_losses(client: &Client, timeouts: TimeoutFactor, health: &Health) -> Infallible {
    let mut errors = client.error_rx();
    let mut doubted = Instant::now();
    loop {
        let is_certain =
            client.is_connected() && doubted.elapsed() > timeouts.times(COMMAND_TIMEOUT);
        let pause = if is_certain {
            Duration::MAX
        } else {
            LOOK_INTERVAL
        };
        tokio::select! {
            error = errors.recv() => {
                match error {
                    Ok((error, _)) => *health.trouble.lock() = Some(error),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => errors = client.error_rx(),
                }
                doubted = Instant::now();
            }
            () = health.doubt.notified() => doubted = Instant::now(),
            () = tokio::time::sleep(pause) => {}
        }
        if !client.is_connected() {
            health.loss.notify_waiters();
        }
    }
}

/// Connects a client, and reconnects when its connection task ends or the server has stopped answering.
async fn keep_connected(client: &Client, timeouts: TimeoutFactor, health: &Health) -> Infallible {
    loop {
        let mut connection = client.connect();
        tokio::select! {
            // `tell_losses` wakes the waiting calls.
            ended = &mut connection => tracing::debug!(?ended, "a connection to Redis has ended"),
            () = watch(client, timeouts, health) => connection.abort(),
        }
        health.doubt.notify_one();
        tokio::time::sleep(CONNECT_TIMEOUT).await;
    }
}

/// Returns when the connection can't be used any more.
async fn watch(client: &Client, timeouts: TimeoutFactor, health: &Health) {
    let timeout = timeouts.times(PING_INTERVAL);
    let mut lost = 0;
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        if !client.is_connected() {
            lost = 0;
            continue;
        }
        let ping = client.ping::<Value>(None);
        match tokio::time::timeout(timeout, ping).await {
            Ok(Ok(_)) => lost = 0,
            // The server is alive, even if it is busy, loading, or can't write to its disk.
            Ok(Err(error)) if failure::is_reply(&error) => lost = 0,
            Ok(Err(_)) | Err(_) => lost += 1,
        }
        if lost > PINGS_LOST_MAX {
            lost = 0;
            throttle::say("redis does not answer", |more| {
                tracing::warn!(more, "Redis does not answer; connecting again");
            });
            health.doubt.notify_one();
            let timeout = timeouts.times(RECONNECT_TIMEOUT);
            let forced = tokio::time::timeout(timeout, client.force_reconnection()).await;
            if forced.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::super::script;
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("redis://user:hush@h:7/3", "redis://h:7"),
            ("rediss://:hush@h", "rediss://h:6379"),
            (
                "redis-cluster://user:hush@h:7?node=i:8",
                "redis-cluster://h:7,i:8",
            ),
        ] {
            let access = Access {
                config: Config::from_url(url).unwrap(),
                timeouts: TimeoutFactor::default(),
            };
            assert_eq!(access.address(), shown);
        }
    }

    #[tokio::test]
    async fn a_command_is_queued_at_once_however_busy_its_task_was() {
        while has_budget_remaining() {
            let _ = consume_budget().now_or_never();
        }
        let (commands, mut queue) = tokio::sync::mpsc::unbounded_channel();
        let _reply = queued(async move {
            // The client waits for its own channels in between.
            consume_budget().await;
            commands.send("command").unwrap();
            pending::<()>().await;
        });
        assert_eq!(queue.try_recv(), Ok("command"));
    }

    /// Answers OK to everything on one connection, and accepts no second one.
    async fn serve(listener: TcpListener) {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = stream.read(&mut bytes).await {
            let commands = bytes[..count].iter().filter(|byte| **byte == b'*');
            let replies = "+OK\r\n".repeat(commands.count());
            stream.write_all(replies.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_call_fails_at_once_instead_of_waiting_for_a_new_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(serve(listener));
        let access = Access {
            config: Config::from_url(&url).unwrap(),
            timeouts: TimeoutFactor::default(),
        };
        let connection = Connection::open(&access).unwrap();
        while connection.check().is_err() {
            tokio::task::yield_now().await;
        }
        // The client starts reconnecting before it reaches the call.
        let client = connection.client.clone();
        let _reconnecting = queued(async move { client.force_reconnection().await });
        let call = Call {
            script: &script::READ,
            keys: Vec::new(),
            args: Vec::new(),
        };
        let reply = connection.send(&Arc::new(call), 0);
        assert!(connection.is_connected(), "it is not known yet");
        let failure = reply.await.unwrap_err();
        assert_eq!(
            StoreError::from(failure).to_string(),
            "Redis is not available: the connection was lost"
        );
        server.abort();
    }
}
