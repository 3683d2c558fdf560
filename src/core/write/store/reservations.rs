//! Reservations of quotas that are counted in other slots than the members; `scripts/core/write/reserve.lua` explains the steps.

use std::fmt::{self, Write};
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

use super::quotas::{rules, shortage, use_args};
use crate::domain::event::Shortage;
use crate::domain::ids::EventId;
use crate::domain::quota::QuotaUse;
use crate::domain::shard::Shard;
use crate::domain::texts::serde_as_text;
use crate::domain::time::Timestamp;
use crate::redis::args::each;
use crate::redis::decode::{Coded, Done, Tail};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::protocol::record::TOKEN_BYTES;
use crate::redis::reply::{Reply, unknown_code};
use crate::redis::{StoreError, keys, protocol, script};

/// How long a token stays void, and applied events are remembered at least, in milliseconds: longer than any call takes.
pub const VOID_MS: i64 = 600_000;
/// About how many reservations one call reads.
const SCAN_COUNT: u32 = 200;

/// The digits of tokens, of six bits each.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The name of a reservation: 64 random bits, as text.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    pub fn random() -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::from_bits(KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub fn from_bits(bits: u64) -> Self {
        Self(std::array::from_fn(|index| {
            DIGITS[usize::try_from(bits >> (6 * index) & 63).unwrap_or(0)]
        }))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|digit| f.write_char(char::from(*digit)))
    }
}

impl FromStr for Token {
    type Err = std::array::TryFromSliceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.as_bytes().try_into().map(Self)
    }
}

serde_as_text!(Token);

/// What an event would take of quotas that one shard counts.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub token: Token,
    /// The shard of the event's member.
    pub shard: Shard,
    pub id: Option<EventId>,
    /// The instant that it counts for.
    pub at: Timestamp,
    /// What it would take, in the order of the quotas.
    pub uses: Vec<QuotaUse>,
    /// Whether to return what remains.
    pub asks_quotas: bool,
}

impl Wanted {
    /// The key under which the event is remembered if it is applied.
    fn record(&self) -> String {
        match &self.id {
            Some(id) => keys::event(&self.shard, id),
            None => keys::named(&self.shard, Kind::EventToken, self.token),
        }
    }
}

/// The result of a reservation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reserved {
    /// It is reserved; and if requested, what remains of each use: events, or scaled points.
    Open(Vec<i64>),
    /// A quota has too little left after what was taken.
    UsedUp(Shortage),
    /// Whether a quota is used up depends on open reservations: nothing is reserved.
    Waits {
        /// The quota's index in the definition.
        quota: usize,
    },
}

/// What to do with a reservation.
#[derive(Clone, Copy, Debug)]
pub struct Settlement {
    pub token: Token,
    /// Whether it is kept; otherwise it is given back.
    pub is_kept: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct OpenReservation {
    pub token: Token,
    /// Its age by the server's clock, in milliseconds.
    pub age_ms: i64,
    tag: String,
    record: String,
    void: String,
}

/// Reserves what events would take of the quotas that this shard counts. No event of a request overtakes one that waits.
/// The answers are in their order. The call comes after those for which this was called before, whenever it is polled.
pub fn reserve<'a>(
    store: &'a Store,
    home: &Shard,
    requests: &[Vec<Wanted>],
    now: Timestamp,
) -> impl Future<Output = Result<Vec<Reserved>, StoreError>> + Send + use<'a> {
    let mut keys = vec![
        keys::counts_head(home.tag(), home.placement.home()),
        keys::counts_registry(home.tag(), home.generation),
        keys::single(home, Kind::Reserved),
        keys::single(home, Kind::Reserving),
    ];
    let numbers: Vec<usize> = requests
        .iter()
        .enumerate()
        .flat_map(|(request, events)| events.iter().map(move |_| request))
        .collect();
    let all: Vec<&Wanted> = requests.iter().flatten().collect();
    let uses = each(&all, |wanted| use_args(home, &wanted.uses, &mut keys));
    let reply = store
        .call(&script::RESERVE, home.tag())
        .keys(keys)
        .field("version", home.version())
        .field("now", now.ms())
        .field("rules", rules(home))
        .field("requests", numbers)
        .field("tokens", each(&all, |wanted| wanted.token))
        .field("instants", each(&all, |wanted| wanted.at.ms()))
        .field("uses", uses)
        .field("asks", each(&all, |wanted| wanted.asks_quotas))
        .field("tags", each(&all, |wanted| wanted.shard.tag()))
        .field("records", each(&all, |wanted| wanted.record()))
        .field(
            "voids",
            each(&all, |wanted| {
                keys::named(&wanted.shard, Kind::Void, wanted.token)
            }),
        )
        .write_for_reply();
    let count = all.len();
    async move {
        let mut reply = Reply::answer(reply.await?)?;
        (0..count)
            .map(|_| answer(reply.list()?))
            .collect::<Result<_, _>>()
    }
}

/// Keeps reservations of this shard, and gives others back. Settled ones stay as they are. The call comes after those
/// for which this was called before, whenever its future is polled.
pub fn settle<'a>(
    store: &'a Store,
    home: &Shard,
    settlements: &[Settlement],
) -> impl Future<Output = Result<(), StoreError>> + Send + use<'a> {
    let tokens = |is_kept| -> Vec<Token> {
        let of_these = settlements.iter().filter(|one| one.is_kept == is_kept);
        of_these.map(|one| one.token).collect()
    };
    // The job can find out again what a lost call would have settled.
    let settled = store
        .call(&script::SETTLE, home.tag())
        .keys([Kind::Reserved, Kind::Reserving].map(|kind| keys::single(home, kind)))
        .field("kept", tokens(true))
        .field("given_back", tokens(false))
        .derive::<Done>();
    async move { settled.await.map(drop) }
}

/// The open reservations of this shard that are at least this old by the server's clock.
pub async fn list_open(
    store: &Store,
    home: &Shard,
    older_than_ms: i64,
) -> Result<Vec<OpenReservation>, StoreError> {
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let read = store
            .call(&script::RESERVED, home.tag())
            .key(keys::counts_head(home.tag(), home.placement.home()))
            .key(keys::single(home, Kind::Reserved))
            .field("version", home.version())
            .field("cursor", &cursor)
            .field("count", SCAN_COUNT)
            .field("older", older_than_ms);
        let part: Tail<Vec<OpenReservation>>;
        Done::Ok((cursor, part)) = read.read().await?;
        found.extend(part.0);
        if cursor == "0" {
            return Ok(found);
        }
    }
}

/// Whether the event of a reservation was applied. If not, its token becomes void: the event never will be.
pub async fn void(
    store: &Store,
    shard: &Shard,
    open: &OpenReservation,
) -> Result<bool, StoreError> {
    store
        .call(&script::VOID, &open.tag)
        .keys([&keys::head(&open.tag), &open.record, &open.void])
        .arg(shard.generation)
        .arg(open.token.to_string())
        .arg(VOID_MS)
        .write::<Coded>()
        .await?
        .is("APPLIED", "VOID")
}

fn answer(mut reply: Reply) -> Result<Reserved, StoreError> {
    Ok(match reply.integer()? {
        protocol::reservations::RESERVED => Reserved::Open(reply.all(Reply::integer)?),
        protocol::reservations::USED_UP => Reserved::UsedUp(shortage(&mut reply)?),
        protocol::reservations::WAITS => Reserved::Waits {
            quota: reply.index()?,
        },
        other => return unknown_code(&other.to_string()),
    })
}
