//! Connections to Redis, and how long a call can take.
//!
//! All tasks share a few connections, and their commands are pipelined. What the client library does not
//! bound is bounded here: the number of calls in flight, and the time that a connection is believed in when
//! the server has stopped answering. A call is never sent twice by itself: a write that timed out may have
//! been carried out, and only the caller's event id makes it safe to repeat.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, ServerConfig, TcpConfig,
};
use fred::types::{Builder, ClusterHash, CustomCommand, FromValue, Key, Value};
use metrics::{counter, histogram};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::script::Script;
use super::{StoreError, script};
use crate::domain::board::Board;

/// Connections for writes: one is kept busy by many tasks, and a second lets a long batch be overtaken.
const WRITERS: usize = 2;
/// Connections for reads: long replies are parsed by one task per connection.
const READERS: usize = 2;
/// The longest wait for an answer.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for a connection, and for the commands that set it up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a connection is tried, and how many unanswered tries end it.
const PING_INTERVAL: Duration = Duration::from_millis(800);
const PINGS_LOST_MAX: u32 = 2;
/// The longest wait for a connection to be torn down.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Attempts to reconnect never end; the waits between them grow from 50 ms to 1 s.
const RECONNECT: (u32, u32, u32, u32) = (0, 50, 1_000, 2);
/// Calls of each writer that may be under way at one time: enough to keep Redis busy, few enough that a read
/// never waits behind more than some milliseconds of them. Further calls wait here, in their order.
const WRITES_IN_FLIGHT_MAX: usize = 4;
/// Reads that may be under way at one time.
const READS_IN_FLIGHT_MAX: usize = 1_024;
/// The longest wait for replicas to have a write, in milliseconds.
const CONFIRM_MS_MAX: u32 = 2_000;
/// The longest wait for a turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// The first release whose scripts can begin with `#!lua`.
const SERVER_MAJOR_MIN: u32 = 7;

/// Redis, as the service sees it.
#[derive(Debug)]
pub struct Store {
    writers: Vec<Writer>,
    readers: Vec<Client>,
    next_reader: AtomicUsize,
    reads_in_flight: Semaphore,
    min_replicas: u8,
    _watchdogs: Vec<AbortOnDropHandle<()>>,
}

/// Where a Redis server is.
#[derive(Clone)]
pub enum Address {
    /// A socket in the file system.
    Socket(PathBuf),
    /// `redis://`, `rediss://`, `redis-cluster://` or `redis-sentinel://`.
    Url(String),
}

impl Address {
    /// Reads an address as it is configured: a URL, or `unix:///path`.
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix("unix://") {
            Some(path) => Self::Socket(path.into()),
            None => Self::Url(text.to_owned()),
        }
    }
}

/// A connection for writes, and the turns of those who write.
#[derive(Debug)]
struct Writer {
    client: Client,
    in_flight: Semaphore,
}

impl Store {
    /// Begins to connect, and goes on trying by itself for as long as the store lives.
    pub fn connect(address: &Address) -> Result<Self, StoreError> {
        let config = match address {
            Address::Socket(path) => Config {
                server: ServerConfig::new_unix_socket(path),
                ..Config::default()
            },
            // A URL may hold a password: it isn't repeated in the error.
            Address::Url(url) => {
                Config::from_url(url).map_err(|error| StoreError::Url(error.details().into()))?
            }
        };
        let clients = |count| -> Result<Vec<Client>, StoreError> {
            (0..count).map(|_| client(&config)).collect()
        };
        let (writers, readers) = (clients(WRITERS)?, clients(READERS)?);
        let watchdogs = writers
            .iter()
            .chain(&readers)
            .map(|client| AbortOnDropHandle::new(tokio::spawn(keep_connected(client.clone()))))
            .collect();
        let writers = writers.into_iter().map(|client| {
            let in_flight = Semaphore::new(WRITES_IN_FLIGHT_MAX);
            Writer { client, in_flight }
        });
        Ok(Self {
            writers: writers.collect(),
            readers,
            next_reader: AtomicUsize::new(0),
            reads_in_flight: Semaphore::new(READS_IN_FLIGHT_MAX),
            min_replicas: 0,
            _watchdogs: watchdogs,
        })
    }

    /// The same, where a write is done once so many replicas have it too.
    #[must_use]
    pub fn with_min_replicas(self, min_replicas: u8) -> Self {
        Self {
            min_replicas,
            ..self
        }
    }

    /// Whether writes wait for replicas.
    pub(super) fn waits_for_replicas(&self) -> bool {
        self.min_replicas > 0
    }

    /// Checks that Redis answers, is new enough, and knows the scripts; loads them where it doesn't.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        let info: String = self.command("INFO", vec!["server".into()]).await?;
        let major = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"))
            .and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if major.is_none_or(|major| major < SERVER_MAJOR_MIN) {
            let found = major.map_or_else(
                || "an unknown release".to_owned(),
                |major| format!("release {major}"),
            );
            return Err(StoreError::Unavailable(format!(
                "Redis 7.0 or Valkey 7.2 or newer is needed, not {found}"
            )));
        }
        for script in script::ALL {
            let _sha: String = self
                .command("SCRIPT", vec!["LOAD".into(), script.source.to_owned()])
                .await?;
        }
        Ok(())
    }

    /// Whether every connection is there, and Redis answers and knows every script.
    pub async fn check(&self) -> Result<(), StoreError> {
        let writers = self.writers.iter().map(|writer| &writer.client);
        for client in writers.chain(&self.readers) {
            check_connected(client)?;
        }
        let mut args = vec!["EXISTS".to_owned()];
        args.extend(script::ALL.iter().map(|script| script.sha.clone()));
        let known: Vec<i64> = self.command("SCRIPT", args).await?;
        if known.contains(&0) {
            self.prepare().await
        } else {
            Ok(())
        }
    }

    /// What Redis' clock shows, in milliseconds since the epoch.
    pub async fn server_time_ms(&self) -> Result<i64, StoreError> {
        let (seconds, micros): (i64, i64) = self.command("TIME", Vec::new()).await?;
        Ok(seconds * 1_000 + micros / 1_000)
    }

    /// Runs a script that writes. Calls for the same board, or shard, are carried out in the order of their making.
    pub(super) async fn write(
        &self,
        board: &Board,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, StoreError> {
        self.write_at(&board.tag(), script, keys, args).await
    }

    /// The same for a board, or shard, whose keys have this in common.
    pub(super) async fn write_at(
        &self,
        tag: &str,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, StoreError> {
        self.run_in_turn(tag, script, keys, args, self.waits_for_replicas())
            .await
    }

    /// Runs a script that writes what can be made again from other data: it does not wait for replicas.
    pub(super) async fn derive(
        &self,
        board: &Board,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, StoreError> {
        self.run_in_turn(&board.tag(), script, keys, args, false)
            .await
    }

    async fn run_in_turn(
        &self,
        tag: &str,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
        confirms: bool,
    ) -> Result<Value, StoreError> {
        let writer = self.writer(tag);
        let _turn = turn(&writer.in_flight).await?;
        if !confirms {
            return run(&writer.client, script, keys, args).await;
        }
        let slot = keys
            .first()
            .map(|key| Key::from(key.as_str()).cluster_hash());
        let reply = run(&writer.client, script, keys, args).await?;
        self.confirm(&writer.client, slot).await?;
        Ok(reply)
    }

    fn writer(&self, tag: &str) -> &Writer {
        let mut hasher = DefaultHasher::new();
        tag.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % WRITERS as u64).unwrap_or(0);
        &self.writers[index]
    }

    /// Waits until enough replicas have all that this connection has written, on a cluster to the node of this slot.
    async fn confirm(&self, client: &Client, slot: Option<u16>) -> Result<(), StoreError> {
        let command = CustomCommand::new_static("WAIT", slot, false);
        let args = vec![self.min_replicas.to_string(), CONFIRM_MS_MAX.to_string()];
        let reply = client.custom(command, args).await;
        let confirmed: u64 = reply.map_err(|error| store_error(&error))?;
        if confirmed >= u64::from(self.min_replicas) {
            return Ok(());
        }
        let message = format!(
            "a write is with {confirmed} replicas, not with {}",
            self.min_replicas
        );
        Err(StoreError::Unavailable(message))
    }

    /// Runs a script that reads.
    pub(super) async fn read(
        &self,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, StoreError> {
        let _turn = turn(&self.reads_in_flight).await?;
        run(self.reader(), script, keys, args).await
    }

    /// Runs one command.
    pub(super) async fn command<R: FromValue>(
        &self,
        name: &'static str,
        args: Vec<String>,
    ) -> Result<R, StoreError> {
        let _turn = turn(&self.reads_in_flight).await?;
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let client = self.reader();
        check_connected(client)?;
        client
            .custom(command, args)
            .await
            .map_err(|error| store_error(&error))
    }

    fn reader(&self) -> &Client {
        let index = self.next_reader.fetch_add(1, Ordering::Relaxed) % READERS;
        &self.readers[index]
    }
}

async fn turn(turns: &Semaphore) -> Result<tokio::sync::SemaphorePermit<'_>, StoreError> {
    tokio::time::timeout(TURN_TIMEOUT, turns.acquire())
        .await
        .ok()
        .and_then(Result::ok)
        .ok_or_else(|| StoreError::Unavailable("too many calls are waiting for it".into()))
}

/// Fails at once where a call would only wait for a new connection.
fn check_connected(client: &Client) -> Result<(), StoreError> {
    if client.is_connected() {
        Ok(())
    } else {
        Err(StoreError::Unavailable("there is no connection".into()))
    }
}

async fn run(
    client: &Client,
    script: &Script,
    keys: Vec<String>,
    args: Vec<Value>,
) -> Result<Value, StoreError> {
    check_connected(client)?;
    let keys: Vec<Key> = keys.into_iter().map(Key::from).collect();
    let begun = Instant::now();
    let mut reply = client
        .evalsha::<Value, _, _, _>(script.sha.as_str(), keys.clone(), args.clone())
        .await;
    if let Err(error) = &reply
        && error.details().starts_with("NOSCRIPT")
    {
        // Redis was restarted or flushed. EVAL runs the script and loads it again.
        reply = client.eval(script.source, keys, args).await;
    }
    counter!("standings_script_calls_total", "script" => script.name).increment(1);
    histogram!("standings_script_seconds", "script" => script.name)
        .record(begun.elapsed().as_secs_f64());
    reply.map_err(|error| {
        counter!("standings_script_errors_total", "script" => script.name).increment(1);
        store_error(&error)
    })
}

fn store_error(error: &fred::error::Error) -> StoreError {
    let text = error.to_string();
    // A script that fails while it runs is a fault of this program; all else is a matter of the server.
    if text.contains("user_script") || *error.kind() == fred::error::ErrorKind::Parse {
        StoreError::Unexpected(text)
    } else {
        StoreError::Unavailable(text)
    }
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
            // On a cluster the second attempt follows a redirection.
            connection.max_command_attempts = if config.server.is_clustered() { 2 } else { 1 };
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
