//! Replicas for reads, and how far behind they are.
//!
//! A primary counts the bytes that it has written, and a replica the bytes that it has processed. This module reads both
//! offsets several times within the longest staleness allowed. A replica that has reached the offset of its primary at an
//! instant has everything that was acknowledged before that instant. No clocks are compared, and nothing is written for
//! this. A replica that lags or does not answer is not used once it is too old. An instance reads from replicas only while
//! it has registered how old their answers may be (`staleness.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fred::types::Value;
use fred::types::config::Server;
use metrics::counter;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::connection::Call;
use super::node::{Node, Readers};
use super::reply::info_fields;
use super::staleness::Registration;
use super::topology::Topology;
use crate::runtime::join::join_all;
use crate::runtime::supervise::restarted;

/// How often the servers are asked within the longest staleness.
const ASKED_WITHIN: u32 = 8;
/// The shortest and the longest pause between two such rounds.
const ASK_INTERVAL_MIN: Duration = Duration::from_millis(5);
const ASK_INTERVAL_MAX: Duration = Duration::from_millis(250);
/// The longest wait for the offset of a server.
const ASK_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest wait for an answer of a replica: it leaves time for the primary to answer.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Replicas {
    known: Arc<ArcSwap<Known>>,
    /// The greatest age of an answer.
    pub(crate) max_staleness: Duration,
    /// Lets other instances know how old the answers may be.
    pub(crate) registration: Registration,
    /// Makes instances choose different replicas.
    chance: RandomState,
    _following: AbortOnDropHandle<Infallible>,
}

type Known = BTreeMap<Server, Vec<Arc<Replica>>>;

#[derive(Debug)]
struct Replica {
    readers: Readers,
    seen: Mutex<Option<Seen>>,
}

/// The last known state of a replica.
#[derive(Clone, Debug)]
struct Seen {
    /// It has everything that was acknowledged before.
    as_of: Instant,
    /// The id of its process: a restarted one may have begun with older data.
    process: String,
}

impl Replicas {
    /// Starts following the replicas of the servers that have slots, while the value lives.
    pub(crate) fn follow(topology: Arc<Topology>, max_staleness: Duration) -> Self {
        let known = Arc::new(ArcSwap::from_pointee(Known::new()));
        let found = Arc::clone(&known);
        let following = restarted("replicas", move || {
            follow(Arc::clone(&topology), Arc::clone(&found), max_staleness)
        });
        Self {
            known,
            max_staleness,
            registration: Registration::default(),
            chance: RandomState::new(),
            _following: AbortOnDropHandle::new(tokio::spawn(following)),
        }
    }

    /// Runs a script on a replica of the server, with the id of its process as an additional argument. `None` if no
    /// replica is fresh enough when it has answered.
    ///
    /// All data with one tag is read from one replica while that is available, so that answers do not go back in time.
    pub(crate) async fn read(
        &self,
        primary: &Server,
        tag: &str,
        mut call: Call,
    ) -> Option<(Value, Instant)> {
        let known = self.known.load_full();
        let (replica, Seen { as_of, process }) = self.choose(known.get(primary)?, tag)?;
        call.args.push(process.into());
        let reply = tokio::time::timeout(READ_TIMEOUT, replica.readers.read(&Arc::new(call))).await;
        let answer = reply.ok().and_then(Result::ok);
        let is_fresh = self.is_fresh(as_of);
        let outcome = match (&answer, is_fresh) {
            (None, _) => "failed",
            (Some(_), false) => "late",
            (Some(_), true) => "answered",
        };
        counter!("standings_replica_reads_total", "outcome" => outcome).increment(1);
        answer.filter(|_| is_fresh).map(|answer| (answer, as_of))
    }

    /// A replica that is fresh enough, and its state.
    fn choose<'a>(&self, replicas: &'a [Arc<Replica>], tag: &str) -> Option<(&'a Replica, Seen)> {
        let count = replicas.len();
        let first = usize::try_from(self.chance.hash_one(tag) % u64::try_from(count).ok()?.max(1));
        let (ahead, from_first) = replicas.split_at(first.ok()?);
        let mut fresh = from_first.iter().chain(ahead).filter_map(|replica| {
            let seen = replica.seen.lock().clone()?;
            Some((&**replica, seen))
        });
        fresh.find(|(_, seen)| self.is_fresh(seen.as_of))
    }

    /// Whether an answer of this age may be used now.
    fn is_fresh(&self, as_of: Instant) -> bool {
        as_of.elapsed() <= self.max_staleness && self.registration.covers(as_of)
    }
}

/// Keeps the replicas up to date.
async fn follow(
    topology: Arc<Topology>,
    known: Arc<ArcSwap<Known>>,
    max_staleness: Duration,
) -> Infallible {
    let interval = (max_staleness / ASKED_WITHIN).clamp(ASK_INTERVAL_MIN, ASK_INTERVAL_MAX);
    let mut followed: BTreeMap<Server, Followed> = BTreeMap::new();
    loop {
        let primaries = topology.primaries();
        let asked = primaries.into_iter().map(|(server, node)| {
            let mut primary = followed.remove(&server).unwrap_or_default();
            let topology = &topology;
            async move {
                primary.marks.forget(max_staleness);
                primary.ask(&node, topology).await;
                primary.ask_replicas(topology.is_cluster()).await;
                (server, primary)
            }
        });
        followed = join_all(asked).await.into_iter().collect();
        let replicas = followed.iter().map(|(server, primary)| {
            let replicas = primary.replicas.values().cloned().collect();
            (server.clone(), replicas)
        });
        known.store(Arc::new(replicas.collect()));
        tokio::time::sleep(interval).await;
    }
}

#[derive(Default)]
struct Followed {
    marks: Marks,
    replicas: BTreeMap<Server, Arc<Replica>>,
}

impl Followed {
    /// Asks the primary for its offset and its replicas.
    async fn ask(&mut self, node: &Node, topology: &Topology) {
        let at = Instant::now();
        let Some(info) = info_of(&node.readers).await else {
            return;
        };
        if !info.is_primary {
            // Another server is primary now: the topology will notice.
            self.replicas.clear();
            return;
        }
        self.marks.put(at, info.offset);
        self.replicas
            .retain(|server, _| info.replicas.contains(server));
        for server in info.replicas {
            if self.replicas.contains_key(&server) {
                continue;
            }
            match Readers::connect(&topology.access.to(&server)) {
                Ok(readers) => {
                    let seen = Mutex::default();
                    let replica = Replica { readers, seen };
                    self.replicas.insert(server, Arc::new(replica));
                }
                Err(error) => tracing::warn!(%error, "a replica can't be used"),
            }
        }
    }

    /// Asks the replicas for their offsets.
    async fn ask_replicas(&self, is_cluster: bool) {
        let asked = self.replicas.values().map(async |replica| {
            if is_cluster {
                // A new connection is not read-only yet; until then a replica redirects it to the primary.
                replica.readers.say_readonly().await;
            }
            let Info {
                is_primary,
                offset,
                process,
                ..
            } = info_of(&replica.readers).await?;
            let as_of = self.marks.reached(&offset).filter(|_| !is_primary);
            *replica.seen.lock() = as_of.map(|as_of| Seen { as_of, process });
            Some(())
        });
        join_all(asked).await;
    }
}

async fn info_of(readers: &Readers) -> Option<Info> {
    let sections = vec!["replication".into(), "server".into()];
    let asked = readers.command::<String>("INFO", sections);
    let text = tokio::time::timeout(ASK_TIMEOUT, asked).await.ok()?.ok()?;
    Info::parse(&text)
}

/// A position in the history of a server's data.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Offset {
    history: String,
    bytes: u64,
}

/// The offsets of a primary at some instants.
#[derive(Debug, Default)]
struct Marks(VecDeque<(Instant, Offset)>);

impl Marks {
    fn put(&mut self, at: Instant, offset: Offset) {
        self.0.push_back((at, offset));
    }

    /// Forgets marks older than this.
    fn forget(&mut self, age: Duration) {
        while self.0.front().is_some_and(|(at, _)| at.elapsed() > age) {
            self.0.pop_front();
        }
    }

    /// The last instant up to which a replica at this offset has all data.
    fn reached(&self, offset: &Offset) -> Option<Instant> {
        let has = |mark: &Offset| mark.history == offset.history && mark.bytes <= offset.bytes;
        self.0
            .iter()
            .rev()
            .find(|(_, mark)| has(mark))
            .map(|(at, _)| *at)
    }
}

/// A server's `INFO`: itself and its replication.
#[derive(Debug, Eq, PartialEq)]
struct Info {
    is_primary: bool,
    process: String,
    offset: Offset,
    /// Its replicas, with their announced addresses.
    replicas: Vec<Server>,
}

impl Info {
    fn parse(text: &str) -> Option<Self> {
        let fields = info_fields(text);
        let is_primary = *fields.get("role")? == "master";
        let field = if is_primary {
            "master_repl_offset"
        } else {
            "slave_repl_offset"
        };
        let offset = Offset {
            history: (*fields.get("master_replid")?).to_owned(),
            bytes: fields.get(field)?.parse().ok()?,
        };
        let replicas = (0..).map_while(|number| fields.get(&*format!("slave{number}")));
        Some(Self {
            is_primary,
            process: (*fields.get("run_id")?).to_owned(),
            offset,
            replicas: replicas.filter_map(|text| read_replica(text)).collect(),
        })
    }
}

/// Parses `ip=10.0.0.2,port=6379,state=online,offset=98,lag=1`; `None` for a replica that is not following yet.
fn read_replica(text: &str) -> Option<Server> {
    let fields: BTreeMap<&str, &str> = text
        .split(',')
        .filter_map(|field| field.split_once('='))
        .collect();
    let (ip, port) = (*fields.get("ip")?, fields.get("port")?.parse().ok()?);
    (*fields.get("state")? == "online").then(|| Server::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "# Server\r\nrun_id:f00\r\n# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
        slave0:ip=10.0.0.2,port=6379,state=online,offset=1200,lag=0\r\n\
        slave1:ip=10.0.0.3,port=6380,state=wait_bgsave,offset=0,lag=0\r\n\
        slave2:ip=replica.example,port=6379,state=online,offset=1100,lag=1\r\n\
        master_replid:aa\r\nmaster_replid2:00\r\nmaster_repl_offset:1234\r\nsecond_repl_offset:-1\r\n";
    const REPLICA: &str = "# Server\r\nrun_id:ba2\r\n# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n\
        master_link_status:up\r\nslave_read_repl_offset:1300\r\nslave_repl_offset:1200\r\nconnected_slaves:0\r\n\
        master_replid:aa\r\nmaster_repl_offset:1300\r\n";

    fn offset(history: &str, bytes: u64) -> Offset {
        let history = history.to_owned();
        Offset { history, bytes }
    }

    #[test]
    fn a_primary_names_its_replicas_and_a_replica_its_offset() {
        let primary = Info::parse(PRIMARY).unwrap();
        assert!(primary.is_primary);
        assert_eq!(primary.process, "f00");
        assert_eq!(primary.offset, offset("aa", 1234));
        let replicas = [("10.0.0.2", 6379), ("replica.example", 6379)];
        assert_eq!(
            primary.replicas,
            replicas.map(|(host, port)| Server::new(host, port))
        );
        let replica = Info::parse(REPLICA).unwrap();
        assert!(!replica.is_primary);
        assert_eq!(replica.offset, offset("aa", 1200));
        assert_eq!(replica.replicas, []);
        assert_eq!(Info::parse("role:sentinel"), None);
    }

    #[test]
    fn a_replica_is_as_fresh_as_the_last_mark_it_has_reached() {
        let mut marks = Marks::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(marks.reached(&offset("aa", 9)), None);
        marks.put(at(1), offset("aa", 10));
        marks.put(at(2), offset("aa", 10));
        marks.put(at(3), offset("aa", 30));
        assert_eq!(marks.reached(&offset("aa", 9)), None);
        assert_eq!(marks.reached(&offset("aa", 10)), Some(at(2)));
        assert_eq!(marks.reached(&offset("aa", 29)), Some(at(2)));
        assert_eq!(marks.reached(&offset("aa", 31)), Some(at(3)));
        // Another primary has taken over: its offsets are of another history.
        marks.put(at(4), offset("bb", 20));
        assert_eq!(marks.reached(&offset("bb", 25)), Some(at(4)));
        assert_eq!(marks.reached(&offset("aa", 31)), Some(at(3)));
        assert_eq!(marks.reached(&offset("cc", 99)), None);
    }
}
