//! The API keys in memory by the digests of their secrets: a copy of the stored keys, which must be confirmed regularly.

pub mod store;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use self::store::ApiKey;
use crate::core::board::news::Heard;
use crate::core::board::store::boards;
use crate::core::{Engine, Error};
use crate::domain::access::{Grant, KeyName, Rate, Spent};
use crate::domain::secret::Digest;
use crate::domain::time::Timestamp;
use crate::redis::keys;
use crate::redis::stored::Stored;

/// The prefix of every API key's secret.
pub const SECRET_PREFIX: &str = "st_";
/// How long an API key is accepted without confirmation from Redis.
const CONFIRMED_TIME_MAX: Duration = Duration::from_secs(5);

/// The API keys that an engine holds.
pub fn of(engine: &Engine) -> &Keyring {
    engine.states.get()
}

/// The API keys in memory.
#[derive(Debug, Default)]
pub struct Keyring {
    held: RwLock<HeldKeys>,
    known: Mutex<KnownChanges>,
}

#[derive(Debug, Default)]
struct HeldKeys {
    by_name: HashMap<KeyName, Arc<LiveKey>>,
    /// By the first half of each valid digest.
    by_digest: HashMap<u128, Secret>,
    /// When the keys in memory were last confirmed to match the stored ones.
    confirmed_at: Option<Instant>,
}

/// One secret of an API key.
#[derive(Debug)]
struct Secret {
    digest: Digest,
    /// For a replaced secret: when it expires.
    until: Option<Timestamp>,
    key: Arc<LiveKey>,
}

/// An instance's knowledge of changes.
#[derive(Debug, Default)]
struct KnownChanges {
    heard: Heard,
    /// Whether all keys must be read.
    is_all_unread: bool,
    /// The keys that have changed since they were read.
    unread: BTreeSet<KeyName>,
}

/// An API key in memory.
#[derive(Debug)]
pub struct LiveKey {
    pub name: KeyName,
    stored: ApiKey,
    limiter: Option<Arc<Limiter>>,
    /// When it was last used here, in milliseconds since the epoch; 0 for never.
    used_ms: Arc<AtomicI64>,
    /// Whether it was used since its use was last stored in Redis.
    is_used: AtomicBool,
}

type Limiter = DefaultDirectRateLimiter<StateInformationMiddleware>;

/// Why a secret is not accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unfit {
    /// No API key has it.
    Unknown,
    /// Its API key has expired.
    Expired,
    /// The last contact with Redis was too long ago to decide.
    Unconfirmed,
}

impl LiveKey {
    fn new(name: KeyName, stored: ApiKey, before: Option<&Self>) -> Self {
        let same = before.filter(|before| before.stored.grant.rate == stored.grant.rate);
        let limiter = match same {
            Some(before) => before.limiter.clone(),
            None => stored.grant.rate.and_then(limiter),
        };
        Self {
            name,
            stored,
            limiter,
            used_ms: before.map_or_else(Arc::default, |before| Arc::clone(&before.used_ms)),
            is_used: AtomicBool::new(before.is_some_and(|key| key.is_used.load(Ordering::Relaxed))),
        }
    }

    /// What it allows.
    pub fn grant(&self) -> &Grant {
        &self.stored.grant
    }

    /// The digests of its secrets, with the expiry of each.
    fn secrets(&self) -> impl Iterator<Item = (Digest, Option<Timestamp>)> {
        let previous = self.stored.previous.iter();
        previous
            .map(|previous| (previous.digest, Some(previous.until)))
            .chain([(self.stored.digest, None)])
    }

    /// Counts a request; `None` if the key has no rate limit.
    pub fn spend(&self) -> Option<Spent> {
        let (rate, limiter) = (self.stored.grant.rate?, self.limiter.as_ref()?);
        Some(match limiter.check() {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let used = rate.count.get().saturating_sub(remaining);
                Spent {
                    rate,
                    remaining: Some(remaining),
                    wait: state.quota().replenish_interval().saturating_mul(used),
                }
            }
            Err(over) => Spent {
                rate,
                remaining: None,
                wait: over.wait_time_from(DefaultClock::default().now()),
            },
        })
    }

    /// When it was last used on this instance.
    pub fn last_used(&self) -> Option<Timestamp> {
        let used_ms = self.used_ms.load(Ordering::Relaxed);
        (used_ms > 0).then(|| Timestamp::from_ms_clamped(used_ms))
    }

    /// The key, for a caller whose secret is valid until this instant.
    fn open(
        self: &Arc<Self>,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Arc<Self>, Unfit> {
        if until.is_some_and(|until| until <= now) {
            return Err(Unfit::Unknown);
        }
        if self.stored.grant.has_expired(now) {
            return Err(Unfit::Expired);
        }
        self.used_ms.fetch_max(now.ms(), Ordering::Relaxed);
        self.is_used.store(true, Ordering::Relaxed);
        Ok(Arc::clone(self))
    }
}

/// A limiter that allows this many requests per interval, including all at once.
fn limiter(rate: Rate) -> Option<Arc<Limiter>> {
    let stretch = Duration::from_secs(rate.seconds.into());
    let quota = Quota::with_period(stretch / rate.count.get())?.allow_burst(rate.count);
    Some(Arc::new(RateLimiter::direct(quota).with_middleware()))
}

impl HeldKeys {
    /// Checks that the keys in memory were confirmed recently.
    fn check_confirmed(&self) -> Result<(), Unfit> {
        let confirmed = self.confirmed_at.map(|at| at.elapsed());
        if confirmed.is_none_or(|age| age > CONFIRMED_TIME_MAX) {
            return Err(Unfit::Unconfirmed);
        }
        Ok(())
    }

    fn put(&mut self, name: &KeyName, stored: Option<ApiKey>) {
        let before = self.by_name.remove(name);
        for (digest, _) in before.iter().flat_map(|before| before.secrets()) {
            self.by_digest.remove(&digest.half());
        }
        let Some(stored) = stored else {
            return;
        };
        let key = Arc::new(LiveKey::new(name.clone(), stored, before.as_deref()));
        for (digest, until) in key.secrets() {
            let key = Arc::clone(&key);
            let secret = Secret { digest, until, key };
            self.by_digest.insert(digest.half(), secret);
        }
        self.by_name.insert(name.clone(), key);
    }
}

impl Keyring {
    /// The API key whose secret has this digest. Takes the same time however many keys there are.
    pub fn find(&self, digest: &Digest, now: Timestamp) -> Result<Arc<LiveKey>, Unfit> {
        let held = self.held.read();
        held.check_confirmed()?;
        let found = held.by_digest.get(&digest.half());
        let found = found
            .filter(|found| found.digest == *digest)
            .ok_or(Unfit::Unknown)?;
        found.key.open(found.until, now)
    }

    /// The API key with a name, if one of its valid secrets has the digest that is meant; and that digest.
    pub fn find_named(
        &self,
        name: &KeyName,
        is_meant: impl Fn(&Digest) -> bool,
        now: Timestamp,
    ) -> Result<(Arc<LiveKey>, Digest), Unfit> {
        let held = self.held.read();
        held.check_confirmed()?;
        let key = held.by_name.get(name).ok_or(Unfit::Unknown)?;
        let secret = key.secrets().find(|(digest, _)| is_meant(digest));
        let (digest, until) = secret.ok_or(Unfit::Unknown)?;
        Ok((key.open(until, now)?, digest))
    }

    /// The API key with a name, if it is in memory.
    pub fn get(&self, name: &KeyName) -> Option<Arc<LiveKey>> {
        self.held.read().by_name.get(name).cloned()
    }

    /// The keys used since the last call, with the time of their last use.
    fn take_used(&self) -> Vec<(KeyName, Timestamp)> {
        let held = self.held.read();
        held.by_name
            .values()
            .filter(|key| key.is_used.swap(false, Ordering::Relaxed))
            .filter_map(|key| Some((key.name.clone(), key.last_used()?)))
            .collect()
    }
}

/// Takes changes of API keys into memory, and confirms the others. If Redis may have returned to older data, or to none,
/// reads all keys again.
pub async fn refresh(engine: &Engine) -> Result<(), Error> {
    let mut known = of(engine).known.lock().await;
    let asked_at = Instant::now();
    // First, so that what is read afterwards is at least as new.
    let histories = engine.store.histories().await;
    let news = boards::news(&engine.store, keys::OF_API_KEYS, known.heard.sequence).await?;
    known.is_all_unread |= known.heard.has_gone_back(histories, &news);
    let changed = news.changed.iter().flat_map(|name| KeyName::parse(name));
    known.unread.extend(changed);
    let names = if known.is_all_unread {
        store::all_names(&engine.store).await?
    } else {
        known.unread.iter().cloned().collect()
    };
    let stored = store::load(&engine.store, &names).await?;
    let mut held = of(engine).held.write();
    if known.is_all_unread {
        let listed: BTreeSet<&KeyName> = names.iter().collect();
        let gone = held.by_name.keys().filter(|name| !listed.contains(name));
        for name in gone.cloned().collect::<Vec<_>>() {
            held.put(&name, None);
        }
    }
    for (name, stored) in names.iter().zip(stored) {
        held.put(name, stored.and_then(|stored| readable(name, &stored)));
    }
    held.confirmed_at = Some(asked_at);
    known.is_all_unread = false;
    known.unread.clear();
    Ok(())
}

/// Stores when API keys were last used on this instance.
pub async fn note_uses(engine: &Engine) -> Result<(), Error> {
    let used = of(engine).take_used();
    Ok(store::note_uses(&engine.store, &used).await?)
}

/// An API key that can be read completely: one of a newer release may have restrictions unknown to this one.
fn readable(name: &KeyName, stored: &Stored<ApiKey>) -> Option<ApiKey> {
    let read = stored.read();
    if let Err(error) = &read {
        tracing::error!(%name, %error, "a stored API key can't be read; it gives no access");
    }
    read.ok()
}

#[cfg(test)]
mod tests {
    use super::super::keyring::store::Previous;
    use super::*;
    use crate::domain::access::{Boards, Scope, Scopes};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms_clamped(ms)
    }

    fn stored(secret: &str, rate: Option<&str>) -> ApiKey {
        ApiKey {
            digest: Digest::of(secret),
            previous: None,
            grant: Grant {
                scopes: Scopes::from_iter([Scope::Read]),
                boards: Boards::all(),
                rate: rate.map(|rate| rate.parse().unwrap()),
                expires_at: Some(at(1_000)),
            },
            created_at: at(0),
        }
    }

    fn ring(keys: &[(&str, ApiKey)]) -> Keyring {
        let ring = Keyring::default();
        let mut held = ring.held.write();
        for (name, key) in keys {
            held.put(&KeyName::parse(name).unwrap(), Some(key.clone()));
        }
        held.confirmed_at = Some(Instant::now());
        drop(held);
        ring
    }

    #[test]
    fn a_secret_is_valid_until_its_key_expires_or_it_is_replaced_or_deleted() {
        let rotated = ApiKey {
            previous: Some(Previous {
                digest: Digest::of("old"),
                until: at(100),
            }),
            ..stored("new", None)
        };
        let ring = ring(&[("a", rotated.clone()), ("b", stored("other", None))]);
        let find = |secret, ms| {
            ring.find(&Digest::of(secret), at(ms))
                .map(|key| key.name.to_string())
        };
        assert_eq!(find("new", 5).as_deref(), Ok("a"));
        assert_eq!(find("old", 99).as_deref(), Ok("a"));
        assert_eq!(find("old", 100), Err(Unfit::Unknown));
        assert_eq!(find("other", 999).as_deref(), Ok("b"));
        assert_eq!(find("other", 1_000), Err(Unfit::Expired));
        let named = |name, secret, ms| {
            let (name, digest) = (KeyName::parse(name).unwrap(), Digest::of(secret));
            let found = ring.find_named(&name, |own| *own == digest, at(ms));
            found.map(|(key, _)| key.name.to_string())
        };
        assert_eq!(named("a", "new", 5).as_deref(), Ok("a"));
        assert_eq!(named("a", "old", 99).as_deref(), Ok("a"));
        assert_eq!(named("a", "old", 100), Err(Unfit::Unknown));
        assert_eq!(named("a", "other", 5), Err(Unfit::Unknown));
        assert_eq!(named("b", "other", 1_000), Err(Unfit::Expired));
        assert_eq!(named("c", "new", 5), Err(Unfit::Unknown));
        assert_eq!(find("", 5), Err(Unfit::Unknown));
        let used = ring.take_used();
        assert_eq!(used.len(), 2);
        assert!(used.contains(&(KeyName::parse("a").unwrap(), at(99))));
        assert_eq!(ring.take_used(), []);
        let name = KeyName::parse("a").unwrap();
        ring.held.write().put(&name, None);
        for secret in ["old", "new"] {
            assert_eq!(find(secret, 5), Err(Unfit::Unknown));
        }
        assert_eq!(ring.held.read().by_digest.len(), 1);
    }

    #[test]
    fn an_unconfirmed_key_gives_no_access() {
        let ring = ring(&[("a", stored("secret", None))]);
        let long_ago = Instant::now().checked_sub(CONFIRMED_TIME_MAX + Duration::from_secs(1));
        ring.held.write().confirmed_at = long_ago;
        for secret in ["secret", "unknown"] {
            let found = ring.find(&Digest::of(secret), at(5));
            assert_eq!(found.err(), Some(Unfit::Unconfirmed), "nobody can tell");
        }
    }

    #[test]
    fn a_spent_rate_survives_other_changes_of_the_key() {
        let ring = ring(&[("a", stored("secret", Some("2/h")))]);
        let spend = || {
            ring.find(&Digest::of("secret"), at(5))
                .unwrap()
                .spend()
                .unwrap()
        };
        let first = spend();
        assert_eq!(
            (first.remaining, first.wait),
            (Some(1), Duration::from_mins(30))
        );
        assert_eq!(spend().remaining, Some(0));
        let name = KeyName::parse("a").unwrap();
        let renewed = ApiKey {
            created_at: at(1),
            ..stored("secret", Some("2/h"))
        };
        ring.held.write().put(&name, Some(renewed));
        let over = spend();
        assert_eq!(over.remaining, None);
        assert!(over.wait > Duration::from_mins(29) && over.wait <= Duration::from_mins(30));
        ring.held
            .write()
            .put(&name, Some(stored("secret", Some("3/h"))));
        assert_eq!(spend().remaining, Some(2), "another rate starts over");
        ring.held.write().put(&name, Some(stored("secret", None)));
        assert_eq!(
            ring.find(&Digest::of("secret"), at(5)).unwrap().spend(),
            None
        );
    }
}
