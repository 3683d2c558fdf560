//! What a client gets while another one takes all that it can: of a hundred requests, each sent once, ninety-nine are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use standings::access::players::PlayerKeys;
use standings::api::router::Options;
use standings::http::connection::Times;
use standings::http::listener::Limits;
use standings::redis::{Address, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::access::players::{NOW_S, hs256, token_with};
use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, PATIENT, RedisServer, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";
const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";
const SECRET: &str = "a secret that is long enough, by far";
/// The least that can be configured, in MiB: a quarter is for bodies, and one for small reads.
const MEMORY_MB: usize = 64;
/// Where those are who disturb nobody. The crowd is at 127.0.0.1.
const ELSEWHERE: &str = "127.0.0.2";
/// How long one of the crowd that is refused waits before it comes again: the test is about memory, not about processors.
const PAUSE: Duration = Duration::from_millis(50);
/// A body of nearly the greatest size.
const BODY_BYTES: usize = (1 << 20) - 1;

async fn instance(options: Options) -> (RedisServer, Instance) {
    instance_with(1_000, options).await
}

/// An instance that may have so many connections.
async fn instance_with(connections: usize, options: Options) -> (RedisServer, Instance) {
    let redis = RedisServer::start().await;
    let timeouts = PATIENT.try_into().unwrap();
    let store = Store::connect(&Address::parse(&redis.url()), timeouts).unwrap();
    let limits = Limits {
        connections,
        times: Times::default(),
    };
    let clock = clock_at(NOW);
    let instance = Instance::start_set_up(limits, MEMORY_MB, store, clock, options).await;
    (redis, instance)
}

fn with_keys() -> Options {
    Options {
        keys: KEYS.parse().unwrap(),
        players: PlayerKeys::read(None, Some(SECRET), "standings").unwrap(),
        ..Options::default()
    }
}

fn players_token(sub: &str) -> String {
    let claims = json!({"aud": "standings", "sub": sub, "iat": NOW_S, "exp": NOW_S + 3_600,
        "boards": ["*"], "scopes": ["play"]});
    let sign = hs256(SECRET.as_bytes());
    token_with(&json!({"alg": "HS256"}), &claims, &sign)
}

/// Clients that do the same again and again, until the value is dropped.
#[derive(Default)]
struct Crowd {
    tasks: JoinSet<()>,
    refused: Arc<AtomicUsize>,
}

impl Crowd {
    /// Waits until the crowd is refused: it has all that it can get.
    async fn is_refused(&self) {
        eventually("the crowd is refused", async || {
            self.refused.load(Ordering::Relaxed) > 0
        })
        .await;
    }

    /// One that begins requests with this head, and keeps back the last byte of each body.
    fn hold_bodies(&mut self, client: &Client, head: &str) {
        let address = client.base.strip_prefix("http://").unwrap().to_owned();
        let refused = Arc::clone(&self.refused);
        let request = format!("{head}Content-Length: {BODY_BYTES}\r\n\r\n");
        let request = request + &"x".repeat(BODY_BYTES - 1);
        self.tasks.spawn(async move {
            loop {
                let mut stream = TcpStream::connect(&address).await.unwrap();
                // A request that is refused may not be read to its end.
                let _ = stream.write_all(request.as_bytes()).await;
                let mut answer = [0; 12];
                let read = stream.read_exact(&mut answer).await;
                if read.is_ok() && answer.ends_with(b"503") {
                    refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
}

/// How many of a hundred requests are answered with 200.
async fn answered(client: &Client, request: impl Fn(usize) -> (Method, String, Value)) -> usize {
    let mut answered = 0;
    for number in 0..100 {
        let (method, path, body) = request(number);
        let request = client.builder(method, &path).json(&body);
        let answer = Client::try_send(request).await;
        answered += usize::from(answer.is_ok_and(|answer| answer.status == 200));
    }
    answered
}

/// A batch as a backend sends one, of 25 KB.
fn event(number: usize) -> (Method, String, Value) {
    let event = json!({"board": "b", "id": format!("e-{number}"), "member": "a", "score": 1});
    let events = vec![event; 500];
    (
        Method::POST,
        "/v1/events".to_owned(),
        json!({ "events": events }),
    )
}

async fn define(admin: &Client) {
    let definition = json!({"windows": ["all"], "public": true});
    admin.define("b", definition).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_signed_out_clients_leave_memory_for_a_backend() {
    let (_redis, instance) = instance(with_keys()).await;
    let client = &instance.client;
    define(&client.with_key("an-admin")).await;
    let page = client
        .http
        .get(format!("{}/console/sign-in", client.base))
        .send()
        .await
        .unwrap();
    let cookie = page.headers()["set-cookie"].to_str().unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    let origin = &client.base;
    let mut crowd = Crowd::default();
    for _ in 0..66 {
        let head = format!(
            "POST /console/sign-in HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\nCookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            origin.strip_prefix("http://").unwrap()
        );
        crowd.hold_bodies(client, &head);
    }
    let backend = client.at(ELSEWHERE).with_key("a-writer");
    assert!(answered(&backend, event).await >= 99);
}

/// The status of the answer to a head whose body, of so many bytes, never comes.
async fn status_before_body(client: &Client, head: &str, length: usize) -> String {
    let address = client.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{head}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer[9..].to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_refused_by_its_head_before_its_body_is_read() {
    let (_redis, instance) = instance(with_keys()).await;
    let client = &instance.client;
    define(&client.with_key("an-admin")).await;
    let host = client.base.strip_prefix("http://").unwrap();
    let form = |page: &str, more: &str| {
        let origin = &client.base;
        format!("POST {page} HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n{more}")
    };
    let id = "0".repeat(64);
    let cookie = format!("Cookie: standings-forms={id}; standings-session={id}\r\n");
    let asking = cookie.clone() + "Expect: 100-continue\r\n";
    let event = |path: &str, token: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
        )
    };
    let player = players_token("ann");
    for (head, length, status) in [
        (form("/console/sign-in", ""), 1_000, "403"),
        (form("/console/define", &cookie), 1_000, "403"),
        (form("/console/sign-in", &asking), 20_000, "413"),
        (event("/v1/events", "no-key"), 1_000, "401"),
        (event("/v1/boards/b/events", "a-reader"), 1_000, "403"),
        (event("/v1/boards/nothing/events", &player), 1_000, "404"),
    ] {
        let answered = status_before_body(client, &head, length).await;
        assert_eq!(answered, status, "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_players_leave_memory_for_a_backend() {
    let (_redis, instance) = instance(with_keys()).await;
    let client = &instance.client;
    define(&client.with_key("an-admin")).await;
    // One token, and then many of one address.
    for players in [1, 66] {
        let mut crowd = Crowd::default();
        for number in 0..66 {
            let token = players_token(&format!("player-{}", number % players));
            let head = format!(
                "POST /v1/events HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
            );
            crowd.hold_bodies(client, &head);
        }
        crowd.is_refused().await;
        let backend = client.at(ELSEWHERE).with_key("a-writer");
        assert!(answered(&backend, event).await >= 99, "{players} players");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_behind_a_trusted_proxy_are_distinguished() {
    let options = Options {
        proxies: "127.0.0.1".parse().unwrap(),
        ..Options::default()
    };
    let (_redis, instance) = instance(options).await;
    let client = &instance.client;
    define(client).await;
    let mut crowd = Crowd::default();
    for _ in 0..66 {
        let head = "POST /v1/events HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nX-Forwarded-For: 203.0.113.1\r\n";
        crowd.hold_bodies(client, head);
    }
    crowd.is_refused().await;
    let mut answered = 0;
    for number in 0..100 {
        let (method, path, body) = event(number);
        let request = client
            .builder(method, &path)
            .json(&body)
            .header("x-forwarded-for", "203.0.113.2");
        let answer = Client::try_send(request).await;
        answered += usize::from(answer.is_ok_and(|answer| answer.status == 200));
    }
    assert!(answered >= 99, "{answered}");
}

/// Asks for a hundred pages over one connection of HTTP/2, and takes nothing of them; counts those that are refused.
async fn ask_and_take_nothing(base: String, connection: usize, refused: Arc<AtomicUsize>) {
    let address = base.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(0);
    let (sender, connection_task) = settings.handshake::<_, Bytes>(stream).await.unwrap();
    let connected = tokio::spawn(connection_task);
    let ask = async |page: usize| {
        let size = 1_000 - page - 100 * (connection % 5);
        let path = format!(
            "{base}/v1/boards/b/standings/all?size={size}&page={}",
            1 + connection % 2
        );
        let mut sender = sender.clone().ready().await.ok()?;
        let request = axum::http::Request::get(path).body(()).unwrap();
        let (answer, _) = sender.send_request(request, true).ok()?;
        let answer = answer.await.ok()?;
        if answer.status() == 503 {
            refused.fetch_add(1, Ordering::Relaxed);
        }
        Some(answer)
    };
    let unread = join_all((0..100).map(ask)).await;
    // The service drops the connection when nothing was taken for 30 seconds.
    let _ = connected.await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_of_one_address_leave_memory_for_others() {
    let (_redis, instance) = instance(Options::default()).await;
    let client = &instance.client;
    define(client).await;
    let member = |place: usize| json!({"board": "b", "id": format!("e-{place}"), "member": format!("{place:0>128}"), "score": 1 + place});
    for places in (0..2_000).collect::<Vec<_>>().chunks(1_000) {
        let events: Vec<Value> = places.iter().map(|place| member(*place)).collect();
        let batch = json!({ "events": events });
        client
            .post_until_taken("/v1/events?standings=false", &batch)
            .await;
    }
    let mut crowd = Crowd::default();
    for connection in 0..30 {
        let (base, refused) = (client.base.clone(), Arc::clone(&crowd.refused));
        crowd.tasks.spawn(async move {
            loop {
                ask_and_take_nothing(base.clone(), connection, Arc::clone(&refused)).await;
            }
        });
    }
    crowd.is_refused().await;
    let page = |number: usize| {
        let path = format!("/v1/boards/b/standings/all?size={}", 101 + number);
        (Method::GET, path, Value::Null)
    };
    let answered = answered(&client.at(ELSEWHERE), page).await;
    assert!(answered >= 99, "{answered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_address_leave_room_for_others() {
    let (_redis, instance) = instance_with(300, Options::default()).await;
    let client = &instance.client;
    define(client).await;
    let address = client.base.strip_prefix("http://").unwrap();
    let mut crowd = Vec::new();
    for number in 0..360 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        match number % 3 {
            0 => {}
            1 => {
                let half_a_head = b"GET /livez HTTP/1.1\r\nHost: half\r\n";
                stream.write_all(half_a_head).await.unwrap();
            }
            _ => {
                let request = b"GET /livez HTTP/1.1\r\nHost: whole\r\n\r\n";
                stream.write_all(request).await.unwrap();
                stream.read_exact(&mut [0; 12]).await.unwrap();
            }
        }
        crowd.push(stream);
    }
    // Each has a connection of its own.
    let backend = &client.at(ELSEWHERE).once();
    let answers = (0..100).map(|_| backend.get("/v1/boards/b/summary"));
    let answers = join_all(answers).await.into_iter();
    let answered = answers.filter(|answer| answer.status == 200).count();
    assert!(answered >= 99, "{answered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_a_trusted_proxy_count_for_its_clients() {
    let options = Options {
        proxies: "127.0.0.1".parse().unwrap(),
        ..Options::default()
    };
    let (_redis, instance) = instance_with(80, options).await;
    let client = &instance.client.once();
    define(client).await;
    let address = client.base.strip_prefix("http://").unwrap();
    let status = async |from: &str| {
        let request = client
            .builder(Method::GET, "/v1/boards/b/summary")
            .header("x-forwarded-for", from);
        Client::send(request).await.status
    };
    // Requests whose bodies never come: more than their client may have.
    let mut crowd = Vec::new();
    while crowd.len() < 400 && status("203.0.113.1").await == 200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "POST /v1/events HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nX-Forwarded-For: 203.0.113.1\r\nContent-Length: 9\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        crowd.push(stream);
    }
    let mut answered = 0;
    for _ in 0..100 {
        answered += usize::from(status("203.0.113.2").await == 200);
    }
    assert!(answered >= 99, "{answered}");
}
