//! Clients that are slow, idle or too many hold nothing for good, and nobody else up.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use serde_json::{Value, json};
use standings::http::connection::Times;
use standings::http::listener::{Limits, RESERVE};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::program::Program;
use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, RedisServer, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";
/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);
/// A bound that is not to be reached.
const LONG: Duration = Duration::from_hours(1);
const HALF_A_HEAD: &[u8] = b"GET /livez HTTP/1.1\r\nHost: half\r\n";
const A_REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: whole\r\n\r\n";

/// It is answered only within the bound.
const FOR_WORK: &[u8] = b"GET /v1/boards HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// An instance with so many connections, which may take so long; other bounds of time are not reached.
async fn instance(connections: usize, times: Times) -> (RedisServer, Instance) {
    let redis = RedisServer::start().await;
    let store = crate::harness::store(&redis.url());
    let clock = clock_at(NOW);
    let limits = Limits { connections, times };
    let instance = Instance::start_within(limits, 256, store, clock, "").await;
    (redis, instance)
}

const PATIENT: Times = Times {
    head: LONG,
    idle: LONG,
    unread: LONG,
};

/// Waits until there is a connection for who asks the service for its work.
async fn until_answered(what: &str, client: &Client) {
    eventually(what, async || client.get("/v1/boards").await.status == 200).await;
}

/// Connects and sends this.
async fn send(client: &Client, bytes: &[u8]) -> TcpStream {
    let address = client.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// What comes until the other end closes.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    // A connection that is closed before all was read that had come in may be reset.
    let _ = tokio::time::timeout(PATIENCE, read)
        .await
        .expect("it is never closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One answer with a body of a known length.
async fn read_answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = async {
        loop {
            let mut bytes = [0; 4_096];
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "the connection ended: {text}");
            text.push_str(str::from_utf8(&bytes[..count]).unwrap());
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.to_lowercase();
            let (_, length) = length.split_once("content-length: ").unwrap();
            let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
            if body.len() >= length {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("there is no answer");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_head_times_out() {
    let times = Times {
        head: Duration::from_secs(1),
        ..PATIENT
    };
    let (_redis, instance) = instance(10, times).await;
    for begun in [&b"G"[..], b"PRI * HTTP", HALF_A_HEAD] {
        let mut stream = send(&instance.client, begun).await;
        assert_eq!(read_to_end(&mut stream).await, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_times_out_and_an_incomplete_head_on_it_sooner() {
    let idle = Times {
        idle: Duration::from_secs(1),
        ..PATIENT
    };
    let (_redis, served) = instance(10, idle).await;
    let mut stream = send(&served.client, A_REQUEST).await;
    assert!(read_to_end(&mut stream).await.starts_with("HTTP/1.1 200"));

    let head = Times {
        head: Duration::from_secs(3),
        ..PATIENT
    };
    let (_redis, served) = instance(10, head).await;
    let mut stream = send(&served.client, A_REQUEST).await;
    read_answer(&mut stream).await;
    tokio::time::sleep(2 * head.head).await;
    stream.write_all(A_REQUEST).await.unwrap();
    assert!(read_answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    stream.write_all(HALF_A_HEAD).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_its_first_request_is_idle() {
    let idle = Times {
        idle: Duration::from_secs(1),
        ..PATIENT
    };
    let (_redis, served) = instance(10, idle).await;
    let mut stream = send(&served.client, b"").await;
    assert_eq!(read_to_end(&mut stream).await, "");

    let head = Times {
        head: Duration::from_secs(3),
        ..PATIENT
    };
    let (_redis, served) = instance(10, head).await;
    let mut stream = send(&served.client, b"").await;
    tokio::time::sleep(2 * head.head).await;
    stream.write_all(A_REQUEST).await.unwrap();
    assert!(read_answer(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_arrives_too_slowly_returns_408() {
    let (_redis, instance) = instance(10, PATIENT).await;
    let head = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let mut stream = send(&instance.client, head).await;
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    let problem: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(problem["type"], "/problems/request-timeout");
    assert_eq!(problem["status"], 408);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_head_returns_a_problem() {
    let (_redis, instance) = instance(10, PATIENT).await;
    let long = "x".repeat(70_000);
    let many = "a: b\r\n".repeat(200);
    let most = |bytes: usize| "x".repeat(bytes - "GET / HTTP/1.1\r\na: \r\n\r\n".len());
    let large = format!("a: {}\r\n", most((128 << 10) + 1));
    let larger = format!("a: {}\r\n", "x".repeat(150_000));
    for (head, status, name) in [
        ("nonsense\r\n\r\n".to_owned(), 400, "malformed-request"),
        (
            "GET /livez HTTP/1.1\r\na b: c\r\n\r\n".to_owned(),
            400,
            "malformed-request",
        ),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 414, "uri-too-long"),
        (
            format!("GET / HTTP/1.1\r\n{many}\r\n"),
            431,
            "head-too-large",
        ),
        (
            format!("GET / HTTP/1.1\r\n{large}\r\n"),
            431,
            "head-too-large",
        ),
        (
            format!("GET / HTTP/1.1\r\n{larger}\r\n"),
            431,
            "head-too-large",
        ),
    ] {
        // The rest of a long head is not read any more: it may meet a closed connection.
        let address = instance.client.base.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(head.as_bytes()).await;
        let answer = read_answer(&mut stream).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("content-type: application/problem+json"),
            "{head}"
        );
        let problem: Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["type"], format!("/problems/{name}"));
        assert_eq!(problem["status"], status);
        let id = problem["request_id"].as_str().unwrap();
        assert!(head.contains(&format!("x-request-id: {id}")), "{head}");
    }
    // One that comes behind a request that was answered.
    let mut stream = send(&instance.client, A_REQUEST).await;
    read_answer(&mut stream).await;
    stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

/// A proxy or a cache may go by one of the two, and the service by the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_decides_access_may_occur_only_once() {
    let (_redis, instance) = instance(10, PATIENT).await;
    let body = r#"{"windows": ["day"]}"#;
    let own = instance.client.base.as_str();
    for (name, first, second) in [
        ("host", "localhost", "evil.example"),
        ("origin", own, "http://evil.example"),
        ("authorization", "Bearer a-key", "Bearer another"),
    ] {
        let host = own.strip_prefix("http://").filter(|_| name != "host");
        let host = host.map_or_else(String::new, |host| format!("Host: {host}\r\n"));
        let head = format!(
            "PUT /v1/boards/twice HTTP/1.1\r\n{host}{name}: {first}\r\n{name}: {second}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = send(&instance.client, head.as_bytes()).await;
        let answer = read_to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{name}: {answer}");
        let (_, problem) = answer.split_once("\r\n\r\n").unwrap();
        let problem: Value = serde_json::from_str(problem).unwrap();
        assert_eq!(problem["code"], "malformed-request", "{name}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{name}`")), "{detail}");
    }
    let board = instance.client.get("/v1/boards/twice").await;
    board.expect_problem(404, "board-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_connection_limit_only_monitoring_is_answered() {
    let (_redis, instance) = instance(1, PATIENT).await;
    let client = instance.client.without_keep_alive().once();
    // The connection of the start may have the only place for a moment.
    let holding = async {
        loop {
            let mut stream = send(&client, FOR_WORK).await;
            if read_answer(&mut stream).await.starts_with("HTTP/1.1 200") {
                return stream;
            }
        }
    };
    let stream = tokio::time::timeout(PATIENCE, holding)
        .await
        .expect("there is never a place");
    for path in ["/v1/boards", "/docs/", "/nothing"] {
        let answer = client.get(path).await;
        assert_eq!(answer.headers["retry-after"], "1");
        answer.expect_problem(503, "overloaded");
    }
    let event = json!({"events": [{"board": "b", "member": "a", "score": 1}]});
    let answer = client.post("/v1/events", event).await;
    answer.expect_problem(503, "overloaded");
    client.get("/livez").await.expect(200);
    client.get("/readyz").await.expect(200);

    drop(stream);
    until_answered("there is a place again", &client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_in_the_reserve_are_closed_for_others() {
    let (_redis, instance) = instance(1, PATIENT).await;
    let client = instance.client.without_keep_alive().once();
    let mut held = Vec::new();
    for _ in 0..4 * RESERVE {
        held.push(send(&client, HALF_A_HEAD).await);
        client.get("/livez").await.expect(200);
    }
    client.get("/readyz").await.expect(200);
}

/// Asks for more than the system keeps between the two ends, and reads nothing of it.
async fn ask_and_do_not_read(client: &Client) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let address = client.base.strip_prefix("http://").unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: unread\r\n\r\n";
    stream.write_all(&request.repeat(10)).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_is_dropped() {
    let times = Times {
        unread: Duration::from_secs(1),
        ..PATIENT
    };
    let (_redis, instance) = instance(1, times).await;
    let client = instance.client.without_keep_alive().once();
    loop {
        until_answered("the connection before is gone", &client).await;
        let mut unread = ask_and_do_not_read(&client).await;
        if client.get("/v1/boards").await.status == 200 {
            continue;
        }
        until_answered("the connection is free again", &client).await;
        let answer = read_to_end(&mut unread).await;
        // One that comes before the last connection has ended is beyond the bound, and refused.
        if !answer.starts_with("HTTP/1.1 503") {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            return;
        }
    }
}

/// The content of a body in chunks, and what comes behind it.
fn unchunked(mut body: &str) -> (String, &str) {
    let mut content = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").unwrap();
        let (chunk, rest) = rest.split_at(usize::from_str_radix(size, 16).unwrap());
        content.push_str(chunk);
        body = rest.strip_prefix("\r\n").unwrap();
        if chunk.is_empty() {
            return (content, body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_whole_and_the_last_answer_on_its_connection() {
    let (_redis, instance) = instance(10, PATIENT).await;
    let client = &instance.client;
    for version in ["1.0", "1.1"] {
        client.define("b", json!({"windows": ["day"]})).await;
        let ask = |method| {
            format!(
                "{method} /v1/boards/b/standings/day/stream HTTP/{version}\r\nHost: localhost\r\n\r\n"
            )
        };
        let mut stream = send(client, ask("GET").as_bytes()).await;
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        // Nobody answers it.
        stream.write_all(A_REQUEST).await.unwrap();
        for score in 1..=20 {
            let event = json!({"member": "m".repeat(score), "score": score});
            client.post("/v1/boards/b/events", event).await.expect(200);
        }
        client.delete("/v1/boards/b").await.expect(204);
        let answer = read_to_end(&mut stream).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        assert!(head.starts_with(&format!("ttp/{version} 200")), "{head}");
        assert!(head.contains("\r\nconnection: close"), "{head}");
        let is_chunked = head.contains("\r\ntransfer-encoding: chunked");
        assert_eq!(is_chunked, version == "1.1", "{head}");
        let (body, behind) = if is_chunked {
            unchunked(body)
        } else {
            (body.to_owned(), "")
        };
        assert_eq!(behind, "");
        assert!(body.contains("event: standing\ndata: {"), "{body}");
        let end = body.rsplit_once("event: end\n").unwrap().1;
        assert!(end.ends_with("\n\n"), "{body}");

        client.define("b", json!({"windows": ["day"]})).await;
        // The head alone is an answer like any other.
        let mut stream = send(client, ask("HEAD").as_bytes()).await;
        let last = b"GET /livez HTTP/1.1\r\nHost: whole\r\nConnection: close\r\n\r\n";
        stream.write_all(last).await.unwrap();
        let answers = read_to_end(&mut stream).await;
        let count = answers.matches(" 200 OK\r\n").count();
        assert_eq!(count, if version == "1.1" { 2 } else { 1 }, "{answers}");
        client.delete("/v1/boards/b").await.expect(204);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_a_stream_frees_its_place() {
    let (_redis, instance) = instance(2, PATIENT).await;
    let client = instance.client.without_keep_alive().once();
    until_answered("there is a connection", &client).await;
    client.define("b", json!({"windows": ["day"]})).await;
    let ask = b"GET /v1/boards/b/standings/day/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for _ in 0..4 {
        let mut first = [0; 1];
        let mut stream = send(&client, ask).await;
        stream.read_exact(&mut first).await.unwrap();
        drop(stream);
        until_answered("the connection before is gone", &client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_connections_without_a_request() {
    let data = TempDir::new().unwrap();
    let program = Program::serve(data.path()).await;
    let client = program.client();
    let mut held = vec![send(&client, HALF_A_HEAD).await, send(&client, b"").await];
    let mut idle = send(&client, A_REQUEST).await;
    read_answer(&mut idle).await;
    held.push(idle);
    let (_sender, connection) = http2(&client).await;
    let http2 = tokio::spawn(connection);
    let log = program.stop().await;
    assert!(!log.contains("did not finish in time"), "{log}");
    let _ = http2.await.unwrap();
}

type Http2 = (
    h2::client::SendRequest<Bytes>,
    h2::client::Connection<TcpStream>,
);

async fn http2(client: &Client) -> Http2 {
    let stream = send(client, b"").await;
    h2::client::handshake(stream).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_begin_with_http2_get_http2() {
    let (_redis, instance) = instance(10, PATIENT).await;
    let (sender, connection) = http2(&instance.client).await;
    let connection = tokio::spawn(connection);
    let answers = (0..20).map(async |_| {
        let mut sender = sender.clone().ready().await.unwrap();
        let request = axum::http::Request::get(format!("{}/readyz", instance.client.base));
        let (answer, _) = sender
            .send_request(request.body(()).unwrap(), true)
            .unwrap();
        let (head, mut body) = answer.await.unwrap().into_parts();
        let mut bytes = Vec::new();
        while let Some(chunk) = body.data().await {
            bytes.extend(chunk.unwrap());
        }
        (head.status, bytes)
    });
    for (status, body) in join_all(answers).await {
        assert_eq!(status, 200);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["status"], "ok");
    }
    drop(sender);
    connection.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_heads_up_to_the_descriptor_limit_leave_other_work_alive() {
    const HELD: usize = 1_100;
    // This end needs as many.
    assert!(standings::descriptors::raise_limit() > 2 * HELD as u64);
    let data = TempDir::new().unwrap();
    let program = Program::serve_with_descriptors(1_024, data.path()).await;
    let client = program.client().without_keep_alive().once();
    let mut held = Vec::new();
    for _ in 0..HELD {
        held.push(send(&client, HALF_A_HEAD).await);
    }
    client.get("/readyz").await.expect(200);
    client.get("/livez").await.expect(200);
    let metrics = client.get("/metrics").await;
    let metric = |name: &str| -> f64 {
        let mut lines = metrics.text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse().unwrap()
    };
    assert!(metric("standings_http_connections_refused_total") > 0.0);
    assert!(metric("standings_http_connections") < 1_024.0);
    until_answered("half heads are given up", &client).await;
    drop(held);
    program.stop().await;
}
