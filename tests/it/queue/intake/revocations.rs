//! A revocation covers what was in the log before it, and nothing that comes later.

use serde_json::json;
use standings::domain::ids::Label;
use standings::queue::intake::LogEvent;

use super::log::{PARTITIONS, Site, record};
use crate::harness::redis::eventually;

fn vote(id: &str, member: &str) -> LogEvent {
    let mut event = record("b", Some(id), member);
    event.incoming.origin.voter = Some(Label::parse("bot").unwrap());
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn events_logged_before_a_revocation_are_covered_and_later_ones_are_not() {
    for shards in [1, 4] {
        let site = Site::start(2).await;
        let definition = json!({"windows": ["all"], "history": "board", "shards": shards});
        site.client().define("b", definition).await;
        let mut consumers = Vec::new();
        for number in 0..PARTITIONS {
            let mut consumer = site.consumer(0, number).await;
            consumer.pass().await;
            consumers.push(consumer);
        }
        for number in 0..20 {
            let id = format!("{number}");
            site.log.write(number % 2, vote(&id, &id));
        }
        consumers[0].take(3).await;
        site.drain().await;
        assert_eq!(site.scores("b").await.len(), 3);
        let client = site.instances[1].client.clone();
        let path = "/v1/boards/b/revocations";
        let running = tokio::spawn(async move {
            let body = json!({"voter": "bot", "reason": "bots"});
            client.post(path, body).await
        });
        eventually("the revocation knows the ends of the log", async || {
            let wanted = site.redis.command("SCARD st:{boards}:intake-wanted").await;
            wanted != ":0\r\n"
        })
        .await;
        // One that was logged before and is logged again is as old as it was.
        site.log.write(1, vote("19", "19"));
        for number in 0..PARTITIONS {
            let id = format!("later {number}");
            site.log.write(number, vote(&id, &id));
        }
        site.instances[0].engine.refresh_boards().await.unwrap();
        for consumer in &mut consumers {
            consumer.take_all().await;
        }
        let finished = async {
            while !running.is_finished() {
                site.drain().await;
                for consumer in &mut consumers {
                    consumer.pass().await;
                }
            }
        };
        finished.await;
        let done = running.await.unwrap().expect(200);
        assert_eq!(done["report"]["events"], 20, "{done}");
        let left = site.scores("b").await.into_keys();
        let later = (0..PARTITIONS).map(|number| format!("later {number}"));
        assert_eq!(left.collect::<Vec<_>>(), later.collect::<Vec<_>>());
        let wanted = site.redis.command("SCARD st:{boards}:intake-wanted").await;
        assert_eq!(wanted, ":0\r\n");
    }
}
