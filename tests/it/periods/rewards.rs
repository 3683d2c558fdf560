//! Rewards: who wins is handed out once, claimed once, and revised after hides, whoever dies half-way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::{Value, json};
use standings::core::read::period::Choice;
use standings::domain::ids::BoardId;
use standings::periods::results::periods::PeriodName;
use standings::periods::{results, revisions};
use standings::webhooks::outbox;

use crate::harness::jobs::{ClosePeriods, Revisions};
use crate::harness::random::Random;
use crate::harness::redis::Reply;
use crate::harness::{Client, Instance, World, break_off};

const PERIOD: &str = "/v1/boards/b/standings/day/periods/2026-11-21";

fn definition(shards: u16) -> Value {
    json!({
        "windows": ["day", "last-2-days"], "finalize": "10m", "ranking": "competition", "shards": shards,
        "rewards": [
            {"id": "crown", "window": "day", "ranks": [1, 1], "reward": {"item": "crown", "n": [1, 2.5, null]}},
            {"id": "half", "window": "day", "top_percent": 50, "min_score": 10, "reward": "coin"},
        ],
    })
}

async fn send(client: &Client, day: &str, member: &str, score: i64) {
    let at = format!("{day}T12:00:00Z");
    let event =
        json!({"id": format!("{day}-{member}"), "member": member, "score": score, "at": at});
    client.post("/v1/boards/b/events", event).await.expect(200);
}

async fn close(instance: &Instance) {
    instance.engine.run(&ClosePeriods).await.unwrap();
}

async fn revise(instance: &Instance) {
    instance.engine.run(&Revisions).await.unwrap();
}

async fn hide(client: &Client, member: &str) {
    let path = format!("/v1/boards/b/hidden/{member}");
    client
        .put(&path, json!({"reason": "cheating"}))
        .await
        .expect(200);
}

async fn unhide(client: &Client, member: &str) {
    let answer = client
        .delete(&format!("/v1/boards/b/hidden/{member}"))
        .await;
    assert_eq!(answer.status, 204, "{}", answer.text);
}

/// Ann, Bob and Cid, who is tied with Bob, Dan and Eve have played on a day.
async fn play(client: &Client, day: &str) {
    for (member, score) in [
        ("ann", 30),
        ("bob", 20),
        ("cid", 20),
        ("dan", 10),
        ("eve", 5),
    ] {
        send(client, day, member, score).await;
    }
}

async fn world(instances: usize, shards: u16) -> World {
    let world = World::with_instances(instances, "2026-11-21T12:00:00Z").await;
    world.client().define("b", definition(shards)).await;
    play(world.client(), "2026-11-21").await;
    world.set_time("2026-11-22T00:10:00Z");
    world
}

/// A world whose day is final.
async fn closed(instances: usize, shards: u16) -> World {
    let world = world(instances, shards).await;
    close(&world.instances[0]).await;
    world
}

/// The rewards of a period, each as `rule rank member state`.
async fn rewards(client: &Client, period: &str) -> Vec<String> {
    let listed = client.get(&format!("{period}/rewards")).await.expect(200);
    assert!(listed["next"].is_null());
    lines(&listed)
}

fn lines(listed: &Value) -> Vec<String> {
    let rewards = listed["rewards"].as_array().unwrap().iter();
    let line = |reward: &Value| {
        let text = |field: &str| reward[field].as_str().unwrap_or("null").to_owned();
        format!(
            "{} {} {} {}",
            text("rule"),
            reward["rank"],
            text("member"),
            text("state")
        )
    };
    rewards.map(line).collect()
}

fn claim_path(period: &str, rule: &str, member: &str) -> String {
    format!("{period}/rewards/{rule}/members/{member}/claim")
}

async fn claim(client: &Client, rule: &str, member: &str, by: &str) -> (u16, Value) {
    let answer = client
        .put(&claim_path(PERIOD, rule, member), json!({ "by": by }))
        .await;
    (answer.status.as_u16(), answer.json)
}

/// How a period was revised: each revision with its member and the changes of rewards.
async fn revisions(client: &Client, period: &str) -> Vec<String> {
    let listed = client.get(&format!("{period}/revisions")).await.expect(200);
    let revisions = listed["revisions"].as_array().unwrap().iter();
    let line = |revision: &Value| {
        let changes: Vec<String> = revision["rewards"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| {
                let text = |field: &str| change[field].as_str().unwrap_or("null").to_owned();
                format!("{} {} {}", text("rule"), text("member"), text("change"))
            })
            .collect();
        let members: Vec<String> = revision["members"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap_or("null");
                format!("{} {} {}", text("member"), text("action"), one["place"])
            })
            .collect();
        format!(
            "{} {}: {}→{}: {}",
            revision["revision"],
            members.join(", "),
            revision["total_before"],
            revision["total"],
            changes.join(", ")
        )
    };
    revisions.map(line).collect()
}

/// The kinds of the messages in the outbox, in order.
async fn posted(world: &World) -> Vec<String> {
    let (engine, id) = (&world.engine(), BoardId::parse("b").unwrap());
    let generation = world.generation("b").await.parse().unwrap();
    let messages = outbox::store::posted(&engine.store, &id, generation)
        .await
        .unwrap();
    let mut kinds: Vec<String> = messages
        .iter()
        .map(|message| {
            let body: Value = serde_json::from_str(&message.body).unwrap();
            assert!(!message.body.contains("ann"), "{body}");
            body["type"].as_str().unwrap().to_owned()
        })
        .collect();
    kinds.sort_unstable();
    kinds
}

const HANDED_OUT: [&str; 4] = [
    "crown 1 ann open",
    "half 1 ann open",
    "half 2 bob open",
    "half 2 cid open",
];
/// The same without Ann: two of four, and who is tied.
const WITHOUT_ANN: [&str; 4] = [
    "crown 1 bob open",
    "crown 1 cid open",
    "half 1 bob open",
    "half 1 cid open",
];

#[tokio::test(flavor = "multi_thread")]
async fn rewards_are_handed_out_with_the_result_and_claimed_once() {
    for shards in [1, 3] {
        let world = world(2, shards).await;
        let client = world.client();
        let early = client.get(&format!("{PERIOD}/rewards")).await;
        early.expect_problem(409, "period-not-final");
        let early = client
            .put(&claim_path(PERIOD, "crown", "ann"), json!({"by": "g"}))
            .await;
        early.expect_problem(409, "period-not-final");
        close(&world.instances[0]).await;
        // What the definition says later is for later periods.
        let others = json!([{"id": "new", "window": "day", "ranks": [1, 9], "reward": 1}]);
        client
            .patch("/v1/boards/b", json!({ "rewards": others }))
            .await
            .expect(200);
        assert_eq!(rewards(client, PERIOD).await, HANDED_OUT);
        let result = client.get(PERIOD).await.expect(200);
        assert_eq!(
            (&result["rewards"], &result["revision"]),
            (&json!(4), &json!(1))
        );
        // Part by part, and of one member.
        let mut parts = Vec::new();
        let mut after = String::new();
        loop {
            let part = client
                .get(&format!("{PERIOD}/rewards?limit=1{after}"))
                .await
                .expect(200);
            parts.extend(lines(&part));
            let Some(next) = part["next"].as_str() else {
                break;
            };
            after = format!("&after={next}");
        }
        assert_eq!(parts, HANDED_OUT);
        let of_ann = client
            .get(&format!("{PERIOD}/rewards?member=ann"))
            .await
            .expect(200);
        assert_eq!(lines(&of_ann), HANDED_OUT[..2]);
        assert_eq!(
            of_ann["rewards"][0],
            json!({"rule": "crown", "member": "ann", "rank": 1, "score": 30, "reward": {"item": "crown", "n": [1, 2.5, null]},
                "state": "open", "by": null, "claimed_at": null})
        );
        let (status, first) = claim(client, "crown", "ann", "grant-88").await;
        assert_eq!(
            (status, &first["by"], &first["state"]),
            (201, &json!("grant-88"), &json!("claimed"))
        );
        world.set_time("2026-11-22T00:20:00Z");
        let again = claim(&world.instances[1].client, "crown", "ann", "grant-88").await;
        assert_eq!(again, (200, first.clone()));
        let (status, other) = claim(client, "crown", "ann", "grant-89").await;
        assert_eq!((status, &other["code"]), (409, &json!("already-claimed")));
        assert_eq!(
            (&other["claimed_by"], &other["claimed_at"]),
            (&first["by"], &first["claimed_at"])
        );
        for (rule, member) in [
            ("crown", "bob"),
            ("none", "ann"),
            ("new", "ann"),
            ("half", "dan"),
            ("half", "zoe"),
        ] {
            let (status, problem) = claim(client, rule, member, "g").await;
            assert_eq!(
                (status, &problem["code"]),
                (404, &json!("reward-not-found")),
                "{rule} {member}"
            );
        }
        let answer = client
            .put(&claim_path(PERIOD, "half", "ann"), json!({"by": ""}))
            .await;
        answer.expect_problem(422, "validation-failed");
        let answer = client.get(&format!("{PERIOD}/rewards?after=x")).await;
        answer.expect_problem(400, "invalid-parameter");
        assert!(revisions(client, PERIOD).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_concurrent_claims_is_first() {
    let world = closed(3, 2).await;
    let clients: Vec<&Client> = world
        .instances
        .iter()
        .map(|instance| &instance.client)
        .cycle()
        .take(24)
        .collect();
    let claims = clients.iter().enumerate().map(async |(index, client)| {
        let by = format!("grant-{index}");
        let (status, answer) = claim(client, "crown", "ann", &by).await;
        let winner = if status == 201 {
            &answer["by"]
        } else {
            &answer["claimed_by"]
        };
        (status, winner.clone())
    });
    let answers = join_all(claims).await;
    let first: Vec<_> = answers
        .iter()
        .filter(|(status, _)| *status == 201)
        .collect();
    assert_eq!(first.len(), 1, "{answers:?}");
    assert!(
        answers.iter().all(|(_, by)| *by == first[0].1),
        "{answers:?}"
    );
    let same = clients
        .iter()
        .map(|client| claim(client, "half", "ann", "grant"));
    let answers = join_all(same).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.0 == status).count();
    assert_eq!((count(201), count(200)), (1, 23));
    assert!(answers.iter().all(|(_, body)| *body == answers[0].1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_before_the_result_is_part_of_it_and_a_later_one_revises_it() {
    for shards in [1, 3] {
        let world = world(2, shards).await;
        let client = world.client();
        // Nobody has come to the hide when the period is closed.
        hide(client, "ann").await;
        close(&world.instances[0]).await;
        assert_eq!(rewards(client, PERIOD).await, WITHOUT_ANN);
        assert!(revisions(client, PERIOD).await.is_empty());
        unhide(&world.instances[1].client, "ann").await;
        revise(&world.instances[1]).await;
        assert_eq!(rewards(client, PERIOD).await, HANDED_OUT);
        let changes = "2 ann unhidden 1: 4→5: crown bob lost, crown cid lost, crown ann gained, half ann gained";
        assert_eq!(
            sorted_changes(&revisions(client, PERIOD).await[0]),
            sorted_changes(changes)
        );
        let result = client.get(PERIOD).await.expect(200);
        assert_eq!(
            (
                &result["revision"],
                &result["total"],
                &result["winner"]["member"],
                &result["rewards"]
            ),
            (&json!(2), &json!(5), &json!("ann"), &json!(4))
        );
    }
}

fn sorted_changes(line: &str) -> Vec<String> {
    let (head, changes) = line.rsplit_once(": ").unwrap();
    let mut parts: Vec<String> = changes.split(", ").map(str::to_owned).collect();
    parts.sort_unstable();
    parts.insert(0, head.to_owned());
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_revokes_a_claimed_reward_and_its_end_restores_it() {
    for shards in [1, 3] {
        let world = closed(2, shards).await;
        let client = world.client();
        assert_eq!(claim(client, "crown", "ann", "g-1").await.0, 201);
        hide(client, "ann").await;
        // Whoever reads or claims next sees it, also before the job has come to it.
        let other = &world.instances[1].client;
        assert_eq!(claim(other, "half", "ann", "g-2").await.0, 404);
        assert_eq!(claim(other, "crown", "bob", "g-3").await.0, 201);
        assert_eq!(
            claim(other, "crown", "ann", "g-1").await.0,
            404,
            "it is hidden"
        );
        assert_eq!(
            rewards(client, PERIOD).await,
            [
                "crown 1 ann revoked",
                "crown 1 bob claimed",
                "crown 1 cid open",
                "half 1 bob open",
                "half 1 cid open"
            ]
        );
        unhide(client, "ann").await;
        // One who moves the revision on while others read.
        join_all(world.instances.iter().map(revise)).await;
        assert_eq!(
            rewards(other, PERIOD).await,
            [
                "crown 1 ann claimed",
                "crown 1 bob revoked",
                "half 1 ann open",
                "half 2 bob open",
                "half 2 cid open"
            ]
        );
        assert_eq!(claim(other, "crown", "ann", "g-1").await.0, 200);
        let (status, problem) = claim(other, "crown", "bob", "g-3").await;
        assert_eq!(
            (status, &problem["code"], &problem["claimed_by"]),
            (409, &json!("reward-revoked"), &json!("g-3"))
        );
        let told = revisions(client, PERIOD).await;
        let expected = [
            "2 ann hidden 1: 5→4: crown ann revoked, crown bob gained, crown cid gained, half ann lost",
            "3 ann unhidden 1: 4→5: crown ann restored, crown bob revoked, crown cid lost, half ann gained",
        ];
        assert_eq!(told.len(), 2, "{told:?}");
        for (told, expected) in told.iter().zip(expected) {
            assert_eq!(sorted_changes(told), sorted_changes(expected));
        }
        // Nobody else stands there: nothing to revise, but the hide is told.
        hide(client, "zoe").await;
        revise(&world.instances[0]).await;
        assert_eq!(client.get(PERIOD).await.expect(200)["revision"], 3);
        assert_eq!(
            posted(&world).await,
            [
                "member.hidden",
                "member.hidden",
                "period.final",
                "period.revised",
                "period.revised"
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_hides_make_one_revision_and_a_message_each() {
    let world = closed(1, 1).await;
    let client = world.client();
    for member in ["ann", "dan", "eve"] {
        hide(client, member).await;
    }
    revise(&world.instances[0]).await;
    assert_eq!(rewards(client, PERIOD).await, WITHOUT_ANN);
    assert_eq!(
        revisions(client, PERIOD).await,
        [
            "2 ann hidden 1, dan hidden 3, eve hidden 3: 5→2: crown ann lost, crown bob gained, crown cid gained, half ann lost",
        ]
    );
    let messages = posted(&world).await;
    let count = |kind: &str| messages.iter().filter(|told| *told == kind).count();
    assert_eq!([count("member.hidden"), count("period.revised")], [3, 3]);
    unhide(client, "ann").await;
    revise(&world.instances[0]).await;
    let result = client.get(PERIOD).await.expect(200);
    assert_eq!(
        [&result["revision"], &result["total"]],
        [&json!(3), &json!(3)]
    );
    assert_eq!(result["winner"]["member"], "ann");
}

/// What would happen if the holder of the lease were gone for some seconds.
async fn let_the_lease_expire(world: &World) {
    let words: [&[u8]; 4] = [b"HDEL", b"st:{b}", b"rewards:holder", b"rewards:until"];
    world.redis.run(&words).await;
}

/// Waits until the lease of a call that was dropped is given back. Returns whether it says how far the call came. A call that
/// was dropped while it asked for the lease gives nothing back; then the lease expires.
async fn is_noted_when_given_back(world: &World) -> bool {
    let held = b"local lease = redis.call('HMGET', KEYS[1], 'rewards:until', 'rewards:position')
        local time = redis.call('TIME')
        if tonumber(lease[1] or 0) > time[1] * 1000 + time[2] / 1000 then return 'held' end
        return (lease[2] or '') ~= '' and 'noted' or ''";
    let words: [&[u8]; 4] = [b"EVAL", held, b"1", b"st:{b}"];
    for _ in 0..50 {
        match world.redis.run(&words).await {
            Reply::Text(state) if state == b"held" => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            state => return state == Reply::text_of("noted"),
        }
    }
    let_the_lease_expire(world).await;
    false
}

#[tokio::test]
async fn other_calls_continue_where_a_dropped_one_stopped() {
    let world = closed(1, 1).await;
    let (client, service) = (world.client(), world.engine());
    let at = PeriodName {
        board: BoardId::parse("b").unwrap(),
        window: "day".to_owned(),
        choice: Choice::Key("2026-11-21".to_owned()),
    };
    let (mut is_hidden, mut waits, mut rounds) = (true, 0, 0);
    hide(client, "ann").await;
    loop {
        let read = results::work::read(service, &at, None);
        waits += 1;
        if Box::pin(break_off(read, waits)).await.is_none() {
            if is_noted_when_given_back(&world).await {
                break;
            }
            continue;
        }
        rounds += 1;
        assert!(
            rounds < 20,
            "no lease that was given back said how far its holder came"
        );
        (is_hidden, waits) = (!is_hidden, 0);
        if is_hidden {
            hide(client, "ann").await;
        } else {
            unhide(client, "ann").await;
        }
    }
    revise(&world.instances[0]).await;
    let expected = if is_hidden { WITHOUT_ANN } else { HANDED_OUT };
    assert_eq!(rewards(client, PERIOD).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reward_is_handed_out_once_wherever_closing_and_revision_are_interrupted() {
    let world = World::with_instances(2, "2026-11-01T12:00:00Z").await;
    let client = world.client();
    client.define("b", definition(2)).await;
    let engines = [0, 1].map(|place| &world.instances[place].engine);
    // Both have the board in memory.
    let other = &world.instances[1].client;
    other.get("/v1/boards/b/summary").await.expect(200);
    let mut is_done = [false; 2];
    for day in 1..29 {
        let key = format!("2026-11-{day:02}");
        let period = format!("/v1/boards/b/standings/day/periods/{key}");
        world.set_time(&format!("{key}T12:00:00Z"));
        play(client, &key).await;
        world.set_time(&format!("2026-11-{:02}T00:10:00Z", day + 1));
        let waits = day * day / 4 + 1;
        is_done[0] |= break_off(engines[0].run(&ClosePeriods), waits)
            .await
            .is_some();
        let_the_lease_expire(&world).await;
        close(&world.instances[1]).await;
        assert_eq!(rewards(client, &period).await, HANDED_OUT, "{key}");
        assert_eq!(client.get(&period).await.expect(200)["revision"], 1);
        let by = json!({"by": "g"});
        client
            .put(&claim_path(&period, "crown", "ann"), by)
            .await
            .expect(201);
        if day % 4 != 0 {
            continue;
        }
        // All periods so far are revised.
        hide(client, "ann").await;
        is_done[1] |= break_off(engines[0].run(&Revisions), waits).await.is_some();
        let_the_lease_expire(&world).await;
        revise(&world.instances[1]).await;
        let after_hide = rewards(client, &period).await;
        unhide(client, "ann").await;
        break_off(engines[0].run(&Revisions), waits).await;
        let_the_lease_expire(&world).await;
        revise(&world.instances[1]).await;
        let without = ["crown 1 ann revoked"].into_iter().chain(WITHOUT_ANN);
        assert_eq!(after_hide, without.collect::<Vec<_>>());
        let mut given_back = HANDED_OUT;
        given_back[0] = "crown 1 ann claimed";
        for earlier in 1..=day {
            let period = format!("/v1/boards/b/standings/day/periods/2026-11-{earlier:02}");
            assert_eq!(
                rewards(client, &period).await,
                given_back,
                "{earlier} on {day}"
            );
            // Two for each hide since.
            let times = day / 4 - (earlier - 1) / 4;
            let revision = client.get(&period).await.expect(200)["revision"].clone();
            assert_eq!(revision, 1 + 2 * times, "{earlier} on {day}");
        }
    }
    assert!(is_done[0], "a closing has more steps than were broken off");
}

#[tokio::test(flavor = "multi_thread")]
async fn rewards_claims_and_unrevised_hides_move_with_the_board() {
    for (from, to) in [(1, 3), (3, 1), (2, 4)] {
        let world = closed(2, from).await;
        let client = world.client();
        assert_eq!(claim(client, "crown", "ann", "g").await.0, 201);
        hide(client, "ann").await;
        revise(&world.instances[0]).await;
        hide(client, "bob").await;
        client.spread("b", to).await;
        world.instances[1].end_move("b").await;
        join_all(world.instances.iter().map(revise)).await;
        let told = revisions(client, PERIOD).await;
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(
            sorted_changes(&told[1]),
            sorted_changes("3 bob hidden 1: 4→3: crown bob lost, half bob lost, half dan gained")
        );
        assert_eq!(
            rewards(client, PERIOD).await,
            [
                "crown 1 ann revoked",
                "crown 1 cid open",
                "half 1 cid open",
                "half 2 dan open"
            ]
        );
        unhide(client, "ann").await;
        unhide(client, "bob").await;
        let mut given_back = HANDED_OUT;
        given_back[0] = "crown 1 ann claimed";
        assert_eq!(rewards(client, PERIOD).await, given_back);
        assert_eq!(client.get(PERIOD).await.expect(200)["revision"], 4);
        assert_eq!(claim(client, "crown", "ann", "g").await.0, 200);
        assert_eq!(claim(client, "half", "bob", "g").await.0, 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_member_is_named_in_no_revision() {
    let world = closed(1, 1).await;
    let client = world.client();
    hide(client, "ann").await;
    revise(&world.instances[0]).await;
    unhide(client, "ann").await;
    revise(&world.instances[0]).await;
    let erased = client.delete("/v1/boards/b/members/ann").await;
    assert!(erased.status.is_success(), "{}", erased.text);
    let told = revisions(client, PERIOD).await;
    assert!(told[0].starts_with("2 null hidden"), "{told:?}");
    let left = world.keys_with("st:{b}:*:revise*", "ann").await;
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(claim(client, "crown", "ann", "g").await.0, 404);
}

/// What has become of a reward that several callers claim while its winner is hidden and brought back, step by step.
#[derive(Clone, Debug, Default)]
struct Sequence {
    is_hidden: bool,
    claimed_by: Option<String>,
}

impl Sequence {
    /// The status of a claim, and under which name the reward is claimed then.
    fn claim(&mut self, by: &str) -> (u16, Option<String>) {
        if self.is_hidden {
            return (404, None);
        }
        let known = self.claimed_by.clone();
        let claimed_by = self.claimed_by.get_or_insert_with(|| by.to_owned());
        let status = match known {
            None => 201,
            Some(known) if known == by => 200,
            Some(_) => 409,
        };
        (status, Some(claimed_by.clone()))
    }
}

/// Whether there is an order of these claims and of what was done with the member meanwhile, in that order, with these answers.
/// Returns what may have become of it then.
fn orders(
    state: &Sequence,
    moderations: &[bool],
    claims: &[(String, (u16, Option<String>))],
) -> Vec<Sequence> {
    let mut found = Vec::new();
    if moderations.is_empty() && claims.is_empty() {
        found.push(state.clone());
    }
    if let Some((is_hidden, rest)) = moderations.split_first() {
        let next = Sequence {
            is_hidden: *is_hidden,
            ..state.clone()
        };
        found.extend(orders(&next, rest, claims));
    }
    for (place, (by, answered)) in claims.iter().enumerate() {
        let mut next = state.clone();
        if next.claim(by) == *answered {
            let mut rest = claims.to_vec();
            rest.remove(place);
            found.extend(orders(&next, moderations, &rest));
        }
    }
    found.dedup_by(|one, other| one.claimed_by == other.claimed_by);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_and_hides_on_three_instances_end_as_in_sequence() {
    for shards in [1, 3] {
        let world = World::with_instances(3, "2026-11-01T12:00:00Z").await;
        let client = world.client();
        client.define("b", definition(shards)).await;
        let mut random = Random::new(15);
        for day in 1..=12 {
            let key = format!("2026-11-{day:02}");
            let period = format!("/v1/boards/b/standings/day/periods/{key}");
            world.set_time(&format!("{key}T12:00:00Z"));
            play(client, &key).await;
            world.set_time(&format!("2026-11-{:02}T00:10:00Z", day + 1));
            close(&world.instances[0]).await;
            let mut state = Sequence::default();
            for round in 0..4 {
                let moderations: Vec<bool> =
                    [vec![], vec![true], vec![true, false], vec![false]][random.below(4)].clone();
                let claims = world
                    .instances
                    .iter()
                    .enumerate()
                    .map(async |(place, instance)| {
                        let by = format!("grant-{}", (place + round + day) % 2);
                        let path = claim_path(&period, "crown", "ann");
                        let answer = instance.client.put(&path, json!({ "by": by })).await;
                        let named = [&answer.json["by"], &answer.json["claimed_by"]];
                        let named = named.iter().find_map(|name| name.as_str());
                        (
                            by.clone(),
                            (answer.status.as_u16(), named.map(str::to_owned)),
                        )
                    });
                let moderate = async {
                    for is_hidden in &moderations {
                        let client = &world.instances[random.below(3)].client;
                        if *is_hidden {
                            hide(client, "ann").await;
                        } else {
                            // The member may not be hidden.
                            client.delete("/v1/boards/b/hidden/ann").await;
                        }
                    }
                };
                let (answers, ()) = tokio::join!(join_all(claims), moderate);
                let possible = orders(&state, &moderations, &answers);
                assert!(
                    !possible.is_empty(),
                    "{state:?}, {moderations:?}: {answers:?}"
                );
                let listed = rewards(&world.instances[round % 3].client, &period).await;
                let last = moderations.last().copied();
                let is_hidden = last.unwrap_or(state.is_hidden);
                let shown: Vec<&String> = listed
                    .iter()
                    .filter(|line| line.starts_with("crown") && line.contains("ann"))
                    .collect();
                let fits = |state: &&Sequence| match (is_hidden, &state.claimed_by) {
                    (true, None) => shown.is_empty(),
                    (true, Some(_)) => shown == ["crown 1 ann revoked"],
                    (false, None) => shown == ["crown 1 ann open"],
                    (false, Some(_)) => shown == ["crown 1 ann claimed"],
                };
                let found = possible
                    .iter()
                    .find(fits)
                    .unwrap_or_else(|| panic!("{possible:?}: {listed:?}"));
                state = found.clone();
            }
            // On record is who was the first, whatever came then.
            let _ = client.delete("/v1/boards/b/hidden/ann").await;
            let (status, _) = {
                let path = claim_path(&period, "crown", "ann");
                let by = state.claimed_by.clone().unwrap_or("late".to_owned());
                let answer = client.put(&path, json!({ "by": by })).await;
                (answer.status.as_u16(), answer.json)
            };
            assert_eq!(status, if state.claimed_by.is_some() { 200 } else { 201 });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_erased_before_its_hide_is_revised_is_in_no_result() {
    for shards in [1, 3] {
        let world = closed(2, shards).await;
        let client = world.client();
        hide(client, "ann").await;
        let erased = client.delete("/v1/boards/b/members/ann").await;
        assert!(erased.status.is_success(), "{}", erased.text);
        assert_eq!(rewards(client, PERIOD).await, WITHOUT_ANN);
        let result = client.get(PERIOD).await.expect(200);
        assert_eq!(
            (&result["total"], &result["winner"]["member"]),
            (&json!(4), &json!("bob"))
        );
        assert_eq!(
            (&result["revision"], &result["rewards"]),
            (&json!(2), &json!(4))
        );
        // The same for a member who was brought back.
        hide(client, "bob").await;
        revise(&world.instances[0]).await;
        unhide(client, "bob").await;
        let erased = client.delete("/v1/boards/b/members/bob").await;
        assert!(erased.status.is_success(), "{}", erased.text);
        let result = client.get(PERIOD).await.expect(200);
        assert_eq!(
            (&result["total"], &result["revision"]),
            (&json!(4), &json!(4))
        );
        assert_eq!(
            rewards(client, PERIOD).await,
            [
                "crown 1 null open",
                "crown 1 cid open",
                "half 1 null open",
                "half 1 cid open"
            ]
        );
    }
}

/// Hides a member and brings it back, again and again, until it is over.
async fn moderate(client: &Client, member: &str, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        hide(client, member).await;
        unhide(client, member).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasures_end_while_other_members_are_moderated() {
    for shards in [1, 3] {
        let world = closed(2, shards).await;
        let client = world.client();
        let is_over = AtomicBool::new(false);
        let moderated = ["bob", "cid", "eve"];
        let moderators = moderated
            .iter()
            .map(|member| moderate(client, member, &is_over));
        let erase = async {
            for _ in 0..2 {
                // Its result has to be revised before it can be erased.
                hide(client, "ann").await;
                let erased = client.delete("/v1/boards/b/members/ann").await;
                assert!(erased.status.is_success(), "{}", erased.text);
                unhide(client, "ann").await;
            }
            is_over.store(true, Ordering::Relaxed);
        };
        join(join_all(moderators), erase).await;
        revise(&world.instances[1]).await;
        assert_eq!(rewards(client, PERIOD).await, WITHOUT_ANN);
    }
}

/// A member with an initial score stands in every period, also where its shard has no event.
#[tokio::test(flavor = "multi_thread")]
async fn a_hide_revises_periods_in_which_no_member_of_the_shard_has_an_event() {
    let world = World::with_instances(1, "2026-11-21T12:00:00Z").await;
    let client = world.client();
    let mut definition = definition(4);
    definition["initial"] = json!(["day"]);
    client.define("b", definition).await;
    let members: Vec<String> = (0..12).map(|number| format!("m{number}")).collect();
    let scores: Value = members
        .iter()
        .zip(100..)
        .map(|(member, score)| (member.clone(), json!(score)))
        .collect();
    let path = "/v1/boards/b/initial-scores";
    client
        .patch(path, json!({"scores": scores}))
        .await
        .expect(200);
    send(client, "2026-11-21", "m0", 1).await;
    world.set_time("2026-11-22T00:10:00Z");
    close(&world.instances[0]).await;
    for (index, hidden) in members.iter().rev().take(8).enumerate() {
        let result = client.get(PERIOD).await.expect(200);
        assert_eq!(
            [
                &result["winner"]["member"],
                &result["total"],
                &result["revision"]
            ],
            [&json!(hidden), &json!(12 - index), &json!(1 + index)]
        );
        hide(client, hidden).await;
    }
}

/// A journal forgets old lines. Before that whoever hides notes them, if no job does.
#[tokio::test(flavor = "multi_thread")]
async fn journal_lines_that_revise_results_are_noted_before_they_are_pruned() {
    let world = closed(1, 1).await;
    let (client, engine) = (world.client(), &world.engine());
    let board = engine.board(&BoardId::parse("b").unwrap()).await.unwrap();
    hide(client, "ann").await;
    unhide(client, "ann").await;
    let noted = async || {
        revisions::store::revised(&engine.store, &board)
            .await
            .unwrap()["b"]
    };
    assert_eq!(noted().await, 0);
    // As if many others had been hidden and brought back since.
    world
        .redis
        .run(&[b"HSET", b"st:{b}", b"hides", b"3000"])
        .await;
    hide(client, "bob").await;
    assert_eq!(noted().await, 3000);
    let lines = revisions::store::lines_to_revise(&engine.store, &board, 1)
        .await
        .unwrap();
    let line = &lines[0];
    assert_eq!((line.member.as_str(), line.number), ("ann", 2));
}
