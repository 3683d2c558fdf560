//! Consumers that come and go.

use std::time::{Duration, Instant};

use crate::harness::program::Program;
use crate::harness::random::Random;
use crate::site::Site;
use crate::votes::{BOARD, Scores, Writer, definition};

/// How many votes are written, and how often a consumer comes or goes meanwhile.
const VOTES: usize = 20_000;
const ROUNDS: usize = 12;
const ROUND: Duration = Duration::from_secs(1);

/// Three consumers: each second one of them is killed, told to stop, or held up for longer than the group waits, and another one comes.
#[tokio::test(flavor = "multi_thread")]
async fn consumers_joining_and_leaving_under_load_take_each_record_once() {
    let site = Site::start(4).await;
    let mut consumers = vec![site.serve().await, site.serve().await, site.serve().await];
    consumers[0].client().define(BOARD, definition()).await;
    let mut random = Random::new(19);
    let mut frozen: Vec<Program> = Vec::new();
    let writer = Writer::new(&site.topic);
    let writing = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        for (part, first) in (0..VOTES).step_by(200).enumerate() {
            writer.write_all(first..first + 200);
            let due = ROUND * u32::try_from(ROUNDS).unwrap() / u32::try_from(VOTES / 200).unwrap();
            let due = due * u32::try_from(part).unwrap();
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        writer.flush();
    });
    for round in 0..ROUNDS {
        let begun = Instant::now();
        let gone = consumers.swap_remove(random.below(consumers.len()));
        match round % 3 {
            0 => {
                gone.die().await;
            }
            1 => {
                gone.stop().await;
            }
            _ => {
                gone.freeze(true).await;
                frozen.push(gone);
            }
        }
        consumers.push(site.serve().await);
        if round % 3 == 1 {
            for woken in frozen.drain(..) {
                woken.freeze(false).await;
                consumers.push(woken);
            }
            while consumers.len() > 3 {
                consumers.remove(0).die().await;
            }
        }
        tokio::time::sleep(ROUND.saturating_sub(begun.elapsed())).await;
    }
    writing.await.unwrap();
    for woken in &frozen {
        woken.freeze(false).await;
    }
    let scores = Scores::of(0..VOTES);
    let last = consumers[0].client();
    scores.wait_for(&last).await;
    // Nobody takes anything for a second time.
    tokio::time::sleep(ROUND).await;
    assert_eq!(Scores::shown(&last).await, scores);
}
