//! Where a service keeps its data: one Redis server, or a cluster of three primaries.

use std::fs::File;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use futures::future::join_all;
use tokio::sync::Mutex;

use super::process::eventually;
use super::redis::RedisServer;

/// How many primaries a cluster has.
pub const PRIMARIES: usize = 3;
/// How many slots a cluster has.
const SLOTS: usize = 16_384;
/// The servers; they end with this value.
pub struct RedisServers {
    pub nodes: Vec<RedisServer>,
    /// What the service connects to.
    pub url: String,
    /// Held while a slot moves.
    pub moving: Arc<Mutex<()>>,
}

impl RedisServers {
    /// One server.
    pub fn one(server: RedisServer) -> Self {
        Self {
            url: server.url(),
            nodes: vec![server],
            moving: Arc::default(),
        }
    }

    /// A cluster of three primaries, each with a third of the slots.
    pub async fn start_cluster() -> Self {
        Self::start_cluster_with(&[]).await
    }

    /// The same with further arguments.
    pub async fn start_cluster_with(arguments: &[&str]) -> Self {
        let ports: Vec<[u16; 2]> = (0..PRIMARIES).map(|_| free_ports()).collect();
        let nodes = ports.iter().map(|ports| cluster_node(*ports, arguments));
        let nodes = join_all(nodes).await;
        for (index, node) in nodes.iter().enumerate() {
            let [first, behind] = [index, index + 1].map(|index| index * SLOTS / PRIMARIES);
            for command in [
                format!("CLUSTER ADDSLOTSRANGE {first} {}", behind - 1),
                format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1),
            ] {
                assert_eq!(node.command(&command).await, "+OK\r\n", "{command}");
            }
            let [port, bus] = ports[0];
            node.command(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"))
                .await;
        }
        let cluster = Self {
            nodes,
            url: format!("redis-cluster://127.0.0.1:{}", ports[0][0]),
            moving: Arc::default(),
        };
        cluster.wait_until_ready().await;
        cluster
    }

    /// Waits until all know each other, and each slot has a server.
    pub async fn wait_until_ready(&self) {
        if self.nodes.len() == 1 {
            return;
        }
        eventually("the cluster is formed", async || {
            let infos = self.on_each("CLUSTER INFO").await;
            infos.iter().all(|info| {
                info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{}", self.nodes.len()))
            })
        })
        .await;
    }

    /// Sends a command to each server and returns the raw replies.
    pub async fn on_each(&self, command: &str) -> Vec<String> {
        join_all(self.nodes.iter().map(|node| node.command(command))).await
    }
}

/// A server for a cluster, that listens on these ports: its own, and the one for the others.
pub async fn cluster_node(ports: [u16; 2], arguments: &[&str]) -> RedisServer {
    let [port, bus] = ports.map(|port| port.to_string());
    let network = [
        "--bind",
        "127.0.0.1",
        "--port",
        &port,
        "--cluster-port",
        &bus,
    ];
    let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let at_once = ["--repl-diskless-sync-delay", "0"];
    RedisServer::start_with(&[&network[..], &cluster, &at_once, arguments].concat()).await
}

/// The next port to be tried. They lie below those that the system gives to connections.
static NEXT_PORT: AtomicU16 = AtomicU16::new(20_000);
/// The locks of the ports that this process has: others that test at the same time leave them alone.
static HELD: parking_lot::Mutex<Vec<File>> = parking_lot::Mutex::new(Vec::new());

/// Whether nobody listens on a port, and no other process that tests has it or takes it before this one ends.
fn take_port(port: u16) -> bool {
    let folder = std::env::temp_dir().join("standings-test-ports");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join(port.to_string())).unwrap();
    let is_free = lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok();
    if is_free {
        HELD.lock().push(lock);
    }
    is_free
}

/// Two ports that nobody listens on.
pub fn free_ports() -> [u16; 2] {
    let next = || NEXT_PORT.fetch_add(1, Ordering::SeqCst);
    let mut free = std::iter::repeat_with(next).filter(|port| take_port(*port));
    [(); 2].map(|()| free.next().unwrap())
}
