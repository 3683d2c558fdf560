//! A write that the private server has written in part when it dies.

use std::ops::Range;

use futures::stream::{self, StreamExt};
use serde_json::json;

use super::Home;
use crate::harness::Client;
use crate::harness::program::Program;

/// The last write of the file is torn in the middle of each of its commands.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_write_is_undone_as_a_whole() {
    const APPEND_ONLY: &str = "appendonlydir/appendonly.aof.1.incr.aof";
    let home = Home::new();
    let program = Program::serve_with(&home.data(), &home.server).await;
    let quotas = json!([{"name": "q", "by": ["voter"], "window": "total", "max": 9}]);
    let definition = json!({"windows": ["all"], "quotas": quotas, "uniques": "member"});
    program.client().define("b", definition).await;
    // Without an `at` an event that is sent again is another write.
    let send = async |client: &Client, id: &str, member: &str, score: i64| {
        let event = json!({"id": id, "member": member, "score": score, "voter": "v"});
        let answer = client.post("/v1/boards/b/events", event).await.expect(200);
        answer["status"].as_str().unwrap().to_owned()
    };
    let state = async |client: &Client| {
        let mut page = client.get("/v1/boards/b/standings/all").await.expect(200);
        for entry in page["entries"].as_array_mut().unwrap() {
            entry["reached_at"].take();
        }
        let stats = client.get("/v1/boards/b/standings/all/stats").await;
        let quotas = client.get("/v1/boards/b/quotas?voter=v").await;
        [page, stats.expect(200), quotas.expect(200)]
    };
    for (id, member, score) in [
        ("one", "ann", 100),
        ("two", "bob", 50),
        ("three", "ann", 10),
    ] {
        assert_eq!(send(&program.client(), id, member, score).await, "applied");
    }
    let expected = state(&program.client()).await;
    program.stop().await;
    let file = std::fs::read(home.data().join(APPEND_ONLY)).unwrap();
    let find = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).rposition(|at| at == part);
    let known = find(&file, b"three").unwrap();
    let begins_at = find(&file[..known], b"*1\r\n$5\r\nMULTI\r\n").unwrap();
    let commands = commands(&file[begins_at..]);
    assert!(commands.len() > 5, "{commands:?}");

    let ends_at = commands.last().unwrap().end;
    let middles = commands
        .iter()
        .map(|command| command.start.midpoint(command.end));
    let cuts = stream::iter(middles.chain([ends_at - 5, ends_at])).map(async |cut| {
        let torn = Home::new();
        let folder = torn.data().join("appendonlydir");
        std::fs::create_dir_all(&folder).unwrap();
        for other in std::fs::read_dir(home.data().join("appendonlydir")).unwrap() {
            let other = other.unwrap();
            std::fs::copy(other.path(), folder.join(other.file_name())).unwrap();
        }
        std::fs::write(torn.data().join(APPEND_ONLY), &file[..begins_at + cut]).unwrap();
        let program = Program::serve_with(&torn.data(), &torn.server).await;
        let status = send(&program.client(), "three", "ann", 10).await;
        let was_whole = cut == ends_at;
        assert_eq!(
            status,
            if was_whole { "duplicate" } else { "applied" },
            "cut at {cut}"
        );
        program.stop().await;
        let program = Program::serve_with(&torn.data(), &torn.server).await;
        assert_eq!(state(&program.client()).await, expected, "cut at {cut}");
        program.stop().await;
    });
    cuts.buffer_unordered(3).collect::<()>().await;
}

/// Where the commands of the first block lie.
fn commands(bytes: &[u8]) -> Vec<Range<usize>> {
    let number = |at: &mut usize| {
        let line = bytes[*at..].split(|byte| *byte == b'\r').next().unwrap();
        *at += line.len() + 2;
        let digits = str::from_utf8(&line[1..]).unwrap();
        digits.parse::<usize>().unwrap()
    };
    let (mut commands, mut at) = (Vec::new(), 0);
    while !bytes[..at].ends_with(b"$4\r\nEXEC\r\n") {
        let start = at;
        for _ in 0..number(&mut at) {
            at += number(&mut at) + 2;
        }
        commands.push(start..at);
    }
    commands
}
