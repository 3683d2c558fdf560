//! Reservations of quotas whose counts lie in other slots than the members; `scripts/reserve.lua` explains the steps.

use std::fmt::{self, Write};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use fred::types::Value;
use serde::{Serialize, Serializer};

use super::args::pack;
use super::dispatch::Store;
use super::kinds::Kind;
use super::protocol::{self, record::TOKEN_BYTES};
use super::quotas::{QuotaRule, UseArgs, rules, shortage, use_args};
use super::reply::{Reply, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::event::Shortage;
use crate::domain::ids::EventId;
use crate::domain::quota::QuotaUse;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;

/// For how long a token stays void, and an event that was taken is remembered at least, in milliseconds: longer than any
/// call may take.
pub const VOID_MS: i64 = 600_000;
/// About how many reservations are looked at in one call.
const SCAN_COUNT: u32 = 200;

/// The digits of tokens, of six bits each.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a reservation is known by: 64 random bits, as text.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// One that no other reservation has.
    pub fn random() -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::from_bits(KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The token of these bits.
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

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What an event would take of quotas whose counts lie in one shard.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What the reservation is to be known by.
    pub token: Token,
    /// The shard of the event's member.
    pub shard: Shard,
    /// The event's id.
    pub id: Option<EventId>,
    /// The instant that it counts for.
    pub at: Timestamp,
    /// What it would take, in the order of the quotas.
    pub uses: Vec<QuotaUse>,
    /// Whether it is asked what remains.
    pub asks_quotas: bool,
}

/// What became of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reserved {
    /// It is reserved; and if that was asked, what remains of each use: events, or scaled points.
    Open(Vec<i64>),
    /// A quota has too little left beside what was taken.
    UsedUp(Shortage),
    /// Whether a quota is used up depends on reservations that are open: nothing is reserved.
    Waits {
        /// Which one, by its index in the definition.
        quota: usize,
    },
}

/// A reservation that is open.
#[derive(Clone, Debug)]
pub struct OpenReservation {
    /// What it is known by.
    pub token: Token,
    /// How old it is by the server's clock, in milliseconds.
    pub age_ms: i64,
    tag: String,
    record: String,
    void: String,
}

#[derive(Serialize)]
struct ReserveArgs {
    version: String,
    now: i64,
    rules: Vec<QuotaRule>,
    requests: Vec<usize>,
    tokens: Vec<Token>,
    instants: Vec<i64>,
    uses: Vec<Vec<UseArgs>>,
    asks: Vec<bool>,
    tags: Vec<String>,
    records: Vec<String>,
    voids: Vec<String>,
}

#[derive(Serialize)]
struct SettleArgs<'a> {
    kept: &'a [Token],
    given_back: &'a [Token],
}

#[derive(Serialize)]
struct ReservedArgs<'a> {
    version: String,
    cursor: &'a str,
    count: u32,
    older: i64,
}

impl Store {
    /// Reserves what events would take of the quotas whose counts lie in this shard. Of the events of one request none
    /// overtakes another that waits. The answers are in their order. The call is behind those for which this was called
    /// before, whenever its future is polled.
    pub fn reserve<'a>(
        &'a self,
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
        let mut args = ReserveArgs {
            version: home.version(),
            now: now.ms(),
            rules: rules(home),
            requests: Vec::new(),
            tokens: Vec::new(),
            instants: Vec::new(),
            uses: Vec::new(),
            asks: Vec::new(),
            tags: Vec::new(),
            records: Vec::new(),
            voids: Vec::new(),
        };
        for (request, events) in requests.iter().enumerate() {
            for wanted in events {
                let uses = wanted.uses.iter();
                let uses = uses.map(|used| use_args(home, used, &mut keys)).collect();
                let shard = &wanted.shard;
                args.requests.push(request);
                args.tokens.push(wanted.token);
                args.instants.push(wanted.at.ms());
                args.uses.push(uses);
                args.asks.push(wanted.asks_quotas);
                args.tags.push(shard.tag().to_owned());
                args.records.push(match &wanted.id {
                    Some(id) => keys::event(shard, id),
                    None => keys::event_of(shard, wanted.token),
                });
                args.voids.push(keys::void(shard, wanted.token));
            }
        }
        let count = args.tokens.len();
        let reply = pack(&args).map(|args| self.write(home, &script::RESERVE, keys, vec![args]));
        async move {
            let mut reply = Reply::answer(reply?.await?)?;
            let answers = (0..count).map(|_| answer(reply.list()?));
            answers.collect::<Result<_, _>>()
        }
    }

    /// Keeps what was reserved in this shard under some tokens, and gives back what was under others. What is settled
    /// already stays so. The call is behind those for which this was called before, whenever its future is polled.
    pub fn settle<'a>(
        &'a self,
        home: &Shard,
        kept: &[Token],
        given_back: &[Token],
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<'a> {
        let keys = vec![
            keys::single(home, Kind::Reserved),
            keys::single(home, Kind::Reserving),
        ];
        let args = pack(&SettleArgs { kept, given_back });
        // If it is lost, it can be found out again.
        let reply = args.map(|args| self.derive(home, &script::SETTLE, keys, vec![args]));
        async move {
            match Reply::new(reply?.await?)?.text()?.as_str() {
                "OK" => Ok(()),
                other => unknown_code(other),
            }
        }
    }

    /// The reservations in this shard that are open and as old as this, by the server's clock.
    pub async fn open_reservations(
        &self,
        home: &Shard,
        older_than_ms: i64,
    ) -> Result<Vec<OpenReservation>, StoreError> {
        let mut found = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let keys = vec![
                keys::counts_head(home.tag(), home.placement.home()),
                keys::single(home, Kind::Reserved),
            ];
            let args = pack(&ReservedArgs {
                version: home.version(),
                cursor: &cursor,
                count: SCAN_COUNT,
                older: older_than_ms,
            })?;
            let reply = self.read(&script::RESERVED, keys, vec![args]).await?;
            let mut reply = Reply::answer(reply)?;
            cursor = reply.text()?;
            while !reply.is_empty() {
                found.push(open_reservation(reply.list()?)?);
            }
            if cursor == "0" {
                return Ok(found);
            }
        }
    }

    /// Whether the event of a reservation was applied. If it was not, its token is void from then on: it never will be.
    pub async fn void(&self, shard: &Shard, open: &OpenReservation) -> Result<bool, StoreError> {
        let keys = vec![
            keys::head(&open.tag),
            open.record.clone(),
            open.void.clone(),
        ];
        let token = open.token.to_string();
        let generation = shard.generation.to_string();
        let args = [generation, token, VOID_MS.to_string()];
        let args = args.map(Value::from).to_vec();
        let reply = self.write_at(&open.tag, &script::VOID, keys, args).await?;
        match Reply::new(reply)?.text()?.as_str() {
            "STALE" => Err(StoreError::Stale),
            "APPLIED" => Ok(true),
            "VOID" => Ok(false),
            other => unknown_code(other),
        }
    }
}

fn answer(mut reply: Reply) -> Result<Reserved, StoreError> {
    Ok(match reply.integer()? {
        protocol::reservations::RESERVED => Reserved::Open(reply.integers()?),
        protocol::reservations::USED_UP => Reserved::UsedUp(shortage(&mut reply)?),
        protocol::reservations::WAITS => Reserved::Waits {
            quota: reply.index()?,
        },
        other => return unknown_code(&other.to_string()),
    })
}

fn open_reservation(mut reply: Reply) -> Result<OpenReservation, StoreError> {
    let token = reply.bytes()?;
    let token = <[u8; TOKEN_BYTES]>::try_from(&token[..])
        .map_err(|_| StoreError::Unexpected(format!("the token {token:?}")))?;
    Ok(OpenReservation {
        token: Token(token),
        age_ms: reply.integer()?,
        tag: reply.text()?,
        record: reply.text()?,
        void: reply.text()?,
    })
}
