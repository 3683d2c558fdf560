//! Boards that move to other shards while records of the log come in, and while nobody takes any.

use serde_json::json;
use standings::check;
use standings::domain::problems::BOARD_MOVING;
use standings::queue::intake::Taking;

use super::log::{Consumer, PARTITIONS, Site, record};
use super::taking::{assert_sums, define, write};
use crate::harness::break_off;
use crate::harness::jobs::Moves;
use crate::harness::redis::eventually;

async fn move_to(site: &Site, shards: u16) {
    let applying = site.instances[0].apply_queues();
    site.client().spread("b", shards).await;
    site.instances[0].end_move("b").await;
    drop(applying);
}

async fn consumers(site: &Site) -> Vec<Consumer> {
    let mut consumers = Vec::new();
    for number in 0..PARTITIONS {
        consumers.push(site.consumer(0, number).await);
    }
    consumers
}

/// The fields of the intake of the shards of a board.
async fn fields(site: &Site) -> Vec<String> {
    let mut fields = Vec::new();
    let keys: &[&[u8]] = &[b"KEYS", b"st:{b*}:*:intake"];
    for key in site.redis.run(keys).await.list() {
        let of_key = site.redis.run(&[b"HKEYS", key.bytes()]).await;
        fields.extend(of_key.list().iter().map(|field| field.text()));
    }
    fields.sort_unstable();
    fields
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_absent_during_moves_take_nothing_twice() {
    for shards in [&[3][..], &[1, 4], &[3, 2, 1]] {
        let site = Site::start(1).await;
        define(&site, 2).await;
        write(&site, 0, 200);
        // They are at different places, and some shards know nothing of a partition.
        let mut old = consumers(&site).await;
        for (number, consumer) in old.iter_mut().enumerate() {
            for _ in 0..number {
                assert!(matches!(consumer.take(17).await, Taking::Done));
            }
        }
        for (round, shards) in shards.iter().enumerate() {
            move_to(&site, *shards).await;
            if round == 1 {
                assert!(matches!(old[1].take(10).await, Taking::Done));
            }
        }
        // Those of before go on, and others begin where the shards say.
        old[2].take_all().await;
        write(&site, 200, 240);
        site.finish().await;
        old[0].take_all().await;
        site.finish().await;
        assert_sums(&site).await;
        for consumer in &mut old {
            consumer.take_all().await;
            consumer.pass_all().await;
        }
        // What former shards knew is of no use any more.
        let current = format!("st:{{b:{}", shards[shards.len() - 1]);
        eventually("only old shards have it", async || {
            site.instances[0]
                .engine
                .run(&crate::harness::jobs::Purge)
                .await
                .unwrap();
            let former = fields(&site).await;
            let former = former.iter().filter(|field| field.starts_with("former:"));
            former.count() == 0
        })
        .await;
        assert!(!current.is_empty());
        assert!(
            check::run(&site.instances[0].engine, None, check::Repair::None)
                .await
                .unwrap()
                .is_sound()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_enter_the_old_queues_until_the_move_pauses_them() {
    for from in [1, 2] {
        let site = Site::start(2).await;
        define(&site, from).await;
        write(&site, 0, 90);
        let mut old = consumers(&site).await;
        assert!(matches!(old[0].take(10).await, Taking::Done));
        site.client().spread("b", 3).await;
        site.instances[0].engine.refresh_boards().await.unwrap();
        assert!(matches!(old[0].take(10).await, Taking::Done));
        // Nobody applies what is queued: the mover waits, and holds the queues.
        let moving = site.instances[0].engine.run(&Moves);
        assert!(break_off(moving, 1_000).await.is_none());
        let held = old[0].take(10).await;
        assert!(
            matches!(&held, Taking::Waits(error) if error.is(BOARD_MOVING)),
            "{held:?}"
        );
        old[0].pass_all().await;
        let held = old[0].resume().await;
        assert!(
            matches!(&held, Taking::Waits(error) if error.is(BOARD_MOVING)),
            "{held:?}"
        );
        let words: [&[u8]; 4] = [b"HSET", b"st:{b}", b"move:until", b"0"];
        site.redis.run(&words).await;
        let applying = site.instances[1].apply_queues();
        site.instances[1].end_move("b").await;
        drop(applying);
        for consumer in &mut old {
            consumer.take_all().await;
        }
        site.finish().await;
        assert_sums(&site).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_known_to_former_shards_is_not_queued_again() {
    let site = Site::start(1).await;
    define(&site, 2).await;
    let client = site.client();
    let event = json!({"id": "known", "member": "ann", "score": 1});
    client.post("/v1/boards/b/events", event).await.expect(200);
    move_to(&site, 3).await;
    site.log.write(0, record("b", Some("known"), "ann"));
    site.log.write(0, record("b", Some("other"), "ann"));
    site.consumer(0, 0).await.take_all().await;
    assert_eq!(site.waiting().await, 1);
    site.finish().await;
    assert_eq!(site.scores("b").await["ann"], 2);
}
