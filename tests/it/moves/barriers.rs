//! The barrier of a shard: what was planned before it was raised, by any instance, changes nothing that lies before it.

use serde_json::{Value, json};
use standings::check;
use standings::core::Engine;
use standings::domain::ids::BoardId;
use standings::domain::time::Timestamp;
use standings::periods::closings::barriers;
use standings::periods::closings::store::{LogEnds, raise_barrier};

use crate::harness::delay::Delay;
use crate::harness::redis::eventually;
use crate::harness::servers::free_ports;
use crate::harness::{Client, Instance, RedisServer, World, clock_at};

const EVENING: &str = "2026-11-20T23:30:00Z";
const MIDNIGHT: &str = "2026-11-21T00:00:00Z";
const MORNING: &str = "2026-11-21T08:00:00Z";

async fn world(now: &str, definition: Value) -> World {
    let world = World::with_instances(2, now).await;
    world.client().define("b", definition).await;
    world
}

/// Raises the barriers of the board.
async fn close(engine: &Engine, until: &str) {
    let (id, until) = (
        BoardId::parse("b").unwrap(),
        Timestamp::parse(until).unwrap(),
    );
    barriers::close_shards(engine, &id, until, None)
        .await
        .unwrap();
}

fn event(id: &str, member: &str, at: &str) -> Value {
    json!({"id": id, "member": member, "score": 1, "at": at})
}

async fn send(client: &Client, event: Value) -> Value {
    client.post("/v1/boards/b/events", event).await.expect(200)
}

/// Members and scores of a page.
async fn page(client: &Client, standing: &str) -> Vec<Value> {
    let path = format!("/v1/boards/b/standings/{standing}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| json!([entry["member"], entry["score"]]))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_before_the_barrier_are_refused_unless_accepted_earlier() {
    for shards in [1, 4] {
        let definition = json!({"windows": ["day", "week", "last-2-days"], "shards": shards});
        let world = world(MORNING, definition).await;
        let [client, other] = [0, 1].map(|place| &world.instances[place].client);
        send(client, event("first", "ann", EVENING)).await;
        close(world.engine(), MIDNIGHT).await;

        let late = client
            .post("/v1/boards/b/events", event("late", "ann", EVENING))
            .await;
        let detail = late.expect_problem(409, "period-closed");
        assert!(detail.contains("2026-11-21T00:00:00.000Z"), "{detail}");
        let again = send(other, event("first", "ann", EVENING)).await;
        assert_eq!(again["status"], "duplicate");
        assert_eq!(again["standings"][0]["score"], 1);
        let mut reused = event("first", "ann", EVENING);
        reused["score"] = json!(2);
        let reused = other.post("/v1/boards/b/events", reused).await;
        reused.expect_problem(422, "event-id-reused");
        // A closed instant is refused for all windows: the week goes on without it.
        let batch = json!({"events": [
            {"board": "b", "member": "bob", "score": 5, "at": "2026-11-20T23:59:59.999Z"},
            {"board": "b", "member": "bob", "score": 7, "at": MIDNIGHT}]});
        let results = client.post("/v1/events", batch).await.expect(200);
        let first = &results["results"][0];
        assert_eq!(
            (&first["status"], &first["problem"]["code"]),
            (&json!("rejected"), &json!("period-closed"))
        );
        assert_eq!(
            page(client, "week").await,
            [json!(["bob", 7]), json!(["ann", 1])]
        );
        assert_eq!(page(other, "day?key=2026-11-20").await, [json!(["ann", 1])]);
        let rolling = page(other, "last-2-days").await;
        assert_eq!(rolling, [json!(["bob", 7]), json!(["ann", 1])]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_at_counts_at_the_first_open_instant() {
    let quotas = json!([{"name": "once", "by": ["member"], "window": "total", "max": 2}]);
    for (shards, quotas) in [(1, json!([])), (1, quotas.clone()), (4, quotas)] {
        let definition = json!({"windows": ["day"], "shards": shards, "quotas": quotas,
            "closes_at": "2026-11-22T00:00:00Z"});
        // The clock of this instance is behind that of whoever has closed the day.
        let world = world(EVENING, definition).await;
        let client = world.client();
        close(&world.instances[1].engine, MIDNIGHT).await;
        let outcome = send(client, json!({"id": "x", "member": "ann", "score": 1})).await;
        assert_eq!(outcome["standings"][0]["key"], "2026-11-21");
        let outcome = client
            .post("/v1/boards/b/events", json!({"member": "ann", "score": 1}))
            .await
            .expect(200);
        assert_eq!(outcome["standings"][0]["score"], 2);
        assert!(page(client, "day?key=2026-11-20").await.is_empty());

        // An event that is refused uses up nothing.
        let refused = json!({"id": "y", "member": "bob", "score": 1, "at": EVENING});
        let refused = client.post("/v1/boards/b/events", refused).await;
        refused.expect_problem(409, "period-closed");
        for id in ["bob-1", "bob-2"] {
            send(client, json!({"id": id, "member": "bob", "score": 1})).await;
        }
        // Behind the end of the board there is no open instant.
        close(&world.instances[1].engine, "2026-11-22T00:00:00Z").await;
        for event in [
            json!({"member": "cid", "score": 1}),
            json!({"id": "z", "member": "cid", "score": 1}),
        ] {
            let closed = client.post("/v1/boards/b/events", event).await;
            closed.expect_problem(409, "board-closed");
        }
    }
}

/// Gives members initial scores, or takes them away.
async fn set_initial(client: &Client, scores: Value) {
    let path = "/v1/boards/b/initial-scores";
    let set = client.patch(path, json!({"scores": scores})).await;
    set.expect(200);
}

/// Has the derived standings of the board made anew.
async fn forget_derived(world: &World) {
    for pattern in ["st:{b*:d:initial-*", "st:{b*:state:initial-*"] {
        for key in world.redis.keys(pattern).await {
            eventually("the key is gone", async || {
                world.redis.run(&[b"UNLINK", key.as_bytes()]).await;
                world.redis.keys(&key).await.is_empty()
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_period_keeps_the_initial_scores_of_its_closing() {
    for ties in ["first", "member"] {
        let definition = json!({"windows": ["hour", "day", "all"], "initial": ["day", "all"], "ties": ties, "shards": 2,
            "weight": {"default": 1}});
        let world = world(MORNING, definition).await;
        let [client, other] = [0, 1].map(|place| &world.instances[place].client);
        set_initial(client, json!({"ann": 10, "bob": 5, "cid": 1})).await;
        for event in [event("1", "ann", EVENING), event("2", "dora", EVENING)] {
            send(client, event).await;
        }
        let [ann, bob] = [json!(["ann", 11]), json!(["bob", 5])];
        let closed = [ann, bob, json!(["cid", 1]), json!(["dora", 1])];
        let yesterday = "day?key=2026-11-20";
        assert_eq!(page(client, yesterday).await, closed);
        close(world.engine(), MIDNIGHT).await;

        set_initial(other, json!({"ann": 20, "bob": null, "eve": 7})).await;
        set_initial(client, json!({"ann": 30, "cid": 2, "dora": null})).await;
        let open = [json!(["ann", 30]), json!(["eve", 7]), json!(["cid", 2])];
        let check = async |days: &[&str]| {
            for day in days {
                assert_eq!(page(client, day).await, closed, "{day}");
            }
            assert_eq!(page(other, "day").await, open);
            let all = page(client, "all").await;
            assert_eq!(all[0], json!(["ann", 31]));
        };
        check(&[yesterday]).await;
        // However often they are made anew, and wherever.
        forget_derived(&world).await;
        check(&[yesterday]).await;
        world.move_to("b", 5).await;
        check(&[yesterday]).await;
        forget_derived(&world).await;
        let report = check::run(world.engine(), None, check::Repair::None)
            .await
            .unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
        check(&[yesterday]).await;
        // A period without events had the initial scores alone.
        let before = page(other, "day?key=2026-11-19").await;
        assert_eq!(
            before,
            [json!(["ann", 10]), json!(["bob", 5]), json!(["cid", 1])]
        );

        // The barrier of an hour does not close the day.
        close(world.engine(), MORNING).await;
        set_initial(client, json!({"ann": 40})).await;
        assert_eq!(page(client, "day").await[0], json!(["ann", 40]));
        assert_eq!(page(client, yesterday).await, closed);
        let report = check::run(world.engine(), None, check::Repair::None)
            .await
            .unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_board_closes_all_time() {
    let definition = json!({"windows": ["all"], "initial": ["all"], "closes_at": MIDNIGHT});
    let world = world(MORNING, definition).await;
    let client = world.client();
    set_initial(client, json!({"ann": 10})).await;
    send(client, event("1", "ann", EVENING)).await;
    assert_eq!(page(client, "all").await, [json!(["ann", 11])]);
    close(world.engine(), MIDNIGHT).await;
    set_initial(client, json!({"ann": 20, "bob": 1})).await;
    assert_eq!(page(client, "all").await, [json!(["ann", 11])]);
    forget_derived(&world).await;
    assert_eq!(page(client, "all").await, [json!(["ann", 11])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_keeps_the_barrier_even_if_only_some_shards_have_it() {
    let world = world(MORNING, json!({"windows": ["day"], "shards": 4})).await;
    let client = world.client();
    send(client, event("first", "ann", EVENING)).await;
    let engine = world.engine();
    let id = BoardId::parse("b").unwrap();
    let board = engine.board(&id).await.unwrap();
    let until = Timestamp::parse(MIDNIGHT).unwrap();
    // Whoever closes the board dies half-way.
    let shard = &board.shards()[2];
    raise_barrier(&engine.store, shard, until, None, LogEnds::NoLog)
        .await
        .unwrap();
    for shards in [3, 1, 2] {
        world.move_to("b", shards).await;
        for member in ["ann", "bob", "cid", "dora"] {
            let late = client
                .post("/v1/boards/b/events", event("late", member, EVENING))
                .await;
            late.expect_problem(409, "period-closed");
        }
        let again = send(client, event("first", "ann", EVENING)).await;
        assert_eq!(again["status"], "duplicate");
    }
    assert_eq!(
        page(client, "day?key=2026-11-20").await,
        [json!(["ann", 1])]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_delayed_past_the_closing_changes_nothing() {
    let port = free_ports()[0].to_string();
    let redis = RedisServer::start_with(&["--port", &port, "--bind", "127.0.0.1"]).await;
    let delay = Delay::before(&port).await;
    let clock = clock_at("2026-11-20T23:59:59.900Z");
    let slow_url = format!("redis://127.0.0.1:{}", delay.port);
    let slow = Instance::start(&slow_url, clock.clone(), "").await;
    let fast = Instance::start(&redis.url(), clock.clone(), "").await;
    let quotas = json!([{"name": "once", "by": ["member"], "window": "total", "max": 9}]);
    for (round, quotas) in [json!([]), quotas].into_iter().enumerate() {
        clock.set(Timestamp::parse("2026-11-20T23:59:59.900Z").unwrap());
        let board = json!({"windows": ["day", "last-2-days"], "shards": 4, "quotas": quotas});
        fast.client.delete("/v1/boards/b").await;
        fast.client.define("b", board).await;
        send(
            &slow.client,
            event(&format!("first-{round}"), "ann", EVENING),
        )
        .await;

        delay.hold(true);
        // In two shards, so that neither waits for the other.
        let ids = ["alice", "bob"].map(|member| format!("{member}-{round}"));
        let late = event(&ids[0], "alice", EVENING);
        let counts = json!({"id": ids[1], "member": "bob", "score": 1});
        let held = [late, counts].map(|event| {
            let client = slow.client.clone();
            tokio::spawn(async move { client.post("/v1/boards/b/events", event).await })
        });
        // With a quota both may want to reserve in the same shard, one after the other.
        for id in &ids[..2 - round] {
            eventually("the call is held up", async || delay.is_holding(id)).await;
        }
        clock.set(Timestamp::parse("2026-11-21T00:10:00Z").unwrap());
        close(&fast.engine, MIDNIGHT).await;
        let windows = ["day?key=2026-11-20", "last-2-days?key=2026-11-20"];
        for window in windows {
            assert_eq!(page(&fast.client, window).await, [json!(["ann", 1])]);
        }
        delay.hold(false);
        let [late, counts] = held;
        late.await.unwrap().expect_problem(409, "period-closed");
        let counts = counts.await.unwrap().expect(200);
        assert_eq!(counts["standings"][0]["key"], "2026-11-21");
        for client in [&slow.client, &fast.client] {
            for window in windows {
                assert_eq!(page(client, window).await, [json!(["ann", 1])]);
            }
            assert_eq!(page(client, "day").await, [json!(["bob", 1])]);
        }
    }
}

/// Sends events of yesterday until each is taken or refused; returns which were taken.
async fn send_each(client: &Client, board: usize, events: usize) -> Vec<bool> {
    let mut taken = Vec::new();
    for number in 0..events {
        let member = format!("m{}", number % 7);
        let event = event(&format!("{board}-{number}"), &member, EVENING);
        let path = format!("/v1/boards/b{board}/events");
        let answer = client.post(&path, event).await;
        let is_taken = answer.status.as_u16() == 200;
        if !is_taken {
            answer.expect_problem(409, "period-closed");
        }
        taken.push(is_taken);
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_read_stays_valid_whatever_dies_during_the_closing() {
    const EVENTS: usize = 60;
    let world = World::with_instances(3, MORNING).await;
    for board in 0..4 {
        let definition = json!({"windows": ["day"], "shards": 1 + 3 * (board % 2)});
        world
            .client()
            .define(&format!("b{board}"), definition)
            .await;
        let id = BoardId::parse(&format!("b{board}")).unwrap();
        let until = Timestamp::parse(MIDNIGHT).unwrap();
        let closers = [1, 2].map(|place| {
            let (engine, id) = (&world.instances[place].engine, &id);
            eventually("the board is closed", async move || {
                barriers::close_shards(engine, id, until, None)
                    .await
                    .is_ok()
            })
        });
        let [first, second] = closers;
        let sent = send_each(world.client(), board, EVENTS);
        let killed = async {
            world.redis.kill_one(board).await;
            tokio::join!(first, second)
        };
        let (taken, _) = tokio::join!(sent, killed);
        let total = async |place: usize| {
            let path = format!("/v1/boards/b{board}/standings/day?key=2026-11-20");
            let page = world.instances[place].client.get(&path).await.expect(200);
            let entries = page["entries"].as_array().unwrap().iter();
            let scores = entries.map(|entry| entry["score"].as_u64().unwrap());
            scores.sum::<u64>()
        };
        let expected = taken.iter().filter(|taken| **taken).count() as u64;
        assert_eq!(total(1).await, expected);
        world.redis.kill_one(board + 1).await;
        let again = send_each(&world.instances[2].client, board, EVENTS).await;
        assert_eq!(
            again, taken,
            "what was taken is known, and the rest refused"
        );
        assert_eq!(total(0).await, expected);
    }
}
