//! Writes are carried out in the order in which they are made, whoever waits for which of them first.

use futures::future::join_all;
use serde_json::json;
use standings::core::write::store::events::{self, EventReply, PlannedEvent};
use standings::domain::event::{Detail, Event, Origin};
use standings::domain::ids::{BoardId, MemberId};
use standings::domain::plan::Routes;
use standings::domain::score::Score;
use standings::domain::time::Timestamp;

use crate::harness::replicated::Replicated;
use crate::harness::{Instance, RedisServer, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";
/// More than are under way at one time.
const CALLS: i64 = 64;

/// Makes calls of which each adds a point, and waits for the last one first. Each has to find the points of those that were
/// made before it.
async fn add_points(instance: &Instance) {
    let board = BoardId::parse("b").unwrap();
    let board = instance.engine.board(&board).await.unwrap();
    let now = Timestamp::parse(NOW).unwrap();
    let event = Event {
        id: None,
        member: MemberId::parse("alice").unwrap(),
        score: Score::from_stored(1),
        at: None,
        origin: Origin::default(),
        data: None,
    };
    let ready = PlannedEvent {
        plan: Routes::default().plan(&board, event, now),
        detail: Detail::Standings,
        asks_quotas: false,
        follows_until: None,
        with_history: false,
        token: None,
        is_recalled: false,
        queued: None,
    };
    let shard = &board.shards()[0];
    let store = &instance.engine.store;
    let calls: Vec<_> = (0..CALLS)
        .map(|_| events::apply(store, shard, vec![ready.clone()], now))
        .collect();
    let replies = join_all(calls.into_iter().rev()).await;
    let scores = replies.into_iter().map(|reply| match &reply.unwrap()[..] {
        [EventReply::Taken { outcome, .. }] => outcome.changes[0].score.scaled(),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        scores.collect::<Vec<_>>(),
        (1..=CALLS).rev().collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_executed_in_the_order_in_which_they_were_made() {
    let redis = RedisServer::start().await;
    let clock = clock_at(NOW);
    let instance = Instance::start(&redis.url(), clock, "").await;
    instance
        .client
        .define("b", json!({"windows": ["all"]}))
        .await;
    add_points(&instance).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_replicas_are_executed_in_order() {
    let replicated = Replicated::start(NOW).await;
    add_points(&replicated.instance).await;
}
