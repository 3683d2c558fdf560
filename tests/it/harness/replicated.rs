//! A primary that has a replica.

use standings::domain::clock::Clock;

use super::redis::{RedisServer, eventually};
use super::servers::free_ports;
use super::{Instance, clock_at, store};

/// Servers that listen on a port of the machine, too, and whose replicas follow without a pause.
pub async fn listening(port: &str, more: &[&str]) -> RedisServer {
    let network = ["--bind", "127.0.0.1", "--port", port];
    let at_once = ["--repl-diskless-sync-delay", "0"];
    RedisServer::start_with(&[&network[..], &at_once, more].concat()).await
}

/// A primary with a replica, and an instance that acknowledges only what the replica has; they end with this value.
pub struct Replicated {
    pub instance: Instance,
    pub primary: RedisServer,
    pub replica: RedisServer,
    pub clock: Clock,
}

impl Replicated {
    /// Starts them at this time, and defines the board `b` once the replica follows.
    pub async fn start(now: &str) -> Self {
        let port = free_ports()[0].to_string();
        let primary = listening(&port, &[]).await;
        let follow = ["--port", "0", "--replicaof", "127.0.0.1", &port];
        let replica = RedisServer::start_with(&follow).await;
        let clock = clock_at(now);
        let store = store(&primary.url()).with_min_replicas(1);
        let instance = Instance::start_on(store, clock.clone(), "").await;
        eventually("the replica follows", async || {
            let definition = serde_json::json!({"windows": ["all"]});
            let answer = instance.client.put("/v1/boards/b", definition).await;
            answer.status.is_success()
        })
        .await;
        Self {
            instance,
            primary,
            replica,
            clock,
        }
    }
}
