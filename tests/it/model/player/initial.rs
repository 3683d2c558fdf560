//! Initial scores are set and listed.

use std::collections::BTreeMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::json;

use super::{Game, expect_equal, pick, read_amount};
use crate::harness::Client;
use crate::model::answers::{exact, score_text};
use crate::model::cases::{Amount, MEMBERS, Pick};
use crate::model::naive::Model;

impl Game<'_> {
    /// Sets initial scores: of all members that are named, or, if one is no score or the board has no place for
    /// them, of none.
    pub(super) async fn set_initial_scores(
        &mut self,
        instance: Pick,
        board: Pick,
        scores: &[(Pick, Option<Amount>)],
    ) -> Result<(), String> {
        let instance = pick(instance, self.world.instances.len());
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        let decimals = model.board.decimals;
        let scores: BTreeMap<&str, Option<Result<i64, String>>> = scores
            .iter()
            .map(|(member, amount)| {
                let score = amount.map(|amount| read_amount(amount, &model.board));
                (MEMBERS[pick(*member, self.members)], score)
            })
            .collect();
        let fields = scores
            .iter()
            .map(|(member, score)| {
                let number = match score {
                    None => "null".to_owned(),
                    Some(Ok(score)) => score_text(*score, decimals),
                    Some(Err(number)) => number.clone(),
                };
                format!("{}: {number}", json!(member))
            })
            .collect::<Vec<_>>()
            .join(", ");
        self.log
            .push(format!("instance {instance} sets scores of {id}: {fields}"));
        let request = self.world.instances[instance]
            .client
            .builder(Method::PATCH, &format!("/v1/boards/{id}/initial-scores"))
            .header("content-type", "application/json")
            .body(format!("{{\"scores\": {{{fields}}}}}"));
        let answer = Client::send(request).await;
        let answered = exact(&answer.text);
        let scores = scores
            .into_iter()
            .map(|(member, score)| Ok((member.to_owned(), score.transpose()?)));
        let has_initial = !model.board.initial.is_empty();
        if let (Ok(scores), true) = (scores.collect::<Result<_, String>>(), has_initial) {
            let members = model.set_initial_scores(scores).to_string();
            expect_equal(&fields, &answered, &json!({"members": members}))?;
            let client = &self.world.instances[instance].client;
            list_initial_scores(client, id, model).await
        } else {
            let problem = json!("/problems/validation-failed");
            expect_equal(&fields, &answered["type"], &problem)
        }
    }
}

/// Compares a board's list of initial scores with the model's.
async fn list_initial_scores(client: &Client, id: &str, model: &Model) -> Result<(), String> {
    const LIMIT: usize = 3;
    let mut after = String::new();
    for expected in model.initial_scores().chunks(LIMIT) {
        let path = format!("/v1/boards/{id}/initial-scores?limit={LIMIT}{after}");
        let answered = exact(&client.get(&path).await.text);
        let entries = expected.iter().map(|(member, score)| {
            json!({"member": member, "score": score_text(*score, model.board.decimals)})
        });
        expect_equal(&path, &answered["entries"], &entries.collect())?;
        let next = answered["next"].as_str().unwrap_or_default();
        after = format!("&after={}", utf8_percent_encode(next, NON_ALPHANUMERIC));
    }
    expect_equal(
        "where the list ends",
        &after.trim_start_matches("&after="),
        &"",
    )
}
