//! What a stream says, against what pages say.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{DAY, STREAM, has, send, world};
use crate::harness::random::Random;
use crate::harness::streams::{Event, Stream, as_page, movement};

fn ranks(ranks: &[(&str, Option<u64>)]) -> Vec<(String, Option<u64>)> {
    ranks
        .iter()
        .map(|(member, rank)| ((*member).to_owned(), *rank))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_the_page_and_reports_each_change() {
    let world = world(2).await;
    let client = world.client();
    send(client, "ann", 3).await;
    send(client, "bob", 2).await;
    let mut streams = Vec::new();
    for instance in &world.instances {
        streams.push(Stream::open(&instance.client, &format!("{STREAM}?size=2")).await);
    }
    let page = client.get(&format!("{DAY}?size=2")).await;
    for stream in &mut streams {
        let first = stream.expect("standing").await;
        assert_eq!(as_page(&first.data), page.json);
        assert_eq!(first.revision, page.revision);
        let id = format!("2026-11-21/{}", page.revision.as_ref().unwrap());
        assert_eq!(first.id, Some(id));
        assert_eq!(
            movement(&first.data),
            ranks(&[("ann", None), ("bob", None)])
        );
    }
    send(client, "bob", 2).await;
    for stream in &mut streams {
        let second = stream.expect("standing").await;
        assert_eq!(
            movement(&second.data),
            ranks(&[("bob", Some(2)), ("ann", Some(1))])
        );
    }
    // The third is not in the message; the count of members is.
    send(client, "cid", 1).await;
    send(client, "cid", 9).await;
    for stream in &mut streams {
        let last = stream.until(has(&["cid", "bob"])).await;
        assert_eq!(
            movement(&last.data),
            ranks(&[("cid", None), ("bob", Some(1))])
        );
        assert_eq!(last.data["total"], 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_for_a_member_has_its_entry_in_each_message() {
    let world = world(1).await;
    let client = world.client();
    for (member, score) in [("ann", 9), ("bob", 8), ("cid", 7), ("dan", 6)] {
        send(client, member, score).await;
    }
    let of = |member: &str| format!("{STREAM}?size=1&member={member}");
    let mut dan = Stream::open(client, &of("dan")).await;
    let mut eve = Stream::open(client, &of("eve")).await;
    let mut ann = Stream::open(client, &of("ann")).await;
    for (stream, member) in [(&mut dan, "dan"), (&mut eve, "eve"), (&mut ann, "ann")] {
        let page = client.get(&format!("{DAY}?size=1&member={member}")).await;
        let first = stream.expect("standing").await;
        assert_eq!(as_page(&first.data), page.json);
        let id = format!("2026-11-21/{}", page.revision.unwrap());
        assert_eq!(first.id, Some(id));
    }
    // The page stays as it is, apart from that.
    send(client, "dan", 3).await;
    let second = dan.until(|message| message["me"]["rank"] == 2).await;
    assert_eq!(second.data["me"]["previous_rank"], 4);
    assert_eq!(second.data["me"]["score"], 9);
    send(client, "eve", 1).await;
    let second = eve.until(|message| message["total"] == 5).await;
    assert_eq!(second.data["me"]["rank"], 5);
    assert_eq!(second.data["me"]["previous_rank"], Value::Null);
    send(client, "bob", 8).await;
    let second = ann.until(has(&["bob"])).await;
    assert_eq!(second.data["me"]["rank"], 2);
    assert_eq!(second.data["me"]["previous_rank"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_with_the_next_period() {
    let world = world(1).await;
    let client = world.client();
    send(client, "ann", 3).await;
    let mut all = Stream::open(client, STREAM).await;
    let mut own = Stream::open(client, &format!("{STREAM}?member=ann")).await;
    for stream in [&mut all, &mut own] {
        assert_eq!(stream.expect("standing").await.data["key"], "2026-11-21");
    }
    world.set_time("2026-11-22T00:00:00Z");
    for stream in [&mut all, &mut own] {
        let period = stream.expect("period").await;
        assert_eq!(
            period.data,
            json!({"ended": "2026-11-21", "begun": "2026-11-22"})
        );
        let first = stream.expect("standing").await;
        assert_eq!(first.data["key"], "2026-11-22");
        assert_eq!(first.data["entries"], json!([]));
        assert_eq!(first.data["me"], Value::Null);
    }
    send(client, "ann", 1).await;
    for stream in [&mut all, &mut own] {
        let next = stream.until(has(&["ann"])).await;
        assert_eq!(movement(&next.data), ranks(&[("ann", None)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_member_leaves_the_stream_and_comes_back() {
    let world = world(2).await;
    let client = world.client();
    send(client, "ann", 3).await;
    send(client, "bob", 2).await;
    let other = &world.instances[1].client;
    let mut all = Stream::open(other, STREAM).await;
    let mut own = Stream::open(other, &format!("{STREAM}?member=ann")).await;
    for stream in [&mut all, &mut own] {
        stream.until(has(&["ann", "bob"])).await;
    }
    let hide = json!({"reason": "cheating"});
    client
        .put("/v1/boards/b/hidden/ann", hide)
        .await
        .expect(200);
    // One who comes now never sees the member.
    let mut late = Stream::open(other, STREAM).await;
    assert!(has(&["bob"])(&late.expect("standing").await.data));
    for stream in [&mut all, &mut own] {
        let without = stream.expect("standing").await;
        assert_eq!(movement(&without.data), ranks(&[("bob", Some(2))]));
        assert_eq!(without.data["me"], Value::Null);
    }
    client.delete("/v1/boards/b/hidden/ann").await.expect(204);
    for stream in [&mut all, &mut own] {
        stream.until(has(&["ann", "bob"])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_board_or_its_window() {
    let world = world(2).await;
    let client = world.client();
    send(client, "ann", 3).await;
    let other = &world.instances[1].client;
    let mut day = Stream::open(other, &format!("{STREAM}?member=ann")).await;
    let mut all = Stream::open(other, "/v1/boards/b/standings/all/stream").await;
    day.expect("standing").await;
    all.expect("standing").await;
    let path = "/v1/boards/b?drop_windows=all";
    client
        .put(path, json!({"windows": ["day"]}))
        .await
        .expect(200);
    assert_eq!(all.expect("end").await.data["reason"], "unknown-window");
    assert!(all.next().await.is_none());
    client.delete("/v1/boards/b").await.expect(204);
    client.define("b", json!({"windows": ["day"]})).await;
    assert_eq!(day.expect("end").await.data["reason"], "board-not-found");
    assert!(day.next().await.is_none());
    let mut again = Stream::open(other, STREAM).await;
    assert_eq!(again.expect("standing").await.data["entries"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_that_can_not_be_watched_returns_a_problem() {
    let world = world(1).await;
    let client = world.client();
    let get = async |path: &str| client.get(path).await;
    get("/v1/boards/none/standings/day/stream")
        .await
        .expect_problem(404, "board-not-found");
    get("/v1/boards/b/standings/week/stream")
        .await
        .expect_problem(404, "unknown-window");
    get("/v1/boards/b/standings/day/stream?cohort=a-1")
        .await
        .expect_problem(404, "no-league");
    for wrong in [
        "size=0",
        "size=101",
        "member=",
        "key=2026-11-21",
        "hidden=include",
        "include=all",
    ] {
        let problem = get(&format!("{STREAM}?{wrong}")).await;
        problem.expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_stream_ends_with_its_period_even_if_the_next_has_a_cohort_of_that_name() {
    let world = world(1).await;
    let client = world.client();
    let tiers = json!([{"name": "bronze", "promote": 0.3, "demote": 0}, {"name": "gold", "promote": 0, "demote": 0.3}]);
    let league = json!({"windows": ["day"], "score_min": 0, "league": {"tiers": tiers}});
    client.define("l", league).await;
    let send = async |member: &str| {
        let event = json!({"member": member, "score": 5});
        client.post("/v1/boards/l/events", event).await.expect(200);
    };
    send("ann").await;
    let path = "/v1/boards/l/standings/day";
    let mut stream = Stream::open(client, &format!("{path}/stream?cohort=bronze-1")).await;
    let message = stream.expect("standing").await.data;
    assert_eq!(message["entries"][0]["member"], "ann");
    world.set_time("2026-11-22T00:00:01Z");
    send("bob").await;
    let next = client.get(&format!("{path}?cohort=bronze-1")).await;
    assert_eq!(next.expect(200)["entries"][0]["member"], "bob");
    assert_eq!(
        stream.expect("end").await.data["reason"],
        "cohort-not-found"
    );
    assert!(stream.next().await.is_none());
}

/// Reads a stream until it says this; returns its messages.
async fn read_until(mut stream: Stream, last: impl Fn(&Value) -> bool) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = stream.expect("standing").await;
        let is_last = last(&event.data);
        events.push(event);
        if is_last {
            return events;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_thousands_of_changes_each_message_is_the_page_of_its_revision() {
    const CHANGES: usize = 2_000;
    let world = world(2).await;
    let client = world.client();
    let page_of = format!("{DAY}?size=10&member=m7");
    let mut pages = HashMap::new();
    let mut note = async || {
        let page = client.get(&page_of).await;
        pages.insert(page.revision.unwrap(), page.json.clone());
        page.json
    };
    note().await;
    // The last change brings this one to the top.
    let is_last = |message: &Value| message["entries"][0]["member"] == "last";
    let mut reading = Vec::new();
    for instance in &world.instances {
        for query in ["", "?member=m7"] {
            let stream = Stream::open(&instance.client, &format!("{STREAM}{query}")).await;
            reading.push((query, tokio::spawn(read_until(stream, is_last))));
        }
    }
    let mut random = Random::new(18);
    for _ in 0..CHANGES {
        let member = format!("m{}", random.below(40));
        send(client, &member, i64::try_from(random.below(100)).unwrap()).await;
        note().await;
    }
    send(client, "last", 1_000_000_000).await;
    let last = note().await;
    for (query, reading) in reading {
        let events = reading.await.unwrap();
        for event in &events {
            let mut page = pages[event.revision.as_ref().unwrap()].clone();
            let mut said = as_page(&event.data);
            // The entry may be of a later moment than the page: the id then says so.
            let is_whole = !event.id.as_ref().unwrap().contains('+');
            if query.is_empty() || !is_whole {
                page["me"].take();
                said["me"].take();
            }
            assert_eq!(said, page, "{event:?}");
        }
        let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
        for two in ids.windows(2) {
            assert_ne!(two[0], two[1]);
        }
        let said = as_page(&events.last().unwrap().data);
        assert_eq!(said["entries"], last["entries"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_board_streams_as_one() {
    let world = world(1).await;
    let client = world.client();
    world.move_to("b", 3).await;
    let path = format!("{STREAM}?member=m7");
    let mut stream = Stream::open(client, &path).await;
    let mut random = Random::new(19);
    for _ in 0..300 {
        let member = format!("m{}", random.below(40));
        send(client, &member, i64::try_from(random.below(100)).unwrap()).await;
    }
    let page = client.get(&format!("{DAY}?size=10&member=m7")).await;
    stream.until(|message| as_page(message) == page.json).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_without_a_new_revision_are_streamed_too() {
    let world = world(1).await;
    let client = world.client();
    send(client, "ann", 3).await;
    let mut stream = Stream::open(client, &format!("{STREAM}?include=profile&member=ann")).await;
    let first = stream.expect("standing").await;
    assert_eq!(first.data["entries"][0]["profile"], Value::Null);
    let profile = json!({"name": "Ann"});
    let put = client.put("/v1/members/ann/profile", profile).await;
    assert!(put.status.is_success(), "{}", put.text);
    let named = stream
        .until(|message| message["me"]["profile"]["name"] == "Ann")
        .await;
    assert_eq!(named.data["entries"][0]["profile"]["name"], "Ann");
    assert_ne!(named.id, first.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconnected_client_gets_changes_and_nothing_twice() {
    let world = world(2).await;
    let [one, other] = [0, 1].map(|index| world.instances[index].client.clone());
    send(&one, "ann", 3).await;
    for (query, member) in [("", "bob"), ("?member=ann", "cid")] {
        let path = format!("{STREAM}{query}");
        let first = Stream::open(&one, &path).await.expect("standing").await;
        let id = first.id.unwrap();
        // Nothing has changed: the first that is heard is the change.
        let mut same = Stream::open_after(&other, &path, &id).await;
        send(&one, member, 1).await;
        let next = same.expect("standing").await;
        assert_ne!(next.data["total"], first.data["total"]);
        let mut behind = Stream::open_after(&other, &path, &id).await;
        let now = behind.expect("standing").await;
        assert_eq!(as_page(&now.data), as_page(&next.data));
    }
}
