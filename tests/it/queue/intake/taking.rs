//! Records come into queues once each, whoever consumes, and what can't come there holds up no other.

use std::sync::Arc;

use serde_json::json;
use standings::domain::intake::Extent;
use standings::domain::problems::QUEUE_FULL;
use standings::queue::capacity::QueueBounds;
use standings::queue::intake::{DeadCause, Intake, Taking, start};

use super::log::{NOW, PARTITIONS, Site, instant, partition, record};

/// Writes records for two boards: some with an id, every tenth again.
pub(super) fn write(site: &Site, from: usize, to: usize) {
    for event in from..to {
        let number = i32::try_from(event).unwrap() % PARTITIONS;
        let member = format!("m{}", event % 11);
        let board = if event % 5 == 0 { "one" } else { "b" };
        let id = format!("e{event}");
        let id = (event % 2 == 0).then_some(&id[..]);
        site.log.write(number, record(board, id, &member));
        if event % 10 == 0 {
            site.log.write(number, record(board, id, &member));
        }
    }
}

pub(super) async fn define(site: &Site, shards: u16) {
    let definition = json!({"windows": ["day", "all"], "shards": shards});
    site.client().define("b", definition).await;
    let definition = json!({"windows": ["day", "all"], "shards": 1});
    site.client().define("one", definition).await;
}

pub(super) async fn assert_sums(site: &Site) {
    for board in ["b", "one"] {
        assert_eq!(site.scores(board).await, site.expected(board), "{board}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_counts_once_during_rebalances_and_with_zombie_consumers() {
    let site = Site::start(2).await;
    define(&site, 4).await;
    write(&site, 0, 300);
    // Two have the same partition, and both take it for theirs.
    let mut zombie = site.consumer(0, 0).await;
    for _ in 0..2 {
        assert!(matches!(zombie.take(20).await, Taking::Done));
    }
    let mut other = site.consumer(1, 0).await;
    assert!(other.position() <= zombie.position());
    let end = site.log.extent(0).end;
    while other.position() < end {
        assert!(matches!(other.take(7).await, Taking::Done));
        assert!(matches!(zombie.take(5).await, Taking::Done));
    }
    site.apply().await;
    write(&site, 300, 400);
    other.take_all().await;
    site.finish().await;
    zombie.take_all().await;
    site.finish().await;
    assert_sums(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_starts_at_the_farthest_shard_and_new_shards_do_not_delay_it() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    write(&site, 0, 90);
    let mut first = site.consumer(0, 0).await;
    assert_eq!(first.position(), 0, "nothing is known");
    first.take_all().await;
    let end = first.position();
    // Some shards have had no record: nothing is known of them.
    site.log.write(0, record("one", None, "ann"));
    first.take_all().await;
    assert!(site.consumer(0, 0).await.position() <= end);
    first.pass_all().await;
    assert_eq!(site.consumer(0, 0).await.position(), end + 1);
    // A new board says nothing, and the floor is that of the round before.
    let definition = json!({"windows": ["all"], "shards": 3});
    site.client().define("new", definition).await;
    assert_eq!(site.consumer(0, 0).await.position(), 0);
    first.pass_all().await;
    site.log.write(0, record("one", None, "ann"));
    first.take_all().await;
    let definition = json!({"windows": ["all"], "shards": 3});
    site.client().define("newest", definition).await;
    assert_eq!(site.consumer(0, 0).await.position(), end + 1);
    // Read again from the beginning: each shard leaves out what it has.
    site.finish().await;
    assert_sums(&site).await;
    site.redis.command("DEL st:{boards}:intake").await;
    assert_eq!(
        site.consumer(0, 0).await.position(),
        0,
        "the newest says nothing"
    );
    site.finish().await;
    assert_sums(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_can_not_be_queued_is_a_dead_letter_and_the_partition_goes_on() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    let tiers = json!([{"name": "low", "promote": 0.3, "demote": 0}, {"name": "high", "promote": 0, "demote": 0.5}]);
    let league = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": tiers}});
    let league = site.client().put("/v1/boards/league", league).await;
    assert_eq!(league.status, 201, "{}", league.text);
    let broken = |score: &str| {
        let mut broken = record("b", None, "ann");
        broken.incoming.score = score.to_owned();
        broken
    };
    let of_generation = |generation| {
        let mut event = record("b", None, "ann");
        event.generation = Some(generation);
        event
    };
    for event in [
        record("b", None, "ann"),
        record("nobody", None, "ann"),
        record("league", None, "ann"),
        broken("0.5"),
        of_generation(1),
        of_generation(u64::MAX),
        record("b", None, "ann"),
    ] {
        site.log.write(0, event);
    }
    let mut consumer = site.consumer(0, 0).await;
    consumer.take_all().await;
    let dead: Vec<_> = consumer
        .dead
        .iter()
        .map(|dead| (dead.offset, dead.cause.name()))
        .collect();
    let expected = [
        (1, "unknown-board"),
        (2, "league"),
        (3, "unreadable"),
        (4, "deleted-board"),
        (5, "deleted-board"),
    ];
    assert_eq!(dead, expected);
    assert!(matches!(&consumer.dead[2].cause, DeadCause::Unreadable(why) if why.contains("0.5")));
    site.finish().await;
    assert_eq!(site.scores("b").await["ann"], 2);
    // What is dead is told before anything behind it is taken: whoever dies then has it told again.
    site.log.write(1, record("b", None, "bob"));
    site.log.write(1, record("nobody", None, "ann"));
    let mut first = site.consumer(0, 1).await;
    let intake = first.intake.as_mut().unwrap();
    let events = site
        .log
        .all()
        .into_iter()
        .filter(|(number, _)| *number == 1);
    let taking = intake
        .take(events.map(|(_, event)| event).collect(), 2)
        .await;
    assert!(matches!(taking, Taking::Dead(dead) if dead.len() == 1));
    drop(first);
    let mut second = site.consumer(0, 1).await;
    second.take_all().await;
    assert_eq!(second.dead.len(), 1);
    site.finish().await;
    assert_eq!(site.scores("b").await["bob"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_at_takes_the_time_of_its_record() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    let at = |logged_at: &str, member| {
        let mut event = record("b", None, member);
        event.logged_at = instant(logged_at);
        event
    };
    site.log.write(0, at("2026-11-20T23:59:59Z", "late"));
    // The clock of its writer is wrong.
    site.log.write(0, at("2026-11-25T00:00:00Z", "early"));
    site.log.write(0, at("2026-11-20T11:59:59Z", "older"));
    let mut sent = at(NOW, "sent");
    sent.incoming.at = Some(instant("2026-11-20T01:00:00Z"));
    site.log.write(0, sent);
    site.finish().await;
    let days = async |key: &str| {
        let path = format!("/v1/boards/b/standings/day?key={key}");
        let page = site.client().get(&path).await.expect(200);
        let entries = page["entries"].as_array().unwrap().iter();
        let mut members: Vec<String> = entries
            .map(|entry| entry["member"].as_str().unwrap().to_owned())
            .collect();
        members.sort_unstable();
        members
    };
    assert_eq!(days("2026-11-20").await, ["late", "sent"]);
    assert_eq!(days("2026-11-21").await, ["early"]);
    // It had waited for more than a day, though it lay in the log: a dead letter of its shard.
    let letters = site
        .client()
        .get("/v1/boards/b/dead-letters")
        .await
        .expect(200);
    assert_eq!(letters["dead_letters"][0]["event"]["member"], "older");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_board_does_not_get_events_of_its_predecessor() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    let client = site.client().queueing();
    let event = json!({"id": "1", "member": "ann", "score": 1});
    client.post("/v1/boards/b/events", event).await.expect(202);
    client.delete("/v1/boards/b").await.expect(204);
    define(&site, 2).await;
    site.finish().await;
    assert!(site.scores("b").await.is_empty());
    let event = json!({"id": "1", "member": "ann", "score": 2});
    client.post("/v1/boards/b/events", event).await.expect(202);
    site.finish().await;
    assert_eq!(site.scores("b").await["ann"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_records_wait_in_the_log() {
    let bounds = QueueBounds {
        queue_bytes: 2_000,
        server_bytes: 1 << 20,
    };
    let site = Site::start_at(1, NOW, bounds).await;
    define(&site, 2).await;
    write(&site, 0, 300);
    let mut consumers = Vec::new();
    for number in 0..PARTITIONS {
        consumers.push(site.consumer(0, number).await);
    }
    let mut waits = 0;
    for consumer in &mut consumers {
        while !consumer.try_to_take_all().await {
            let again = consumer.resume().await;
            assert!(
                matches!(&again, Taking::Waits(error) if error.is(QUEUE_FULL)),
                "{again:?}"
            );
            waits += 1;
            consumer.pass_all().await;
            site.apply().await;
        }
    }
    assert!(waits > 3, "{waits}");
    site.finish().await;
    assert_sums(&site).await;
    // Whoever dies while records wait has lost nothing.
    write(&site, 300, 400);
    let mut dying = site.consumer(0, 0).await;
    while dying.try_to_take_all().await {
        write(&site, 400, 500);
    }
    drop(dying);
    site.finish().await;
    assert_sums(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_went_back_gets_lost_records_again() {
    for is_moved_on in [false, true] {
        let site = Site::start(2).await;
        define(&site, 3).await;
        write(&site, 0, 120);
        let mut consumers = Vec::new();
        for number in 0..PARTITIONS {
            let mut consumer = site.consumer(0, number).await;
            consumer.take_all().await;
            consumer.pass_all().await;
            consumers.push(consumer);
        }
        site.apply().await;
        let copy = site.redis.copy_data();
        write(&site, 120, 200);
        for consumer in &mut consumers {
            consumer.take_all().await;
            consumer.pass_all().await;
        }
        site.apply().await;
        assert_sums(&site).await;
        site.redis.go_back(Some(&copy)).await;
        site.reconnect().await;
        if is_moved_on {
            // The next record finds it out.
            write(&site, 200, 260);
            for consumer in &mut consumers {
                consumer.take_all().await;
            }
        } else {
            // Nothing comes: the next round does.
            for consumer in &mut consumers {
                let end = consumer.position();
                consumer.pass_all().await;
                assert!(consumer.position() < end);
                consumer.take_all().await;
            }
        }
        while site.waiting().await > 0 {
            site.apply().await;
        }
        assert_sums(&site).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_whose_first_position_is_lost_is_covered_by_the_floor() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    let mut consumer = site.consumer(0, 0).await;
    consumer.pass_all().await;
    consumer.pass_all().await;
    site.client()
        .define("new", json!({"windows": ["all"]}))
        .await;
    let copy = site.redis.copy_data();
    site.log.write(0, record("new", None, "ann"));
    consumer.take_all().await;
    site.redis.go_back(Some(&copy)).await;
    site.reconnect().await;
    // The shard has answered the consumer before; now it says nothing.
    site.log.write(0, record("new", None, "ann"));
    consumer.take_all().await;
    site.finish().await;
    assert_eq!(site.scores("new").await["ann"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_notices_a_shard_whose_first_position_is_lost() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    let mut consumer = site.consumer(0, 0).await;
    consumer.pass_all().await;
    consumer.pass_all().await;
    let new = json!({"windows": ["all"]});
    site.client().define("new", new).await;
    let copy = site.redis.copy_data();
    site.log.write(0, record("new", None, "ann"));
    consumer.take_all().await;
    consumer.pass_all().await;
    // It begins where the shard has taken the record, and asks it only after that is lost.
    let mut other = site.consumer(0, 0).await;
    site.redis.go_back(Some(&copy)).await;
    site.reconnect().await;
    site.log.write(0, record("new", None, "ann"));
    other.take_all().await;
    site.finish().await;
    assert_eq!(site.scores("new").await["ann"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_different_log_is_refused_and_a_truncated_one_is_read_from_its_beginning() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    write(&site, 0, 60);
    let mut consumer = site.consumer(0, 0).await;
    assert!(matches!(consumer.take(10).await, Taking::Done));
    let engine = Arc::clone(&site.instances[0].engine);
    site.log.trim(0, 15);
    let mut later = site.consumer(0, 0).await;
    let removed = later.intake.as_ref().unwrap().removed();
    assert_eq!(later.position(), 15);
    assert_eq!(removed, 5);
    later.take_all().await;
    later.pass_all().await;
    let end = later.position();
    assert_eq!(site.consumer(0, 0).await.position(), end);
    site.log.clear(0);
    let start = start::find(&engine, &partition(0)).await.unwrap();
    let other = Intake::new(engine, start, site.log.extent(0)).unwrap_err();
    let told = format!("votes/0 ends at offset 0, but records up to {end} were already read");
    assert!(other.to_string().contains(&told), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_reach_all_boards_and_raise_the_floor_to_the_previous_position() {
    let site = Site::start(1).await;
    define(&site, 4).await;
    let engine = Arc::clone(&site.instances[0].engine);
    let at = async |end| {
        let start = start::find(&engine, &partition(0)).await.unwrap();
        let log = Extent { first: 0, end };
        Intake::new(Arc::clone(&engine), start, log).unwrap()
    };
    let mut intake = at(0).await;
    let mut floors = Vec::new();
    for upto in [3, 5, 9] {
        assert!(matches!(intake.take(Vec::new(), upto).await, Taking::Done));
        intake.pass_all().await.unwrap();
        floors.push(
            site.redis
                .command("ZSCORE st:{boards}:intake votes/0")
                .await,
        );
    }
    assert_eq!(floors, ["$-1\r\n", "$1\r\n3\r\n", "$1\r\n5\r\n"]);
    assert_eq!(at(9).await.position(), 9);
    // A shard that can't be reached holds the floor up, and no other shard.
    site.redis.command("SET st:{gone} 1").await;
    site.redis.command("ZADD st:{boards}:live 0 gone").await;
    assert!(matches!(intake.take(Vec::new(), 12).await, Taking::Done));
    intake.pass_all().await.unwrap_err();
    let floor = site
        .redis
        .command("ZSCORE st:{boards}:intake votes/0")
        .await;
    assert_eq!(floor, "$1\r\n5\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_from_before_an_erasure_never_count() {
    for shards in [1, 3] {
        let site = Site::start(1).await;
        define(&site, shards).await;
        let write = |id: &str, at: Option<&str>, logged_at: &str| {
            for member in ["ann", "bob"] {
                let mut event = record("b", Some(&format!("{id}-{member}")), member);
                event.incoming.at = at.map(instant);
                event.logged_at = instant(logged_at);
                site.log.write(0, event);
            }
        };
        write("plain", None, NOW);
        // It counts for a later time than that of the erasure.
        write("ahead", Some("2026-11-21T12:00:30Z"), NOW);
        let erased = site.client().delete("/v1/boards/b/members/ann").await;
        assert!(erased.status.is_success(), "{}", erased.text);
        let later = "2026-11-21T12:00:01Z";
        site.clock.set(instant(later));
        write("behind", Some(NOW), later);
        write("later", None, later);
        site.finish().await;
        let scores = [("ann".to_owned(), 1), ("bob".to_owned(), 4)];
        assert_eq!(site.scores("b").await, scores.into());
        for id in ["plain", "ahead", "behind"] {
            let path = format!("/v1/boards/b/events?id={id}-ann&member=ann");
            let told = site.client().get(&path).await.expect(200);
            assert_eq!(
                told["events"][0]["problem"]["code"], "member-erased",
                "{told}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_records_without_at_the_last_one_in_the_partition_wins() {
    let site = Site::start(1).await;
    let definition = json!({"windows": ["day", "all"], "update": "last", "shards": 2});
    site.client().define("b", definition).await;
    // All have the same millisecond.
    let mut expected = Vec::new();
    for (member, scores) in [("up", [3, 5, 9]), ("down", [9, 5, 3]), ("mid", [5, 9, 3])] {
        for score in scores {
            let mut event = record("b", None, member);
            event.incoming.score = score.to_string();
            site.log.write(0, event);
        }
        expected.push((member, scores[2]));
    }
    let mut consumer = site.consumer(0, 0).await;
    consumer.take_all().await;
    site.finish().await;
    for (member, score) in expected {
        let path = format!("/v1/boards/b/standings/all/members/{member}");
        let found = site.client().get(&path).await.expect(200);
        assert_eq!(found["score"], score, "{found}");
        let reached_at = found["reached_at"].as_str().unwrap();
        assert!(reached_at.starts_with("2026-11-21T12:00:00.000"), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_record_keeps_the_period_of_its_own_time() {
    let site = Site::start_at(1, "2026-11-22T00:00:00Z", QueueBounds::default()).await;
    let definition = json!({"windows": ["day", "all"], "update": "last"});
    site.client().define("b", definition).await;
    let newer = json!({"member": "ann", "score": 7});
    let newer = site.client().post("/v1/boards/b/events", newer).await;
    newer.expect(200);
    let mut older = record("b", None, "ann");
    older.logged_at = instant("2026-11-21T23:59:59.8Z");
    site.log.write(0, older);
    site.finish().await;
    assert_eq!(site.scores("b").await["ann"], 7);
    let path = "/v1/boards/b/standings/day?key=2026-11-21";
    let day = site.client().get(path).await.expect(200);
    assert_eq!(day["entries"][0]["score"], 1, "{day}");
}
