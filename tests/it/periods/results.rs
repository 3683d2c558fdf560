//! The results of final periods: what reads say of the state, the list of periods, the result of each with its digest, and
//! exports.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use futures::future::join_all;
use reqwest::Method;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use standings::core::board::store::board_notes::{self, NotedFor};
use standings::core::jobs::Job;
use standings::core::read::period::Choice;
use standings::domain::ids::BoardId;
use standings::periods::results::periods::PeriodName;
use standings::periods::results::{self, export};

use crate::harness::client::Answer;
use crate::harness::jobs::{ClosePeriods, Purge, Revisions};
use crate::harness::{Client, Instance, World};

const DAY: &str = "2026-11-20";
const NOON: &str = "2026-11-20T12:00:00Z";
/// The next day, eleven minutes after its beginning.
const LATER: &str = "2026-11-21T00:11:00Z";

async fn world(definition: Value) -> World {
    world_at("2026-11-20T00:00:00Z", NOON, definition).await
}

/// A board that was defined at one instant, at another one.
async fn world_at(begin: &str, now: &str, definition: Value) -> World {
    let world = World::with_instances(2, begin).await;
    world.client().define("b", definition).await;
    world.set_time(now);
    world
}

async fn close(instance: &Instance) {
    instance.engine.run(&ClosePeriods).await.unwrap();
}

/// Sends events of these members with these scores, each a second after the one before.
async fn send(client: &Client, day: &str, scores: &[(String, i64)]) {
    let events: Vec<Value> = scores.iter().enumerate().map(|(index, (member, score))| {
        let (minute, second) = (index / 60 % 60, index % 60);
        let at = format!("{day}T10:{minute:02}:{second:02}Z");
        json!({"board": "b", "id": format!("{day}-{index}"), "member": member, "score": score, "at": at})
    }).collect();
    for events in events.chunks(500) {
        let taken = client
            .post("/v1/events", json!({"events": events}))
            .await
            .expect(200);
        let mut results = taken["results"].as_array().unwrap().iter();
        assert!(results.all(|result| result["status"] == "applied"));
    }
}

fn members(count: usize) -> Vec<(String, i64)> {
    // Many share a score.
    let member = |index: usize| (format!("m{index}"), i64::try_from(index % 97).unwrap());
    (0..count).map(member).collect()
}

fn named(scores: &[(&str, i64)]) -> Vec<(String, i64)> {
    let scores = scores.iter();
    scores
        .map(|(member, score)| ((*member).to_owned(), *score))
        .collect()
}

fn path(rest: &str) -> String {
    format!("/v1/boards/b/standings/{rest}")
}

async fn get(client: &Client, rest: &str) -> Value {
    client.get(&path(rest)).await.expect(200)
}

async fn export(client: &Client, rest: &str) -> Answer {
    let answer = client.get(&path(rest)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

fn sha256(text: &str) -> String {
    let mut digits = String::new();
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        write!(digits, "{byte:02x}").unwrap();
    }
    digits
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_has_the_state_and_a_final_page_has_a_new_entity_tag() {
    let world = world(json!({"windows": ["day", "last-2-days", "all"], "finalize": "10m"})).await;
    let client = world.client();
    send(client, DAY, &named(&[("ann", 5), ("bob", 3)])).await;
    let mut tags = BTreeSet::new();
    for (now, state) in [
        (NOON, "live"),
        ("2026-11-21T00:00:00Z", "closing"),
        (LATER, "final"),
    ] {
        world.set_time(now);
        if state == "final" {
            close(&world.instances[0]).await;
        }
        for rest in ["day?key=2026-11-20", "last-2-days?key=2026-11-20"] {
            let page = client.get(&path(rest)).await;
            assert_eq!(page.json["state"], state, "{rest} at {now}");
            let rule = page.headers["cache-control"].to_str().unwrap();
            assert_eq!(rule.contains("max-age"), state == "final", "{rule}");
            tags.insert(page.headers["etag"].clone());
        }
        for rest in [
            "day/members/ann?key=2026-11-20",
            "day/members?ids=ann&key=2026-11-20",
            "day/stats?key=2026-11-20",
            "day/at-percentile/50?key=2026-11-20",
        ] {
            assert_eq!(get(client, rest).await["state"], state, "{rest} at {now}");
        }
        assert_eq!(get(client, "all").await["state"], "live");
        let across = "/v1/members/ann/standings?boards=b&window=day&key=2026-11-20";
        let across = client.get(across).await.expect(200);
        assert_eq!(across["standings"][0]["state"], state);
        let queries =
            json!({"queries": [{"type": "page", "board": "b", "window": "day", "key": DAY}]});
        let answered = client
            .post("/v1/standings/query", queries)
            .await
            .expect(200);
        assert_eq!(answered["results"][0]["state"], state);
    }
    assert_eq!(tags.len(), 6, "of two windows in three states");
    let summary = client.get("/v1/boards/b/summary").await.expect(200);
    assert_eq!(summary["windows"][0]["state"], "live");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_without_finalize_is_never_final() {
    let world = world(json!({"windows": ["day"]})).await;
    let client = world.client();
    send(client, DAY, &named(&[("ann", 5)])).await;
    world.set_time("2026-12-24T00:00:00Z");
    close(&world.instances[0]).await;
    let page = get(client, "day?key=2026-11-20").await;
    assert_eq!(page["state"], "ended");
    let result = get(client, "day/periods/2026-11-20").await;
    assert_eq!(
        (&result["state"], &result["revision"], &result["digest"]),
        (&json!("ended"), &Value::Null, &Value::Null)
    );
    let csv = export(client, "day/periods/2026-11-20/export?format=csv").await;
    assert!(csv.headers.contains_key("standings-as-of"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_period_is_upcoming_until_it_begins() {
    let world = world(json!({"windows": ["day", "last-2-days"], "finalize": "10m"})).await;
    let client = world.client();
    send(client, DAY, &named(&[("ann", 5)])).await;
    let mut tags = BTreeSet::new();
    for (now, state) in [(NOON, "upcoming"), ("2026-11-21T00:00:00Z", "live")] {
        world.set_time(now);
        for window in ["day", "last-2-days"] {
            let page = client.get(&path(&format!("{window}?key=2026-11-21"))).await;
            assert_eq!(page.json["state"], state, "{window} at {now}");
            tags.insert(page.headers["etag"].clone());
        }
    }
    assert_eq!(tags.len(), 4, "of two windows in two states");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_all_periods_with_data_newest_first() {
    for shards in [1, 4] {
        let definition = json!({"windows": ["day", "last-2-days"], "finalize": "12h", "accept_late": "any", "shards": shards});
        let noon = "2026-11-10T12:00:00Z";
        let world = world_at(noon, noon, definition).await;
        let client = world.client();
        for (day, score) in [("2026-11-10", 5), ("2026-11-07", 2)] {
            send(client, day, &named(&[("ann", score), ("bob", 3)])).await;
        }
        world.set_time("2026-11-12T11:00:00Z");
        send(client, "2026-11-11", &named(&[("cid", 1)])).await;
        send(client, "2026-11-12", &named(&[("ann", 1)])).await;
        close(&world.instances[0]).await;
        let list = get(client, "day/periods").await;
        let line = |key: &str, state: &str, total: u64, winner: (&str, i64)| {
            let (winner, score) = winner;
            let of_key = |period: &Value| period["key"] == key;
            let periods = list["periods"].as_array().unwrap();
            let period = periods.iter().find(|period| of_key(period)).unwrap();
            assert_eq!(
                (
                    &period["state"],
                    &period["total"],
                    &period["winner"]["member"],
                    &period["winner"]["score"]
                ),
                (&json!(state), &json!(total), &json!(winner), &json!(score)),
                "{key}"
            );
        };
        line("2026-11-12", "live", 1, ("ann", 1));
        line("2026-11-11", "closing", 1, ("cid", 1));
        line("2026-11-10", "final", 2, ("ann", 5));
        // It had ended when `finalize` was set: it has no result.
        line("2026-11-07", "final", 2, ("bob", 3));
        let older = get(client, "day/periods/2026-11-07").await;
        assert_eq!(
            (&older["state"], &older["revision"]),
            (&json!("final"), &Value::Null)
        );
        let keys = |list: &Value| -> Vec<String> {
            let periods = list["periods"].as_array().unwrap().iter();
            periods
                .map(|period| period["key"].as_str().unwrap().to_owned())
                .collect()
        };
        let all = ["2026-11-12", "2026-11-11", "2026-11-10", "2026-11-07"];
        assert_eq!(
            (keys(&list), &list["next"]),
            (all.map(str::to_owned).to_vec(), &Value::Null)
        );
        let first = get(client, "day/periods?limit=2").await;
        assert_eq!(
            (keys(&first), &first["next"]),
            (
                all[..2].iter().map(|key| (*key).to_owned()).collect(),
                &json!("2026-11-11")
            )
        );
        let next = get(client, "day/periods?limit=2&before=2026-11-11").await;
        assert_eq!(
            (keys(&next), &next["next"]),
            (
                all[2..].iter().map(|key| (*key).to_owned()).collect(),
                &Value::Null
            )
        );
        let newer = get(client, "day/periods?after=2026-11-10").await;
        assert_eq!(keys(&newer), all[..2]);
        client
            .get(&path("day/periods?before=x"))
            .await
            .expect_problem(400, "invalid-parameter");
        client
            .get(&path("day/periods?limit=101"))
            .await
            .expect_problem(400, "invalid-parameter");
        client
            .get(&path("last-2-days/periods"))
            .await
            .expect_problem(404, "period-not-found");
        client
            .get(&path("week/periods"))
            .await
            .expect_problem(404, "unknown-window");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_digest_of_a_result_is_that_of_the_export() {
    for (definition, count) in [
        (json!({"windows": ["day"], "finalize": "10m"}), 2_345),
        (
            json!({"windows": ["day"], "finalize": "10m", "shards": 4, "ranking": "competition"}),
            2_345,
        ),
        (
            json!({"windows": ["day"], "finalize": "10m", "ranking": "dense", "ties": "member"}),
            1_000,
        ),
        (
            json!({"windows": ["day"], "finalize": "10m", "keep_top": 50, "update": "max"}),
            200,
        ),
        (
            json!({"windows": ["day"], "finalize": "10m", "order": "asc", "ties": "last"}),
            1,
        ),
    ] {
        let world = world(definition.clone()).await;
        let client = world.client();
        send(client, DAY, &members(count)).await;
        let result = get(client, "day/periods/2026-11-20").await;
        assert_eq!(
            (
                &result["state"],
                &result["total"],
                &result["final_at"],
                &result["revision"],
                &result["rewards"]
            ),
            (
                &json!("live"),
                &json!(count),
                &Value::Null,
                &Value::Null,
                &Value::Null
            )
        );
        world.set_time(LATER);
        close(&world.instances[0]).await;
        let ndjson = export(client, "day/periods/2026-11-20/export?format=ndjson").await;
        assert_eq!(ndjson.headers["content-type"], "application/x-ndjson");
        assert_eq!(ndjson.headers["standings-revision"], "1");
        let result = get(client, "day/periods/2026-11-20").await;
        assert_eq!(
            (
                &result["state"],
                &result["total"],
                &result["final_at"],
                &result["revision"],
                &result["rewards"]
            ),
            (
                &json!("final"),
                &json!(count),
                &json!("2026-11-21T00:11:00.000Z"),
                &json!(1),
                &json!(0)
            )
        );
        assert_eq!(result.get("revising"), None);
        assert_eq!(result["digest"], sha256(&ndjson.text), "{definition}");
        let same = get(&world.instances[1].client, "day/periods/2026-11-20").await;
        assert_eq!(result, same);
        assert_eq!(result["winner"]["member"], first_of(&ndjson)["member"]);
        // It has what the pages have.
        let listed: Vec<Value> = ndjson
            .text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut paged = Vec::new();
        for page in 1.. {
            let page = get(client, &format!("day?key=2026-11-20&size=1000&page={page}")).await;
            let entries = page["entries"].as_array().unwrap();
            if entries.is_empty() {
                break;
            }
            paged.extend(entries.clone());
        }
        assert_eq!(listed, paged, "{definition}");
    }
}

fn first_of(ndjson: &Answer) -> Value {
    serde_json::from_str(ndjson.text.lines().next().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_standing_keeps_the_ranking_that_its_closing_pinned() {
    for shards in [1, 4] {
        let definition = |ranking: &str| json!({"windows": ["day"], "finalize": "10m", "ranking": ranking, "shards": shards});
        let world = world(definition("competition")).await;
        let client = world.client();
        send(client, DAY, &named(&[("ann", 5), ("bob", 5), ("cid", 4)])).await;
        let ranks = |lines: &Value| -> Vec<u64> {
            let lines = lines.as_array().unwrap().iter();
            lines.map(|line| line["rank"].as_u64().unwrap()).collect()
        };
        let page = async |day: &str| {
            let page = get(client, &format!("day?key={day}")).await;
            ranks(&page["entries"])
        };
        assert_eq!(page(DAY).await, [1, 1, 3]);
        world.set_time(LATER);
        close(&world.instances[0]).await;
        client
            .put("/v1/boards/b", definition("ordinal"))
            .await
            .expect(200);
        send(client, "2026-11-21", &[]).await;
        let event = |member: &str| json!({"member": member, "score": 5});
        for member in ["ann", "bob"] {
            client
                .post("/v1/boards/b/events", event(member))
                .await
                .expect(200);
        }
        assert_eq!(page("2026-11-21").await, [1, 2]);
        for instance in &world.instances {
            let page = get(&instance.client, "day?key=2026-11-20").await;
            assert_eq!(ranks(&page["entries"]), [1, 1, 3]);
            let member = get(&instance.client, "day/members/bob?key=2026-11-20&around=1").await;
            assert_eq!(
                (&member["rank"], ranks(&member["around"])),
                (&json!(1), vec![1, 1, 3])
            );
            // Its rank of the day before is that of a final standing.
            let today = get(&instance.client, "day/members/bob").await;
            assert_eq!(
                (&today["rank"], &today["previous"]["rank"]),
                (&json!(2), &json!(1))
            );
            let subset = get(&instance.client, "day/members?ids=bob,cid&key=2026-11-20").await;
            assert_eq!(ranks(&subset["entries"]), [1, 3]);
        }
        let ndjson = export(client, "day/periods/2026-11-20/export?format=ndjson").await;
        let lines = ndjson
            .text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert_eq!(ranks(&lines.collect()), [1, 1, 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_csv_has_no_formulas_and_has_profiles_on_request() {
    let world = world(json!({"windows": ["day"], "finalize": "10m", "decimals": 1})).await;
    let client = world.client();
    send(client, DAY, &named(&[("=cmd|x", -5), ("ann", 3)])).await;
    let profile = json!({"name": "+Ann", "attributes": {"country": "NZ"}});
    client.put("/v1/members/ann/profile", profile).await;
    world.set_time(LATER);
    close(&world.instances[0]).await;
    let csv = export(client, "day/periods/2026-11-20/export?format=csv").await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(csv.headers["cache-control"], "private, no-store");
    assert_eq!(csv.headers["trailer"], "standings-changed");
    let expected = "rank,member,score,reached_at\n1,ann,3,2026-11-20T10:00:01.000Z\n2,'=cmd|x,-5,2026-11-20T10:00:00.000Z\n";
    assert_eq!(csv.text, expected);
    let csv = export(
        client,
        "day/periods/previous/export?format=csv&include=profile",
    )
    .await;
    let expected = "rank,member,score,reached_at,name,avatar_url,attributes\n\
        1,ann,3,2026-11-20T10:00:01.000Z,'+Ann,,\"{\"\"country\"\":\"\"NZ\"\"}\"\n\
        2,'=cmd|x,-5,2026-11-20T10:00:00.000Z,,,\n";
    assert_eq!(csv.text, expected);
    let for_excel = "day/periods/previous/export?format=csv&include=profile&bom=true";
    let csv = export(client, for_excel).await;
    assert_eq!(csv.text, format!("\u{feff}{expected}"));
    for (rest, code) in [
        ("", "invalid-parameter"),
        ("?format=ndjson&bom=true", "invalid-parameter"),
        ("?format=xml", "invalid-parameter"),
        ("?format=csv&include=x", "invalid-parameter"),
    ] {
        let refused = client
            .get(&path(&format!("day/periods/2026-11-20/export{rest}")))
            .await;
        refused.expect_problem(400, code);
    }
    let unknown = client
        .get(&path("day/periods/2026-11-01/export?format=csv"))
        .await;
    unknown.expect_problem(404, "period-not-found");
    let unknown = client.get(&path("day/periods/2026-11-01")).await;
    unknown.expect_problem(404, "period-not-found");
}

/// The trailer of an export, read as it comes over the wire. `meanwhile` is done once its head is there.
async fn trailer(client: &Client, rest: &str, meanwhile: impl AsyncFnOnce()) -> String {
    use http_body_util::BodyExt;
    use hyper_util::rt::TokioIo;

    let address = client.base.strip_prefix("http://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::builder()
        .method(Method::GET)
        .uri(path(rest))
        .header("host", address)
        .header("te", "trailers")
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    meanwhile().await;
    let body = response.into_body().collect().await.unwrap();
    let changed = body.trailers().unwrap()["standings-changed"].clone();
    connection.abort();
    changed.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trailer_of_an_export_says_whether_anything_changed() {
    let world = world(json!({"windows": ["day"], "finalize": "10m"})).await;
    let client = world.client();
    // More than the buffers of a connection hold.
    send(client, DAY, &members(40_000)).await;
    world.set_time(LATER);
    close(&world.instances[0]).await;
    let rest = "day/periods/2026-11-20/export?format=ndjson";
    assert_eq!(trailer(client, rest, async || {}).await, "false");
    let hide = async || {
        let reason = json!({"reason": "cheating"});
        client.put("/v1/boards/b/hidden/m7", reason).await;
    };
    assert_eq!(trailer(client, rest, hide).await, "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_reports_hides_since_its_revision_was_read() {
    let world = world(json!({"windows": ["day"], "finalize": "10m"})).await;
    let (client, service) = (world.client(), &world.instances[0].engine);
    send(client, DAY, &members(3)).await;
    world.set_time(LATER);
    close(&world.instances[0]).await;
    let reason = json!({"reason": "cheating"});
    let hide = async |member: &str| {
        let path = format!("/v1/boards/b/hidden/{member}");
        client.put(&path, reason.clone()).await.expect(200)
    };
    hide("m1").await;
    let at = PeriodName {
        board: BoardId::parse("b").unwrap(),
        window: "day".to_owned(),
        choice: Choice::Key("2026-11-20".to_owned()),
    };
    let found = results::work::period_to_export(service, &at, None)
        .await
        .unwrap();
    hide("m2").await;
    client.delete("/v1/boards/b/hidden/m1").await.expect(204);
    let mut export = export::begin(service, found.clone()).await.unwrap();
    let entries = export::next_entries(service, &mut export).await.unwrap();
    assert_eq!(entries.len(), 2, "as many as the result had");
    assert!(export::has_changed(service, &export).await.unwrap());
    let found = results::work::period_to_export(service, &at, None)
        .await
        .unwrap();
    let mut export = export::begin(service, found.clone()).await.unwrap();
    export::next_entries(service, &mut export).await.unwrap();
    assert!(!export::has_changed(service, &export).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_and_its_digest_outlive_the_standing() {
    let definition = json!({"windows": ["day", "hour"], "finalize": "10m", "retention": {"day": "1d", "hour": "1d"}});
    let world = world(definition).await;
    let client = world.client();
    send(client, DAY, &named(&[("ann", 5), ("bob", 3)])).await;
    world.set_time(LATER);
    close(&world.instances[0]).await;
    let made = get(client, "day/periods/2026-11-20").await;
    assert_eq!(made["digest"].as_str().unwrap().len(), 64);
    let hour = "hour/periods/2026-11-20T10:00Z";
    // As their expiry does.
    for key in world.redis.keys("st:{b}:*:2026-11-20*").await {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    world.set_time("2026-11-23T00:00:00Z");
    let result = get(client, "day/periods/2026-11-20").await;
    assert_eq!(result, made);
    let result = get(client, hour).await;
    assert_eq!(
        (
            &result["state"],
            &result["total"],
            &result["winner"]["member"],
            &result["digest"]
        ),
        (&json!("final"), &json!(2), &json!("ann"), &Value::Null)
    );
    let list = get(client, "day/periods").await;
    assert_eq!(list["periods"][0]["key"], DAY);
    for period in ["day/periods/2026-11-20", hour] {
        let gone = client
            .get(&path(&format!("{period}/export?format=csv")))
            .await;
        gone.expect_problem(410, "period-expired");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_recordings_of_a_result_send_one_message() {
    let world = world(json!({"windows": ["day", "week"], "finalize": "10m", "shards": 4})).await;
    let client = world.client();
    send(client, DAY, &named(&[("ann", 5)])).await;
    world.set_time(LATER);
    join_all(world.instances.iter().map(close)).await;
    let live = "/v1/boards/b/standings/day/periods/2026-11-20/close";
    let closed = join_all(
        world
            .instances
            .iter()
            .map(|instance| instance.client.post(live, json!({}))),
    );
    for closed in closed.await {
        assert_eq!(closed.expect(200)["revision"], 1);
    }
    let generation = world.generation("b").await;
    let outbox = format!("st:{{b}}:{generation}:outbox");
    let messages = world.redis.run(&[b"HVALS", outbox.as_bytes()]).await;
    let [message] = messages.list() else {
        panic!("{messages:?}")
    };
    let message: Value = serde_json::from_str(&message.text()).unwrap();
    assert_eq!(message["type"], "period.final");
    let data = json!({"board": "b", "window": "day", "key": DAY, "revision": 1, "total": 1,
        "starts_at": "2026-11-20T00:00:00.000Z", "ends_at": "2026-11-21T00:00:00.000Z"});
    assert_eq!(message["data"], data);
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_member_removes_it_as_winner_of_a_result() {
    let world = world(json!({"windows": ["day", "hour"], "finalize": "10m"})).await;
    let client = world.client();
    send(client, DAY, &named(&[("ann", 5), ("bob", 3)])).await;
    world.set_time(LATER);
    close(&world.instances[0]).await;
    client.delete("/v1/boards/b/members/ann").await.expect(204);
    for key in world.redis.keys("st:{b}:*:results:*").await {
        let stored = world.redis.run(&[b"HVALS", key.as_bytes()]).await;
        for result in stored.list() {
            let result: Value = serde_json::from_str(&result.text()).unwrap();
            let winner =
                json!({"member": null, "score": 5, "reached_at": "2026-11-20T10:00:00.000Z"});
            assert_eq!(result["winner"], winner, "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_deleted_with_their_board() {
    for shards in [1, 4] {
        let world = world(json!({"windows": ["day"], "finalize": "10m", "shards": shards})).await;
        let client = world.client();
        send(client, DAY, &named(&[("ann", 5)])).await;
        world.set_time(LATER);
        close(&world.instances[0]).await;
        get(client, "day/periods/2026-11-20").await;
        assert_eq!(world.redis.keys("st:{b}:*:digests:day").await.len(), 1);
        client.delete("/v1/boards/b").await.expect(204);
        world.engine().run(&Purge).await.unwrap();
        let left = world.redis.keys("st:{b}:*:*").await;
        let of_results = left.iter().filter(|key| !key.contains(":e:"));
        assert_eq!(of_results.count(), 0, "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_matches_the_export_after_hides_and_erasures() {
    for shards in [1, 4] {
        let definition = json!({"windows": ["day"], "finalize": "10m", "shards": shards});
        let world = world(definition).await;
        let client = world.client();
        send(client, DAY, &named(&[("ann", 5), ("bob", 3), ("cid", 1)])).await;
        world.set_time(LATER);
        close(&world.instances[0]).await;
        let read = async |revision: u64, total: u64| {
            let ndjson = export(client, "day/periods/2026-11-20/export?format=ndjson").await;
            let result = get(&world.instances[1].client, "day/periods/2026-11-20").await;
            assert_eq!(
                (&result["revision"], &result["total"], &result["digest"]),
                (
                    &json!(revision),
                    &json!(total),
                    &json!(sha256(&ndjson.text))
                )
            );
            assert_eq!(ndjson.text.lines().count() as u64, total);
            ndjson.text
        };
        let first = read(1, 3).await;
        let reason = json!({"reason": "cheating"});
        let hidden = client.put("/v1/boards/b/hidden/bob", reason).await;
        hidden.expect(200);
        assert!(!read(2, 2).await.contains("bob"));
        client.delete("/v1/boards/b/hidden/bob").await.expect(204);
        assert_eq!(read(3, 3).await, first);
        client.delete("/v1/boards/b/members/cid").await.expect(204);
        let nameless = first.replace("\"cid\"", "null");
        assert_eq!(read(3, 3).await, nameless);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_matches_the_export_after_erasures_before_and_after_a_move() {
    let definition = json!({"windows": ["day"], "finalize": "10m", "shards": 1});
    let world = world(definition).await;
    let client = world.client();
    send(client, DAY, &named(&[("ann", 5), ("bob", 3), ("cid", 1)])).await;
    world.set_time(LATER);
    close(&world.instances[0]).await;
    let check = async || {
        let ndjson = export(client, "day/periods/2026-11-20/export?format=ndjson").await;
        let result = get(client, "day/periods/2026-11-20").await;
        assert_eq!(result["digest"], json!(sha256(&ndjson.text)));
    };
    client.delete("/v1/boards/b/members/ann").await.expect(204);
    check().await;
    world.move_to("b", 3).await;
    client.delete("/v1/boards/b/members/bob").await.expect(204);
    check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_with_thousands_of_hides_does_not_delay_revisions_of_others() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let engine = world.engine();
    for (board, hides) in [("busy", 5_000), ("quiet", 1)] {
        let definition = json!({"windows": ["day"], "finalize": "10m"});
        world.client().define(board, definition).await;
        let board = engine.board(&BoardId::parse(board).unwrap()).await.unwrap();
        for _ in 0..hides {
            let noted = board_notes::note(&engine.store, NotedFor::Revision, &board);
            noted.await.unwrap();
        }
    }
    let due = Revisions.due(engine).await.unwrap();
    let due: BTreeSet<&str> = due.iter().map(|board| board.id.as_str()).collect();
    assert_eq!(due, BTreeSet::from(["busy", "quiet"]));
}
