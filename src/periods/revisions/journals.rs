//! Notes which lines of the journals of shards are to revise results.

use std::collections::BTreeMap;

use super::store;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::shard::Shard;
use crate::runtime::join::try_join_all;

/// Notes some journal lines of all shards that come after the `noted` ones. Returns whether there may be more.
pub(super) async fn note_journals(
    engine: &Engine,
    live: &LiveBoard,
    noted: &mut BTreeMap<String, u64>,
) -> Result<bool, Error> {
    let parts = live
        .shards
        .iter()
        .map(|live| &live.shard)
        .filter_map(|shard| {
            let known = *noted.get(shard.tag())?;
            Some(async move {
                let part = note_journal(engine, &live.board, shard, known, false).await?;
                Ok::<_, Error>((shard.tag(), part))
            })
        });
    let mut is_any_left = false;
    for (tag, (up_to, is_more)) in try_join_all(parts).await? {
        is_any_left |= is_more;
        noted.insert(tag.to_owned(), up_to);
    }
    Ok(is_any_left)
}

/// Notes some lines of a shard's journal after `known`. Returns the number of the last noted line, and whether there may be
/// more.
pub(crate) async fn note_journal(
    engine: &Engine,
    board: &Board,
    shard: &Shard,
    known: u64,
    is_closed: bool,
) -> Result<(u64, bool), Error> {
    let part = store::journal(&engine.store, shard, known, is_closed).await?;
    if part.up_to == known {
        return Ok((known, false));
    }
    let numbers = (Some(known), part.up_to);
    let noted = store::note_lines(&engine.store, board, shard.tag(), numbers, &part.lines).await?;
    // Another caller may have noted fewer.
    Ok((noted, part.is_more || noted < part.up_to))
}
