//! Accepts connections: how many there may be, and what happens to those beyond.
//!
//! Connections are a supply (`supply.rs`), counted by address. If none is left for an address, the oldest connection
//! without a request of the address with the most connections is closed, if that has more.
//!
//! Beyond the bound the listener accepts a few more connections. On these the service answers only `/livez`, `/readyz` and
//! `/metrics`, and everything else with 503. When these are used up too, the oldest one that has not sent its request yet
//! makes room for the newest. So a client that sends its request at once gets an answer, however many others only hold
//! connections.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use metrics::{Counter, counter, gauge};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::connection::{Activity, Answering, Place, Stopping, Times, drive};
use super::proxies::TrustedProxies;
use super::supply::{Supply, Taker, Takers};
use crate::domain::quota::Network;

/// Connections beyond the bound.
pub const RESERVE: usize = 32;
/// The shortest and the longest pause after a connection could not be accepted; pauses double.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many there may be; there are [`RESERVE`] in addition.
    pub connections: usize,
    /// How long they may take.
    pub times: Times,
}

#[derive(Clone, Debug)]
pub struct Routers {
    /// On connections within the bound.
    pub all: Router,
    /// On connections beyond the bound.
    pub reserve: Router,
}

/// A connection that can be closed.
struct Open {
    activity: Arc<Activity>,
    task: AbortHandle,
    /// `None` beyond the bound.
    place: Option<Arc<Place>>,
}

struct Connections {
    routers: Routers,
    times: Times,
    stopping: Arc<Stopping>,
    /// Each ends with the key of its connection, if that is a direct one.
    tasks: JoinSet<Option<(Network, u64)>>,
    /// Counts those beyond the bound.
    refused: Counter,
    supply: Supply,
    proxies: TrustedProxies,
    /// Those beyond the bound, oldest first.
    reserved: VecDeque<Open>,
    /// Those of each address, oldest first; except those of trusted proxies, which reuse theirs for other clients.
    direct: HashMap<Network, BTreeMap<u64, Open>>,
    /// How many direct ones there have been.
    count: u64,
}

/// Serves until `stop`, and then until the accepted requests have been answered. Idle connections are closed at once.
/// Dropping this future ends all connections.
pub async fn serve(
    listener: TcpListener,
    routers: Routers,
    (limits, proxies): (Limits, TrustedProxies),
    stop: CancellationToken,
) {
    let mut connections = Connections::new(routers, limits, proxies);
    let mut pause = PAUSE_MIN;
    let size = gauge!("standings_http_connections");
    let count = |tasks: &JoinSet<_>| size.set(u32::try_from(tasks.len()).unwrap_or(u32::MAX));
    loop {
        count(&connections.tasks);
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = connections.tasks.join_next(), if !connections.tasks.is_empty() => {
                match ended {
                    Ok(Some(key)) => drop(connections.forget(key)),
                    Err(error) if error.is_panic() => connections.forget_ended(),
                    Ok(None) | Err(_) => {}
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_the_client(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                let slept = tokio::time::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
                stop.run_until_cancelled(slept).await;
                continue;
            }
        };
        pause = PAUSE_MIN;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        connections.open(stream, peer.ip());
    }
    connections.stopping.begin();
    drop(listener);
    while connections.tasks.join_next().await.is_some() {
        count(&connections.tasks);
    }
}

impl Connections {
    fn new(routers: Routers, limits: Limits, proxies: TrustedProxies) -> Self {
        Self {
            routers,
            times: limits.times,
            stopping: Arc::default(),
            tasks: JoinSet::new(),
            refused: counter!("standings_http_connections_refused_total"),
            supply: Supply::new(limits.connections),
            proxies,
            reserved: VecDeque::with_capacity(RESERVE),
            direct: HashMap::new(),
            count: 0,
        }
    }

    /// Begins to serve a connection from this address.
    fn open(&mut self, stream: TcpStream, ip: IpAddr) {
        let place = self.place(ip).map(Arc::new);
        if place.is_none() {
            self.refused.increment(1);
        }
        let activity = Arc::new(Activity::default());
        let answering = Answering {
            routers: self.routers.clone(),
            place: place.clone(),
        };
        let (times, stopping) = (self.times, Arc::clone(&self.stopping));
        let shared = Arc::clone(&activity);
        let key = self.next(ip);
        let task = self.tasks.spawn(async move {
            drive(stream, answering, shared, times, stopping).await;
            key
        });
        let open = Open {
            activity,
            task,
            place,
        };
        self.add(key, open);
    }

    /// A place for a connection from this address, if one is free or can be freed.
    fn place(&mut self, ip: IpAddr) -> Option<Place> {
        if self.proxies.has(ip.to_canonical()) {
            // Its first request says which client it counts for.
            let taken = self.supply.try_take(&Takers::default(), 1)?;
            return Some(Place::new(taken, Some(self.proxies.clone())));
        }
        let address = Network::from(ip);
        let by = Takers::one(Taker::Address(address));
        loop {
            if let Some(taken) = self.supply.try_take(&by, 1) {
                return Some(Place::new(taken, None));
            }
            if !self.close_one_for(address) {
                return None;
            }
        }
    }

    /// Closes the oldest idle connection of the address that has the most, if that is more than this address has.
    fn close_one_for(&mut self, address: Network) -> bool {
        let own = self.direct.get(&address).map_or(0, BTreeMap::len);
        let Some((_, key)) = self
            .direct
            .iter()
            .filter(|(_, all)| all.len() > own + 1)
            .filter_map(|(address, all)| {
                let oldest = all.iter().find(|(_, one)| !one.activity.is_busy());
                oldest.map(|(number, _)| (all.len(), (*address, *number)))
            })
            .max_by_key(|(len, _)| *len)
        else {
            return false;
        };
        if let Some(open) = self.forget(key)
            && let Some(place) = open.place
        {
            place.give_back();
            open.task.abort();
        }
        true
    }

    /// The key of the next connection, if that is a direct one.
    fn next(&mut self, ip: IpAddr) -> Option<(Network, u64)> {
        self.count += 1;
        let is_direct = !self.proxies.has(ip.to_canonical());
        is_direct.then(|| (ip.into(), self.count))
    }

    fn add(&mut self, key: Option<(Network, u64)>, open: Open) {
        if open.place.is_none() {
            self.make_room();
            self.reserved.push_back(open);
        } else if let Some((address, number)) = key {
            let all = self.direct.entry(address).or_default();
            all.insert(number, open);
        }
    }

    fn forget(&mut self, (address, number): (Network, u64)) -> Option<Open> {
        let all = self.direct.get_mut(&address)?;
        let open = all.remove(&number);
        if all.is_empty() {
            self.direct.remove(&address);
        }
        open
    }

    /// Forgets all connections whose tasks have ended, if it is not known which one has.
    fn forget_ended(&mut self) {
        self.direct.retain(|_, all| {
            all.retain(|_, one| !one.task.is_finished());
            !all.is_empty()
        });
    }

    /// Closes the oldest connection of the reserve that has no request in flight, if there is no room for another one.
    fn make_room(&mut self) {
        let reserved = &mut self.reserved;
        reserved.retain(|one| !one.task.is_finished());
        if reserved.len() < RESERVE {
            return;
        }
        let oldest = reserved.iter().position(|one| !one.activity.is_busy());
        if let Some(one) = reserved.remove(oldest.unwrap_or(0)) {
            one.task.abort();
        }
    }
}

/// Whether accepting failed because the client has already disconnected.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
