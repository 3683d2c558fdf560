//! Members are hidden, brought back and erased.

use serde_json::json;
use standings::core::hide::store::erasures;
use standings::domain::ids::{BoardId, MemberId};

use super::INSTANCES;
use super::game::Game;
use crate::harness::break_off;
use crate::harness::jobs::Erasures;
use crate::harness::redis::eventually;

impl Game<'_> {
    /// Hides one or two members, or brings them back.
    pub async fn hide(&mut self) {
        self.be_decided().await;
        let names: Vec<String> = (0..=self.random.below(2)).map(|_| self.name()).collect();
        for name in &names {
            self.record_results_of(name).await;
        }
        for name in names {
            let is_hidden = !self.model.member(&name).is_hidden;
            self.note(format!("hide {name} {is_hidden}"));
            let (client, path) = (self.client(), self.path(&format!("/hidden/{name}")));
            let answer = if is_hidden {
                client.put(&path, json!({"reason": "cheated"})).await
            } else {
                client.delete(&path).await
            };
            assert!(answer.status.is_success(), "{}", answer.text);
            self.note_hidden(&name, is_hidden);
        }
        self.follow_revisions().await;
    }

    /// Takes note of a member that was hidden or brought back.
    pub fn note_hidden(&mut self, name: &str, is_hidden: bool) {
        let member = self.model.members.entry(name.to_owned()).or_default();
        member.is_hidden = is_hidden;
        self.results.note(&self.model, name, is_hidden);
    }

    pub async fn erase(&mut self) {
        let name = self.name();
        self.erase_as(&name).await;
    }

    /// Erases a member, whole or half-way.
    pub async fn erase_as(&mut self, name: &str) {
        self.be_decided().await;
        self.record_results_of(name).await;
        if self.random.below(2) == 0 {
            let waits = u16::try_from(1 + self.random.below(40)).unwrap();
            self.note(format!("erase {name}, {waits}"));
            self.erase_half(name, waits).await;
            self.forget(name);
            self.check_pages(self.period()).await;
            self.check_member(name).await;
            match self.random.below(3) {
                // Whoever writes something new of it ends that first.
                0 => return self.join_as(name).await,
                1 => self.erase_whole(name).await,
                _ => {
                    let engine = &self.world.instances[0].engine;
                    eventually("nothing is left to be removed", async || {
                        engine.run(&Erasures).await.is_ok()
                    })
                    .await;
                    self.erase_whole(name).await;
                }
            }
        } else {
            self.erase_whole(name).await;
        }
        self.check_member(name).await;
        let (client, path) = (
            self.client(),
            self.path(&format!("/league/members/{name}/history")),
        );
        let history = client.get(&path).await.expect(200);
        assert_eq!(history["seats"], json!([]), "{name}");
    }

    async fn erase_whole(&mut self, name: &str) {
        self.note(format!("erase {name}"));
        let path = self.path(&format!("/members/{name}"));
        self.client().delete(&path).await.expect(204);
        self.forget(name);
    }

    /// Erases a member, and breaks off after so many waits what removes it.
    async fn erase_half(&mut self, name: &str, waits: u16) {
        let (id, member) = (
            BoardId::parse(&self.board).unwrap(),
            MemberId::parse(name).unwrap(),
        );
        let index = self.random.below(INSTANCES);
        let engine = &self.world.instances[index].engine;
        eventually("the member is erased", async || {
            let Ok(number) = erasures::begin(&engine.store, &id).await else {
                return false;
            };
            engine.erase(&id, &member, number).await.is_ok()
        })
        .await;
        let _ = break_off(engine.run(&Erasures), waits).await;
    }

    /// Takes note of an erasure. What comes next has another instant.
    fn forget(&mut self, name: &str) {
        let (now, closed) = (self.now, self.last_over());
        let nameless = self.model.erase(name, now, closed);
        self.results.erase(name, nameless.as_ref());
        self.set_time(now + 1);
    }
}
