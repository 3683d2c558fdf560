//! Checks all existing keys: each has to be in its registry, or be needed by a definition.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::time::Duration;

use futures::{FutureExt, TryStreamExt};

use super::{Check, LOOK_AGAIN_AFTER, Place, Repair, RepairOutcome, store};
use crate::core::board::purge::{self, Cause, Unneeded};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::redis::StoreError;
use crate::redis::keys::{self, Name};
use crate::redis::kinds::{Kind, Purging, Slot};

/// The maximum number of keys that are checked again.
const SUSPECTS_MAX: usize = 100_000;

/// The verdict about an existing key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Fine,
    /// It has to be in the registry of its shard.
    Registered,
    /// Nothing needs it, for this reason, and it is not marked to be unlinked.
    LeftOver(Cause),
    /// No definition needs it, but there is no proof that its board was deleted.
    Unproved,
    /// Its name is not known.
    Unknown,
}

impl Check<'_> {
    /// Checks all keys of one board or of all. Reports those missing in registries; returns those that seem left over, and
    /// the ids of all boards that have a head.
    pub(super) async fn check_names(
        &mut self,
        only: Option<&BoardId>,
    ) -> Result<(BTreeSet<BoardId>, Vec<(String, Name)>), StoreError> {
        let unneeded: HashSet<Unneeded> = purge::unneeded(self.store).await?.into_iter().collect();
        let mut boards: HashMap<BoardId, Defined> = HashMap::new();
        let (mut heads, mut suspects) = (BTreeSet::new(), Vec::new());
        let mut reported = HashSet::new();
        let mut all = pin!(store::key_names(self.store, keys::pattern(only)));
        while let Some(names) = all.try_next().await? {
            let mut registered: BTreeMap<(String, u64), Vec<String>> = BTreeMap::new();
            for key in names {
                let Some(name) = keys::take_apart(&key) else {
                    continue;
                };
                if name.kind == Some(Kind::Head) && name.shard.of.is_together() {
                    heads.insert(name.id.clone());
                }
                if !boards.contains_key(&name.id) {
                    let defined = self.defined(&name.id).await?;
                    boards.insert(name.id.clone(), defined);
                }
                match verdict(&name, &boards[&name.id], &unneeded) {
                    Verdict::Registered => {
                        let registry = (name.shard.tag(&name.id), name.generation.unwrap_or(0));
                        registered.entry(registry).or_default().push(key);
                    }
                    Verdict::Fine => {}
                    _ if suspects.len() < SUSPECTS_MAX => suspects.push((key, name)),
                    _ => {}
                }
            }
            for ((tag, generation), names) in registered {
                let checked = store::check_keys(self.store, &tag, generation, &names, self.repair);
                // A damaged registry is reported with its shard.
                let missing = match checked.await {
                    Ok(missing) => missing,
                    Err(StoreError::Unexpected(_)) => continue,
                    Err(error) => return Err(error),
                };
                for key in missing {
                    if reported.insert(key.clone()) {
                        let detail = "it is missing from the registry of its shard";
                        let outcome = self.repair.writing();
                        self.report
                            .add(&place_of(&key), "unregistered", outcome, detail);
                    }
                }
            }
        }
        suspects.sort_by(|(key, _), (other, _)| key.cmp(other));
        suspects.dedup_by(|(key, _), (other, _)| key == other);
        Ok((heads, suspects))
    }

    /// Checks again what seemed left over: its board may have been created or deleted meanwhile. Returns for how many keys of
    /// boards without a definition nothing proves that their board was deleted.
    pub(super) async fn check_suspects(
        &mut self,
        mut suspects: Vec<(String, Name)>,
    ) -> Result<BTreeMap<BoardId, u64>, StoreError> {
        for (key, name) in &mut suspects {
            if is_head(name) {
                name.generation = self.generation_at(key).await?;
            }
        }
        let ids = suspects.iter().map(|(_, name)| name.id.clone()).collect();
        let (boards, unneeded) = self.settled(ids).await?;
        let (mut found, mut marked) = (Vec::new(), HashSet::new());
        let mut unproved: BTreeMap<(BoardId, Option<u64>), u64> = BTreeMap::new();
        for (key, name) in suspects {
            let Some(defined) = boards.get(&name.id) else {
                continue;
            };
            let is_head = is_head(&name);
            if is_head && self.generation_at(&key).await? != name.generation {
                // It is the head of another board by now.
                continue;
            }
            let judged = match verdict(&name, defined, &unneeded) {
                Verdict::Registered | Verdict::Fine => continue,
                judged => judged,
            };
            let lasts = store::lasts_ms(self.store, &key).await?;
            let is_gone = lasts == -2;
            // Counts of quotas, and the heads of deleted boards, expire by themselves.
            let is_swept = is_head || name.kind.is_some_and(Kind::is_swept);
            if is_gone || (is_swept && lasts >= 0) {
                continue;
            }
            match judged {
                Verdict::Unproved => {
                    let of = (name.id, name.generation);
                    *unproved.entry(of).or_default() += 1;
                    continue;
                }
                Verdict::LeftOver(cause) if self.repair == Repair::Remove => {
                    if let Some(unneeded) = self.register(&key, name, cause).await?
                        && marked.insert(unneeded.clone())
                    {
                        purge::mark(self.store, &unneeded).await?;
                    }
                }
                _ => {}
            }
            found.push((key, judged));
        }
        for unneeded in &marked {
            while purge::unlink_some(self.store, unneeded).boxed().await? {}
        }
        for (key, judged) in found {
            self.report_suspect(&key, judged).await?;
        }
        Ok(self.report_unproved(unproved, &boards))
    }

    async fn report_suspect(&mut self, key: &str, judged: Verdict) -> Result<(), StoreError> {
        let place = place_of(key);
        if judged == Verdict::Unknown {
            let detail = "this release has no such key";
            self.report
                .add(&place, "unknown", RepairOutcome::Left, detail);
            return Ok(());
        }
        let mut outcome = self.repair.removing();
        if outcome == RepairOutcome::Repaired && store::lasts_ms(self.store, key).await? != -2 {
            outcome = RepairOutcome::Left;
        }
        let detail = "it is not needed, but not marked for removal";
        self.report.add(&place, "left_over", outcome, detail);
        Ok(())
    }

    /// Reports the keys, by boards and generations, that no definition needs. Returns those of boards without a definition.
    fn report_unproved(
        &mut self,
        unproved: BTreeMap<(BoardId, Option<u64>), u64>,
        boards: &HashMap<BoardId, Defined>,
    ) -> BTreeMap<BoardId, u64> {
        let mut undefined: BTreeMap<BoardId, u64> = BTreeMap::new();
        for ((id, generation), count) in unproved {
            let Some(board) = boards.get(&id).and_then(|defined| defined.board.as_ref()) else {
                *undefined.entry(id).or_default() += count;
                continue;
            };
            let head = keys::head(id.as_str());
            let place = Place::of_board(&id);
            if generation.is_some_and(|generation| generation >= board.generation) {
                let detail = format!(
                    "{count} keys are newer than the board's definition, which may be an older one. They are kept. Restore \
                     {head} from a newer backup"
                );
                self.report
                    .add(&place, "went_back", RepairOutcome::Left, detail);
            } else {
                let generation = generation.unwrap_or_default();
                let detail = format!(
                    "{count} keys are of an earlier board with this name, and there is no record of its deletion. They are \
                     kept. If they are not needed, run this in Redis and repair again: HSET {head} deleted {generation}"
                );
                self.report
                    .add(&place, "unproved", RepairOutcome::Left, detail);
            }
        }
        undefined
    }

    /// What is stored about these boards, and the marked data, except for boards that keep changing.
    async fn settled(
        &mut self,
        mut ids: BTreeSet<BoardId>,
    ) -> Result<(HashMap<BoardId, Defined>, HashSet<Unneeded>), StoreError> {
        let (mut boards, mut unneeded) = (HashMap::new(), HashSet::new());
        for pause in [Duration::ZERO, LOOK_AGAIN_AFTER] {
            if !pause.is_zero() && ids.is_empty() {
                break;
            }
            tokio::time::sleep(pause).await;
            let all: Vec<BoardId> = ids.iter().cloned().collect();
            let all: Vec<&BoardId> = all.iter().collect();
            let before = store::last_changes(self.store, &all).await?;
            let mut seen = Vec::new();
            for id in &all {
                seen.push(self.defined(id).await?);
            }
            // Data is marked before its deletion is announced.
            unneeded = purge::unneeded(self.store).await?.into_iter().collect();
            let after = store::last_changes(self.store, &all).await?;
            for ((id, defined), (before, after)) in
                all.into_iter().zip(seen).zip(before.iter().zip(&after))
            {
                if before.is_some() && before == after {
                    ids.remove(id);
                    boards.insert(id.clone(), defined);
                }
            }
        }
        for id in &ids {
            self.note_changing(id);
        }
        Ok((boards, unneeded))
    }

    /// Puts a key into its registry, so that it is removed with its board. Returns which data it belongs to; `None` if the
    /// key has no generation.
    async fn register(
        &mut self,
        key: &str,
        name: Name,
        cause: Cause,
    ) -> Result<Option<Unneeded>, StoreError> {
        let Some(generation) = name.generation else {
            return Ok(None);
        };
        if name.kind.map(Kind::purging) != Some(Purging::Purge) {
            let tag = name.shard.tag(&name.id);
            let keys = [key.to_owned()];
            let registered =
                store::check_keys(self.store, &tag, generation, &keys, self.repair).await;
            self.unless_damaged(&place_of(key), registered)?;
        }
        Ok(Some(Unneeded {
            generation,
            id: name.id,
            sharding: name.shard.of,
            cause,
        }))
    }

    /// The generation that a head has.
    async fn generation_at(&self, key: &str) -> Result<Option<u64>, StoreError> {
        let head = store::load_head(self.store, key).await?;
        Ok(head
            .version
            .and_then(|version| version.rsplit_once('-')?.0.parse().ok()))
    }

    async fn defined(&self, id: &BoardId) -> Result<Defined, StoreError> {
        let head = self.head(id.as_str()).await?;
        let board = head.board(id).and_then(Result::ok);
        let is_undefined = head.definition.is_none() && head.is_sound();
        Ok(Defined {
            is_readable: board.is_some() || is_undefined,
            board,
            deleted: head.deleted.unwrap_or_default(),
        })
    }
}

/// What is stored under the key of a board.
struct Defined {
    board: Option<Board>,
    /// Whether this program can read it, or there is nothing to be read.
    is_readable: bool,
    /// There is proof that all generations up to this one were deleted.
    deleted: u64,
}

/// Whether a key is a head. These serve all generations of a board.
fn is_head(name: &Name) -> bool {
    matches!(name.kind, Some(Kind::Head | Kind::CountsHead))
}

/// The verdict about a key by its name.
fn verdict(name: &Name, defined: &Defined, unneeded: &HashSet<Unneeded>) -> Verdict {
    let sharding = name.shard.of;
    let board = defined.board.as_ref();
    if !defined.is_readable {
        return Verdict::Fine;
    }
    let Some(kind) = name.kind else {
        return Verdict::Unknown;
    };
    let is_placed = board.is_some_and(|board| board.placement.all().any(|own| own == sharding));
    let is_fine = match (kind, kind.purging()) {
        // What a board's own key lacks is reported with the list of boards.
        (Kind::Head, _) => is_placed || sharding.is_together(),
        (Kind::CountsHead, _) => board.is_some_and(|board| board.placement.home() == sharding),
        (_, Purging::Sweep | Purging::Call) => true,
        (
            _,
            Purging::Purge | Purging::Registry | Purging::CountsRegistry | Purging::ResultsRegistry,
        ) => false,
    };
    if is_fine {
        return Verdict::Fine;
    }
    let Some(generation) = name.generation else {
        return Verdict::Unproved;
    };
    // Keys under the board's own tag belong to all of its shardings.
    let is_marked = unneeded.iter().any(|mark| {
        mark.generation == generation
            && mark.id == name.id
            && (mark.sharding == sharding || kind.slot() == Slot::Board)
    });
    let Some(board) = board.filter(|board| board.generation == generation) else {
        return match (generation <= defined.deleted, is_marked) {
            (true, true) => Verdict::Fine,
            (true, false) => Verdict::LeftOver(Cause::Deleted),
            (false, _) => Verdict::Unproved,
        };
    };
    if kind.slot() == Slot::Board {
        return Verdict::Fine;
    }
    let is_needed = board.placement.needs(sharding);
    let mut former = board.placement.former.iter();
    match (kind.slot(), kind.purging()) {
        (_, Purging::Registry) if is_needed => Verdict::Registered,
        _ if is_needed || is_marked => Verdict::Fine,
        // It stays in its place when its board moves.
        (Slot::Home, _) if is_placed => Verdict::Fine,
        _ if former.any(|former| former.sharding == sharding) => Verdict::LeftOver(Cause::Moved),
        _ => Verdict::Unproved,
    }
}

fn place_of(key: &str) -> Place {
    let mut place = keys::take_apart(key).map_or_else(Place::default, |name| Place {
        shard: (!name.shard.of.is_together()).then(|| name.shard.tag(&name.id)),
        ..Place::of_board(&name.id)
    });
    place.standing = Some(key.to_owned());
    place
}
