//! Events that are revoked: all that match something.

use std::time::Duration;

use serde_json::{Value, json};
use standings::check::Repair;
use standings::corrections::revocations::work::{self, WantedRevocation};
use standings::domain::ids::{BoardId, Label};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::corrections::{
    DAY, WHY, check, closed, page, posted, restore, result, retract, revisions, send, world,
};
use crate::harness::client::Answer;
use crate::harness::jobs::{ApplyQueues, Histories, Moves, Revisions, Revocations};
use crate::harness::{Client, World, break_off};

const REVOCATIONS: &str = "/v1/boards/b/revocations";

async fn revoke(client: &Client, criteria: Value) -> Answer {
    let mut body = criteria;
    body["reason"] = json!(WHY);
    client.post(REVOCATIONS, body).await
}

async fn restore_all(client: &Client, number: u64) -> Answer {
    let path = format!("{REVOCATIONS}/{number}/restore");
    client.post(&path, json!({"reason": WHY})).await
}

/// The scores of all time.
async fn scores(client: &Client) -> Vec<(String, i64)> {
    let page = page(client, "b", "all").await.into_iter();
    page.map(|(member, _, score)| (member, score)).collect()
}

fn own(entries: &[(&str, i64)]) -> Vec<(String, i64)> {
    let entries = entries.iter();
    entries
        .map(|(member, score)| ((*member).to_owned(), *score))
        .collect()
}

/// The status and the kind of a problem.
fn problem(answer: &Answer) -> (u16, String) {
    let kind = answer.json["type"].as_str().unwrap_or_default();
    (
        answer.status.as_u16(),
        kind.trim_start_matches("/problems/").to_owned(),
    )
}

async fn vote(client: &Client, id: &str, member: &str, voter: &str) -> Value {
    send(
        client,
        json!({"id": id, "member": member, "score": 1, "voter": voter}),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_votes_of_a_bot_are_taken_back_and_later_ones_count() {
    for shards in [1, 7] {
        let world = world(json!({"windows": ["day", "all"], "history": "board", "shards": shards, "uniques": "board"})).await;
        let client = world.client();
        for number in 0..5 {
            vote(
                client,
                &format!("bot-{number}"),
                ["a", "b"][number % 2],
                "bot",
            )
            .await;
        }
        vote(client, "fair-1", "a", "v1").await;
        vote(client, "fair-2", "b", "v2").await;
        vote(client, "fair-3", "b", "v3").await;
        assert_eq!(scores(client).await, own(&[("a", 4), ("b", 4)]));

        let dry = json!({"voter": "bot", "dry_run": true});
        let counted = revoke(client, dry).await.expect(200);
        assert_eq!(counted["status"], "done");
        let report = &counted["report"];
        assert_eq!(
            (&report["events"], &report["members"]),
            (&json!(5), &json!(2))
        );
        let losses = json!([{"member": "a", "events": 3, "score": 3}, {"member": "b", "events": 2, "score": 2}]);
        assert_eq!(report["losses"], losses);
        assert_eq!(scores(client).await, own(&[("a", 4), ("b", 4)]));

        let done = revoke(client, json!({"voter": "bot"})).await.expect(200);
        assert_eq!(
            (&done["number"], &done["status"]),
            (&json!(2), &json!("done"))
        );
        assert_eq!(done["criteria"], json!({"voter": "bot"}));
        assert_eq!(done["report"]["failed"], json!([]));
        assert_eq!(scores(client).await, own(&[("b", 2), ("a", 1)]));
        let stats = client
            .get("/v1/boards/b/standings/day/stats")
            .await
            .expect(200);
        assert_eq!((&stats["events"], &stats["voters"]), (&json!(3), &json!(4)));

        // A retry stays one, and what comes later counts.
        let again = vote(client, "bot-0", "a", "bot").await;
        assert_eq!(again["status"], "duplicate");
        vote(client, "bot-9", "a", "bot").await;
        assert_eq!(scores(client).await, own(&[("b", 2), ("a", 2)]));
        let listed = client
            .get("/v1/boards/b/events?voter=bot")
            .await
            .expect(200);
        let revoked = listed["events"].as_array().unwrap().iter();
        let revoked = revoked.map(|event| event["revoked"].as_bool().unwrap());
        assert_eq!(
            revoked.collect::<Vec<_>>(),
            [false, true, true, true, true, true]
        );
        // One that is restored alone stays out, since the revocation is in force.
        assert_eq!(restore(client, "bot-0").await["event"]["revoked"], true);
        assert_eq!(scores(client).await, own(&[("b", 2), ("a", 2)]));
        check(&world, "b").await;

        let restored = restore_all(client, 2).await.expect(200);
        assert_eq!(restored["status"], "restored");
        assert_eq!(restored["restored"]["events"], 5);
        assert_eq!(scores(client).await, own(&[("a", 5), ("b", 4)]));
        // Repeated, it changes nothing.
        restore_all(client, 2).await.expect(200);
        let listed = client.get(REVOCATIONS).await.expect(200);
        let listed = listed["revocations"].as_array().unwrap().iter();
        let listed: Vec<_> = listed
            .map(|one| one["status"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(listed, ["restored", "done"]);
        let read = client.get(&format!("{REVOCATIONS}/2")).await.expect(200);
        assert_eq!(read["status"], "restored");
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_out_while_it_is_retracted_or_any_revocation_covers_it() {
    // Each order in which the three are taken back.
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let world = world(json!({"windows": ["all"], "history": "board", "update": "max"})).await;
        let client = world.client();
        let event =
            json!({"id": "e", "member": "ann", "score": 9, "voter": "v", "ip": "192.0.2.7"});
        send(client, event).await;
        send(
            client,
            json!({"id": "f", "member": "ann", "score": 3, "ip": "192.0.2.7"}),
        )
        .await;
        send(client, json!({"id": "g", "member": "ann", "score": 1})).await;
        revoke(client, json!({"voter": "v"})).await.expect(200);
        assert_eq!(scores(client).await, own(&[("ann", 3)]));
        revoke(client, json!({"ip": "192.0.2.7"})).await.expect(200);
        assert_eq!(scores(client).await, own(&[("ann", 1)]));
        retract(client, "e").await;
        for (place, taken_back) in order.into_iter().enumerate() {
            match taken_back {
                0 => drop(restore_all(client, 1).await.expect(200)),
                1 => drop(restore_all(client, 2).await.expect(200)),
                _ => drop(restore(client, "e").await),
            }
            let left = &order[place + 1..];
            let expected = match (left.is_empty(), left.contains(&1)) {
                (true, _) => 9,
                (false, true) => 1,
                (false, false) => 3,
            };
            assert_eq!(
                scores(client).await,
                own(&[("ann", expected)]),
                "{order:?} {place}"
            );
        }
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_revoked_is_refused_by_name() {
    let world = world(json!({"windows": ["all"]})).await;
    let client = world.client();
    let is = |status, kind: &str| (status, kind.to_owned());
    let off = revoke(client, json!({"voter": "v"})).await;
    assert_eq!(problem(&off), is(409, "history-off"));
    client
        .patch("/v1/boards/b", json!({"history": "board"}))
        .await
        .expect(200);
    world.engine().run(&Histories).await.unwrap();
    for (criteria, detail) in [
        (json!({}), "needs one of"),
        (json!({"since": "2026-11-21T12:00:00Z"}), "needs one of"),
        (json!({"events": []}), "1 to 10000"),
        (json!({"ip": "somewhere"}), "address"),
        (json!({"voter": ""}), "1 to"),
        (json!({"events": ["x", ""]}), "1 to"),
    ] {
        let refused = revoke(client, criteria.clone()).await;
        assert_eq!(
            problem(&refused),
            is(422, "validation-failed"),
            "{criteria}"
        );
        assert!(
            refused.text.contains(detail),
            "{criteria}: {}",
            refused.text
        );
    }
    let missing = restore_all(client, 7).await;
    assert_eq!(problem(&missing), is(404, "revocation-not-found"));
    let missing = client.get(&format!("{REVOCATIONS}/07")).await;
    assert_eq!(missing.status, 400);
    let nothing = client.get(REVOCATIONS).await.expect(200);
    assert_eq!(nothing, json!({"revocations": [], "next": null}));
    vote(client, "kept", "a", "v").await;
    for number in 0..100 {
        revoke(client, json!({"voter": format!("v{number}")}))
            .await
            .expect(200);
    }
    let full = revoke(client, json!({"voter": "v"})).await;
    assert_eq!(problem(&full), is(409, "too-many-revocations"));
    revoke(client, json!({"voter": "v", "dry_run": true}))
        .await
        .expect(200);
    restore_all(client, 50).await.expect(200);
    revoke(client, json!({"voter": "v"})).await.expect(200);
    // Those in force are listed, and the last hundred others.
    let mut after = String::new();
    let mut count = 0;
    loop {
        let part = client
            .get(&format!("{REVOCATIONS}?limit=30{after}"))
            .await
            .expect(200);
        count += part["revocations"].as_array().unwrap().len();
        let Some(next) = part["next"].as_str() else {
            break;
        };
        after = format!("&after={next}");
    }
    assert_eq!(count, 102);
}

/// A revocation that waits for a queued event, which nothing applies: the request goes on meanwhile.
async fn waiting(world: &World, criteria: Value) -> JoinHandle<Answer> {
    let client = world.instances[1].client.clone();
    let running = tokio::spawn(async move { revoke(&client, criteria).await });
    while world.client().get(&format!("{REVOCATIONS}/1")).await.json["status"] != "running" {
        assert!(!running.is_finished());
        sleep(Duration::from_millis(10)).await;
    }
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_the_queue_is_covered_and_what_is_queued_later_is_not() {
    for shards in [1, 7] {
        let world = world(json!({"windows": ["all"], "history": "board", "shards": shards})).await;
        let client = world.client();
        let queue = async |id: &str, member: &str, score| {
            let event = json!({"id": id, "member": member, "score": score, "voter": "bot"});
            let queued = client.queueing().post("/v1/boards/b/events", event).await;
            queued.expect(202);
        };
        for number in 0..6 {
            queue(&format!("q{number}"), ["a", "b", "c"][number % 3], 1).await;
        }
        let running = waiting(&world, json!({"voter": "bot"})).await;
        queue("later", "a", 5).await;
        let direct = json!({"id": "direct", "member": "b", "score": 7, "voter": "bot"});
        send(client, direct).await;
        // The queued event is as old as it was when it was queued, however it arrives.
        let again = json!({"id": "q0", "member": "a", "score": 1, "voter": "bot"});
        send(client, again).await;
        let other = revoke(client, json!({"voter": "bot"})).await;
        assert_eq!(problem(&other), (409, "revocation-running".to_owned()));
        let moved = client.put("/v1/boards/b/shards", json!({"count": 3})).await;
        assert_eq!(problem(&moved), (409, "revocation-running".to_owned()));
        let applying = world.instances[0].apply_queues();
        let done = running.await.unwrap().expect(200);
        assert_eq!(
            (&done["status"], &done["report"]["events"]),
            (&json!("done"), &json!(6))
        );
        drop(applying);
        world.engine().run(&ApplyQueues).await.unwrap();
        assert_eq!(scores(client).await, own(&[("b", 7), ("a", 5)]));
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_results_of_closed_periods_wait_for_a_revocation_and_get_one_revision() {
    for shards in [1, 7] {
        let world = closed(shards).await;
        let client = world.client();
        assert_eq!(result(client).await.2, "ann");
        let claim = async |member: &str| {
            let path = format!("{DAY}/rewards/crown/members/{member}/claim");
            client.once().put(&path, json!({"by": "grant"})).await
        };
        let event = json!({"id": "q", "member": "eve", "score": 1, "voter": "v"});
        client
            .queueing()
            .post("/v1/boards/b/events", event)
            .await
            .expect(202);
        let running = waiting(&world, json!({"events": ["ann", "bob"]})).await;
        let read = client.get(DAY).await.expect(200);
        assert_eq!(read["revising"], true);
        let pending = (503, "standing-pending".to_owned());
        let rewards = client.once().get(&format!("{DAY}/rewards")).await;
        assert_eq!(problem(&rewards), pending);
        assert_eq!(problem(&claim("ann").await), pending);
        let applying = world.instances[0].apply_queues();
        running.await.unwrap().expect(200);
        drop(applying);
        world.engine().run(&Revisions).await.unwrap();
        let (revision, total, winner, _) = result(client).await;
        assert_eq!((revision, total, &*winner), (2, 3, "cid"));
        assert_eq!(revisions(client).await.len(), 1);
        assert!(revisions(client).await[0].0);
        restore_all(client, 1).await.expect(200);
        let (revision, total, winner, _) = result(client).await;
        assert_eq!((revision, total, &*winner), (3, 5, "ann"));
        check(&world, "b").await;
        let kinds = posted(&world).await;
        let revoked = kinds.iter().filter(|kind| kind.contains("events.revoked"));
        assert_eq!(revoked.count(), 2, "{kinds:?}");
        assert!(kinds.iter().all(|kind| !kind.contains("event.retracted")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_whose_instance_dies_is_carried_out_by_another_one() {
    for waits in 0..10 {
        let world = world(
            json!({"windows": ["day", "all", "last-3-days"], "history": "board", "shards": 3}),
        )
        .await;
        let client = world.client();
        for number in 0..24 {
            let voter = ["bot", "v"][number % 2];
            vote(
                client,
                &format!("e{number}"),
                &format!("m{}", number % 5),
                voter,
            )
            .await;
        }
        let wanted = WantedRevocation {
            voter: Some(Label::parse("bot").unwrap()),
            reason: WHY.to_owned(),
            ..WantedRevocation::default()
        };
        let id = BoardId::parse("b").unwrap();
        break_off(
            work::revoke(&world.instances[1].engine, &id, &wanted),
            4 * waits,
        )
        .await;
        let listed = async || client.get(REVOCATIONS).await.expect(200)["revocations"].clone();
        let begun = listed().await.as_array().unwrap().len();
        let mut minute = 0;
        // The lease of the dead instance expires by the clock of Redis.
        while begun > 0 && listed().await[0]["status"] != "done" {
            world.engine().run(&Revocations).await.unwrap();
            minute += 1;
            world.set_time(&format!(
                "2026-11-21T{:02}:{:02}:00Z",
                12 + minute / 60,
                minute % 60
            ));
            sleep(Duration::from_millis(100)).await;
        }
        let expected = (0..5).map(|member| {
            let all = (0..24).filter(|number| number % 5 == member);
            let counted = all.filter(|number| begun == 0 || number % 2 == 1).count();
            (format!("m{member}"), i64::try_from(counted).unwrap())
        });
        let mut expected: Vec<_> = expected.collect();
        let mut found = scores(client).await;
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{waits}");
        if begun > 0 {
            assert_eq!(listed().await[0]["report"]["events"], 12);
        }
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_compares_events_with_the_revocations_in_force() {
    let world = world(json!({"windows": ["all"], "history": "board"})).await;
    let client = world.client();
    for (id, voter) in [("1", "bot"), ("2", "v")] {
        vote(client, id, "ann", voter).await;
    }
    let revoked = revoke(client, json!({"events": ["1"]})).await.expect(200);
    assert_eq!(revoked["report"]["events"], 1);
    check(&world, "b").await;
    // The revocation is lost.
    let keys = world.redis.keys("st:{*:revocations").await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    world.redis.run(&[b"UNLINK", keys[0].as_bytes()]).await;
    let id = BoardId::parse("b").unwrap();
    let report = standings::check::run(world.engine(), Some(&id), Repair::None);
    let found = report.await.unwrap().findings;
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    let lost = "board b, events: the kept event 1 is revoked, but no revocation in force covers it";
    assert_eq!(told, [lost]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_of_many_events_is_revoked_while_it_gets_more_and_its_numbers_move_with_it() {
    let world = world(json!({"windows": ["day", "all"], "history": "board"})).await;
    let client = world.client();
    let batch = |first: usize, count: usize| {
        let events = (first..first + count).map(|number| {
            let (member, voter) = (["s", "t", "u"][number % 3], ["bot", "v"][number % 2]);
            json!({"board": "b", "id": format!("e{number}"), "member": member, "score": 1, "voter": voter})
        });
        json!({"events": events.collect::<Vec<_>>()})
    };
    for first in (0..6_000).step_by(1_000) {
        client
            .post_until_taken("/v1/events", &batch(first, 1_000))
            .await;
    }
    let other = world.instances[1].client.clone();
    let more = tokio::spawn(async move {
        for number in 0..30 {
            other
                .post_until_taken("/v1/events", &batch(6_000 + 20 * number, 20))
                .await;
        }
    });
    let done = revoke(client, json!({"voter": "bot"})).await.expect(200);
    more.await.unwrap();
    let covered = done["report"]["events"].as_i64().unwrap();
    assert!((3_000..=3_300).contains(&covered), "{covered}");
    let total = async || {
        scores(client)
            .await
            .iter()
            .map(|(_, score)| score)
            .sum::<i64>()
    };
    assert_eq!(total().await, 6_600 - covered);
    client.spread("b", 5).await;
    world.engine().run(&Moves).await.unwrap();
    let moved = revoke(client, json!({"voter": "v"})).await.expect(200);
    assert_eq!(moved["report"]["events"], 3_300);
    restore_all(client, 1).await.expect(200);
    assert_eq!(total().await, 3_300);
    check(&world, "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_over_when_its_events_are_no_longer_kept() {
    let world = world(json!({"windows": ["all"], "history": "7d"})).await;
    let client = world.client();
    vote(client, "1", "a", "bot").await;
    vote(client, "2", "a", "v").await;
    revoke(client, json!({"voter": "bot"})).await.expect(200);
    world.set_time("2026-11-27T12:00:00Z");
    vote(client, "3", "b", "bot").await;
    world.set_time("2026-11-29T12:00:00Z");
    world.engine().run(&Histories).await.unwrap();
    let over = client.get(&format!("{REVOCATIONS}/1")).await.expect(200);
    assert_eq!(over["status"], "over");
    let restored = restore_all(client, 1).await.expect(200);
    assert_eq!(restored["restored"]["events"], 0);
    assert_eq!(scores(client).await, own(&[("a", 1), ("b", 1)]));
    // A later history begins with other numbers.
    client
        .patch("/v1/boards/b", json!({"history": null}))
        .await
        .expect(200);
    for minute in 1..6 {
        world.set_time(&format!("2026-11-29T12:0{minute}:00Z"));
        world.engine().run(&Histories).await.unwrap();
    }
    client
        .patch("/v1/boards/b", json!({"history": "board"}))
        .await
        .expect(200);
    world.engine().run(&Histories).await.unwrap();
    assert_eq!(
        client.get(REVOCATIONS).await.expect(200)["revocations"],
        json!([])
    );
    let first = revoke(client, json!({"voter": "v"})).await.expect(200);
    assert_eq!(first["number"], 1);
    assert_eq!(
        client.get(REVOCATIONS).await.expect(200)["revocations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
