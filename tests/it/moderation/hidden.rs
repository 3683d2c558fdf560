//! Hidden members: whoever was hidden before a read began is nowhere in it, and the others close up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use standings::check;
use standings::core::Engine;
use standings::core::hide::store::hidden::new_hide_id;
use standings::domain::hide::{Hide, Reason};
use standings::domain::ids::{BoardId, MemberId};
use standings::moderation;

use crate::harness::jobs::HiddenLists;
use crate::harness::random::{Random, case_count, seed};
use crate::harness::{Client, World, break_off};

const NOW: &str = "2026-11-21T12:00:00Z";
/// How many hides and unhides a board gets while it is read.
const CHANGES: usize = 100;
/// How many members it has.
const MEMBERS: usize = 40;

fn board(id: &str) -> BoardId {
    BoardId::parse(id).unwrap()
}

async fn set_hidden(engine: &Engine, id: &str, member: &str, is_hidden: bool) {
    let (id, member) = (board(id), MemberId::parse(member).unwrap());
    if is_hidden {
        let hide = Hide {
            id: new_hide_id().unwrap(),
            reason: Reason::parse("cheating").unwrap(),
            by: "mod".to_owned(),
            since: engine.clock.now(),
            until: None,
        };
        moderation::work::hide(engine, &id, &member, &hide)
            .await
            .unwrap();
    } else {
        moderation::work::unhide(engine, &id, &member)
            .await
            .unwrap();
    }
}

/// Members in the order of their ranks: the first has the most points.
async fn fill(client: &Client, id: &str, count: usize) {
    let events: Vec<Value> = (0..count)
        .map(|index| json!({"board": id, "member": format!("m{index}"), "score": count - index}))
        .collect();
    for part in events.chunks(1_000) {
        let body = json!({"events": part});
        client
            .post("/v1/events?standings=false", body)
            .await
            .expect(200);
    }
}

/// Whether a member is hidden, `None` while that changes, and how often it has changed.
type Known = BTreeMap<String, (Option<bool>, u64)>;

/// Hides members and brings them back, until it has done so often enough.
async fn moderate(engine: &Engine, id: &str, known: &Mutex<Known>, number: u64) {
    let mut random = Random::new(seed(number));
    for _ in 0..case_count(CHANGES) {
        let member = format!("m{}", random.below(MEMBERS));
        let is_hidden = {
            let mut known = known.lock();
            let known = known.get_mut(&member).unwrap();
            // Another moderator is at it.
            let Some(was_hidden) = known.0 else { continue };
            *known = (None, known.1 + 1);
            !was_hidden
        };
        set_hidden(engine, id, &member, is_hidden).await;
        known.lock().get_mut(&member).unwrap().0 = Some(is_hidden);
    }
}

/// Those who were hidden, or were not, all the time between two looks.
fn surely(before: &Known, after: &Known, is_hidden: bool) -> BTreeSet<String> {
    let same = before
        .iter()
        .filter(|(member, known)| known.0 == Some(is_hidden) && after[*member] == **known);
    same.map(|(member, _)| member.clone()).collect()
}

/// Reads a page with everybody, and checks it; returns how many reads that took.
async fn look(client: &Client, id: &str, known: &Mutex<Known>, me: &str) -> usize {
    let before = known.lock().clone();
    let path = format!("/v1/boards/{id}/standings/all?size=1000&member={me}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap();
    let after = known.lock().clone();
    let shown: Vec<&str> = entries
        .iter()
        .map(|entry| entry["member"].as_str().unwrap())
        .collect();
    for member in surely(&before, &after, true) {
        assert!(!shown.contains(&&*member), "{member} is hidden: {page}");
    }
    for member in surely(&before, &after, false) {
        assert!(shown.contains(&&*member), "{member} is not hidden: {page}");
    }
    let distinct: BTreeSet<&&str> = shown.iter().collect();
    assert_eq!(distinct.len(), shown.len(), "{page}");
    for (index, entry) in entries.iter().enumerate() {
        assert_eq!(entry["rank"], json!(index + 1), "{page}");
    }
    assert_eq!(page["total"], json!(entries.len()), "{page}");
    let before = known.lock().clone();
    let path = format!("/v1/boards/{id}/standings/all/members/{me}?around=2");
    let answer = client.get(&path).await;
    let after = known.lock().clone();
    if surely(&before, &after, true).contains(me) {
        answer.expect_problem(404, "member-not-found");
    } else if surely(&before, &after, false).contains(me) {
        let own = answer.expect(200);
        // Those who are surely ahead, and those who may be.
        let place: usize = me[1..].parse().unwrap();
        let ahead = |members: BTreeSet<String>| {
            let places = members.iter().map(|member| member[1..].parse().unwrap());
            places.filter(|other: &usize| *other < place).count()
        };
        let surely_ahead = ahead(surely(&before, &after, false));
        let at_most = place - ahead(surely(&before, &after, true));
        let rank = usize::try_from(own["rank"].as_u64().unwrap()).unwrap();
        assert!((surely_ahead + 1..=at_most + 1).contains(&rank), "{own}");
    }
    2
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_hide_returns_the_member_is_not_shown_and_ranks_have_no_gaps() {
    let world = World::with_instances(2, NOW).await;
    for (id, shards) in [("one", 1), ("two", 2), ("seven", 7)] {
        let definition = json!({"windows": ["all"], "shards": shards});
        world.client().define(id, definition).await;
        fill(world.client(), id, MEMBERS).await;
        let known: Known = (0..MEMBERS)
            .map(|index| (format!("m{index}"), (Some(false), 0)))
            .collect();
        let known = Mutex::new(known);
        let is_over = AtomicBool::new(false);
        let moderators = world.instances.iter().zip(1..);
        let moderating = async {
            let all =
                moderators.map(|(instance, number)| moderate(&instance.engine, id, &known, number));
            join_all(all).await;
            is_over.store(true, Ordering::SeqCst);
        };
        let reading = (0..6_usize).map(async |reader| {
            let client = &world.instances[reader % 2].client;
            let (mut random, mut reads) = (Random::new(seed(reader as u64)), 0);
            while !is_over.load(Ordering::SeqCst) || reads < case_count(50) {
                let me = format!("m{}", random.below(MEMBERS));
                reads += look(client, id, &known, &me).await;
            }
            reads
        });
        let ((), reads) = tokio::join!(moderating, join_all(reading));
        assert!(reads.iter().sum::<usize>() >= case_count(300), "{reads:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_never_hid_anyone_has_no_extra_keys() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["day", "last-3-days"], "ranking": "dense"});
    world.client().define("b", definition).await;
    fill(world.client(), "b", 5).await;
    for window in ["day", "last-3-days"] {
        let path = format!("/v1/boards/b/standings/{window}");
        world.client().get(&path).await.expect(200);
    }
    let keys = world.redis.keys("st:{b*").await;
    assert!(!keys.iter().any(|key| key.contains("hid")), "{keys:?}");
}

/// The members of a list that shows the best five are right, their ranks and their number too.
async fn check_best(client: &Client, count: usize, hidden: &BTreeSet<usize>) {
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    let visible = (0..count).filter(|index| !hidden.contains(index));
    let best: Vec<Value> = visible
        .take(5)
        .zip(1..)
        .map(|(index, rank)| json!([rank, format!("m{index}")]))
        .collect();
    let entries = page["entries"].as_array().unwrap().iter();
    let shown: Vec<Value> = entries
        .map(|entry| json!([entry["rank"], entry["member"]]))
        .collect();
    assert_eq!(shown, best, "{} are hidden", hidden.len());
    assert_eq!(page["total"], json!(count - hidden.len()));
    assert_eq!(page["listed"], json!(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_list_is_exact_however_many_of_its_spare_entries_are_hidden() {
    const COUNT: usize = 4_000;
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["all"], "update": "max", "keep_top": 5});
    world.client().define("b", definition).await;
    fill(world.client(), "b", COUNT).await;
    let (client, engine) = (world.client(), world.engine());
    let mut hidden = BTreeSet::new();
    let hide = async |hidden: &mut BTreeSet<usize>, to: usize| {
        for from in (hidden.len()..to).step_by(100) {
            let members: Vec<String> = (from..to.min(from + 100))
                .map(|index| format!("m{index}"))
                .collect();
            join_all(
                members
                    .iter()
                    .map(|member| set_hidden(engine, "b", member, true)),
            )
            .await;
        }
        hidden.extend(0..to);
    };
    let narrow = async || world.redis.run(&[b"SCARD", b"st:{boards}:narrow"]).await;
    let none = crate::harness::redis::Reply::Integer(0);
    check_best(client, COUNT, &hidden).await;
    hide(&mut hidden, 490).await;
    check_best(client, COUNT, &hidden).await;
    assert_eq!(narrow().await, none, "less than half of the spare is used");
    hide(&mut hidden, 600).await;
    check_best(client, COUNT, &hidden).await;
    assert_ne!(narrow().await, none, "more than half of it is");
    // The job has come half-way, and more are hidden.
    let all = async || engine.run(&HiddenLists).await;
    assert!(break_off(all(), 12).await.is_none());
    hide(&mut hidden, 700).await;
    check_best(client, COUNT, &hidden).await;
    all().await.unwrap();
    assert_eq!(narrow().await, none, "the list is wide enough");
    hide(&mut hidden, 1_100).await;
    check_best(client, COUNT, &hidden).await;
    // More than the job had made room for: a read finds more members itself.
    hide(&mut hidden, 3_900).await;
    check_best(client, COUNT, &hidden).await;
    // Events meet the wide list.
    let events = (0..COUNT)
        .step_by(10)
        .map(|index| json!({"board": "b", "member": format!("m{index}"), "score": COUNT - index}));
    let body = json!({"events": events.collect::<Vec<_>>()});
    client
        .post("/v1/events?standings=false", body)
        .await
        .expect(200);
    check_best(client, COUNT, &hidden).await;
    let back = (0..3_900)
        .filter(|index| index % 39 == 3)
        .collect::<Vec<usize>>();
    for index in &back {
        set_hidden(engine, "b", &format!("m{index}"), false).await;
        hidden.remove(index);
    }
    check_best(client, COUNT, &hidden).await;
    let found = check::run(engine, Some(&board("b")), check::Repair::None)
        .await
        .unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
}
