//! Announces this instance to others, and lists the others.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use crate::core::{Engine, Error};
use crate::domain::instance::{Instance, Part};
use crate::domain::time::Timestamp;
use crate::redis::stored::{read_json, to_json};
use crate::redis::{Store, StoreError, keys, random};

/// The number of random bytes in the id of an instance.
const ID_BYTES: usize = 8;
/// The longest that an instance takes to withdraw.
const WITHDRAWAL_MAX: Duration = Duration::from_secs(1);
/// Where Linux has the name of the machine.
const HOST_FILE: &str = "/proc/sys/kernel/hostname";

/// What this instance announces about itself, except for what changes.
#[derive(Debug, Default)]
pub struct Presence {
    /// What it does.
    pub part: Part,
    /// Its id, and its first announcement.
    told: OnceLock<(String, Instance)>,
}

impl Presence {
    /// For an instance that does this.
    pub fn new(part: Part) -> Self {
        let told = OnceLock::new();
        Self { part, told }
    }

    fn told(&self, now: Timestamp) -> Result<&(String, Instance), Error> {
        if let Some(told) = self.told.get() {
            return Ok(told);
        }
        let id = random::hexadecimal::<ID_BYTES>("")?;
        let host = std::fs::read_to_string(HOST_FILE)
            .ok()
            .map(|host| host.trim().to_owned());
        let instance = Instance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: host.filter(|host| !host.is_empty()),
            part: self.part,
            started_at: now,
            seen_at: now,
            fault_count: 0,
        };
        Ok(self.told.get_or_init(|| (id, instance)))
    }
}

impl Engine {
    /// Announces this instance, and forgets those that have been silent for long.
    pub(crate) async fn tell_presence(&self) -> Result<(), Error> {
        let now = self.clock.now();
        let (id, first) = self.presence.told(now)?;
        let instance = Instance {
            seen_at: now,
            fault_count: self.faults.list(0).1,
            ..first.clone()
        };
        let told = [keys::INSTANCES, id, &to_json(&instance)?];
        let () = self.store.command("HSET", told).await?;
        for (id, other) in all(&self.store).await? {
            if !other.is_remembered(now) {
                forget(&self.store, &id).await?;
            }
        }
        Ok(())
    }

    /// Tells others that this instance stops, unless that takes too long.
    pub(crate) async fn withdraw(&self) {
        if let Some((id, _)) = self.presence.told.get() {
            let forgotten = forget(&self.store, id);
            // After a timeout others forget it after a while.
            drop(tokio::time::timeout(WITHDRAWAL_MAX, forgotten).await);
        }
    }
}

/// All registered instances, by their ids. Those that this release can't read are left out.
pub async fn all(store: &Store) -> Result<BTreeMap<String, Instance>, StoreError> {
    let told: BTreeMap<String, String> = store.command("HGETALL", [keys::INSTANCES]).await?;
    Ok(told
        .into_iter()
        .filter_map(|(id, json)| Some((id, read_json("an instance", &json).ok()?)))
        .collect())
}

async fn forget(store: &Store, id: &str) -> Result<(), StoreError> {
    store.command("HDEL", [keys::INSTANCES, id]).await
}
