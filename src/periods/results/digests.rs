//! The digests of results: the SHA-256 of the NDJSON export without profiles.
//!
//! A digest is made on first request, in bounded steps. The hash state and the number of hashed entries are kept in Redis,
//! so any request on any instance can continue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest, Sha256};

use super::recording::{self, standing_of};
use super::store::{self, ChangeCounters, DigestNote, PeriodResult};
use crate::core::read::scroll::{Scroll, ScrollPlace};
use crate::core::read::store::standings::Entry;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::league::Section;
use crate::domain::secret::{from_hexadecimal, hexadecimal};

/// How long one request works on a digest. The next one continues.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(2);
/// How many entries one read returns.
const STEP_ENTRIES: u64 = 1_000;
/// Progress is stored after this many entries. A dropped request loses what it did since.
const NOTED_ENTRIES: u64 = 10_000;

/// The progress of a digest.
#[derive(Debug, Deserialize, Serialize)]
struct Making {
    /// The place after the entries hashed so far.
    place: ScrollPlace,
    /// The hash state, in hexadecimal.
    state: String,
}

/// The digest to make.
struct Wanted<'a> {
    live: &'a LiveBoard,
    section: &'a Section,
    result: &'a PeriodResult,
    /// The shards' counters of hides and erasures, all of which the result includes.
    basis: &'a BTreeMap<String, ChangeCounters>,
}

impl Wanted<'_> {
    fn note<T>(&self, noted: T) -> DigestNote<T> {
        let of_shards = self
            .basis
            .iter()
            .map(|(tag, change_counters)| (tag.clone(), change_counters.anonymised));
        DigestNote {
            revision: self.result.revision,
            anonymised: of_shards.filter(|(_, count)| *count > 0).collect(),
            noted,
        }
    }

    /// What is stored, if it belongs to this digest.
    fn own<T>(&self, other: DigestNote<T>) -> Option<T> {
        let own = self.note(());
        let is_own = own.revision == other.revision && own.anonymised == other.anonymised;
        is_own.then_some(other.noted)
    }
}

/// The digest of a result that includes all hides; `None` while it is being made, and if the standing expired before it
/// was. `basis`: the shards' counters of hides when that was checked.
pub(crate) async fn of_result(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    result: &PeriodResult,
    basis: &BTreeMap<String, ChangeCounters>,
) -> Result<Option<String>, Error> {
    let wanted = Wanted {
        live,
        section,
        result,
        basis,
    };
    let (made, making) = store::digest::<Making>(&engine.store, &live.board, section).await?;
    // Once the entries have expired, an earlier digest is all there is.
    let older = made
        .as_ref()
        .filter(|made| made.revision == result.revision)
        .map(|made| made.noted.clone());
    if let Some(made) = made.and_then(|made| wanted.own(made)) {
        return Ok(Some(made));
    }
    // Another request of this instance is making one.
    let Ok(_turn) = engine.digesting.try_lock() else {
        return Ok(None);
    };
    let making = making.and_then(|making| wanted.own(making)?.resume());
    make(engine, &wanted, making.unwrap_or_default(), older).await
}

/// Continues a digest; `None` if the next request has to. `older`: the digest to use if the entries have expired.
async fn make(
    engine: &Engine,
    wanted: &Wanted<'_>,
    (mut hash, place): (Sha256, ScrollPlace),
    older: Option<String>,
) -> Result<Option<String>, Error> {
    let Wanted {
        live,
        section,
        result,
        basis,
    } = wanted;
    let (board, store) = (&live.board, &engine.store);
    let mut scroll = Scroll::new(board, standing_of(board, section), place);
    let (begun, mut noted) = (Instant::now(), place.entries);
    loop {
        let entries = scroll.next(engine, STEP_ENTRIES).await?;
        add(&mut hash, board, &entries);
        let is_end = (entries.len() as u64) < STEP_ENTRIES;
        let is_late = begun.elapsed() >= REQUEST_TIME_MAX;
        let place = scroll.place;
        if !is_end && !is_late && place.entries - noted < NOTED_ENTRIES {
            continue;
        }
        if recording::change_counters(engine, live, section).await? != **basis {
            // The entries may be from different revisions.
            return Ok(None);
        }
        if is_end && place.entries != board.listed(result.total) {
            return Ok(older);
        }
        if is_end {
            let digest = wanted.note(hexadecimal(&hash.finalize()));
            store::note_digest(store, board, section, true, &digest).await?;
            return Ok(Some(digest.noted));
        }
        noted = place.entries;
        let making = wanted.note(Making::of(&hash, place));
        store::note_digest(store, board, section, false, &making).await?;
        if is_late {
            return Ok(None);
        }
    }
}

impl Making {
    fn of(hash: &Sha256, place: ScrollPlace) -> Self {
        let state = hexadecimal(&hash.serialize());
        Self { place, state }
    }

    /// The hash and its place; `None` if another release stored it.
    fn resume(self) -> Option<(Sha256, ScrollPlace)> {
        let bytes = from_hexadecimal(&self.state)?;
        let state = SerializedState::<Sha256>::try_from(&*bytes).ok()?;
        Some((Sha256::deserialize(&state).ok()?, self.place))
    }
}

fn add(hash: &mut Sha256, board: &Board, entries: &[Entry]) {
    let mut lines = Vec::new();
    for entry in entries {
        let written = entry.export_line(board).write_json(&mut lines);
        written.expect("invariant: a line can be written to memory");
    }
    hash.update(&lines);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_continues_from_its_stored_state() {
        let mut whole = Sha256::new();
        whole.update(b"one\ntwo\n");
        let mut part = Sha256::new();
        part.update(b"one\n");
        let making = serde_json::to_string(&Making::of(&part, ScrollPlace::default())).unwrap();
        let making: Making = serde_json::from_str(&making).unwrap();
        let (mut part, place) = making.resume().unwrap();
        assert_eq!(place, ScrollPlace::default());
        part.update(b"two\n");
        let digest = hexadecimal(&part.finalize());
        assert_eq!(digest, hexadecimal(&whole.finalize()));
        assert_eq!(digest.len(), 64);
    }

    #[test]
    fn the_state_of_another_release_is_discarded() {
        for state in ["", "00", "x"] {
            let making = Making {
                place: ScrollPlace::default(),
                state: state.to_owned(),
            };
            assert!(making.resume().is_none(), "{state}");
        }
    }
}
