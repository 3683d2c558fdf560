//! Posts events until each has an outcome.

use std::time::Instant;

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ANSWERED_WITHIN, BOARDS, Outcome, QUOTAS, RETRY_INTERVAL, Sent};
use crate::harness::Client;
use crate::model::answers;

pub(super) async fn post_until_answered(client: &Mutex<Client>, events: &[Sent]) -> Vec<Outcome> {
    let begun = Instant::now();
    while begun.elapsed() < ANSWERED_WITHIN {
        let to = client.lock().clone();
        if let Some(outcomes) = post(&to, events).await {
            return outcomes;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    vec![Outcome::Unknown; events.len()]
}

/// The outcomes, if there is an answer that says something of the events.
pub(super) async fn post(client: &Client, events: &[Sent]) -> Option<Vec<Outcome>> {
    let body = |sent: &Sent| {
        let event = &sent.event;
        json!({
            "id": event.id,
            "member": event.member,
            "score": event.score,
            "at": event.at.map(answers::time_text),
            "voter": event.voter,
        })
    };
    let in_batch = |sent: &Sent| {
        let mut body = body(sent);
        body["board"] = json!(BOARDS[sent.board]);
        body
    };
    let (path, body) = if let [sent] = events {
        let path = format!("/v1/boards/{}/events", BOARDS[sent.board]);
        (path, body(sent))
    } else {
        let events: Vec<Value> = events.iter().map(in_batch).collect();
        ("/v1/events".to_owned(), json!({"events": events}))
    };
    let request = client.builder(Method::POST, &path).json(&body);
    let answer = Client::try_send(request).await.ok()?;
    match (answer.status.as_u16(), events) {
        // Where it is its quota that has to wait, this takes seconds.
        (500 | 503, [_]) => Some(vec![Outcome::Unknown]),
        (500 | 503, _) => None,
        (200, [sent]) => Some(vec![outcome(sent, &answer.json)]),
        (429, [sent]) => Some(vec![refusal(sent, &answer.json)]),
        (200, _) => {
            let results = answer.json["results"].as_array().unwrap();
            assert_eq!(results.len(), events.len());
            let outcomes = events.iter().zip(results);
            Some(
                outcomes
                    .map(|(sent, result)| outcome(sent, result))
                    .collect(),
            )
        }
        _ => panic!("{}", answer.text),
    }
}

pub(super) fn outcome(sent: &Sent, result: &Value) -> Outcome {
    assert_eq!(result["id"], json!(sent.event.id), "{result}");
    match result["status"].as_str() {
        Some("applied") if sent.is_known => panic!("{sent:?} is counted twice: {result}"),
        Some("applied" | "duplicate") => Outcome::Taken,
        _ => refusal(sent, &result["problem"]),
    }
}

fn refusal(sent: &Sent, problem: &Value) -> Outcome {
    match problem["code"].as_str() {
        Some("quota-exceeded") if sent.board == QUOTAS && !sent.is_known => Outcome::Refused,
        Some("internal") => Outcome::Unknown,
        _ if problem["status"] == 503 => Outcome::Unknown,
        _ => panic!("{sent:?}: {problem}"),
    }
}
