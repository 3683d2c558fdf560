//! A broker that is reached by TLS, and asks for a password.

use crate::broker::{Broker, PASSWORD, Topic, USER};
use crate::harness::RedisServer;
use crate::harness::program::{self, Program};
use crate::harness::tls::authority;
use crate::votes::{BOARD, Scores, definition, send};

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_passwords_are_read_from_a_file_and_never_logged() {
    let folder = tempfile::TempDir::new().unwrap();
    let (broker, redis) = (Broker::start_secure().await, RedisServer::start().await);
    let options = |password: &str| {
        format!(
            "# How the cluster is reached\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username={USER}\n\
             sasl.password={password}\nssl.ca.location={}\n",
            authority().display()
        )
    };
    let path = folder.path().join("client.properties");
    std::fs::write(&path, options(PASSWORD)).unwrap();
    let servers = format!("localhost:{}", broker.port());
    let topic = Topic::create_with(&servers, "events", 2, &options(PASSWORD)).await;
    let serve = async || {
        let mut command = program::command(&["--listen", "127.0.0.1:0"]);
        command.args(["--redis-url", &redis.url(), "--queue-url", &topic.url()]);
        command.arg("--kafka-options-file").arg(&path);
        Program::run_until_ready(command.env("STANDINGS_TIMEOUT_FACTOR", "1")).await
    };
    let program = serve().await;
    let client = program.client();
    client.define(BOARD, definition()).await;
    send(&client, 0..100).await;
    Scores::of(0..100).wait_for(&client).await;
    assert!(!program.stop().await.contains(PASSWORD));
    std::fs::write(&path, options("a-wrong-password")).unwrap();
    let program = serve().await;
    let event = serde_json::json!({"id": "x", "member": "ann", "score": 1});
    let refused = program
        .client()
        .once()
        .post(&format!("/v1/boards/{BOARD}/events"), event)
        .await;
    refused.expect_problem(503, "log-unavailable");
    let log = program.stop().await;
    assert!(
        log.contains("Authentication") && !log.contains("a-wrong-password"),
        "{log}"
    );
}
