//! Checks all existing keys: each has to be in its registry, or be needed by a definition.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures::FutureExt;

use super::{Check, Place, store};
use crate::core::board::store::purge::{self, Cause, Unneeded};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::redis::StoreError;
use crate::redis::keys::{self, Name};
use crate::redis::kinds::{Kind, Purging, Slot};

/// The most keys that are checked again.
const SUSPECTS_MAX: usize = 100_000;

/// The verdict about an existing key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Fine,
    /// It has to be in the registry of its shard.
    Registered,
    /// Nothing needs it, and it is not marked to be unlinked.
    LeftOver,
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
        let mut told = HashSet::new();
        let mut scan = store::scan_keys(self.store, keys::pattern(only));
        while let Some(names) = scan.next().await? {
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
                    Verdict::LeftOver | Verdict::Unknown if suspects.len() < SUSPECTS_MAX => {
                        suspects.push((key, name));
                    }
                    Verdict::Fine | Verdict::LeftOver | Verdict::Unknown => {}
                }
            }
            for ((tag, generation), names) in registered {
                let checked = store::check_keys(self.store, &tag, generation, &names, self.mends);
                // A damaged registry is reported with its shard.
                let missing = match checked.await {
                    Ok(missing) => missing,
                    Err(StoreError::Unexpected(_)) => continue,
                    Err(error) => return Err(error),
                };
                for key in missing {
                    if told.insert(key.clone()) {
                        let detail = "it is not in the registry of its shard";
                        let place = place_of(&key);
                        self.report.tell(place, "unregistered", self.mends, detail);
                    }
                }
            }
        }
        suspects.sort_by(|(key, _), (other, _)| key.cmp(other));
        suspects.dedup_by(|(key, _), (other, _)| key == other);
        Ok((heads, suspects))
    }

    /// Checks again what seemed left over: its board may have been created or deleted meanwhile.
    pub(super) async fn check_suspects(
        &mut self,
        suspects: Vec<(String, Name)>,
    ) -> Result<(), StoreError> {
        let ids: BTreeSet<BoardId> = suspects.iter().map(|(_, name)| name.id.clone()).collect();
        let mut boards = HashMap::new();
        for id in ids {
            let defined = self.defined(&id).await?;
            boards.insert(id, defined);
        }
        // Read after the definitions: data is marked before its board is deleted.
        let unneeded: HashSet<Unneeded> = purge::unneeded(self.store).await?.into_iter().collect();
        let (mut left_over, mut marked) = (Vec::new(), HashSet::new());
        for (key, mut name) in suspects {
            if matches!(name.kind, Some(Kind::Head | Kind::CountsHead)) {
                let version = store::version_at(self.store, &key).await?;
                name.generation =
                    version.and_then(|version| version.rsplit_once('-')?.0.parse().ok());
            }
            let judged = match verdict(&name, &boards[&name.id], &unneeded) {
                Verdict::Registered | Verdict::Fine => continue,
                judged => judged,
            };
            let lasts = store::lasts_ms(self.store, &key).await?;
            let is_gone = lasts == -2;
            // Counts of quotas expire by themselves where they can, and so do heads that prove a deletion.
            let expires = name.kind.is_some_and(|kind| {
                kind.is_swept() || matches!(kind, Kind::Head | Kind::CountsHead)
            });
            if is_gone || (expires && lasts >= 0) {
                continue;
            }
            if self.mends
                && judged == Verdict::LeftOver
                && let Some(unneeded) = self.register(&key, name).await?
                && marked.insert(unneeded.clone())
            {
                purge::mark(self.store, &unneeded).await?;
            }
            left_over.push((key, judged));
        }
        for unneeded in &marked {
            while purge::unlink_some(self.store, unneeded).boxed().await? {}
        }
        for (key, judged) in left_over {
            let is_mended = self.mends && store::lasts_ms(self.store, &key).await? == -2;
            let place = place_of(&key);
            let (kind, detail) = match judged {
                Verdict::Unknown => ("unknown", "nobody knows what it is"),
                _ => (
                    "left_over",
                    "nothing needs it, and nothing has marked it to go",
                ),
            };
            self.report.tell(place, kind, is_mended, detail);
        }
        Ok(())
    }

    /// Puts a key into its registry, so that it is removed with its board. Returns which data it belongs to; `None` if the
    /// key has no generation.
    async fn register(&mut self, key: &str, name: Name) -> Result<Option<Unneeded>, StoreError> {
        let Some(generation) = name.generation else {
            return Ok(None);
        };
        if name.kind.map(Kind::purging) != Some(Purging::Purge) {
            let tag = name.shard.tag(&name.id);
            let keys = [key.to_owned()];
            let registered = store::check_keys(self.store, &tag, generation, &keys, true).await;
            self.unless_damaged(|| place_of(key), registered)?;
        }
        Ok(Some(Unneeded {
            generation,
            id: name.id,
            sharding: name.shard.of,
            // If its board is gone, so is everything that this names.
            cause: Cause::Moved,
        }))
    }

    async fn defined(&self, id: &BoardId) -> Result<Defined, StoreError> {
        let head = store::load_head(self.store, id.as_str()).await?;
        Ok(match head.board(id) {
            Some(Ok(board)) => Defined::As(Box::new(board)),
            None if matches!(head.found.as_str(), "none" | "hash") => Defined::Not,
            Some(Err(_)) | None => Defined::Unreadable,
        })
    }
}

/// What is stored under the key of a board.
enum Defined {
    As(Box<Board>),
    Not,
    /// Something that this program can't read.
    Unreadable,
}

/// The verdict about a key by its name.
fn verdict(name: &Name, defined: &Defined, unneeded: &HashSet<Unneeded>) -> Verdict {
    let sharding = name.shard.of;
    let board = match defined {
        Defined::As(board) => Some(&**board),
        Defined::Not => None,
        Defined::Unreadable => return Verdict::Fine,
    };
    let is_placed = board.is_some_and(|board| board.placement.all().any(|own| own == sharding));
    let Some(kind) = name.kind else {
        return Verdict::Unknown;
    };
    let is_marked = |generation| {
        // What is under the board's own tag goes with any of its shardings.
        unneeded.iter().any(|mark| {
            mark.generation == generation
                && mark.id == name.id
                && (mark.sharding == sharding || kind.slot() == Slot::Board)
        })
    };
    let is_fine = match (kind, kind.purging()) {
        (Kind::Head, _) => is_placed || (board.is_some() && sharding.is_together()),
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
        return Verdict::LeftOver;
    };
    let board = board.filter(|board| board.generation == generation);
    if kind.slot() == Slot::Board && board.is_some() {
        return Verdict::Fine;
    }
    let own = board.filter(|_| is_placed);
    let is_needed = own.is_some_and(|board| board.placement.needs(sharding));
    match (kind.slot(), kind.purging()) {
        (_, Purging::Registry) if is_needed => Verdict::Registered,
        _ if is_needed || is_marked(generation) => Verdict::Fine,
        // It stays in its place when its board moves.
        (Slot::Home, _) if own.is_some() => Verdict::Fine,
        _ => Verdict::LeftOver,
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
