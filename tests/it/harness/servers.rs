//! Where a world keeps its data: one Redis server, or a cluster of three primaries.
//!
//! With `STANDINGS_TEST_CLUSTER` set, all worlds are clusters, so that the whole suite runs on one.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures::future::join_all;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::task::AbortOnDropHandle;

use super::random::Random;
use super::redis::{self, RedisServer, Reply, eventually};

/// How many primaries a cluster has.
const PRIMARIES: usize = 3;
/// How many slots a cluster has.
const SLOTS: usize = 16_384;
/// How many keys of a slot are moved at a time.
const KEYS_AT_A_TIME: &str = "10";
/// The pause between them, in which the slot lies on both nodes.
const MOVING_PAUSE: Duration = Duration::from_millis(1);
/// How often they are told at the most who has a slot.
const AGREED_WITHIN: usize = 5_000;
/// The pause between two moves. It may be the same slot again: calls need the time to find it.
const REST: Duration = Duration::from_millis(40);

/// The servers; they end with this value.
pub struct RedisServers {
    nodes: Vec<RedisServer>,
    url: String,
    /// Held while a slot moves.
    moving: Arc<Mutex<()>>,
}

impl RedisServers {
    /// What the environment asks for.
    pub async fn start() -> Self {
        if std::env::var_os("STANDINGS_TEST_CLUSTER").is_some() {
            Self::start_cluster().await
        } else {
            let server = RedisServer::start().await;
            Self {
                url: server.url(),
                nodes: vec![server],
                moving: Arc::default(),
            }
        }
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
            let [own_port, own_bus] = free_ports();
            let replica = cluster_node(own_port, own_bus).await;
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

    /// A cluster of three primaries, each with a third of the slots.
    pub async fn start_cluster() -> Self {
        let ports: Vec<[u16; 2]> = (0..PRIMARIES).map(|_| free_ports()).collect();
        let nodes = ports.iter().map(|[port, bus]| cluster_node(*port, *bus));
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

    async fn wait_until_ready(&self) {
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

    /// What the service connects to.
    pub fn url(&self) -> String {
        self.url.clone()
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
    pub async fn kill_one(&self, place: usize) {
        let _still = self.hold_still().await;
        let node = &self.nodes[place % self.nodes.len()];
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

    /// Sends a command to each server and returns the raw replies.
    pub async fn on_each(&self, command: &str) -> Vec<String> {
        join_all(self.nodes.iter().map(|node| node.command(command))).await
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
        for node in &self.nodes {
            match node.run(words).await {
                Reply::Error(text) if text.starts_with("MOVED") => {}
                reply => return reply,
            }
        }
        panic!("no server has the slot of {words:?}");
    }
}

/// A primary with two replicas, and three sentinels that watch it; they end with this value.
pub struct WatchedServers {
    pub nodes: Vec<RedisServer>,
    sentinels: Vec<Sentinel>,
}

struct Sentinel {
    directory: TempDir,
    port: u16,
    child: Child,
}

impl WatchedServers {
    pub async fn start() -> Self {
        let primary_port = free_ports()[0].to_string();
        let mut nodes = vec![watched_node(&primary_port, &[]).await];
        for _ in 0..2 {
            let port = free_ports()[0].to_string();
            let follow = ["--replicaof", "127.0.0.1", &primary_port];
            nodes.push(watched_node(&port, &follow).await);
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

async fn watched_node(port: &str, more: &[&str]) -> RedisServer {
    let network = ["--bind", "127.0.0.1", "--port", port];
    let at_once = ["--repl-diskless-sync-delay", "0"];
    RedisServer::start_with(&[&network[..], &at_once, more].concat()).await
}

impl Sentinel {
    fn start(primary_port: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let [port, _] = free_ports();
        let settings = format!(
            "bind 127.0.0.1\nport {port}\nunixsocket sentinel.sock\n\
             sentinel monitor main 127.0.0.1 {primary_port} 2\n\
             sentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 3000\n"
        );
        let file = directory.path().join("sentinel.conf");
        std::fs::write(&file, settings).unwrap();
        let program =
            std::env::var_os("STANDINGS_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let child = Command::new(program)
            .arg(&file)
            .arg("--sentinel")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            directory,
            port,
            child,
        }
    }

    /// Its answer, empty while it does not listen.
    async fn ask(&self, command: &str) -> String {
        let socket = self.directory.path().join("sentinel.sock");
        let answer = redis::try_command(&socket, command).await;
        answer.unwrap_or_default()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Moves slots between some primaries of a cluster, while all else goes on.
pub struct Mover {
    places: Vec<Place>,
}

/// One of the nodes.
pub struct Place {
    socket: PathBuf,
    id: String,
    port: String,
}

impl RedisServers {
    /// What moves slots between these primaries.
    pub async fn mover(&self, primaries: &[usize]) -> Mover {
        let place = async |node: &RedisServer| Place {
            socket: node.socket(),
            id: node.run(&[b"CLUSTER", b"MYID"]).await.text(),
            port: node.run(&[b"CONFIG", b"GET", b"port"]).await.list()[1].text(),
        };
        let places = primaries.iter().map(|primary| place(&self.nodes[*primary]));
        Mover {
            places: join_all(places).await,
        }
    }

    /// On a cluster: moves slots that are in use, one after the other, for as long as the value is kept.
    pub async fn keep_moving(&self) -> Option<AbortOnDropHandle<()>> {
        if self.nodes.len() == 1 {
            return None;
        }
        let mover = self.mover(&[0, 1, 2]).await;
        let mut random = Random::new(0);
        let moving = Arc::clone(&self.moving);
        Some(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let half_way = moving.lock().await;
                mover.move_any(&mut random).await;
                drop(half_way);
                tokio::time::sleep(REST).await;
            }
        })))
    }
}

impl Mover {
    /// Moves the slot of one of the service's keys, chosen at random, to another node.
    pub async fn move_any(&self, random: &mut Random) {
        let place = &self.places[random.below(self.places.len())];
        let keys = redis::run(&place.socket, &[b"KEYS", b"st:*"]).await;
        let keys = keys.list();
        if !keys.is_empty() {
            self.move_slot_of(keys[random.below(keys.len())].bytes())
                .await;
        }
    }

    /// Moves the slot of a key to the next of the nodes, a few keys at a time; none that lies elsewhere.
    pub async fn move_slot_of(&self, key: &[u8]) {
        let Some((slot, from, to)) = self.begin(key).await else {
            return;
        };
        from.migrate(&slot, to).await;
        // Moves that follow too soon upon each other can leave nodes with different views. It is told to them until they
        // agree, the new one first, so that the slot always has somebody.
        for _ in 0..AGREED_WITHIN {
            if self.tell(key, &slot, to).await {
                return;
            }
            tokio::time::sleep(MOVING_PAUSE).await;
        }
        panic!("the nodes do not agree on slot {slot}");
    }

    /// Tells all who has a slot, and returns whether they agree.
    async fn tell(&self, key: &[u8], slot: &str, to: &Place) -> bool {
        to.set_slot(slot, "NODE", to).await;
        let mut do_agree = true;
        for place in &self.places {
            place.set_slot(slot, "NODE", to).await;
            do_agree &= match redis::run(&place.socket, &[b"EXISTS", key]).await {
                Reply::Error(text) => text.ends_with(&format!(":{}", to.port)),
                _ => place.id == to.id,
            };
        }
        do_agree
    }

    /// Only begins to: no key is moved yet.
    pub async fn begin(&self, key: &[u8]) -> Option<(String, &Place, &Place)> {
        let slot = redis::run(&self.places[0].socket, &[b"CLUSTER", b"KEYSLOT", key]).await;
        let Reply::Integer(slot) = slot else {
            panic!("no slot: {slot:?}")
        };
        let slot = slot.to_string();
        for (index, from) in self.places.iter().enumerate() {
            let to = &self.places[(index + 1) % self.places.len()];
            if from.set_slot(&slot, "MIGRATING", to).await {
                assert!(to.set_slot(&slot, "IMPORTING", from).await);
                return Some((slot, from, to));
            }
        }
        None
    }
}

impl Place {
    async fn set_slot(&self, slot: &str, what: &str, other: &Self) -> bool {
        let words = ["CLUSTER", "SETSLOT", slot, what, &other.id].map(str::as_bytes);
        redis::run(&self.socket, &words).await == Reply::text_of("OK")
    }

    async fn migrate(&self, slot: &str, to: &Self) {
        let list = ["CLUSTER", "GETKEYSINSLOT", slot, KEYS_AT_A_TIME].map(str::as_bytes);
        loop {
            let keys = redis::run(&self.socket, &list).await;
            if keys.list().is_empty() {
                return;
            }
            let migrate = ["MIGRATE", "127.0.0.1", &to.port, "", "0", "5000", "KEYS"];
            let mut words = migrate.map(str::as_bytes).to_vec();
            words.extend(keys.list().iter().map(Reply::bytes));
            let moved = redis::run(&self.socket, &words).await;
            // What has expired meanwhile is not there; and a cluster that is down takes no keys.
            let is_well = match &moved {
                Reply::Error(text) => text.contains("CLUSTERDOWN"),
                moved => ["OK", "NOKEY"].map(Reply::text_of).contains(moved),
            };
            assert!(is_well, "{moved:?}");
            tokio::time::sleep(MOVING_PAUSE).await;
        }
    }
}

async fn cluster_node(port: u16, bus: u16) -> RedisServer {
    let [port, bus] = [port, bus].map(|port| port.to_string());
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
    RedisServer::start_with(&[&network[..], &cluster, &at_once].concat()).await
}

/// The next port to be tried. They lie below those that the system gives to connections.
static NEXT_PORT: AtomicU16 = AtomicU16::new(20_000);

/// Two ports that nobody listens on.
pub fn free_ports() -> [u16; 2] {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut free =
        std::iter::repeat_with(|| NEXT_PORT.fetch_add(1, Ordering::SeqCst)).filter(is_free);
    [(); 2].map(|()| free.next().unwrap())
}
