//! Redis that goes back: to a copy of older data, or to none. No version is used again, and all instances go on with what is
//! stored.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::redis::eventually;
use crate::harness::{Instance, RedisServer, World, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";

/// How Redis goes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// It is emptied.
    Flushed,
    /// It begins again with nothing.
    Empty,
    /// It begins again with a copy of its data.
    Copy,
    /// It loads its own data again: then nothing is lost.
    Reloaded,
}

struct Pair {
    redis: RedisServer,
    one: Instance,
    other: Instance,
    copy: TempDir,
}

impl Pair {
    async fn start() -> Self {
        let debug = ["--port", "0", "--enable-debug-command", "yes"];
        let redis = RedisServer::start_with(&debug).await;
        let clock = clock_at(NOW);
        let [one, other] = Instance::start_two(&redis.url(), &clock, |store| store).await;
        let copy = redis.copy_data();
        Self {
            redis,
            one,
            other,
            copy,
        }
    }

    /// Both of them.
    fn instances(&self) -> [&Instance; 2] {
        [&self.one, &self.other]
    }

    async fn refresh(&self) {
        for instance in self.instances() {
            instance.engine.refresh_boards().await.unwrap();
        }
    }

    async fn go(&self, way: Way) {
        match way {
            Way::Flushed => drop(self.redis.command("FLUSHALL").await),
            Way::Empty => self.redis.go_back(None).await,
            Way::Copy => self.redis.go_back(Some(&self.copy)).await,
            Way::Reloaded => drop(self.redis.command("DEBUG RELOAD").await),
        }
        for instance in self.instances() {
            eventually("the instance reaches redis", async || {
                instance.engine.store.check().await.is_ok()
                    && instance.engine.store.server_time_us().await.is_ok()
            })
            .await;
        }
    }

    /// Checks that both show this score of `a`, and the definition that is stored.
    async fn expect(&self, board: &str, score: Value) {
        let path = format!("/v1/boards/{board}");
        let mut versions = Vec::new();
        for instance in self.instances() {
            let page = instance.client.get(&format!("{path}/standings/all")).await;
            assert_eq!(page.expect(200)["entries"][0]["score"], score);
            let definition = instance.client.get(&path).await;
            versions.push(definition.headers["etag"].clone());
        }
        assert_eq!(versions[0], versions[1]);
    }
}

fn event(score: impl Into<Value>) -> Value {
    let score: Value = score.into();
    json!({"member": "a", "score": score})
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_agree_on_what_is_defined_after_redis_has_gone_back() {
    for way in [Way::Flushed, Way::Empty, Way::Copy] {
        let pair = Pair::start().await;
        let (one, other) = (&pair.one.client, &pair.other.client);
        for board in ["b", "c", "d"] {
            one.define(
                board,
                json!({"windows": ["all"], "decimals": 2, "score_max": 100}),
            )
            .await;
            let path = format!("/v1/boards/{board}/events");
            one.post(&path, event(json!(0.15))).await.expect(200);
            other.post(&path, event(json!(0.25))).await.expect(200);
            pair.expect(board, json!(0.4)).await;
        }
        pair.refresh().await;
        let before = one.get("/v1/boards/b").await.headers["etag"].clone();

        pair.go(way).await;
        other
            .define("b", json!({"windows": ["all"], "score_max": 100}))
            .await;
        other.define("c", json!({"windows": ["all"]})).await;
        let after = other.get("/v1/boards/b").await.headers["etag"].clone();
        assert_ne!(before, after, "{way:?}");
        // At once: each call names the version that it is for.
        let refused = one.post("/v1/boards/b/events", event(json!(0.5))).await;
        refused.expect_problem(422, "score-out-of-range");
        other
            .post("/v1/boards/b/events", event(json!(15)))
            .await
            .expect(200);
        pair.expect("b", json!(15)).await;
        // What is decided without a call, once it has looked.
        pair.refresh().await;
        one.post("/v1/boards/c/events", event(json!(500)))
            .await
            .expect(200);
        pair.expect("c", json!(500)).await;
        let gone = one.get("/v1/boards/d/standings/year").await;
        gone.expect_problem(404, "board-not-found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_not_used_again_after_redis_has_gone_back() {
    let mut pair = Pair::start().await;
    for board in ["b", "c"] {
        let definition = json!({"windows": ["all"], "score_max": 10});
        pair.one.client.define(board, definition).await;
    }
    pair.copy = pair.redis.copy_data();
    let (one, other) = (&pair.one.client, &pair.other.client);
    for board in ["b", "c"] {
        one.define(board, json!({"windows": ["all"], "score_max": 100}))
            .await;
        other
            .define(
                board,
                json!({"windows": ["all"], "score_max": 100, "title": "t"}),
            )
            .await;
    }
    pair.refresh().await;
    let lost = one.get("/v1/boards/b").await.headers["etag"].clone();

    pair.go(Way::Copy).await;
    other
        .define("b", json!({"windows": ["all"], "score_max": 1000}))
        .await;
    other
        .define("b", json!({"windows": ["all"], "score_max": 2000}))
        .await;
    let with_id = |score| json!({"id": "x", "member": "a", "score": score});
    one.post("/v1/boards/b/events", with_id(1500))
        .await
        .expect(200);
    pair.expect("b", json!(1500)).await;
    assert_ne!(one.get("/v1/boards/b").await.headers["etag"], lost);
    // This one was not defined again.
    pair.refresh().await;
    for instance in pair.instances() {
        let refused = instance
            .client
            .post("/v1/boards/c/events", event(json!(50)))
            .await;
        refused.expect_problem(422, "score-out-of-range");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_note_that_a_sharded_board_has_events_is_restored() {
    let mut pair = Pair::start().await;
    let definition = |decimals| json!({"windows": ["all"], "shards": 3, "decimals": decimals});
    pair.one.client.define("b", definition(0)).await;
    pair.refresh().await;
    pair.copy = pair.redis.copy_data();
    let (one, other) = (&pair.one.client, &pair.other.client);
    one.post("/v1/boards/b/events", event(json!(1)))
        .await
        .expect(200);

    pair.go(Way::Copy).await;
    pair.refresh().await;
    one.post("/v1/boards/b/events", event(json!(1)))
        .await
        .expect(200);
    let refused = other.put("/v1/boards/b", definition(2)).await;
    refused.expect_problem(409, "board-in-use");
    pair.expect("b", json!(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_reloads_its_own_data_changes_nothing() {
    let pair = Pair::start().await;
    let (one, other) = (&pair.one.client, &pair.other.client);
    one.define("b", json!({"windows": ["all", "last-2-days"]}))
        .await;
    one.post("/v1/boards/b/events", event(json!(1)))
        .await
        .expect(200);
    pair.go(Way::Reloaded).await;
    pair.refresh().await;
    other
        .post("/v1/boards/b/events", event(json!(2)))
        .await
        .expect(200);
    pair.expect("b", json!(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_are_listed_again_if_only_the_server_of_the_list_has_gone_back() {
    let world = World::with_instances(2, NOW).await;
    let [one, other] = &world.instances[..] else {
        panic!("two instances")
    };
    for board in ["b", "c"] {
        one.client.define(board, json!({"windows": ["all"]})).await;
    }
    for instance in [one, other] {
        instance.engine.refresh_boards().await.unwrap();
    }
    for key in world.redis.keys("st:{boards}:*").await {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    let list = async |instance: &Instance| {
        let list = instance.client.get("/v1/boards").await.expect(200);
        list["boards"].as_array().unwrap().len()
    };
    assert_eq!(list(one).await, 0);
    other.engine.refresh_boards().await.unwrap();
    assert_eq!(list(one).await, 2);
    other
        .client
        .define("c", json!({"windows": ["all", "day"]}))
        .await;
    one.client
        .get("/v1/boards/c/standings/day")
        .await
        .expect_problem(404, "unknown-window");
    one.engine.refresh_boards().await.unwrap();
    one.client
        .get("/v1/boards/c/standings/day")
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_definition_overtakes_shards_that_know_a_later_one_than_is_stored() {
    let world = World::with_instances(2, NOW).await;
    let [one, other] = &world.instances[..] else {
        panic!("two instances")
    };
    let definition = json!({"windows": ["all"], "shards": 3, "score_max": 10});
    one.client.define("b", definition).await;
    let path = "/v1/boards/b/events";
    one.client.post(path, event(json!(1))).await.expect(200);
    other.client.post(path, event(json!(1))).await.expect(200);
    // The server of the definition has gone back to one before this.
    let lost = format!("{}-8000000000000000", world.generation("b").await);
    for shard in 0..3 {
        let head = format!("st:{{b:3:{shard}}}");
        let set = [&b"HSET"[..], head.as_bytes(), b"version", lost.as_bytes()];
        world.redis.run(&set).await;
    }
    for instance in [one, other] {
        instance
            .client
            .post(path, event(json!(1)))
            .await
            .expect(200);
        instance.engine.refresh_boards().await.unwrap();
    }
    for instance in [other, one] {
        let page = instance.client.get("/v1/boards/b/standings/all").await;
        assert_eq!(page.expect(200)["entries"][0]["score"], 4);
    }
}
