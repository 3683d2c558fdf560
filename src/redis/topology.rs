//! The map from slots to servers.
//!
//! Without a cluster one server has all slots. In a cluster all nodes are asked, once a second and when a call finds that a
//! slot is elsewhere. A node that claims a slot is believed; for other slots the majority counts. The client library could
//! follow redirections itself, but then one dead node would hold up the calls to all others, writes in flight might be sent
//! twice, and replies might be mixed up after `ASK`.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use fred::types::Value;
use fred::types::cluster::ClusterRouting;
use fred::types::config::Server;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use super::connection::Access;
use super::node::Node;
use crate::runtime::join::join_all;
use crate::runtime::supervise::restarted;
use crate::runtime::throttle;

/// How often the nodes of a cluster are asked for their slots.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest pause between two such rounds.
const ASK_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The longest wait for the slots of one node.
const ASK_TIMEOUT: Duration = Duration::from_millis(300);
const LAST_SLOT: u16 = 16_383;

/// The servers and their slots.
#[derive(Debug)]
pub(crate) struct Topology {
    /// How to reach them.
    pub(crate) access: Access,
    map: Arc<ArcSwap<Map>>,
    is_outdated: Arc<Notify>,
    _following: Option<AbortOnDropHandle<Infallible>>,
}

/// What this instance knows of the servers.
#[derive(Debug)]
struct Map {
    nodes: BTreeMap<Server, Arc<Node>>,
    slots: Vec<Range>,
}

/// Consecutive slots on one server.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Range {
    first: u16,
    last: u16,
    server: Server,
}

impl Topology {
    /// Starts connecting to the configured servers.
    pub(crate) fn connect(access: &Access) -> Result<Self, StoreError> {
        let is_cluster = access.config.server.is_clustered();
        let map = if is_cluster {
            Map::of_seeds(access)?
        } else {
            Map::of_one(access)?
        };
        let map = Arc::new(ArcSwap::from_pointee(map));
        let is_outdated = Arc::new(Notify::new());
        let following = is_cluster.then(|| {
            let (access, map) = (access.clone(), Arc::clone(&map));
            let is_outdated = Arc::clone(&is_outdated);
            let following = restarted("topology", move || {
                follow(access.clone(), Arc::clone(&map), Arc::clone(&is_outdated))
            });
            AbortOnDropHandle::new(tokio::spawn(following))
        });
        Ok(Self {
            access: access.clone(),
            map,
            is_outdated,
            _following: following,
        })
    }

    pub(crate) fn node(&self, slot: u16) -> Result<Arc<Node>, StoreError> {
        let map = self.map.load();
        let server = map.server(slot);
        let node = server.and_then(|server| map.nodes.get(server));
        node.cloned()
            .ok_or_else(|| StoreError::Unavailable(format!("no server has slot {slot}")))
    }

    pub(crate) fn server(&self, slot: u16) -> Option<Server> {
        self.map.load().server(slot).cloned()
    }

    /// The servers that have slots.
    pub(crate) fn primaries(&self) -> BTreeMap<Server, Arc<Node>> {
        let map = self.map.load();
        map.slots
            .iter()
            .filter_map(|range| {
                let node = map.nodes.get(&range.server)?;
                Some((range.server.clone(), Arc::clone(node)))
            })
            .collect()
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.access.config.server.is_clustered()
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map.load().nodes.values().cloned().collect()
    }

    /// Whether the server of every slot is known.
    pub(crate) fn is_complete(&self) -> bool {
        let map = self.map.load();
        let count = |range: &Range| u32::from(range.last - range.first) + 1;
        map.slots.iter().map(count).sum::<u32>() == u32::from(LAST_SLOT) + 1
    }

    /// Reports that a slot was not where the map says.
    pub(crate) fn is_outdated(&self) {
        self.is_outdated.notify_one();
    }
}

impl Map {
    fn of_one(access: &Access) -> Result<Self, StoreError> {
        let server = Server::new("", 0);
        Ok(Self {
            slots: vec![Range {
                first: 0,
                last: LAST_SLOT,
                server: server.clone(),
            }],
            nodes: BTreeMap::from([(server, Arc::new(Node::connect(access)?))]),
        })
    }

    /// A map of the configured servers; for a cluster without any slots yet.
    fn of_seeds(access: &Access) -> Result<Self, StoreError> {
        let nodes = access
            .config
            .server
            .hosts()
            .into_iter()
            .map(|server| Ok((server.clone(), connect(access, &server)?)));
        Ok(Self {
            nodes: nodes.collect::<Result<_, StoreError>>()?,
            slots: Vec::new(),
        })
    }

    fn server(&self, slot: u16) -> Option<&Server> {
        owner(&self.slots, slot)
    }

    /// Asks all nodes for their slots; `None` if none answers.
    async fn ask(&self) -> Option<Vec<Range>> {
        let asked = self.nodes.iter().map(async |(server, node)| {
            node.check_connected().ok()?;
            let reply = node
                .readers
                .command::<Value>("CLUSTER", vec!["SLOTS".into()]);
            let reply = tokio::time::timeout(ASK_TIMEOUT, reply).await.ok()?.ok()?;
            Some((server, read(reply, server)?))
        });
        let said: Vec<View> = join_all(asked).await.into_iter().flatten().collect();
        (!said.is_empty()).then(|| agree(&said))
    }

    /// The map with other slots, and the nodes that these need.
    fn with(&self, access: &Access, slots: Vec<Range>) -> Result<Self, StoreError> {
        let servers: BTreeSet<&Server> = slots.iter().map(|range| &range.server).collect();
        let nodes = servers.into_iter().map(|server| {
            let known = self.nodes.get(server).cloned();
            let node = known.map_or_else(|| connect(access, server), Ok)?;
            Ok((server.clone(), node))
        });
        Ok(Self {
            nodes: nodes.collect::<Result<_, StoreError>>()?,
            slots,
        })
    }
}

/// The slots as one node reports them, in order.
type View<'a> = (&'a Server, Vec<Range>);

fn owner(slots: &[Range], slot: u16) -> Option<&Server> {
    let behind = slots.partition_point(|range| range.first <= slot);
    let range = slots.get(behind.checked_sub(1)?)?;
    (slot <= range.last).then_some(&range.server)
}

/// The slots of all servers, from the reports of all nodes.
fn agree(said: &[View]) -> Vec<Range> {
    let ends: BTreeSet<u16> = said
        .iter()
        .flat_map(|(_, ranges)| ranges)
        .flat_map(|range| [range.first, range.last + 1])
        .collect();
    let mut agreed: Vec<Range> = Vec::new();
    for (&first, &behind) in ends.iter().zip(ends.iter().skip(1)) {
        let Some(server) = most_credible(said, first).cloned() else {
            continue;
        };
        let last = behind - 1;
        match agreed.last_mut() {
            Some(range) if range.last + 1 == first && range.server == server => range.last = last,
            _ => agreed.push(Range {
                first,
                last,
                server,
            }),
        }
    }
    agreed
}

/// The owner of a slot: the server that claims it, or else the one that most servers name.
fn most_credible<'a>(said: &'a [View], slot: u16) -> Option<&'a Server> {
    let named = said
        .iter()
        .filter_map(|(from, ranges)| Some((*from, owner(ranges, slot)?)));
    let mut own = named.clone().filter(|(from, server)| from == server);
    if let (Some((_, server)), None) = (own.next(), own.next()) {
        return Some(server);
    }
    let servers = named.map(|(_, server)| server);
    let votes = |server: &&Server| servers.clone().filter(|other| other == server).count();
    servers.clone().max_by_key(votes)
}

/// Parses a node's slots; a node may omit its own host.
fn read(reply: Value, from: &Server) -> Option<Vec<Range>> {
    let routing = ClusterRouting::from_cluster_slots(reply, from.host.clone()).ok()?;
    let ranges: Vec<Range> = routing
        .slots()
        .iter()
        .map(|range| Range {
            first: range.start,
            last: range.end,
            server: Server::new(range.primary.host.clone(), range.primary.port),
        })
        .collect();
    (!ranges.is_empty()).then_some(ranges)
}

fn connect(access: &Access, server: &Server) -> Result<Arc<Node>, StoreError> {
    Ok(Arc::new(Node::connect(&access.to(server))?))
}

/// Keeps a cluster's map up to date.
async fn follow(access: Access, map: Arc<ArcSwap<Map>>, is_outdated: Arc<Notify>) -> Infallible {
    loop {
        let known = map.load_full();
        let next = match known.ask().await {
            Some(slots) if slots == known.slots => None,
            Some(slots) => Some(known.with(&access, slots)),
            None => with_seeds(&access, &known).transpose(),
        };
        match next {
            Some(Ok(next)) => map.store(Arc::new(next)),
            Some(Err(error)) => throttle::say(&format!("topology: {error}"), |more| {
                tracing::warn!(%error, more, "the nodes of the cluster can't be used");
            }),
            None => {}
        }
        tokio::time::sleep(ASK_INTERVAL_MIN).await;
        // Until the first answer there is nothing to work with.
        let pause = if known.slots.is_empty() {
            ASK_INTERVAL_MIN
        } else {
            ASK_INTERVAL
        };
        let _ = tokio::time::timeout(pause, is_outdated.notified()).await;
    }
}

/// The map with the configured servers added if any are missing, for when no other server answers.
fn with_seeds(access: &Access, known: &Map) -> Result<Option<Map>, StoreError> {
    let hosts = access.config.server.hosts();
    if hosts.iter().all(|server| known.nodes.contains_key(server)) {
        return Ok(None);
    }
    let mut nodes = Map::of_seeds(access)?.nodes;
    nodes.extend(known.nodes.clone());
    let slots = known.slots.clone();
    Ok(Some(Map { nodes, slots }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> Server {
        Server::new("node", port)
    }

    fn ranges(of: &[Told]) -> Vec<Range> {
        let range = |(first, last, port): &Told| Range {
            first: *first,
            last: *last,
            server: server(*port),
        };
        of.iter().map(range).collect()
    }

    /// First slot, last slot, port.
    type Told = (u16, u16, u16);

    fn agreed(said: &[(u16, &[Told])]) -> Vec<Range> {
        let servers: Vec<Server> = said.iter().map(|(port, _)| server(*port)).collect();
        let views = said.iter().map(|(_, of)| ranges(of));
        agree(&servers.iter().zip(views).collect::<Vec<View>>())
    }

    #[test]
    fn a_node_is_believed_about_itself_and_the_majority_about_others() {
        let whole = [(0, 99, 1), (100, LAST_SLOT, 2)];
        assert_eq!(agreed(&[(1, &whole), (2, &whole)]), ranges(&whole));
        // Slot 50 has moved to the second server; the first and the third don't know yet.
        let old = [(0, 99, 1), (100, LAST_SLOT, 2)];
        let gone = [(0, 49, 1), (50, 50, 4), (51, 99, 1), (100, LAST_SLOT, 2)];
        let new = [(0, 49, 1), (50, 50, 2), (51, 99, 1), (100, LAST_SLOT, 2)];
        assert_eq!(agreed(&[(1, &gone), (2, &new), (3, &gone)]), ranges(&new));
        // Two claim it: most name the first.
        assert_eq!(agreed(&[(1, &old), (2, &new), (3, &old)]), ranges(&old));
        // The second is down; the others report the new owner of its slots.
        let taken = [(0, 99, 1), (100, LAST_SLOT, 4)];
        assert_eq!(agreed(&[(1, &taken), (3, &taken)]), ranges(&taken));
        // Slots without a server.
        assert_eq!(agreed(&[(1, &[(5, 9, 1)])]), ranges(&[(5, 9, 1)]));
        assert_eq!(owner(&ranges(&[(5, 9, 1)]), 10), None);
    }
}
