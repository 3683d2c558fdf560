//! What senders are told who may not read: nothing of the standings and the quotas of a board that is not public.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use standings::access::players::PlayerKeys;
use standings::api::router::Options;
use standings::api::table::routes;
use standings::domain::access::Scope;

use super::players::{NOW_S, hs256, token_with};
use crate::harness::client::Answer;
use crate::harness::jobs::{ApplyQueues, ClosePeriods};
use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, World};
use crate::keys::make_key;

const NOW: &str = "2026-11-21T12:00:00Z";
const SECRET: &str = "a secret that is long enough, by far";
/// The fields that tell of standings, in any answer to a sender.
const FIELDS: [&str; 6] = [
    "previous_rank",
    "previous_score",
    "rank",
    "revision",
    "score",
    "size",
];
/// Too much for what is left of the quota.
const TOO_MUCH: u64 = 1_000_000;

/// Somebody who sends, with these scopes.
struct Sender {
    name: String,
    client: Client,
    scopes: &'static [&'static str],
    is_player: bool,
}

impl Sender {
    fn event(&self, board: &str, id: &str, score: u64) -> Value {
        let id = format!("{}-{id}", self.name);
        json!({"board": board, "id": id, "member": "ann", "score": score})
    }

    async fn post(&self, board: &str, query: &str, id: &str, score: u64) -> Answer {
        let path = format!("/v1/boards/{board}/events{query}");
        self.client.post(&path, self.event(board, id, score)).await
    }
}

async fn start() -> (World, Client) {
    let options = Options {
        keys: "admin:an-admin".parse().unwrap(),
        players: PlayerKeys::read(None, Some(SECRET), "standings").unwrap(),
        ..Options::default()
    };
    let world = World::with_options(NOW, options).await;
    let admin = world.client().with_key("an-admin");
    (world, admin)
}

/// Everybody who may send events of Ann, each with and without `read`.
async fn senders(world: &World, admin: &Client) -> Vec<Sender> {
    let mut senders = Vec::new();
    for scopes in [&["write"][..], &["read", "write"]] {
        let name = format!("key-{}", scopes.len());
        let grant = json!({"scopes": scopes, "boards": ["b-*"]});
        let (_, secret) = make_key(admin, &name, grant).await;
        senders.push(Sender {
            name,
            client: world.client().with_key(&secret),
            scopes,
            is_player: false,
        });
    }
    for scopes in [
        &["vote"][..],
        &["play"],
        &["play", "vote"],
        &["read", "vote"],
        &["read", "play"],
    ] {
        let claims = json!({"aud": "standings", "sub": "ann", "iat": NOW_S, "exp": NOW_S + 3_600,
            "boards": ["b-*"], "scopes": scopes});
        let sign = hs256(SECRET.as_bytes());
        let token = token_with(&json!({"alg": "HS256"}), &claims, &sign);
        senders.push(Sender {
            name: scopes.join("-"),
            client: world.client().with_key(&token),
            scopes,
            is_player: true,
        });
    }
    senders
}

/// A sender, a board, and whether the board's standings are for the sender.
struct Case<'a> {
    sender: &'a Sender,
    board: String,
    may_read: bool,
}

/// All senders, each with a board of this kind that is public and one that is not.
async fn cases<'a>(
    admin: &Client,
    senders: &'a [Sender],
    kind: &str,
    definition: &Value,
) -> Vec<Case<'a>> {
    let mut cases = Vec::new();
    for public in [false, true] {
        let board = format!("b-{kind}-{public}");
        let mut definition = definition.clone();
        definition["public"] = public.into();
        admin.define(&board, definition).await;
        cases.extend(senders.iter().map(|sender| Case {
            sender,
            board: board.clone(),
            may_read: public || sender.scopes.contains(&"read"),
        }));
    }
    cases
}

impl Case<'_> {
    /// Checks that an answer tells these fields to those who may read, and none to others.
    #[track_caller]
    fn check(&self, answer: &Answer, fields: &[&str]) {
        // The client takes revisions out of the JSON.
        let json: Value = serde_json::from_str(&answer.text).unwrap();
        self.check_item(&json, fields);
    }

    #[track_caller]
    fn check_item(&self, json: &Value, fields: &[&str]) {
        let mut found = BTreeSet::new();
        collect(json, &mut found);
        // What was before is null in the first outcome of all.
        found.retain(|name| !self.may_read || !name.starts_with("previous"));
        let fields = if self.may_read { fields } else { &[] };
        let told: BTreeSet<_> = fields.iter().map(ToString::to_string).collect();
        assert_eq!(found, told, "{self}: {json}");
    }

    /// Checks that a problem of a quota tells how much of it is used to those who may read alone.
    #[track_caller]
    fn check_quota(&self, problem: &Value) {
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(
            detail.contains("1000000"),
            self.may_read,
            "{self}: {detail}"
        );
        assert_eq!(problem["code"], "quota-exceeded", "{self}");
        assert_eq!(problem["quota"], "points", "{self}");
        assert!(problem["frees_at"].is_string(), "{self}");
    }
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.sender.name, self.board)
    }
}

/// Collects the fields that tell of standings.
fn collect(json: &Value, found: &mut BTreeSet<String>) {
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                if FIELDS.contains(&name.as_str()) && !value.is_null() {
                    found.insert(name.clone());
                }
                collect(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

fn quotas() -> Value {
    json!([{"name": "points", "by": ["member"], "window": "day", "max": 1_000_000, "measure": "score"}])
}

const OUTCOME: &[&str] = &["revision", "score"];
const RANKED: &[&str] = &["rank", "revision", "score"];

#[test]
fn lint_every_route_that_answers_senders_is_tested() {
    let is_of_senders = |scope: Option<Scope>| scope == Some(Scope::Write);
    let all: Vec<_> = routes()
        .into_iter()
        .filter(|route| is_of_senders(route.access.scope) && route.path.contains("board"))
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    let tried = [
        "POST /v1/boards/{board}/events",
        "GET /v1/boards/{board}/events",
        "PUT /v1/boards/{board}/standings/{window}/periods/{key}/rewards/{rule}/members/{member}/claim",
        "POST /v1/boards/{board}/league/members",
        "POST /v1/boards/{board}/league/leave",
    ];
    assert_eq!(all, tried, "these are tried below, and POST /v1/events");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_shows_standings_only_with_the_right_to_read() {
    let (world, admin) = start().await;
    let _following = world.instances[0].follow_api_keys();
    let senders = senders(&world, &admin).await;
    let definition = json!({"windows": ["day"], "quotas": quotas()});
    for case in cases(&admin, &senders, "sync", &definition).await {
        let Case {
            sender,
            board,
            may_read,
        } = &case;
        for (query, fields) in [
            ("", OUTCOME),
            ("?standings=true", OUTCOME),
            ("?standings=false", &["revision"][..]),
        ] {
            let first = sender.post(board, query, query, 1).await;
            assert_eq!(first.headers.contains_key("ratelimit"), *may_read, "{case}");
            let again = sender.post(board, query, query, 1).await;
            for (answer, status) in [(first, "applied"), (again, "duplicate")] {
                assert_eq!(answer.json["status"], status, "{case}: {}", answer.text);
                assert_eq!(answer.json["member"], "ann");
                case.check(&answer, fields);
            }
        }
        let ranks = sender.post(board, "?ranks=true", "ranks", 1).await;
        if *may_read {
            assert_eq!(ranks.status, 200, "{case}: {}", ranks.text);
            case.check(&ranks, RANKED);
        } else {
            let detail = ranks.expect_problem(403, "forbidden");
            assert!(detail.contains("`read`"), "{detail}");
        }
        let over = sender.post(board, "", "over", TOO_MUCH).await;
        assert!(over.headers.contains_key("retry-after"), "{case}");
        case.check_quota(&over.expect(429));
        let found = format!("/v1/boards/{board}/events?id={}-", sender.name);
        case.check(&sender.client.get(&found).await, &["score"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_shows_the_standings_of_readable_boards_only() {
    let (world, admin) = start().await;
    let _following = world.instances[0].follow_api_keys();
    let senders = senders(&world, &admin).await;
    let definition = json!({"windows": ["day"], "quotas": quotas()});
    let cases = cases(&admin, &senders, "sync", &definition).await;
    let (private, public) = cases.split_at(senders.len());
    for (private, public) in private.iter().zip(public) {
        let sender = private.sender;
        let post = async |query: &str, id: &str| {
            let event = |case: &Case<'_>, id, score| sender.event(&case.board, id, score);
            let events = [private, public].map(|case| {
                [(id, 1), ("over", TOO_MUCH)].map(|(id, score)| event(case, id, score))
            });
            let batch = json!({"events": events.as_flattened()});
            let path = format!("/v1/events{query}");
            let results = sender.client.post(&path, batch).await;
            assert_eq!(results.status, 200, "{}", results.text);
            let mut whole: Value = serde_json::from_str(&results.text).unwrap();
            whole["results"].take()
        };
        for (id, status) in [("1", "applied"), ("1", "duplicate")] {
            let results = post("", id).await;
            for (index, case) in [(0, private), (2, public)] {
                let (taken, over) = (&results[index], &results[index + 1]);
                assert_eq!(taken["status"], status, "{case}: {taken}");
                case.check_item(taken, OUTCOME);
                case.check_quota(&over["problem"]);
            }
        }
        let results = post("?ranks=true", "ranks").await;
        for (index, case) in [(0, private), (2, public)] {
            if case.may_read {
                case.check_item(&results[index], RANKED);
                continue;
            }
            for refused in [&results[index], &results[index + 1]] {
                assert_eq!(refused["status"], "rejected", "{case}");
                assert_eq!(refused["problem"]["code"], "forbidden", "{case}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_queued_event_shows_standings_only_with_the_right_to_read() {
    let (world, admin) = start().await;
    let _following = world.instances[0].follow_api_keys();
    let senders = senders(&world, &admin).await;
    let definition = json!({"windows": ["day"], "quotas": quotas(), "ingest": "async"});
    for case in cases(&admin, &senders, "async", &definition).await {
        let Case {
            sender,
            board,
            may_read,
        } = &case;
        for (id, score) in [("1", 1), ("over", TOO_MUCH)] {
            let queued = sender.post(board, "", id, score).await;
            assert_eq!(queued.status, 202, "{case}: {}", queued.text);
            case.check(&queued, &[]);
        }
        let refused = sender.post(board, "?ranks=true", "ranks", 1).await;
        assert_eq!(refused.status == 403, !may_read, "{case}: {}", refused.text);
        world.engine().run(&ApplyQueues).await.unwrap();
        let status = async |id: &str| {
            let path = format!("/v1/boards/{board}/events?id={}-{id}", sender.name);
            sender.client.get(&path).await
        };
        let applied = status("1").await;
        assert_eq!(
            applied.json["events"][0]["status"], "applied",
            "{case}: {}",
            applied.text
        );
        case.check(&applied, &["score"]);
        let over = status("over").await.json;
        case.check_quota(&over["events"][0]["problem"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_shows_its_cohort_only_with_the_right_to_read() {
    let (world, admin) = start().await;
    let _following = world.instances[0].follow_api_keys();
    let senders = senders(&world, &admin).await;
    let definition = json!({"windows": ["day"], "score_min": 0,
        "league": {"tiers": [{"name": "bronze", "promote": 0, "demote": 0}]}});
    for case in cases(&admin, &senders, "league", &definition).await {
        let Case { sender, board, .. } = &case;
        if sender.is_player && !sender.scopes.contains(&"play") {
            continue;
        }
        let path = format!("/v1/boards/{board}/league");
        let own = json!({"member": "ann"});
        let seat = sender
            .client
            .post(&format!("{path}/members"), own.clone())
            .await;
        case.check(&seat, &["rank", "score", "size"]);
        assert_eq!(seat.json["cohort"], "bronze-1", "{case}: {}", seat.text);
        let taken = sender.post(board, "", "1", 1).await;
        case.check(&taken, OUTCOME);
        let left = sender.client.post(&format!("{path}/leave"), own).await;
        assert_eq!(left.status, 200, "{}", left.text);
        case.check(&left, &[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_shows_the_standing_only_with_the_right_to_read() {
    let (world, admin) = start().await;
    let _following = world.instances[0].follow_api_keys();
    let senders = senders(&world, &admin).await;
    let definition = json!({"windows": ["day"], "finalize": "10m",
        "rewards": [{"id": "crown", "window": "day", "ranks": [1, 1], "reward": "coin"}]});
    let cases = cases(&admin, &senders, "rewards", &definition).await;
    for board in ["b-rewards-false", "b-rewards-true"] {
        let event = json!({"member": "ann", "score": 5, "id": "1"});
        let path = format!("/v1/boards/{board}/events");
        admin.post(&path, event).await.expect(200);
    }
    world.set_time("2026-11-22T00:10:00Z");
    world.engine().run(&ClosePeriods).await.unwrap();
    for case in cases.iter().filter(|case| !case.sender.is_player) {
        let claim = format!(
            "/v1/boards/{}/standings/day/periods/2026-11-21/rewards/crown/members/ann/claim",
            case.board
        );
        let claimed = case.sender.client.put(&claim, json!({"by": "g"})).await;
        assert_eq!(claimed.json["reward"], "coin", "{case}: {}", claimed.text);
        case.check(&claimed, &["rank", "score"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_made_private_is_hidden_at_once_on_every_instance() {
    let world = World::with_keys(2, NOW, "admin:an-admin").await;
    let _following: Vec<_> = world
        .instances
        .iter()
        .map(Instance::follow_api_keys)
        .collect();
    let admin = world.client().with_key("an-admin");
    let grant = json!({"scopes": ["write"], "boards": ["b"]});
    let (_, secret) = make_key(&admin, "writer", grant).await;
    let writer = world.instances[1].client.with_key(&secret);
    eventually("the other instance knows the key", async || {
        writer.get("/v1/boards/b/summary").await.status == 403
    })
    .await;
    for round in 0..5 {
        for public in [true, false] {
            let definition = json!({"windows": ["day"], "public": public, "quotas": quotas()});
            admin.define("b", definition).await;
            let event = json!({"id": format!("{round}-{public}"), "member": "ann", "score": 1});
            let request = writer.builder(Method::POST, "/v1/boards/b/events");
            let taken = Client::send(request.json(&event)).await;
            assert_eq!(taken.revision.is_some(), public, "{}", taken.text);
            assert_eq!(
                taken.json["standings"][0]["score"].is_u64(),
                public,
                "{}",
                taken.text
            );
            assert_eq!(taken.headers.contains_key("ratelimit"), public);
        }
    }
}
