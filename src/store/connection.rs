//! One connection to a server of Redis.
//!
//! Many tasks share a connection, and their commands are pipelined. What the client library does not bound is bounded
//! here: the time that a connection is believed in when the server has stopped answering. A call is never sent twice
//! by itself: a write that timed out may have been carried out, and only the caller's event id makes it safe to repeat.

use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig,
};
use fred::types::{Builder, ClusterHash, CustomCommand, FromValue, Key, Value};
use metrics::{counter, histogram};
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use super::script::Script;

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
/// The longest wait for replicas to have a write, in milliseconds.
const CONFIRM_MS_MAX: u32 = 1_000;
/// How often a call that waits looks whether its connection is still there.
const LOST_INTERVAL: Duration = Duration::from_millis(50);

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

/// Why a node has not done what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// The slot lies elsewhere; nothing was done.
    Moved(String),
    /// The slot is about to, and a part of it already does; nothing was done.
    Moving(String),
    /// Something else.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Moved(text) | Failure::Moving(text) => Self::Unavailable(text),
            Failure::Store(error) => error,
        }
    }
}

/// A connection; it is made again whenever it is lost, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    _watchdog: AbortOnDropHandle<()>,
}

impl Connection {
    /// Begins to connect.
    pub(super) fn open(config: &Config) -> Result<Self, StoreError> {
        let client = client(config)?;
        let watchdog = tokio::spawn(keep_connected(client.clone()));
        Ok(Self {
            client,
            _watchdog: AbortOnDropHandle::new(watchdog),
        })
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Fails at once where a call would only wait for a new connection.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        check_connected(&self.client)
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: Call) -> Result<Value, Failure> {
        measured(call.script, run(&self.client, call)).await
    }

    /// Runs a script, and waits until enough replicas have all that this connection has written.
    pub(super) async fn run_and_confirm(
        &self,
        call: Call,
        min_replicas: u8,
    ) -> Result<Value, Failure> {
        measured(
            call.script,
            run_and_confirm(&self.client, call, min_replicas),
        )
        .await
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
        let reply = unless_lost(&self.client, reply).await?;
        reply
            .and_then(Value::convert)
            .map_err(|error| failure(&error))
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

fn check_connected(client: &Client) -> Result<(), StoreError> {
    if client.is_connected() {
        Ok(())
    } else {
        Err(StoreError::Unavailable("there is no connection".into()))
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

/// Whether Redis does not know a script: it was restarted or flushed, or is new. EVAL runs the script and loads it.
fn is_unknown<T>(reply: &Result<T, fred::error::Error>) -> bool {
    matches!(reply, Err(error) if error.details().starts_with("NOSCRIPT"))
}

/// Waits for a reply, unless the connection is lost: the client library lets calls wait for a new one. They still end
/// when their time is up, and are not sent after that.
async fn unless_lost<T: Send + 'static>(
    client: &Client,
    reply: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    check_connected(client)?;
    let mut reply = Box::pin(reply);
    tokio::select! {
        biased;
        reply = &mut reply => return Ok(reply),
        () = lost(client) => {}
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

async fn run(client: &Client, call: Call) -> Result<Value, Failure> {
    let owned = client.clone();
    let reply = async move {
        let Call { script, keys, args } = call;
        let reply = owned
            .evalsha::<Value, _, _, _>(script.sha.as_str(), keys.clone(), args.clone())
            .await;
        if is_unknown(&reply) {
            return owned.eval(script.source, keys, args).await;
        }
        reply
    };
    let reply = unless_lost(client, reply).await?;
    reply.map_err(|error| failure(&error))
}

/// Runs a script, and waits until enough replicas have all that this connection has written. Both are sent together: on
/// a connection that was made in between, replicas would be counted that know nothing of the write.
async fn run_and_confirm(client: &Client, call: Call, min_replicas: u8) -> Result<Value, Failure> {
    let owned = client.clone();
    let replies = async move {
        let by_name = call.words(call.script.sha.as_str());
        let replies = send_and_confirm(&owned, "EVALSHA", by_name, min_replicas).await;
        if replies.first().is_some_and(is_unknown) {
            let by_source = call.words(call.script.source);
            return send_and_confirm(&owned, "EVAL", by_source, min_replicas).await;
        }
        replies
    };
    let mut replies = unless_lost(client, replies).await?.into_iter();
    let mut next = || {
        let reply = replies.next().unwrap_or(Ok(Value::Null));
        reply.map_err(|error| failure(&error))
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
    min_replicas: u8,
) -> Vec<Result<Value, fred::error::Error>> {
    let command = |name| CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    let pipeline = client.pipeline();
    let confirm = vec![min_replicas.to_string(), CONFIRM_MS_MAX.to_string()];
    let queued = async {
        let () = pipeline.custom(command(name), words).await?;
        pipeline.custom(command("WAIT"), confirm).await
    };
    match queued.await {
        Ok(()) => pipeline.try_all().await,
        Err(error) => vec![Err(error)],
    }
}

fn failure(error: &fred::error::Error) -> Failure {
    let text = error.to_string();
    if error.details().starts_with("MOVED ") {
        return Failure::Moved(text);
    }
    if says_moving(error.details()) {
        return Failure::Moving(text);
    }
    // A script that fails while it runs is a fault of this program, or of the data, as is a key of another type; all else
    // is a matter of the server.
    let in_script = text.contains("user_script") && !text.contains("cluster is down");
    let is_own_fault = in_script || error.details().starts_with("WRONGTYPE");
    Failure::Store(
        if is_own_fault || *error.kind() == fred::error::ErrorKind::Parse {
            StoreError::Unexpected(text)
        } else {
            StoreError::Unavailable(text)
        },
    )
}

/// Whether a node of a cluster has refused a call since its slot is moving. A script meets that before its first write
/// (`scripts/lib/slot.lua`).
fn says_moving(details: &str) -> bool {
    let refusals = ["ASK ", "TRYAGAIN"];
    refusals.iter().any(|refusal| details.starts_with(refusal)) || details.contains("non local key")
}

fn client(config: &Config) -> Result<Client, StoreError> {
    let (attempts, min_ms, max_ms, base) = RECONNECT;
    Builder::from_config(config.clone())
        .with_performance_config(|performance: &mut PerformanceConfig| {
            performance.default_command_timeout = COMMAND_TIMEOUT;
        })
        .with_connection_config(|connection: &mut ConnectionConfig| {
            connection.connection_timeout = CONNECT_TIMEOUT;
            connection.internal_command_timeout = CONNECT_TIMEOUT;
            connection.max_command_attempts = 1;
            connection.tcp = TcpConfig {
                user_timeout: Some(RECONNECT_TIMEOUT),
                ..TcpConfig::default()
            };
        })
        .set_policy(ReconnectPolicy::new_exponential(
            attempts, min_ms, max_ms, base,
        ))
        .build()
        .map_err(|error| StoreError::Url(error.details().into()))
}

/// Connects a client, and does so again when its connection task ends or the server has stopped answering.
async fn keep_connected(client: Client) {
    loop {
        let mut connection = client.connect();
        tokio::select! {
            ended = &mut connection => tracing::warn!(?ended, "a connection to redis has ended"),
            () = watch(&client) => connection.abort(),
        }
        tokio::time::sleep(CONNECT_TIMEOUT).await;
    }
}

/// Returns when the connection can't be mended.
async fn watch(client: &Client) {
    let mut lost = 0;
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        if !client.is_connected() {
            lost = 0;
            continue;
        }
        let ping = client.ping::<Value>(None);
        match tokio::time::timeout(PING_INTERVAL, ping).await {
            Ok(Ok(_)) => lost = 0,
            Ok(Err(_)) | Err(_) => lost += 1,
        }
        if lost > PINGS_LOST_MAX {
            lost = 0;
            tracing::warn!("redis does not answer; connecting again");
            let forced = tokio::time::timeout(RECONNECT_TIMEOUT, client.force_reconnection()).await;
            if forced.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fred::error::{Error, ErrorKind};

    use super::*;

    fn failure_of(details: &'static str) -> Failure {
        failure(&Error::new(ErrorKind::Unknown, details))
    }

    #[test]
    fn what_a_cluster_refuses_is_told_from_what_fails() {
        let moved = failure_of("MOVED 12 127.0.0.1:7000");
        assert!(matches!(moved, Failure::Moved(_)), "{moved:?}");
        for moving in [
            "ASK 12 127.0.0.1:7000",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ERR Script attempted to access a non local key in a cluster node script: 0123, on @user_script:9.",
        ] {
            let found = failure_of(moving);
            assert!(matches!(found, Failure::Moving(_)), "{found:?}");
        }
        for unavailable in [
            "CLUSTERDOWN The cluster is down",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "READONLY You can't write against a read only replica.",
            "ERR Script attempted to execute a command while the cluster is down script: 0123, on @user_script:9.",
        ] {
            let found = failure_of(unavailable);
            assert!(
                matches!(found, Failure::Store(StoreError::Unavailable(_))),
                "{found:?}"
            );
        }
        for fault in [
            "ERR user_script:9: attempt to index a nil value",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ] {
            let found = failure_of(fault);
            assert!(
                matches!(found, Failure::Store(StoreError::Unexpected(_))),
                "{found:?}"
            );
        }
    }
}
