//! Webhooks: who is told what, signed how, tried when, and what no crash and no bad receiver changes in that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use standings::check;
use standings::core::board::store::board_notes::{self, NotedFor};
use standings::core::board::store::boards;
use standings::core::jobs::JobKind;
use standings::domain::board::Board;
use standings::domain::delivery::{Delivery, NamedDelivery};
use standings::domain::ids::BoardId;
use standings::domain::message::{Message, MessageId, MessageKind};
use standings::domain::time::{Span, Timestamp};
use standings::domain::webhook::WebhookName;
use standings::redis::StoreError;
use standings::webhooks::{self, deliveries, outbox};
use standings::worker;

use crate::harness::jobs::{ClosePeriods, Outboxes, Purge, Revisions};
use crate::harness::program::{self, Program};
use crate::harness::receiver::{Manner, Received, Receiver};
use crate::harness::redis::eventually;
use crate::harness::tls::{TlsFront, authority};
use crate::harness::{Client, Instance, World, break_off};
use crate::keys::make_key;

const NOW: &str = "2026-11-23T00:10:00Z";
const KEYS: &str = "read:a-reader,admin:an-admin";

/// A webhook for everything of all boards.
fn everything(url: &str) -> Value {
    let events = [
        "period.final",
        "period.revised",
        "member.hidden",
        "league.turned",
    ];
    json!({"url": url, "events": events, "boards": ["*"]})
}

/// Registers a webhook; returns its secret.
async fn register(client: &Client, name: &str, webhook: Value) -> String {
    let made = client
        .put(&format!("/v1/webhooks/{name}"), webhook)
        .await
        .expect(201);
    made["secret"].as_str().unwrap().to_owned()
}

async fn board(instance: &Instance, id: &str) -> Arc<Board> {
    let definition = json!({"windows": ["week"]});
    if instance
        .client
        .get(&format!("/v1/boards/{id}"))
        .await
        .status
        != 200
    {
        instance.client.define(id, definition).await;
    }
    let id = BoardId::parse(id).unwrap();
    let stored = boards::load(&instance.engine.store, &id).await.unwrap();
    stored.unwrap().unwrap()
}

fn message(board: &Board, number: u32) -> Message {
    let at = Timestamp::parse(NOW).unwrap();
    let data = json!({"window": "week", "key": "2026-W47", "revision": number});
    let occasion = format!("week:2026-W47:{number}");
    Message::new(MessageKind::PeriodFinal, board, &occasion, at, &data)
}

/// Posts a message as a step does that records a result.
async fn post(instance: &Instance, board: &Board, number: u32) -> Message {
    let (store, message) = (&instance.engine.store, message(board, number));
    let posted = outbox::store::post(store, board, std::slice::from_ref(&message)).await;
    posted.unwrap();
    board_notes::note(store, NotedFor::Outbox, board)
        .await
        .unwrap();
    message
}

/// Hands on what is posted, and sends what is due.
async fn run(instance: &Instance) {
    let engine = &instance.engine;
    engine.run(&Outboxes).await.unwrap();
    deliveries::job::deliver(engine).await.unwrap();
}

async fn deliveries(client: &Client, name: &str, query: &str) -> Vec<Value> {
    let path = format!("/v1/webhooks/{name}/deliveries?{query}");
    let listed = client.get(&path).await.expect(200);
    listed["deliveries"].as_array().unwrap().clone()
}

fn advance(world: &World, span: Span) {
    world.clock.set(world.clock.now().saturating_add(span));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_keeps_its_id_on_every_try_and_its_signature_follows_the_standard() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(500)).await;
    let secret = register(client, "site", everything(&receiver.url())).await;
    let board = board(instance, "vote-eu").await;
    let posted = post(instance, &board, 1).await;
    run(instance).await;
    let [failed] = &deliveries(client, "site", "status=pending").await[..] else {
        panic!("one is pending")
    };
    assert_eq!(failed["tries"], 1);
    assert_eq!(failed["last_status"], 500);
    assert_eq!(failed["last_error"], "the status is 500");
    assert_eq!(failed["event"], "period.final");
    receiver.set(Manner::Status(204));
    run(instance).await;
    assert_eq!(receiver.count(), 1, "it is not yet time to try again");
    advance(&world, Span::seconds(6));
    run(instance).await;
    let got = receiver.received();
    assert_eq!(got.len(), 2);
    for one in &got {
        assert_eq!(one.id(), posted.id.as_str());
        assert_eq!(one.body, posted.body);
        assert_eq!(one.headers["content-type"], "application/json");
        assert!(one.is_signed_by(&secret));
        assert!(!one.is_signed_by("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    }
    let expected = json!({"type": "period.final", "timestamp": "2026-11-23T00:10:00.000Z",
        "data": {"board": "vote-eu", "window": "week", "key": "2026-W47", "revision": 1}});
    assert_eq!(got[0].json(), expected);
    let seconds = [0, 1].map(|at| got[at].headers["webhook-timestamp"].clone());
    let begun = Timestamp::parse(NOW).unwrap().ms() / 1_000;
    assert_eq!(seconds, [begun, begun + 6].map(|second| second.to_string()));
    let [delivered] = &deliveries(client, "site", "").await[..] else {
        panic!("one is there")
    };
    assert_eq!(delivered["status"], "delivered");
    assert_eq!(delivered["payload"], expected);
    assert_eq!(delivered["last_error"], Value::Null);
    advance(&world, Span::days(1));
    // The same step again posts the same message, which is there.
    post(instance, &board, 1).await;
    run(instance).await;
    assert_eq!(receiver.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_shown_once_and_its_predecessor_signs_for_a_day() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(200)).await;
    let old = register(client, "site", everything(&receiver.url())).await;
    let changed = client
        .put("/v1/webhooks/site", everything(&receiver.url()))
        .await
        .expect(200);
    assert_eq!(changed.get("secret"), None);
    let rotated = client
        .post("/v1/webhooks/site/rotate", json!({}))
        .await
        .expect(200);
    let new = rotated["secret"].as_str().unwrap();
    assert_ne!(new, old);
    assert_eq!(rotated["previous_until"], "2026-11-24T00:10:00.000Z");
    for (count, signs_by_old) in [(1, true), (2, false)] {
        client
            .post("/v1/webhooks/site/test", json!({}))
            .await
            .expect(202);
        deliveries::job::deliver(&instance.engine).await.unwrap();
        let got = receiver.received();
        assert_eq!(got.len(), count);
        let last = got.last().unwrap();
        assert_eq!(last.json()["type"], "webhook.test");
        assert!(last.is_signed_by(new));
        assert_eq!(last.is_signed_by(&old), signs_by_old);
        let signatures = last.headers["webhook-signature"].to_str().unwrap();
        let all_v1 = signatures.split(' ').all(|one| one.starts_with("v1,"));
        assert!(all_v1 && !signatures.contains("whsec_"), "{signatures}");
        advance(&world, Span::days(1));
    }
    let audit = client.get("/v1/audit?limit=100").await.expect(200);
    let shown = client.get("/v1/webhooks").await.expect(200);
    for text in [audit.to_string(), shown.to_string()] {
        assert!(
            !text.contains("whsec_") && text.contains("127.0.0.1"),
            "{text}"
        );
        assert!(
            !text.contains(&new[6..]) && !text.contains(&old[6..]),
            "{text}"
        );
    }
    let lines = audit["lines"].as_array().unwrap();
    let routes: Vec<_> = lines.iter().map(|line| &line["route"]).collect();
    assert_eq!(
        routes.len(),
        5,
        "two PUTs, a rotation, two tests: {routes:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_webhook_gets_test_messages_with_new_ids() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(204)).await;
    for _ in 0..2 {
        register(client, "site", everything(&receiver.url())).await;
        for _ in 0..2 {
            let test = client.post("/v1/webhooks/site/test", json!({})).await;
            test.expect(202);
        }
        run(instance).await;
        client.delete("/v1/webhooks/site").await.expect(204);
        advance(&world, Span::seconds(1));
    }
    let ids: BTreeSet<_> = receiver
        .received()
        .iter()
        .map(|one| one.id().to_owned())
        .collect();
    assert_eq!(
        ids.len(),
        4,
        "a receiver takes none for one that it has had"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_gets_only_its_events_and_boards_since_its_creation() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let all = Receiver::start(Manner::Status(200)).await;
    let votes = Receiver::start(Manner::Status(200)).await;
    let hides = Receiver::start(Manner::Status(200)).await;
    let (vote, run_board) = (
        board(instance, "vote-eu").await,
        board(instance, "run").await,
    );
    post(instance, &vote, 1).await;
    run(instance).await;
    register(client, "all", everything(&all.url())).await;
    let of_votes = json!({"url": votes.url(), "events": ["period.final"], "boards": ["vote-*"]});
    register(client, "votes", of_votes).await;
    let of_hides = json!({"url": hides.url(), "events": ["member.hidden"], "boards": ["*"]});
    register(client, "hides", of_hides).await;
    for board in [&vote, &run_board] {
        post(instance, board, 2).await;
    }
    run(instance).await;
    assert_eq!([&all, &votes, &hides].map(Receiver::count), [2, 1, 0]);
    assert_eq!(votes.received()[0].json()["data"]["board"], "vote-eu");
    client.delete("/v1/webhooks/votes").await.expect(204);
    post(instance, &vote, 3).await;
    run(instance).await;
    assert_eq!([&all, &votes, &hides].map(Receiver::count), [3, 1, 0]);
    let missing = client.get("/v1/webhooks/votes/deliveries").await;
    missing.expect_problem(404, "webhook-not-found");
    // Nothing is left of a webhook, nor of what was posted.
    for name in ["all", "hides"] {
        client
            .delete(&format!("/v1/webhooks/{name}"))
            .await
            .expect(204);
    }
    let keys = world.redis.keys("st:{*").await;
    let of_webhooks = keys
        .iter()
        .filter(|key| key.contains("webhook") || key.contains("outbox"));
    assert_eq!(
        of_webhooks.collect::<Vec<_>>(),
        ["st:{boards}:webhooks-version"]
    );
    // What was not handed on goes with its board.
    let store = &instance.engine.store;
    outbox::store::post(store, &vote, &[message(&vote, 4)])
        .await
        .unwrap();
    assert!(
        world
            .redis
            .keys("st:{vote-eu}*")
            .await
            .iter()
            .any(|key| key.ends_with(":outbox"))
    );
    client.delete("/v1/boards/vote-eu").await.expect(204);
    instance.engine.run(&Purge).await.unwrap();
    assert_eq!(world.redis.leftover("st:{vote-eu}*").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_no_webhook_wants_are_not_stored() {
    let world = World::sending(1, NOW, "").await;
    let instance = &world.instances[0];
    let board = board(instance, "vote-eu").await;
    for number in 0..120 {
        post(instance, &board, number).await;
    }
    run(instance).await;
    let keys = world.redis.keys("st:{*").await.into_iter();
    let left = keys.filter(|key| key.contains("webhook") || key.contains("outbox"));
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moderator_can_see_who_was_hidden() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(200)).await;
    register(client, "site", everything(&receiver.url())).await;
    client
        .define("b", json!({"windows": ["week"], "shards": 3}))
        .await;
    let hidden = async |rest: &str| {
        let listed = client.get(&format!("/v1/boards/b/hidden?{rest}")).await;
        listed.expect(200)["hidden"].take()
    };
    let mut hides = BTreeSet::new();
    for member in ["ann", "bob", "cid"] {
        let path = format!("/v1/boards/b/hidden/{member}");
        let put = client
            .put(&path, json!({"reason": "cheating"}))
            .await
            .expect(200);
        let hide = put["hide"].as_str().unwrap();
        assert_eq!(hidden(&format!("hide={hide}")).await, json!([put]));
        hides.insert(hide.to_owned());
    }
    assert_eq!(hidden("hide=hide_0").await, json!([]));
    instance.engine.run(&Revisions).await.unwrap();
    run(instance).await;
    let told = receiver.received();
    let told: BTreeSet<String> = told
        .iter()
        .map(|one| {
            assert!(
                ["ann", "bob", "cid"]
                    .iter()
                    .all(|name| !one.body.contains(name))
            );
            one.json()["data"]["hide"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(told, hides);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_receivers_get_fifteen_seconds_and_do_not_delay_others() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let good = Receiver::start(Manner::Status(200)).await;
    let elsewhere = Receiver::start(Manner::Status(200)).await;
    let slow = "the receiver took more than 15 s";
    let mut bad = Vec::new();
    for (name, manner, status, error) in [
        ("hangs", Manner::Hangs, Value::Null, Some(slow)),
        (
            "announces",
            Manner::Announces,
            Value::Null,
            Some("the receiver sent more than 128 KiB"),
        ),
        ("drips-heads", Manner::DripsHeads, Value::Null, Some(slow)),
        ("drips-bodies", Manner::DripsBodies, json!(200), None),
        ("floods", Manner::Floods, json!(200), None),
        ("lies", Manner::Lies, json!(200), None),
        (
            "redirects",
            Manner::Redirects(elsewhere.url()),
            json!(307),
            Some("307: redirects are not followed"),
        ),
    ] {
        let receiver = Receiver::start(manner).await;
        register(client, name, everything(&receiver.url())).await;
        bad.push((name, receiver, status, error));
    }
    let ends = Receiver::start(Manner::Ends).await;
    register(client, "ends", everything(&ends.url())).await;
    register(client, "good", everything(&good.url())).await;
    let board = board(instance, "b").await;
    for number in 1..=2 {
        post(instance, &board, number).await;
    }
    let engine = Arc::clone(&instance.engine);
    engine.run(&Outboxes).await.unwrap();
    let delivering = tokio::spawn(async move { deliveries::job::deliver(&engine).await });
    eventually("the good one has all", async || good.count() == 2).await;
    // While others hang, the good one is sent what comes meanwhile.
    assert!(!delivering.is_finished());
    post(instance, &board, 3).await;
    instance.engine.run(&Outboxes).await.unwrap();
    eventually("the good one has more", async || good.count() == 3).await;
    let pending = deliveries(client, "hangs", "status=pending").await;
    assert!(pending.iter().any(|one| one["tries"] == 0), "{pending:?}");
    delivering.await.unwrap().unwrap();
    for (name, receiver, status, error) in bad {
        assert_eq!(receiver.count(), 3, "{name}");
        for one in deliveries(client, name, "").await {
            assert_eq!(one["last_status"], status, "{name}: {one}");
            assert_eq!(one["last_error"], json!(error), "{name}: {one}");
        }
    }
    for one in deliveries(client, "ends", "").await {
        assert_eq!(one["status"], "pending", "{one}");
        assert!(one["last_error"].is_string(), "{one}");
    }
    assert_eq!(elsewhere.count(), 0, "redirects are not followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_while_a_receiver_hangs_does_not_delay_others() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let (hangs, good) = (
        Receiver::start(Manner::Hangs).await,
        Receiver::start(Manner::Status(200)).await,
    );
    register(client, "hangs", everything(&hangs.url())).await;
    let board = board(instance, "b").await;
    post(instance, &board, 1).await;
    instance.engine.run(&Outboxes).await.unwrap();
    let engine = Arc::clone(&instance.engine);
    let delivering = tokio::spawn(async move { deliveries::job::deliver(&engine).await });
    eventually("one is under way", async || hangs.count() == 1).await;

    let (due, saved) = (b"st:{boards}:webhooks-due", b"st:{boards}:saved");
    world.redis.run(&[b"RENAME", due, saved]).await;
    world.redis.run(&[b"SET", due, b"no sorted set"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.redis.run(&[b"RENAME", saved, due]).await;

    register(client, "good", everything(&good.url())).await;
    post(instance, &board, 2).await;
    instance.engine.run(&Outboxes).await.unwrap();
    eventually("the good one has it", async || good.count() == 1).await;
    assert!(!delivering.is_finished());
    delivering.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_answers_410_gets_nothing_until_it_is_enabled_again() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(503)).await;
    let secret = register(client, "site", everything(&receiver.url())).await;
    let board = board(instance, "b").await;
    post(instance, &board, 1).await;
    run(instance).await;
    receiver.set(Manner::Status(410));
    post(instance, &board, 2).await;
    run(instance).await;
    let shown = client.get("/v1/webhooks/site").await.expect(200);
    assert_eq!(shown["disabled_at"], "2026-11-23T00:10:00.000Z");
    assert_eq!(shown["disabled_because"], "the receiver returned 410");
    let dead = deliveries(client, "site", "status=dead").await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0]["last_status"], 410);
    receiver.set(Manner::Status(200));
    post(instance, &board, 3).await;
    advance(&world, Span::hours(1));
    run(instance).await;
    assert_eq!(receiver.count(), 2, "nothing is sent");
    let test = client.post("/v1/webhooks/site/test", json!({})).await;
    test.expect_problem(409, "webhook-disabled");
    let retry = format!(
        "/v1/webhooks/site/deliveries/{}/retry",
        dead[0]["id"].as_str().unwrap()
    );
    let refused = client.post(&retry, json!({})).await;
    refused.expect_problem(409, "webhook-disabled");
    let enabled = client
        .put("/v1/webhooks/site", everything(&receiver.url()))
        .await;
    assert_eq!(enabled.expect(200)["disabled_at"], Value::Null);
    run(instance).await;
    client.post(&retry, json!({})).await.expect(202);
    run(instance).await;
    let got = receiver.received();
    assert_eq!(got.len(), 4, "the first one again, and the dead letter");
    assert!(got.iter().all(|one| one.is_signed_by(&secret)));
    let revisions: Vec<_> = got
        .iter()
        .map(|one| one.json()["data"]["revision"].clone())
        .collect();
    assert_eq!(revisions, [1, 2, 1, 2], "the third was not for anybody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_fails_for_a_day_is_a_dead_letter_that_can_be_sent_again() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(500)).await;
    register(client, "site", everything(&receiver.url())).await;
    let board = board(instance, "b").await;
    for number in 1..=3 {
        post(instance, &board, number).await;
    }
    run(instance).await;
    for _ in 0..100 {
        let pending = deliveries(client, "site", "status=pending").await;
        let Some(due) = pending
            .iter()
            .map(|one| one["next_try_at"].as_str().unwrap())
            .min()
        else {
            break;
        };
        world.clock.set(Timestamp::parse(due).unwrap());
        run(instance).await;
    }
    let dead = deliveries(client, "site", "status=dead").await;
    assert_eq!(dead.len(), 3);
    assert_eq!(receiver.count(), 27);
    for one in &dead {
        assert_eq!(
            (&one["tries"], &one["next_try_at"]),
            (&json!(9), &Value::Null)
        );
        let last = Timestamp::parse(one["last_try_at"].as_str().unwrap()).unwrap();
        let hours = (last.ms() - Timestamp::parse(NOW).unwrap().ms()) / 3_600_000;
        assert!((21..=26).contains(&hours), "{one}");
    }
    // In parts, the list is the same.
    let mut parts = Vec::new();
    let mut path = "/v1/webhooks/site/deliveries?limit=1".to_owned();
    loop {
        let part = client.get(&path).await.expect(200);
        parts.extend(part["deliveries"].as_array().unwrap().clone());
        let Some(next) = part["next"].as_str() else {
            break;
        };
        path = format!("/v1/webhooks/site/deliveries?limit=1&after={next}");
    }
    assert_eq!(parts, dead);
    receiver.set(Manner::Status(200));
    let id = dead[1]["id"].as_str().unwrap();
    let retried = client
        .post(
            &format!("/v1/webhooks/site/deliveries/{id}/retry"),
            json!({}),
        )
        .await
        .expect(202);
    assert_eq!(
        (&retried["status"], &retried["id"]),
        (&json!("pending"), &json!(id))
    );
    run(instance).await;
    assert_eq!(receiver.received().last().unwrap().id(), id);
    let delivered = deliveries(client, "site", "status=delivered").await;
    assert_eq!((delivered.len(), &delivered[0]["tries"]), (1, &json!(10)));
    assert_eq!(deliveries(client, "site", "status=dead").await.len(), 2);
    let unknown = client
        .post("/v1/webhooks/site/deliveries/msg_0/retry", json!({}))
        .await;
    unknown.expect_problem(404, "delivery-not-found");
    for wrong in ["after=x", "status=gone", "limit=0"] {
        let path = format!("/v1/webhooks/site/deliveries?{wrong}");
        client
            .get(&path)
            .await
            .expect_problem(400, "invalid-parameter");
    }
    // What is at its end is kept for 30 days.
    advance(&world, Span::days(31));
    run(instance).await;
    assert!(deliveries(client, "site", "").await.is_empty());
    let left = world.redis.keys("st:{boards}:webhook-*").await;
    assert_eq!(left, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crash_loses_a_message_and_instances_share_the_work() {
    let world = World::sending(3, NOW, "").await;
    let client = world.client();
    let receiver = Receiver::start(Manner::Status(200)).await;
    register(client, "site", everything(&receiver.url())).await;
    let board = board(&world.instances[0], "b").await;
    for waits in 1..60 {
        let number = u32::from(waits);
        let [first, second, third] = &world.instances[..] else {
            panic!("three instances")
        };
        // Each of these is broken off somewhere, as if its process were killed there.
        let (store, message) = (&first.engine.store, message(&board, number));
        outbox::store::post(store, &board, std::slice::from_ref(&message))
            .await
            .unwrap();
        break_off(board_notes::note(store, NotedFor::Outbox, &board), waits).await;
        break_off(first.engine.run(&Outboxes), waits).await;
        break_off(deliveries::job::deliver(&first.engine), waits).await;
        // The step that has posted is done again, and notes again.
        board_notes::note(store, NotedFor::Outbox, &board)
            .await
            .unwrap();
        let (one, other) = tokio::join!(second.engine.run(&Outboxes), third.engine.run(&Outboxes));
        one.and(other).unwrap();
        // What the first had claimed is due again.
        advance(&world, Span::seconds(31));
        let (one, other) = tokio::join!(
            deliveries::job::deliver(&second.engine),
            deliveries::job::deliver(&third.engine)
        );
        one.and(other).unwrap();
        let got = receiver.received();
        let same = got.iter().filter(|one| one.id() == message.id.as_str());
        let count = same.count();
        assert!((1..=2).contains(&count), "{waits}: {count}");
    }
    let listed = deliveries(client, "site", "limit=1000").await;
    assert_eq!(listed.len(), 59);
    assert!(listed.iter().all(|one| one["status"] == "delivered"));
    assert_eq!(world.redis.keys("st:{boards}:outboxes").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_killed_between_outbox_and_delivery_loses_no_message() {
    let world = World::sending(2, NOW, "").await;
    let client = world.client();
    let receiver = Receiver::start(Manner::Status(200)).await;
    let secret = register(client, "site", everything(&receiver.url())).await;
    let board = board(&world.instances[0], "b").await;
    let [first, second] = &world.instances[..] else {
        panic!("two instances")
    };
    let restart = async || {
        world.redis.kill();
        world.redis.restart().await;
        for instance in &world.instances {
            eventually("the instance reaches all servers", async || {
                instance.engine.store.prepare().await.is_ok()
            })
            .await;
        }
    };
    for round in 0..12_u16 {
        let posted = post(first, &board, round.into()).await;
        let engine = &first.engine;
        if round % 4 != 0 {
            engine.run(&Outboxes).await.unwrap();
        }
        match round % 4 {
            // It lies in the outbox, or in the queue, or was claimed.
            0 | 1 => restart().await,
            2 => {
                break_off(deliveries::job::deliver(engine), round / 2).await;
                restart().await;
            }
            // It is on its way.
            _ => {
                let (_, ()) = tokio::join!(deliveries::job::deliver(engine), restart());
            }
        }
        // What the first had claimed is due again.
        advance(&world, Span::seconds(31));
        let engine = &second.engine;
        eventually("all is sent", async || {
            engine.run(&Outboxes).await.is_ok() && deliveries::job::deliver(engine).await.is_ok()
        })
        .await;
        let got = receiver.received().into_iter();
        let same: Vec<Received> = got.filter(|one| one.id() == posted.id.as_str()).collect();
        assert!((1..=2).contains(&same.len()), "{round}: {}", same.len());
        for one in same {
            assert_eq!(one.body, posted.body);
            assert!(one.is_signed_by(&secret));
        }
    }
    let listed = deliveries(client, "site", "limit=1000").await;
    assert_eq!(listed.len(), 12);
    assert!(listed.iter().all(|one| one["status"] == "delivered"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_result_and_revision_is_sent_wherever_instances_die() {
    let world = World::sending(2, "2026-11-20T00:00:00Z", "").await;
    let client = world.client();
    let receiver = Receiver::start(Manner::Status(200)).await;
    register(client, "site", everything(&receiver.url())).await;
    let definition = json!({"windows": ["hour"], "finalize": "0s", "shards": 2});
    client.define("b", definition).await;
    world.instances[1].engine.refresh_boards().await.unwrap();
    let told = |kind: &str| {
        let got = receiver.received().into_iter();
        let of_kind = got.filter(|one| one.json()["type"] == kind);
        let ids = of_kind.map(|one| (one.json()["data"]["key"].to_string(), one.id().to_owned()));
        ids.collect::<BTreeSet<_>>()
    };
    for hour in 0..24_u16 {
        let waits = hour * 4 + 1;
        let event = json!({"id": format!("e{hour}"), "member": "ann", "score": 1});
        client.post("/v1/boards/b/events", event).await.expect(200);
        advance(&world, Span::hours(1));
        // One instance dies after so many waits in each job, and another one goes on.
        let [dying, other] = &world.instances[..] else {
            panic!("two instances")
        };
        break_off(dying.engine.run(&ClosePeriods), waits).await;
        break_off(dying.engine.run(&Outboxes), waits).await;
        other.engine.run(&ClosePeriods).await.unwrap();
        run(other).await;
        assert_eq!(told("period.final").len(), usize::from(hour) + 1, "{waits}");
    }
    let first = receiver.received()[0].json();
    let data = json!({"board": "b", "window": "hour", "key": "2026-11-20T00:00Z", "revision": 1, "total": 1,
        "starts_at": "2026-11-20T00:00:00.000Z", "ends_at": "2026-11-20T01:00:00.000Z"});
    assert_eq!(first["data"], data);
    let hidden = json!({"reason": "cheating"});
    client
        .put("/v1/boards/b/hidden/ann", hidden)
        .await
        .expect(200);
    for waits in (1..200).step_by(9) {
        let dying = &world.instances[0].engine;
        break_off(dying.run(&Revisions), waits).await;
        break_off(dying.run(&Outboxes), waits).await;
    }
    world.instances[1].engine.run(&Revisions).await.unwrap();
    run(&world.instances[1]).await;
    for kind in ["member.hidden", "period.revised"] {
        assert_eq!(told(kind).len(), 1, "{kind}");
    }
    let names_nobody = |one: &Received| !one.body.contains("ann");
    assert!(receiver.received().iter().all(names_nobody));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_public_addresses_are_dialled_unless_private_ones_are_allowed() {
    let world = World::start(NOW).await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(200)).await;
    for url in [
        receiver.url(),
        format!("https://127.0.0.1:{}/hook", receiver.port),
        format!("https://[::ffff:127.0.0.1]:{}/hook", receiver.port),
        "https://169.254.169.254/latest".to_owned(),
        "https://ann:secret@app.example/".to_owned(),
    ] {
        let answer = client
            .put("/v1/webhooks/site", everything(&url))
            .await
            .expect(422);
        assert_eq!(answer["errors"][0]["pointer"], "/url", "{answer}");
    }
    let by_name = format!("https://localhost:{}/hook?x=1", receiver.port);
    register(client, "site", everything(&by_name)).await;
    client
        .post("/v1/webhooks/site/test", json!({}))
        .await
        .expect(202);
    deliveries::job::deliver(&instance.engine).await.unwrap();
    let [one] = &deliveries(client, "site", "").await[..] else {
        panic!("one is there")
    };
    let error = one["last_error"].as_str().unwrap();
    assert!(error.contains("the host has no public address"), "{error}");
    assert_eq!((&one["status"], receiver.count()), (&json!("pending"), 0));
    let mut many = everything("https://app.example/");
    for (field, wrong) in [
        ("events", json!([])),
        ("events", json!(["webhook.test"])),
        ("boards", json!([])),
        ("boards", json!(["a?"])),
        ("secret", json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
    ] {
        let before = many.clone();
        many[field] = wrong;
        let answer = client.put("/v1/webhooks/other", many).await;
        answer.expect_problem(422, "validation-failed");
        many = before;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_reaches_the_webhooks_of_its_boards_only() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    let grant = json!({"scopes": ["configure"], "boards": ["vote-*", "run"]});
    let (_, secret) = make_key(&admin, "site", grant).await;
    let client = world.client().with_key(&secret);
    let webhook = |boards: &[&str]| json!({"url": "https://app.example/", "events": ["period.final"], "boards": boards});
    for beyond in [&["*"][..], &["vote*"], &["vote-1", "other"], &["*-1"]] {
        let answer = client.put("/v1/webhooks/mine", webhook(beyond)).await;
        answer.expect_problem(403, "forbidden");
    }
    register(&client, "mine", webhook(&["vote-eu*", "run"])).await;
    register(&admin, "theirs", webhook(&["other", "run"])).await;
    let listed = client.get("/v1/webhooks").await.expect(200);
    assert_eq!(listed["webhooks"].as_array().unwrap().len(), 1);
    let all = admin.get("/v1/webhooks?limit=1").await.expect(200);
    assert_eq!(
        (&all["webhooks"][0]["name"], &all["next"]),
        (&json!("mine"), &json!("mine"))
    );
    let rest = admin.get("/v1/webhooks?after=mine").await.expect(200);
    assert_eq!(rest["webhooks"][0]["name"], "theirs");
    let theirs = "/v1/webhooks/theirs";
    let refused = [
        client.put(theirs, webhook(&["run"])).await,
        client.get(theirs).await,
        client.get(&format!("{theirs}/deliveries")).await,
        client.post(&format!("{theirs}/rotate"), json!({})).await,
        client.post(&format!("{theirs}/test"), json!({})).await,
        client
            .post(&format!("{theirs}/deliveries/msg_0/retry"), json!({}))
            .await,
        client.delete(theirs).await,
    ];
    for answer in refused {
        answer.expect_problem(403, "forbidden");
    }
    client.delete("/v1/webhooks/mine").await.expect(204);
    admin.get(theirs).await.expect(200);
    for number in 0..99 {
        register(&admin, &format!("w{number}"), webhook(&["*"])).await;
    }
    let one_more = admin.put("/v1/webhooks/more", webhook(&["*"])).await;
    one_more.expect_problem(409, "too-many-webhooks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_service_sends_its_messages_over_tls_after_a_restart() {
    let receiver = Receiver::start(Manner::Hangs).await;
    let front = TlsFront::before(&receiver.port.to_string()).await;
    let world = World::start(NOW).await;
    let start = async || {
        let url = world.redis.url();
        let mut command = program::command(&["--listen", "127.0.0.1:0", "--redis-url", &url]);
        command.env("SSL_CERT_FILE", authority());
        command.env("STANDINGS_WEBHOOK_ALLOW_PRIVATE", "true");
        Program::run_until_ready(&mut command).await
    };
    let mut program = start().await;
    let url = format!("https://localhost:{}/hook?x=1", front.port);
    let secret = register(&program.client(), "site", everything(&url)).await;
    let board = board(&world.instances[0], "b").await;
    let posted = post(&world.instances[0], &board, 1).await;
    eventually("the receiver has it and hangs", async || {
        receiver.count() == 1
    })
    .await;
    program.kill();
    receiver.set(Manner::Status(200));
    let program = start().await;
    eventually("it is sent again", async || receiver.count() == 2).await;
    let got = receiver.received();
    for one in &got {
        assert_eq!(one.id(), posted.id.as_str());
        assert!(one.is_signed_by(&secret));
    }
    eventually("it is delivered", async || {
        let delivered = deliveries(&program.client(), "site", "status=delivered").await;
        delivered.len() == 1
    })
    .await;
    let metrics = program.client().get("/metrics").await.text;
    assert!(metrics.contains("standings_webhook_tries_total{result=\"delivered\"} 1"));
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_bounded_and_further_messages_are_dead_letters() {
    let world = World::sending(1, NOW, "").await;
    let (instance, client) = (&world.instances[0], world.client());
    let receiver = Receiver::start(Manner::Status(200)).await;
    register(client, "site", everything(&receiver.url())).await;
    let (store, now) = (&instance.engine.store, world.clock.now());
    let name = WebhookName::parse("site").unwrap();
    let queued: Vec<_> = (0..10_000)
        .map(|number| NamedDelivery {
            id: MessageId::named(format!("msg_{number}")),
            delivery: Delivery::new("{}".to_owned(), now),
        })
        .collect();
    for part in queued.chunks(500) {
        let part = deliveries::store::queue(store, None, &name, part, now).await;
        part.unwrap();
    }
    let board = board(instance, "b").await;
    let posted = post(instance, &board, 1).await;
    instance.engine.run(&Outboxes).await.unwrap();
    let [dead] = &deliveries(client, "site", "status=dead").await[..] else {
        panic!("one is dead")
    };
    assert_eq!(dead["id"], posted.id.as_str());
    assert_eq!(dead["last_error"], "too many messages wait");
    assert_eq!(
        (&dead["tries"], &dead["last_try_at"]),
        (&json!(0), &Value::Null)
    );
    // The check of all keys knows what these are.
    let report = check::run(world.engine(), None, check::Repair::None)
        .await
        .unwrap();
    assert!(report.is_sound(), "{report:?}");
    let version = webhooks::store::load_all(store).await.unwrap().version;
    client
        .post("/v1/webhooks/site/rotate", json!({}))
        .await
        .expect(200);
    let stale = deliveries::store::queue(store, Some(&version), &name, &queued[..1], now).await;
    let is_stale = |queued| matches!(queued, Err(StoreError::Stale));
    assert!(is_stale(stale), "a webhook has changed");
    client.delete("/v1/webhooks/site").await.expect(204);
    let gone = deliveries::store::queue(store, None, &name, &queued[..1], now).await;
    assert!(is_stale(gone), "nothing is queued for one that is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_ends_when_nothing_is_due() {
    let world = World::start(NOW).await;
    let engine = &world.engine();
    for kind in [JobKind::Outboxes, JobKind::Webhooks] {
        worker::run(kind, engine).await.unwrap();
    }
}
