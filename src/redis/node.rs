//! One Redis server, or the primary behind sentinels: its connections, and the turns of its callers.
//!
//! Calls in flight are limited for each server separately, so that one that does not answer does not hold up calls to
//! others.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fred::types::{FromValue, Value};
use tokio::sync::Semaphore;

use super::StoreError;
use super::connection::{Access, Call, Connection};
use super::failure::Failure;
use super::script::{self, Script};
use super::writer::Writer;
use crate::runtime::join::join_all;
use crate::runtime::timeouts::{TimeoutFactor, within};

/// Connections for writes: many tasks keep one busy, and with a second a long batch can be overtaken.
const WRITERS: usize = 2;
/// Connections for reads: one task per connection parses long replies.
const READERS: usize = 2;
const READS_IN_FLIGHT_MAX: usize = 1_024;
/// The longest wait for a turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// A server in use.
#[derive(Debug)]
pub(crate) struct Node {
    /// How to reach it.
    pub(crate) access: Access,
    writers: Vec<Arc<Writer>>,
    pub(crate) readers: Readers,
}

/// The read connections of one server, and the turns of their callers.
#[derive(Debug)]
pub(crate) struct Readers {
    connections: Vec<Connection>,
    next: AtomicUsize,
    in_flight: Semaphore,
    timeouts: TimeoutFactor,
}

impl Node {
    /// Starts connecting, and keeps trying while the node lives.
    pub(crate) fn connect(access: &Access) -> Result<Self, StoreError> {
        let writers = (0..WRITERS).map(|_| Writer::connect(access));
        Ok(Self {
            writers: writers.collect::<Result<_, StoreError>>()?,
            readers: Readers::connect(access)?,
            access: access.clone(),
        })
    }

    /// Fails at once if a connection is missing.
    pub(crate) fn check_connected(&self) -> Result<(), StoreError> {
        self.writers
            .iter()
            .map(|writer| &writer.connection)
            .chain(&self.readers.connections)
            .try_for_each(Connection::check)
    }

    /// Runs a script that writes. Calls with the same tag, so for the same board or shard, are carried out in the order of
    /// these calls. See [`Writer::write`].
    pub(crate) fn write(
        &self,
        tag: &str,
        call: Arc<Call>,
        min_replicas: u8,
    ) -> impl Future<Output = Result<Value, Failure>> + Send + use<> {
        let mut hasher = DefaultHasher::new();
        tag.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % WRITERS as u64).unwrap_or(0);
        self.writers[index].write(call, min_replicas)
    }

    /// Runs a script that needs no key, and that may write.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        args: Vec<Value>,
    ) -> Result<Value, Failure> {
        let call = Call::new(script, Vec::new(), args);
        self.readers.read(&Arc::new(call)).await
    }

    /// Loads the scripts that the server lacks.
    pub(crate) async fn load_scripts(&self) -> Result<(), Failure> {
        let mut args = vec!["EXISTS".to_owned()];
        args.extend(script::ALL.iter().map(|script| script.sha.clone()));
        let known: Vec<i64> = self.readers.command("SCRIPT", args).await?;
        let unknown = script::ALL.iter().zip(known);
        for (script, _) in unknown.filter(|(_, known)| *known == 0) {
            let args = vec!["LOAD".to_owned(), script.source.clone()];
            let _sha: String = self.readers.command("SCRIPT", args).await?;
        }
        Ok(())
    }
}

impl Readers {
    /// Starts connecting, and keeps trying while the value lives.
    pub(crate) fn connect(access: &Access) -> Result<Self, StoreError> {
        let connections = (0..READERS).map(|_| Connection::open(access));
        Ok(Self {
            connections: connections.collect::<Result<_, _>>()?,
            next: AtomicUsize::new(0),
            in_flight: Semaphore::new(READS_IN_FLIGHT_MAX),
            timeouts: access.timeouts,
        })
    }

    pub(crate) async fn read(&self, call: &Arc<Call>) -> Result<Value, Failure> {
        let _turn = in_time(self.timeouts, self.in_flight.acquire()).await?;
        self.connection().send(call, 0).await
    }

    pub(crate) async fn command<R: FromValue>(
        &self,
        name: &'static str,
        args: Vec<String>,
    ) -> Result<R, Failure> {
        let _turn = in_time(self.timeouts, self.in_flight.acquire()).await?;
        self.connection().command(name, args).await
    }

    /// Makes a cluster replica answer reads itself, on each connection.
    pub(crate) async fn say_readonly(&self) {
        let said = self.connections.iter().map(async |connection| {
            // A missing connection is set once it is up.
            drop(connection.command::<Value>("READONLY", Vec::new()).await);
        });
        join_all(said).await;
    }

    /// The next connection in turn, skipping lost ones.
    fn connection(&self) -> &Connection {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let connected = (0..READERS)
            .map(|step| &self.connections[(next + step) % READERS])
            .find(|connection| connection.is_connected());
        connected.unwrap_or(&self.connections[next % READERS])
    }
}

/// Waits for a turn, for a limited time.
pub(crate) async fn in_time<T, E>(
    timeouts: TimeoutFactor,
    turn: impl Future<Output = Result<T, E>>,
) -> Result<T, StoreError> {
    within(timeouts.times(TURN_TIMEOUT), turn)
        .await
        .and_then(Result::ok)
        .ok_or_else(|| StoreError::Unavailable("too many calls wait for it".into()))
}
