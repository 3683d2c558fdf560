//! Where a world keeps its data, and what happens to the servers there.
//!
//! With `STANDINGS_TEST_CLUSTER` set, all worlds are clusters, so that the whole suite runs on one.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::MutexGuard;

use super::keys;
use super::redis::{RedisServer, Reply, eventually};
use crate::kit::servers::{PRIMARIES, cluster_node};
pub use crate::kit::servers::{RedisServers, free_ports};

impl RedisServers {
    /// What the environment asks for.
    pub async fn start() -> Self {
        if std::env::var_os("STANDINGS_TEST_CLUSTER").is_some() {
            Self::start_cluster().await
        } else {
            Self::one(RedisServer::start().await)
        }
    }

    /// What the service connects to.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// A cluster of three primaries, each with a replica that takes over when it is gone.
    pub async fn start_cluster_with_replicas() -> Self {
        let mut cluster = Self::start_cluster().await;
        let ids = cluster.on_each("CLUSTER MYID").await;
        let seed = cluster.url.rsplit(':').next().unwrap().to_owned();
        let bus = cluster.nodes[0]
            .run(&[b"CONFIG", b"GET", b"cluster-port"])
            .await
            .list()[1]
            .text();
        for id in ids {
            // The reply is a length, and then the id.
            let id = id.lines().nth(1).unwrap().to_owned();
            let replica = cluster_node(free_ports(), &[]).await;
            replica
                .command(&format!("CLUSTER MEET 127.0.0.1 {seed} {bus}"))
                .await;
            eventually("the replica knows its primary", async || {
                replica.command(&format!("CLUSTER REPLICATE {id}")).await == "+OK\r\n"
            })
            .await;
            eventually("the replica follows", async || {
                replica
                    .command("INFO replication")
                    .await
                    .contains("master_link_status:up")
            })
            .await;
            cluster.nodes.push(replica);
        }
        cluster.wait_until_ready().await;
        cluster
    }

    /// Kills one of the primaries without a warning, and starts it again once its replica has taken over.
    pub async fn fail_over(&self, primary: usize) {
        self.nodes[primary].kill();
        let replica = &self.nodes[PRIMARIES + primary];
        eventually("the replica takes over", async || {
            replica.command("ROLE").await.contains("master")
        })
        .await;
        self.nodes[primary].restart().await;
    }

    /// Has one of the primaries stop where it is, and go on once its replica has taken over.
    pub async fn freeze(&self, primary: usize) {
        self.nodes[primary].freeze(true);
        let replica = &self.nodes[PRIMARIES + primary];
        eventually("the replica takes over", async || {
            replica.command("ROLE").await.contains("master")
        })
        .await;
        self.nodes[primary].freeze(false);
    }

    /// Has the replica of one of the primaries stop where it is, or go on.
    pub fn freeze_replica(&self, primary: usize, is_frozen: bool) {
        self.nodes[PRIMARIES + primary].freeze(is_frozen);
    }

    /// Kills all servers without a warning.
    pub fn kill(&self) {
        self.nodes.iter().for_each(RedisServer::kill);
    }

    /// Starts them again.
    pub async fn restart(&self) {
        join_all(self.nodes.iter().map(RedisServer::restart)).await;
        self.wait_until_ready().await;
    }

    /// Kills one of the servers without a warning, and starts it again, until its clients are back. No slot is half-way
    /// then: a server that dies in the middle of a move can lose keys.
    pub async fn kill_one(&self, index: usize) {
        let _still = self.hold_still().await;
        let node = &self.nodes[index % self.nodes.len()];
        let clients = async || {
            let list = node.run(&[b"CLIENT", b"LIST"]).await.text();
            // Nodes that move slots are clients of each other.
            let is_node = |line: &&str| line.contains("cmd=restore");
            list.lines().filter(|line| !is_node(line)).count()
        };
        let before = clients().await;
        node.kill();
        node.restart().await;
        self.wait_until_ready().await;
        eventually("the clients are back", async || clients().await >= before).await;
    }

    /// The keys that match a pattern, wherever they lie.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        for node in &self.nodes {
            let reply = node.run(&[b"KEYS", pattern.as_bytes()]).await;
            keys.extend(reply.list().iter().map(Reply::text));
        }
        keys
    }

    /// The keys that match a pattern, wherever they lie, and when each expires, in milliseconds since the epoch; -1: never.
    /// No slot is half-way meanwhile.
    pub async fn expiries(&self, pattern: &str) -> BTreeMap<String, i64> {
        const SCRIPT: &[u8] = b"local found = {} \
            for _, key in ipairs(redis.call('KEYS', ARGV[1])) do \
              table.insert(found, key) \
              table.insert(found, redis.call('PEXPIRETIME', key)) \
            end return found";
        let _still = self.hold_still().await;
        let mut keys = BTreeMap::new();
        for node in &self.nodes {
            let reply = node.run(&[b"EVAL", SCRIPT, b"0", pattern.as_bytes()]).await;
            for pair in reply.list().chunks_exact(2) {
                let Reply::Integer(expires) = pair[1] else {
                    panic!("no integer: {pair:?}")
                };
                keys.insert(pair[0].text(), expires);
            }
        }
        keys
    }

    /// The keys of a pattern that the deletion of their boards has to unlink.
    pub async fn leftover(&self, pattern: &str) -> Vec<String> {
        let keys = self.expiries(pattern).await.into_iter();
        let leftover = keys.filter(|(key, expires)| !keys::is_proof(key, *expires));
        leftover.map(|(key, _)| key).collect()
    }

    /// How far apart keys may expire that are to expire together: a slot moves with the times that its keys have left.
    pub fn expiry_slack_ms(&self) -> u64 {
        if self.nodes.len() == 1 { 0 } else { 60_000 }
    }

    /// Has no slot move for as long as the value is kept.
    pub async fn hold_still(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().await
    }

    /// Runs a command of a key, wherever it lies.
    pub async fn run(&self, words: &[&[u8]]) -> Reply {
        // A slot may move to a node that has just been asked.
        for _ in 0..100 {
            for node in &self.nodes {
                match node.run(words).await {
                    Reply::Error(text) if text.starts_with("MOVED") => {}
                    reply => return reply,
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no server has the slot of {words:?}");
    }
}
