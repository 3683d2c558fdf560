//! The service beside Podium, another service for leaderboards over HTTP: on one Redis server, under the same load, in turn.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::beside::in_turn;
use crate::kit::servers::free_ports;
use crate::load::{Load, float};
use crate::machine::Machine;
use crate::redis::{self, Redis};
use crate::requests::{Expected, ID, MEMBER, Members, NUMBER, PAGE, Requests, SCORE};
use crate::rows::Measured;
use crate::service::{Service, free_address};
use crate::session::Extent;
use crate::{Options, Result, http, publish, say, table};

/// How many members the boards have.
const MEMBERS: usize = 100_000;
/// How often each row is measured, unless the run is a quick one.
const ROUNDS: usize = 5;
/// How many scores a request has that fills a board.
const FILL_BATCH: usize = 1_000;
/// The longest that filling a board may take.
const FILL_WITHIN: Duration = Duration::from_mins(5);
/// How many scores a request with many has.
const BATCH: usize = 100;
/// On how many connections such requests come.
const BATCH_CONNECTIONS: usize = 4;
/// On how many connections all others come.
const CONNECTIONS: usize = 64;
/// How many entries a page has, as Podium has it by default.
const PAGE_SIZE: usize = 20;
/// How many neighbours a member is read with, on each side.
const AROUND: usize = 3;
/// How many members are read from both services and compared.
const COMPARED: usize = 100;

/// The board whose scores are added up; it is named like what it does to scores.
const SUM: &str = "sum";
/// The board whose scores are set, likewise.
const LAST: &str = "last";
/// What the answer to an event has.
const APPLIED: &str = r#""status":"applied""#;
/// The rows that README.md names.
const ONE: &str = "one score with an id";
const HUNDRED: &str = "a hundred set in a request";
const ANY_PAGE: &str = "any page of 20";
const ONE_MEMBER: &str = "a member";

/// What has a rank has this once, on both services; a previous rank has another name.
const RANK: &str = r#""rank":"#;
/// What has a score, likewise.
const SCORED: &str = r#""score":"#;

const HEADER: [&str; 8] = [
    "",
    "ratio",
    "standings",
    "Podium",
    "p50 / p99 ms",
    "Podium's",
    "CPU s redis/service/generator",
    "Podium's",
];

/// The same thing asked of both.
struct Row {
    title: &'static str,
    ours: Asked,
    theirs: Asked,
    /// How many scores a request has.
    count: usize,
}

/// A request, and what its answer must have how often.
struct Asked {
    form: String,
    text: &'static str,
    times: usize,
}

/// Both services on their server.
struct Both {
    // In this order they end.
    ours: Service,
    theirs: Service,
    redis: Redis,
    extent: Extent,
    next_series: Cell<u64>,
}

/// A row with its figures.
struct Line {
    title: &'static str,
    measured: Measured,
}

/// Measures all rows, and prints a table.
pub async fn run(podium: &Path, options: &Options) -> Result<()> {
    let both = Both::start(podium, options).await?;
    for board in [SUM, LAST] {
        say(&format!("{board}: filling it on both"));
        both.fill(board).await?;
        both.compare(board).await?;
    }
    let mut lines = Vec::new();
    for row in rows() {
        let line = Line {
            title: row.title,
            measured: both.measure(&row).await?,
        };
        say(&format!("{}: {:.1}", row.title, line.ratio()));
        lines.push(line);
    }
    let machine = Machine::look(&both.redis, &both.extent).await?;
    let table = format!("{}\n{}", markdown(&lines), conditions(&machine));
    writeln!(std::io::stdout(), "{table}")?;
    if options.publish {
        publish::comparison(&table, &in_short(&lines))?;
    }
    Ok(())
}

/// Starts Podium with its defaults. What it would send to agents for metrics goes where nobody listens, and traces are
/// off, as in its image.
async fn start_podium(program: &Path, redis: &Redis, port: u16) -> Result<Service> {
    let (address, [grpc, agent]) = (free_address(), free_ports());
    let settings = redis.socket().with_file_name("podium.yaml");
    let redis_settings = format!("redis: {{host: 127.0.0.1, port: {port}}}");
    let agent = format!("extensions: {{dogstatsd: {{host: \"127.0.0.1:{agent}\"}}}}");
    std::fs::write(&settings, format!("{redis_settings}\n{agent}\n"))?;
    let mut command = Command::new(program.canonicalize()?);
    command
        .arg("start")
        .args(["--bind", "127.0.0.1", "--grpc_port", &grpc.to_string()])
        .args(["--http_port", &address.port().to_string(), "--config"])
        .arg(settings)
        .env_clear()
        .env("JAEGER_DISABLED", "true");
    Ok(Service::run(command, redis, address, "/healthcheck").await)
}

impl Both {
    async fn start(podium: &Path, options: &Options) -> Result<Self> {
        let extent = Extent::new(options)?;
        let [port, _] = free_ports();
        let redis = redis::start_on(port).await;
        let url = format!("redis://127.0.0.1:{port}");
        Ok(Self {
            ours: Service::start_on(&options.service, &redis, &url).await?,
            theirs: start_podium(podium, &redis, port).await?,
            redis,
            extent: Extent {
                members: MEMBERS,
                rounds: if options.quick { 1 } else { ROUNDS },
                ..extent
            },
            next_series: Cell::new(0),
        })
    }

    /// Gives each member the same score on both services, and no two members the same one.
    async fn fill(&self, board: &str) -> Result<()> {
        let definition = json!({"windows": ["all"], "update": board});
        self.ours.define(board, &definition).await?;
        let score = format!("1{NUMBER}");
        let our_form = our_batch(board, "", &score, "?standings=false", FILL_BATCH);
        let their_form = their_batch(board, &score, FILL_BATCH);
        for (service, asked) in [
            (&self.ours, asked(our_form, APPLIED, FILL_BATCH)),
            (&self.theirs, asked(their_form, RANK, FILL_BATCH)),
        ] {
            let each = Members::each(MEMBERS);
            let requests = self.requests(&asked.form, &each, BATCH_CONNECTIONS);
            let load = self.load(service, &asked, FILL_WITHIN);
            load.run_all(requests).await?;
        }
        Ok(())
    }

    /// Fails unless both services answer the same ranks and scores.
    async fn compare(&self, board: &str) -> Result<()> {
        for page in [1, 2, MEMBERS / PAGE_SIZE] {
            let theirs = their_page(board, page);
            let ours = (our_page(board, page), "entries");
            self.compare_answers(ours, &theirs, PAGE_SIZE).await?;
        }
        for place in (0..MEMBERS).step_by(MEMBERS / COMPARED) {
            let member = format!("m:{place:012}");
            let theirs = their_member(board, &member);
            let ours = (our_member(board, &member), "");
            self.compare_answers(ours, &theirs, 1).await?;
            // Podium shows one member more after the one that is asked for than before it, and all of them at either end.
            let ours = (our_around(board, &member, 2 * AROUND), "around");
            let theirs = their_around(board, &member);
            self.compare_answers(ours, &theirs, 2 * AROUND + 1).await?;
        }
        Ok(())
    }

    /// Fails unless Podium answers so many members, each as the service does.
    async fn compare_answers(
        &self,
        (our_path, list): (String, &str),
        their_path: &str,
        count: usize,
    ) -> Result<()> {
        let our_answer = self.ours.read(&our_path).await?;
        let their_answer = self.theirs.read(their_path).await?;
        let ours = entries(&our_answer, list, "member");
        let theirs = entries(&their_answer, "members", "publicID");
        let is_same = ours.zip(theirs).is_some_and(|(ours, theirs)| {
            theirs.len() == count && theirs.iter().all(|entry| ours.contains(entry))
        });
        if is_same {
            return Ok(());
        }
        Err(format!("{our_path}: {our_answer}\n{their_path}: {their_answer}").into())
    }

    async fn measure(&self, row: &Row) -> Result<Measured> {
        let connections = if row.count == 1 {
            CONNECTIONS
        } else {
            BATCH_CONNECTIONS
        };
        let load = async |service, asked: &Asked| {
            let requests = self.requests(&asked.form, &Members::Random(MEMBERS), connections);
            let load = self.load(service, asked, self.extent.load);
            Ok(load.run(requests).await?.times(row.count))
        };
        in_turn(
            self.extent.rounds,
            async || load(&self.ours, &row.ours).await,
            async || load(&self.theirs, &row.theirs).await,
        )
        .await
    }

    fn load(&self, service: &Service, asked: &Asked, time: Duration) -> Load {
        let expected = Expected {
            status: 200,
            text: asked.text,
            times: asked.times,
        };
        Load::on(service, &self.redis, time, expected)
    }

    /// The requests of so many connections, with ids that nobody else has.
    fn requests(&self, form: &str, members: &Members, connections: usize) -> Vec<Requests> {
        let first = self.next_series.get();
        self.next_series.set(first + connections as u64);
        Requests::of_connections(form, members, first, connections)
    }
}

/// The ranks, members and scores of a list of an answer; of the answer itself, if it has no such list.
fn entries<'a>(answer: &'a Value, list: &str, member: &str) -> Option<Vec<(u64, &'a str, f64)>> {
    let alone = std::slice::from_ref(answer);
    let list = answer[list].as_array().map_or(alone, Vec::as_slice);
    let entry = |entry: &'a Value| {
        let rank = entry["rank"].as_u64()?;
        Some((rank, entry[member].as_str()?, entry["score"].as_f64()?))
    };
    list.iter().map(entry).collect()
}

fn rows() -> Vec<Row> {
    let id = format!(r#""id":"{ID}","#);
    let increment = || {
        let path = format!("/l/{SUM}/members/{MEMBER}/score");
        http::with_json("PATCH", &path, r#"{"increment":7}"#)
    };
    let set = {
        let path = format!("/l/{LAST}/members/{MEMBER}/score");
        http::with_json("PUT", &path, &format!(r#"{{"score":{SCORE}}}"#))
    };
    let get = |path: String| http::get(&path, "");
    let theirs = |form, times| asked(form, RANK, times);
    let row = |title, ours, theirs| Row {
        title,
        ours,
        theirs,
        count: 1,
    };
    let batch = |title, ours| Row {
        count: BATCH,
        ..row(title, ours, theirs(their_batch(LAST, SCORE, BATCH), BATCH))
    };
    vec![
        row(
            ONE,
            asked(our_single(SUM, &id, "7", ""), APPLIED, 1),
            theirs(increment(), 1),
        ),
        row(
            "one score without an id",
            asked(our_single(SUM, "", "7", ""), APPLIED, 1),
            theirs(increment(), 1),
        ),
        row(
            "a score set and its rank",
            asked(our_single(LAST, &id, SCORE, "?ranks=true"), RANK, 1),
            theirs(set, 1),
        ),
        batch(
            HUNDRED,
            asked(our_batch(LAST, &id, SCORE, "", BATCH), SCORED, BATCH),
        ),
        batch(
            "a hundred set and their ranks",
            asked(
                our_batch(LAST, &id, SCORE, "?ranks=true", BATCH),
                RANK,
                BATCH,
            ),
        ),
        row(
            "the first page of 20",
            asked(get(our_page(SUM, 1)), RANK, PAGE_SIZE),
            theirs(get(their_page(SUM, 1)), PAGE_SIZE),
        ),
        row(
            ANY_PAGE,
            asked(get(our_page(SUM, PAGE)), RANK, PAGE_SIZE),
            theirs(get(their_page(SUM, PAGE)), PAGE_SIZE),
        ),
        row(
            ONE_MEMBER,
            asked(get(our_member(SUM, MEMBER)), r#""percentile":"#, 1),
            theirs(get(their_member(SUM, MEMBER)), 1),
        ),
        row(
            "a member and its neighbours",
            asked(
                get(our_around(SUM, MEMBER, AROUND)),
                r#""around":[{"rank":"#,
                1,
            ),
            theirs(get(their_around(SUM, MEMBER)), 2 * AROUND + 1),
        ),
    ]
}

fn asked(form: String, text: &'static str, times: usize) -> Asked {
    Asked { form, text, times }
}

fn our_single(board: &str, id: &str, score: &str, query: &str) -> String {
    let body = format!(r#"{{{id}"member":"{MEMBER}","score":{score}}}"#);
    http::with_json("POST", &format!("/v1/boards/{board}/events{query}"), &body)
}

fn our_batch(board: &str, id: &str, score: &str, query: &str, size: usize) -> String {
    let event = format!(r#"{{"board":"{board}",{id}"member":"{MEMBER}","score":{score}}}"#);
    let body = format!(r#"{{"events":[{}]}}"#, vec![event; size].join(","));
    http::with_json("POST", &format!("/v1/events{query}"), &body)
}

fn their_batch(board: &str, score: &str, size: usize) -> String {
    let member = format!(r#"{{"publicID":"{MEMBER}","score":{score}}}"#);
    let body = format!(r#"{{"members":[{}]}}"#, vec![member; size].join(","));
    http::with_json("PUT", &format!("/l/{board}/scores"), &body)
}

fn our_page(board: &str, page: impl std::fmt::Display) -> String {
    format!("/v1/boards/{board}/standings/all?size={PAGE_SIZE}&page={page}")
}

fn their_page(board: &str, page: impl std::fmt::Display) -> String {
    format!("/l/{board}/top/{page}?pageSize={PAGE_SIZE}")
}

fn our_member(board: &str, member: &str) -> String {
    format!("/v1/boards/{board}/standings/all/members/{member}")
}

fn their_member(board: &str, member: &str) -> String {
    format!("/l/{board}/members/{member}")
}

fn our_around(board: &str, member: &str, around: usize) -> String {
    format!("{}?around={around}", our_member(board, member))
}

fn their_around(board: &str, member: &str) -> String {
    let size = 2 * AROUND + 1;
    format!("{}/around?pageSize={size}", their_member(board, member))
}

impl Line {
    fn ratio(&self) -> f64 {
        let Measured {
            figure, reference, ..
        } = self.measured;
        figure.unwrap_or(f64::NAN) / reference.unwrap_or(f64::NAN)
    }

    fn cells(&self) -> Vec<String> {
        let loads = [self.measured.load, self.measured.reference_load];
        let [ours, theirs] = loads.map(|load| {
            load.map_or_else(Default::default, |load| {
                let rate = table::number(load.per_second.round());
                let latencies = format!("{:.1} / {:.1}", load.p50_ms, load.p99_ms);
                [rate, latencies, table::seconds(load.cpu)]
            })
        });
        let names = [self.title.to_owned(), format!("{:.1}", self.ratio())];
        let pairs = ours.into_iter().zip(theirs);
        names
            .into_iter()
            .chain(pairs.flat_map(<[String; 2]>::from))
            .collect()
    }
}

fn markdown(lines: &[Line]) -> String {
    let cells: Vec<Vec<String>> = lines.iter().map(Line::cells).collect();
    table::aligned(&HEADER, &cells)
}

/// What the table was measured on.
fn conditions(machine: &Machine) -> String {
    format!(
        "{}: {}, {} cores; {}; {} members; rounds: {}.\n",
        machine.date,
        machine.processor,
        machine.cores,
        machine.redis,
        table::number(float(machine.members as u64)),
        machine.rounds,
    )
}

/// Some ratios in a sentence.
fn in_short(lines: &[Line]) -> String {
    let [one, hundred, any_page, member] = [ONE, HUNDRED, ANY_PAGE, ONE_MEMBER].map(|title| {
        let line = lines.iter().find(|line| line.title == title);
        line.map_or(f64::NAN, Line::ratio)
    });
    format!(
        "On the same machine, Standings reaches {one:.1} times the rate of \
         [Podium](https://github.com/topfreegames/podium), another leaderboard service on Redis, with single scores, {hundred:.1} times with \
         batches of a hundred, {any_page:.1} times with pages, and {member:.1} times with members \
         ([BENCHMARKS.md](BENCHMARKS.md#beside-podium)).\n"
    )
}
