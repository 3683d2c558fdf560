//! Results, rewards, claims and messages, while the service, its Redis server or both are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::Utc;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use super::Home;
use crate::harness::Client;
use crate::harness::client::Answer;
use crate::harness::program::{self, Program};
use crate::harness::random::Random;
use crate::harness::receiver::{Manner, Receiver};
use crate::harness::redis::eventually;

/// A board is closed in each round, and whoever closes it is killed: the service, its Redis server, or both.
#[tokio::test(flavor = "multi_thread")]
async fn closings_during_kills_give_each_board_one_result() {
    let (home, mut random) = (Home::new(), Random::new(15));
    let mut program = Program::serve_with(&home.data(), &home.server).await;
    let mut recorded = Vec::new();
    for round in 0..8 {
        let client = program.client();
        let path = format!("/v1/boards/b{round}");
        let definition = json!({"windows": ["all", "day"], "finalize": "0s", "uniques": "member"});
        client.define(&format!("b{round}"), definition).await;
        for number in 0..20 {
            let event =
                json!({"id": number.to_string(), "member": format!("m{number}"), "score": number});
            client
                .post(&format!("{path}/events"), event)
                .await
                .expect(200);
        }
        let closes_at = json!({"closes_at": Utc::now().to_rfc3339()});
        client.patch(&path, closes_at).await.expect(200);
        let closing = format!("{path}/standings/all/periods/all/close");
        let closing = client.builder(Method::POST, &closing);
        let closing = tokio::spawn(Client::try_send(closing));
        let pause = Duration::from_micros(random.next() % 20_000);
        tokio::time::sleep(pause).await;
        if round % 3 > 0 {
            home.kill_redis();
        }
        if round % 3 < 2 {
            program.kill();
        }
        let _ = closing.await;
        if round % 3 < 2 {
            program.die().await;
            program = Program::serve_with(&home.data(), &home.server).await;
        }
        recorded.push(result_of(&program.client(), round).await);
    }
    // Nothing records them again.
    program.die().await;
    home.kill_redis();
    program = Program::serve_with(&home.data(), &home.server).await;
    for (round, recorded) in recorded.iter().enumerate() {
        assert_eq!(&result_of(&program.client(), round).await, recorded);
    }
    program.stop().await;
}

/// The result of a board that was closed, once it is there.
async fn result_of(client: &Client, round: usize) -> Value {
    let of_all = format!("/v1/boards/b{round}/standings/all/periods/all");
    eventually("the result is recorded", async || {
        client.get(&of_all).await.expect(200)["final_at"].is_string()
    })
    .await;
    let mut result = client.get(&of_all).await.expect(200);
    result["digest"].take();
    assert_eq!(
        (&result["revision"], &result["total"]),
        (&json!(1), &json!(20)),
        "{result}"
    );
    let winner = &result["winner"];
    assert_eq!(
        (&winner["member"], &winner["score"]),
        (&json!("m19"), &json!(19))
    );
    let late = json!({"id": "late", "member": "m1", "score": 1, "at": "2026-11-01T00:00:00Z"});
    let late = client
        .post(&format!("/v1/boards/b{round}/events"), late)
        .await;
    assert!(late.status.is_client_error(), "{}", late.text);
    result
}

/// What has the service or its Redis server killed amid it: a closing, a claim, a hide and what follows from it.
struct Besieged {
    home: Home,
    random: Random,
    program: Option<Program>,
    kills: usize,
}

impl Besieged {
    async fn begin(seed: u64) -> Self {
        let mut besieged = Self {
            home: Home::new(),
            random: Random::new(seed),
            program: None,
            kills: 0,
        };
        besieged.serve().await;
        besieged
    }

    async fn serve(&mut self) {
        let [data, server] = [self.home.data(), self.home.server.clone()];
        let mut command = program::command(&["--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(data).arg("--redis-server").arg(server);
        command.env("STANDINGS_WEBHOOK_ALLOW_PRIVATE", "true");
        self.program = Some(Program::run_until_ready(&mut command).await);
    }

    fn client(&self) -> Client {
        self.program.as_ref().unwrap().client()
    }

    /// Sends a request, and kills the service, its Redis server or both, wherever they are by then. Sends it again until it is
    /// answered; returns the last answer.
    async fn send(&mut self, method: Method, path: &str, body: Value) -> Answer {
        let request = self.client().builder(method.clone(), path).json(&body);
        let first = tokio::spawn(Client::try_send(request));
        tokio::time::sleep(Duration::from_micros(self.random.next() % 15_000)).await;
        self.kills += 1;
        if !self.kills.is_multiple_of(3) {
            self.home.kill_redis();
        }
        if self.kills % 3 < 2 {
            self.program.take().unwrap().die().await;
        }
        let _ = first.await;
        if self.program.is_none() {
            self.serve().await;
        }
        let client = self.client();
        let last: Mutex<Option<Answer>> = Mutex::default();
        eventually("the request is answered", async || {
            let request = client.builder(method.clone(), path).json(&body);
            *last.lock() = Client::try_send(request).await.ok();
            let status = last.lock().as_ref().map(|answer| answer.status);
            status.is_some_and(|status| !status.is_server_error())
        })
        .await;
        last.into_inner().unwrap()
    }

    /// The rewards of `all` by rule and member, each with its state.
    async fn rewards(&self, board: &str) -> BTreeMap<(String, String), String> {
        let path = format!("/v1/boards/{board}/standings/all/periods/all/rewards");
        let listed = self.client().get(&path).await.expect(200);
        let rewards = listed["rewards"].as_array().unwrap().iter();
        let text = |reward: &Value, field: &str| reward[field].as_str().unwrap().to_owned();
        let reward = |reward: &Value| {
            let key = (text(reward, "rule"), text(reward, "member"));
            (key, text(reward, "state"))
        };
        let known: BTreeMap<_, _> = rewards.clone().map(reward).collect();
        assert_eq!(known.len(), rewards.count(), "one is there twice: {listed}");
        known
    }
}

/// Every reward is handed out and claimed once, every hide makes one revision, and every message comes, with one id.
#[tokio::test(flavor = "multi_thread")]
async fn kills_during_closings_claims_and_revisions_lose_and_double_no_reward_or_message() {
    const ROUNDS: usize = 6;
    let mut besieged = Besieged::begin(16).await;
    let receiver = Receiver::start(Manner::Status(200)).await;
    let webhook = json!({"url": receiver.url(), "boards": ["*"],
        "events": ["period.final", "period.revised", "member.hidden"]});
    let made = besieged.client().put("/v1/webhooks/site", webhook).await;
    let secret = made.expect(201)["secret"].as_str().unwrap().to_owned();
    let states = |crown: &[(&str, &str)], half: std::ops::Range<usize>| {
        let crown = crown.iter().map(|(member, state)| {
            let key = ("crown".to_owned(), (*member).to_owned());
            (key, (*state).to_owned())
        });
        let half = half.map(|member| {
            let key = ("half".to_owned(), format!("m{member}"));
            (key, "open".to_owned())
        });
        crown.chain(half).collect::<BTreeMap<_, _>>()
    };
    for round in 0..ROUNDS {
        let id = format!("b{round}");
        let path = format!("/v1/boards/{id}");
        let rewards = json!([
            {"id": "crown", "window": "all", "ranks": [1, 1], "reward": {"item": "crown"}},
            {"id": "half", "window": "all", "top_percent": 50, "reward": "coin"},
        ]);
        let definition = json!({"windows": ["all"], "finalize": "0s", "shards": 1 + round % 3,
            "rewards": rewards});
        let client = besieged.client();
        client.define(&id, definition).await;
        for number in 0..20 {
            let event =
                json!({"id": number.to_string(), "member": format!("m{number}"), "score": number});
            let taken = client.post(&format!("{path}/events"), event).await;
            taken.expect(200);
        }
        let closes_at = json!({"closes_at": Utc::now().to_rfc3339()});
        client.patch(&path, closes_at).await.expect(200);
        let period = format!("{path}/standings/all/periods/all");
        let close = format!("{period}/close");
        let closed = besieged.send(Method::POST, &close, json!({})).await;
        closed.expect(200);
        let handed_out = states(&[("m19", "open")], 10..20);
        assert_eq!(besieged.rewards(&id).await, handed_out, "{id}");
        let claim = format!("{period}/rewards/crown/members/m19/claim");
        let claimed = besieged
            .send(Method::PUT, &claim, json!({"by": "grant"}))
            .await;
        assert!(claimed.status.is_success(), "{}", claimed.text);
        let other = besieged.client().put(&claim, json!({"by": "other"})).await;
        other.expect_problem(409, "already-claimed");
        let hidden = format!("{path}/hidden/m19");
        let hide = besieged.send(Method::PUT, &hidden, json!({"reason": "cheating"}));
        hide.await.expect(200);
        // Whoever reads has it revised, if nobody else does.
        let revised = besieged.send(Method::GET, &period, Value::Null).await;
        assert!(revised.status.is_success(), "{}", revised.text);
        let without = states(&[("m19", "revoked"), ("m18", "open")], 9..19);
        assert_eq!(besieged.rewards(&id).await, without, "{id}");
        let back = besieged.send(Method::DELETE, &hidden, Value::Null).await;
        assert!([204, 404].contains(&back.status.as_u16()), "{}", back.text);
        let revised = besieged.send(Method::GET, &period, Value::Null).await;
        assert!(revised.status.is_success(), "{}", revised.text);
        let given_back = states(&[("m19", "claimed")], 10..20);
        assert_eq!(besieged.rewards(&id).await, given_back, "{id}");
        let result = besieged.client().get(&period).await.expect(200);
        assert_eq!(
            (&result["revision"], &result["total"], &result["rewards"]),
            (&json!(3), &json!(20), &json!(11)),
            "{result}"
        );
    }
    let told = || {
        let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for one in receiver.received() {
            let (json, id) = (one.json(), one.id().to_owned());
            let what = format!("{} {}", json["data"]["board"], json["type"]);
            told.entry(what).or_default().insert(id);
        }
        told
    };
    let expected: BTreeMap<String, usize> = (0..ROUNDS)
        .flat_map(|round| {
            let kinds = [
                ("period.final", 1),
                ("period.revised", 2),
                ("member.hidden", 1),
            ];
            kinds.map(|(kind, count)| (format!("\"b{round}\" \"{kind}\""), count))
        })
        .collect();
    eventually("all messages have come", async || {
        let told = told();
        expected
            .iter()
            .all(|(what, count)| told.get(what).is_some_and(|ids| ids.len() >= *count))
    })
    .await;
    let counts = told().into_iter().map(|(what, ids)| (what, ids.len()));
    assert_eq!(counts.collect::<BTreeMap<_, _>>(), expected);
    assert!(
        receiver
            .received()
            .iter()
            .all(|one| one.is_signed_by(&secret))
    );
    besieged.program.take().unwrap().stop().await;
}
