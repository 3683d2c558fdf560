//! What is remembered of an event: `apply.lua` packs it, and Rust unpacks it by the same layout.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use standings::core::write::store::events::{self, EventReply, PlannedEvent};
use standings::core::write::store::reservations::Token;
use standings::domain::board::Board;
use standings::domain::event::{Change, Detail, Event, Origin, Outcome, Ranks, Status};
use standings::domain::ids::{BoardId, EventId, MemberId};
use standings::domain::plan::Routes;
use standings::domain::score::{Decimals, Score};
use standings::domain::shard::Shard;
use standings::domain::time::Timestamp;
use standings::redis::Store;
use standings::redis::protocol::{flags, record};

use crate::harness::redis::{RedisServer, eventually};
use crate::harness::store;

const AT: &str = "2026-11-21T12:00:00Z";
const DETAILS: [Detail; 3] = [Detail::Status, Detail::Standings, Detail::Ranks];
/// Scores of one member after the other: some need four bytes, some seven.
const SCORES: [(&str, i64); 6] = [
    ("ann", 5),
    ("bob", -7),
    ("ann", (1 << 31) - 21),
    ("bob", -3_000_000_000),
    ("ann", -(1 << 40)),
    ("bob", 1 << 50),
];

/// The list, told without any store: one score for each member, the same in all windows.
#[derive(Default)]
struct List(BTreeMap<&'static str, i64>);

impl List {
    fn rank(&self, member: &str) -> Option<u64> {
        let own = self.0.get(member)?;
        let ahead = self.0.values().filter(|score| *score > own).count();
        Some(ahead as u64 + 1)
    }

    /// Takes an event, and says what its outcome is to be.
    fn take(&mut self, board: &Board, event: (&'static str, i64), detail: Detail) -> Outcome {
        let (member, points) = event;
        let is_sum = board.definition.update == standings::domain::board::Update::Sum;
        let (previous, previous_rank) = (self.0.get(member).copied(), self.rank(member));
        let score = match previous {
            Some(previous) if is_sum => previous + points,
            Some(previous) => previous.max(points),
            None => points,
        };
        self.0.insert(member, score);
        let of = |scaled| Score::from_scaled(scaled, Decimals::default()).unwrap();
        let change = |window: &_| Change {
            window: *window,
            score: of(score),
            previous_score: previous.map(of),
            ranks: (detail == Detail::Ranks).then(|| Ranks {
                rank: self.rank(member),
                previous_rank,
            }),
        };
        let is_changed = is_sum || previous != Some(score);
        Outcome {
            status: [Status::Unchanged, Status::Applied][usize::from(is_changed)],
            at: AT.parse().unwrap(),
            changes: match detail {
                Detail::Status => Vec::new(),
                _ => board.definition.windows.iter().map(change).collect(),
            },
        }
    }
}

/// How long the record of an outcome is.
fn length(outcome: &Outcome, is_sum: bool, has_token: bool) -> usize {
    let scores = outcome.changes.iter().flat_map(|change| {
        let before = change.previous_score.filter(|_| !is_sum);
        [Some(change.score), before]
    });
    let is_narrow = |score: Score| i32::try_from(score.scaled()).is_ok();
    let width = if scores.flatten().all(is_narrow) {
        record::NARROW_SCORE_BYTES
    } else {
        record::WIDE_SCORE_BYTES
    };
    let of_change = |change: &Change| {
        let ranks = if change.ranks.is_some() { 2 } else { 0 };
        let scores = if is_sum { 1 } else { 2 };
        record::CODE_BYTES + scores * width + ranks * record::RANK_BYTES
    };
    let token = if has_token { record::TOKEN_BYTES } else { 0 };
    let head = record::FINGERPRINT_BYTES + record::TIE_KEY_BYTES + 1;
    head + outcome.changes.iter().map(of_change).sum::<usize>() + token
}

async fn apply(store: &Store, shard: &Shard, ready: PlannedEvent) -> EventReply {
    let answers = events::apply(store, shard, vec![ready], AT.parse().unwrap()).await;
    answers.unwrap().remove(0)
}

/// A first shard of a board with this definition, which takes events.
async fn open(redis: &RedisServer, id: &str, definition: serde_json::Value) -> Shard {
    let definition = serde_json::from_value(definition).unwrap();
    let board = Board::new(
        BoardId::parse(id).unwrap(),
        definition,
        1,
        1,
        BTreeMap::new(),
    );
    let shard = Arc::new(board).shards().remove(0);
    let head = format!("st:{{{}}}", shard.tag());
    let version = shard.version();
    let set = [b"HSET", head.as_bytes(), b"version", version.as_bytes()];
    redis.run(&set).await;
    shard
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_unpacks_the_record_that_a_script_packs() {
    let redis = RedisServer::start().await;
    let store = store(&redis.url());
    eventually("it is connected", async || store.check().await.is_ok()).await;
    let once = json!([{"name": "once", "by": ["member"], "window": "total", "max": 1_000}]);
    let windows = json!(["day", "all"]);
    let definitions = [
        json!({"windows": windows}),
        json!({"windows": windows, "update": "max", "ties": "member"}),
        json!({"windows": windows, "shards": 2, "quotas": once}),
        json!({"windows": windows, "update": "max", "shards": 2, "quotas": once}),
    ];
    for (number, definition) in definitions.into_iter().enumerate() {
        let shard = open(&redis, &format!("b{number}"), definition).await;
        let is_sum = number % 2 == 0;
        let (mut list, mut routes) = (List::default(), Routes::default());
        let events = SCORES
            .into_iter()
            .flat_map(|event| DETAILS.map(|detail| (event, detail)));
        for (index, ((member, points), detail)) in events.enumerate() {
            let id = format!("x{index}");
            let event = Event {
                id: Some(EventId::parse(&id).unwrap()),
                member: MemberId::parse(member).unwrap(),
                score: Score::from_scaled(points, Decimals::default()).unwrap(),
                at: None,
                origin: Origin::default(),
                data: None,
            };
            let now: Timestamp = AT.parse().unwrap();
            let mut ready = |token| PlannedEvent {
                plan: routes.plan(&shard, event.clone(), now),
                detail,
                asks_quotas: false,
                follows_until: None,
                with_history: false,
                token: shard.reserves().then(|| Token::from_bits(token)),
                is_recalled: false,
                queued: None,
            };
            let expected = list.take(&shard, (member, points), detail);
            let first = apply(&store, &shard, ready(1)).await;
            let EventReply::Taken { outcome, .. } = first else {
                panic!("{first:?}");
            };
            assert_eq!(outcome, expected);
            let again = apply(&store, &shard, ready(2)).await;
            let EventReply::Duplicate(outcome, _) = again else {
                panic!("{again:?}");
            };
            assert_eq!(outcome, expected);

            let key = format!("st:{{{}}}:1:e:{id}", shard.tag());
            let stored = redis.run(&[b"GET", key.as_bytes()]).await;
            let stored = stored.bytes();
            assert_eq!(stored.len(), length(&expected, is_sum, shard.reserves()));
            let set = stored[record::FINGERPRINT_BYTES + record::TIE_KEY_BYTES];
            assert_eq!(set % flags::DETAIL_COUNT, detail.code());
        }
    }
}
