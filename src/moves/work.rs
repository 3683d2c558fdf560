//! Begins to move a board to another number of shards, and reports the progress.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job::{Position, lease_of};
use crate::boards;
use crate::boards::draft::Draft;
use crate::boards::work::Terms;
use crate::core::{Engine, Error};
use crate::domain::ids::BoardId;

/// The shards of a board.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[schema(as = Spread)]
pub struct BoardShards {
    /// The current number of shards.
    #[schema(minimum = 1, maximum = 64)]
    pub shards: u16,
    /// The number of shards after the move; null if no move is in progress.
    #[schema(minimum = 1, maximum = 64)]
    pub moving_to: Option<u16>,
    /// How many entries the move has copied. An entry that changes during the move is copied and counted again.
    pub copied: u64,
}

/// Begins to move a board to this many shards, 1 to 64. Its data moves in the background. Returns how many shards it was to have
/// before, and the current state.
///
/// # Errors
///
/// [`BOARD_IN_USE`](crate::domain::problems::BOARD_IN_USE) while it moves to a different number;
/// [`VALIDATION_FAILED`](crate::domain::problems::VALIDATION_FAILED) for a number that the board can't have.
pub async fn begin_move(
    engine: &Engine,
    id: &BoardId,
    shards: u16,
) -> Result<(u16, BoardShards), Error> {
    let draft = Draft::Spread(shards);
    let (board, before) = boards::work::define(engine, id, &draft, &Terms::default()).await?;
    let before = before.unwrap_or(board).placement.wanted();
    Ok((before, progress(engine, id).await?))
}

/// The shards of a board, and the progress of a move.
pub async fn progress(engine: &Engine, id: &BoardId) -> Result<BoardShards, Error> {
    let board = engine.board(id).await?;
    let next = board.placement.next;
    let mut copied = 0;
    if next.is_some() {
        let position = engine.store.lease_position(&lease_of(&board)).await?;
        copied = Position::parse(&position).copied;
    }
    Ok(BoardShards {
        shards: board.placement.current.shards,
        moving_to: next.map(|next| next.to.shards),
        copied,
    })
}
