//! Reads another program's sorted sets and hashes from its Redis, in short steps that hold up nobody. It writes nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::address::Address;
use super::connection::Access;
use super::dispatch::{Store, slot_of};
use super::reply::info_fields;
use super::{StoreError, keys};
use crate::runtime::timeouts::TimeoutFactor;

/// How long the first connection may take.
const CONTACT_TIME_MAX: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const CONTACT_INTERVAL: Duration = Duration::from_millis(50);
/// About how many elements Redis looks at in one step of a scan.
const SCAN_COUNT: &str = "1000";
/// The cursor with which a scan begins and ends.
const CURSOR_OUTSIDE: &str = "0";

/// The Redis of another program.
#[derive(Debug)]
pub struct Source(Store);

/// What one step of a scan returns: the next cursor, and elements with their values, one after the other.
type ScanStep = (String, Vec<Bytes>);

impl Source {
    /// Connects.
    ///
    /// # Errors
    /// Those of the address, and why the server can't be reached.
    pub async fn connect(address: &Address, password: Option<&str>) -> Result<Self, StoreError> {
        let mut config = address.config()?;
        if config.password.is_none() {
            config.password = password.map(ToOwned::to_owned);
        }
        let timeouts = TimeoutFactor::default();
        let source = Self(Store::with_access(&Access { config, timeouts })?);
        let begun = Instant::now();
        while let Err(error) = source.process_of(keys::SEQUENCE).await {
            let passes = matches!(error, StoreError::Unavailable(_));
            if !passes || begun.elapsed() > CONTACT_TIME_MAX {
                return Err(error);
            }
            tokio::time::sleep(CONTACT_INTERVAL).await;
        }
        Ok(source)
    }

    /// The id of the server's process that has a key: the cursor of a scan means nothing to another one.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn process_of(&self, key: &str) -> Result<String, StoreError> {
        let about = vec!["server".to_owned()];
        let info: String = self.0.command_at(slot_of(key), "INFO", about).await?;
        Ok(process_in(&info))
    }

    /// The names of the sorted sets that match a pattern of `SCAN`, in order.
    ///
    /// # Errors
    /// Those of Redis; and if another process has taken over, so that names may be missing.
    pub async fn sorted_sets(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        let processes = self.processes().await?;
        let mut names = Vec::new();
        for node in self.0.primaries() {
            let mut cursor = CURSOR_OUTSIDE.to_owned();
            loop {
                let args = [
                    &*cursor, "MATCH", pattern, "COUNT", SCAN_COUNT, "TYPE", "zset",
                ];
                let args = args.map(str::to_owned).to_vec();
                let found: Vec<Bytes>;
                (cursor, found) = node.readers.command("SCAN", args).await?;
                let found = found.iter().map(|name| String::from_utf8_lossy(name));
                names.extend(found.map(Cow::into_owned));
                if cursor == CURSOR_OUTSIDE {
                    break;
                }
            }
        }
        // A scan may return a name twice.
        names.sort_unstable();
        names.dedup();
        if self.processes().await? == processes {
            Ok(names)
        } else {
            Err(taken_over())
        }
    }

    /// The ids of all processes.
    async fn processes(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut ids = BTreeSet::new();
        for node in self.0.primaries() {
            let info: String = node.readers.command("INFO", vec!["server".into()]).await?;
            ids.insert(process_in(&info));
        }
        Ok(ids)
    }

    /// Passes on all members of a sorted set, with their scores. One may come twice, and one that is added or removed
    /// meanwhile may be missing.
    ///
    /// # Errors
    /// Those of Redis; and if another process has taken over, so that members may be missing.
    pub async fn members(
        &self,
        key: &str,
        mut each: impl FnMut(&[u8], f64),
    ) -> Result<(), StoreError> {
        let process = self.process_of(key).await?;
        let mut cursor = CURSOR_OUTSIDE.to_owned();
        loop {
            let (next, found): ScanStep = self
                .0
                .command("ZSCAN", [key, &cursor, "COUNT", SCAN_COUNT])
                .await?;
            for pair in found.chunks_exact(2) {
                each(&pair[0], str::from_utf8(&pair[1]).map_or(f64::NAN, score));
            }
            if next == CURSOR_OUTSIDE {
                break;
            }
            cursor = next;
        }
        if self.process_of(key).await? == process {
            Ok(())
        } else {
            Err(taken_over())
        }
    }

    /// The scores of some members of a sorted set; `None` for those that it does not have.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn scores<'a>(
        &self,
        key: &'a str,
        members: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Option<f64>>, StoreError> {
        let args = std::iter::once(key).chain(members);
        let found: Vec<Option<String>> = self.0.command("ZMSCORE", args).await?;
        Ok(found
            .iter()
            .map(|text| text.as_deref().map(score))
            .collect())
    }

    /// The values of some fields of a hash; `None` for those that it does not have.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn hash_values<'a>(
        &self,
        key: &'a str,
        fields: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let args = std::iter::once(key).chain(fields);
        self.0.command("HMGET", args).await
    }
}

/// The id of a process in what it says of itself.
fn process_in(info: &str) -> String {
    let id = info_fields(info).get("run_id").copied();
    id.unwrap_or_default().to_owned()
}

fn taken_over() -> StoreError {
    StoreError::Unavailable("another process has taken over while its data was read".into())
}

/// A score as Redis prints it.
fn score(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}
