//! Events of leagues: which cohort they count in, which are refused, and what a retry finds after the period has ended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::jobs::{ClosePeriods, EndedHides, Erasures};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, World};
use standings::core::hide::store::erasures;

/// A Wednesday, and the week of it.
const NOW: &str = "2026-11-18T12:00:00Z";
const WEEK: &str = "2026-11-16";
/// Right before the end of that week, and right behind it.
const LAST: &str = "2026-11-22T23:59:50Z";
const FIRST: &str = "2026-11-23T00:00:05Z";

/// A league of weeks, with other fields and settings.
fn league(other: &Value, settings: &Value) -> Value {
    let mut fields = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0, "demote": 0.2},
    ]}});
    for (name, value) in other.as_object().unwrap() {
        fields[name] = value.clone();
    }
    for (name, value) in settings.as_object().unwrap() {
        fields["league"][name] = value.clone();
    }
    fields
}

async fn world_of(other: Value, settings: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    world.client().define("l", league(&other, &settings)).await;
    world
}

async fn send(client: &Client, event: &Value) -> Answer {
    client.post("/v1/boards/l/events", event.clone()).await
}

async fn take(client: &Client, event: &Value) -> Value {
    send(client, event).await.expect(200)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("m{number:02}")).collect()
}

fn cohort_of(result: &Value) -> String {
    result["standings"][0]["cohort"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Ranks, members and scores of a cohort.
async fn page(client: &Client, cohort: &str, key: &str) -> Vec<(u64, String, i64)> {
    let path = format!("/v1/boards/l/standings/week?cohort={cohort}&key={key}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter().map(|entry| {
        let member = entry["member"].as_str().unwrap_or("nobody").to_owned();
        let rank = entry["rank"].as_u64().unwrap();
        (rank, member, entry["score"].as_i64().unwrap())
    });
    entries.collect()
}

/// What Redis answers to a command: a number.
async fn integer(world: &World, command: &[&str]) -> i64 {
    let command: Vec<&[u8]> = command.iter().map(|part| part.as_bytes()).collect();
    match world.redis.run(&command).await {
        Reply::Integer(number) => number,
        other => panic!("a number, not {other:?}"),
    }
}

/// The members whom anybody has seated.
async fn seated(world: &World) -> BTreeSet<String> {
    let mut members = BTreeSet::new();
    for key in world.redis.keys("st:{l:*:seats").await {
        let names = world.redis.run(&[b"HKEYS", key.as_bytes()]).await;
        members.extend(names.list().iter().map(Reply::text));
    }
    members
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_seats_its_members_and_counts_in_many_cohorts() {
    let world = world_of(json!({}), json!({"cohort_size": 3})).await;
    let events: Vec<Value> = names(20)
        .iter()
        .enumerate()
        .flat_map(|(number, member)| {
            let event = json!({"board": "l", "member": member, "score": number + 1});
            [event.clone(), event]
        })
        .collect();
    let body = json!({"events": events});
    let answer = world.client().post("/v1/events?ranks=true", body).await;
    let results = answer.expect(200)["results"].clone();
    let mut cohorts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for pair in results.as_array().unwrap().chunks(2) {
        let [first, second] = pair else {
            panic!("two events of each member");
        };
        assert_eq!(first["status"], "applied", "{first}");
        assert_eq!(cohort_of(first), cohort_of(second));
        let standing = &second["standings"][0];
        assert_eq!(
            (&standing["window"], &standing["key"]),
            (&json!("week"), &json!(WEEK))
        );
        assert_eq!(standing["previous_score"], first["standings"][0]["score"]);
        assert!((1..=3).contains(&standing["rank"].as_u64().unwrap()));
        let score = standing["score"].as_i64().unwrap();
        cohorts.entry(cohort_of(second)).or_default().push(score);
    }
    let sizes: Vec<usize> = cohorts.values().map(Vec::len).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 20);
    assert!(sizes.iter().all(|size| *size <= 3), "{cohorts:?}");
    for (cohort, mut scores) in cohorts {
        let shown = page(world.client(), &cohort, WEEK).await;
        scores.sort_unstable_by_key(|score| -score);
        let listed: Vec<i64> = shown.iter().map(|(_, _, score)| *score).collect();
        assert_eq!(listed, scores, "{cohort}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_belongs_to_the_period_of_its_at() {
    let world = world_of(json!({"finalize": "1m"}), json!({})).await;
    let client = world.client();
    let at = |at: &str, member: &str| json!({"member": member, "score": 5, "at": at});
    let early = at("2026-11-17T08:00:00Z", "ann");
    assert_eq!(take(client, &early).await["standings"][0]["key"], WEEK);
    take(client, &json!({"member": "ann", "score": 1})).await;
    // The week before is closed, and the next one has not begun.
    let closed = at("2026-11-15T08:00:00Z", "ann");
    send(client, &closed)
        .await
        .expect_problem(409, "period-closed");
    world.set_time(LAST);
    let coming = at("2026-11-23T00:00:10Z", "ann");
    let detail = send(client, &coming).await;
    assert_eq!(detail.headers["retry-after"], "10");
    let detail = detail.expect_problem(422, "event-in-future");
    assert!(detail.contains("has not begun"), "{detail}");
    // In the wait a late event of a member with a seat counts, and others are refused.
    world.set_time(FIRST);
    let other = &world.instances[1].client;
    take(other, &at(LAST, "ann")).await;
    send(client, &at(LAST, "bob"))
        .await
        .expect_problem(409, "not-seated");
    assert_eq!(
        page(client, "bronze-1", WEEK).await,
        [(1, "ann".to_owned(), 11)]
    );
    // A newcomer plays on at once; who sat in the old week waits for its cohort.
    take(client, &json!({"member": "bob", "score": 2})).await;
    let turning = send(client, &json!({"member": "ann", "score": 3})).await;
    turning.expect_problem(409, "league-turning");
    world.set_time("2026-11-23T00:01:00Z");
    send(other, &at(LAST, "ann"))
        .await
        .expect_problem(409, "period-closed");
    let played = take(client, &json!({"member": "ann", "score": 3})).await;
    assert_eq!(played["standings"][0]["key"], "2026-11-23");
    assert_eq!(
        page(client, "bronze-1", WEEK).await,
        [(1, "ann".to_owned(), 11)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_seats_nobody() {
    let world = world_of(json!({"score_max": 10}), json!({})).await;
    let client = world.client();
    for (event, status, problem) in [
        (
            json!({"member": "ann", "score": 11}),
            422,
            "score-out-of-range",
        ),
        (
            json!({"member": "ann", "score": 11, "id": "x"}),
            422,
            "score-out-of-range",
        ),
        (
            json!({"member": "ann", "score": 1, "at": "2026-11-15T08:00:00Z"}),
            409,
            "period-closed",
        ),
        (
            json!({"member": "ann", "score": 1, "at": "2026-11-15T08:00:00Z", "id": "y"}),
            409,
            "period-closed",
        ),
        (
            json!({"member": "ann", "score": 1, "at": "2026-11-18T12:05:00Z"}),
            422,
            "event-in-future",
        ),
    ] {
        send(client, &event).await.expect_problem(status, problem);
    }
    assert_eq!(seated(&world).await, BTreeSet::new());
    assert_eq!(world.redis.keys("st:{l:*:tiers:*").await, [""; 0]);
    // A refused event does not list a member that has its seat.
    take(client, &json!({"member": "ann", "score": 10, "id": "z"})).await;
    let reused = json!({"member": "ann", "score": 9, "id": "z"});
    send(client, &reused)
        .await
        .expect_problem(422, "event-id-reused");
    assert_eq!(
        page(client, "bronze-1", WEEK).await,
        [(1, "ann".to_owned(), 10)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_across_the_boundary_counts_once_wherever_the_cohorts_are_stored() {
    let world = world_of(json!({}), json!({"cohort_size": 2})).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index].client);
    world.set_time(LAST);
    let event = |member: &str| json!({"member": member, "score": 7, "id": format!("e-{member}")});
    let mut first = BTreeMap::new();
    for member in names(24) {
        first.insert(member.clone(), take(one, &event(&member)).await);
    }
    world.set_time(FIRST);
    let seats = seated(&world).await.len();
    for (index, member) in names(24).iter().enumerate() {
        if index % 2 == 0 {
            // Who plays on first has its seat in the new week.
            let next = json!({"member": member, "score": 1, "id": format!("n-{member}")});
            assert_eq!(take(other, &next).await["standings"][0]["score"], 1);
        }
        let again = take(other, &event(member)).await;
        assert_eq!(again["status"], "duplicate", "{member}");
        assert_eq!(again["standings"], first[member]["standings"]);
        let changed = json!({"member": member, "score": 8, "id": format!("e-{member}")});
        let reused = send(one, &changed).await;
        reused.expect_problem(422, "event-id-reused");
    }
    let keys = world.redis.keys("st:{l:*:s:week:2026-11-23/*:seats").await;
    let mut new = 0;
    for key in keys {
        new += integer(&world, &["HLEN", &key]).await;
    }
    assert_eq!((seats, new), (24, 12), "a duplicate seats nobody");
    // Ids are remembered for an hour.
    world.set_time("2026-11-23T01:00:00Z");
    let late = take(one, &event("m01")).await;
    assert_eq!(
        (&late["status"], &late["standings"][0]["key"]),
        (&json!("applied"), &json!("2026-11-23"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_during_the_wait_is_a_duplicate_before_the_cohort_is_decided() {
    let world = world_of(json!({"finalize": "1m"}), json!({})).await;
    let client = world.client();
    world.set_time(LAST);
    let event = json!({"member": "ann", "score": 7, "id": "x"});
    take(client, &event).await;
    world.set_time(FIRST);
    assert_eq!(take(client, &event).await["status"], "duplicate");
    let other = json!({"member": "ann", "score": 7, "id": "y"});
    send(client, &other)
        .await
        .expect_problem(409, "league-turning");
    world.set_time("2026-11-23T00:01:05Z");
    world.engine().run(&ClosePeriods).await.unwrap();
    assert_eq!(take(client, &event).await["status"], "duplicate");
    assert_eq!(take(client, &other).await["status"], "applied");
    assert_eq!(take(client, &other).await["status"], "duplicate");
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_per_member_apply_in_cohorts() {
    let world = world_of(
        json!({"quotas": [{"name": "attempts", "by": ["member"], "window": "day", "max": 2}]}),
        json!({"cohort_size": 2}),
    )
    .await;
    let client = world.client();
    for member in names(7) {
        for number in 0..3 {
            let event = json!({"member": member, "score": 1, "id": format!("{member}-{number}")});
            let answer = send(client, &event).await;
            if number == 2 {
                answer.expect_problem(429, "quota-exceeded");
            } else {
                answer.expect(200);
            }
            assert_eq!(take_known(client, &event, number).await, number < 2);
        }
    }
    assert_eq!(
        page(client, "bronze-4", WEEK).await,
        [(1, "m06".to_owned(), 2)]
    );
}

/// Sends an event again that was taken, or refused; returns whether it was known.
async fn take_known(client: &Client, event: &Value, number: usize) -> bool {
    let answer = send(client, event).await;
    if number == 2 {
        answer.expect_problem(429, "quota-exceeded");
        return false;
    }
    answer.expect(200)["status"] == "duplicate"
}

/// All that is known of who has a seat, or is about to have one.
async fn seats_given_out(world: &World) -> Vec<String> {
    let mut keys = world.redis.keys("st:{l:*:seats").await;
    keys.extend(world.redis.keys("st:{l:*:tiers:*").await);
    keys.extend(world.redis.keys("st:{l:*:taking:*").await);
    keys.extend(world.redis.keys("st:{l:*:players").await);
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_only_a_quota_refuses_takes_no_seat() {
    let quotas = json!([{"name": "points", "by": ["member"], "max": 10, "window": "1d", "measure": "score"},
        {"name": "sends", "by": ["member"], "max": 2, "window": "total"}]);
    let world = world_of(json!({"quotas": quotas}), json!({"cohort_size": 2})).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index].client);
    let big = |member: &str, id: &str| json!({"member": member, "score": 11, "id": id});
    for id in ["x", "x", "y"] {
        send(one, &big("ann", id))
            .await
            .expect_problem(429, "quota-exceeded");
        let nameless = json!({"member": "ann", "score": 11});
        send(other, &nameless)
            .await
            .expect_problem(429, "quota-exceeded");
    }
    assert_eq!(seats_given_out(&world).await, [""; 0]);
    let tiers = "/v1/boards/l/standings/week/tiers";
    let bronze = one.get(tiers).await.expect(200)["tiers"][0].clone();
    assert_eq!(
        (&bronze["cohorts"], &bronze["members"]),
        (&json!(0), &json!(0))
    );
    // The same id counts once it is an event that fits, and says when its member has joined.
    world.set_time("2026-11-18T13:00:00Z");
    let batch = json!({"events": [
        {"board": "l", "member": "ann", "score": 11, "id": "x"},
        {"board": "l", "member": "ann", "score": 10, "id": "z"},
        {"board": "l", "member": "bob", "score": 11, "id": "b"},
        {"board": "l", "member": "cat", "score": 9, "id": "c"}]});
    let results = one.post("/v1/events", batch).await.expect(200)["results"].clone();
    let results: Vec<_> = (0..4)
        .map(|index| results[index]["status"].clone())
        .collect();
    assert_eq!(results, ["rejected", "applied", "rejected", "applied"]);
    let seat = one
        .post("/v1/boards/l/league/members", json!({"member": "ann"}))
        .await
        .expect(200);
    assert_eq!(seat["joined_at"], "2026-11-18T13:00:00.000Z");
    assert_eq!(seat["size"], 2, "no seat was lost: {seat}");
    // Of all time are counted events of the week before, too.
    take(one, &json!({"member": "cat", "score": 1, "id": "d"})).await;
    world.set_time(FIRST);
    let third = json!({"member": "cat", "score": 1, "id": "e"});
    send(other, &third)
        .await
        .expect_problem(429, "quota-exceeded");
    assert_eq!(
        take(other, &json!({"member": "cat", "score": 1, "id": "d"})).await["status"],
        "duplicate"
    );
    let seats = world.redis.keys("st:{l:*:s:week:2026-11-23/*:seats").await;
    assert_eq!(seats, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_across_the_boundary_is_a_duplicate_after_its_member_was_erased() {
    let world = world_of(json!({"finalize": "1m"}), json!({"cohort_size": 3})).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index].client);
    world.set_time(LAST);
    let event = |member: &str| json!({"member": member, "score": 7, "id": format!("e-{member}")});
    let with_at = |member: &str| json!({"member": member, "score": 7, "id": format!("a-{member}"), "at": LAST});
    for member in names(8) {
        take(one, &event(&member)).await;
        take(one, &with_at(&member)).await;
    }
    for (now, members) in [(FIRST, 0..4), ("2026-11-23T00:02:00Z", 4..8)] {
        world.set_time(now);
        for member in &names(8)[members] {
            let path = format!("/v1/boards/l/members/{member}");
            one.delete(&path).await.expect(204);
            // One instance has its seat in memory, and the other one knows nothing of it.
            for client in [one, other] {
                for retry in [event(member), with_at(member)] {
                    let again = take(client, &retry).await;
                    assert_eq!(
                        (&again["status"], &again["standings"]),
                        (&json!("duplicate"), &json!([])),
                        "{member}: {again}"
                    );
                }
            }
            let late =
                json!({"member": member, "score": 1, "id": format!("l-{member}"), "at": LAST});
            let refused = send(other, &late).await;
            assert_eq!(refused.status, 409, "{}", refused.text);
        }
    }
    let seats = seated(&world).await;
    assert_eq!(seats, BTreeSet::new(), "a duplicate seats nobody");
    take(one, &json!({"member": "m00", "score": 2, "id": "new"})).await;
    assert_eq!(take(other, &event("m00")).await["status"], "duplicate");
    assert_eq!(
        page(one, "bronze-1", "2026-11-23").await,
        [(1, "m00".to_owned(), 2)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_from_before_the_erasure_of_its_member_takes_no_seat() {
    let world = world_of(json!({}), json!({})).await;
    let client = world.client();
    take(client, &json!({"member": "ann", "score": 10})).await;
    client.delete("/v1/boards/l/members/ann").await.expect(204);
    world.set_time("2026-11-18T12:01:00Z");
    let before = json!({"member": "ann", "score": 1, "at": "2026-11-18T11:59:00Z"});
    for event in [
        before.clone(),
        json!({"member": "ann", "score": 1, "at": NOW, "id": "x"}),
    ] {
        send(client, &event)
            .await
            .expect_problem(409, "member-erased");
    }
    assert_eq!(seated(&world).await, BTreeSet::new());
    // One of a request that counts seats its member. The others are refused as ever.
    let later = json!({"board": "l", "member": "ann", "score": 2, "at": "2026-11-18T12:00:30Z"});
    let mut early = before;
    early["board"] = json!("l");
    let batch = json!({"events": [early, later]});
    let results = client.post("/v1/events", batch).await.expect(200)["results"].clone();
    assert_eq!(
        results[0]["problem"]["type"], "/problems/member-erased",
        "{results}"
    );
    assert_eq!(results[1]["status"], "applied", "{results}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_applies_in_every_cohort_before_and_after_seating() {
    let world = world_of(json!({}), json!({"cohort_size": 4})).await;
    let client = world.client();
    let hide = async |member: &str, more: Value| {
        let path = format!("/v1/boards/l/hidden/{member}");
        let mut body = json!({"reason": "cheating"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        client.put(&path, body).await.expect(200)
    };
    let until = json!({"until": "2026-11-18T13:00:00Z"});
    hide("m03", json!({})).await;
    for member in names(12) {
        take(client, &json!({"member": member, "score": 10})).await;
    }
    hide("m05", until).await;
    let hidden = client.get("/v1/boards/l/hidden").await.expect(200);
    assert_eq!(hidden["hidden"].as_array().unwrap().len(), 2, "{hidden}");
    let shown = async || {
        let mut members = Vec::new();
        for cohort in ["bronze-1", "bronze-2", "bronze-3"] {
            let page = page(client, cohort, WEEK).await;
            let ranks: Vec<u64> = page.iter().map(|(rank, ..)| *rank).collect();
            assert_eq!(ranks, (1..=ranks.len() as u64).collect::<Vec<_>>());
            members.extend(page.into_iter().map(|(_, member, _)| member));
        }
        members.sort_unstable();
        members
    };
    let visible: Vec<String> = names(12).into_iter().filter(|name| name != "m03").collect();
    let but_one = visible.iter().filter(|name| *name != "m05").cloned();
    assert_eq!(shown().await, but_one.collect::<Vec<_>>());
    let event = json!({"member": "m03", "score": 1});
    let path = "/v1/boards/l/events?ranks=true";
    let told = client.post(path, event).await.expect(200);
    assert_eq!(
        (
            &told["standings"][0]["score"],
            &told["standings"][0]["rank"]
        ),
        (&json!(11), &Value::Null)
    );
    // A hide with an end ends in all shards.
    world.set_time("2026-11-18T13:00:02Z");
    world.engine().run(&EndedHides).await.unwrap();
    assert_eq!(shown().await, visible);
    client.delete("/v1/boards/l/hidden/m03").await.expect(204);
    assert_eq!(shown().await, names(12));
    let hidden = client.get("/v1/boards/l/hidden").await.expect(200);
    assert_eq!(hidden["hidden"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn hiding_and_unhiding_concurrently_ends_alike_in_all_shards() {
    let world = world_of(json!({}), json!({})).await;
    let path = "/v1/boards/l/hidden/ann";
    for _ in 0..8 {
        let [one, other] = [0, 1].map(|index| &world.instances[index].client);
        let hide = one.put(path, json!({"reason": "cheating"}));
        let (hidden, _) = tokio::join!(hide, other.delete(path));
        hidden.expect(200);
        let mut states = BTreeSet::new();
        for shard in 0..16 {
            let keys = world
                .redis
                .keys(&format!("st:{{l:16:{shard}}}:*:hides"))
                .await;
            let mut found = false;
            for key in keys {
                found |= integer(&world, &["HEXISTS", &key, "ann"]).await == 1;
            }
            states.insert(found);
        }
        assert_eq!(states.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_league_member_starts_from_zero_and_leaves_nothing_behind() {
    let world = world_of(json!({}), json!({"cohort_size": 3})).await;
    let client = world.client();
    for member in names(9) {
        take(
            client,
            &json!({"member": member, "score": 10, "id": format!("e-{member}")}),
        )
        .await;
    }
    let path = "/v1/boards/l/hidden/m04";
    client
        .put(path, json!({"reason": "cheating"}))
        .await
        .expect(200);
    for member in ["m01", "m04"] {
        let path = format!("/v1/boards/l/members/{member}");
        client.delete(&path).await.expect(204);
        let mut traces = world.keys_with("st:{l*", member).await;
        traces.retain(|key| !key.contains(":e:"));
        assert_eq!(traces, [""; 0]);
    }
    world.set_time("2026-11-18T12:00:01Z");
    let new = take(client, &json!({"member": "m01", "score": 3})).await;
    assert_eq!(new["standings"][0]["previous_score"], Value::Null);
    assert_eq!(new["standings"][0]["score"], 3);
    // A retry of what was before is known, whichever cohort remembers it, and told without scores.
    let again = take(
        client,
        &json!({"member": "m01", "score": 10, "id": "e-m01"}),
    )
    .await;
    assert_eq!(
        (&again["status"], &again["standings"]),
        (&json!("duplicate"), &json!([]))
    );
    let other = take(client, &json!({"member": "m01", "score": 1, "id": "other"})).await;
    assert_eq!(other["standings"][0]["score"], 4);
    // The hide goes on once the member is there again.
    take(client, &json!({"member": "m04", "score": 3})).await;
    let cohort = cohort_of(&take(client, &json!({"member": "m04", "score": 1})).await);
    let shown = page(client, &cohort, WEEK).await;
    assert!(
        shown.iter().all(|(_, member, _)| member != "m04"),
        "{shown:?}"
    );
    let hidden = client.get("/v1/boards/l/hidden").await.expect(200);
    assert_eq!(hidden["hidden"][0]["member"], "m04");
    client.delete(path).await.expect(204);
    let shown = page(client, &cohort, WEEK).await;
    assert!(
        shown
            .iter()
            .any(|(_, member, score)| member == "m04" && *score == 4)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_reached_some_shards_reaches_all() {
    use standings::domain::erasure::Erasure;
    use standings::domain::ids::{BoardId, MemberId};

    let world = world_of(json!({}), json!({})).await;
    let client = world.client();
    take(client, &json!({"member": "ann", "score": 10})).await;
    take(client, &json!({"member": "bob", "score": 5})).await;
    let engine = &world.engine();
    let (id, ann) = (
        BoardId::parse("l").unwrap(),
        MemberId::parse("ann").unwrap(),
    );
    let board = engine.board(&id).await.unwrap();
    let shards = board.shards();
    let number = erasures::begin(&engine.store, &id).await.unwrap();
    let at = engine.clock.now();
    for shard in [1, 7, 12]
        .into_iter()
        .filter(|shard| *shard != board.shard_of(&ann))
    {
        let erasure = Erasure { number, at };
        erasures::erase(&engine.store, &shards[shard], &ann, &erasure, None)
            .await
            .unwrap();
    }
    // A step that begins in the same millisecond does not find the note yet.
    eventually("the erasure has come to all shards", async || {
        engine.run(&Erasures).await.unwrap();
        world.keys_with("st:{l*", "ann").await.is_empty()
    })
    .await;
    assert_eq!(
        page(client, "bronze-1", WEEK).await,
        [(1, "bob".to_owned(), 5)]
    );
}
