//! A period is final when what was in the log before its closing has counted.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use standings::queue::capacity::QueueBounds;
use standings::queue::intake::LogEvent;

use super::log::{Consumer, PARTITIONS, Site, instant, record};
use crate::harness::Instance;
use crate::harness::jobs::ClosePeriods;

const EVENING: &str = "2026-11-21T11:59:00Z";

async fn site(more: Value) -> Site {
    let site = Site::start_at(2, EVENING, QueueBounds::default()).await;
    let mut definition = json!({"windows": ["hour", "all"], "finalize": "10m"});
    let fields = definition.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    site.client().define("b", definition).await;
    site
}

fn at(id: &str, member: &str, at: &str) -> LogEvent {
    let mut event = record("b", Some(id), member);
    event.incoming.at = Some(instant(at));
    event.logged_at = instant(at).max(instant(EVENING));
    event
}

async fn close_periods(instance: &Instance) {
    let engine = &instance.engine;
    engine.refresh_boards().await.unwrap();
    engine.run(&ClosePeriods).await.unwrap();
}

/// How many members the last hour lists, and its state.
async fn last_hour(site: &Site) -> (Value, Value) {
    let path = "/v1/boards/b/standings/hour?key=2026-11-21T11:00Z";
    let page = site.client().get(path).await.expect(200);
    (page["total"].clone(), page["state"].clone())
}

async fn consumers(site: &Site) -> Vec<Consumer> {
    let mut consumers = Vec::new();
    for number in 0..PARTITIONS {
        let mut consumer = site.consumer(1, number).await;
        // The first round is over: what passes after this is what closings want.
        consumer.pass().await;
        consumers.push(consumer);
    }
    consumers
}

#[tokio::test(flavor = "multi_thread")]
async fn events_logged_before_a_closing_count_and_later_ones_do_not() {
    for shards in [1, 4] {
        let site = site(json!({ "shards": shards })).await;
        let mut consumers = consumers(&site).await;
        for number in 0..20 {
            let id = format!("{number}");
            site.log
                .write(number % 2, at(&id, &id, "2026-11-21T11:58:00Z"));
        }
        consumers[0].take(3).await;
        site.drain().await;
        site.clock.set(instant("2026-11-21T12:10:00Z"));
        close_periods(&site.instances[0]).await;
        assert_eq!(last_hour(&site).await.1, "closing");
        // It comes behind the ends of the log.
        site.log
            .write(0, at("late", "late", "2026-11-21T11:59:00Z"));
        site.log
            .write(2, at("next", "next", "2026-11-21T12:05:00Z"));
        let end = consumers[0].position() + 7;
        while consumers[0].position() < end {
            consumers[0].take(1).await;
        }
        site.drain().await;
        close_periods(&site.instances[0]).await;
        assert_eq!(last_hour(&site).await, (json!(10), json!("closing")));
        // The shards that have no records of a partition come up to its end, since the closing wants that.
        while consumers[1].position() < 10 {
            consumers[1].take(1).await;
        }
        for consumer in &mut consumers {
            consumer.pass().await;
        }
        site.drain().await;
        for instance in &site.instances {
            close_periods(instance).await;
        }
        assert_eq!(last_hour(&site).await, (json!(20), json!("final")));
        let wanted = site.redis.command("SCARD st:{boards}:intake-wanted").await;
        assert_eq!(wanted, ":0\r\n");
        site.finish().await;
        assert_eq!(last_hour(&site).await, (json!(20), json!("final")));
        let told = "/v1/boards/b/events?id=late&member=late";
        let told = site.client().get(told).await.expect(200);
        assert_eq!(
            told["events"][0]["problem"]["code"], "period-closed",
            "{told}"
        );
        assert_eq!(site.scores("b").await.len(), 21);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_logged_after_the_ends_do_not_count_even_if_applied_during_the_closing() {
    for shards in [1, 4] {
        let site = site(json!({ "shards": shards })).await;
        let mut consumers = consumers(&site).await;
        let before = "2026-11-21T11:58:00Z";
        for number in 0..20 {
            let id = format!("{number}");
            site.log.write(number % 2, at(&id, &id, before));
        }
        site.log.write(1, at("twice", "twice", before));
        // What waits is not put in again.
        site.log.write(0, at("0", "0", before));
        site.clock.set(instant("2026-11-21T12:10:00Z"));
        close_periods(&site.instances[0]).await;
        // The second one was there before.
        for id in ["late", "twice"] {
            site.log.write(0, at(id, id, before));
        }
        site.log
            .write(0, at("next", "next", "2026-11-21T12:05:00Z"));
        consumers[0].take_all().await;
        assert_eq!(site.waiting().await, 13);
        consumers[1].take(11).await;
        site.drain().await;
        assert_eq!(last_hour(&site).await, (json!(21), json!("closing")));
        let late = "/v1/boards/b/events?id=late&member=late";
        let told = site.client().get(late).await.expect(200);
        assert_eq!(
            told["events"][0]["problem"]["code"], "period-closed",
            "{told}"
        );
        for consumer in &mut consumers {
            consumer.pass().await;
        }
        site.drain().await;
        close_periods(&site.instances[0]).await;
        assert_eq!(last_hour(&site).await, (json!(21), json!("final")));
        site.finish().await;
        let path = "/v1/boards/b/standings/hour/periods/2026-11-21T11:00Z";
        let last = site.client().get(path).await.expect(200);
        assert_eq!(
            (&last["total"], &last["cut_off"]),
            (&json!(21), &json!(0)),
            "{last}"
        );
        // The next hour has it.
        assert_eq!(site.scores("b").await.len(), 22);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_past_max_delay_counts_the_log_events_it_cuts_off() {
    for shards in [1, 3] {
        let site = site(json!({"shards": shards, "max_delay": "1m"})).await;
        let mut consumers = consumers(&site).await;
        for number in 0..12 {
            let id = format!("{number}");
            site.log
                .write(number % PARTITIONS, at(&id, &id, "2026-11-21T11:58:00Z"));
        }
        consumers[0].take_all().await;
        site.drain().await;
        site.clock.set(instant("2026-11-21T12:10:00Z"));
        close_periods(&site.instances[0]).await;
        site.clock.set(instant("2026-11-21T12:10:59.999Z"));
        close_periods(&site.instances[1]).await;
        assert_eq!(last_hour(&site).await, (json!(4), json!("closing")));
        site.clock.set(instant("2026-11-21T12:11:00Z"));
        close_periods(&site.instances[1]).await;
        assert_eq!(last_hour(&site).await, (json!(4), json!("final")));
        consumers[1].take_all().await;
        site.drain().await;
        site.finish().await;
        // All shards have come up to the ends.
        for consumer in &mut consumers {
            consumer.take_all().await;
            consumer.pass_all().await;
        }
        site.log
            .write(0, at("late", "late", "2026-11-21T11:58:00Z"));
        site.finish().await;
        let path = "/v1/boards/b/standings/hour/periods/2026-11-21T11:00Z";
        let last = site.client().get(path).await.expect(200);
        assert_eq!(
            (&last["total"], &last["cut_off"]),
            (&json!(4), &json!(8)),
            "{last}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_waits_for_a_silent_log_up_to_its_limit() {
    let site = site(json!({"shards": 2, "max_delay": "1m"})).await;
    site.log.is_away.store(true, Ordering::Relaxed);
    site.clock.set(instant("2026-11-21T12:10:00Z"));
    let engine = &site.instances[0].engine;
    close_periods(&site.instances[0]).await;
    assert_eq!(last_hour(&site).await.1, "closing");
    let (faults, _) = engine.faults.list(5);
    assert!(faults[0].error.contains("log"), "{faults:?}");
    let path = "/v1/boards/b/standings/hour/periods/2026-11-21T11:00Z/close";
    site.client()
        .once()
        .post(path, json!({}))
        .await
        .expect_problem(503, "log-unavailable");
    site.clock.set(instant("2026-11-21T12:11:00Z"));
    close_periods(&site.instances[1]).await;
    assert_eq!(last_hour(&site).await.1, "final");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_still_waits_for_the_log_after_its_board_moved() {
    for to in [1, 3] {
        let site = site(json!({"shards": 2})).await;
        let mut consumers = consumers(&site).await;
        for number in 0..12 {
            let id = format!("{number}");
            site.log
                .write(number % PARTITIONS, at(&id, &id, "2026-11-21T11:58:00Z"));
        }
        consumers[0].take_all().await;
        site.drain().await;
        site.clock.set(instant("2026-11-21T12:10:00Z"));
        close_periods(&site.instances[0]).await;
        let applying = site.instances[0].apply_queues();
        site.client().spread("b", to).await;
        site.instances[0].end_move("b").await;
        drop(applying);
        close_periods(&site.instances[0]).await;
        assert_eq!(last_hour(&site).await, (json!(4), json!("closing")));
        for consumer in &mut consumers {
            consumer.take_all().await;
            consumer.pass().await;
        }
        site.drain().await;
        close_periods(&site.instances[0]).await;
        assert_eq!(last_hour(&site).await, (json!(12), json!("final")));
        site.finish().await;
    }
}
