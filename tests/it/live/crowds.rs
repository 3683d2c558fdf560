//! Many who watch, and one who reads nothing.

use std::time::Duration;

use serde_json::json;
use standings::api::router::Options;
use standings::http::connection::Times;
use standings::http::listener::Limits;
use standings::live::StreamLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::{NOW, STREAM, has, send};
use crate::harness::redis::eventually;
use crate::harness::streams::Stream;
use crate::harness::{Instance, RedisServer, clock_at};

const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";

async fn instance(keys: &str, unread: Duration, streams: StreamLimits) -> (RedisServer, Instance) {
    let redis = RedisServer::start().await;
    let options = Options {
        keys: keys.parse().unwrap(),
        ..Options::default()
    };
    let limits = Limits {
        connections: 3_000,
        times: Times {
            unread,
            ..Times::default()
        },
    };
    let place = (redis.url(), clock_at(NOW));
    let instance = Instance::start_streaming((&place.0, place.1), options, limits, streams).await;
    (redis, instance)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_does_not_disturb_a_thousand_others() {
    const WATCHERS: usize = 1_000;
    // Of these an address may have one more than there are watchers. It leaves an eighth.
    const STREAMS: usize = 1_144;
    // This end needs as many.
    assert!(standings::descriptors::raise_limit() > 3 * WATCHERS as u64);
    let limits = StreamLimits {
        all: STREAMS,
        per_key: 0,
        per_address: 2 * WATCHERS,
    };
    let (_redis, instance) = instance("", Duration::from_secs(1), limits).await;
    let client = instance.client.clone();
    let definition = json!({"windows": ["day"], "entry_data": true});
    client.define("b", definition).await;
    // One that asks for much, and takes nothing of it.
    for number in 0..100 {
        let event = json!({"member": format!("m{number:0>100}"), "score": 1, "data": {"x": "x".repeat(480)}});
        client.post("/v1/boards/b/events", event).await.expect(200);
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let address = client.base.strip_prefix("http://").unwrap();
    let mut deaf = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = format!("GET {STREAM}?size=100&include=data HTTP/1.1\r\nHost: localhost\r\n\r\n");
    deaf.write_all(request.as_bytes()).await.unwrap();
    let mut watching = Vec::new();
    for number in 0..WATCHERS {
        let path = format!("{STREAM}?size=1&member=m{:0>100}", number % 200);
        let path = if number % 2 == 0 {
            path
        } else {
            format!("{STREAM}?size=1")
        };
        let mut stream = Stream::open(&client, &path).await;
        watching.push(tokio::spawn(async move {
            stream.until(has(&["last"])).await;
            stream
        }));
    }
    // Its place is free once it was dropped.
    eventually("who reads nothing is dropped", async || {
        send(&client, &format!("m{:0>100}", 7), 1).await;
        Stream::try_open(&client, STREAM).await.is_some()
    })
    .await;
    send(&client, "last", 1_000_000).await;
    for stream in watching {
        stream.await.unwrap();
    }
    let mut rest = Vec::new();
    // A connection that is closed before all was read may be reset.
    let _ = deaf.read_to_end(&mut rest).await;
    assert!(!rest.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_counted_by_key_and_by_address() {
    let limits = StreamLimits {
        all: 6,
        per_key: 3,
        per_address: 2,
    };
    let (_redis, instance) = instance(KEYS, Duration::from_secs(30), limits).await;
    let open = &instance.client.once();
    let admin = open.with_key("an-admin");
    let definition = json!({"windows": ["day"], "public": true});
    admin.define("b", definition).await;
    let reader = open.with_key("a-reader");
    let mut streams = Vec::new();
    for client in [open, open, &reader, &reader] {
        streams.push(Stream::open(client, STREAM).await);
    }
    let refused = open.get(STREAM).await;
    assert!(refused.headers.contains_key("retry-after"));
    refused.expect_problem(429, "too-many-streams");
    // A token counts for its key, and for the address.
    let body = json!({"board": "b", "window": "day"});
    let made = reader.post("/v1/stream-tokens", body).await.expect(200);
    let by_token = format!("{STREAM}?token={}", made["token"].as_str().unwrap());
    open.get(&by_token)
        .await
        .expect_problem(429, "too-many-streams");
    // One that has gone leaves its place.
    streams.remove(0);
    eventually("a place is free", async || {
        Stream::try_open(open, &by_token).await.is_some()
    })
    .await;
    let mut third = None;
    while third.is_none() {
        third = Stream::try_open(open, &by_token).await;
    }
    reader
        .get(STREAM)
        .await
        .expect_problem(429, "too-many-streams");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_key_leave_room_for_another() {
    let limits = StreamLimits {
        all: 80,
        per_key: 80,
        per_address: 80,
    };
    let (_redis, instance) = instance(KEYS, Duration::from_secs(30), limits).await;
    let open = &instance.client.once();
    let admin = open.with_key("an-admin");
    admin.define("b", json!({"windows": ["day"]})).await;
    let (one, other) = (open.with_key("a-reader"), open.with_key("a-writer"));
    let mut crowd = Vec::new();
    while let Some(stream) = Stream::try_open(&one, STREAM).await {
        crowd.push(stream);
        assert!(crowd.len() < 80, "one key has them all");
    }
    let mut opened = 0;
    for _ in 0..100 {
        opened += usize::from(Stream::try_open(&other, STREAM).await.is_some());
    }
    assert!(opened >= 99, "{opened}");
    one.get(STREAM).await.expect_problem(503, "overloaded");
}
