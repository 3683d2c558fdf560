//! Compares the total of a large standing with the sum of its scores, while the service runs.

use std::time::{Duration, Instant};

use super::Comparer;
use crate::moves;
use crate::redis::connection::Connection;
use crate::redis::dispatch::Store;
use crate::redis::failure::Failure;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, Value, keys};

/// How often this is tried before the total counts as changing.
const TOTAL_ATTEMPTS: usize = 3;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// The pause between two checks whether it is established.
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);

/// A total compared with the sum of its scores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Total {
    Agrees,
    Differs {
        stored: i128,
        sum: i128,
        /// Whether the sum was stored.
        is_repaired: bool,
    },
    /// It changed during each attempt.
    Changing,
}

impl Comparer<'_> {
    /// Compares the total of a large standing with the sum of its scores. Redis reports whether anything has changed meanwhile
    /// (WATCH); then it starts over, a few times.
    pub async fn total(self, zset: &str) -> Result<Total, StoreError> {
        let all: Vec<String> = keys::of_sorted_set(zset.to_owned(), self.shard.layout()).collect();
        let watch = Watch::connect(self.store, all).await?;
        for _ in 0..TOTAL_ATTEMPTS {
            let total = add_up(self, zset, &watch).await?;
            if total != Total::Changing {
                return Ok(total);
            }
        }
        Ok(Total::Changing)
    }
}

async fn add_up(comparer: Comparer<'_>, zset: &str, watch: &Watch) -> Result<Total, StoreError> {
    let Comparer { store, shard, .. } = comparer;
    let total = keys::part(zset, Kind::Total);
    let id = watch.begin().await?;
    let (mut sum, mut count, mut cursor) = (0_i128, 0_u64, "0".to_owned());
    loop {
        let (next, members) = moves::store::scan_members(store, shard, zset, &cursor).await?;
        count += members.len() as u64;
        sum += members
            .iter()
            .map(|member| i128::from(member.score.unwrap_or(0)))
            .sum::<i128>();
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    let (size, key) = if shard.layout().hashed {
        ("HLEN", keys::part(zset, Kind::Members))
    } else {
        ("ZCARD", zset.to_owned())
    };
    let size: u64 = store.command(size, [key]).await?;
    let fields = [&total, "high", "low"];
    let stored: (Option<i64>, Option<i64>) = store.command("HMGET", fields).await?;
    let stored = whole_of(stored.0.unwrap_or(0), stored.1.unwrap_or(0));
    let (high, low) = (sum.div_euclid(LOW), sum.rem_euclid(LOW));
    let fields = ["high", &high.to_string(), "low", &low.to_string()].map(str::to_owned);
    let write = [vec![total], fields.to_vec()].concat();
    // A walk may see a member twice, but misses none.
    let is_exact = count == size;
    let write = (comparer.repair.writes() && is_exact && stored != sum).then_some(("HSET", write));
    let is_repaired = write.is_some();
    if !watch.end(id, write).await? || !is_exact {
        return Ok(Total::Changing);
    }
    Ok(if stored == sum {
        Total::Agrees
    } else {
        Total::Differs {
            stored,
            sum,
            is_repaired,
        }
    })
}

/// The value of one unit of `high` (`scripts/lib/standing.lua`).
const LOW: i128 = 1 << 32;

/// The number stored in these two parts.
pub fn whole_of(high: i64, low: i64) -> i128 {
    i128::from(high) * LOW + i128::from(low)
}

/// Detects changes of some keys. This is tied to a connection, so it has its own.
struct Watch {
    connection: Connection,
    keys: Vec<String>,
}

impl Watch {
    async fn connect(store: &Store, keys: Vec<String>) -> Result<Self, StoreError> {
        let connection = store.connect_to(&keys[0])?;
        let begun = Instant::now();
        while let Err(error) = connection.check() {
            if begun.elapsed() > CONNECT_TIME_MAX {
                return Err(error);
            }
            tokio::time::sleep(CONNECT_INTERVAL).await;
        }
        Ok(Self { connection, keys })
    }

    /// Watches from now on. Returns the id of the connection: a new connection has another id, and watches nothing.
    async fn begin(&self) -> Result<i64, StoreError> {
        let id = client_id(&self.connection).await?;
        let _: Value = self.connection.command("WATCH", self.keys.clone()).await?;
        Ok(id)
    }

    /// Runs a command if nothing has changed since the beginning. Returns whether it did.
    async fn end(
        &self,
        id: i64,
        write: Option<(&'static str, Vec<String>)>,
    ) -> Result<bool, StoreError> {
        if client_id(&self.connection).await? != id {
            return Ok(false);
        }
        let command = async |name, args| -> Result<Value, Failure> {
            self.connection.command(name, args).await
        };
        command("MULTI", Vec::new()).await?;
        if let Some((name, args)) = write {
            command(name, args).await?;
        }
        let done = command("EXEC", Vec::new()).await?;
        Ok(!done.is_null() && client_id(&self.connection).await? == id)
    }
}

async fn client_id(connection: &Connection) -> Result<i64, Failure> {
    connection.command("CLIENT", vec!["ID".into()]).await
}
