//! Writes the erasures that Redis knows into a file, and carries out those of a file that restored data does not know.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::file::{ErasureFile, Wanted};
use super::store;
use super::walk::Search;
use crate::audit;
use crate::core::board::store::boards;
use crate::core::hide::store::erasures::{self, KnownErasure};
use crate::core::hide::store::hidden;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::erasure::Erasure;
use crate::domain::ids::{BoardId, MemberId};
use crate::moderation::{orders, work};
use crate::profiles;

/// How many members of a board are erased concurrently.
const ERASED_AT_ONCE: usize = 8;

/// What was done with the erasures of a file, or would be.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Applied {
    /// On how many boards erasures were looked for.
    pub boards: usize,
    /// The boards with members that were erased again, and how many.
    pub erased: Vec<(BoardId, usize)>,
    /// How many members were erased again from what belongs to no board.
    pub everywhere: usize,
    /// What people have to know.
    pub remarks: Vec<Remark>,
}

/// What people have to know after erasures were applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Remark {
    /// The file has a board that Redis lacks.
    Missing(BoardId),
    /// The restored data has a board that had been deleted when the file was written.
    Deleted(BoardId),
    /// The restored data has a board that had been deleted and created again when the file was written.
    Former(BoardId),
    /// So many erasures of members that a board does not have can't be stored on it.
    Unstored(BoardId, usize),
    /// The board could not be searched, for this reason.
    Failed(BoardId, String),
}

impl Applied {
    /// Whether something is left for people to do.
    pub fn is_complete(&self) -> bool {
        let is_open = |remark: &Remark| matches!(remark, Remark::Deleted(_) | Remark::Former(_));
        !self.remarks.iter().any(is_open)
    }

    /// Whether a board could not be searched.
    pub fn has_failed(&self) -> bool {
        let has_failed = |remark: &Remark| matches!(remark, Remark::Failed(..));
        self.remarks.iter().any(has_failed)
    }

    /// How many members were erased again, counted on each board.
    pub fn members(&self) -> usize {
        self.erased.iter().map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(id) => write!(f, "board {id} does not exist: nothing to erase there"),
            Self::Deleted(id) => write!(
                f,
                "board {id} had been deleted when the file was written: delete it again"
            ),
            Self::Former(id) => write!(
                f,
                "board {id} had been deleted and created again when the file was written: delete it, and create it again"
            ),
            Self::Unstored(id, count) => write!(
                f,
                "board {id} has none of the members of {count} erasures, and can't note these: its hashes have another key. Unless \
                 it has erased them again before, it takes older events of these members"
            ),
            Self::Failed(id, why) => write!(f, "board {id}: {why}"),
        }
    }
}

/// The erasures that Redis knows: of one board, or of all.
///
/// # Errors
///
/// Also if a board can't be read: a file without it would not be complete.
pub async fn export(engine: &Engine, only: Option<&BoardId>) -> Result<ErasureFile, Error> {
    let store = &engine.store;
    let stamp = boards::stamp_ago(store, 0).await?.unsigned_abs();
    let mut file = ErasureFile::new(only.cloned(), erasures::hash_key(store).await?, stamp);
    let ids = match only {
        Some(id) => BTreeSet::from([id.clone()]),
        None => boards::all_ids(store).await?,
    };
    for id in ids {
        let known = engine.with_board(&id, async |live| {
            Ok((live.board.generation, engine.erasures_on(&live).await?))
        });
        match known.await {
            Ok((generation, known)) => file.add_board(id, generation, known.concat()),
            // It was deleted meanwhile.
            Err(Error::BoardNotFound(_)) if only.is_none() => {}
            Err(error) => return Err(error),
        }
    }
    // Last: an erasure is noted here before any board gets it.
    if only.is_none() {
        for (name, erasure) in store::erased_everywhere(store).await? {
            file.add_everywhere(name, erasure);
        }
    }
    Ok(file)
}

/// Erases again the members that a file names, where the stored data does not know their erasures. `is_trial`: only counts them.
///
/// # Errors
///
/// If Redis fails. The fault of one board is a remark, and holds up no other.
pub async fn apply(engine: &Engine, file: &ErasureFile, is_trial: bool) -> Result<Applied, Error> {
    if !is_trial {
        erasures::adopt_hash_key(&engine.store, &file.keys[0]).await?;
    }
    let ids = boards::all_ids(&engine.store).await?;
    let missing = file.boards.keys().filter(|id| !ids.contains(*id));
    let mut applied = Applied {
        remarks: missing.cloned().map(Remark::Missing).collect(),
        ..Applied::default()
    };
    for id in ids {
        if file.only.as_ref().is_none_or(|only| *only == id) {
            apply_to(engine, file, id, is_trial, &mut applied).await;
        }
    }
    applied.everywhere = apply_everywhere(engine, file, is_trial).await?;
    Ok(applied)
}

async fn apply_to(
    engine: &Engine,
    file: &ErasureFile,
    id: BoardId,
    is_trial: bool,
    applied: &mut Applied,
) {
    applied.boards += 1;
    let outcome = async {
        let generation = engine.live_board(&id).await?.board.generation;
        applied.remarks.extend(state_of(file, &id, generation));
        let (wanted, found) = find(engine, file, &id).await?;
        if !is_trial {
            erase_again(engine, &id, &found).await?;
        }
        if !found.is_empty() {
            applied.erased.push((id.clone(), found.len()));
        }
        if !is_trial {
            let unstored = note_others(engine, &id, wanted, &found).await?;
            if unstored > 0 {
                applied.remarks.push(Remark::Unstored(id.clone(), unstored));
            }
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = outcome.await {
        let failed = Remark::Failed(id.clone(), error.to_string());
        applied.remarks.push(failed);
    }
}

/// What has to be said of a stored board with this generation.
fn state_of(file: &ErasureFile, id: &BoardId, generation: u64) -> Option<Remark> {
    match file.boards.get(id) {
        Some(filed) if generation < filed.generation => Some(Remark::Former(id.clone())),
        None if generation < file.stamp => Some(Remark::Deleted(id.clone())),
        _ => None,
    }
}

type Found = Vec<(MemberId, Erasure)>;

/// The erasures that not every shard of a board knows, and those of them whose members it has although they are erased.
async fn find<'f>(
    engine: &Engine,
    file: &'f ErasureFile,
    id: &BoardId,
) -> Result<(Wanted<'f>, Found), Error> {
    engine
        .with_board(id, async |live| {
            let mut wanted = Wanted::on_board(file, id, live.board.generation);
            let known = Known::new(engine.erasures_on(&live).await?);
            // A member's home follows from its id alone, so an erasure may be one that only another shard has to know.
            wanted.keep_if(|name, erasure| !known.to_all(name, erasure));
            let mut found = search(engine, &live, &wanted).await?;
            // Otherwise the search may have missed what moved meanwhile.
            boards::require_current(&engine.store, &live.board).await?;
            found.retain(|(member, erasure)| {
                let has_returned = wanted
                    .of(member)
                    .is_some_and(|(name, _)| known.at_home(&live, member, name, *erasure));
                if has_returned {
                    wanted.drop_of(member);
                }
                !has_returned
            });
            Ok((wanted, found))
        })
        .await
}

/// The numbers of the erasures that each shard of a board knows, by the names of the members.
struct Known(Vec<HashMap<String, u64>>);

impl Known {
    fn new(of_shards: Vec<Vec<KnownErasure>>) -> Self {
        let numbers = |known: Vec<KnownErasure>| {
            let numbers = known.into_iter();
            numbers
                .map(|known| (known.name, known.erasure.number))
                .collect()
        };
        Self(of_shards.into_iter().map(numbers).collect())
    }

    fn to(&self, shard: usize, name: &str, erasure: Erasure) -> bool {
        let number = self.0[shard].get(name);
        number.is_some_and(|number| *number >= erasure.number)
    }

    /// Whether all shards know an erasure, or a later one of the member.
    fn to_all(&self, name: &str, erasure: Erasure) -> bool {
        (0..self.0.len()).all(|shard| self.to(shard, name, erasure))
    }

    /// Whether the shards that may have data of a member know its erasure: then the member has returned since.
    fn at_home(&self, live: &LiveBoard, member: &MemberId, name: &str, erasure: Erasure) -> bool {
        let home = live.board.shard_of(member);
        let mut shards = 0..self.0.len();
        shards
            .all(|shard| shard != home && !live.board.is_league() || self.to(shard, name, erasure))
    }
}

async fn search(engine: &Engine, live: &LiveBoard, wanted: &Wanted<'_>) -> Result<Found, Error> {
    let mut search = Search::new(engine, wanted);
    if !wanted.erasures.is_empty() {
        search.on_board(live).await?;
    }
    Ok(search.found.into_iter().collect())
}

async fn erase_again(engine: &Engine, id: &BoardId, found: &Found) -> Result<(), Error> {
    let erased: Vec<BoxFuture<'_, _>> = found
        .iter()
        .map(|(member, erasure)| Box::pin(work::erase_again(engine, id, member, erasure)) as _)
        .collect();
    stream::iter(erased)
        .buffer_unordered(ERASED_AT_ONCE)
        .try_collect()
        .await
}

/// Stores the erasures of members that a board does not have. Returns how many it can't store.
async fn note_others(
    engine: &Engine,
    id: &BoardId,
    mut wanted: Wanted<'_>,
    found: &Found,
) -> Result<usize, Error> {
    for (member, _) in found {
        wanted.drop_of(member);
    }
    let (mut unstored, names) = (0, wanted.by_key());
    for (key, others) in &names {
        let are_stored = engine
            .with_board(id, async |live| {
                let mut are_stored = true;
                for live in &live.shards {
                    are_stored &=
                        erasures::restore(&engine.store, &live.shard, key, others).await?;
                }
                Ok(are_stored)
            })
            .await?;
        if !are_stored {
            unstored += others.len();
        }
    }
    if names.is_empty() {
        return Ok(0);
    }
    note_returned(engine, id, &wanted).await?;
    Ok(unstored)
}

/// Notes that members have returned: they got data after the search, before their erasures were stored. Without that note a
/// hide would have no effect until they get more.
async fn note_returned(engine: &Engine, id: &BoardId, noted: &Wanted<'_>) -> Result<(), Error> {
    engine
        .with_board(id, async |live| {
            for (member, _) in search(engine, &live, noted).await? {
                let (others, own) = live.shards_with(&member);
                for shard in others.into_iter().chain([own]) {
                    let now = engine.clock.now();
                    hidden::return_hide(&engine.store, shard, &member, now).await?;
                }
            }
            boards::require_current(&engine.store, &live.board).await?;
            Ok(())
        })
        .await
}

/// Removes members that were erased on all boards from what belongs to no board. Returns how many there are.
async fn apply_everywhere(
    engine: &Engine,
    file: &ErasureFile,
    is_trial: bool,
) -> Result<usize, Error> {
    let mut wanted = Wanted::everywhere(file);
    let known: HashMap<_, _> = store::erased_everywhere(&engine.store)
        .await?
        .into_iter()
        .collect();
    wanted.keep_if(|name, erasure| {
        let known = known.get(name);
        known.is_none_or(|known| known.number < erasure.number)
    });
    if wanted.erasures.is_empty() {
        return Ok(0);
    }
    let mut search = Search::new(engine, &wanted);
    search.in_service().await?;
    let found = search.found;
    if !is_trial {
        for member in found.keys() {
            orders::store::forget_member(&engine.store, member).await?;
            profiles::work::forget(engine, member).await?;
            audit::store::forget_member(&engine.store, member).await?;
        }
        let key = erasures::hash_key(&engine.store).await?;
        for (_, names) in wanted.by_key().iter().filter(|(own, _)| **own == key) {
            store::note_names(&engine.store, names).await?;
        }
    }
    Ok(found.len())
}
