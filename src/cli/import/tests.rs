//! Tests of the whole import, against a small service in the same process.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

use super::record::ImportRecord;
use super::rejects::Place;
use super::summary::Rejected;
use super::*;
use crate::cli::args::Secret;
use crate::cli::text::printable;

/// What the service does with a request.
#[derive(Clone, Copy)]
enum Reply {
    Take,
    /// Takes the events, but answers 503.
    TakeAndLose,
    /// Takes the events, and never answers.
    TakeAndHang,
    /// Refuses the request: the status, and the name of the problem.
    Refuse(u16, &'static str),
    /// Rejects each event whose score is negative.
    RejectNegative,
    /// Rejects each event.
    RejectAll(&'static str),
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
struct Event {
    id: String,
    board: String,
    member: String,
    score: Box<RawValueText>,
    at: Option<String>,
    voter: Option<String>,
    channel: Option<String>,
    device: Option<String>,
    ip: Option<String>,
    data: Option<RawValueText>,
}

/// The text of a value as it was sent.
#[derive(Clone, Debug, Eq, PartialEq)]
struct RawValueText(String);

impl<'de> Deserialize<'de> for RawValueText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(
            <&RawValue>::deserialize(deserializer)?.get().to_owned(),
        ))
    }
}

#[derive(Deserialize)]
struct Events {
    events: Vec<Event>,
}

struct Fake {
    reply: Box<dyn Fn(usize) -> Reply + Send + Sync>,
    idempotency: Mutex<&'static str>,
    version: Mutex<&'static str>,
    /// `None` if the key may not read it.
    definition: Mutex<Option<Value>>,
    /// The ids that the board remembers.
    remembered: Mutex<HashSet<String>>,
    /// How often each member's event was counted; the members of a test are different.
    counted: Mutex<HashMap<String, u32>>,
    requests: Mutex<Vec<Vec<Event>>>,
    takes_profiles: Mutex<bool>,
    /// The profiles of each request. Those with the name `bad` are rejected.
    profiles: Mutex<Vec<Vec<Value>>>,
    authorization: Mutex<Option<String>>,
    hangs: Notify,
}

/// The service, a directory with the file, and what was shown.
struct Scene {
    fake: Arc<Fake>,
    url: String,
    folder: TempDir,
    shown: Shown,
    limits: RetryLimits,
}

#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Scene {
    async fn new(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        let fake = Arc::new(Fake {
            reply: Box::new(reply),
            idempotency: Mutex::new("1h"),
            version: Mutex::new("1-1"),
            definition: Mutex::default(),
            remembered: Mutex::default(),
            counted: Mutex::default(),
            requests: Mutex::default(),
            takes_profiles: Mutex::new(true),
            profiles: Mutex::default(),
            authorization: Mutex::default(),
            hangs: Notify::new(),
        });
        let router = Router::new()
            .route("/v1/boards/b/summary", get(board))
            .route("/v1/boards/b", get(definition))
            .route("/v1/events", post(events))
            .route("/v1/profiles", post(profiles))
            .fallback(async || problem(404, "board-not-found"))
            .with_state(Arc::clone(&fake));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (minute, ms) = (Duration::from_mins(1), Duration::from_millis(1));
        let limits = RetryLimits {
            outage_max: minute,
            first_contact_max: minute,
            pause_min: ms,
            pause_max: ms,
        };
        Self {
            fake,
            url,
            folder: tempfile::tempdir().unwrap(),
            shown: Shown::default(),
            limits,
        }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    fn args(&self, name: &str) -> ImportArgs {
        ImportArgs {
            file: Some(self.folder.path().join(name)),
            board: BoardId::parse("b").unwrap(),
            service: ServiceArgs {
                url: format!("{}/", self.url),
                api_key: Some(Secret("k1".to_owned())),
            },
            batch: 10,
            concurrency: 3,
            restart: false,
            resume_anyway: false,
            rejects: None,
            format: None,
            columns: Vec::new(),
            at: None,
            profiles: false,
            from_export: false,
            dry_run: false,
            sorted_sets: SortedSetArgs::default(),
            sync: false,
        }
    }

    /// The service takes all requests.
    async fn taking() -> Self {
        Self::new(|_| Reply::Take).await
    }

    /// The service takes all requests except this one.
    async fn with(request: usize, reply: Reply) -> Self {
        let others = move |index| {
            if index == request { reply } else { Reply::Take }
        };
        Self::new(others).await
    }

    /// One request after the other.
    fn one_by_one(&self, name: &str) -> ImportArgs {
        ImportArgs {
            concurrency: 1,
            ..self.args(name)
        }
    }

    async fn import(&self, name: &str) -> Summary {
        self.run(self.args(name)).await.unwrap()
    }

    async fn fail(&self, name: &str) -> ImportError {
        self.run(self.args(name)).await.unwrap_err()
    }

    async fn run(&self, args: ImportArgs) -> Result<Summary, ImportError> {
        self.run_until(args, std::future::pending()).await
    }

    async fn run_until(
        &self,
        args: ImportArgs,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Summary, ImportError> {
        let shown = self.shown.clone();
        let surroundings = Surroundings {
            limits: self.limits,
            drain_time_max: Duration::from_secs(30),
            fallback: self.folder.path().join("elsewhere"),
            progress: move |bytes| ImportProgress::lines(bytes, Box::new(shown)),
        };
        run_in(args, surroundings, interrupt).await
    }

    /// Runs until the service hangs, and then kills the import.
    async fn crash(&self, args: ImportArgs) {
        tokio::select! {
            ended = self.run(args) => panic!("it ended: {ended:?}"),
            () = self.fake.hangs.notified() => {}
        }
    }

    fn shown(&self) -> String {
        String::from_utf8(self.shown.0.lock().clone()).unwrap()
    }

    fn sent(&self) -> Vec<Event> {
        self.fake
            .requests
            .lock()
            .iter()
            .flatten()
            .cloned()
            .collect()
    }

    fn profiles(&self) -> Vec<Value> {
        self.fake.profiles.lock().concat()
    }

    async fn dry_run(&self, name: &str) -> String {
        let shown = self.shown.clone();
        let surroundings = Surroundings {
            limits: self.limits,
            drain_time_max: Duration::ZERO,
            fallback: PathBuf::new(),
            progress: move |bytes| ImportProgress::lines(bytes, Box::new(shown)),
        };
        let args = ImportArgs {
            profiles: true,
            ..self.args(name)
        };
        let found = dry_run::run(&args, surroundings).await.unwrap();
        found.to_string()
    }

    fn path_of_record(&self, name: &str) -> PathBuf {
        let name = format!("{name}.b.standings-import.json");
        self.folder.path().join(name)
    }

    fn record(&self, name: &str) -> Option<ImportRecord> {
        let bytes = std::fs::read(self.path_of_record(name)).ok();
        bytes.map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    fn change_record(&self, name: &str, change: impl Fn(&mut ImportRecord)) {
        let mut record = self.record(name).unwrap();
        change(&mut record);
        record.write(&self.path_of_record(name)).unwrap();
    }

    fn assert_counted_once(&self, rows: usize) {
        let counted = self.fake.counted.lock();
        assert_eq!(counted.len(), rows);
        assert!(counted.values().all(|count| *count == 1), "{counted:?}");
    }
}

async fn board(State(fake): State<Arc<Fake>>) -> Response {
    let (idempotency, version) = (*fake.idempotency.lock(), *fake.version.lock());
    let body = json!({"board": "b", "title": "", "idempotency": idempotency, "version": version});
    axum::Json(body).into_response()
}

async fn definition(State(fake): State<Arc<Fake>>) -> Response {
    match &*fake.definition.lock() {
        Some(definition) => axum::Json(definition.clone()).into_response(),
        None => problem(403, "forbidden"),
    }
}

async fn profiles(State(fake): State<Arc<Fake>>, body: Bytes) -> Response {
    assert!(body.len() <= crate::http::extract::BODY_BYTES_MAX);
    if !*fake.takes_profiles.lock() {
        return problem(403, "forbidden");
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let profiles = body["profiles"].as_array().unwrap();
    fake.profiles.lock().push(profiles.clone());
    let result = |profile: &Value| {
        let problem = json!({"type": "/problems/validation-failed", "title": "A title", "detail": "/name: is bad"});
        if profile["name"] == "bad" {
            json!({"status": "rejected", "member": profile["member"], "problem": problem})
        } else {
            json!({"status": "stored", "profile": profile})
        }
    };
    let results: Vec<_> = profiles.iter().map(result).collect();
    axum::Json(json!({"results": results})).into_response()
}

async fn events(
    State(fake): State<Arc<Fake>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert_eq!(uri.query(), Some("standings=false"));
    assert!(body.len() <= crate::http::extract::BODY_BYTES_MAX);
    let Events { events } = serde_json::from_slice(&body).unwrap();
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    *fake.authorization.lock() = headers
        .get(header::AUTHORIZATION)
        .map(|value| value.to_str().unwrap().to_owned());
    let index = {
        let mut requests = fake.requests.lock();
        requests.push(events.clone());
        requests.len() - 1
    };
    match (fake.reply)(index) {
        Reply::Take => fake.take(&events, |_| None),
        Reply::RejectNegative => fake.take(&events, |event| {
            event
                .score
                .0
                .starts_with('-')
                .then_some("score-out-of-range")
        }),
        Reply::RejectAll(name) => fake.take(&events, |_| Some(name)),
        Reply::TakeAndLose => {
            fake.take(&events, |_| None);
            problem(503, "store-unavailable")
        }
        Reply::TakeAndHang => {
            fake.take(&events, |_| None);
            fake.hangs.notify_one();
            std::future::pending().await
        }
        Reply::Refuse(status, name) => problem(status, name),
    }
}

fn problem(status: u16, name: &str) -> Response {
    let body = json!({"type": format!("/problems/{name}"), "title": "A title", "status": status, "detail": "some detail"});
    (
        StatusCode::from_u16(status).unwrap(),
        [(header::RETRY_AFTER, "0")],
        axum::Json(body),
    )
        .into_response()
}

impl Fake {
    fn take(
        &self,
        events: &[Event],
        rejected: impl Fn(&Event) -> Option<&'static str>,
    ) -> Response {
        let (mut remembered, mut counted) = (self.remembered.lock(), self.counted.lock());
        let results: Vec<_> = events
            .iter()
            .map(|event| {
                if let Some(name) = rejected(event).filter(|_| !remembered.contains(&event.id)) {
                    let problem = json!({"type": format!("/problems/{name}"), "title": "A title", "detail": format!("of {}", event.member)});
                    return json!({"id": event.id, "status": "rejected", "problem": problem});
                }
                let is_new = remembered.insert(event.id.clone());
                if is_new {
                    *counted.entry(event.member.clone()).or_default() += 1;
                }
                let status = if is_new { "applied" } else { "duplicate" };
                json!({"id": event.id, "member": event.member, "status": status})
            })
            .collect();
        axum::Json(json!({"results": results})).into_response()
    }

    /// Makes the board forget the ids of the first rows: if they are sent again, they count again.
    fn forget(&self, rows: u64) {
        let number = |id: &str| id.rsplit('-').next().unwrap().parse::<u64>().unwrap();
        self.remembered.lock().retain(|id| number(id) > rows);
    }
}

/// The members and scores of events.
fn texts(events: &[Event]) -> Vec<(&str, &str)> {
    events
        .iter()
        .map(|event| (event.member.as_str(), event.score.0.as_str()))
        .collect()
}

fn line(place: Place) -> u64 {
    match place {
        Place::Line(line) => line,
        Place::Pair(pair) => panic!("pair {pair}"),
    }
}

/// The lines and details of the examples of a rejection.
fn examples(rejected: &Rejected) -> Vec<(u64, &str)> {
    rejected
        .examples
        .iter()
        .map(|example| (line(example.place), example.detail.as_str()))
        .collect()
}

fn rows(count: usize) -> String {
    let mut csv = "member,score\n".to_owned();
    for row in 1..=count {
        writeln!(csv, "m{row},{row}").unwrap();
    }
    csv
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn csv_values_are_sent_unchanged() {
    let scene = Scene::taking().await;
    scene.write(
        "a.csv",
        "\u{feff}id,carrier, score ,member,at,tail\n\
         e1,UA,12.50,\"Ann, \"\"the\"\" first\",2013-01-01T10:15:00Z,IAH\n\
         ,UA, 9007199254.740991 ,\u{1F600},,\n\
         e3,UA,-1e3,\"two\nlines\",\"2013-01-01T10:15:00+01:00\",\n",
    );
    let summary = scene.import("a.csv").await;
    assert_eq!(
        (
            summary.rows,
            summary.tally.applied,
            summary.tally.exit_status()
        ),
        (3, 3, 0)
    );
    let sent = scene.sent();
    let texts = texts(&sent);
    assert_eq!(
        texts,
        [
            ("Ann, \"the\" first", "12.50"),
            ("\u{1F600}", "9007199254.740991"),
            ("two\nlines", "-1e3")
        ]
    );
    assert_eq!((sent[0].id.as_str(), sent[2].id.as_str()), ("e1", "e3"));
    assert_eq!(sent[0].at.as_deref(), Some("2013-01-01T10:15:00Z"));
    assert_eq!(sent[1].at, None);
    assert!(
        sent[1].id.starts_with("import-") && sent[1].id.ends_with("-2"),
        "{}",
        sent[1].id
    );
    assert_eq!(sent[1].id.len(), "import-0123456789abcdef-2".len());
    assert!(sent.iter().all(|event| event.board == "b"));
    assert_eq!(
        scene.shown().matches("ignored: carrier, tail").count(),
        1,
        "{}",
        scene.shown()
    );
    assert_eq!(
        scene.fake.authorization.lock().as_deref(),
        Some("Bearer k1")
    );
    assert!(scene.record("a.csv").unwrap().is_finished);
}

#[tokio::test]
async fn data_is_sent_in_canonical_form() {
    for (name, text) in [
        (
            "a.csv",
            "member,score,data\n\
             a,1,\"{\"\"b\"\": 1.0, \"\"a\"\": [ ]}\"\n\
             b,1,\n\
             c,1,null\n\
             d,1,[1]\n\
             e,1,text\n",
        ),
        (
            "b.jsonl",
            r#"{"member":"a","score":1,"data":{"b": 1.0, "a": [ ]}}
{"member":"b","score":1}
{"member":"c","score":1,"data":null}
{"member":"d","score":1,"data":[1]}
{"member":"e","score":1,"data":"text"}"#,
        ),
    ] {
        let scene = Scene::taking().await;
        scene.write(name, text);
        let summary = scene.import(name).await;
        let data = scene.sent().into_iter().map(|event| event.data);
        let data: Vec<_> = data
            .map(|data| data.map(|RawValueText(text)| text))
            .collect();
        assert_eq!(data, [Some(r#"{"a":[],"b":1}"#.to_owned()), None, None]);
        let unreadable = &summary.tally.rejected["unreadable"];
        assert_eq!((summary.rows, unreadable.count), (5, 2));
        let (_, detail) = examples(unreadable)[0];
        assert_eq!(detail, "the data must be a JSON object");
        assert_eq!(scene.shown().matches("ignored").count(), 0);
    }
}

#[tokio::test]
async fn ndjson_values_are_sent_unchanged() {
    let scene = Scene::taking().await;
    let text = r#"{"id":"e1","board":"x","member":"a\"b\u00e9","score":12.50,"at":null,"more":{"score":[1]}}

{"score":9007199254.740991,"member":"c"}
{"member":7,"score":1}
{"member":"d","score":"1"}
{"member":"d"}
{"score":1}
[1]
{"member":"d","score":1} {}
{"member":"d","score":1,"score":2}
not json
{"member":"e","score":-0}"#;
    let mut content = gzip(&text[..40]);
    content.extend(gzip(&text[40..]));
    scene.write("events", content);
    let summary = scene.import("events").await;
    let sent = scene.sent();
    let texts = texts(&sent);
    assert_eq!(
        texts,
        [("a\"bé", "12.50"), ("c", "9007199254.740991"), ("e", "-0")]
    );
    assert!(
        sent[2].id.ends_with("-11"),
        "the number counts rows that can't be read: {}",
        sent[2].id
    );
    let unreadable = &summary.tally.rejected["unreadable"];
    assert_eq!(
        (summary.rows, unreadable.count, summary.tally.exit_status()),
        (11, 8, 2)
    );
    let examples = examples(unreadable);
    assert_eq!(
        examples,
        [
            (4, "member must be a string, not `7`"),
            (5, "the score \"1\" is not a number"),
            (6, "has no score"),
        ]
    );
    assert!(
        scene.shown().contains("ignored: board, more"),
        "{}",
        scene.shown()
    );
}

#[tokio::test]
async fn rows_have_the_origin_of_events() {
    let scene = Scene::taking().await;
    scene.write(
        "a.csv",
        "member,score,voter,channel,ip\na,1,v-1,web,203.0.113.7\nb,1,,,\n",
    );
    scene.write(
        "b.ndjson",
        r#"{"member": "c", "score": 1, "device": "d-1", "voter": "v-2"}"#,
    );
    for file in ["a.csv", "b.ndjson"] {
        let summary = scene.import(file).await;
        assert_eq!(summary.tally.exit_status(), 0);
    }
    let sent = scene.sent();
    let origins: Vec<_> = sent
        .iter()
        .map(|event| [&event.voter, &event.channel, &event.device, &event.ip].map(Option::as_deref))
        .collect();
    assert_eq!(
        origins,
        [
            [Some("v-1"), Some("web"), None, Some("203.0.113.7")],
            [None; 4],
            [Some("v-2"), None, Some("d-1"), None]
        ]
    );
}

#[tokio::test]
async fn bad_rows_are_named_by_line_and_stop_nothing() {
    let rows: [&[u8]; 9] = [
        b"member,score",
        b"a,1",
        b"",
        b"\"b\nb\",x",
        b"c",
        b",3",
        b"\xff,4",
        b"d,007",
        b"e,5",
    ];
    for (name, end) in [("unix.csv", &b"\n"[..]), ("windows.csv", &b"\r\n"[..])] {
        let scene = Scene::taking().await;
        scene.write(name, rows.join(end));
        let summary = scene
            .run(ImportArgs {
                batch: 2,
                ..scene.args(name)
            })
            .await
            .unwrap();
        let unreadable = &summary.tally.rejected["unreadable"];
        assert_eq!(
            (summary.rows, summary.tally.applied, unreadable.count),
            (7, 2, 5),
            "{name}"
        );
        let examples = examples(unreadable);
        assert_eq!(
            examples,
            [
                (4, "the score x is not a number"),
                (6, "has 1 fields, but the header has 2"),
                (7, "has no member")
            ],
            "{name}"
        );
    }
}

#[tokio::test]
async fn rejections_are_reported_by_kind_with_lines() {
    let scene = Scene::new(|_| Reply::RejectNegative).await;
    scene.write("a.csv", "member,score\na,1\nb,-2\n\nc,3\nd,-4");
    let summary = scene.import("a.csv").await;
    let text = summary.to_string();
    let expected = "score-out-of-range (A title): 2\n      line 3: of b\n      line 6: of d";
    assert!(text.contains(expected), "{text}");
    assert_eq!(summary.tally.exit_status(), 2);
}

#[tokio::test]
async fn a_refused_request_is_sent_again_with_the_same_ids() {
    let scene = Scene::new(|index| match index {
        0 => Reply::Refuse(503, "store-unavailable"),
        1 => Reply::Refuse(429, "quota-exceeded"),
        3 => Reply::RejectAll("internal"),
        4 => Reply::Refuse(408, "request-timeout"),
        _ => Reply::Take,
    })
    .await;
    scene.write("a.csv", rows(25));
    let summary = scene.import("a.csv").await;
    assert_eq!((summary.tally.applied, summary.tally.duplicate), (25, 0));
    scene.assert_counted_once(25);
    let requests = scene.fake.requests.lock();
    assert_eq!(
        (&requests[0], &requests[1]),
        (&requests[1], &requests[2]),
        "ids included"
    );
    assert_eq!(requests.len(), 7);
    let shown = scene.shown();
    assert!(
        shown.contains("returned 503 A title: some detail; trying again for "),
        "{shown}"
    );
    assert!(
        shown.contains("the service can be reached again"),
        "{shown}"
    );
}

#[tokio::test]
async fn rows_without_a_time_are_sent_one_request_at_a_time() {
    let scene = Scene::new(|index| match index % 5 {
        1 => Reply::Refuse(503, "store-unavailable"),
        3 => Reply::TakeAndLose,
        _ => Reply::Take,
    })
    .await;
    scene.write("a.csv", rows(200));
    scene.import("a.csv").await;
    scene.assert_counted_once(200);
    let mut requests = scene.fake.requests.lock().clone();
    // Each request repeats the one before, or has the rows after it.
    requests.dedup();
    let members = requests.iter().flatten().map(|event| event.member.clone());
    let expected = (1..=200).map(|row| format!("m{row}"));
    assert_eq!(members.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_lost_answer_does_not_count_twice() {
    let scene = Scene::with(1, Reply::TakeAndLose).await;
    scene.write("a.csv.gz", gzip(&rows(25)));
    let summary = scene.run(scene.one_by_one("a.csv.gz")).await.unwrap();
    let tally = &summary.tally;
    assert_eq!(
        (tally.applied, tally.duplicate, tally.duplicate_resent),
        (15, 10, 10)
    );
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn after_a_crash_the_import_resumes_after_acknowledged_rows() {
    let scene = Scene::with(200, Reply::TakeAndHang).await;
    scene.write("a.csv", rows(300));
    let args = ImportArgs {
        batch: 1,
        ..scene.args("a.csv")
    };
    scene.crash(args.clone()).await;
    let before = scene.record("a.csv").unwrap();
    assert!(
        before.rows >= 120,
        "it is written again while rows are acknowledged: {before:?}"
    );
    assert!(
        before.sent_rows >= 201,
        "no row is sent that the record doesn't allow for: {before:?}"
    );
    let first_run = scene.fake.requests.lock().len();

    // The ids of rows that the record has as acknowledged need not be remembered.
    scene.fake.forget(before.rows);
    let summary = scene.run(args).await.unwrap();
    scene.assert_counted_once(300);
    let requests = scene.fake.requests.lock()[first_run..].concat();
    let mut sent: Vec<u64> = requests
        .iter()
        .map(|event| event.score.0.parse().unwrap())
        .collect();
    sent.sort_unstable();
    // A request of the first run may arrive only now.
    sent.dedup();
    assert_eq!(sent, (before.rows + 1..=300).collect::<Vec<_>>());
    let tally = &summary.tally;
    assert_eq!(
        (
            summary.rows,
            summary.rows_before,
            tally.applied + tally.duplicate
        ),
        (300, before.rows, 300)
    );
    assert!(
        tally.duplicate > 0 && tally.duplicate == tally.duplicate_resent,
        "{tally:?}"
    );
    assert!(
        scene
            .shown()
            .contains(&format!("at row {}", before.rows + 1)),
        "{}",
        scene.shown()
    );
    assert!(scene.record("a.csv").unwrap().is_finished);
}

#[tokio::test]
async fn a_crash_in_the_first_request_is_remembered_too() {
    let scene = Scene::with(0, Reply::TakeAndHang).await;
    scene.write("a.csv", rows(25));
    scene.crash(scene.args("a.csv")).await;
    let record = scene.record("a.csv").unwrap();
    assert!(record.rows == 0 && record.sent_rows >= 10 && record.sent_since.is_some());
    assert_eq!(scene.import("a.csv").await.tally.duplicate, 10);
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn a_second_import_of_a_file_says_that_the_first_is_running() {
    let scene = Scene::with(0, Reply::TakeAndHang).await;
    scene.write("a.csv", rows(25));
    tokio::select! {
        ended = scene.import("a.csv") => panic!("it ended: {ended}"),
        message = async {
            scene.fake.hangs.notified().await;
            scene.fail("a.csv").await.to_string()
        } => assert!(message.contains("another import"), "{message}"),
    }
    assert_eq!(scene.import("a.csv").await.rows, 25);
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn rows_that_the_board_may_have_forgotten_are_not_resent() {
    let scene = Scene::with(1, Reply::TakeAndHang).await;
    scene.write("a.csv", rows(25));
    scene.crash(scene.one_by_one("a.csv")).await;
    let hour_ago = Timestamp::from_ms_clamped(now().ms() - 3_600_000);
    scene.change_record("a.csv", |record| record.sent_since = Some(hour_ago));
    let before = scene.record("a.csv");

    let first_run = scene.fake.requests.lock().len();
    let error = scene.fail("a.csv").await;
    let message = error.to_string();
    assert!(
        matches!(error, ImportError::TooOld { first_row: 1, .. }),
        "{message}"
    );
    assert!(
        message.contains("--resume-anyway") && message.contains("--restart"),
        "{message}"
    );
    assert_eq!(scene.fake.requests.lock().len(), first_run);
    assert_eq!(scene.record("a.csv"), before);

    // A board that remembers for longer has no such problem.
    *scene.fake.idempotency.lock() = "2h";
    assert_eq!(scene.import("a.csv").await.rows, 25);
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn the_time_of_possibly_sent_rows_survives_further_crashes() {
    let scene = Scene::new(|index| {
        if index < 3 {
            Reply::TakeAndHang
        } else {
            Reply::Take
        }
    })
    .await;
    scene.write("a.csv", rows(25));
    scene.crash(scene.args("a.csv")).await;
    let minute_ago = Timestamp::from_ms_clamped(now().ms() - 60_000);
    scene.change_record("a.csv", |record| {
        record.sent_since = Some(minute_ago);
    });
    scene.crash(scene.args("a.csv")).await;
    assert_eq!(scene.record("a.csv").unwrap().sent_since, Some(minute_ago));
    let args = ImportArgs {
        resume_anyway: true,
        ..scene.args("a.csv")
    };
    scene.crash(args).await;
    assert!(scene.record("a.csv").unwrap().sent_since > Some(minute_ago));
    assert_eq!(scene.import("a.csv").await.rows, 25);
}

#[tokio::test]
async fn a_request_is_not_resent_once_the_board_may_have_forgotten_it() {
    let scene = Scene::new(|_| Reply::TakeAndLose).await;
    *scene.fake.idempotency.lock() = "0s";
    scene.write("a.csv", rows(5));
    let error = scene.fail("a.csv").await;
    assert!(
        error
            .to_string()
            .starts_with("rows 1 to 5 may have been accepted"),
        "{error}"
    );
    scene.assert_counted_once(5);
    assert_eq!(scene.fake.requests.lock().len(), 1);
    let error = scene.fail("a.csv").await;
    assert!(matches!(error, ImportError::TooOld { .. }), "{error}");
}

#[tokio::test]
async fn a_recreated_board_is_noticed() {
    let scene = Scene::with(1, Reply::TakeAndHang).await;
    scene.write("a.csv", rows(25));
    scene.crash(scene.one_by_one("a.csv")).await;
    *scene.fake.version.lock() = "2-1";
    let error = scene.fail("a.csv").await;
    assert!(matches!(error, ImportError::BoardChanged { .. }), "{error}");
    scene.fake.remembered.lock().clear();
    scene.fake.counted.lock().clear();
    let summary = scene
        .run(ImportArgs {
            restart: true,
            ..scene.args("a.csv")
        })
        .await
        .unwrap();
    assert_eq!((summary.rows_before, summary.tally.applied), (0, 25));
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn an_outage_ends_the_import_which_resumes_later() {
    let mut scene = Scene::new(|index| match index {
        2..500 => Reply::Refuse(503, "store-unavailable"),
        _ => Reply::Take,
    })
    .await;
    scene.limits.outage_max = Duration::from_millis(50);
    scene.write("a.csv", rows(25));
    let args = scene.one_by_one("a.csv");
    let error = scene.run(args.clone()).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("gave up after 0 s without success: http://"),
        "{message}"
    );
    assert!(
        message.contains("20 rows are done. The same command resumes from there, until "),
        "{message}"
    );
    assert_eq!(scene.record("a.csv").unwrap().tally.applied, 20);

    let missing = 500 - scene.fake.requests.lock().len();
    scene.fake.requests.lock().extend(vec![Vec::new(); missing]);
    let summary = scene.run(args).await.unwrap();
    assert_eq!(
        (summary.rows, summary.rows_before, summary.tally.applied),
        (25, 20, 25)
    );
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn an_interrupted_import_waits_for_its_requests_and_can_resume_any_time() {
    let first = Arc::new(Notify::new());
    let arrived = Arc::clone(&first);
    let scene = Scene::new(move |_| {
        arrived.notify_one();
        Reply::Take
    })
    .await;
    scene.write("a.csv", rows(25));
    let args = ImportArgs {
        batch: 1,
        concurrency: 2,
        ..scene.args("a.csv")
    };
    let result = scene.run_until(args, first.notified()).await;
    let message = result.unwrap_err().to_string();
    assert!(
        message.starts_with("interrupted; ") && message.ends_with("resumes from there"),
        "{message}"
    );
    let record = scene.record("a.csv").unwrap();
    assert_eq!((record.sent_rows, record.sent_since), (record.rows, None));
    assert_eq!(
        record.rows,
        scene.sent().len() as u64,
        "every request was answered"
    );
    assert!(record.rows < 25);

    *scene.fake.idempotency.lock() = "0s";
    let summary = scene.import("a.csv").await;
    assert_eq!((summary.tally.applied, summary.tally.duplicate), (25, 0));
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn a_refused_import_gives_one_line_and_leaves_nothing() {
    for (status, name, expected) in [
        (401, "unauthenticated", "does not accept the API key (401)"),
        (
            403,
            "forbidden",
            "the API key is not allowed to send events (403): some detail",
        ),
        (404, "board-not-found", "there is no board b at http://"),
        (400, "malformed-json", ": 400 A title: some detail"),
        (301, "moved", ": 301 A title"),
    ] {
        let scene = Scene::new(move |_| Reply::Refuse(status, name)).await;
        scene.write("a.csv", rows(50));
        let error = scene.fail("a.csv").await;
        let message = error.to_string();
        assert!(
            message.contains(expected) && !message.contains('\n'),
            "{message}"
        );
        assert_eq!(scene.fake.requests.lock().len(), 1);
        assert!(scene.record("a.csv").is_none(), "nothing was taken");
    }
}

#[tokio::test]
async fn a_board_that_vanishes_ends_the_import() {
    let scene = Scene::new(|index| {
        if index == 0 {
            Reply::Take
        } else {
            Reply::RejectAll("board-not-found")
        }
    })
    .await;
    scene.write("a.csv", rows(25));
    let message = scene.fail("a.csv").await.to_string();
    assert!(
        message.starts_with("there is no board b at http://")
            && message.contains("10 rows are done"),
        "{message}"
    );
}

#[tokio::test]
async fn errors_known_from_the_start_are_reported_before_anything_is_sent() {
    let mut scene = Scene::taking().await;
    scene.write("a.csv", rows(5));
    let other = BoardId::parse("other").unwrap();
    let message = scene
        .run(ImportArgs {
            board: other,
            ..scene.args("a.csv")
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("there is no board other at http://"),
        "{message}"
    );

    scene.limits.first_contact_max = Duration::from_millis(5);
    let nobody = "http://127.0.0.1:1".to_owned();
    let message = scene
        .run(ImportArgs {
            service: ServiceArgs {
                url: nobody,
                api_key: None,
            },
            ..scene.args("a.csv")
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("can't reach http://127.0.0.1:1: ") && !message.contains('\n'),
        "{message}"
    );

    scene.limits.first_contact_max = scene.limits.outage_max;
    for (content, expected) in [
        ("", "line 1: the header has no column member"),
        (
            "member;score\na;1\n",
            "line 1: the header has no column member: member;score; columns are separated",
        ),
        (
            "member,value\na,1\n",
            "line 1: the header has no column score: member",
        ),
        (
            "member,score,member\na,1,b\n",
            "line 1: the header has member twice",
        ),
    ] {
        scene.write("bad.csv", content);
        let message = scene.fail("bad.csv").await.to_string();
        assert!(
            message.contains(expected) && !message.contains('\n'),
            "{message}"
        );
        assert!(scene.record("bad.csv").is_none());
    }
    assert!(scene.sent().is_empty());
}

#[tokio::test]
async fn an_unclosed_quote_does_not_load_the_whole_file() {
    let scene = Scene::taking().await;
    let mut csv = rows(12) + "\"open,1\n";
    csv += &"x,1\n".repeat(1 << 20);
    scene.write("a.csv", csv);
    let message = scene.fail("a.csv").await.to_string();
    assert!(
        message.contains("line 14: a row of more than 1 MiB begins here"),
        "{message}"
    );
    assert!(message.contains("12 rows are done"), "{message}");
    scene.assert_counted_once(12);
}

#[tokio::test]
async fn a_damaged_file_is_imported_up_to_the_damage() {
    let scene = Scene::taking().await;
    let mut content = gzip(&rows(12));
    content.extend(&gzip("more,1\n")[..12]);
    scene.write("a.csv.gz", content);
    let error = scene.fail("a.csv.gz").await;
    let message = error.to_string();
    assert!(message.contains("a.csv.gz, line 14: "), "{message}");
    assert!(message.contains("12 rows are done"), "{message}");
    scene.assert_counted_once(12);
}

#[tokio::test]
async fn long_rows_are_not_sent_and_large_bodies_are_split() {
    let scene = Scene::taking().await;
    let mut text = String::new();
    for row in 0..60 {
        writeln!(
            text,
            "{{\"member\":\"m{row}\",\"score\":1,\"at\":\"{}\"}}",
            "x".repeat(60_000)
        )
        .unwrap();
    }
    writeln!(
        text,
        "{{\"member\":\"{}\",\"score\":1}}",
        "y".repeat(70_000)
    )
    .unwrap();
    writeln!(
        text,
        "{{\"member\":\"{}\",\"score\":1}}",
        "z".repeat(2 << 20)
    )
    .unwrap();
    text += "{\"member\":\"last\",\"score\":1}";
    scene.write("a.jsonl", text);
    let summary = scene
        .run(ImportArgs {
            batch: 1_000,
            ..scene.args("a.jsonl")
        })
        .await
        .unwrap();
    assert_eq!((summary.rows, summary.tally.applied), (63, 61));
    let lines: Vec<_> = summary.tally.rejected["unreadable"]
        .examples
        .iter()
        .map(|row| line(row.place))
        .collect();
    assert_eq!(lines, [61, 62]);
    assert_eq!(scene.fake.requests.lock().len(), 4, "none is over 1 MiB");
}

#[tokio::test]
async fn ids_are_equal_for_equal_files_only() {
    let scene = Scene::taking().await;
    scene.write("a.csv", rows(5));
    scene.write("copy.csv", rows(5));
    scene.write("other.csv", rows(5).replace("m3", "M3"));
    assert_eq!(scene.import("a.csv").await.tally.applied, 5);
    assert_eq!(scene.import("copy.csv").await.tally.duplicate, 5);
    assert_eq!(scene.import("other.csv").await.tally.applied, 5);
}

/// Has the board forget what was imported.
fn hours_ago(scene: &Scene, name: &str) {
    let begun = Timestamp::from_ms_clamped(now().ms() - 7_200_000);
    scene.change_record(name, |record| record.begun = Some(begun));
    scene.fake.remembered.lock().clear();
}

#[tokio::test]
async fn a_finished_import_is_refused_once_its_ids_are_forgotten() {
    let scene = Scene::taking().await;
    scene.write("a.csv", rows(25));
    scene.import("a.csv").await;

    // While the board remembers the ids, it does no harm.
    let summary = scene.import("a.csv").await;
    assert_eq!((summary.tally.applied, summary.tally.duplicate), (0, 25));
    let shown = scene.shown();
    assert!(shown.contains("25 rows were already imported"), "{shown}");

    hours_ago(&scene, "a.csv");
    let (sent, before) = (scene.sent().len(), scene.record("a.csv"));
    for resume_anyway in [false, true] {
        let rejects = scene.folder.path().join("rejects.csv");
        let args = ImportArgs {
            resume_anyway,
            rejects: Some(rejects.clone()),
            ..scene.args("a.csv")
        };
        let error = scene.run(args).await.unwrap_err();
        assert!(!rejects.exists());
        let message = error.to_string();
        assert!(
            message.starts_with("this file was imported into board b at 20"),
            "{message}"
        );
        assert!(
            message.contains("its 25 rows would count again") && message.contains("--restart"),
            "{message}"
        );
        assert_eq!(scene.record("a.csv"), before);
    }
    // Ids follow from the whole file, so a file that has grown is refused at any time.
    scene.change_record("a.csv", |record| record.begun = Some(now()));
    scene.write("a.csv", rows(30));
    let error = scene.fail("a.csv").await;
    let message = error.to_string();
    assert!(
        message.starts_with("the beginning of this file was imported into board b"),
        "{message}"
    );
    assert!(message.contains("because the file has grown"), "{message}");
    assert_eq!(scene.sent().len(), sent, "nothing was sent");

    // Another definition of the board changes nothing; another board of the same name does.
    *scene.fake.version.lock() = "1-2";
    scene.fail("a.csv").await;
    *scene.fake.version.lock() = "2-1";
    scene.fake.counted.lock().clear();
    scene.import("a.csv").await;
    scene.assert_counted_once(30);
    // A file with other content is another file.
    scene.write("a.csv", rows(7).replace("m3", "M3"));
    assert_eq!(scene.import("a.csv").await.tally.applied, 7);
}

#[tokio::test]
async fn a_file_can_be_imported_again_on_purpose() {
    let scene = Scene::taking().await;
    scene.write("a.csv", rows(25));
    scene.import("a.csv").await;
    hours_ago(&scene, "a.csv");
    let args = ImportArgs {
        restart: true,
        ..scene.args("a.csv")
    };
    let summary = scene.run(args).await.unwrap();
    assert_eq!(summary.tally.applied, 25);
    // From then on the new ids count.
    let summary = scene.import("a.csv").await;
    assert_eq!(summary.tally.duplicate, 25);
}

#[tokio::test]
async fn a_repeated_import_ends_when_ids_begin_to_be_forgotten() {
    let scene = Scene::with(4, Reply::TakeAndHang).await;
    scene.write("a.csv", rows(25));
    scene.import("a.csv").await;
    scene.crash(scene.args("a.csv")).await;
    let record = scene.record("a.csv").unwrap();
    assert!(record.begun.is_some() && record.sent_since == record.begun);
    *scene.fake.idempotency.lock() = "0s";
    let error = scene.fail("a.csv").await;
    assert!(matches!(error, ImportError::TooOld { .. }), "{error}");
}

#[tokio::test]
async fn rejected_rows_can_be_fixed_and_imported_alone() {
    for (name, content, expected, mended) in [
        (
            "a.csv",
            "Score,note,MEMBER\n1,x,a\n-2,\"y,z\",b\n3\n4,,d\n",
            "rejection,Score,note,MEMBER\n\
             line 3: score-out-of-range: of b,-2,\"y,z\",b\n\
             \"line 4: unreadable: has 1 fields, but the header has 3\",3\n",
            "rejection,Score,note,MEMBER\nx,2,\"y,z\",b\nx,3,,c\n",
        ),
        (
            "a.jsonl",
            "{\"score\":1,\"member\":\"a\"}\n{ \"score\": -2, \"member\": \"b\", \"note\": [1]}\nc\n{\"score\":4,\"member\":\"d\"}",
            "{\"rejection\":\"line 2: score-out-of-range: of b\",\"score\": -2, \"member\": \"b\", \"note\": [1]}\n\
             {\"rejection\":\"line 3: unreadable: column 1: expected value\",\"text\":\"c\"}\n",
            "{\"rejection\":\"\",\"score\": 2, \"member\": \"b\"}\n{\"member\":\"c\",\"score\":3}\n",
        ),
    ] {
        let scene = Scene::new(|_| Reply::RejectNegative).await;
        scene.write(name, content);
        let rejects = format!("rejects-{name}");
        let args = ImportArgs {
            rejects: Some(scene.folder.path().join(&rejects)),
            ..scene.args(name)
        };
        let summary = scene.run(args.clone()).await.unwrap();
        assert_eq!((summary.tally.applied, summary.tally.exit_status()), (2, 2));
        let text = summary.to_string();
        assert!(text.contains("2  (all in "), "{text}");
        let written = std::fs::read_to_string(scene.folder.path().join(&rejects)).unwrap();
        assert_eq!(written, expected);

        // It is not written over.
        let message = scene.run(args).await.unwrap_err().to_string();
        assert!(message.contains("exists already"), "{message}");

        scene.write(&rejects, mended);
        let summary = scene.import(&rejects).await;
        assert_eq!((summary.tally.applied, summary.tally.exit_status()), (2, 0));
        scene.assert_counted_once(4);
    }
}

#[tokio::test]
async fn without_rejected_rows_there_is_no_file() {
    let scene = Scene::with(0, Reply::Refuse(400, "malformed-json")).await;
    let rejects = scene.folder.path().join("rejects.csv");
    let args = |name| ImportArgs {
        rejects: Some(rejects.clone()),
        ..scene.args(name)
    };
    // The first batch has nothing to send, and the second one is refused as a whole.
    scene.write(
        "a.csv",
        "member,score\n".to_owned() + &"x\n".repeat(10) + "a,1\n",
    );
    scene.run(args("a.csv")).await.unwrap_err();
    assert!(
        !rejects.exists(),
        "an import that has done nothing leaves nothing"
    );
    scene.write("b.csv", rows(5));
    scene.run(args("b.csv")).await.unwrap();
    assert!(!rejects.exists());

    let missing = scene.folder.path().join("missing/rejects.csv");
    let args = ImportArgs {
        rejects: Some(missing),
        ..scene.args("a.csv")
    };
    let message = scene.run(args).await.unwrap_err().to_string();
    assert!(
        message.starts_with("can't write the rejected rows to "),
        "{message}"
    );
}

#[tokio::test]
async fn no_rejected_row_is_lost_or_repeated_after_crashes() {
    let scene = Scene::new(|index| {
        if [40, 100, 180].contains(&index) {
            Reply::TakeAndHang
        } else {
            Reply::RejectNegative
        }
    })
    .await;
    let mut csv = "member,score\n".to_owned();
    for row in 1..=300 {
        let sign = if row % 3 == 0 { "-" } else { "" };
        writeln!(csv, "m{row},{sign}{row}").unwrap();
    }
    scene.write("a.csv", csv);
    let rejects = scene.folder.path().join("rejects.csv");
    let args = ImportArgs {
        batch: 1,
        concurrency: 1,
        rejects: Some(rejects.clone()),
        ..scene.args("a.csv")
    };
    for _ in 0..3 {
        scene.crash(args.clone()).await;
    }
    // Only the same import can be resumed.
    let other = ImportArgs {
        rejects: None,
        ..args.clone()
    };
    let error = scene.run(other).await.unwrap_err();
    let is_other = matches!(error, ImportError::OtherRecord(..));
    assert!(is_other, "{error}");
    let summary = scene.run(args).await.unwrap();
    let written = std::fs::read_to_string(rejects).unwrap();
    let lines: Vec<_> = written.lines().skip(1).collect();
    let expected: Vec<_> = (1..=300)
        .filter(|row| row % 3 == 0)
        // The service takes the events of a request that hangs.
        .filter(|row| !scene.fake.counted.lock().contains_key(&format!("m{row}")))
        .map(|row| {
            let line = row + 1;
            format!("line {line}: score-out-of-range: of m{row},m{row},-{row}")
        })
        .collect();
    assert_eq!(lines, expected);
    assert!(written.starts_with("rejection,member,score\n"), "{written}");
    assert!(lines.len() >= 97, "{}", lines.len());
    assert_eq!(
        summary.tally.rejected_count(),
        lines.len() as u64,
        "the summary says the same"
    );
}

#[tokio::test]
async fn no_control_character_of_a_file_reaches_the_terminal() {
    let scene = Scene::taking().await;
    for (name, content) in [
        ("a.csv", "member,score,\u{1b}[31m\u{202e}\na,1\u{1b}[2J,\n"),
        (
            "b.jsonl",
            "{\"member\":\"a\",\"score\":1,\"\\u001b[2J\":1}\n{\"\\u009b\":1,\"score\":\"\\u001b\"}",
        ),
    ] {
        scene.write(name, content);
        let shown = scene.import(name).await.to_string();
        for text in [shown, scene.shown()] {
            let is_plain = |char: char| char == '\n' || !(char.is_control() || char == '\u{202e}');
            assert!(text.chars().all(is_plain), "{text:?}");
        }
    }
    scene.write("c.csv", "a\u{1b}b,c\nd,e");
    let error = scene.fail("c.csv").await;
    let message = printable(&error.to_string());
    assert!(message.ends_with("no column member: a b, c"), "{message}");
}

fn columns(names: &[&str]) -> Vec<ColumnName> {
    names
        .iter()
        .map(|name| ColumnName::parse(name).unwrap())
        .collect()
}

#[tokio::test]
async fn columns_can_have_other_names() {
    for (name, content) in [
        (
            "a.csv",
            "member,Player,points,score,when\nx,ann,5,7,2025-06-01T12:00:00Z\n",
        ),
        (
            "b.ndjson",
            r#"{"member":"x","Player":"ann","points":5,"score":7,"when":"2025-06-01T12:00:00Z"}"#,
        ),
    ] {
        let scene = Scene::taking().await;
        scene.write(name, content);
        let args = ImportArgs {
            columns: columns(&["member=Player", "score=points", "at=when"]),
            ..scene.args(name)
        };
        scene.run(args.clone()).await.unwrap();
        let sent = scene.sent();
        assert_eq!(texts(&sent), [("ann", "5")]);
        assert_eq!(sent[0].at.as_deref(), Some("2025-06-01T12:00:00Z"));
        assert!(
            scene
                .shown()
                .contains("ignored: member, score (known fields: id, Player, points, when,"),
            "{}",
            scene.shown()
        );

        // With other options the rows might count again.
        let refused = scene.fail(name).await.to_string();
        assert!(refused.contains("read with other options"), "{refused}");
        let args = ImportArgs {
            columns: columns(&["member=Player", "member=x"]),
            ..args
        };
        let refused = scene.run(args).await.unwrap_err().to_string();
        assert_eq!(refused, "--columns has member twice");
        assert_eq!(scene.sent().len(), 1);
    }
    // A field may have the name that is another one's elsewhere.
    let scene = Scene::taking().await;
    scene.write("ids.csv", "id,score\nann,1\n");
    let args = ImportArgs {
        columns: columns(&["member=id"]),
        ..scene.args("ids.csv")
    };
    scene.run(args).await.unwrap();
    assert_eq!(texts(&scene.sent()), [("ann", "1")]);

    let scene = Scene::taking().await;
    scene.write("a.csv", "member,score\na,1\n");
    let args = ImportArgs {
        columns: columns(&["score=points", "name=score"]),
        profiles: true,
        ..scene.args("a.csv")
    };
    let refused = scene.run(args).await.unwrap_err().to_string();
    assert!(
        refused.contains("the header has no column points"),
        "{refused}"
    );
    let args = ImportArgs {
        columns: columns(&["voter=user"]),
        ..scene.args("a.csv")
    };
    let refused = scene.run(args).await.unwrap_err().to_string();
    assert!(
        refused.ends_with("line 1: the header has no column user: member, score"),
        "{refused}"
    );
    assert!(scene.sent().is_empty() && scene.record("a.csv").is_none());
}

#[tokio::test]
async fn an_import_is_resumed_with_the_same_options_only() {
    let scene = Scene::with(1, Reply::TakeAndHang).await;
    scene.write("a.csv", rows(25));
    let args = ImportArgs {
        at: Timestamp::parse("2020-01-01T00:00:00Z").ok(),
        concurrency: 1,
        ..scene.args("a.csv")
    };
    scene.crash(args.clone()).await;
    let refused = scene.fail("a.csv").await.to_string();
    assert!(
        refused.contains("another import (with --at 2020-01-01T00:00:00.000Z)"),
        "{refused}"
    );
    scene.run(args).await.unwrap();
    scene.assert_counted_once(25);
}

#[tokio::test]
async fn rows_without_a_time_can_get_one_in_the_order_of_the_file() {
    let scene = Scene::taking().await;
    scene.write(
        "a.csv",
        "member,score,at\na,1,\nb,x,\nc,1,2025-06-01T12:00:00Z\nd,1,\n",
    );
    let args = ImportArgs {
        at: Timestamp::parse("2020-01-01T00:00:00Z").ok(),
        ..scene.args("a.csv")
    };
    scene.run(args.clone()).await.unwrap();
    let times: Vec<_> = scene
        .sent()
        .into_iter()
        .map(|event| event.at.unwrap())
        .collect();
    assert_eq!(
        times,
        [
            "2020-01-01T00:00:00.000Z",
            "2025-06-01T12:00:00Z",
            "2020-01-01T00:00:00.000003Z"
        ]
    );
    let args = ImportArgs {
        at: Some(Timestamp::MAX),
        restart: true,
        ..args
    };
    let summary = scene.run(args).await.unwrap();
    let (line, detail) = examples(&summary.tally.rejected["unreadable"])[1];
    assert!(
        line == 5 && detail.starts_with("its time must be between 1900"),
        "{detail}"
    );
}

#[tokio::test]
async fn what_redis_cli_prints_can_be_imported() {
    for (format, name, content, places) in [
        (
            Format::RedisCsv,
            "zset.csv",
            "\"a \\\"b\\\"\",\"0.10000000000000001\",\"\\xc3\\xa9\",\"1e+20\",\"c\",\"inf\",\"\\xff\",\"1\"\n",
            ["pair 3", "pair 4"],
        ),
        (
            Format::RedisLines,
            "zset.txt",
            "a \"b\"\n0.10000000000000001\n\u{e9}\n1e+20\nc\ninf\n\n1\n",
            ["line 5", "line 7"],
        ),
    ] {
        let scene = Scene::taking().await;
        scene.write(name, content);
        let args = ImportArgs {
            format: Some(format),
            rejects: Some(scene.folder.path().join("rejects.csv")),
            ..scene.args(name)
        };
        let summary = scene.run(args.clone()).await.unwrap();
        let sent = scene.sent();
        assert_eq!(
            texts(&sent),
            [("a \"b\"", "0.1"), ("\u{e9}", "100000000000000000000")]
        );
        let examples = &summary.tally.rejected["unreadable"].examples;
        let shown: Vec<_> = examples.iter().map(|row| row.place.to_string()).collect();
        assert_eq!(shown, places);
        assert_eq!(scene.record(name).unwrap().tally, summary.tally);
        let rejects = std::fs::read(scene.folder.path().join("rejects.csv")).unwrap();
        let rejects = String::from_utf8_lossy(&rejects);
        let expected = format!(
            "rejection,member,score\n{}: unreadable: the score inf is not finite,c,inf\n",
            places[0]
        );
        assert!(rejects.starts_with(&expected), "{rejects}");
        let args = ImportArgs {
            profiles: true,
            ..args
        };
        let refused = scene.run(args).await.unwrap_err();
        assert!(matches!(refused, ImportError::Options(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_long_line_of_redis_cli_is_no_long_row() {
    let scene = Scene::taking().await;
    let pairs: Vec<_> = (1..=60_000)
        .map(|pair| format!("\"member-{pair}\",\"{pair}\""))
        .collect();
    let text = pairs.join(",");
    assert!(text.len() > rows::ROW_BYTES_MAX);
    scene.write("zset", text);
    let args = ImportArgs {
        format: Some(Format::RedisCsv),
        batch: 1_000,
        ..scene.args("zset")
    };
    assert_eq!(scene.run(args).await.unwrap().tally.applied, 60_000);
    scene.assert_counted_once(60_000);
}

#[tokio::test]
async fn a_file_of_redis_cli_in_disorder_is_read_no_further() {
    for (content, expected) in [
        (
            "a\n1\nb\nc\n2\nd\n",
            "line 3: has a member b with the score c, which is not a number. If a member contains a line break",
        ),
        (
            "a\n1\nb\n",
            "line 3: has a member b without a score: was the file cut off?",
        ),
        (
            "a\n1\nb\n2\r\n",
            "line 3: has a member b with the score 2 , which",
        ),
    ] {
        let scene = Scene::taking().await;
        scene.write("zset.txt", content);
        let args = ImportArgs {
            format: Some(Format::RedisLines),
            ..scene.args("zset.txt")
        };
        let message = scene.run(args).await.unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains("1 rows are done"),
            "{message}"
        );
        assert_eq!(texts(&scene.sent()), [("a", "1")]);
    }
}

#[tokio::test]
async fn profiles_are_sent_with_events() {
    for (name, content) in [
        (
            "a.csv",
            "member,score,name,avatar_url,attributes\n\
             a,1,Ann,https://img/a.png,\"{\"\"x\"\": 1}\"\n\
             b,2,,,\n\
             c,,Cid,,\n\
             d,,,,\n\
             e,1,Eve,,[1]\n",
        ),
        (
            "b.jsonl",
            r#"{"member":"a","score":1,"name":"Ann","avatar_url":"https://img/a.png","attributes":{"x": 1}}
{"member":"b","score":2,"name":null}
{"member":"c","name":"Cid","attributes":null}
{"member":"d"}
{"member":"e","score":1,"name":"Eve","attributes":[1]}"#,
        ),
    ] {
        let scene = Scene::taking().await;
        scene.write(name, content);
        let args = ImportArgs {
            profiles: true,
            ..scene.args(name)
        };
        let summary = scene.run(args).await.unwrap();
        assert_eq!(texts(&scene.sent()), [("a", "1"), ("b", "2")]);
        assert_eq!(
            scene.profiles(),
            [
                json!({"member": "a", "name": "Ann", "avatar_url": "https://img/a.png", "attributes": {"x": 1}}),
                json!({"member": "c", "name": "Cid"}),
            ]
        );
        let details: Vec<_> = examples(&summary.tally.rejected["unreadable"])
            .into_iter()
            .map(|(_, detail)| detail)
            .collect();
        assert_eq!(
            details,
            [
                "has neither a score nor a name",
                "the attributes must be a JSON object"
            ]
        );
        let text = summary.to_string();
        assert!(
            text.contains("\n  applied               2\n")
                && text.contains("\n  profiles              2\n"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn no_event_counts_if_the_key_may_not_write_profiles() {
    let scene = Scene::taking().await;
    *scene.fake.takes_profiles.lock() = false;
    scene.write("a.csv", "member,score,name\na,1,Ann\n");
    let args = ImportArgs {
        profiles: true,
        ..scene.args("a.csv")
    };
    let refused = scene.run(args).await.unwrap_err().to_string();
    assert!(
        refused.contains("is not allowed to send events and profiles (403)"),
        "{refused}"
    );
    assert!(scene.sent().is_empty() && scene.record("a.csv").is_none());
}

#[tokio::test]
async fn a_file_can_have_profiles_alone() {
    let scene = Scene::taking().await;
    scene.write("a.csv", "member,name\na,Ann\na,Anna\n");
    let args = ImportArgs {
        profiles: true,
        batch: 1,
        ..scene.args("a.csv")
    };
    for _ in 0..2 {
        let summary = scene.run(args.clone()).await.unwrap();
        assert_eq!(
            (summary.tally.profiles, summary.tally.exit_status()),
            (2, 0)
        );
        // Nothing counts twice, so it can be repeated at any time.
        let begun = Timestamp::from_ms_clamped(now().ms() - 7_200_000);
        scene.change_record("a.csv", |record| record.begun = Some(begun));
    }
    assert!(scene.sent().is_empty());
    let names: Vec<_> = scene
        .profiles()
        .iter()
        .map(|profile| profile["name"].clone())
        .collect();
    assert_eq!(
        names,
        ["Ann", "Anna", "Ann", "Anna"],
        "in the order of the file"
    );
}

#[tokio::test]
async fn an_event_whose_profile_was_rejected_does_not_count_again() {
    for (name, content, expected) in [
        (
            "a.csv",
            "member,points,name\na,1,bad\nb,-1,Bob\nc,-1,bad\nd,1,Dan\n",
            "rejection,member,points,name\n\
             line 2: validation-failed: profile: /name: is bad,a,,bad\n\
             line 3: score-out-of-range: of b,b,-1,Bob\n\
             line 4: score-out-of-range: of c; profile: /name: is bad,c,-1,bad\n",
        ),
        (
            "b.jsonl",
            "{\"member\":\"a\",\"points\":1,\"name\":\"bad\"}\n{\"member\":\"b\",\"points\":-1,\"name\":\"Bob\"}\n\
             {\"member\":\"c\",\"points\":-1,\"name\":\"bad\"}\n{\"member\":\"d\",\"points\":1,\"name\":\"Dan\"}\n",
            "{\"rejection\":\"line 1: validation-failed: profile: /name: is bad\",\"member\":\"a\",\"name\":\"bad\"}\n\
             {\"rejection\":\"line 2: score-out-of-range: of b\",\"member\":\"b\",\"points\":-1,\"name\":\"Bob\"}\n\
             {\"rejection\":\"line 3: score-out-of-range: of c; profile: /name: is bad\",\"member\":\"c\",\"points\":-1,\"name\":\"bad\"}\n",
        ),
    ] {
        let scene = Scene::new(|_| Reply::RejectNegative).await;
        scene.write(name, content);
        let rejects = format!("rejects-{name}");
        let args = ImportArgs {
            profiles: true,
            columns: columns(&["score=points"]),
            rejects: Some(scene.folder.path().join(&rejects)),
            ..scene.args(name)
        };
        let summary = scene.run(args.clone()).await.unwrap();
        let tally = &summary.tally;
        assert_eq!(
            (tally.applied, tally.profiles, tally.rejected_count()),
            (2, 2, 3)
        );
        let written = std::fs::read_to_string(scene.folder.path().join(&rejects)).unwrap();
        assert_eq!(written, expected);

        scene.write(
            &rejects,
            written
                .replace("bad\",", "\",")
                .replace("\"bad\"", "\"Good\"")
                .replace(",bad", ",Good")
                .replace("-1", "1"),
        );
        let args = ImportArgs {
            file: Some(scene.folder.path().join(&rejects)),
            rejects: None,
            ..args
        };
        let summary = scene.run(args).await.unwrap();
        assert_eq!((summary.tally.applied, summary.tally.exit_status()), (2, 0));
        scene.assert_counted_once(4);
    }
}

#[tokio::test]
async fn an_export_is_read_back() {
    for (name, content) in [
        (
            "a.csv",
            "\u{feff}rank,member,score,reached_at,name,avatar_url,attributes\n\
             1,'=cid,5,2026-11-20T10:00:00.000001Z,'@Cid,https://img/c.png,\"{\"\"x\"\":1}\"\n\
             2,,4,2026-11-20T10:00:00.000Z,,,\n\
             3,''x,-1.5,,,,\n",
        ),
        (
            "b.ndjson",
            r#"{"rank":1,"member":"=cid","score":5,"reached_at":"2026-11-20T10:00:00.000001Z","profile":{"name":"@Cid","avatar_url":"https://img/c.png","attributes":{"x":1}}}
{"rank":2,"member":null,"score":4,"reached_at":"2026-11-20T10:00:00.000Z","profile":null}
{"rank":3,"member":"'x","score":-1.5,"profile":null}"#,
        ),
    ] {
        let scene = Scene::taking().await;
        scene.write(name, content);
        let args = ImportArgs {
            from_export: true,
            profiles: true,
            ..scene.args(name)
        };
        let summary = scene.run(args).await.unwrap();
        let sent = scene.sent();
        assert_eq!(texts(&sent), [("=cid", "5"), ("'x", "-1.5")]);
        let times: Vec<_> = sent.iter().map(|event| event.at.as_deref()).collect();
        assert_eq!(times, [Some("2026-11-20T10:00:00.000001Z"), None]);
        assert_eq!(
            scene.profiles(),
            [
                json!({"member": "=cid", "name": "@Cid", "avatar_url": "https://img/c.png", "attributes": {"x": 1}})
            ]
        );
        let text = summary.to_string();
        assert!(
            text.contains("\n  skipped               1  (erased members)\n"),
            "{text}"
        );
        assert_eq!((summary.rows, summary.tally.exit_status()), (3, 0));
    }
    let scene = Scene::taking().await;
    scene.write("b.csv", "rank,member,score,reached_at\n1,a,1,\n");
    scene.import("b.csv").await;
    assert!(
        scene.shown().contains("Then add --from-export"),
        "{}",
        scene.shown()
    );
    scene.write(
        "h.csv",
        "rank,member,score,reached_at,hidden\n1,a,1,,true\n",
    );
    let args = ImportArgs {
        from_export: true,
        ..scene.args("h.csv")
    };
    scene.run(args).await.unwrap();
    let notice = "; members that were hidden are visible here unless you hide them";
    assert!(scene.shown().contains(notice), "{}", scene.shown());
    scene.write("a.csv", "member,score\n'a,1\n");
    let args = ImportArgs {
        from_export: true,
        ..scene.args("a.csv")
    };
    let refused = scene.run(args).await.unwrap_err().to_string();
    assert!(
        refused.contains("no column rank") && refused.ends_with("is it an export?"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_dry_run_says_what_would_happen_and_sends_nothing() {
    let scene = Scene::taking().await;
    scene.write(
        "a.csv",
        "member,score,at,name\n\
         a,1,2025-06-01T12:00:00Z,Ann\n\
         a,2,2025-06-02T12:00:00Z,\n\
         b,0.5,2025-06-01T12:00:00Z,\n\
         c,-1,2025-06-01T12:00:00Z,\n\
         d,1,2020-06-01T12:00:00Z,\n\
         e,1,,a\u{202e}b\n\
         ,1,,\n",
    );
    *scene.fake.definition.lock() = Some(json!({
        "board": "b", "windows": ["day", "all"], "accept_late": "any", "score_min": 0, "opens_at": "2021-01-01T00:00:00Z"
    }));
    let text = scene.dry_run("a.csv").await;
    let begin = "7 rows; nothing was sent\n  events                3\n  profiles              1\n  rejected              5";
    assert!(text.starts_with(begin), "{text}");
    for expected in [
        "\n    board-closed (",
        "\n      line 6: board b accepts events",
        "\n    score-out-of-range (",
        "\n      line 4: score 0.5 has more decimals (1) than the board keeps (0)",
        "\n      line 5: score -1 is below this board's minimum, 0",
        "\n    unreadable (Row can't be read): 1\n      line 8: has no member",
        "\n      line 7: profile: /name: ",
        "\nTimes: 2025-06-01T12:00:00.000Z to 2025-06-02T12:00:00.000Z\n1 events have no time",
        "\nMembers: about 2\nMemory in Redis: about 1.51 KiB, for 5 entries of standings and 3 event ids",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    *scene.fake.definition.lock() = None;
    let text = scene.dry_run("a.csv").await;
    assert!(text.contains("  events                6\n"), "{text}");
    assert!(
        text.ends_with("needs a key with the scope `configure`"),
        "{text}"
    );
    assert!(scene.sent().is_empty() && scene.profiles().is_empty());
    assert_eq!(std::fs::read_dir(scene.folder.path()).unwrap().count(), 1);
}

#[test]
fn the_help_names_every_field() {
    for field in FIELDS {
        assert!(help().contains(&format!(" {field}")), "{field}");
    }
}

#[test]
fn the_arguments_are_bounded_and_keep_the_key_secret() {
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        import: ImportArgs,
    }

    let parse = |more: &[&str]| {
        Cli::try_parse_from(
            [
                &["standings", "a.csv", "--board", "b", "--api-key", "hush"],
                more,
            ]
            .concat(),
        )
    };
    let args = parse(&["--columns", "member=player,score=points"]).unwrap();
    assert_eq!(args.import.columns.len(), 2);
    assert!(!format!("{args:?}").contains("hush"));
    assert_eq!((args.import.batch, args.import.concurrency), (1_000, 4));
    for bad in [
        ["--batch", "0"],
        ["--batch", "1001"],
        ["--concurrency", "65"],
        ["--board", "a/b"],
        ["--format", "xml"],
        ["--columns", "a=b"],
        ["--at", "yesterday"],
    ] {
        assert!(parse(&bad).is_err(), "{bad:?}");
    }
    assert_eq!(
        usize::try_from(BATCH_ROWS_MAX),
        Ok(crate::events::work::BATCH_MAX)
    );
}
