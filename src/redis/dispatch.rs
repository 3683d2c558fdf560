//! Sends each call to the server that has the slot of its keys. The rest of the store calls Redis through this module.
//!
//! `connection.rs` bounds how long a call can take when a server does not answer. While a slot of a cluster moves from
//! one server to another, Redis refuses calls to it before they have done anything (`scripts/lib/slot.lua`). This module
//! repeats such calls for a while.

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

/// For how long a call is sent again whose slot has moved or is moving.
const MOVING_TIME_MAX: Duration = Duration::from_secs(2);
/// The shortest and the longest pause before that: while the slot is moving they double.
const MOVING_PAUSE_MIN: Duration = Duration::from_millis(5);
const MOVING_PAUSE_MAX: Duration = Duration::from_millis(100);
/// For how long lines of the audit log are kept unless it is set.
const AUDIT_RETENTION: Span = Span::days(365);
/// The longest wait for a server to tell its history.
const HISTORY_TIMEOUT: Duration = Duration::from_millis(300);

/// Redis, as the service sees it.
#[derive(Debug)]
pub struct Store {
    pub(crate) topology: Arc<Topology>,
    /// How patient it is; the service above is as patient.
    pub timeouts: TimeoutFactor,
    min_replicas: u8,
    /// For how long lines of the audit log are kept; `None`: until the log is too large.
    pub(crate) audit_retention: Option<Span>,
    /// Where reads may be answered that need not be as fresh as can be.
    pub(crate) replicas: Option<Replicas>,
    /// Whether it is known that what belongs to no board has the format of this release.
    pub(crate) is_format_known: AtomicBool,
}

/// How fresh the answer to a read has to be.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Freshness {
    /// All that was acknowledged before the question is in it.
    #[default]
    Current,
    /// It may be older, by the staleness that the store was set up with; so a replica may answer.
    Bounded,
}

impl Store {
    /// Begins to connect, and goes on trying by itself for as long as the store lives.
    pub fn connect(address: &Address, timeouts: TimeoutFactor) -> Result<Self, StoreError> {
        let config = address.config()?;
        Ok(Self {
            topology: Arc::new(Topology::connect(&Access { config, timeouts })?),
            timeouts,
            min_replicas: 0,
            audit_retention: Some(AUDIT_RETENTION),
            replicas: None,
            is_format_known: AtomicBool::new(false),
        })
    }

    /// The same, where a write is done once so many replicas have it too.
    #[must_use]
    pub fn with_min_replicas(mut self, min_replicas: u8) -> Self {
        self.min_replicas = min_replicas;
        self
    }

    /// The same, where lines of the audit log are kept for so long; `None`: until the log is too large.
    #[must_use]
    pub fn with_audit_retention(mut self, audit_retention: Option<Span>) -> Self {
        self.audit_retention = audit_retention;
        self
    }

    /// The same, where replicas that are at most so far behind answer reads for which that is fresh enough; not with a
    /// staleness of zero.
    #[must_use]
    pub fn with_max_staleness(mut self, max_staleness: Duration) -> Self {
        self.replicas = (!max_staleness.is_zero())
            .then(|| Replicas::follow(Arc::clone(&self.topology), max_staleness));
        self
    }

    /// How old an answer of a replica may be at the most, where they may be asked.
    pub fn max_staleness(&self) -> Option<Duration> {
        Some(self.replicas.as_ref()?.max_staleness)
    }

    /// Whether writes wait for replicas.
    pub(crate) fn waits_for_replicas(&self) -> bool {
        self.min_replicas > 0
    }

    /// Whether every connection is there, and Redis answers and knows every script. Of a cluster most nodes are enough:
    /// what lies on the others fails by itself.
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

    /// Which history of data each server that has slots is at, by the servers' names: another one after a server was
    /// started, has taken over, or has been given other data. Servers that do not answer soon are left out.
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

    /// What Redis' clock shows, in microseconds since the epoch. All instances ask the same server of a cluster.
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

    /// Runs a script that writes. Calls for the same board, or shard, whose keys have this tag, are carried out in the order in which
    /// this was called, not in which their futures are polled: the call is sent, or waits for its turn, when this returns.
    pub(crate) fn write_at(
        &self,
        tag: String,
        call: Call,
    ) -> BoxFuture<'_, Result<Value, StoreError>> {
        self.run_in_turn(tag, call, self.min_replicas)
    }

    /// Runs a script that writes what can be made again from other data: it does not wait for replicas.
    pub(crate) fn derive_at(
        &self,
        tag: String,
        call: Call,
    ) -> BoxFuture<'_, Result<Value, StoreError>> {
        self.run_in_turn(tag, call, 0)
    }

    /// Before the first write it is looked whether the format of the data is known.
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

    /// Runs a script that writes, whether the format of the data is known or not.
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

    /// Runs a script that reads what belongs to a board, or shard, on a replica, if there is one that is fresh enough. It
    /// may have a part of the keys only: of a slot that is moving. The script gets the id of its process as one more
    /// argument.
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

    /// What is due by now in a sorted set of times in milliseconds: up to `count` of its members, those first that were due first.
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

    /// About how many bytes a key takes; `None` if it is not there.
    pub(crate) async fn memory_of(&self, key: &str) -> Result<Option<u64>, StoreError> {
        let args = ["USAGE", key].map(str::to_owned).to_vec();
        self.command_at(slot_of(key), "MEMORY", args).await
    }

    async fn command_at<R: FromValue + Send>(
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

    /// A connection of one's own to the server that has the slot of a key.
    pub(crate) fn connect_to(&self, key: &str) -> Result<Connection, StoreError> {
        Connection::open(&self.topology.node(slot_of(key))?.access)
    }

    /// Calls the server that has a slot, and again for a while where the slot was elsewhere or moving. The first call is
    /// made when this returns; its future need not have been polled.
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

    /// Waits until a call is to be sent again whose slot was elsewhere or moving; another failure is for the caller.
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
            // It is all there where it is now.
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

    /// The slot of its keys.
    fn slot(&self) -> u16 {
        self.keys.first().map_or(0, Key::cluster_hash)
    }
}

/// Whether a cluster takes these keys in one call.
fn are_in_one_slot(keys: &[String]) -> bool {
    let mut slots = keys.iter().map(|key| slot_of(key));
    let first = slots.next();
    slots.all(|slot| Some(slot) == first)
}

fn slot_of(key: &str) -> u16 {
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
