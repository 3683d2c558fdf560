//! What is built for reads of the past: bounded for each who asks, while others go on.

use axum::http::Method;
use serde_json::{Value, json};
use standings::api::router::Options;
use standings::http::connection::Times;
use standings::http::listener::Limits;
use standings::redis::{Address, Store};

use crate::harness::client::Answer;
use crate::harness::{Client, Instance, PATIENT, World};

const NOW: &str = "2026-11-21T12:00:00Z";

/// A board that everybody may read, whose rolling window has many periods and an event in each.
async fn world() -> (World, Client) {
    let mut world = World::start(NOW).await;
    let options = Options {
        keys: "admin:an-admin,read:a-reader".parse().unwrap(),
        proxies: "127.0.0.0/8".parse().unwrap(),
        ..Options::default()
    };
    let limits = Limits {
        connections: 100,
        times: Times::default(),
    };
    let store = Store::connect(
        &Address::parse(&world.redis.url()),
        PATIENT.try_into().unwrap(),
    );
    let clock = world.clock.clone();
    let instance = Instance::start_set_up(limits, 256, store.unwrap(), clock, options).await;
    let admin = instance.client.with_key("an-admin");
    world.instances.push(instance);
    let definition =
        json!({"windows": ["hour", "last-200-hours"], "accept_late": "any", "public": true});
    admin.define("b", definition).await;
    admin.define("other", json!({"windows": ["day"]})).await;
    let events: Vec<Value> = (0..600)
        .map(|hour| {
            let at = format!("2026-10-{:02}T{:02}:30:00Z", 1 + hour / 24, hour % 24);
            json!({"board": "b", "member": format!("m{hour}"), "score": 1, "at": at})
        })
        .collect();
    for part in events.chunks(300) {
        let body = json!({"events": part});
        admin
            .post("/v1/events?standings=false", body)
            .await
            .expect(200);
    }
    (world, admin)
}

/// Reads the sum that ends so many hours after the first event, from this address.
async fn read(client: &Client, hour: usize, address: &str) -> Answer {
    let key = format!("2026-10-{:02}T{:02}:00Z", 1 + hour / 24, hour % 24);
    let path = format!("/v1/boards/b/standings/last-200-hours?size=1&key={key}");
    let request = client.builder(Method::GET, &path);
    Client::send(request.header("x-forwarded-for", address)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_client_that_builds_many_past_standings_waits() {
    let (world, admin) = world().await;
    let anybody = &world.instances[1].client;
    let mut refused = None;
    // None of them can be carried on from the one before.
    for hour in (200..600).step_by(2) {
        let answer = read(anybody, hour, "203.0.113.7").await;
        if answer.status.as_u16() != 200 {
            refused = Some((hour, answer));
            break;
        }
        assert_eq!(answer.json["total"], 200, "hour {hour}");
        // What was built is kept, and costs no more than another read.
        read(anybody, hour, "203.0.113.7").await.expect(200);
    }
    let (hour, refused) = refused.expect("the allowance is used up");
    let wait = refused.headers["retry-after"].to_str().unwrap();
    assert!(wait.parse::<u64>().unwrap() >= 1, "{wait}");
    refused.expect_problem(429, "rate-limited");
    // The same address still reads what is there, and the running window.
    read(anybody, hour - 2, "203.0.113.7").await.expect(200);
    let running = "/v1/boards/b/standings/last-200-hours";
    let request = anybody
        .builder(Method::GET, running)
        .header("x-forwarded-for", "203.0.113.7");
    Client::send(request).await.expect(200);
    // Others have their own allowance, and events are not held up.
    read(anybody, hour, "203.0.113.8").await.expect(200);
    read(&anybody.with_key("a-reader"), hour + 1, "203.0.113.7")
        .await
        .expect(200);
    let event = json!({"member": "ann", "score": 1});
    admin
        .post("/v1/boards/other/events", event)
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reads_of_the_past_are_built_one_at_a_time() {
    let (world, admin) = world().await;
    let queries: Vec<Value> = (300..310)
        .map(|hour| {
            let key = format!("2026-10-{:02}T{:02}:00Z", 1 + hour / 24, hour % 24);
            json!({"type": "page", "board": "b", "window": "last-200-hours", "key": key, "size": 1})
        })
        .collect();
    let body = json!({ "queries": queries });
    let (many, read) = tokio::join!(
        admin.post("/v1/standings/query", body),
        read(&world.instances[1].client, 400, "203.0.113.7")
    );
    read.expect(200);
    for result in many.expect(200)["results"].as_array().unwrap() {
        assert_eq!(result["total"], 200, "{result}");
    }
}
