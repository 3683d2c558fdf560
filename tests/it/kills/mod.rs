//! Kills without end: the program and its private Redis server, on one data directory that lives through all rounds,
//! are killed in the middle of traffic, one or both, in either order, twice in a row. What was not acknowledged is sent
//! again with the same ids. Afterwards every standing must be what a naive model makes of the events that were taken.

mod leagues;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::Client;
use crate::harness::client::Answer;
use crate::harness::program::{self, Program};
use crate::harness::random::{Random, case_count, seed};
use crate::harness::receiver::{Manner, Receiver};
use crate::harness::redis::eventually;
use crate::model::answers::{self, View, exact};
use crate::model::naive::{
    Board, Event, HOUR, Model, Quota, QuotaWindow, Ranking, Ties, US, Uniques, Unit, Window,
};

/// Few enough that they take some seconds.
const ROUNDS: usize = 6;
/// After so many rounds nothing may be left without an answer, and the board of quotas is compared, too.
const SETTLED_EVERY: usize = 10;
/// How many requests are under way at once.
const SENDERS: usize = 6;
/// The pause before something is sent again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The longest time that all of a round's traffic may take.
const SENT_WITHIN: Duration = Duration::from_mins(3);
/// How long a request is sent again before it is left for later.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// How many events of a voter are taken for a day.
const VOTES_OF_A_DAY: i64 = 2;
/// The names of the boards.
const BOARDS: [&str; 4] = ["plain", "members", "quotas", "untimed"];
/// The place of the board whose events a quota may refuse.
const QUOTAS: usize = 2;
/// The place of the board whose events have no time, so that one that is sent again is another write.
const UNTIMED: usize = 3;
/// How many entries a page has at the most.
const PAGE: usize = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_and_double_nothing_and_ruin_no_standing() {
    let rounds = case_count(ROUNDS);
    let mut siege = Siege::begin(seed(0)).await;
    for round in 1..=rounds {
        siege.round(round).await;
    }
    siege.end(rounds).await;
}

/// A board is closed in each round, and whoever closes it is killed: the service, its Redis server, or both.
#[tokio::test(flavor = "multi_thread")]
async fn closings_amid_kills_give_each_board_one_result() {
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

/// Events are queued and applied while the service, its Redis server, or both are killed, with events in hand.
#[tokio::test(flavor = "multi_thread")]
async fn queued_events_amid_kills_are_applied_once_each() {
    const EVENTS: usize = 4_000;
    let (home, mut random) = (Home::new(), Random::new(17));
    let mut program = Program::serve_with(&home.data(), &home.server).await;
    let definition = json!({"windows": ["all"], "ingest": "async", "shards": 3});
    program.client().define("b", definition).await;
    let event = |number: usize| json!({"board": "b", "id": number.to_string(), "member": format!("m{}", number % 50), "score": 1});
    let batches = (0..EVENTS).step_by(100).map(|first| {
        let events: Vec<Value> = (first..first + 100).map(event).collect();
        ("/v1/events", json!({"events": events}))
    });
    let answers = send_amid_kills(&mut program, &home, &mut random, batches.collect()).await;
    for (_, answer) in answers {
        let results = answer["results"].as_array().unwrap();
        assert!(
            results.iter().all(|result| result["status"] == "queued"),
            "{answer}"
        );
    }
    for round in 0..4 {
        tokio::time::sleep(Duration::from_micros(random.next() % 60_000)).await;
        if round % 3 != 0 {
            home.kill_redis();
        }
        if round % 3 != 1 {
            program.die().await;
            program = Program::serve_with(&home.data(), &home.server).await;
        }
    }
    let client = program.client();
    let total = async || {
        let page = read(&client, "/v1/boards/b/standings/all?size=100").await;
        let entries = page["entries"].as_array().unwrap().iter();
        let scores = entries.map(|entry| entry["score"].as_str().unwrap().parse::<usize>());
        scores.map(Result::unwrap).sum::<usize>()
    };
    eventually("all is applied", async || total().await >= EVENTS).await;
    eventually("nothing waits", async || {
        let metrics = client.get("/metrics").await.text;
        let mut lines = metrics.lines();
        lines.any(|line| line == "standings_queue_length 0")
    })
    .await;
    assert_eq!(total().await, EVENTS);
    program.stop().await;
}

/// Sends requests at once, again and again until each is answered, while somebody is killed three times.
async fn send_amid_kills(
    program: &mut Program,
    home: &Home,
    random: &mut Random,
    requests: Vec<(&'static str, Value)>,
) -> Vec<(Value, Value)> {
    for round in 0..3 {
        let client = program.client();
        let sent = requests.iter().map(|(path, body)| {
            let request = client.builder(Method::POST, path).json(body);
            tokio::spawn(Client::try_send(request))
        });
        let sent: Vec<_> = sent.collect();
        tokio::time::sleep(Duration::from_micros(random.next() % 60_000)).await;
        if round != 0 {
            home.kill_redis();
        }
        if round != 1 {
            program.kill();
        }
        for sent in sent {
            let _ = sent.await;
        }
        if round != 1 {
            program.gone().await;
            *program = Program::serve_with(&home.data(), &home.server).await;
        }
    }
    let client = program.client();
    let answers = requests.into_iter().map(async |(path, body)| {
        let mut answer = client.post(path, body.clone()).await;
        while answer.status == 409 || answer.status == 503 {
            tokio::time::sleep(RETRY_INTERVAL).await;
            answer = client.post(path, body.clone()).await;
        }
        assert!(answer.status.is_success(), "{body}: {}", answer.text);
        (body, answer.json)
    });
    stream::iter(answers).buffer_unordered(8).collect().await
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
async fn kills_amid_closings_claims_and_revisions_lose_and_double_no_reward_and_no_message() {
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
        let claimed = besieged.send(Method::PUT, &claim, json!({"by": "grant"}));
        let claimed = claimed.await;
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

/// The last write of the file is torn in the middle of each of its commands.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_torn_is_as_if_it_had_not_begun() {
    const APPEND_ONLY: &str = "appendonlydir/appendonly.aof.1.incr.aof";
    let home = Home::new();
    let program = Program::serve_with(&home.data(), &home.server).await;
    let quotas = json!([{"name": "q", "by": ["voter"], "window": "total", "max": 9}]);
    let definition = json!({"windows": ["all"], "quotas": quotas, "uniques": "member"});
    program.client().define("b", definition).await;
    // Without an `at` an event that is sent again is another write.
    let send = async |client: &Client, id: &str, member: &str, score: i64| {
        let event = json!({"id": id, "member": member, "score": score, "voter": "v"});
        let answer = client.post("/v1/boards/b/events", event).await.expect(200);
        answer["status"].as_str().unwrap().to_owned()
    };
    let state = async |client: &Client| {
        let mut page = client.get("/v1/boards/b/standings/all").await.expect(200);
        for entry in page["entries"].as_array_mut().unwrap() {
            entry["reached_at"].take();
        }
        let stats = client.get("/v1/boards/b/standings/all/stats").await;
        let quotas = client.get("/v1/boards/b/quotas?voter=v").await;
        [page, stats.expect(200), quotas.expect(200)]
    };
    for (id, member, score) in [
        ("one", "ann", 100),
        ("two", "bob", 50),
        ("three", "ann", 10),
    ] {
        assert_eq!(send(&program.client(), id, member, score).await, "applied");
    }
    let expected = state(&program.client()).await;
    program.stop().await;
    let file = std::fs::read(home.data().join(APPEND_ONLY)).unwrap();
    let find = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).rposition(|at| at == part);
    let known = find(&file, b"three").unwrap();
    let begins_at = find(&file[..known], b"*1\r\n$5\r\nMULTI\r\n").unwrap();
    let commands = commands(&file[begins_at..]);
    assert!(commands.len() > 5, "{commands:?}");

    let ends_at = commands.last().unwrap().end;
    let middles = commands
        .iter()
        .map(|command| command.start.midpoint(command.end));
    let cuts = stream::iter(middles.chain([ends_at - 5, ends_at])).map(async |cut| {
        let torn = Home::new();
        let folder = torn.data().join("appendonlydir");
        std::fs::create_dir_all(&folder).unwrap();
        for other in std::fs::read_dir(home.data().join("appendonlydir")).unwrap() {
            let other = other.unwrap();
            std::fs::copy(other.path(), folder.join(other.file_name())).unwrap();
        }
        std::fs::write(torn.data().join(APPEND_ONLY), &file[..begins_at + cut]).unwrap();
        let program = Program::serve_with(&torn.data(), &torn.server).await;
        let status = send(&program.client(), "three", "ann", 10).await;
        let was_whole = cut == ends_at;
        assert_eq!(
            status,
            if was_whole { "duplicate" } else { "applied" },
            "cut at {cut}"
        );
        program.stop().await;
        let program = Program::serve_with(&torn.data(), &torn.server).await;
        assert_eq!(state(&program.client()).await, expected, "cut at {cut}");
        program.stop().await;
    });
    cuts.buffer_unordered(3).collect::<()>().await;
}

/// Where the commands of the first block lie.
fn commands(bytes: &[u8]) -> Vec<Range<usize>> {
    let number = |at: &mut usize| {
        let line = bytes[*at..].split(|byte| *byte == b'\r').next().unwrap();
        *at += line.len() + 2;
        let digits = str::from_utf8(&line[1..]).unwrap();
        digits.parse::<usize>().unwrap()
    };
    let (mut commands, mut at) = (Vec::new(), 0);
    while !bytes[..at].ends_with(b"$4\r\nEXEC\r\n") {
        let start = at;
        for _ in 0..number(&mut at) {
            at += number(&mut at) + 2;
        }
        commands.push(start..at);
    }
    commands
}

/// An event on its way, with its board's place in [`BOARDS`].
#[derive(Clone, Debug)]
struct Sent {
    board: usize,
    event: Event,
    /// Whether it was acknowledged before, so that it has to be a duplicate.
    is_known: bool,
}

/// What an answer says of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Taken,
    /// A quota refuses it.
    Refused,
    /// It may have been taken or not.
    Unknown,
}

/// The program, and what it has been told.
struct Siege {
    home: Home,
    random: Random,
    /// Ends and begins again.
    program: Option<Program>,
    boards: [Model; BOARDS.len()],
    /// How many events of a voter and a day were taken on the board of quotas, and how many refused.
    votes: BTreeMap<(Option<String>, i64), [i64; 2]>,
    /// What has no answer yet.
    unanswered: Vec<Sent>,
    /// Around which events happen.
    begun_at: i64,
    events: usize,
    kills: usize,
    taken: usize,
    compared: usize,
    /// How often a torn write was cut off.
    mended: usize,
}

/// Where the program's data lies; what is left of its Redis server ends with this value.
struct Home {
    directory: TempDir,
    server: PathBuf,
}

impl Home {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let server = directory.path().join("server");
        let program = std::env::var("STANDINGS_REDIS_SERVER");
        let program = program.unwrap_or_else(|_| "redis-server".to_owned());
        // While it fsyncs, a server holds new writes back in its memory, but acknowledges them: the one gap that
        // is documented. Without fsync each acknowledged write has left the process, so none may be lost.
        let body = format!("#!/bin/sh\\nexec {program} \"$@\" --appendfsync no\\n");
        // Another process writes it: a file that is open for writing here, also in a child that another thread
        // has just started, can't be run.
        let write = format!("printf '{body}' > \"$0\" && chmod 700 \"$0\"");
        let written = std::process::Command::new("sh")
            .arg("-c")
            .arg(write)
            .arg(&server)
            .status();
        assert!(written.unwrap().success());
        Self { directory, server }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The process of the Redis server, if there is one: that of the note which the program makes, if it works here.
    fn redis(&self) -> Option<String> {
        let note = std::fs::read_to_string(self.data().join("server.lock")).ok()?;
        let pid: u32 = note.trim().parse().ok()?;
        let pid = pid.to_string();
        let told = std::process::Command::new("ps")
            .args(["-o", "args=", "-p", &pid])
            .output();
        let command = String::from_utf8_lossy(&told.ok()?.stdout).into_owned();
        command
            .contains(self.directory.path().to_str()?)
            .then_some(pid)
    }

    /// Kills the Redis server; returns whether there was one.
    fn kill_redis(&self) -> bool {
        let Some(pid) = self.redis() else {
            return false;
        };
        let killed = std::process::Command::new("kill")
            .args(["-KILL", "--", &pid])
            .status();
        killed.is_ok_and(|status| status.success())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.kill_redis();
    }
}

impl Siege {
    async fn begin(seed: u64) -> Self {
        let home = Home::new();
        let program = Program::serve_with(&home.data(), &home.server).await;
        let boards = boards();
        for (name, model) in BOARDS.iter().zip(&boards) {
            let mut definition = answers::definition(&model.board);
            definition["idempotency"] = json!("366d");
            program.client().define(name, definition).await;
        }
        Self {
            home,
            random: Random::new(seed),
            program: Some(program),
            boards,
            votes: BTreeMap::new(),
            unanswered: Vec::new(),
            begun_at: Utc::now().timestamp_millis(),
            events: 0,
            kills: 0,
            taken: 0,
            compared: 0,
            mended: 0,
        }
    }

    /// Kills while events come in, until all is well again and most of them have an answer.
    async fn round(&mut self, round: usize) {
        let mut sent = Vec::new();
        for _ in 0..400 + self.random.below(400) {
            sent.push(self.new_event(round));
        }
        let traffic = Traffic::begin(self.client(), self.requests(sent));
        let kills = self.plan();
        for kill in &kills {
            self.carry_out(*kill, &traffic).await;
        }
        self.be_ready(&traffic).await;
        // What was acknowledged is known, now and later.
        let mut sent_again = self.hear(traffic.end().await);
        // It may take a while until what a killed service has reserved of quotas is given back.
        let is_free = |sent: &mut Sent| sent.board != QUOTAS;
        sent_again.extend(self.unanswered.extract_if(.., is_free));
        let traffic = Traffic::begin(self.client(), self.requests(sent_again));
        self.hear(traffic.end().await);

        if round.is_multiple_of(SETTLED_EVERY) {
            self.settle().await;
        }
        self.compare().await;
    }

    async fn end(mut self, rounds: usize) {
        self.settle().await;
        self.compare().await;
        let program = self.program.take().unwrap();
        self.count_mended(&program.log());
        program.stop().await;
        tell(&format!(
            "{rounds} rounds, {} kills, {} events taken, {} refused, {} torn writes cut off, {} standings compared: \
             0 lost, 0 doubled, 0 contradictions",
            self.kills,
            self.taken,
            self.votes.values().map(|[_, refused]| refused).sum::<i64>(),
            self.mended,
            self.compared,
        ));
    }

    fn client(&self) -> Client {
        self.program.as_ref().unwrap().client()
    }

    fn new_event(&mut self, round: usize) -> Sent {
        let random = &mut self.random;
        let mut below = |bound: usize| i64::try_from(random.below(bound)).unwrap();
        let board = usize::try_from(below(self.boards.len())).unwrap();
        let at = self.begun_at - below(60 * usize::try_from(HOUR).unwrap());
        self.events += 1;
        let event = Event {
            id: Some(format!("e{}", self.events)),
            member: format!("m{}", below(70)),
            score: Some(below(25) - 3),
            at: (board != UNTIMED).then_some(at),
            // Some vote in the next rounds, too. Few vote too often: an event waits for seconds where too little is
            // left of its quota, and a killed service has reserved some.
            voter: Some(format!(
                "v{}",
                80 * i64::try_from(round).unwrap() + below(240)
            )),
            channel: None,
            data: None,
        };
        Sent {
            board,
            event,
            is_known: false,
        }
    }

    /// The events in a random order, some by one, the others in batches of any size. Those that may have to wait for a
    /// quota are for themselves, so that they hold up no others.
    fn requests(&mut self, mut events: Vec<Sent>) -> VecDeque<Vec<Sent>> {
        self.random.shuffle(&mut events);
        let (quotas, others): (Vec<Sent>, Vec<Sent>) =
            events.into_iter().partition(|sent| sent.board == QUOTAS);
        let mut requests = Vec::new();
        for mut events in [quotas, others] {
            while !events.is_empty() {
                let size = [1, 1, 30, 500][self.random.below(4)];
                let size = 1 + self.random.below(size);
                requests.push(events.split_off(events.len().saturating_sub(size)));
            }
        }
        self.random.shuffle(&mut requests);
        requests.into()
    }

    /// One after the other, or at once.
    fn plan(&mut self) -> Vec<Kill> {
        let plans: [&[Kill]; 8] = [
            &[Kill::Service],
            &[Kill::Redis],
            &[Kill::Service, Kill::Redis],
            &[Kill::Redis, Kill::Service],
            &[Kill::Service, Kill::Start, Kill::Service],
            &[Kill::Redis, Kill::Redis],
            &[Kill::Service, Kill::HalfStart, Kill::Redis, Kill::HalfStart],
            &[Kill::Redis, Kill::Service, Kill::HalfStart],
        ];
        plans[self.random.below(plans.len())].to_vec()
    }

    async fn carry_out(&mut self, kill: Kill, traffic: &Traffic) {
        let pause = |random: &mut Random, ms_max: usize| {
            Duration::from_micros(random.below(1_000 * ms_max) as u64)
        };
        tokio::time::sleep(pause(&mut self.random, 80)).await;
        match kill {
            Kill::Service => {
                if let Some(program) = self.program.take() {
                    let log = program.die().await;
                    self.count_mended(&log);
                    self.kills += 1;
                }
            }
            Kill::Redis => self.kills += usize::from(self.home.kill_redis()),
            Kill::Start => self.be_ready(traffic).await,
            Kill::HalfStart => {
                if self.program.is_none() {
                    let time = pause(&mut self.random, 400);
                    Program::serve_for(time, &self.home.data(), &self.home.server).await;
                    self.kills += 1;
                }
            }
        }
    }

    async fn be_ready(&mut self, traffic: &Traffic) {
        if self.program.is_none() {
            let program = Program::serve_with(&self.home.data(), &self.home.server).await;
            *traffic.client.lock() = program.client();
            self.program = Some(program);
        }
        let client = self.client();
        eventually("the program is ready", async || {
            client.get("/readyz").await.status == 200
        })
        .await;
    }

    fn count_mended(&mut self, log: &str) {
        self.mended += log.matches("cut off the last write").count();
    }

    /// Takes note of answers; returns some of the events that were acknowledged, to be sent again.
    fn hear(&mut self, answers: Vec<(Sent, Outcome)>) -> Vec<Sent> {
        let mut known = Vec::new();
        for (mut sent, outcome) in answers {
            if outcome == Outcome::Unknown {
                self.unanswered.push(sent);
                continue;
            }
            if sent.is_known {
                continue;
            }
            let Sent { board, event, .. } = &sent;
            let (at, model) = (event.at.unwrap_or(self.begun_at), &mut self.boards[*board]);
            if *board == QUOTAS {
                let day = model.board.period(Unit::Day, at);
                let votes = self.votes.entry((event.voter.clone(), day)).or_default();
                votes[usize::from(outcome == Outcome::Refused)] += 1;
            }
            if outcome == Outcome::Refused {
                continue;
            }
            model.add(event, event.score.unwrap(), US * at);
            self.taken += 1;
            if self.random.below(10) == 0 {
                sent.is_known = true;
                known.push(sent);
            }
        }
        known
    }

    /// Sends what has no answer until it has one. An event may have to wait until what a killed service has reserved of
    /// its quota is given back.
    async fn settle(&mut self) {
        let begun = Instant::now();
        while !self.unanswered.is_empty() {
            assert!(begun.elapsed() < SENT_WITHIN, "{:?}", self.unanswered);
            let sent = std::mem::take(&mut self.unanswered);
            let traffic = Traffic::begin(self.client(), self.requests(sent));
            let answers = traffic.end().await;
            self.hear(answers);
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        for (voter, [taken, refused]) in &self.votes {
            let is_used_up = *taken == VOTES_OF_A_DAY;
            assert!(
                is_used_up || (*taken < VOTES_OF_A_DAY && *refused == 0),
                "{voter:?}: {taken} taken, {refused} not"
            );
        }
    }

    /// Compares all standings, but for those of a board with an event that may have been taken or not.
    async fn compare(&mut self) {
        let (client, now) = (self.client(), Utc::now().timestamp_millis());
        let new = self.unanswered.iter().filter(|sent| !sent.is_known);
        let unknown: BTreeSet<usize> = new.map(|sent| sent.board).collect();
        for (board, model) in self.boards.iter().enumerate() {
            if unknown.contains(&board) {
                continue;
            }
            let compared = stream::iter(standings(model, now)).map(async |(window, period)| {
                let window = model.board.windows[window];
                compare_standing(&client, board, model, window, period).await;
            });
            let compared: Vec<()> = compared.buffer_unordered(SENDERS).collect().await;
            self.compared += compared.len();
        }
        let data = self.home.data();
        let (status, found) =
            Program::run_alone(&["check", "--data-dir", data.to_str().unwrap()]).await;
        assert_eq!(status, 0, "{found}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Kill {
    Service,
    Redis,
    /// No kill: the program is started, and ready.
    Start,
    /// It is started, and killed before it is ready, or soon after.
    HalfStart,
}

/// Requests that are sent until they are answered.
struct Traffic {
    /// Of the program that runs now.
    client: Arc<Mutex<Client>>,
    senders: Vec<tokio::task::JoinHandle<Vec<(Sent, Outcome)>>>,
}

impl Traffic {
    fn begin(client: Client, requests: VecDeque<Vec<Sent>>) -> Self {
        let client = Arc::new(Mutex::new(client));
        let requests = Arc::new(Mutex::new(requests));
        let senders = (0..SENDERS).map(|_| {
            let (client, requests) = (Arc::clone(&client), Arc::clone(&requests));
            tokio::spawn(async move {
                let mut heard = Vec::new();
                loop {
                    let Some(events) = requests.lock().pop_front() else {
                        return heard;
                    };
                    let outcomes = post_until_answered(&client, &events).await;
                    heard.extend(events.into_iter().zip(outcomes));
                }
            })
        });
        Self {
            senders: senders.collect(),
            client,
        }
    }

    /// What has become of each event, once all requests are answered.
    async fn end(self) -> Vec<(Sent, Outcome)> {
        let mut heard = Vec::new();
        for sender in self.senders {
            heard.extend(sender.await.unwrap());
        }
        heard
    }
}

async fn post_until_answered(client: &Mutex<Client>, events: &[Sent]) -> Vec<Outcome> {
    let begun = Instant::now();
    while begun.elapsed() < ANSWERED_WITHIN {
        let to = client.lock().clone();
        if let Some(outcomes) = post(&to, events).await {
            return outcomes;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    vec![Outcome::Unknown; events.len()]
}

/// The outcomes, if there is an answer that says something of the events.
async fn post(client: &Client, events: &[Sent]) -> Option<Vec<Outcome>> {
    let body = |sent: &Sent| {
        let event = &sent.event;
        json!({
            "id": event.id,
            "member": event.member,
            "score": event.score,
            "at": event.at.map(answers::time_text),
            "voter": event.voter,
        })
    };
    let in_batch = |sent: &Sent| {
        let mut body = body(sent);
        body["board"] = json!(BOARDS[sent.board]);
        body
    };
    let (path, body) = if let [sent] = events {
        let path = format!("/v1/boards/{}/events", BOARDS[sent.board]);
        (path, body(sent))
    } else {
        let events: Vec<Value> = events.iter().map(in_batch).collect();
        ("/v1/events".to_owned(), json!({"events": events}))
    };
    let request = client.builder(Method::POST, &path).json(&body);
    let answer = Client::try_send(request).await.ok()?;
    match (answer.status.as_u16(), events) {
        // Where it is its quota that has to wait, this takes seconds.
        (500 | 503, [_]) => Some(vec![Outcome::Unknown]),
        (500 | 503, _) => None,
        (200, [sent]) => Some(vec![outcome(sent, &answer.json)]),
        (429, [sent]) => Some(vec![refusal(sent, &answer.json)]),
        (200, _) => {
            let results = answer.json["results"].as_array().unwrap();
            assert_eq!(results.len(), events.len());
            let outcomes = events.iter().zip(results);
            Some(
                outcomes
                    .map(|(sent, result)| outcome(sent, result))
                    .collect(),
            )
        }
        _ => panic!("{}", answer.text),
    }
}

fn outcome(sent: &Sent, result: &Value) -> Outcome {
    assert_eq!(result["id"], json!(sent.event.id), "{result}");
    match result["status"].as_str() {
        Some("applied") if sent.is_known => panic!("{sent:?} is counted twice: {result}"),
        Some("applied" | "duplicate") => Outcome::Taken,
        _ => refusal(sent, &result["problem"]),
    }
}

fn refusal(sent: &Sent, problem: &Value) -> Outcome {
    match problem["type"].as_str() {
        Some("/problems/quota-exceeded") if sent.board == QUOTAS && !sent.is_known => {
            Outcome::Refused
        }
        Some("/problems/store-unavailable" | "/problems/internal") => Outcome::Unknown,
        _ => panic!("{sent:?}: {problem}"),
    }
}

/// Everything that shows in standings: ties by time and by member, carryover, rolling windows, shards, quotas that are
/// counted in other shards.
fn boards() -> [Model; BOARDS.len()] {
    let (day, week, all) = (
        Window::Period(Unit::Day),
        Window::Period(Unit::Week),
        Window::Period(Unit::All),
    );
    let board = Board {
        carryover: BTreeMap::from([(Unit::Day, 250_000), (Unit::Week, 200_000)]),
        ..Board::of(vec![day, week, all, Window::Rolling(Unit::Day, 3)])
    };
    let members = Board {
        ties: Ties::Member,
        ranking: Ranking::Competition,
        windows: vec![day, all, Window::Rolling(Unit::Day, 2)],
        carryover: BTreeMap::from([(Unit::Day, 500_000)]),
        shards: 3,
        ..board.clone()
    };
    let quota = Quota {
        by_voter: true,
        by_member: false,
        window: QuotaWindow::Period(Unit::Day),
        max: VOTES_OF_A_DAY,
        counts_points: false,
        extra: Vec::new(),
    };
    let quotas = Board {
        windows: vec![day, all, Window::Rolling(Unit::Day, 2)],
        carryover: BTreeMap::from([(Unit::Day, 500_000)]),
        quotas: vec![quota],
        uniques: Some(Uniques::Board),
        shards: 4,
        ..board.clone()
    };
    let untimed = Board {
        windows: vec![all],
        carryover: BTreeMap::new(),
        uniques: Some(Uniques::Board),
        ..board.clone()
    };
    [board, members, quotas, untimed].map(Model::new)
}

/// The standings in which an event shows, but for rolling ones of the future.
fn standings(model: &Model, now: i64) -> BTreeSet<(usize, i64)> {
    let windows = model.board.windows.iter().enumerate();
    let of_window = |(place, window): (usize, &Window)| {
        let unit = window.unit();
        let running = model.board.period(unit, now);
        let length = match window {
            Window::Period(unit) => 1 + i64::from(model.board.carryover.contains_key(unit)),
            Window::Rolling(_, length) => *length,
        };
        let is_rolling = matches!(window, Window::Rolling(..));
        let periods: BTreeSet<i64> = model
            .instants()
            .map(|at| model.board.period(unit, at))
            .collect();
        let shown = periods
            .into_iter()
            .flat_map(move |period| period..period + length);
        let shown = shown.filter(move |period| !is_rolling || *period <= running);
        shown.map(move |period| (place, period)).collect::<Vec<_>>()
    };
    windows.flat_map(of_window).collect()
}

/// What a standing shows must not contradict itself, and be what the model says.
async fn compare_standing(
    client: &Client,
    board: usize,
    model: &Model,
    window: Window,
    period: i64,
) {
    let view = View::new(model, BOARDS[board], window, period);
    let [name, key] = [
        answers::window_name(window),
        model.board.key(window.unit(), period),
    ];
    let path = |what: &str| {
        format!(
            "/v1/boards/{}/standings/{name}{what}key={key}",
            BOARDS[board]
        )
    };
    let mut page = read(client, &path(&format!("?size={PAGE}&"))).await;
    // It follows from the time.
    page.as_object_mut().unwrap().remove("state");
    let members = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["member"]);
    let listed = members.clone().count();
    let distinct: BTreeSet<String> = members.map(Value::to_string).collect();
    assert_eq!(distinct.len(), listed, "somebody is listed twice: {page}");
    assert_eq!(page["total"], listed.to_string(), "{page}");
    let expected = view.page(1, PAGE, None);
    if board == UNTIMED {
        // The service alone knows who of those with the same score was the first.
        assert_eq!(scores(&page), scores(&expected));
    } else {
        assert_eq!(page, expected);
    }

    let stats = read(client, &path("/stats?")).await;
    let expected = view.stats();
    for field in ["members", "events", "score_sum"] {
        assert_eq!(stats[field], expected[field], "{field} of {stats}");
    }
}

/// The ranks with their scores, and the members with theirs.
fn scores(page: &Value) -> (Vec<String>, BTreeSet<String>) {
    let entries = page["entries"].as_array().unwrap().iter();
    let score_of =
        |name: &'static str| move |entry: &Value| format!("{} {}", entry[name], entry["score"]);
    (
        entries.clone().map(score_of("rank")).collect(),
        entries.map(score_of("member")).collect(),
    )
}

async fn read(client: &Client, path: &str) -> Value {
    eventually(&format!("{path} can be read"), async || {
        client.get(path).await.status != 503
    })
    .await;
    let answer = client.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    exact(&answer.text)
}

#[expect(clippy::print_stderr, reason = "it says how much was tried")]
fn tell(line: &str) {
    eprintln!("{line}");
}
