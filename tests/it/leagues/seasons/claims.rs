//! What is told of decided cohorts: results, exports, revisions and rewards, and what becomes of claims.

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::INSTANCES;
use super::finals::{exports, winner};
use super::game::Game;
use super::naive::{Section, shown_name};
use crate::harness::Client;
use crate::harness::redis::eventually;
use crate::model::answers::exact;
use crate::model::expect_equal;
use crate::model::results::{self, claimed_of, compare_claim};

/// How many results are read side by side.
const READ_AT_ONCE: usize = 8;

impl Game<'_> {
    /// The path of a period, and what names a cohort of it in a query.
    fn section_path(&self, (period, cohort): Section) -> (String, String) {
        let key = self.calendar.key(period);
        let cohort = self.model.settings_of(period).name(cohort);
        let path = self.standing(&format!("/periods/{key}"));
        (path, format!("cohort={cohort}"))
    }

    /// Has the results of the decided cohorts recorded in which a member sits, so that hides from now on revise them.
    pub async fn record_results_of(&mut self, name: &str) {
        let seats = self.model.member(name).seats;
        let sections: Vec<Section> = seats
            .iter()
            .map(|(period, seat)| (*period, seat.cohort))
            .filter(|section| self.model.decided.contains_key(section))
            .filter(|section| !self.results.finals.contains_key(section))
            .collect();
        for section in sections {
            self.read_result(section).await;
        }
    }

    /// Compares how results were revised that are to be.
    pub async fn follow_revisions(&mut self) {
        let behind = self.results.unrevised();
        let client = self.client();
        let reads: Vec<_> = behind
            .into_iter()
            .map(|section| {
                let (path, query) = self.section_path(section);
                let (rules, client) = (self.results.rules_of(section.0).to_vec(), client.clone());
                async move {
                    let of = results::Section {
                        path: &path,
                        query: &format!("&{query}"),
                        rules: &rules,
                        decimals: 0,
                    };
                    (section, results::history(&client, &of).await)
                }
            })
            .collect();
        let told: Vec<_> = stream::iter(reads).buffered(READ_AT_ONCE).collect().await;
        for (section, told) in told {
            let told = told.unwrap_or_else(|why| panic!("{section:?}: {why}"));
            let revised = self.results.revise(&self.model, section, &told);
            revised.unwrap_or_else(|why| panic!("{section:?} was revised: {told:?}\n{why}"));
        }
    }

    /// Reads all that is told of a decided cohort.
    pub async fn read_result(&mut self, section: Section) {
        self.results.record(&self.model, section);
        let client = self.client();
        let compared = self.compare_result(&client, section).await;
        compared.unwrap_or_else(|why| panic!("{section:?}: {why}"));
    }

    /// Reads all that is told of some decided cohorts.
    pub async fn read_results(&mut self, sections: Vec<Section>) {
        for section in &sections {
            self.results.record(&self.model, *section);
        }
        let clients: Vec<Client> = (0..INSTANCES).map(|_| self.client()).collect();
        let (game, clients) = (&*self, &clients);
        let reads: Vec<_> = sections
            .into_iter()
            .enumerate()
            .map(async |(index, section)| {
                let compared = game.compare_result(&clients[index % INSTANCES], section);
                compared.await.map_err(|why| format!("{section:?}: {why}"))
            })
            .collect();
        let reads = stream::iter(reads).buffer_unordered(READ_AT_ONCE);
        for compared in reads.collect::<Vec<_>>().await {
            compared.unwrap_or_else(|why| panic!("{why}"));
        }
    }

    async fn compare_result(&self, client: &Client, section: Section) -> Result<(), String> {
        let (path, query) = self.section_path(section);
        let (result, decision) = (
            &self.results.finals[&section],
            &self.model.decided[&section],
        );
        let [ndjson, csv] = exports(&self.model, section);
        let told = read_with_digest(client, &format!("{path}?{query}")).await;
        let fields = [
            "state", "total", "winner", "revision", "revising", "rewards", "digest",
        ];
        let own: serde_json::Map<String, Value> = fields
            .map(|field| (field.to_owned(), told[field].clone()))
            .into_iter()
            .collect();
        let digest = Sha256::digest(&ndjson);
        let digest = digest
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        let expected = json!({"state": "final", "total": result.total, "winner": winner(&self.model, section),
            "revision": result.history.len() + 1, "revising": null, "rewards": result.won(), "digest": digest});
        expect_equal(&told.to_string(), &Value::Object(own), &expected)?;
        let turned = &told["turned"];
        let turned = [&turned["counted"], &turned["promoted"], &turned["demoted"]];
        let expected = [decision.counted, decision.promoted, decision.demoted];
        expect_equal("turned", &json!(turned), &json!(expected))?;
        for (format, expected) in [("ndjson", &ndjson), ("csv", &csv)] {
            let export = format!("{path}/export?{query}&format={format}");
            expect_equal(&export, &client.get(&export).await.text, expected)?;
        }
        let of = results::Section {
            path: &path,
            query: &format!("&{query}"),
            rules: self.results.rules_of(section.0),
            decimals: 0,
        };
        results::compare_history(client, &of, result).await?;
        results::compare_rewards(client, &of, result).await?;
        self.compare_rewards_of_members(client, section).await
    }

    /// Compares what members are told of their rewards, whose cohort is found by itself.
    async fn compare_rewards_of_members(
        &self,
        client: &Client,
        section: Section,
    ) -> Result<(), String> {
        let (path, _) = self.section_path(section);
        let rules = self.results.rules_of(section.0);
        for (name, _) in self.model.shown(section.0, section.1).iter().take(3) {
            let Some(name) = shown_name(name) else {
                continue;
            };
            let told = client
                .get(&format!("{path}/rewards?member={name}"))
                .await
                .expect(200);
            let told: Vec<&str> = told["rewards"]
                .as_array()
                .unwrap()
                .iter()
                .map(|of| of["rule"].as_str().unwrap())
                .collect();
            let won: Vec<&str> = self.results.finals[&section]
                .rewards
                .keys()
                .filter(|(_, member)| member == name)
                .map(|(rule, _)| rules[*rule].id.as_str())
                .collect();
            expect_equal(&format!("rewards of {name}"), &told, &won)?;
        }
        Ok(())
    }

    /// Has several callers claim a reward at once.
    pub async fn claim(&mut self) {
        let sections: Vec<Section> = self.results.finals.keys().copied().collect();
        if sections.is_empty() {
            return;
        }
        let section = sections[self.random.below(sections.len())];
        let (rule, name) = self.reward_to_claim(section);
        let (path, query) = self.section_path(section);
        let claim = format!("{path}/rewards/{rule}/members/{name}/claim");
        let callers: Vec<(Client, String)> = (0..=self.random.below(2))
            .map(|_| {
                let by = format!("grant {}", self.random.below(3));
                (self.client(), by)
            })
            .collect();
        let claims = callers.into_iter().map(async |(client, by)| {
            let answer = client.put(&claim, json!({ "by": by })).await;
            (by, answer.status.as_u16(), exact(&answer.text))
        });
        let mut answers = join_all(claims).await;
        self.note(format!("{claim}: {answers:?}"));
        // Whose claim was the first one.
        answers.sort_by_key(|(_, status, _)| *status != 201);
        for (by, status, answered) in answers {
            let named = (rule.as_str(), name.as_str());
            let claimed = self
                .results
                .claim(&self.model, section, named, (&by, self.now));
            let of = results::Section {
                path: &path,
                query: &query,
                rules: self.results.rules_of(section.0),
                decimals: 0,
            };
            let expected = claimed_of(&of, named, claimed);
            let compared = compare_claim(&claim, (status, &answered), &expected);
            compared.unwrap_or_else(|why| panic!("{why}"));
        }
    }

    /// The rule and the member of a reward of a cohort; now and then one that there is not.
    fn reward_to_claim(&mut self, section: Section) -> (String, String) {
        let result = &self.results.finals[&section];
        let known: Vec<_> = result
            .rewards
            .keys()
            .filter(|(_, name)| shown_name(name).is_some())
            .collect();
        let rules = self.results.rules_of(section.0);
        if let Some((rule, name)) = known.get(self.random.below(known.len() + 1)) {
            return (rules[*rule].id.clone(), name.clone());
        }
        // Somebody of the cohort, or somebody without a seat in its period.
        let first = rules
            .first()
            .map_or("a", |rule| rule.id.as_str())
            .to_owned();
        let others: Vec<String> = self
            .names
            .iter()
            .filter(|name| {
                self.model.sits_in(name, section) || self.model.seat(name, section.0).is_none()
            })
            .cloned()
            .collect();
        match others.len() {
            0 => (first, "nobody".to_owned()),
            count => (first, others[self.random.below(count)].clone()),
        }
    }
}

/// A result, once its digest is made: who asks while another request makes one has to ask again.
async fn read_with_digest(client: &Client, path: &str) -> Value {
    let told: Mutex<Value> = Mutex::default();
    eventually("the digest is made", async || {
        let result = client.get(path).await.expect(200);
        let is_made = result["digest"].is_string();
        *told.lock() = result;
        is_made
    })
    .await;
    told.into_inner()
}
