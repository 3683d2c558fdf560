//! Boards move to other shards, and are deleted while they do.

use std::sync::Arc;

use reqwest::StatusCode;
use serde_json::json;
use standings::domain::ids::BoardId;

use super::moderation::hide_all;
use super::sending::Waiting;
use super::{Closed, Game, Hiding, expect_equal, pick};
use crate::harness::jobs::{Moves, Purge, Sweep};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Instance, World, break_off, keys};
use crate::model::answers::{definition, unit_name};
use crate::model::cases::{Batch, Pick};
use crate::model::naive::Model;

impl Game<'_> {
    /// Asks for another number of shards of a board that has several. What has one shard stays so, since more can be asked
    /// of it. Returns whether it has.
    pub(super) async fn spread_anew(&mut self, instance: Pick, board: Pick, shards: u16) -> bool {
        let instance = &self.world.instances[pick(instance, self.world.instances.len())];
        let (id, model) = &self.boards[pick(board, self.boards.len())];
        if model.board.shards == 1 {
            return false;
        }
        let path = format!("/v1/boards/{id}/shards");
        let answer = instance.client.put(&path, json!({ "count": shards })).await;
        self.log.push(format!(
            "{id} is to have {shards} shards: {}",
            answer.status
        ));
        if !answer.status.is_success() {
            // It is on its way to another number of them.
            answer.expect_problem(409, "board-in-use");
        }
        true
    }

    /// Perhaps queues a batch, so that its events wait when a move begins; returns those that do.
    pub(super) async fn queue_before_move(
        &mut self,
        batch: Option<&Batch>,
    ) -> Result<Vec<Waiting>, String> {
        let Some(batch) = batch.filter(|_| self.random.below(3) == 0) else {
            return Ok(Vec::new());
        };
        let request = self.prepare(batch);
        if self.may_queue(&request) {
            self.queue(request).await
        } else {
            self.send_request(request).await.map(|()| Vec::new())
        }
    }

    /// Has all boards moved that are on their way to other shards, while queued events are applied.
    pub(super) async fn move_queued(
        &self,
        instance: Pick,
        queued: &[Waiting],
        killed_after: Option<u16>,
    ) -> Result<(), String> {
        let moving = move_boards(self.world, self.ids(), instance, killed_after);
        let (moved, followed) = tokio::join!(moving, self.follow_queued(queued));
        moved.and(followed)
    }

    fn ids(&self) -> Vec<String> {
        self.boards.iter().map(|(id, _)| id.clone()).collect()
    }

    /// Has all boards moved that are on their way to other shards, while a batch is sent. An instance that is killed leaves
    /// one of them somewhere on its way; another instance goes on if that was closed by then.
    pub(super) async fn reshard(
        &mut self,
        instance: Pick,
        batch: &Batch,
        closed: Option<Closed>,
        hides: &[Hiding],
        killed_after: Option<u16>,
    ) -> Result<(), String> {
        let world = self.world;
        let moving = move_boards(world, self.ids(), instance, killed_after);
        // Outcomes of boards that move tell no ranks: it does not matter which comes first.
        let hidden = hide_all(world, instance, hides);
        let request = self.prepare(batch);
        let sent = self.close(instance, closed.clone(), Some(request), None);
        let (moved, sent, hidden) = tokio::join!(moving, sent, hidden);
        self.log
            .push(format!("until then its data moves, {killed_after:?}"));
        self.note_hides_amid(hides, closed.as_ref());
        moved.and(sent).and(hidden)
    }

    /// Has an instance delete a board, and the next one create it again. The others are not told.
    pub(super) async fn recreate(
        &mut self,
        instance: Pick,
        board: Pick,
        shards: u16,
    ) -> Result<(), String> {
        let instances = &self.world.instances;
        let place = pick(instance, instances.len());
        let [deleting, creating] = [place, (place + 1) % instances.len()];
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        let mut own = model.board.clone();
        if own.shards > 1 {
            own.shards = shards;
        }
        let shards = own.shards;
        self.log.push(format!(
            "instance {deleting} deletes {id}, {creating} creates it with {shards} shards"
        ));
        let path = format!("/v1/boards/{id}");
        let deleted = instances[deleting].client.delete(&path).await;
        expect_equal(&deleted.text, &deleted.status, &StatusCode::NO_CONTENT)?;
        instances[creating]
            .client
            .define(id, definition(&own))
            .await;
        *model = Model::new(own).with_results_since(self.now);
        self.sent.retain(|sent| sent.board != board);
        let of_board = format!("{path}/");
        self.known.retain(|read, _| !read.starts_with(&of_board));
        Ok(())
    }

    /// Deletes the boards, while they move, and looks at the keys before and afterwards.
    pub(super) async fn delete_boards(&mut self, killed_after: Option<u16>) -> Result<(), String> {
        let (world, count) = (self.world, self.world.instances.len());
        let ids: Vec<&String> = self.boards.iter().map(|(id, _)| id).collect();
        let mut checked = Ok(());
        for (id, model) in &self.boards {
            let retained: Vec<String> = model
                .board
                .retention
                .iter()
                .copied()
                .map(unit_name)
                .collect();
            let keys = world.redis.expiries(&keys::pattern(id)).await;
            let slack_ms = world.redis.expiry_slack_ms();
            checked = checked.and(keys::check_expiries(&keys, &retained, slack_ms));
        }
        for id in &ids {
            free_lease(world, &world.instances[0], id).await?;
        }
        let deleted = async {
            for id in &ids {
                let path = format!("/v1/boards/{id}");
                world.client().delete(&path).await.expect(204);
            }
        };
        let place = self.random.below(count);
        let moved = move_for_a_while(world, place, killed_after);
        let ((), moved) = tokio::join!(deleted, moved);
        moved?;
        let engine = &world.instances[self.random.below(count)].engine;
        let purged = engine.run(&Purge).await;
        purged.map_err(|error| error.to_string())?;
        let still = world.redis.hold_still().await;
        let swept = engine.run(&Sweep).await;
        drop(still);
        swept.map_err(|error| error.to_string())?;
        for id in ids {
            let left = world.redis.leftover(&keys::pattern(id)).await;
            checked = checked.and(expect_equal("keys are left", &left, &Vec::new()));
        }
        checked
    }
}

/// Has all boards moved that are on their way to other shards. An instance that is killed leaves one of them somewhere on its way;
/// another instance goes on if that was closed by then.
async fn move_boards(
    world: &World,
    ids: Vec<String>,
    instance: Pick,
    killed_after: Option<u16>,
) -> Result<(), String> {
    let place = pick(instance, world.instances.len());
    let other = &world.instances[(place + 1) % world.instances.len()];
    if move_for_a_while(world, place, killed_after).await? {
        return Ok(());
    }
    for id in &ids {
        if free_lease(world, other, id).await? {
            reshard_boards(other).await?;
        }
    }
    Ok(())
}

/// Has an instance move boards, and kills it after so many waits; returns whether it came to the end.
async fn move_for_a_while(
    world: &World,
    place: usize,
    killed_after: Option<u16>,
) -> Result<bool, String> {
    let instance = &world.instances[place];
    match killed_after {
        Some(waits) => match break_off(reshard_boards(instance), waits).await {
            Some(moved) => moved.map(|()| true),
            None => Ok(false),
        },
        None => reshard_boards(instance).await.map(|()| true),
    }
}

async fn reshard_boards(instance: &Instance) -> Result<(), String> {
    let moved = instance.engine.run(&Moves).await;
    moved.map_err(|error| error.to_string())
}

/// Lets the time go by for which an instance that was killed keeps others from moving a board. Returns whether it was
/// closed.
async fn free_lease(world: &World, instance: &Instance, id: &str) -> Result<bool, String> {
    let board = stored_board(instance, id).await?;
    if board.placement.next.is_some() {
        let head = format!("st:{{{id}}}");
        let words = ["HSET", &head, "move:until", "0"].map(str::as_bytes);
        eventually("the lease has run out", async || {
            matches!(world.redis.run(&words).await, Reply::Integer(_))
        })
        .await;
    }
    Ok(board.placement.is_closing())
}

pub(super) async fn stored_board(
    instance: &Instance,
    id: &str,
) -> Result<Arc<standings::domain::board::Board>, String> {
    let board = instance.engine.board(&BoardId::parse(id).unwrap()).await;
    board.map_err(|error| error.to_string())
}
