//! Redis that is away, and a service that stops.

use serde_json::json;

use super::{STREAM, has, send, world};
use crate::harness::redis::eventually;
use crate::harness::streams::Stream;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlasts_a_restart_of_redis() {
    let world = world(1).await;
    let client = world.client();
    send(client, "ann", 3).await;
    let mut all = Stream::open(client, STREAM).await;
    let mut own = Stream::open(client, &format!("{STREAM}?member=bob")).await;
    for stream in [&mut all, &mut own] {
        stream.until(has(&["ann"])).await;
    }
    world.redis.kill();
    // Meanwhile it says that it is alive, and nothing else.
    for stream in [&mut all, &mut own] {
        assert_eq!(stream.block().await.unwrap(), ":\n\n");
    }
    world.redis.restart().await;
    eventually("the instance is ready", async || {
        client.get("/readyz").await.status == 200
    })
    .await;
    let event = json!({"id": "e", "member": "bob", "score": 9});
    client.post("/v1/boards/b/events", event).await.expect(200);
    for stream in [&mut all, &mut own] {
        stream.until(has(&["bob", "ann"])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_service_tells_readers_to_reconnect() {
    let world = world(2).await;
    let client = world.client();
    send(client, "ann", 3).await;
    let mut streams = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..20 {
        let mut stream = Stream::open(client, STREAM).await;
        ids.push(stream.expect("standing").await.id.unwrap());
        streams.push(stream);
    }
    world.instances[0].shutdown.cancel();
    let mut pauses = Vec::new();
    for stream in &mut streams {
        let block = stream.block().await.unwrap();
        let pause = block.strip_prefix("retry: ").unwrap().trim();
        pauses.push(pause.parse::<u32>().unwrap());
        assert!(stream.block().await.is_none());
    }
    pauses.sort_unstable();
    pauses.dedup();
    assert!(pauses.len() > 1, "not all come back at once: {pauses:?}");
    let other = &world.instances[1].client;
    let mut again = Stream::open_after(other, STREAM, &ids[0]).await;
    send(other, "bob", 9).await;
    again.expect("standing").await;
}
