//! Stores which members were erased on all boards, and reads the names that a key has.

use serde::de::DeserializeOwned;

use crate::core::hide::store::erasures::{hash_key, name_under};
use crate::domain::erasure::Erasure;
use crate::domain::ids::MemberId;
use crate::domain::time::Timestamp;
use crate::redis::decode::{Done, Flat};
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, script};

/// About how many entries one call looks at: less than a millisecond of Redis.
const CALL_NAMES_MAX: u32 = 300;
/// How many erasures one call notes.
const CALL_NOTED_MAX: usize = 300;

/// Which names of a key are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Names {
    /// The fields of a hash.
    Fields,
    /// The values of a hash.
    Values,
    /// The elements of a set.
    Set,
    /// The elements of a sorted set.
    Sorted,
    /// The members of the events in a stream.
    Events,
}

impl Names {
    const fn code(self) -> &'static str {
        match self {
            Self::Fields => "fields",
            Self::Values => "values",
            Self::Set => "set",
            Self::Sorted => "sorted",
            Self::Events => "events",
        }
    }
}

/// A part of a key's names, and the next cursor, `0` at the end. Names may come twice.
pub(super) async fn names(
    store: &Store,
    key: &str,
    which: Names,
    cursor: &str,
) -> Result<(String, Vec<String>), StoreError> {
    part(store, key, which.code(), cursor).await
}

async fn part<T: DeserializeOwned>(
    store: &Store,
    key: &str,
    which: &str,
    cursor: &str,
) -> Result<(String, T), StoreError> {
    store
        .call(&script::NAMES, key)
        .key(key)
        .arg(which)
        .arg(cursor)
        .arg(CALL_NAMES_MAX)
        .read()
        .await
}

/// The members that were erased on all boards, by their names.
pub(super) async fn erased_everywhere(store: &Store) -> Result<Vec<(String, Erasure)>, StoreError> {
    let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let (next, Flat(found)) =
            part::<Flat<(String, String)>>(store, keys::ERASED, "pairs", &cursor).await?;
        for (name, stored) in found {
            let erasure = parse(&stored).ok_or_else(|| {
                StoreError::Unexpected(format!(
                    "an erasure on all boards can't be read: {stored:?}"
                ))
            })?;
            all.push((name, erasure));
        }
        if next == "0" {
            return Ok(all);
        }
        cursor = next;
    }
}

/// Reads `number instant`.
fn parse(stored: &str) -> Option<Erasure> {
    let (number, us) = stored.split_once(' ')?;
    let at = Timestamp::from_us(us.parse().ok()?).ok()?;
    let number = number.parse().ok()?;
    Some(Erasure { number, at })
}

/// Notes that a member was erased on all boards.
pub(crate) async fn note_everywhere(
    store: &Store,
    member: &MemberId,
    erasure: Erasure,
) -> Result<(), StoreError> {
    let name = name_under(&hash_key(store).await?, member.as_str());
    note_names(store, &[(&name, erasure)]).await
}

/// Notes that members were erased on all boards. Their names are under the key of new erasures.
pub(super) async fn note_names(
    store: &Store,
    erasures: &[(&str, Erasure)],
) -> Result<(), StoreError> {
    for part in erasures.chunks(CALL_NOTED_MAX) {
        let lines = part
            .iter()
            .map(|(name, erasure)| (*name, erasure.number, erasure.at.us()));
        let noted = store
            .call(&script::NOTE_ERASED, keys::ERASED)
            .key(keys::ERASED)
            .field("erasures", lines.collect::<Vec<_>>());
        let Done::Ok(()) = noted.write::<Done>().await?;
    }
    Ok(())
}
