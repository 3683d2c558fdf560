//! Boards of several shards: each answer is that of the same board with one.

use serde_json::{Value, json};

use crate::harness::client::take_revisions;
use crate::harness::jobs::{Purge, Rollover};
use crate::harness::random::{Random, case_count, seed, some_of};
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

/// A board with one shard and the same with several.
const BOARDS: [(&str, u16); 4] = [("one", 1), ("two", 2), ("seven", 7), ("many", 16)];

async fn world(definition: &Value) -> World {
    let world = World::with_instances(2, NOW).await;
    for (board, shards) in BOARDS {
        let mut definition = definition.clone();
        definition["shards"] = json!(shards);
        world.client().define(board, definition).await;
    }
    world
}

fn names() -> [&'static str; 4] {
    BOARDS.map(|(name, _)| name)
}

async fn send(client: &Client, events: &[Value]) {
    send_to(client, &names(), events).await;
}

/// Sends the same events to some boards, and checks that the same becomes of them.
pub async fn send_to(client: &Client, boards: &[&str], events: &[Value]) {
    let mut first: Option<Value> = None;
    for board in boards {
        let events: Vec<Value> = events
            .iter()
            .map(|event| {
                let mut event = event.clone();
                event["board"] = json!(board);
                event
            })
            .collect();
        let answer = client
            .post("/v1/events?standings=false", json!({"events": events}))
            .await;
        let mut results = same(&answer.expect(200).to_string(), board);
        // Without `at` each board's event has a time of its own.
        let both = results["results"].as_array_mut().unwrap().iter_mut();
        for (result, _) in both.zip(&events).filter(|(_, event)| event["at"].is_null()) {
            result.as_object_mut().unwrap().remove("at");
        }
        let first = first.get_or_insert_with(|| results.clone());
        let both = results["results"].as_array().unwrap().iter();
        for (one, other) in both.zip(first["results"].as_array().unwrap()) {
            assert_eq!(one, other, "{board}");
        }
    }
}

/// An answer with the board's name taken out.
fn same(text: &str, board: &str) -> Value {
    let text = text
        .replace(&format!("\"{board}\""), "\"board\"")
        .replace(&format!("board {board}"), "board board");
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    take_revisions(&mut answer);
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("request_id");
    }
    answer
}

async fn read(world: &World, random: &mut Random, what: &str) -> Value {
    read_of(world, &names(), random, what).await
}

/// Reads the same of some boards, and returns it.
pub async fn read_of(world: &World, boards: &[&str], random: &mut Random, what: &str) -> Value {
    let mut first: Option<Value> = None;
    for board in boards {
        let client = &world.instances[random.below(2)].client;
        let path = format!("/v1/boards/{board}/standings/{what}");
        let answer = same(&client.get(&path).await.text, board);
        let first = first.get_or_insert_with(|| answer.clone());
        assert!(
            answer == *first,
            "{path}\n     got {answer}\nexpected {first}"
        );
    }
    first.unwrap()
}

/// Many members with few scores and few times, so that most are tied.
pub fn events(random: &mut Random, members: usize, count: usize) -> Vec<Value> {
    let event = |_| {
        let member = random.below(members);
        let (minute, day) = (random.below(4), 20 + random.below(2));
        let voter = format!("v{}", random.below(members / 2));
        json!({"member": format!("m{member}"), "score": 1 + random.below(3), "voter": voter,
            "at": format!("2026-11-{day}T11:5{minute}:00Z")})
    };
    (0..count).map(event).collect()
}

async fn compare_everything(world: &World, random: &mut Random, members: usize, window: &str) {
    compare_all_of(world, &names(), random, members, window).await;
}

/// Compares everything that can be read of a window of some boards.
pub async fn compare_all_of(
    world: &World,
    boards: &[&str],
    random: &mut Random,
    members: usize,
    window: &str,
) {
    let total = read_of(world, boards, random, window).await["total"]
        .as_u64()
        .unwrap();
    for size in [1, 7, 50, 1000] {
        for _ in 0..case_count(1) {
            let page = 1 + random.below(usize::try_from(total / size).unwrap() + 2);
            let me = random.below(members);
            let what = format!("{window}?page={page}&size={size}&member=m{me}");
            read_of(world, boards, random, &what).await;
        }
    }
    for around in [0, 1, 5, 100] {
        for _ in 0..case_count(1) {
            let member = random.below(members + 1);
            let what = format!("{window}/members/m{member}?around={around}");
            read_of(world, boards, random, &what).await;
        }
    }
    for _ in 0..case_count(2) {
        let score = [-1, 0, 1, 2, 3, 5, 40][random.below(7)];
        let size = [1, 7, 50][random.below(3)];
        let what = format!("{window}?around_score={score}&size={size}");
        read_of(world, boards, random, &what).await;
        let page = 1 + random.below(3);
        let to = score + i64::try_from(random.below(3)).unwrap();
        let what = format!("{window}?from_score={score}&to_score={to}&size={size}&page={page}");
        read_of(world, boards, random, &what).await;
        let what = format!("{window}/at-percentile/{}", random.below(101));
        read_of(world, boards, random, &what).await;
    }
    let ids: Vec<String> = (0..20)
        .map(|_| format!("m{}", random.below(members + 5)))
        .collect();
    let what = format!("{window}/members?ids={}", ids.join(","));
    read_of(world, boards, random, &what).await;
    read_of(world, boards, random, &format!("{window}/stats")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sharded_reads_equal_those_of_one_list() {
    let members = 3_000;
    let boards = [
        ("first", "ordinal", "desc", json!("member")),
        ("member", "competition", "asc", json!("board")),
        ("last", "competition", "desc", Value::Null),
    ];
    for (ties, ranking, order, uniques) in some_of(boards, 3) {
        let mut random = Random::new(seed(7));
        let definition = json!({
            "windows": ["day", "all", "last-2-days"], "ties": ties, "ranking": ranking, "order": order,
            "uniques": uniques});
        let world = world(&definition).await;
        for _ in 0..6 {
            send(world.client(), &events(&mut random, members, 1_000)).await;
        }
        for window in ["day", "last-2-days", "all"] {
            compare_everything(&world, &mut random, members, window).await;
        }
        // A rolling standing that nobody has built yet, in any of the shards.
        world.set_time("2026-11-22T00:00:00Z");
        compare_everything(&world, &mut random, members, "last-2-days").await;
        let last = read(&world, &mut random, "all?page=1000000000&size=1000").await;
        assert_eq!(last["entries"], json!([]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_with_members_of_only_one_shard_is_found() {
    let world = world(&json!({"windows": ["all"], "ties": "member"})).await;
    let mut random = Random::new(1);
    // The best of all lie in one of two shards: their ids are chosen so.
    let shards = 2;
    let of_shard = |member: &String| xxhash_rust::xxh3::xxh3_64(member.as_bytes()) % shards;
    let members: Vec<String> = (0..2_000).map(|number| format!("m{number}")).collect();
    let events: Vec<Value> = members
        .iter()
        .map(|member| json!({"member": member, "score": if of_shard(member) == 0 { 1000 } else { 1 }}))
        .collect();
    for events in events.chunks(1_000) {
        send(world.client(), events).await;
    }
    for page in [1, 2, 9, 10, 11, 20, 21] {
        read(&world, &mut random, &format!("all?page={page}&size=100")).await;
    }
}

/// All initial scores that are listed, in parts.
async fn initial_scores(client: &Client, board: &str) -> Vec<Value> {
    let path = format!("/v1/boards/{board}/initial-scores");
    let mut list = client.get(&format!("{path}?limit=7")).await.expect(200);
    let mut scores = Vec::new();
    loop {
        scores.extend(list["entries"].as_array().unwrap().clone());
        let Some(next) = list["next"].as_str() else {
            return scores;
        };
        list = client
            .get(&format!("{path}?limit=30&after={next}"))
            .await
            .expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sharded_weights_initial_scores_and_short_lists_equal_those_of_one_list() {
    let mut random = Random::new(3);
    let definition = json!({
        "windows": ["day", "all"], "score_min": 1, "keep_top": 100, "initial": ["day"], "ranking": "competition",
        "weight": {"default": 2, "members": {"m1": 5}}});
    let world = world(&definition).await;
    let members = 400;
    send(world.client(), &events(&mut random, members, 1_000)).await;
    let scores: serde_json::Map<String, Value> = (0..200)
        .map(|number| (format!("m{}", number * 3), json!(number % 5)))
        .collect();
    for (board, _) in BOARDS {
        let answer = world
            .client()
            .patch(
                &format!("/v1/boards/{board}/initial-scores"),
                json!({"scores": scores}),
            )
            .await;
        assert_eq!(answer.expect(200)["members"], 200);
        let initial = initial_scores(world.client(), board).await;
        assert_eq!(initial.len(), 100, "as many as are listed");
        assert_eq!(initial, initial_scores(world.client(), BOARDS[0].0).await);
    }
    for window in ["day", "all"] {
        compare_everything(&world, &mut random, 650, window).await;
        read(&world, &mut random, &format!("{window}?raw=true")).await;
    }
    world.set_time("2026-11-22T12:00:00Z");
    compare_everything(&world, &mut random, 650, "day").await;
    for (board, _) in BOARDS {
        world
            .client()
            .delete(&format!("/v1/boards/{board}"))
            .await
            .expect(204);
    }
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(world.keys_of_boards().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sharded_batches_that_use_up_quotas_end_as_on_one_list() {
    let mut random = Random::new(11);
    let definition = json!({
        "windows": ["day", "all"], "ties": "member", "score_max": 4, "quotas": [
            {"name": "attempts", "by": ["member"], "window": "day", "max": 9},
            {"name": "minute", "by": ["voter"], "window": "1m", "max": 2,
             "extra": [{"channel": ["partner"], "max": 1}]},
            {"name": "points", "by": ["voter", "member"], "window": "hour", "max": 7, "measure": "score"},
            {"name": "device", "by": ["device"], "window": "total", "max": 30}]});
    let world = world(&definition).await;
    let mut sent = Vec::new();
    for _ in 0..12 {
        let mut batch = Vec::new();
        for _ in 0..60 {
            if !sent.is_empty() && random.below(6) == 0 {
                batch.push(Value::clone(&sent[random.below(sent.len())]));
                continue;
            }
            let mut event = json!({
                "member": format!("m{}", random.below(20)), "score": 1 + random.below(5),
                "voter": format!("v{}", random.below(6)), "device": format!("d{}", random.below(4)),
                "at": format!("2026-11-21T11:5{}:{}0Z", random.below(3), random.below(6))});
            if random.below(2) == 0 {
                event["channel"] = json!("partner");
            }
            if random.below(4) > 0 {
                event["id"] = json!(format!("e{}", sent.len()));
                sent.push(event.clone());
            }
            batch.push(event);
        }
        send(world.client(), &batch).await;
    }
    for window in ["day", "all"] {
        compare_everything(&world, &mut random, 20, window).await;
    }
    let mut first = None;
    for (board, _) in BOARDS {
        let path =
            format!("/v1/boards/{board}/quotas?voter=v1&member=m1&device=d1&channel=partner");
        let quotas = world.client().get(&path).await.expect(200)["quotas"].clone();
        assert_eq!(
            quotas,
            *first.get_or_insert_with(|| quotas.clone()),
            "{board}"
        );
    }
    assert_eq!(world.redis.keys("st:*:reserved").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_shards_do_not_support_are_refused_and_definitions_apply_to_all_shards() {
    let world = World::with_instances(2, NOW).await;
    let [client, other] = [&world.instances[0].client, &world.instances[1].client];
    client
        .define("b", json!({"windows": ["day"], "shards": 4}))
        .await;
    let event = json!({"member": "a", "score": 1, "id": "x"});
    client
        .post("/v1/boards/b/events?ranks=true", event.clone())
        .await
        .expect_problem(400, "invalid-parameter");
    other
        .post("/v1/boards/b/events", event.clone())
        .await
        .expect(200);
    let again = client.post("/v1/boards/b/events", event).await.expect(200);
    assert_eq!(again["status"], "duplicate");
    client
        .put(
            "/v1/boards/b",
            json!({"windows": ["day"], "shards": 4, "ranking": "dense"}),
        )
        .await
        .expect_problem(422, "validation-failed");
    // A change that one instance makes holds for the events of the other at once, in every shard.
    client
        .put(
            "/v1/boards/b",
            json!({"windows": ["day"], "shards": 4, "score_max": 5}),
        )
        .await
        .expect(200);
    for member in 0..20 {
        other
            .post(
                "/v1/boards/b/events",
                json!({"member": member.to_string(), "score": 6}),
            )
            .await
            .expect_problem(422, "score-out-of-range");
    }
    client.delete("/v1/boards/b").await.expect(204);
    client
        .define("b", json!({"windows": ["day"], "shards": 4}))
        .await;
    other
        .post("/v1/boards/b/events", json!({"member": "a", "score": 4}))
        .await
        .expect(200);
    world.engine().run(&Purge).await.unwrap();
    let page = other.get("/v1/boards/b/standings/day").await.expect(200);
    assert_eq!(page["entries"][0]["score"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_stays_incomplete_until_every_shard_has_the_new_definition() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    let definition = json!({"windows": ["day", "last-2-days"], "shards": 2});
    client.define("b", definition).await;
    send_to(client, &["b"], &events(&mut Random::new(3), 20, 40)).await;
    world.set_time("2026-11-22T12:00:00Z");
    let older = format!("{}-0", world.generation("b").await);
    let set = ["HSET", "st:{b:2:0}", "version", &older].map(str::as_bytes);
    world.redis.run(&set).await;
    for (run, is_complete) in [(1, false), (2, true)] {
        world.engine().run(&Rollover).await.unwrap();
        let ready = client.get("/readyz").await.expect(200);
        assert_eq!(ready["windows_complete"], is_complete, "after run {run}");
        let built = world.redis.keys("st:{b:2:?}:*:last-2-days:2026-11-22");
        assert_eq!(built.await.len() >= 2, is_complete);
    }
}
