//! Sends each call to the server that has the slot of its keys. All calls of Redis go through this module.
//!
//! `connection.rs` bounds the time of a call when a server does not answer. While a slot of a cluster moves to another
//! server, Redis refuses calls to it before they have done anything (`scripts/lib/slot.lua`). This module retries such
//! calls for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fred::types::config::Server;
use fred::types::{FromValue, Key, Value};
use futures::future::BoxFuture;
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::connection::{Access, Call, Connection};
use super::failure::Failure;
use super::node::Node;
use super::replicas::Replicas;
use super::reply::info_fields;
use super::script::Script;
use super::topology::Topology;
use super::{Dated, StoreError, keys};
use crate::domain::shard::Shard;
use crate::domain::time::{Span, Timestamp};
use crate::runtime::join::join_all;
use crate::runtime::timeouts::TimeoutFactor;

/// How long a call is retried whose slot has moved or is moving.
const MOVING_TIME_MAX: Duration = Duration::from_secs(2);
/// The shortest and the longest pause before a retry; it doubles while the slot is moving.
const MOVING_PAUSE_MIN: Duration = Duration::from_millis(5);
const MOVING_PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long lines of the audit log are kept by default.
const AUDIT_RETENTION: Span = Span::days(365);
/// The longest wait for the history of a server.
const HISTORY_TIMEOUT: Duration = Duration::from_millis(300);

/// Redis, as used by the service.
#[derive(Debug)]
pub struct Store {
    pub(crate) topology: Arc<Topology>,
    /// The factor for the timeouts, also of the service.
    pub timeouts: TimeoutFactor,
    min_replicas: u8,
    /// How long lines of the audit log are kept; `None`: until the log is too large.
    pub(crate) audit_retention: Option<Span>,
    /// The replicas for reads that may be slightly old.
    pub(crate) replicas: Option<Replicas>,
    /// Whether data that belongs to no board is known to have the format of this release.
    pub(crate) is_format_known: AtomicBool,
}

/// How fresh the answer to a read must be.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Freshness {
    /// It has everything that was acknowledged before the request.
    #[default]
    Current,
    /// It may be older, up to the store's staleness, so a replica may answer.
    Bounded,
}

impl Store {
    /// Starts connecting, and keeps trying while the store lives.
    pub fn connect(address: &Address, timeouts: TimeoutFactor) -> Result<Self, StoreError> {
        let config = address.config()?;
        Self::with_access(&Access { config, timeouts })
    }

    /// Starts connecting, like [`Store::connect`].
    pub(crate) fn with_access(access: &Access) -> Result<Self, StoreError> {
        Ok(Self {
            topology: Arc::new(Topology::connect(access)?),
            timeouts: access.timeouts,
            min_replicas: 0,
            audit_retention: Some(AUDIT_RETENTION),
            replicas: None,
            is_format_known: AtomicBool::new(false),
        })
    }

    /// Makes a write complete only once this many replicas have it, too.
    #[must_use]
    pub fn with_min_replicas(mut self, min_replicas: u8) -> Self {
        self.min_replicas = min_replicas;
        self
    }

    /// Sets how long lines of the audit log are kept; `None`: until the log is too large.
    #[must_use]
    pub fn with_audit_retention(mut self, audit_retention: Option<Span>) -> Self {
        self.audit_retention = audit_retention;
        self
    }

    /// Lets replicas that are at most this far behind answer reads for which that is fresh enough; zero: no replicas.
    #[must_use]
    pub fn with_max_staleness(mut self, max_staleness: Duration) -> Self {
        self.replicas = (!max_staleness.is_zero())
            .then(|| Replicas::follow(Arc::clone(&self.topology), max_staleness));
        self
    }

    /// The greatest age of a replica's answer; `None` if replicas are not used.
    pub fn max_staleness(&self) -> Option<Duration> {
        Some(self.replicas.as_ref()?.max_staleness)
    }

    pub(crate) fn waits_for_replicas(&self) -> bool {
        self.min_replicas > 0
    }

    /// Checks that every connection is up, and that Redis answers and knows every script. In a cluster most nodes are enough:
    /// calls to the others fail individually.
    pub async fn check(&self) -> Result<(), StoreError> {
        let nodes = self.topology.nodes();
        let checked = nodes.iter().map(async |node| {
            node.check_connected()?;
            node.load_scripts().await
        });
        let checked = join_all(checked).await;
        let (well, failed): (Vec<_>, Vec<_>) = checked.into_iter().partition(Result::is_ok);
        match failed.into_iter().find_map(Result::err) {
            Some(failure) if well.len() <= nodes.len() / 2 => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// The replication id of each server that has slots, by server name: it changes when a server was restarted, has taken
    /// over, or was given other data. Servers that do not answer soon are left out.
    pub async fn histories(&self) -> BTreeMap<String, String> {
        let primaries = self.topology.primaries();
        let asked = primaries.iter().map(async |(server, node)| {
            node.check_connected().ok()?;
            let info = node.readers.command("INFO", vec!["replication".into()]);
            let info: String = timeout(HISTORY_TIMEOUT, info).await.ok()?.ok()?;
            let history = *info_fields(&info).get("master_replid")?;
            Some((server.to_string(), history.to_owned()))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// How many bytes of memory all servers use together; `None` if one of them does not report it.
    pub(crate) async fn memory_used(&self) -> Option<u64> {
        let nodes = self.primaries();
        let used = nodes.iter().map(async |node| {
            let info: String = node
                .readers
                .command("INFO", vec!["memory".into()])
                .await
                .ok()?;
            info_fields(&info).get("used_memory")?.parse::<u64>().ok()
        });
        join_all(used).await.into_iter().sum()
    }

    /// The time of Redis' clock, in microseconds since the epoch. All instances ask the same server of a cluster.
    pub async fn server_time_us(&self) -> Result<i64, StoreError> {
        let node = self.topology.node(slot_of(keys::SEQUENCE))?;
        let (seconds, micros): (i64, i64) = node.readers.command("TIME", Vec::new()).await?;
        Ok(seconds * 1_000_000 + micros)
    }

    /// The server that has the slot of a key.
    pub(crate) fn server_of_key(&self, key: &str) -> Option<Server> {
        self.topology.server(slot_of(key))
    }

    /// The servers that have slots.
    pub(crate) fn primaries(&self) -> Vec<Arc<Node>> {
        self.topology.primaries().into_values().collect()
    }

    /// Runs a script that writes. Calls with the same tag, so for the same board or shard, are carried out in the order of
    /// these calls, no matter when their futures are polled: when this returns, the call is sent or in line.
    pub(crate) fn write_at(
        &self,
        tag: String,
        call: Call,
    ) -> BoxFuture<'_, Result<Value, StoreError>> {
        self.run_in_turn(tag, call, self.min_replicas)
    }

    /// Runs a script that writes derivable data, without waiting for replicas.
    pub(crate) fn derive_at(
        &self,
        tag: String,
        call: Call,
    ) -> BoxFuture<'_, Result<Value, StoreError>> {
        self.run_in_turn(tag, call, 0)
    }

    /// Before the first write, the format of the data is checked.
    fn run_in_turn(
        &self,
        tag: String,
        call: Call,
        min_replicas: u8,
    ) -> BoxFuture<'_, Result<Value, StoreError>> {
        if self.is_format_known.load(Ordering::Relaxed) {
            return self.send_in_turn(tag, call, min_replicas);
        }
        Box::pin(async move {
            self.note_format().await?;
            self.send_in_turn(tag, call, min_replicas).await
        })
    }

    /// Runs a script that writes, even if the format of the data is unknown.
    pub(crate) fn send_in_turn(
        &self,
        tag: String,
        call: Call,
        min_replicas: u8,
    ) -> BoxFuture<'_, Result<Value, StoreError>> {
        let (slot, call) = (call.slot(), Arc::new(call));
        let write = move |node: Arc<Node>| node.write(&tag, Arc::clone(&call), min_replicas);
        self.at_slot(slot, write)
    }

    /// Runs a script that reads.
    pub(crate) async fn read(&self, call: Call) -> Result<Value, StoreError> {
        let call = &Arc::new(call);
        let read = |node: Arc<Node>| async move { node.readers.read(call).await };
        self.at_slot(call.slot(), read).await
    }

    /// Runs a script that reads a board or shard on a replica, if one is fresh enough. While the slot is moving, the
    /// replica may have only some of the keys. The script gets the id of its process as an additional argument.
    pub(crate) async fn read_replica(&self, shard: &Shard, call: Call) -> Option<Dated<Value>> {
        let replicas = self.replicas.as_ref()?;
        let primary = self.topology.server(call.slot())?;
        let (value, as_of) = Box::pin(replicas.read(&primary, shard.tag(), call)).await?;
        Some(Dated {
            value,
            as_of: Some(as_of),
        })
    }

    /// Runs one command, whose first argument is a key.
    pub(crate) async fn command<R: FromValue + Send>(
        &self,
        name: &'static str,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<R, StoreError> {
        let args: Vec<String> = args.into_iter().map(Into::into).collect();
        let slot = args.first().map_or(0, |key| slot_of(key));
        self.command_at(slot, name, args).await
    }

    /// Up to `count` members of a sorted set of times in milliseconds that are due by now, the longest due first.
    pub(crate) async fn due(
        &self,
        key: &'static str,
        now: Timestamp,
        count: impl ToString,
    ) -> Result<Vec<String>, StoreError> {
        let (now, count) = (now.ms().to_string(), count.to_string());
        let range = [key, "-inf", &now, "BYSCORE", "LIMIT", "0", &count];
        self.command("ZRANGE", range).await
    }

    /// About how many bytes a key takes; `None` if it does not exist.
    pub(crate) async fn memory_of(&self, key: &str) -> Result<Option<u64>, StoreError> {
        let args = ["USAGE", key].map(str::to_owned).to_vec();
        self.command_at(slot_of(key), "MEMORY", args).await
    }

    /// Runs one command on the server that has a slot.
    pub(super) async fn command_at<R: FromValue + Send>(
        &self,
        slot: u16,
        name: &'static str,
        args: Vec<String>,
    ) -> Result<R, StoreError> {
        let command = |node: Arc<Node>| {
            let args = args.clone();
            async move { node.readers.command(name, args).await }
        };
        self.at_slot(slot, command).await
    }

    /// A separate connection to the server that has the slot of a key.
    pub(crate) fn connect_to(&self, key: &str) -> Result<Connection, StoreError> {
        Connection::open(&self.topology.node(slot_of(key))?.access)
    }

    /// Calls the server that has a slot, and retries for a while if the slot was elsewhere or moving. The first call is
    /// made before this returns, even if its future is never polled.
    fn at_slot<'a, T: Send + 'a, F: Future<Output = Result<T, Failure>> + Send + 'a>(
        &'a self,
        slot: u16,
        call: impl Fn(Arc<Node>) -> F + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let (begun, mut pause) = (Instant::now(), MOVING_PAUSE_MIN);
        let first = self.topology.node(slot).map(&call);
        Box::pin(async move {
            let mut reply = first?;
            loop {
                match reply.await {
                    Ok(reply) => return Ok(reply),
                    Err(failure) => self.wait_for_slot(begun, &mut pause, failure).await?,
                }
                reply = call(self.topology.node(slot)?);
            }
        })
    }

    /// Waits until a call may be retried whose slot was elsewhere or moving; passes other failures on.
    async fn wait_for_slot(
        &self,
        begun: Instant,
        pause: &mut Duration,
        failure: Failure,
    ) -> Result<(), StoreError> {
        if begun.elapsed() > self.timeouts.times(MOVING_TIME_MAX) {
            return Err(failure.into());
        }
        match failure {
            // All of the slot is at its new place.
            Failure::Moved(_) => *pause = MOVING_PAUSE_MIN,
            Failure::Moving(_) => *pause = (*pause * 2).min(MOVING_PAUSE_MAX),
            Failure::Store(error) => return Err(error),
        }
        self.topology.is_outdated();
        sleep(*pause).await;
        Ok(())
    }
}

impl Call {
    pub(crate) fn new(script: &'static Script, keys: Vec<String>, args: Vec<Value>) -> Self {
        debug_assert!(
            are_in_one_slot(&keys),
            "the keys of {} are in several slots: {keys:?}",
            script.name
        );
        let keys = keys.into_iter().map(Key::from).collect();
        Self { script, keys, args }
    }

    fn slot(&self) -> u16 {
        self.keys.first().map_or(0, Key::cluster_hash)
    }
}

/// Whether a cluster accepts these keys in one call.
fn are_in_one_slot(keys: &[String]) -> bool {
    let mut slots = keys.iter().map(|key| slot_of(key));
    let first = slots.next();
    slots.all(|slot| Some(slot) == first)
}

pub(super) fn slot_of(key: &str) -> u16 {
    Key::from(key).cluster_hash()
}

#[cfg(test)]
mod tests {
    use super::are_in_one_slot;

    #[test]
    fn a_call_has_keys_of_one_slot() {
        let is_one = |keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            are_in_one_slot(&keys)
        };
        assert!(is_one(&[]));
        assert!(is_one(&["st:{b}", "st:{b}:1:day"]));
        assert!(!is_one(&["st:{b}", "st:{boards}:queues"]));
    }
}
