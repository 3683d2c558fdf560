//! Many random steps: consumers that come and go and die, zombies, moves, a Redis that is killed or goes back. The naive sum agrees.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use serde_json::json;
use standings::check;
use standings::core::board::store::boards;
use standings::domain::ids::BoardId;
use standings::queue::intake::Taking;

use super::log::{Consumer, PARTITIONS, Site};
use super::taking::{assert_sums, define, write};
use crate::harness::break_off;
use crate::harness::jobs::{ApplyQueues, Moves, Purge};
use crate::harness::random::{Random, case_count, seed};

/// How many steps a site goes.
const STEPS: usize = 120;

/// Has the next instance take the move over at once.
async fn free_move(site: &Site) {
    site.redis.command("HSET st:{b} move:until 0").await;
}

async fn play(number: u64) {
    let mut random = Random::new(seed(number));
    let site = Site::start(2).await;
    define(&site, 2).await;
    let (mut consumers, mut written): (Vec<(i32, Consumer)>, usize) = (Vec::new(), 0);
    let board = BoardId::parse("b").unwrap();
    let mut copy = site.redis.copy_data();
    for _ in 0..STEPS {
        let engine = &site.instances[random.below(2)].engine;
        match random.below(16) {
            0..3 => {
                let more = random.below(30);
                write(&site, written, written + more);
                written += more;
            }
            3 => {
                let number = i32::try_from(random.below(3)).unwrap() % PARTITIONS;
                consumers.push((number, site.consumer(random.below(2), number).await));
            }
            4 if !consumers.is_empty() => {
                consumers.swap_remove(random.below(consumers.len()));
            }
            5..10 if !consumers.is_empty() => {
                let index = random.below(consumers.len());
                let (number, mut consumer) = consumers.swap_remove(index);
                let waits = u16::try_from(1 + random.below(40)).unwrap();
                let count = 1 + random.below(20);
                let work = async {
                    match consumer.resume().await {
                        Taking::Done => consumer.take(count).await,
                        other => other,
                    }
                };
                // Whoever is broken off is dead, and so is one whose shards have gone back.
                let taking = break_off(work, waits).await;
                if matches!(taking, Some(Taking::Done | Taking::Waits(_))) {
                    consumers.push((number, consumer));
                }
            }
            10 if !consumers.is_empty() => {
                let index = random.below(consumers.len());
                let (number, mut consumer) = consumers.swap_remove(index);
                if break_off(consumer.pass_all(), 300).await.is_some() {
                    consumers.push((number, consumer));
                }
            }
            11 | 12 => {
                let waits = u16::try_from(1 + random.below(200)).unwrap();
                let _ = break_off(engine.run(&ApplyQueues), waits).await;
            }
            13 => {
                let definition = json!({"shards": 1 + random.below(4)});
                let moved = site.client().patch("/v1/boards/b", definition).await;
                assert!(
                    [200, 409].contains(&moved.status.as_u16()),
                    "{}",
                    moved.text
                );
            }
            14 => {
                let waits = u16::try_from(1 + random.below(900)).unwrap();
                free_move(&site).await;
                let _ = break_off(engine.run(&Moves), waits).await;
                let stored = boards::load(&engine.store, &board).await.unwrap();
                if stored.unwrap().unwrap().placement.is_closing() {
                    // Everybody waits for whoever goes on.
                    free_move(&site).await;
                    site.instances[0].end_move("b").await;
                }
                engine.run(&Purge).await.unwrap();
            }
            15 => {
                match random.below(4) {
                    0 => copy = site.redis.copy_data(),
                    1 => site.redis.go_back(Some(&copy)).await,
                    2 => {
                        site.redis.kill();
                        site.redis.restart().await;
                    }
                    _ => {}
                }
                site.reconnect().await;
            }
            _ => {}
        }
    }
    free_move(&site).await;
    let applying = site.instances[0].apply_queues();
    site.instances[0].end_move("b").await;
    drop(applying);
    for (_, mut consumer) in consumers {
        while !consumer.try_to_take_all().await {
            site.apply().await;
        }
    }
    site.finish().await;
    assert_sums(&site).await;
    let report = check::run(&site.instances[0].engine, None, check::Repair::None)
        .await
        .unwrap();
    assert!(report.is_sound(), "case {number}");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_steps_lose_and_double_nothing() {
    for number in (0..).take(case_count(2)) {
        let played = AssertUnwindSafe(play(number)).catch_unwind().await;
        assert!(played.is_ok(), "case {number}");
    }
}
