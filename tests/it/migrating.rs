//! Members of another program's sorted sets come over to a board, in the same order, while that program goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use reqwest::Url;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::program::{Program, without_settings};
use crate::harness::random::Random;
use crate::harness::servers::RedisServers;
use crate::harness::{Client, RedisServer};

/// Adds `ARGV[1]` members to a sorted set, with scores from 0 to `ARGV[2]`, so that many are equal.
const FILL: &str = "for number = 1, ARGV[1] do \
    redis.call('ZADD', KEYS[1], number * 7919 % (ARGV[2] + 1), 'player:' .. number) end";

/// A service, and the Redis of another program.
struct Scene {
    program: Program,
    client: Client,
    source: RedisServer,
    _data: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let data = TempDir::new().unwrap();
        let program = Program::serve(data.path()).await;
        Self {
            client: program.client(),
            program,
            source: RedisServer::start().await,
            _data: data,
        }
    }

    async fn fill(&self, key: &str, members: usize, scores: usize) {
        let (members, scores) = (members.to_string(), scores.to_string());
        let call = ["EVAL", FILL, "1", key, &members, &scores];
        self.source_command(&call).await;
    }

    async fn source_command(&self, words: &[&str]) -> crate::harness::redis::Reply {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.source.run(&words).await
    }

    /// Runs a command for a board; returns its exit status and what it says.
    async fn run(&self, command: &str, board: &str, args: &[&str]) -> (i32, String) {
        run_from(&self.source.url(), &self.client, command, board, args).await
    }

    /// The ids of a standing, in order.
    async fn ids(&self, path: &str) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let page = format!("{path}&page={}&size=200", 1 + ids.len() / 200);
            let page = self.client.get(&page).await.expect(200);
            let entries = page["entries"].as_array().unwrap();
            ids.extend(
                entries
                    .iter()
                    .map(|entry| entry["member"].as_str().unwrap().to_owned()),
            );
            if entries.len() < 200 {
                return ids;
            }
        }
    }

    async fn source_ids(&self, range: &str, key: &str) -> Vec<String> {
        let reply = self.source_command(&[range, key, "0", "-1"]).await;
        reply
            .list()
            .iter()
            .map(crate::harness::redis::Reply::text)
            .collect()
    }
}

async fn run_from(
    source: &str,
    client: &Client,
    command: &str,
    board: &str,
    args: &[&str],
) -> (i32, String) {
    let output = without_settings(&[command, "--from-redis", source, "--board", board])
        .args(["--url", &client.base])
        .args(args)
        .output()
        .await
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_scores_keep_the_order_that_they_had() {
    let scene = Scene::new().await;
    scene.fill("lb", 2_500, 20).await;
    for (order, range) in [("desc", "ZREVRANGE"), ("asc", "ZRANGE")] {
        for ties in ["first", "last", "member"] {
            let board = format!("{order}-{ties}");
            let definition =
                json!({"windows": ["all"], "order": order, "ties": ties, "accept_late": "any"});
            scene.client.define(&board, definition).await;
            let (status, said) = scene.run("import", &board, &["--key", "lb"]).await;
            if (order, ties) == ("desc", "member") {
                assert_eq!(status, 1, "{said}");
                assert!(said.contains("use --ties none"), "{said}");
                continue;
            }
            assert_eq!(status, 0, "{said}");
            let path = format!("/v1/boards/{board}/standings/all?");
            let (ids, expected) = (scene.ids(&path).await, scene.source_ids(range, "lb").await);
            assert!(ids == expected, "{board}");
        }
    }
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_periods_stay_empty_and_a_second_import_sends_nothing() {
    let scene = Scene::new().await;
    scene.fill("lb", 600, 50).await;
    let definition = json!({"windows": ["all", "day", "last-7-days"], "accept_late": "any"});
    scene.client.define("b", definition).await;

    let (status, said) = scene
        .run("import", "b", &["--key", "lb", "--dry-run"])
        .await;
    assert_eq!(status, 0, "{said}");
    assert!(
        said.contains(
            "to send             600  from 2000-01-01T00:00:00.000Z, also in day 2000-01-01"
        ),
        "{said}"
    );
    assert!(said.contains("memory     about "), "{said}");
    let total = async |window: &str| {
        let path = format!("/v1/boards/b/standings/{window}");
        scene.client.get(&path).await.expect(200)["total"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(total("all").await, 0);

    for sent in [
        "sent                600",
        "equal               600\n  sent                  0",
    ] {
        let (status, said) = scene.run("import", "b", &["--key", "lb"]).await;
        assert!(status == 0 && said.contains(sent), "{said}");
    }
    assert_eq!(
        (
            total("all").await,
            total("day").await,
            total("last-7-days").await
        ),
        (600, 0, 0)
    );
    scene.program.stop().await;
}

/// What another program does: it adds points in both places, each event once.
async fn write_to_both(
    source: &RedisServer,
    client: &Client,
    members: usize,
    ends: &AtomicBool,
) -> u64 {
    let mut random = Random::new(7);
    let mut count = 0;
    while !ends.load(Ordering::Relaxed) {
        let member = format!("player:{}", 1 + random.below(members));
        let points = (1 + random.below(9)).to_string();
        let words = [&b"ZINCRBY"[..], b"lb", points.as_bytes(), member.as_bytes()];
        source.run(&words).await;
        let event = json!({"id": format!("w-{count}"), "member": member, "score": points.parse::<u64>().unwrap()});
        client.post("/v1/boards/b/events", event).await.expect(200);
        count += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_members_come_over_while_the_other_program_writes_to_both() {
    const MEMBERS: usize = 100_000;
    let scene = Arc::new(Scene::new().await);
    scene.fill("lb", MEMBERS, 5_000).await;
    scene
        .client
        .define("b", json!({"windows": ["all"], "accept_late": "any"}))
        .await;
    let ends = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (scene, ends) = (Arc::clone(&scene), Arc::clone(&ends));
        async move { write_to_both(&scene.source, &scene.client, MEMBERS, &ends).await }
    });
    let key = ["--key", "lb"];
    let (status, said) = scene.run("import", "b", &key).await;
    assert_ne!(status, 1, "{said}");
    let (status, said) = scene.run("import", "b", &["--key", "lb", "--sync"]).await;
    assert_ne!(status, 1, "{said}");
    ends.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0);
    // What an import and the writer have sent at the same moment.
    let (status, said) = scene.run("import", "b", &["--key", "lb", "--sync"]).await;
    assert_eq!(status, 0, "{said}");
    let (status, said) = scene.run("compare", "b", &key).await;
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("equal           100,000"), "{said}");
    assert!(said.contains("different             0"), "{said}");
    let scene = Arc::into_inner(scene).unwrap();
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronisation_sends_what_each_update_needs() {
    let scene = Scene::new().await;
    for (update, sent) in [
        // There 10 and here 4; there 3 and here 9; there 5 and none here.
        ("sum", ["10", "3", "5"]),
        ("max", ["10", "9", "5"]),
        ("min", ["4", "3", "5"]),
        ("last", ["10", "3", "5"]),
    ] {
        for (member, score) in [("a", "10"), ("b", "3"), ("c", "5")] {
            scene.source_command(&["ZADD", update, score, member]).await;
        }
        let definition =
            json!({"windows": ["all"], "update": update, "order": "desc", "accept_late": "any"});
        scene.client.define(update, definition).await;
        for (member, score) in [("a", 4), ("b", 9), ("d", 1)] {
            let path = format!("/v1/boards/{update}/events");
            let event = json!({"id": member, "member": member, "score": score});
            scene.client.post(&path, event).await.expect(200);
        }
        let (status, said) = scene.run("import", update, &["--key", update]).await;
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("a: 10 there, 4 here"), "{said}");
        assert!(
            said.contains("different             2  have another score here: --sync"),
            "{said}"
        );
        let (_, said) = scene
            .run("import", update, &["--key", update, "--sync"])
            .await;
        let mut scores = BTreeMap::new();
        let path = format!("/v1/boards/{update}/standings/all");
        let page = scene.client.get(&path).await.expect(200);
        for entry in page["entries"].as_array().unwrap() {
            let member = entry["member"].as_str().unwrap().to_owned();
            scores.insert(member, entry["score"].to_string());
        }
        let expected: BTreeMap<String, String> = ["a", "b", "c", "d"]
            .into_iter()
            .zip([sent[0], sent[1], sent[2], "1"])
            .map(|(member, score)| (member.to_owned(), score.to_owned()))
            .collect();
        assert_eq!(scores, expected, "{update}: {said}");
        let (status, said) = scene.run("compare", update, &["--key", update]).await;
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("only here             1"), "{said}");
    }
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_come_over_is_listed_before_anything_is_sent() {
    let scene = Scene::new().await;
    for (score, member) in [
        ("1", "fine"),
        ("+inf", "endless"),
        ("1e300", "huge"),
        ("0.125", "parts"),
        ("2", "a\nb"),
    ] {
        scene.source_command(&["ZADD", "lb", score, member]).await;
    }
    scene
        .client
        .define(
            "b",
            json!({"windows": ["all"], "accept_late": "any", "decimals": 2}),
        )
        .await;
    let (status, said) = scene.run("import", "b", &["--key", "lb"]).await;
    assert_eq!(status, 1, "{said}");
    for line in [
        "lb: of 1 members the score is infinite: endless (inf)",
        "the score has more digits than the board can keep: huge",
        "the score has more decimals than the board keeps: --round rounds it: parts (0.125)",
        "the name is not a valid id",
        "some members can't come over; --skip leaves them out",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let args = ["--key", "lb", "--round", "2", "--skip"];
    let (status, said) = scene.run("import", "b", &args).await;
    assert_eq!(status, 2, "{said}");
    for line in [
        "sent                  2",
        "rounded               1",
        "refused               3",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }

    let (status, said) = scene.run("compare", "b", &["--key", "typo"]).await;
    assert!(
        status == 1 && said.contains("there is no sorted set typo"),
        "{said}"
    );

    for (definition, fault) in [
        (
            json!({"windows": ["day"], "accept_late": "any"}),
            "it has no window all, but day",
        ),
        (json!({"windows": ["all"]}), "set `accept_late` to `any`"),
        (
            json!({"windows": ["all"], "accept_late": "any", "weight": {"default": 2}}),
            "it has `weight`",
        ),
        (
            json!({"windows": ["all"], "accept_late": "any", "update": "max", "keep_top": 10}),
            "it has `keep_top`",
        ),
        (
            json!({"windows": ["week"], "accept_late": "any", "score_min": 0, "league": {"tiers": [{"name": "low", "promote": 0.3, "demote": 0}, {"name": "high", "promote": 0, "demote": 0.3}]}}),
            "it is a league",
        ),
        (
            json!({"windows": ["all", "week"], "accept_late": "any", "carryover": {"week": 0.5}}),
            "`carryover`",
        ),
        (
            json!({"windows": ["all"], "accept_late": "any", "finalize": "1h"}),
            "`finalize`",
        ),
        (
            json!({"windows": ["all"], "accept_late": "any", "opens_at": "2026-01-01T00:00:00Z"}),
            "`opens_at`",
        ),
        (
            json!({"windows": ["all"], "accept_late": "any", "ingest": "async"}),
            "`ingest: async`",
        ),
        (
            json!({"windows": ["all"], "accept_late": "any", "quotas": [{"name": "q", "by": ["member"], "window": "day", "max": 1}]}),
            "it has quotas",
        ),
    ] {
        scene.client.define("refused", definition).await;
        let (status, said) = scene
            .run("import", "refused", &["--key", "lb", "--skip"])
            .await;
        assert_eq!(status, 1, "{said}");
        assert!(said.contains(fault), "{fault}: {said}");
        scene.client.delete("/v1/boards/refused").await.expect(204);
    }
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_sets_of_weeks_come_over_to_their_weeks() {
    let scene = Scene::new().await;
    for (week, member, score) in [("47", "ann", "3"), ("48", "bob", "5"), ("48", "ann", "2")] {
        let key = format!("weekly_2025-{week}");
        scene.source_command(&["ZADD", &key, score, member]).await;
    }
    let weeks = json!({"windows": ["week"], "accept_late": "any"});
    scene.client.define("b", weeks).await;
    let args = ["--keys", "weekly_{%G-%V}", "--window", "week"];
    let (status, said) = scene.run("import", "b", &args).await;
    assert_eq!(status, 0, "{said}");
    let week = async |key: &str| {
        let path = format!("/v1/boards/b/standings/week?key={key}");
        let page = scene.client.get(&path).await.expect(200);
        let entries = page["entries"].as_array().unwrap();
        let shown = entries
            .iter()
            .map(|entry| json!([entry["member"], entry["score"]]));
        shown.collect::<Value>()
    };
    assert_eq!(week("2025-11-17").await, json!([["ann", 3]]));
    assert_eq!(week("2025-11-24").await, json!([["bob", 5], ["ann", 2]]));
    let (status, said) = scene.run("compare", "b", &args).await;
    assert!(status == 0 && said.contains("2 sorted sets"), "{said}");

    // Weeks that begin on another day, and a name without a week.
    let sundays = json!({"windows": ["week"], "accept_late": "any", "week_start": "sunday"});
    scene.client.define("sundays", sundays).await;
    let (status, said) = scene.run("import", "sundays", &args).await;
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("2 sorted sets belong to no period of the board: weekly_2025-47: no period"),
        "{said}"
    );
    scene
        .source_command(&["ZADD", "weekly_total", "1", "ann"])
        .await;
    let (status, said) = scene.run("import", "b", &args).await;
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("weekly_total: its name does not have the form {%G-%V}"),
        "{said}"
    );
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_decimals_of_a_score_give_the_time_at_which_it_was_reached() {
    let scene = Scene::new().await;
    // Seconds / 10^10 added; the earlier one is to be first.
    for (member, score) in [
        ("late", "100.1795000001"),
        ("early", "100.1795000000"),
        ("top", "101.1"),
    ] {
        scene.source_command(&["ZADD", "lb", score, member]).await;
    }
    scene
        .client
        .define("b", json!({"windows": ["all"], "accept_late": "any"}))
        .await;
    let args = [
        "--key",
        "lb",
        "--ties",
        "score-fraction",
        "--fraction-seconds",
        "1e10",
    ];
    let (status, said) = scene.run("import", "b", &args).await;
    assert_eq!(status, 0, "{said}");
    assert_eq!(
        scene.ids("/v1/boards/b/standings/all?").await,
        ["top", "early", "late"]
    );
    let early = scene
        .client
        .get("/v1/boards/b/standings/all/members/early")
        .await
        .expect(200);
    let reached_at = early["reached_at"].as_str().unwrap();
    assert!(reached_at.starts_with("2026-11-18T"), "{reached_at}");
    let (status, said) = scene.run("compare", "b", &args).await;
    assert_eq!(status, 0, "{said}");
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronisation_reads_the_time_in_a_score() {
    let scene = Scene::new().await;
    for update in ["last", "sum", "max"] {
        for (member, score) in [
            ("early", "200.8205000000"),
            ("late", "100.8210000000"),
            ("never", "300.8210000000"),
        ] {
            scene.source_command(&["ZADD", update, score, member]).await;
        }
        let definition = json!({"windows": ["all"], "update": update, "accept_late": "any"});
        scene.client.define(update, definition).await;
        let fraction = [
            "--ties",
            "score-fraction",
            "--fraction-seconds",
            "1e10",
            "--fraction-falls",
        ];
        let args = [&["--key", update], &fraction[..]].concat();
        let (status, said) = scene.run("import", update, &args).await;
        assert_eq!(status, 0, "{said}");
        // It reaches the score of the other, later than that.
        let late = ["ZADD", update, "200.8204000000", "late"];
        scene.source_command(&late).await;
        let sync = [&args[..], &["--sync"]].concat();
        let (status, said) = scene.run("import", update, &sync).await;
        assert_eq!(status, 0, "{update} {said}");
        let ids = scene
            .ids(&format!("/v1/boards/{update}/standings/all?"))
            .await;
        assert_eq!(ids, scene.source_ids("ZREVRANGE", update).await, "{update}");
    }
    // Clocks differ: a time may be somewhat ahead, as that of any event.
    let ahead = SystemTime::now() + Duration::from_secs(20);
    let ahead = ahead.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let score = (200.0 - ahead.as_secs_f64() / 1e10).to_string();
    scene
        .source_command(&["ZADD", "max", &score, "ahead"])
        .await;
    let args = [
        "--key",
        "max",
        "--ties",
        "score-fraction",
        "--fraction-seconds",
        "1e10",
        "--fraction-falls",
    ];
    let (status, said) = scene.run("import", "max", &args).await;
    assert_eq!(status, 0, "{said}");
    // What is older than the board's is no news on a board that keeps the last score.
    let old = ["ZADD", "last", "400.8215000000", "never"];
    scene.source_command(&old).await;
    let args = [
        "--key",
        "last",
        "--ties",
        "score-fraction",
        "--fraction-seconds",
        "1e10",
        "--fraction-falls",
        "--sync",
    ];
    let (status, said) = scene.run("import", "last", &args).await;
    assert!(
        status == 2 && said.contains("never: 400 there, 300 here"),
        "{said}"
    );
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_synchronisations_at_once_send_a_difference_once() {
    let scene = Scene::new().await;
    scene.fill("lb", 2_000, 50).await;
    let definition = json!({"windows": ["all"], "accept_late": "any", "score_min": 0});
    scene.client.define("b", definition).await;
    let sync = ["--key", "lb", "--sync"];
    for _ in 0..2 {
        let [one, other] = [(); 2].map(|()| scene.run("import", "b", &sync));
        let ((done, one), (also, other)) = tokio::join!(one, other);
        assert_eq!((done, also), (0, 0), "{one}{other}");
        let (status, said) = scene.run("compare", "b", &["--key", "lb"]).await;
        assert_eq!(status, 0, "{one}{other}{said}");
        // Now all of them differ.
        let more = "for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
            redis.call('ZINCRBY', KEYS[1], 7, member) end";
        scene.source_command(&["EVAL", more, "1", "lb"]).await;
    }
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_that_comes_back_is_sent_again() {
    let scene = Scene::new().await;
    for update in ["sum", "last"] {
        let definition = json!({"windows": ["all"], "update": update, "accept_late": "any"});
        scene.client.define(update, definition).await;
        for score in ["10", "20", "10", "20", "10", "20"] {
            scene.source_command(&["ZADD", update, score, "ann"]).await;
            let sync = ["--key", update, "--sync"];
            let (status, said) = scene.run("import", update, &sync).await;
            assert!(
                status == 0 && said.contains("sent                  1"),
                "{update} {score}: {said}"
            );
        }
    }
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronisation_says_what_changes_while_it_runs() {
    let scene = Scene::new().await;
    for delay_ms in [900, 1_500, 2_100] {
        let lb = &format!("lb-{delay_ms}");
        let definition = json!({"windows": ["all"], "accept_late": "any"});
        scene.client.define(lb, definition).await;
        let sync = ["--key", lb, "--sync"];
        for score in ["5", "7", "5"] {
            scene.source_command(&["ZADD", lb, score, "ann"]).await;
            let (status, said) = scene.run("import", lb, &sync).await;
            assert_eq!(status, 0, "{said}");
        }
        // This difference has been sent before, so the scores are compared three times. Whenever they change, they are not equal.
        scene.source_command(&["ZADD", lb, "7", "ann"]).await;
        let change = async {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            scene.source_command(&["ZADD", lb, "9", "ann"]).await;
        };
        let ((status, said), ()) = tokio::join!(scene.run("import", lb, &sync), change);
        let (compared, differs) = scene.run("compare", lb, &["--key", lb]).await;
        let has_sent = said.contains("sent                  1");
        assert!(status == compared || has_sent, "{said}{differs}");
        assert!(said.contains("equal                 0"), "{said}");
    }
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronisation_does_not_bring_back_what_was_retracted() {
    let scene = Scene::new().await;
    scene.fill("lb", 2, 50).await;
    let definition = json!({"windows": ["all"], "accept_late": "any", "history": "board"});
    scene.client.define("b", definition).await;
    let sync = ["--key", "lb", "--sync"];
    let (status, said) = scene.run("import", "b", &sync).await;
    assert_eq!(status, 0, "{said}");
    let events = scene
        .client
        .get("/v1/boards/b/events?member=player:1")
        .await
        .expect(200);
    let id = events["events"][0]["id"].as_str().unwrap();
    let path = format!("/v1/boards/b/events/{id}/retract");
    let reason = json!({"reason": "cheating"});
    scene.client.post(&path, reason).await.expect(200);
    let (status, said) = scene.run("import", "b", &sync).await;
    assert!(
        status == 2 && said.contains("duplicate             1"),
        "{said}"
    );
    assert_eq!(scene.ids("/v1/boards/b/standings/all?").await, ["player:2"]);
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_of_the_last_microsecond_of_a_period_is_not_replaced_in_the_next() {
    let scene = Scene::new().await;
    let definition = json!({"windows": ["week"], "update": "last", "accept_late": "any"});
    scene.client.define("b", definition).await;
    let event =
        json!({"id": "e", "member": "ann", "score": 5, "at": "2025-11-23T23:59:59.999999Z"});
    let path = "/v1/boards/b/events";
    scene.client.post(path, event).await.expect(200);
    scene
        .source_command(&["ZADD", "w_2025-47", "9", "ann"])
        .await;
    let args = ["--keys", "w_{%G-%V}", "--window", "week", "--sync"];
    let (status, said) = scene.run("import", "b", &args).await;
    assert!(
        status == 2 && said.contains("ann: 9 there, 5 here"),
        "{said}"
    );
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_totals_of_many_sorted_sets_are_those_of_each() {
    let scene = Scene::new().await;
    for key in ["w_2025-47", "w_2025-48"] {
        scene.source_command(&["ZADD", key, "9", "ann"]).await;
    }
    let definition = json!({"windows": ["week"], "accept_late": "any"});
    scene.client.define("b", definition).await;
    let args = ["--keys", "w_{%G-%V}", "--window", "week"];
    let dry = [&args[..], &["--dry-run"]].concat();
    let (status, said) = scene.run("import", "b", &dry).await;
    let totals = "2 sorted sets\n  equal                 0\n  to send               2\n  not equal             0\n";
    assert!(status == 0 && said.contains(totals), "{said}");
    scene.run("import", "b", &args).await;
    let event = json!({"id": "e", "member": "bob", "score": 5, "at": "2025-11-23T00:00:00Z"});
    let path = "/v1/boards/b/events";
    scene.client.post(path, event).await.expect(200);
    let (status, said) = scene.run("compare", "b", &args).await;
    let totals = "2 sorted sets\n  equal                 2\n  not equal             0\n  only here             1\n";
    assert!(status == 2 && said.contains(totals), "{said}");
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_time_runs_into_the_next_period() {
    let scene = Scene::new().await;
    scene.fill("lb", 3, 50).await;
    let definition = json!({"windows": ["week"], "accept_late": "any"});
    scene.client.define("b", definition).await;
    let week = ["--key", "lb", "--window", "week", "--period", "2025-11-17"];
    let late = [&week[..], &["--at", "2025-11-23T23:59:59.999998Z"]].concat();
    let (status, said) = scene.run("import", "b", &late).await;
    assert!(
        status == 1 && said.contains("after the period 2025-11-17"),
        "{said}"
    );
    let (status, said) = scene.run("import", "b", &week).await;
    assert!(
        status == 0 && said.contains("from 2025-11-17T00:00:00"),
        "{said}"
    );
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_member_is_not_only_here() {
    let scene = Scene::new().await;
    for (score, member) in [("1", "ann"), ("0.125", "bob")] {
        scene.source_command(&["ZADD", "lb", score, member]).await;
    }
    let definition = json!({"windows": ["all"], "accept_late": "any"});
    scene.client.define("b", definition).await;
    for (member, score) in [("ann", 1), ("bob", 0), ("cid", 7)] {
        let event = json!({"id": member, "member": member, "score": score});
        let path = "/v1/boards/b/events";
        scene.client.post(path, event).await.expect(200);
    }
    let (status, said) = scene.run("compare", "b", &["--key", "lb", "--skip"]).await;
    for line in [
        "equal                 1",
        "refused               1",
        "only here             1",
    ] {
        assert!(status == 2 && said.contains(line), "{line}: {said}");
    }
    scene.program.stop().await;
}

/// A comparison of both, while members come to both.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_come_during_a_comparison_are_not_only_here() {
    let scene = Scene::new().await;
    scene.fill("lb", 20_000, 50).await;
    let definition = json!({"windows": ["all"], "accept_late": "any"});
    scene.client.define("b", definition).await;
    let (status, said) = scene.run("import", "b", &["--key", "lb"]).await;
    assert_eq!(status, 0, "{said}");
    let is_over = AtomicBool::new(false);
    let newcomers = async {
        for number in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let member = format!("new-{number}");
            scene.source_command(&["ZADD", "lb", "1", &member]).await;
            let event = json!({"id": member, "member": member, "score": 1});
            let path = "/v1/boards/b/events";
            scene.client.post(path, event).await.expect(200);
        }
    };
    let comparisons = async {
        for _ in 0..3 {
            let (_, said) = scene.run("compare", "b", &["--key", "lb"]).await;
            assert!(said.contains("only here             0"), "{said}");
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(newcomers, comparisons);
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_waits_for_the_other_redis_to_come_back() {
    let scene = Scene::new().await;
    scene.fill("lb", 40_000, 5_000).await;
    let definition = json!({"windows": ["all"], "accept_late": "any"});
    scene.client.define("b", definition).await;
    let kills = async {
        let total = async || {
            let path = "/v1/boards/b/standings/all?size=1";
            scene.client.get(path).await.expect(200)["total"].clone()
        };
        while total().await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        scene.source.kill();
        tokio::time::sleep(Duration::from_secs(2)).await;
        scene.source.restart().await;
    };
    let ((status, said), ()) = tokio::join!(scene.run("import", "b", &["--key", "lb"]), kills);
    assert_eq!(status, 0, "{said}");
    let (status, said) = scene.run("compare", "b", &["--key", "lb"]).await;
    assert_eq!(status, 0, "{said}");
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_times_of_other_periods_are_refused() {
    let scene = Scene::new().await;
    let definition = json!({"windows": ["month"], "accept_late": "any"});
    scene.client.define("months", definition).await;
    for key in ["d:2025-11-01", "d:2025-11-02"] {
        scene.source_command(&["ZADD", key, "1", "ann"]).await;
    }
    let days = ["--keys", "d:{%Y-%m-%d}", "--window", "month"];
    let (status, said) = scene.run("compare", "months", &days).await;
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("d:2025-11-02: 2025-11-02 00:00:00 is not the beginning of a month"),
        "{said}"
    );
    for key in ["{m}:2025-11", "{m}:2025-11 "] {
        scene.source_command(&["ZADD", key, "1.25", "ann"]).await;
    }
    let months = ["--keys", "{m}:{%Y-%m}", "--window", "month"];
    let (status, said) = scene.run("compare", "months", &months).await;
    assert!(
        status == 1 && said.contains("its name does not have the form"),
        "{said}"
    );
    scene.source_command(&["DEL", "{m}:2025-11 "]).await;
    let fraction = ["--ties", "score-fraction", "--fraction-seconds", "100"];
    let (status, said) = scene
        .run("import", "months", &[&months[..], &fraction].concat())
        .await;
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("the time in the score is not in its period"),
        "{said}"
    );
    scene.program.stop().await;
}

/// The bounds of a board are those of its events, not of what they add up to.
#[tokio::test(flavor = "multi_thread")]
async fn sums_may_be_beyond_the_bounds_of_events() {
    let scene = Scene::new().await;
    scene.source_command(&["ZADD", "lb", "150", "ann"]).await;
    let definition = json!({"windows": ["all"], "score_max": 100, "accept_late": "any"});
    scene.client.define("b", definition).await;
    for number in 0..2 {
        let event = json!({"id": format!("{number}"), "member": "ann", "score": 70});
        scene
            .client
            .post("/v1/boards/b/events", event)
            .await
            .expect(200);
    }
    let (status, said) = scene.run("compare", "b", &["--key", "lb"]).await;
    assert!(
        status == 2 && said.contains("ann: 150 there, 140 here"),
        "{said}"
    );
    let (status, said) = scene.run("import", "b", &["--key", "lb", "--sync"]).await;
    assert_eq!(status, 0, "{said}");
    scene.program.stop().await;
}

/// An event that the board remembers brings back no member that was erased since.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_erased_since_is_reported() {
    let scene = Scene::new().await;
    scene.fill("lb", 3, 50).await;
    let definition = json!({"windows": ["all"], "accept_late": "any"});
    scene.client.define("b", definition).await;
    let (status, said) = scene.run("import", "b", &["--key", "lb"]).await;
    assert_eq!(status, 0, "{said}");
    scene
        .client
        .delete("/v1/boards/b/members/player:2")
        .await
        .expect(204);
    let (status, said) = scene.run("import", "b", &["--key", "lb"]).await;
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("duplicate             1  accepted before"),
        "{said}"
    );
    scene.program.stop().await;
}

/// Hidden members count as present: an import must not add their scores again.
#[tokio::test(flavor = "multi_thread")]
async fn hidden_members_are_compared_like_others() {
    let scene = Scene::new().await;
    scene.fill("lb", 10, 50).await;
    scene
        .client
        .define("b", json!({"windows": ["all"], "accept_late": "any"}))
        .await;
    scene.run("import", "b", &["--key", "lb"]).await;
    let hide = json!({"reason": "x"});
    scene.client.put("/v1/boards/b/hidden/player:3", hide).await;
    let (status, said) = scene.run("import", "b", &["--key", "lb", "--sync"]).await;
    assert!(
        status == 0 && said.contains("equal                10"),
        "{said}"
    );
    scene.program.stop().await;
}

/// What `export` has written, `import` takes: ranks, times, members and names are the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_standing_goes_out_and_in_again() {
    let scene = Scene::new().await;
    let members = ["=cid", "'x", "🦊", "ann", "a,b\"c", "-5", "bob"];
    for (number, member) in members.into_iter().enumerate() {
        let profile = json!({"member": member, "name": format!("Name {number}, \"'=\"")});
        let body = json!({"profiles": [profile]});
        scene.client.post("/v1/profiles", body).await.expect(200);
    }
    for ties in ["first", "last", "member"] {
        let definition =
            json!({"windows": ["all", "day"], "ties": ties, "accept_late": "any", "decimals": 1});
        for (number, name) in ["out", "in"].into_iter().enumerate() {
            let board = format!("{name}-{ties}");
            scene.client.define(&board, definition.clone()).await;
            for (index, member) in members.into_iter().enumerate().filter(|_| number == 0) {
                let event = json!({"id": member, "member": member, "score": f64::from(u8::try_from(index / 2).unwrap()) / 2.0});
                let path = format!("/v1/boards/{board}/events");
                scene.client.post(&path, event).await.expect(200);
            }
        }
        let hide = async |board: &str| {
            let path = format!("/v1/boards/{board}-{ties}/hidden/bob");
            let hide = json!({"reason": "x"});
            scene.client.put(&path, hide).await.expect(200);
        };
        hide("out").await;
        for (format, with_hidden) in [
            ("csv", false),
            ("ndjson", false),
            ("csv", true),
            ("ndjson", true),
        ] {
            let board = format!("out-{ties}");
            let args = [
                "--board",
                &board,
                "--window",
                "all",
                "--format",
                format,
                "--profiles",
            ];
            let hidden: &[&str] = if with_hidden {
                &["--include-hidden"]
            } else {
                &[]
            };
            let args = [&["export"], &args[..], hidden].concat();
            let file = scene.program.run(&args).await.unwrap();
            if with_hidden {
                hide("in").await;
            }
            let folder = TempDir::new().unwrap();
            let path = folder.path().join(format!("out.{format}"));
            std::fs::write(&path, file).unwrap();
            let board = format!("in-{ties}");
            let args = [
                "import",
                path.to_str().unwrap(),
                "--board",
                &board,
                "--from-export",
                "--profiles",
                "--at",
                "2026-01-01T00:00:00Z",
            ];
            let said = scene.program.run(&args).await.unwrap();
            let rows = format!("{} rows", if with_hidden { 7 } else { 6 });
            assert!(said.contains(&rows), "{said}");
            let hidden = if with_hidden {
                ["", "&hidden=include"].as_slice()
            } else {
                &[""]
            };
            for hidden in hidden {
                let entries = async |board: &str| {
                    let path =
                        format!("/v1/boards/{board}-{ties}/standings/all?include=profile{hidden}");
                    scene.client.get(&path).await.expect(200)["entries"].clone()
                };
                assert_eq!(
                    entries("in").await,
                    entries("out").await,
                    "{ties} {format} {hidden}"
                );
            }
            let path = format!("/v1/boards/in-{ties}");
            scene.client.delete(&path).await.expect(204);
            scene
                .client
                .define(&format!("in-{ties}"), definition.clone())
                .await;
        }
    }
    scene.program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_come_from_a_hash() {
    let scene = Scene::new().await;
    scene.fill("lb", 4, 50).await;
    for (member, data) in [
        ("player:1", r#"{"name": "Ann", "level": 3}"#),
        ("player:2", r#"{"level": 3}"#),
        ("player:3", "no JSON"),
        ("player:9", r#"{"name": "Not a member"}"#),
        ("player:4", r#"{"name": ""}"#),
    ] {
        scene.source_command(&["HSET", "data", member, data]).await;
    }
    let definition = json!({"windows": ["all"], "accept_late": "any"});
    scene.client.define("b", definition).await;
    let args = [
        "--key",
        "lb",
        "--profiles-from-hash",
        "data",
        "--name-field",
        "name",
    ];
    let (status, said) = scene.run("import", "b", &args).await;
    assert_eq!(status, 2, "{said}");
    for line in [
        "sent                  4",
        "profiles              1",
        "nameless              2  in the hash, but not with a name",
        "rejected              1  validation-failed",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let other = ["--key", "lb", "--profiles-from-hash", "typo"];
    let (status, said) = scene.run("import", "b", &other).await;
    assert!(
        status == 0 && said.contains("profiles              0"),
        "{said}"
    );
    let name = async |member: &str| {
        let path = format!("/v1/boards/b/standings/all/members/{member}?include=profile");
        scene.client.get(&path).await.expect(200)["profile"]["name"].clone()
    };
    assert_eq!(name("player:1").await, "Ann");
    assert_eq!(name("player:2").await, Value::Null);
    scene.program.stop().await;
}

/// A password that is not in the address, and a cluster as the other Redis.
#[tokio::test(flavor = "multi_thread")]
async fn members_come_over_from_a_cluster_and_with_a_password() {
    let scene = Scene::new().await;
    let cluster = RedisServers::start_cluster().await;
    scene
        .client
        .define("b", json!({"windows": ["day"], "accept_late": "any"}))
        .await;
    for day in 10..20 {
        let key = format!("day:2025-11-{day}");
        for node in &cluster.nodes {
            // Of the three, the one that has the slot takes it.
            node.run(&[b"ZADD", key.as_bytes(), b"1", b"ann"]).await;
        }
    }
    let args = ["--keys", "day:{%Y-%m-%d}", "--window", "day"];
    let url = cluster.url();
    let (status, said) = run_from(&url, &scene.client, "import", "b", &args).await;
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("10 sorted sets"), "{said}");

    let locked = RedisServer::start().await;
    locked.run(&[b"ZADD", b"lb", b"1", b"ann"]).await;
    let password = [&b"CONFIG"[..], b"SET", b"requirepass", b"hush"];
    locked.run(&password).await;
    let address = Url::parse(&scene.client.base).unwrap();
    let import = |password: Option<&str>| {
        let url = locked.url();
        let mut command = without_settings(&[
            "import",
            "--from-redis",
            &url,
            "--key",
            "lb",
            "--board",
            "b",
            "--window",
            "day",
            "--period",
            "2025-11-10",
        ]);
        command.args(["--url", address.as_str()]);
        if let Some(password) = password {
            command.env("STANDINGS_SOURCE_PASSWORD", password);
        }
        command.output()
    };
    let refused = import(None).await.unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("password"), "{said}");
    let taken = import(Some("hush")).await.unwrap();
    assert!(taken.status.success(), "{taken:?}");
    scene.program.stop().await;
}
