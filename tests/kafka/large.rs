//! A large topic, with repetitions and with records that nobody can take, read again and again from its beginning.

use crate::harness::program::Program;
use crate::harness::redis::eventually;
use crate::site::Site;
use crate::votes::{BOARD, Scores, Writer, definition, has_no_lag};

/// How many votes; `STANDINGS_KAFKA_VOTES` for more.
const VOTES: usize = 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_large_topic_read_repeatedly_follows_the_naive_model() {
    let votes = std::env::var("STANDINGS_KAFKA_VOTES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(VOTES);
    let site = Site::start(6).await;
    let one = site.serve().await;
    one.client().define(BOARD, definition()).await;
    let empty = site.redis.copy_data();
    let (two, three) = (site.serve().await, site.serve().await);
    let writer = Writer::new(&site.topic);
    writer.write_all(0..votes);
    writer.flush();
    let scores = Scores::of(0..votes);
    scores.wait_for(&one.client()).await;
    eventually("no lag is left", async || {
        for client in [&one, &two, &three].map(Program::client) {
            if !has_no_lag(&client).await {
                return false;
            }
        }
        true
    })
    .await;
    assert_eq!(Scores::shown(&two.client()).await, scores);
    eventually("consumers have told so", async || {
        let log = two.client().get("/v1/log").await.expect(200);
        let partitions = log["partitions"].as_array().unwrap();
        assert_eq!(partitions.len(), 6);
        partitions.iter().all(|partition| partition["left"] == 0)
    })
    .await;
    let page = one.client().get("/console/queues").await;
    assert!(
        page.text.contains(&format!("{}/5", site.topic.name)),
        "{}",
        page.text
    );
    // From the beginning, beside those who know how far they were.
    for _ in 0..2 {
        site.redis.go_back(Some(&empty)).await;
        scores.wait_for(&three.client()).await;
    }
    for program in [one, two, three] {
        program.stop().await;
    }
}
