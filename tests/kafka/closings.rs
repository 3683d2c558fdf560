//! The end of a board: what the topic had by then counts, and nothing that comes later.

use std::time::Duration;

use serde_json::json;
use standings::domain::time::Timestamp;

use crate::harness::Client;
use crate::harness::program::Program;
use crate::harness::redis::eventually;
use crate::site::Site;
use crate::votes::{BOARD, Scores, Writer, definition, has_no_lag, member, vote};

/// How many votes are written before the end, and how many after it, for an instant before it.
const VOTES: usize = 20_000;
const LATE: usize = 500;
/// The shards of the board.
const SHARDS: u64 = 3;

/// Ends the board, and returns when.
pub async fn end_board(client: &Client) -> Timestamp {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    let end = Timestamp::from_ms_clamped(i64::try_from(since.as_millis()).unwrap());
    let mut definition = definition();
    definition["closes_at"] = json!(end);
    client.define(BOARD, definition).await;
    end
}

/// Waits until the closing knows up to where each shard has to come.
pub async fn wait_for_ends(site: &Site) {
    eventually("all shards know the ends of the topic", async || {
        let wanted = site.redis.command("SCARD st:{boards}:intake-wanted").await;
        wanted == format!(":{SHARDS}\r\n")
    })
    .await;
}

pub async fn state(client: &Client) -> String {
    let path = format!("/v1/boards/{BOARD}/standings/all");
    let page = client.get(&path).await.expect(200);
    page["state"].as_str().unwrap().to_owned()
}

/// Waits until the board is final, and compares.
pub async fn wait_for_result(client: &Client, scores: &Scores) {
    eventually("the board is final", async || {
        state(client).await == "final"
    })
    .await;
    assert_eq!(&Scores::shown(client).await, scores);
    let path = format!("/v1/boards/{BOARD}/standings/all/periods/all");
    let result = client.get(&path).await.expect(200);
    assert_eq!(
        (&result["total"], &result["cut_off"]),
        (&json!(scores.0.len()), &json!(0)),
        "{result}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_exactly_the_records_in_the_topic_at_the_end() {
    let site = Site::start(4).await;
    // It makes periods final, and takes no records.
    let mut keeper = site.command();
    keeper.env("STANDINGS_APPLY_QUEUES", "false");
    let keeper = Program::run_until_ready(&mut keeper).await;
    let client = keeper.client();
    client.define(BOARD, definition()).await;
    let writer = Writer::new(&site.topic);
    let consumers = [site.serve().await, site.serve().await];
    writer.write_all(0..VOTES / 2);
    writer.flush();
    eventually("some votes are counted", async || {
        Scores::shown(&client).await.total() > 0
    })
    .await;
    for consumer in consumers {
        consumer.die().await;
    }
    // These wait in the partitions when the board ends.
    writer.write_all(VOTES / 2..VOTES);
    writer.flush();
    let end = end_board(&client).await;
    wait_for_ends(&site).await;
    let last = end.ms() - 1;
    let last = Timestamp::from_ms_clamped(last);
    for number in VOTES..VOTES + LATE {
        let mut late = vote(number);
        late["at"] = json!(last);
        let key = format!("{BOARD}/{}", member(number));
        writer.write(&key, Some(late.to_string().as_bytes()), &[]);
    }
    writer.flush();
    assert_eq!(state(&client).await, "closing");
    for _ in 0..3 {
        let before = Scores::shown(&client).await.total();
        let consumer = site.serve().await;
        eventually("it gets on", async || {
            state(&client).await == "final" || Scores::shown(&client).await.total() > before
        })
        .await;
        consumer.die().await;
    }
    let scores = Scores::of(0..VOTES);
    let consumer = site.serve().await;
    wait_for_result(&client, &scores).await;
    eventually("the late votes are taken, too", async || {
        has_no_lag(&consumer.client()).await
    })
    .await;
    let path = format!("/v1/boards/{BOARD}/events?id=v-{}", VOTES + LATE - 1);
    eventually("the last one is judged", async || {
        let told = client.get(&path).await.expect(200);
        told["events"][0]["problem"]["code"] == "period-closed"
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    wait_for_result(&client, &scores).await;
    keeper.stop().await;
    consumer.stop().await;
}
