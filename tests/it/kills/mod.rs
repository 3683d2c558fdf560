//! Kills without end: the program and its private Redis server, on one data directory that lives through all rounds,
//! are killed in the middle of traffic, one or both, in either order, twice in a row. What was not acknowledged is sent
//! again with the same ids. Afterwards every standing must be what a naive model makes of the events that were taken.

mod compare;
mod leagues;
mod posting;
mod rewards;
mod torn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::compare::{boards, compare_standing, read, standings};
use self::posting::post_until_answered;
use crate::harness::Client;
use crate::harness::program::Program;
use crate::harness::random::{Random, case_count, seed};
use crate::harness::redis::eventually;
use crate::model::answers;
use crate::model::naive::{Event, HOUR, Model, US, Unit};

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
async fn kills_lose_and_double_nothing_and_damage_no_standing() {
    let rounds = case_count(ROUNDS);
    let mut siege = Siege::begin(seed(0)).await;
    for round in 1..=rounds {
        siege.round(round).await;
    }
    siege.end(rounds).await;
}

/// Events are queued and applied while the service, its Redis server, or both are killed, with events in hand.
#[tokio::test(flavor = "multi_thread")]
async fn queued_events_are_applied_once_each_during_kills() {
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
        let sent: Vec<_> = requests
            .iter()
            .map(|(path, body)| {
                let request = client.builder(Method::POST, path).json(body);
                tokio::spawn(Client::try_send(request))
            })
            .collect();
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
        let program =
            std::env::var("STANDINGS_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
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
        self.mended += log
            .matches("removed the last write of the embedded Redis server")
            .count();
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
            let compared: Vec<()> = stream::iter(standings(model, now))
                .map(async |(window, period)| {
                    let window = model.board.windows[window];
                    compare_standing(&client, board, model, window, period).await;
                })
                .buffer_unordered(SENDERS)
                .collect()
                .await;
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

#[expect(clippy::print_stderr, reason = "it says how much was tried")]
fn tell(line: &str) {
    eprintln!("{line}");
}
