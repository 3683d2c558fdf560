//! Revisions of standings: what changes them, and reads that wait for them.

use reqwest::StatusCode;
use serde_json::json;

use crate::harness::client::Answer;
use crate::harness::{Client, World};

const DAY: &str = "/v1/boards/b/standings/day";

async fn world(instances: usize) -> World {
    let world = World::with_instances(instances, "2026-11-21T12:00:00Z").await;
    let definition =
        json!({"windows": ["day", "last-2-days"], "initial": ["day"], "finalize": "10m"});
    world.client().define("b", definition).await;
    world
}

async fn send(client: &Client, member: &str) -> Answer {
    let event = json!({"member": member, "score": 1});
    let answer = client.post("/v1/boards/b/events", event).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

async fn revision(client: &Client) -> String {
    client.get(DAY).await.revision.unwrap()
}

fn tag(answer: &Answer) -> String {
    answer.headers["etag"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_page_is_not_read() {
    let world = world(2).await;
    let client = world.client();
    send(client, "ann").await;
    let page = client.get(DAY).await;
    // No script has written this, so no revision tells it: who reads the page sees it.
    let keys = world.redis.keys("st:{*:d:initial-day:2026-11-21").await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    world
        .redis
        .run(&[b"ZADD", keys[0].as_bytes(), b"-9", b"\0\0\0\0\0\0cid"])
        .await;
    assert_ne!(client.get(DAY).await.json, page.json);
    for instance in &world.instances {
        let known = instance.client.get_unless(DAY, &tag(&page)).await;
        assert_eq!(known.status, StatusCode::NOT_MODIFIED);
        assert_eq!(tag(&known), tag(&page));
        assert_eq!(
            known.headers["cache-control"],
            page.headers["cache-control"]
        );
    }
    let other = format!("{DAY}?size=1");
    client.get_unless(&other, &tag(&page)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_elsewhere_keep_the_revision() {
    let world = world(1).await;
    let client = world.client();
    send(client, "ann").await;
    let first = format!("{DAY}?key=2026-11-21&size=1");
    let page = client.get(&first).await;
    let event = json!({"member": "bob", "score": 1, "at": "2026-11-20T12:00:00Z"});
    client.post("/v1/boards/b/events", event).await.expect(200);
    let known = client.get_unless(&first, &tag(&page)).await;
    assert_eq!(known.status, StatusCode::NOT_MODIFIED);
    assert_ne!(tag(&known), tag(&page), "the revision is another one");
    let again = client.get_unless(&first, &tag(&known)).await;
    assert_eq!(tag(&again), tag(&known));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_gives_a_new_revision() {
    let world = world(1).await;
    let client = world.client();
    let mut seen = vec![revision(client).await];
    let mut expect_new = async |what: &str| {
        // The first read after a hide brings a list up to date, and its revision is equal to no other.
        let first = revision(client).await;
        let (now, again) = (revision(client).await, revision(client).await);
        assert_eq!(now, again, "{what}: nothing has changed between");
        assert!(!seen.contains(&first) && !seen.contains(&now), "{what}");
        seen.push(now);
    };
    send(client, "ann").await;
    expect_new("an event").await;
    let batch = json!({"events": [{"board": "b", "member": "bob", "score": 2}, {"board": "b", "member": "cid", "score": 3}]});
    client.post("/v1/events", batch).await.expect(200);
    expect_new("a batch").await;
    let initial = json!({"scores": {"dan": 7}});
    client
        .patch("/v1/boards/b/initial-scores", initial)
        .await
        .expect(200);
    expect_new("initial scores").await;
    let hide = json!({"reason": "cheating"});
    let answer = client.put("/v1/boards/b/hidden/bob", hide).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    expect_new("a hide").await;
    let answer = client.delete("/v1/boards/b/hidden/bob").await;
    assert!(answer.status.is_success(), "{}", answer.text);
    expect_new("an end of a hide").await;
    let answer = client.delete("/v1/boards/b/members/cid").await;
    assert!(answer.status.is_success(), "{}", answer.text);
    expect_new("an erasure").await;
    let changed = json!({"windows": ["day", "last-2-days"], "initial": ["day"], "finalize": "20m"});
    client.define("b", changed).await;
    expect_new("another definition").await;
    world.move_to("b", 4).await;
    expect_new("another number of shards").await;
    let keys = world.redis.keys("st:{*:d:initial-day:2026-11-21*").await;
    for key in keys {
        // As if it had expired.
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    client.delete("/v1/boards/b").await.expect(204);
    client.define("b", json!({"windows": ["day"]})).await;
    expect_new("another board of this name").await;
    send(client, "ann").await;
    expect_new("an event").await;
    world.set_time("2026-11-22T00:00:00Z");
    let (running, before) = (revision(client).await, format!("{DAY}?key=2026-11-21"));
    assert_ne!(running, client.get(&before).await.revision.unwrap());
    assert!(
        client.get(&before).await.revision.unwrap() != *seen.last().unwrap(),
        "its state is another one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_standing_has_a_new_revision() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    send(client, "ann").await;
    let page = client.get(DAY).await;
    let keys = world.redis.keys("st:{*:s:day:2026-11-21*").await;
    assert!(!keys.is_empty());
    for key in keys {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    let empty = client.get_unless(DAY, &tag(&page)).await;
    assert_ne!(empty.revision, page.revision);
    assert_eq!(empty.expect(200)["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_for_the_revision_that_it_names() {
    let world = world(2).await;
    let (client, other) = (world.client(), &world.instances[1].client);
    for shards in [1, 4] {
        world.move_to("b", shards).await;
        for member in ["ann", "bob", "cid", "dan"] {
            let sent = send(client, member).await.revision.unwrap();
            for path in [
                format!("{DAY}?min_revision={sent}"),
                format!("{DAY}/members/{member}?min_revision={sent}"),
                format!("{DAY}/members?ids={member}&min_revision={sent}"),
                format!("{DAY}/stats?min_revision={sent}"),
                format!("{DAY}/at-percentile/50?min_revision={sent}"),
            ] {
                let seen = other.get(&path).await;
                assert_eq!(seen.status, 200, "{path}: {}", seen.text);
                let seen_revision = seen.revision.unwrap();
                // What was seen can be waited for, too.
                client
                    .get(&format!("{DAY}?min_revision={seen_revision}"))
                    .await
                    .expect(200);
            }
            let body = json!({"ids": [member]});
            let path = format!("{DAY}/members/query?min_revision={sent}");
            other.post(&path, body).await.expect(200);
        }
    }
}

/// The same revision, where its first shard has changed so many times more.
fn later(revision: &str, by: u64) -> String {
    let (head, shard) = revision.split_once('~').unwrap();
    let parts: Vec<&str> = shard.split('.').collect();
    let [index, digit, number, history] = parts[..] else {
        panic!("{revision}");
    };
    let number = u64::from_str_radix(number, 16).unwrap() + by;
    format!("{head}~{index}.{digit}.{number:x}.{history}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_for_a_future_revision_but_not_for_one_of_another_history() {
    let world = world(2).await;
    let (client, other) = (world.client(), &world.instances[1].client);
    let sent = send(client, "ann").await.revision.unwrap();
    let next = format!("{DAY}?min_revision={}", later(&sent, 1));
    let waiting = other.once();
    let (seen, _) = tokio::join!(waiting.get(&next), send(client, "bob"));
    assert_eq!(seen.expect(200)["total"], 2);

    let never = format!("{DAY}?min_revision={}", later(&sent, 9));
    let late = waiting.get(&never).await;
    assert!(late.headers.contains_key("retry-after"));
    late.expect_problem(503, "revision-pending");

    let unknown = async |revision: &str| {
        let answer = other.get(&format!("{DAY}?min_revision={revision}")).await;
        answer.expect_problem(409, "revision-unknown");
    };
    let (before, _) = sent.rsplit_once('.').unwrap();
    unknown(&format!("{before}.1234")).await;
    unknown(&format!("1{sent}")).await;
    unknown(&sent.replacen('~', "~1", 1)).await;
    let wrong = other.get(&format!("{DAY}?min_revision=7")).await;
    wrong.expect_problem(400, "invalid-parameter");

    world.move_to("b", 2).await;
    unknown(&sent).await;
    client.delete("/v1/boards/b").await.expect(204);
    client.define("b", json!({"windows": ["day"]})).await;
    unknown(&sent).await;
}
