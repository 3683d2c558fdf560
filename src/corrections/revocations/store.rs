//! Stores revocations.

use std::collections::HashMap;

use bytes::Bytes;

use super::revocation::{Named, Revocation};
use crate::domain::board::Board;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// Follow the name of a revocation in the names of the fields with the hashes of its events, and with what it names.
const OF_EVENTS: &str = ":events";
const OF_NAMED: &str = ":named";

/// What is written of a board's revocations.
#[derive(Debug, Default)]
pub(super) struct Written<'a> {
    pub(super) revocation: Option<&'a Revocation>,
    /// The hashes of the events that it names.
    pub(super) hashes: Option<Vec<u8>>,
    /// What one of them names.
    pub(super) named: Option<(&'a str, &'a Named)>,
    /// The fields that are removed.
    pub(super) removed: Vec<String>,
}

/// The fields of a revocation: itself, the hashes of its events, and what it names.
pub(super) fn fields_of(token: &str) -> [String; 3] {
    ["", OF_EVENTS, OF_NAMED].map(|of| format!("{token}{of}"))
}

/// All revocations of a board, the last first.
pub(super) async fn all(store: &Store, board: &Board) -> Result<Vec<Revocation>, StoreError> {
    let key = keys::of_board(board, Kind::Revocations);
    let fields: Vec<String> = store.command("HKEYS", [&key]).await?;
    let tokens: Vec<String> = fields
        .into_iter()
        .filter(|field| !field.contains(':'))
        .collect();
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    let found: Vec<Option<String>> = store
        .command("HMGET", std::iter::once(key).chain(tokens))
        .await?;
    let read = |found: &String| read_json("a revocation", found);
    let mut all: Vec<Revocation> = found.iter().flatten().map(read).collect::<Result<_, _>>()?;
    all.sort_by_key(|one| std::cmp::Reverse(one.number));
    Ok(all)
}

/// The hashes of the events that revocations name, one after the other, by their names.
pub(super) async fn hashes(
    store: &Store,
    board: &Board,
    tokens: &[&str],
) -> Result<HashMap<String, Bytes>, StoreError> {
    if tokens.is_empty() {
        return Ok(HashMap::new());
    }
    let key = keys::of_board(board, Kind::Revocations);
    let fields = tokens.iter().map(|token| format!("{token}{OF_EVENTS}"));
    let found: Vec<Option<Bytes>> = store
        .command("HMGET", std::iter::once(key).chain(fields))
        .await?;
    let named = tokens.iter().zip(found);
    Ok(named
        .filter_map(|(token, hashes)| Some(((*token).to_owned(), hashes?)))
        .collect())
}

/// What a revocation names; nothing if that is not known any more.
pub(super) async fn named(store: &Store, board: &Board, token: &str) -> Result<Named, StoreError> {
    let field = format!("{token}{OF_NAMED}");
    let key = keys::of_board(board, Kind::Revocations);
    let found: Option<String> = store.command("HGET", [key, field]).await?;
    let read = found.map(|found| read_json("what a revocation names", &found));
    Ok(read.transpose()?.unwrap_or_default())
}

/// Writes and removes revocations. Stale if the board's definition is another one.
pub(super) async fn write(
    store: &Store,
    board: &Board,
    written: Written<'_>,
) -> Result<(), StoreError> {
    let mut call = store
        .call_board(&script::NOTE_REVOCATION, board)
        .key(keys::of_board(board, Kind::Revocations))
        .field("version", board.version())
        .field("removed", written.removed);
    if let Some(revocation) = written.revocation {
        let token = &revocation.token;
        call = call.arg(token).json(revocation);
        if let Some(hashes) = written.hashes {
            call = call.arg(format!("{token}{OF_EVENTS}")).arg(hashes);
        }
    }
    if let Some((token, named)) = written.named {
        call = call.arg(format!("{token}{OF_NAMED}")).json(named);
    }
    call.write::<Done>().await.map(drop)
}
