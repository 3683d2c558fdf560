//! Slots of a cluster that move to other primaries.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio_util::task::AbortOnDropHandle;

use super::random::Random;
use super::redis::{self, RedisServer, Reply};
use super::servers::RedisServers;

/// How many keys of a slot are moved at a time.
const KEYS_AT_A_TIME: &str = "10";
/// The pause between them, in which the slot lies on both nodes.
const MOVING_PAUSE: Duration = Duration::from_millis(1);
/// How often they are told at the most who has a slot.
const AGREED_WITHIN: usize = 5_000;
/// The pause between two moves. It may be the same slot again: calls need the time to find it.
const REST: Duration = Duration::from_millis(40);

/// Moves slots between some primaries of a cluster, while all else goes on.
pub struct Mover {
    primaries: Vec<Primary>,
}

/// One of the nodes.
pub struct Primary {
    socket: PathBuf,
    id: String,
    port: String,
}

impl RedisServers {
    /// What moves slots between these primaries.
    pub async fn mover(&self, primaries: &[usize]) -> Mover {
        let of_node = async |node: &RedisServer| Primary {
            socket: node.socket(),
            id: node.run(&[b"CLUSTER", b"MYID"]).await.text(),
            port: node.run(&[b"CONFIG", b"GET", b"port"]).await.list()[1].text(),
        };
        let of_nodes = primaries
            .iter()
            .map(|primary| of_node(&self.nodes[*primary]));
        Mover {
            primaries: join_all(of_nodes).await,
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
        let primary = &self.primaries[random.below(self.primaries.len())];
        let keys = redis::run(&primary.socket, &[b"KEYS", b"st:*"]).await;
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
    async fn tell(&self, key: &[u8], slot: &str, to: &Primary) -> bool {
        to.set_slot(slot, "NODE", to).await;
        let mut do_agree = true;
        for primary in &self.primaries {
            primary.set_slot(slot, "NODE", to).await;
            do_agree &= match redis::run(&primary.socket, &[b"EXISTS", key]).await {
                Reply::Error(text) => text.ends_with(&format!(":{}", to.port)),
                _ => primary.id == to.id,
            };
        }
        do_agree
    }

    /// Only begins to: no key is moved yet.
    pub async fn begin(&self, key: &[u8]) -> Option<(String, &Primary, &Primary)> {
        let slot = redis::run(&self.primaries[0].socket, &[b"CLUSTER", b"KEYSLOT", key]).await;
        let Reply::Integer(slot) = slot else {
            panic!("no slot: {slot:?}")
        };
        let slot = slot.to_string();
        for (index, from) in self.primaries.iter().enumerate() {
            let to = &self.primaries[(index + 1) % self.primaries.len()];
            if from.set_slot(&slot, "MIGRATING", to).await {
                assert!(to.set_slot(&slot, "IMPORTING", from).await);
                return Some((slot, from, to));
            }
        }
        None
    }
}

impl Primary {
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
