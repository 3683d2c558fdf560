//! A primary whose replicas take over, and those that watch it.

use std::process::Stdio;

use futures::future::join_all;
use tempfile::TempDir;

use super::redis::{self, RedisServer, eventually};
use super::replicated::listening;
use super::servers::free_ports;
use crate::kit::process::Process;

/// After how long without an answer a server is held to be dead: longer than a busy machine makes a living one wait, which would be replaced
/// by a replica that lacks its last writes.
const DOWN_AFTER_MS: u32 = 3_000;

/// A primary with two replicas, and three sentinels that watch it; they end with this value.
pub struct WatchedServers {
    pub nodes: Vec<RedisServer>,
    sentinels: Vec<Sentinel>,
}

struct Sentinel {
    directory: TempDir,
    port: u16,
    _process: Process,
}

impl WatchedServers {
    pub async fn start() -> Self {
        let primary_port = free_ports()[0].to_string();
        let mut nodes = vec![listening(&primary_port, &[]).await];
        for _ in 0..2 {
            let port = free_ports()[0].to_string();
            let follow = ["--replicaof", "127.0.0.1", &primary_port];
            nodes.push(listening(&port, &follow).await);
        }
        let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(&primary_port)).collect();
        let servers = Self { nodes, sentinels };
        eventually("the sentinels know all", async || {
            for sentinel in &servers.sentinels {
                let known = sentinel.ask("SENTINEL MASTER main").await;
                if !(known.contains("num-slaves\r\n$1\r\n2\r\n")
                    && known.contains("num-other-sentinels\r\n$1\r\n2\r\n"))
                {
                    return false;
                }
            }
            true
        })
        .await;
        servers
    }

    /// What the service connects to.
    pub fn url(&self) -> String {
        let [first, second, third] = [0, 1, 2].map(|index| self.sentinels[index].port);
        format!(
            "redis-sentinel://127.0.0.1:{first}/0?sentinelServiceName=main&node=127.0.0.1:{second}&node=127.0.0.1:{third}"
        )
    }

    /// Kills the primary without a warning, and waits until one of the replicas has taken over.
    pub async fn fail_over(&self) {
        self.nodes[0].kill();
        let replicas = &self.nodes[1..];
        eventually("a replica takes over", async || {
            // The sentinels cut all connections to a server whose role they change.
            let role = async |node: &RedisServer| redis::try_command(&node.socket(), "ROLE").await;
            let roles = join_all(replicas.iter().map(role)).await;
            roles.iter().flatten().any(|role| role.contains("master"))
        })
        .await;
    }
}

impl Sentinel {
    fn start(primary_port: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let [port, _] = free_ports();
        let settings = format!(
            "bind 127.0.0.1\nport {port}\nunixsocket sentinel.sock\n\
             sentinel monitor main 127.0.0.1 {primary_port} 2\n\
             sentinel down-after-milliseconds main {DOWN_AFTER_MS}\n\
             sentinel failover-timeout main 10000\n"
        );
        let file = directory.path().join("sentinel.conf");
        std::fs::write(&file, settings).unwrap();
        let mut command = redis::program();
        command
            .arg(&file)
            .arg("--sentinel")
            .current_dir(directory.path())
            .stderr(Stdio::null());
        Self {
            directory,
            port,
            _process: Process::start(&mut command),
        }
    }

    /// Its answer, empty while it does not listen.
    async fn ask(&self, command: &str) -> String {
        let socket = self.directory.path().join("sentinel.sock");
        let answer = redis::try_command(&socket, command).await;
        answer.unwrap_or_default()
    }
}
