//! Members are hidden, brought back, and erased.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use standings::core::hide::store::erasures;
use standings::core::hide::store::hidden::new_hide_id;
use standings::domain::hide::{Hide, Reason};
use standings::domain::ids::{BoardId, MemberId};
use standings::moderation;

use super::{Closed, Game, Hiding, expect_equal, pick};
use crate::harness::jobs::Erasures;
use crate::harness::redis::eventually;
use crate::harness::{Instance, World, break_off};
use crate::model::cases::{MEMBERS, Pick};

impl Game<'_> {
    /// Members of a board who are to be hidden, or brought back; each once.
    pub(super) fn hides(&self, board: Pick, members: &[(Pick, bool)]) -> Vec<Hiding> {
        let board = pick(board, self.boards.len());
        let named = members
            .iter()
            .map(|(member, is_hidden)| (MEMBERS[pick(*member, self.members)], *is_hidden));
        let hiding = |(member, is_hidden)| Hiding {
            board,
            id: self.boards[board].0.clone(),
            member,
            is_hidden,
        };
        let each: BTreeMap<&'static str, bool> = named.collect();
        each.into_iter().map(hiding).collect()
    }

    /// Takes note of members that were hidden, or brought back.
    pub(super) fn note_hides(&mut self, hides: &[Hiding]) {
        for hiding in hides {
            self.log.push(format!("{hiding:?}"));
            let model = &mut self.boards[hiding.board].1;
            model.set_hidden(hiding.member, hiding.is_hidden);
        }
    }

    /// Takes note of members that were hidden, or brought back, while periods were closed.
    pub(super) fn note_hides_amid(&mut self, hides: &[Hiding], closed: Option<&Closed>) {
        self.note_hides(hides);
        if closed.is_some() && !hides.is_empty() {
            for (_, model) in &mut self.boards {
                model.disturb_results();
            }
        }
    }

    /// Compares the lists of hidden members with the models'.
    pub(super) async fn list_hidden(&self, instance: Pick) -> Result<(), String> {
        const LIMIT: usize = 2;
        let engine = &self.world.instances[pick(instance, self.world.instances.len())].engine;
        for (id, model) in &self.boards {
            let (board, mut after, mut listed) = (BoardId::parse(id).unwrap(), None, Vec::new());
            loop {
                let found = Mutex::new(None);
                eventually("hidden members are listed", async || {
                    let read = engine.hidden(&board, after.as_ref(), LIMIT).await;
                    *found.lock() = read.ok();
                    found.lock().is_some()
                })
                .await;
                let (found, _) = found.into_inner().unwrap();
                listed.extend(found.items.iter().map(|(member, _)| member.to_string()));
                after = found.next;
                if after.is_none() {
                    break;
                }
            }
            // A hide that has outlived an erasure is listed again when the member has data.
            let may_be_listed = |member: &&str| {
                !model.was_erased(member) || listed.iter().any(|other| other == member)
            };
            let expected: Vec<String> = model
                .hidden()
                .filter(may_be_listed)
                .map(ToOwned::to_owned)
                .collect();
            expect_equal("who is hidden", &listed, &expected)?;
        }
        Ok(())
    }

    /// Erases a member, whole or half-way.
    pub(super) async fn erase(
        &mut self,
        instance: Pick,
        board: Pick,
        member: Pick,
        forgotten: Option<u16>,
    ) -> Result<(), String> {
        // Each erasure of a member has an instant of its own.
        self.set_clock(self.now + 1);
        let member = MEMBERS[pick(member, self.members)];
        let instance = pick(instance, self.world.instances.len());
        let Instance { engine, client, .. } = &self.world.instances[instance];
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        self.log.push(format!(
            "instance {instance} erases {member:?} on {id}, {forgotten:?}"
        ));
        model.erase(member, self.now);
        let Some(forgotten) = forgotten else {
            let encoded = utf8_percent_encode(member, NON_ALPHANUMERIC);
            let path = format!("/v1/boards/{id}/members/{encoded}");
            let answer = client.delete(&path).await;
            return expect_equal(&path, &answer.status, &StatusCode::NO_CONTENT);
        };
        let (id, member) = (
            BoardId::parse(id).unwrap(),
            MemberId::parse(member).unwrap(),
        );
        let engine = &engine;
        let erased = async {
            let number = erasures::begin(&engine.store, &id).await?;
            engine.erase(&id, &member, number).await
        };
        erased.await.map_err(|error| error.to_string())?;
        match break_off(engine.run(&Erasures), forgotten).await {
            Some(removed) => removed.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// Hides members, and brings others back; again where a server is missing.
pub(super) async fn hide_all(
    world: &World,
    instance: Pick,
    hides: &[Hiding],
) -> Result<(), String> {
    let engine = &world.instances[pick(instance, world.instances.len())].engine;
    for hiding in hides {
        let (id, member) = (
            BoardId::parse(&hiding.id).unwrap(),
            MemberId::parse(hiding.member).unwrap(),
        );
        let hide = Hide {
            id: new_hide_id().unwrap(),
            reason: Reason::parse("cheating").unwrap(),
            by: "mod".to_owned(),
            since: engine.clock.now(),
            until: None,
        };
        eventually("a hide is answered", async || {
            if hiding.is_hidden {
                moderation::work::hide(engine, &id, &member, &hide)
                    .await
                    .is_ok()
            } else {
                engine.unhide(&id, &member, None).await.is_ok()
            }
        })
        .await;
    }
    Ok(())
}
