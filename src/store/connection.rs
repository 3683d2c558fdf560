//! One connection to a server of Redis.
//!
//! Many tasks share a connection, and their commands are pipelined. What the client library does not bound is bounded
//! here: the time that a connection is believed in when the server has stopped answering. A call is never sent twice
//! by itself: a write that timed out may have been carried out, and only the caller's event id makes it safe to repeat.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface, LuaInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig,
};
use fred::types::{Builder, ClusterHash, CustomCommand, FromValue, Key, Value};
use metrics::{counter, histogram};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use super::failure::{self, Failure};
use super::script::Script;
use crate::supervise::restarted;
use crate::throttle;
use crate::timeouts::TimeoutFactor;

/// The longest wait for an answer.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(4);
/// The longest wait for a connection, and for the commands that set it up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a connection is tried, and how many unanswered tries end it.
const PING_INTERVAL: Duration = Duration::from_millis(800);
const PINGS_LOST_MAX: u32 = 2;
/// The longest wait for a connection to be torn down.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Attempts to reconnect never end; the waits between them grow from 50 ms to 1 s.
const RECONNECT: (u32, u32, u32, u32) = (0, 50, 1_000, 2);
/// The longest wait for replicas to have a write.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a call that waits looks whether its connection is still there.
const LOST_INTERVAL: Duration = Duration::from_millis(50);

/// How servers are reached, and how long the store waits for them.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) config: Config,
    pub(super) timeouts: TimeoutFactor,
}

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) keys: Vec<Key>,
    pub(super) args: Vec<Value>,
}

impl Call {
    /// The words of its command, behind the first.
    fn words(&self, script: &str) -> Vec<Value> {
        let count = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let mut words = vec![Value::from(script), Value::from(count)];
        words.extend(self.keys.iter().map(|key| Value::from(key.clone())));
        words.extend(self.args.iter().cloned());
        words
    }
}

/// A connection; it is made again whenever it is lost, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    timeouts: TimeoutFactor,
    /// Why there was none last, as far as that is known.
    trouble: Arc<Mutex<Option<Error>>>,
    _watchdog: AbortOnDropHandle<Infallible>,
}

impl Connection {
    /// Begins to connect.
    pub(super) fn open(access: &Access) -> Result<Self, StoreError> {
        let client = client(access)?;
        let timeouts = access.timeouts;
        let trouble = Arc::default();
        let (kept, noted) = (client.clone(), Arc::clone(&trouble));
        let watchdog = tokio::spawn(restarted("connection", move || {
            watch_over(kept.clone(), timeouts, Arc::clone(&noted))
        }));
        Ok(Self {
            client,
            timeouts,
            trouble,
            _watchdog: AbortOnDropHandle::new(watchdog),
        })
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Fails at once where a call would only wait for a new connection.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.client.is_connected() {
            return Ok(());
        }
        match self.trouble.lock().as_ref().map(Failure::from) {
            Some(Failure::Store(error @ StoreError::Unusable(_))) => Err(error),
            Some(trouble) => {
                let text = StoreError::from(trouble).to_string();
                Err(StoreError::Unavailable(format!(
                    "there is no connection: {text}"
                )))
            }
            None => Err(StoreError::Unavailable("there is no connection".into())),
        }
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: Call) -> Result<Value, Failure> {
        measured(call.script, run(self, call)).await
    }

    /// Runs a script, and waits until enough replicas have all that this connection has written.
    pub(super) async fn run_and_confirm(
        &self,
        call: Call,
        min_replicas: u8,
    ) -> Result<Value, Failure> {
        measured(call.script, run_and_confirm(self, call, min_replicas)).await
    }

    /// Runs one command.
    pub(super) async fn command<R: FromValue>(
        &self,
        name: &'static str,
        args: Vec<String>,
    ) -> Result<R, Failure> {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let owned = self.client.clone();
        let reply = async move { owned.custom::<Value, _>(command, args).await };
        let reply = unless_lost(self, reply).await?;
        reply
            .and_then(Value::convert)
            .map_err(|error| Failure::from(&error))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let client = self.client.clone();
        // What is left of it goes, in its own time.
        runtime.spawn(async move { client.quit().await });
    }
}

async fn measured(
    script: &Script,
    run: impl Future<Output = Result<Value, Failure>>,
) -> Result<Value, Failure> {
    let begun = Instant::now();
    let reply = run.await;
    counter!("standings_script_calls_total", "script" => script.name).increment(1);
    histogram!("standings_script_seconds", "script" => script.name)
        .record(begun.elapsed().as_secs_f64());
    if reply.is_err() {
        counter!("standings_script_errors_total", "script" => script.name).increment(1);
    }
    reply
}

/// Waits for a reply, unless the connection is lost: the client library lets calls wait for a new one. They still end
/// when their time is up, and are not sent after that.
async fn unless_lost<T: Send + 'static>(
    connection: &Connection,
    reply: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    connection.check()?;
    let mut reply = Box::pin(reply);
    tokio::select! {
        biased;
        reply = &mut reply => return Ok(reply),
        () = lost(&connection.client) => {}
    }
    tokio::spawn(reply);
    Err(StoreError::Unavailable("the connection was lost".into()).into())
}

/// Returns when a connection is lost.
async fn lost(client: &Client) {
    while client.is_connected() {
        tokio::time::sleep(LOST_INTERVAL).await;
    }
}

async fn run(connection: &Connection, call: Call) -> Result<Value, Failure> {
    let owned = connection.client.clone();
    let reply = async move {
        let Call { script, keys, args } = call;
        let reply = owned
            .evalsha::<Value, _, _, _>(script.sha.as_str(), keys.clone(), args.clone())
            .await;
        if reply.as_ref().is_err_and(failure::says_unknown_script) {
            // EVAL runs the script and loads it.
            return owned.eval(script.source.as_str(), keys, args).await;
        }
        reply
    };
    let reply = unless_lost(connection, reply).await?;
    reply.map_err(|error| Failure::from(&error))
}

/// Runs a script, and waits until enough replicas have all that this connection has written. Both are sent together: on
/// a connection that was made in between, replicas would be counted that know nothing of the write.
async fn run_and_confirm(
    connection: &Connection,
    call: Call,
    min_replicas: u8,
) -> Result<Value, Failure> {
    let owned = connection.client.clone();
    let timeout = connection.timeouts.times(CONFIRM_TIMEOUT);
    let confirm = vec![min_replicas.to_string(), timeout.as_millis().to_string()];
    let replies = async move {
        let by_name = call.words(call.script.sha.as_str());
        let replies = send_and_confirm(&owned, "EVALSHA", by_name, confirm.clone()).await;
        let is_unknown = |reply: &Result<_, _>| {
            let error = reply.as_ref().err();
            error.is_some_and(failure::says_unknown_script)
        };
        if replies.first().is_some_and(is_unknown) {
            let by_source = call.words(call.script.source.as_str());
            return send_and_confirm(&owned, "EVAL", by_source, confirm).await;
        }
        replies
    };
    let mut replies = unless_lost(connection, replies).await?.into_iter();
    let mut next = || {
        let reply = replies.next().unwrap_or(Ok(Value::Null));
        reply.map_err(|error| Failure::from(&error))
    };
    let reply = next()?;
    let confirmed = next()?.as_u64().unwrap_or(0);
    if confirmed >= u64::from(min_replicas) {
        return Ok(reply);
    }
    let message = format!("a write is with {confirmed} replicas, not with {min_replicas}");
    Err(StoreError::Unavailable(message).into())
}

async fn send_and_confirm(
    client: &Client,
    name: &'static str,
    words: Vec<Value>,
    confirm: Vec<String>,
) -> Vec<Result<Value, Error>> {
    let command = |name| CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    let pipeline = client.pipeline();
    let queued = async {
        let () = pipeline.custom(command(name), words).await?;
        pipeline.custom(command("WAIT"), confirm).await
    };
    match queued.await {
        Ok(()) => pipeline.try_all().await,
        Err(error) => vec![Err(error)],
    }
}

fn client(access: &Access) -> Result<Client, StoreError> {
    let (attempts, min_ms, max_ms, base) = RECONNECT;
    let Access {
        mut config,
        timeouts,
    } = access.clone();
    if config.password.is_none() {
        // Without credentials the library begins with PING, which a server refuses that can't write to its disk. A user
        // who needs no password is let in with any.
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
        .set_policy(ReconnectPolicy::new_exponential(
            attempts, min_ms, max_ms, base,
        ))
        .build()
        .map_err(|error| StoreError::Url(error.details().into()))
}

/// Keeps a client connected, and notes why it is not, for ever.
async fn watch_over(
    client: Client,
    timeouts: TimeoutFactor,
    trouble: Arc<Mutex<Option<Error>>>,
) -> Infallible {
    let mut errors = client.error_rx();
    let noting = async {
        loop {
            match errors.recv().await {
                Ok((error, _)) => *trouble.lock() = Some(error),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    let ((), never) = tokio::join!(noting, keep_connected(&client, timeouts));
    never
}

/// Connects a client, and does so again when its connection task ends or the server has stopped answering.
async fn keep_connected(client: &Client, timeouts: TimeoutFactor) -> Infallible {
    loop {
        let mut connection = client.connect();
        tokio::select! {
            // Whoever needs the connection is told.
            ended = &mut connection => tracing::debug!(?ended, "a connection to redis has ended"),
            () = watch(client, timeouts) => connection.abort(),
        }
        tokio::time::sleep(CONNECT_TIMEOUT).await;
    }
}

/// Returns when the connection can't be mended.
async fn watch(client: &Client, timeouts: TimeoutFactor) {
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
            // A server that is busy, still loads, or can't write to its disk says so, and goes on.
            Ok(Err(error)) if failure::is_reply(&error) => lost = 0,
            Ok(Err(_)) | Err(_) => lost += 1,
        }
        if lost > PINGS_LOST_MAX {
            lost = 0;
            throttle::say("redis does not answer", |more| {
                tracing::warn!(more, "redis does not answer; connecting again");
            });
            let timeout = timeouts.times(RECONNECT_TIMEOUT);
            let forced = tokio::time::timeout(timeout, client.force_reconnection()).await;
            if forced.is_err() {
                return;
            }
        }
    }
}
