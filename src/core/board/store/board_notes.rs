//! Notes that a board has something for a job: messages in its outbox, hides that its results do not take into account, or
//! a move to other shards.
//!
//! What the job looks at is under the tag of the board, and the note among the keys of all boards, in another slot. So a
//! call that gives the job something to do notes it *afterwards*, and before its own work counts as done. If it dies in
//! between, its work is repeated, and noted then. Each note has a unique name: a call that removes it has looked at the
//! board after the note was made.

use std::collections::BTreeMap;

use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, random, script};

/// How many notes one call reads.
const CALL_NOTES_MAX: u32 = 1_000;

/// The reason for a note.
#[derive(Clone, Copy, Debug)]
pub enum NotedFor {
    /// Its outbox may have messages.
    Outbox,
    /// Its results may have to be revised.
    Revision,
    /// It may be moving to other shards.
    Move,
}

impl NotedFor {
    fn key(self) -> &'static str {
        match self {
            Self::Outbox => keys::OUTBOXES,
            Self::Revision => keys::MODERATED,
            Self::Move => keys::MOVING,
        }
    }
}

/// A board with notes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NotedBoard {
    /// Its id.
    pub id: BoardId,
    /// Its generation.
    pub generation: u64,
    /// Its notes.
    notes: Vec<String>,
}

impl NotedBoard {
    /// The boards of these notes; other texts are ignored.
    fn all_of(notes: Vec<String>) -> Vec<Self> {
        let mut boards: BTreeMap<(BoardId, u64), Vec<String>> = BTreeMap::new();
        for note in notes {
            if let Some(board) = board_of(&note) {
                boards.entry(board).or_default().push(note);
            }
        }
        boards
            .into_iter()
            .map(|((id, generation), notes)| Self {
                id,
                generation,
                notes,
            })
            .collect()
    }
}

/// The board of a note, and its generation.
fn board_of(note: &str) -> Option<(BoardId, u64)> {
    let (_name, board) = note.split_once(' ')?;
    let (generation, id) = board.split_once(' ')?;
    Some((BoardId::parse(id).ok()?, generation.parse().ok()?))
}

/// Adds a note for a board.
pub async fn note(store: &Store, noted_for: NotedFor, board: &Board) -> Result<(), StoreError> {
    let name = random::hexadecimal::<8>("")?;
    let key = noted_for.key();
    let noted = store
        .call(&script::UNNEEDED, key)
        .key(key)
        .arg(format!("{name} {} {}", board.generation, board.id));
    noted.write::<Done>().await.map(drop)
}

/// Some of the boards with notes, or all if there are few notes.
pub async fn noted(store: &Store, noted_for: NotedFor) -> Result<Vec<NotedBoard>, StoreError> {
    let args = [noted_for.key(), &CALL_NOTES_MAX.to_string()];
    let notes = store.command("SRANDMEMBER", args).await?;
    Ok(NotedBoard::all_of(notes))
}

/// Whether this board has a note. It reads all notes.
pub async fn is_noted(
    store: &Store,
    noted_for: NotedFor,
    board: &Board,
) -> Result<bool, StoreError> {
    let notes: Vec<String> = store.command("SMEMBERS", [noted_for.key()]).await?;
    let mut boards = notes.iter().filter_map(|note| board_of(note));
    Ok(boards.any(|(id, generation)| id == board.id && generation == board.generation))
}

/// Removes the notes of a board, after nothing of what they are for was left.
pub async fn forget(
    store: &Store,
    noted_for: NotedFor,
    board: &NotedBoard,
) -> Result<(), StoreError> {
    let notes = board.notes.iter().map(String::as_str);
    let args = std::iter::once(noted_for.key()).chain(notes);
    store.command("SREM", args).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_of_a_generation_are_one_board() {
        let notes = [
            "5f00 7 vote-eu",
            "5f01 8 vote-eu",
            "5f00 vote-eu",
            "5f02 7 vote-eu",
        ];
        let board = |generation, notes: &[&str]| NotedBoard {
            id: BoardId::parse("vote-eu").unwrap(),
            generation,
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        };
        assert_eq!(
            NotedBoard::all_of(notes.map(str::to_owned).to_vec()),
            [
                board(7, &["5f00 7 vote-eu", "5f02 7 vote-eu"]),
                board(8, &["5f01 8 vote-eu"])
            ]
        );
    }
}
