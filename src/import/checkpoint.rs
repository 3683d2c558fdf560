//! What an interrupted import needs in order to go on: a small file beside the one that is imported.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ids::Ids;
use super::input::Identity;
use super::summary::{Tally, shortened};
use crate::domain::time::Timestamp;

/// What a checkpoint's name adds to that of the file.
const SUFFIX: &str = ".standings-import.json";
/// What the name of a checkpoint adds while it is written.
const UNFINISHED_SUFFIX: &str = ".new";
/// The form of the file. Another one is not understood.
const VERSION: u32 = 1;

/// Why a checkpoint can't be used.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// It can't be written: then an interrupted import could not go on.
    #[error("can't write the checkpoint {path}: {cause}")]
    Write {
        /// The checkpoint.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// It is there, and can't be understood.
    #[error("can't read the checkpoint {path}: {cause}; --restart begins anew without it")]
    Read {
        /// The checkpoint.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// It is one of another import.
    #[error(
        "the checkpoint {path} is of another import ({difference}): finish that one first, or begin anew with --restart"
    )]
    Other {
        /// The checkpoint.
        path: String,
        /// What is different.
        difference: String,
    },
    /// The marks of finished imports can't be read, or not be added to.
    #[error("can't use {path}, which says what was imported: {cause}")]
    Marks {
        /// Their file.
        path: String,
        /// Why.
        cause: io::Error,
    },
}

/// What an import is, so that another one doesn't take its checkpoint.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Job {
    /// `None` of a stream, which has no checkpoint.
    pub(super) file: Option<Identity>,
    pub(super) board: String,
    pub(super) url: String,
    /// What the ids of rows without one follow from.
    #[serde(default)]
    pub(super) ids: Ids,
    /// The file of rejected rows.
    #[serde(default)]
    pub(super) rejects: Option<PathBuf>,
}

/// What an interrupted import needs in order to go on.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Checkpoint {
    version: u32,
    /// Which import it is of.
    #[serde(flatten)]
    pub(super) job: Job,
    /// The version of the board's definition: it names no board that had the same id before.
    pub(super) board_version: Option<String>,
    /// Every row up to this one has been acknowledged.
    pub(super) rows: u64,
    /// No row behind this one has been sent.
    pub(super) sent_rows: u64,
    /// No row between the two was sent before this time; `None` if none was sent at all.
    pub(super) sent_since: Option<Timestamp>,
    /// What became of the rows that were acknowledged.
    pub(super) tally: Tally,
    /// No row at all was sent before this time.
    #[serde(default)]
    pub(super) begun: Option<Timestamp>,
    /// How long the file of rejected rows is with those that were acknowledged, in bytes.
    #[serde(default)]
    pub(super) rejects_bytes: u64,
}

/// The file of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct CheckpointFile {
    path: PathBuf,
}

impl Checkpoint {
    /// Of an import that has sent nothing.
    pub(super) fn new(job: Job) -> Self {
        Self {
            version: VERSION,
            job,
            board_version: None,
            rows: 0,
            sent_rows: 0,
            sent_since: None,
            tally: Tally::default(),
            begun: None,
            rejects_bytes: 0,
        }
    }
}

impl CheckpointFile {
    /// The place for the checkpoint of a file: beside it, or in `fallback` if nothing can be written there.
    pub(super) fn place(file: &Path, fallback: &Path) -> Self {
        let [beside, other] = Self::places(file, fallback);
        let is_writable = fs::File::create(beside.unfinished()).is_ok();
        if is_writable {
            // It was only a test; what remains of it is overwritten later.
            let _ = fs::remove_file(beside.unfinished());
        }
        if is_writable { beside } else { other }
    }

    /// The checkpoint of an import that is to go on, with its place.
    pub(super) fn find(
        file: &Path,
        fallback: &Path,
        job: &Job,
    ) -> Result<Option<(Self, Checkpoint)>, CheckpointError> {
        for place in Self::places(file, fallback) {
            if let Some(checkpoint) = place.read()? {
                place.check(&checkpoint.job, job)?;
                return Ok(Some((place, checkpoint)));
            }
        }
        Ok(None)
    }

    /// Removes what is left of earlier imports of a file.
    pub(super) fn forget(file: &Path, fallback: &Path) -> Result<(), CheckpointError> {
        Self::places(file, fallback)
            .iter()
            .try_for_each(Self::remove)
    }

    fn places(file: &Path, fallback: &Path) -> [Self; 2] {
        let beside = Self {
            path: with_suffix(file.as_os_str().to_owned(), SUFFIX),
        };
        let name = file.file_name().unwrap_or_default().to_owned();
        [
            beside,
            Self {
                path: fallback.join(with_suffix(name, SUFFIX)),
            },
        ]
    }

    fn unfinished(&self) -> PathBuf {
        with_suffix(self.path.clone().into_os_string(), UNFINISHED_SUFFIX)
    }

    fn read(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        let read_error = |cause| CheckpointError::Read {
            path: self.name(),
            cause,
        };
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(read_error(cause)),
        };
        let checkpoint: Checkpoint =
            serde_json::from_slice(&bytes).map_err(|error| read_error(error.into()))?;
        if checkpoint.version == VERSION {
            Ok(Some(checkpoint))
        } else {
            Err(read_error(io::Error::other(format!(
                "its version is {}, not {VERSION}",
                checkpoint.version
            ))))
        }
    }

    fn check(&self, found: &Job, wanted: &Job) -> Result<(), CheckpointError> {
        let difference = if found.board != wanted.board {
            format!("board {}", found.board)
        } else if found.url != wanted.url {
            format!("service {}", found.url)
        } else if found.file != wanted.file {
            "the file had another content".to_owned()
        } else if found.ids != wanted.ids {
            "with other --ids".to_owned()
        } else if found.rejects != wanted.rejects {
            found.rejects.as_ref().map_or_else(
                || "without --rejects".to_owned(),
                |path| format!("with --rejects {}", path.display()),
            )
        } else {
            return Ok(());
        };
        Err(CheckpointError::Other {
            path: self.name(),
            difference: shortened(&difference),
        })
    }

    /// Replaces the file in one step, so that a crash leaves the old one or the new one; blocks.
    pub(super) fn write(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let write = || {
            let mut file = fs::File::create(self.unfinished())?;
            file.write_all(&serde_json::to_vec_pretty(checkpoint)?)?;
            // Before its name is that of the checkpoint, its content is on the disk.
            file.sync_all()?;
            fs::rename(self.unfinished(), &self.path)
        };
        write().map_err(|cause| CheckpointError::Write {
            path: self.name(),
            cause,
        })
    }

    /// Removes the file, if it is there.
    pub(super) fn remove(&self) -> Result<(), CheckpointError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(CheckpointError::Write {
                path: self.name(),
                cause: error,
            }),
            _ => Ok(()),
        }
    }

    /// The path, for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn with_suffix(mut name: OsString, suffix: &str) -> PathBuf {
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(board: &str) -> Job {
        let file = Identity {
            bytes: 7,
            xxh3: "00000000000000ff".into(),
        };
        Job {
            file: Some(file),
            board: board.into(),
            url: "http://h".into(),
            ids: Ids::File,
            rejects: None,
        }
    }

    #[test]
    fn a_checkpoint_is_found_by_the_import_that_wrote_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("a.csv"), folder.path().join("elsewhere"));
        let place = CheckpointFile::place(&file, &elsewhere);
        assert!(place.name().ends_with("a.csv.standings-import.json"));
        assert!(
            CheckpointFile::find(&file, &elsewhere, &job("b"))
                .unwrap()
                .is_none()
        );

        let mut checkpoint = Checkpoint::new(job("b"));
        checkpoint.rows = 12;
        checkpoint.sent_since = Some(Timestamp::parse("2026-11-21T00:30:00Z").unwrap());
        checkpoint.tally.applied = 3;
        place.write(&checkpoint).unwrap();
        let (_, found) = CheckpointFile::find(&file, &elsewhere, &job("b"))
            .unwrap()
            .unwrap();
        assert_eq!(found, checkpoint);

        let message = CheckpointFile::find(&file, &elsewhere, &job("c"))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("of another import (board b)") && message.contains("--restart"),
            "{message}"
        );
        let mut changed = job("b");
        changed.file.as_mut().unwrap().bytes = 8;
        let message = CheckpointFile::find(&file, &elsewhere, &changed)
            .unwrap_err()
            .to_string();
        assert!(message.contains("another content"), "{message}");

        CheckpointFile::forget(&file, &elsewhere).unwrap();
        assert!(
            CheckpointFile::find(&file, &elsewhere, &job("b"))
                .unwrap()
                .is_none()
        );
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left"
        );
    }

    #[test]
    fn where_nothing_can_be_written_it_lies_in_the_other_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("missing/a.csv");
        let place = CheckpointFile::place(&file, folder.path());
        place.write(&Checkpoint::new(job("b"))).unwrap();
        assert!(folder.path().join("a.csv.standings-import.json").exists());
        assert!(
            CheckpointFile::find(&file, folder.path(), &job("b"))
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn a_damaged_checkpoint_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        for content in ["", "{\"rows\": 1}", "{\"version\": 9}"] {
            fs::write(folder.path().join("a.csv.standings-import.json"), content).unwrap();
            let message = CheckpointFile::find(&file, folder.path(), &job("b"))
                .unwrap_err()
                .to_string();
            assert!(message.contains("can't read the checkpoint"), "{message}");
        }
    }
}
