//! What one request may ask for, and what all of them may hold in memory.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use standings::http::connection::Times;
use standings::http::listener::Limits;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, RedisServer, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";
/// The least that can be configured, in MiB: it has room for one of the largest requests at a time.
const MEMORY_MB: usize = 64;
/// A bound that is not to be reached.
const LONG: Duration = Duration::from_hours(1);

/// An instance, and a board with so many members of long names.
async fn instance(members: usize) -> (RedisServer, Instance) {
    let redis = RedisServer::start().await;
    let store = crate::harness::store(&redis.url());
    let clock = clock_at(NOW);
    let limits = Limits {
        connections: 1_000,
        times: Times {
            unread: LONG,
            ..Times::default()
        },
    };
    let instance = Instance::start_within(limits, MEMORY_MB, store, clock, "").await;
    let client = &instance.client;
    client.define("b", json!({"windows": ["all"]})).await;
    let event = |place: usize| {
        json!({"board": "b", "id": format!("e-{place}"), "member": format!("{place:0>128}"),
            "score": 1 + place})
    };
    let places: Vec<usize> = (0..members).collect();
    for places in places.chunks(1_000) {
        let events: Vec<Value> = places.iter().map(|place| event(*place)).collect();
        let batch = json!({"events": events});
        client
            .post_until_taken("/v1/events?standings=false", &batch)
            .await;
    }
    (redis, instance)
}

/// So many queries for pages of this size, beginning with the first.
fn pages(count: usize, size: usize) -> Value {
    let page =
        |page| json!({"type": "page", "board": "b", "window": "all", "page": page, "size": size});
    let queries: Vec<Value> = (1..=count).map(page).collect();
    json!({"queries": queries})
}

/// Asks for the most there is, several times, and does not read the answers: they are more than the system keeps between
/// the two ends.
async fn ask_and_do_not_read(client: &Client) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let address = client.base.strip_prefix("http://").unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let body = pages(10, 1_000).to_string();
    let head = format!(
        "POST /v1/standings/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let request = head + &body;
    stream
        .write_all(request.repeat(4).as_bytes())
        .await
        .unwrap();
    // Its answer has begun.
    stream.readable().await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_asks_for_at_most_ten_thousand_entries() {
    let (_redis, instance) = instance(30).await;
    let client = &instance.client;
    let query = async |body: Value| client.post("/v1/standings/query", body).await;
    let entries = |answer: Value| {
        let results = answer["results"].as_array().unwrap().clone();
        let of = |result: &Value| result["entries"].as_array().unwrap().len();
        results.iter().map(of).sum::<usize>()
    };
    assert_eq!(entries(query(pages(10, 1_000)).await.expect(200)), 30);
    assert_eq!(entries(query(pages(100, 100)).await.expect(200)), 30);
    let member =
        json!({"type": "member", "board": "b", "window": "all", "member": "m", "around": 100});
    let mut members = vec![member.clone(); 49];
    query(json!({"queries": members})).await.expect(200);
    members.push(member);
    let one_too_many = [
        pages(11, 1_000),
        pages(100, 101),
        json!({"queries": members}),
        {
            let mut with_own = pages(10, 1_000);
            with_own["queries"][3]["member"] = json!("m");
            with_own
        },
    ];
    for body in one_too_many {
        let answer = query(body).await.expect(422);
        assert_eq!(answer["type"], "/problems/validation-failed");
        assert_eq!(answer["errors"][0]["pointer"], "/queries");
        let detail = answer["errors"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("10000 entries"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_delay_only_large_requests() {
    let (_redis, instance) = instance(10_000).await;
    let client = &instance.client.once();
    let mut unread = Vec::new();
    let refused = loop {
        assert!(unread.len() < 20, "large answers are not counted");
        let answer = client.post("/v1/standings/query", pages(10, 1_000)).await;
        if answer.status == 503 {
            break answer;
        }
        answer.expect(200);
        unread.push(ask_and_do_not_read(client).await);
    };
    assert_eq!(refused.headers["retry-after"], "1");
    refused.expect_problem(503, "overloaded");

    let page = "/v1/boards/b/standings/all?size=1000";
    for _ in 0..3 {
        client.get(page).await.expect(200);
        let small = client.post("/v1/standings/query", pages(10, 100)).await;
        small.expect(200);
        let event = json!({"member": "a", "score": 1});
        client.post("/v1/boards/b/events", event).await.expect(200);
    }

    drop(unread);
    eventually("what was held is given back", async || {
        let answer = client.post("/v1/standings/query", pages(10, 1_000)).await;
        answer.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_requests_give_back_their_budget() {
    let (redis, instance) = instance(10).await;
    let client = &instance.client.once();
    redis.freeze(true);
    let large = (0..40).map(|_| client.post("/v1/standings/query", pages(10, 1_000)));
    let small = (0..400).map(|page| {
        let path = format!("/v1/boards/b/standings/all?size=1000&page={}", page + 1);
        async move { client.get(&path).await }
    });
    let (large, small) = futures::join!(join_all(large), join_all(small));
    for answer in large.into_iter().chain(small) {
        // A request of many queries says of each by itself that there is no answer.
        if answer.status == 200 {
            let results = answer.json["results"].as_array().unwrap();
            assert!(
                results
                    .iter()
                    .all(|result| result["problem"]["status"] == 503)
            );
        } else {
            assert_eq!(answer.status, 503);
            assert_eq!(answer.headers["retry-after"], "1");
        }
    }
    redis.freeze(false);
    eventually("requests are answered again", async || {
        let large = client.post("/v1/standings/query", pages(10, 1_000)).await;
        large.status == 200 && large.json["results"][0]["total"] == 10
    })
    .await;
    let all = (0..40).map(|_| client.post("/v1/standings/query", pages(10, 1_000)));
    for answer in join_all(all).await {
        answer.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_equal_requests_share_one_body() {
    let (_redis, instance) = instance(1_000).await;
    let client = &instance.client;
    let path = "/v1/boards/b/standings/all?size=1000";
    let first = client.get(path).await;
    let same = join_all((0..200).map(|_| client.get(path))).await;
    for answer in same {
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert!(answer.text == first.text);
    }
}
