//! Revisions and streams over a loss: Redis goes back by its last second, or a replica takes over that has not all. What was told of
//! what is lost never passes for what has come in its place.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::redis::eventually;
use crate::harness::replicated::Replicated;
use crate::harness::sentinels::WatchedServers;
use crate::harness::streams::{Stream, as_page};
use crate::harness::{Client, Instance, RedisServer, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";
const EVENTS: &str = "/v1/boards/b/events";
const PAGE: &str = "/v1/boards/b/standings/all?size=100";
const STREAM: &str = "/v1/boards/b/standings/all/stream?size=100";

/// What was told.
#[derive(Default)]
struct Told {
    /// Entity tags of the page, with the page of each.
    pages: Vec<(String, Value)>,
    /// Revisions in answers to events, with the member of each.
    events: Vec<(String, String)>,
}

/// How reads were answered that name what was told before.
#[derive(Debug, Default)]
struct Counts {
    unchanged: usize,
    unknown: usize,
}

impl Told {
    /// Sends an event of this member, and reads the page.
    async fn send(&mut self, client: &Client, member: &str) {
        let event = json!({"id": member, "member": member, "score": 1});
        let sent = client.post(EVENTS, event).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
        self.events
            .extend(sent.revision.map(|revision| (revision, member.to_owned())));
        let page = client.get(PAGE).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let tag = page.headers["etag"].to_str().unwrap().to_owned();
        self.pages.push((tag, page.json));
    }

    /// Compares all that was told with what there is now.
    async fn compare(&self, client: &Client) -> Counts {
        let mut counts = Counts::default();
        let now = client.get(PAGE).await.expect(200);
        for (tag, page) in &self.pages {
            let answer = client.get_unless(PAGE, tag).await;
            if answer.status == 304 {
                assert_eq!(*page, now, "{tag} is of another page");
                counts.unchanged += 1;
            } else {
                assert_eq!(answer.expect(200), now);
            }
        }
        let once = client.once();
        let reads = self.events.iter().map(async |(revision, member)| {
            let address = format!("{PAGE}&min_revision={revision}");
            (member, once.get(&address).await)
        });
        for (member, read) in join_all(reads).await {
            if read.status == 200 {
                let entries = read.json["entries"].as_array().unwrap();
                let is_in = entries.iter().any(|entry| entry["member"] == *member);
                assert!(is_in, "{member} is lost: {}", read.text);
            } else if read.status == 409 {
                read.expect_problem(409, "revision-unknown");
                counts.unknown += 1;
            } else {
                // As long as nothing was written since, nobody can tell a loss from a write that is under way.
                read.expect_problem(503, "revision-pending");
            }
        }
        counts
    }
}

async fn until_ready(client: &Client) {
    eventually("the instance is ready", async || {
        client.get("/readyz").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_of_a_lost_second_are_never_reused() {
    let redis = RedisServer::start().await;
    let instance = Instance::start(&redis.url(), clock_at(NOW), "").await;
    let client = &instance.client;
    client.define("b", json!({"windows": ["all"]})).await;
    let mut told = Told::default();
    told.send(client, "first").await;
    let mut stream = Stream::open(client, STREAM).await;
    stream.expect("standing").await;
    for round in 0..4 {
        told.send(client, &format!("kept-{round}")).await;
        let copy = redis.copy_data();
        let kept = client.get(PAGE).await.expect(200);
        for number in 0..3 {
            told.send(client, &format!("lost-{round}-{number}")).await;
        }
        stream
            .until(|page| page["total"].as_u64() == kept["total"].as_u64().map(|total| total + 3))
            .await;
        redis.go_back(Some(&copy)).await;
        until_ready(client).await;
        // Nobody has written since. The stream tells of the loss, and what is left is known by its tag.
        stream.until(|page| as_page(page) == kept).await;
        assert!(told.compare(client).await.unchanged > 0);
        // As many changes as were lost, so that their numbers come again.
        for number in 0..3 {
            told.send(client, &format!("late-{round}-{number}")).await;
        }
        let now = client.get(PAGE).await.expect(200);
        stream.until(|page| as_page(page) == now).await;
        let counts = told.compare(client).await;
        assert!(counts.unchanged > 0, "{counts:?}");
        assert_eq!(counts.unknown, told.events.len() - 3, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_of_a_lost_primary_are_never_reused() {
    let Replicated {
        instance,
        primary,
        replica,
        clock,
    } = Replicated::start(NOW).await;
    let mut told = Told::default();
    for number in 0..3 {
        told.send(&instance.client, &format!("kept-{number}")).await;
    }
    let kept = instance.client.get(PAGE).await.expect(200);
    // The replica hears nothing more of its primary, which goes on for a while.
    replica.command("REPLICAOF 127.0.0.1 1").await;
    let alone = Instance::start(&primary.url(), clock.clone(), "").await;
    let mut ids = Vec::new();
    for number in 0..3 {
        told.send(&alone.client, &format!("lost-{number}")).await;
        let mut stream = Stream::open(&alone.client, STREAM).await;
        ids.push(stream.expect("standing").await.id.unwrap());
    }
    drop(primary);
    replica.command("REPLICAOF NO ONE").await;
    let survivor = Instance::start(&replica.url(), clock, "").await;
    let client = &survivor.client;
    assert_eq!(client.get(PAGE).await.expect(200), kept);
    told.compare(client).await;
    for number in 0..3 {
        // Whoever comes back to a stream hears at once that there is something else.
        for id in &ids {
            let mut stream = Stream::open_after(client, STREAM, id).await;
            let now = client.get(PAGE).await.expect(200);
            assert_eq!(as_page(&stream.expect("standing").await.data), now);
        }
        told.send(client, &format!("late-{number}")).await;
        let counts = told.compare(client).await;
        assert!(counts.unchanged > 0, "{counts:?}");
        // All but those that this primary has told itself.
        assert_eq!(counts.unknown, 6, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_never_reused_while_a_primary_behind_sentinels_dies() {
    let servers = WatchedServers::start().await;
    let instance = Instance::start(&servers.url(), clock_at(NOW), "").await;
    let client = &instance.client;
    client.define("b", json!({"windows": ["all"]})).await;
    let mut told = Told::default();
    told.send(client, "first").await;
    let mut stream = Stream::open(client, STREAM).await;
    let writing = async {
        for number in 0..60 {
            told.send(client, &format!("m-{number}")).await;
        }
    };
    tokio::join!(servers.fail_over(), writing);
    until_ready(client).await;
    told.compare(client).await;
    told.send(client, "last").await;
    let counts = told.compare(client).await;
    assert!(counts.unchanged > 0, "{counts:?}");
    let now = client.get(PAGE).await.expect(200);
    stream.until(|page| as_page(page) == now).await;
}
