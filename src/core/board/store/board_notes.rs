//! Notes that a board has something for a job: messages in its outbox, hides that its results do not take into account, a
//! move to other shards, or dead letters.
//!
//! What the job looks at is under the tag of the board, and the note among the keys of all boards, in another slot. So a
//! call that gives the job something to do notes it *afterwards*, and before its own work counts as done. If it dies in
//! between, its work is repeated, and noted then. A board has one note, however often it is noted, so that a busy board doesn't
//! delay others. Each note has a unique name and replaces the one before, and only the note that was read is removed: a call that
//! removes it has looked at the board after the note was made.

use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, random, script};

/// How many notes one call reads.
const CALL_NOTES_MAX: u32 = 1_000;

#[derive(Clone, Copy, Debug)]
pub enum NotedFor {
    /// Its outbox may have messages.
    Outbox,
    /// Its results may have to be revised.
    Revision,
    /// It may be moving to other shards.
    Move,
    /// It may have dead letters.
    DeadLetters,
}

impl NotedFor {
    fn key(self) -> &'static str {
        match self {
            Self::Outbox => keys::OUTBOXES,
            Self::Revision => keys::MODERATED,
            Self::Move => keys::MOVING,
            Self::DeadLetters => keys::DEAD_LETTERS,
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NotedBoard {
    pub id: BoardId,
    pub generation: u64,
    note: String,
}

impl NotedBoard {
    /// The board that is noted in this field, under this name; `None` for other texts.
    fn parse(field: &str, note: String) -> Option<Self> {
        let (generation, id) = field.split_once(' ')?;
        Some(Self {
            id: BoardId::parse(id).ok()?,
            generation: generation.parse().ok()?,
            note,
        })
    }
}

/// The field of the note of a board.
fn field_of(generation: u64, id: &BoardId) -> String {
    format!("{generation} {id}")
}

pub async fn note(store: &Store, noted_for: NotedFor, board: &Board) -> Result<(), StoreError> {
    let key = noted_for.key();
    let noted = store
        .call(&script::NOTE, key)
        .key(key)
        .arg(field_of(board.generation, &board.id))
        .arg(random::hexadecimal::<8>("")?);
    noted.write::<Done>().await.map(drop)
}

/// Some of the boards with notes, or all if there are few.
pub async fn noted(store: &Store, noted_for: NotedFor) -> Result<Vec<NotedBoard>, StoreError> {
    let args = [noted_for.key(), &CALL_NOTES_MAX.to_string(), "WITHVALUES"];
    let notes: Vec<(String, String)> = store.command("HRANDFIELD", args).await?;
    Ok(notes
        .into_iter()
        .filter_map(|(field, note)| NotedBoard::parse(&field, note))
        .collect())
}

/// Whether this board has a note.
pub async fn is_noted(
    store: &Store,
    noted_for: NotedFor,
    board: &Board,
) -> Result<bool, StoreError> {
    let field = field_of(board.generation, &board.id);
    store.command("HEXISTS", [noted_for.key(), &field]).await
}

/// Removes the note of a board, once nothing that it is for is left; not one that was made since.
pub async fn forget(
    store: &Store,
    noted_for: NotedFor,
    board: &NotedBoard,
) -> Result<(), StoreError> {
    let key = noted_for.key();
    let forgotten = store
        .call(&script::FORGET_NOTE, key)
        .key(key)
        .arg(field_of(board.generation, &board.id))
        .arg(&board.note);
    forgotten.write::<Done>().await.map(drop)
}
