//! The record of an import: how far the file was sent, what is acknowledged and rejected, and whether it is finished.
//!
//! It is stored next to the imported file, is named after the file and the board, and is replaced atomically. It stays when
//! the import has ended, so that the same rows are not counted again by mistake: it identifies the content, so a file that
//! has grown is recognised by its beginning. It belongs to one creation of a board: if the board is deleted and created
//! again, the record of a finished import does not apply.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ImportError;
use super::input::Identity;
use super::reading::Reading;
use super::summary::Tally;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;

/// The suffix of a record's name, after those of the file and the board.
const SUFFIX: &str = ".standings-import.json";
/// The suffix of a record's name while it is written.
const UNFINISHED_SUFFIX: &str = ".new";
/// The suffix of the name of the file that is locked while an import runs.
const LOCK_SUFFIX: &str = ".lock";
/// The format of a record. Others are not understood.
const VERSION: u32 = 3;

/// Its name in messages.
pub(super) const RECORD: &str = "the record";

/// What identifies an import, so that another one doesn't use its record.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct ImportJob {
    /// `None` for a stream, which has no record.
    pub(super) file: Option<Identity>,
    pub(super) board: String,
    pub(super) url: String,
    /// The file of rejected rows.
    pub(super) rejects: Option<PathBuf>,
    pub(super) reading: Reading,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct ImportRecord {
    version: u32,
    #[serde(flatten)]
    pub(super) job: ImportJob,
    /// The version of the board's definition, which no earlier board of the same id had.
    pub(super) board_version: Option<String>,
    /// All rows up to this one have been acknowledged.
    pub(super) rows: u64,
    /// No row after this one has been sent.
    pub(super) sent_rows: u64,
    /// No row between those two was sent before this time; `None` if none was sent at all.
    pub(super) sent_since: Option<Timestamp>,
    /// No row at all was sent before this time; `None` until one is.
    pub(super) begun: Option<Timestamp>,
    /// The outcomes of the acknowledged rows, including rejected ones.
    #[serde(flatten)]
    pub(super) tally: Tally,
    /// The length of the file of rejected rows, in bytes, after the acknowledged rows.
    pub(super) rejects_bytes: u64,
    /// Whether all rows of the file have been acknowledged.
    pub(super) is_finished: bool,
}

impl ImportRecord {
    /// The record of an import that has sent nothing.
    pub(super) fn new(job: ImportJob) -> Self {
        Self {
            version: VERSION,
            job,
            ..Self::default()
        }
    }

    /// No row was sent before this time.
    pub(super) fn begun(&self) -> Timestamp {
        self.begun.unwrap_or(Timestamp::MIN)
    }

    /// Reads the record at a path, if there is one; blocks.
    fn read(path: &Path) -> Result<Option<Self>, ImportError> {
        let read = || {
            let record: Self = serde_json::from_slice(&fs::read(path)?)?;
            let (version, rows, sent_rows) = (record.version, record.rows, record.sent_rows);
            if version != VERSION {
                let text = format!("its version is {version}, not {VERSION}");
                return Err(io::Error::other(text));
            }
            if rows > sent_rows {
                let text =
                    format!("it has {rows} acknowledged rows, but only {sent_rows} sent rows");
                return Err(io::Error::other(text));
            }
            Ok(record)
        };
        match read() {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(ImportError::Record(path.display().to_string(), cause)),
        }
    }

    /// Replaces the record at a path atomically, so that a crash leaves the old one or the new one; blocks.
    pub(super) fn write(&self, path: &Path) -> Result<(), ImportError> {
        let unfinished = with_suffix(path, UNFINISHED_SUFFIX);
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            // The content must be on disk before the file gets the record's name.
            file.sync_all()?;
            fs::rename(&unfinished, path)
        };
        write().map_err(ImportError::write(RECORD, path))
    }

    /// In what an import that would resume this one differs.
    pub(super) fn difference(&self, wanted: &ImportJob) -> Option<String> {
        let found = &self.job;
        Some(if found.board != wanted.board {
            format!("board {}", found.board)
        } else if found.url != wanted.url {
            format!("service {}", found.url)
        } else if found.file != wanted.file {
            "the file had different content".to_owned()
        } else if found.rejects != wanted.rejects {
            match &found.rejects {
                Some(path) => format!("with --rejects {}", path.display()),
                None => "without --rejects".to_owned(),
            }
        } else if found.reading != wanted.reading {
            found.reading.to_string()
        } else {
            return None;
        })
    }

    /// The finished import of the same content, or of its beginning, into the same board, if this is the record of one.
    pub(super) fn as_earlier(
        &self,
        job: &ImportJob,
        beginning: Option<&Identity>,
        board_version: Option<&str>,
    ) -> Option<Earlier> {
        let lives = (life(self.board_version.as_deref()), life(board_version));
        let is_board = match lives {
            (Some(before), Some(now)) => before == now,
            _ => self.job.url == job.url,
        };
        let is_whole = self.job.file == job.file;
        let has_rows = is_whole || beginning.is_some() && self.job.file.as_ref() == beginning;
        let has_events = self.tally.has_events() && has_rows;
        (self.is_finished && is_board && has_events).then(|| Earlier {
            record: self.clone(),
            is_whole,
            is_read_alike: self.job.reading.gives_same_events(&job.reading),
        })
    }
}

/// Where the record of a file's import into a board is stored.
#[derive(Clone, Debug)]
pub(super) struct RecordPlace([PathBuf; 2]);

impl RecordPlace {
    /// Next to the file, or in `fallback`, a directory that is used if nothing can be written there.
    pub(super) fn new(file: &Path, board: &BoardId, fallback: &Path) -> Self {
        let name = fallback.join(Path::new(file.file_name().unwrap_or_default()));
        let suffix = format!(".{board}{SUFFIX}");
        Self([file, &name].map(|path| with_suffix(path, &suffix)))
    }

    /// Locks out other imports of the file into the board until the lock is dropped; blocks. `None` if there can't be a lock:
    /// then there can't be a record either, or the file system has no locks.
    pub(super) fn lock(&self) -> Result<Option<Lock>, ImportError> {
        loop {
            let Some((file, path)) = self
                .0
                .iter()
                .map(|path| with_suffix(path, LOCK_SUFFIX))
                .find_map(|path| Some((File::create(&path).ok()?, path)))
            else {
                return Ok(None);
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(ImportError::Running(path.display().to_string()));
                }
                Err(TryLockError::Error(_)) => {
                    let _ = fs::remove_file(path);
                    return Ok(None);
                }
            }
            // Another import may have ended in between, and removed its file.
            let is_there = fs::metadata(&path).is_ok_and(|there| {
                let own = file.metadata();
                own.is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
            });
            if is_there {
                return Ok(Some(Lock { path, _file: file }));
            }
        }
    }

    /// The existing record; blocks.
    pub(super) fn find(&self) -> Result<Option<ImportRecord>, ImportError> {
        self.0
            .iter()
            .find_map(|path| ImportRecord::read(path).transpose())
            .transpose()
    }

    /// The path for writing it: that of the existing one, or else of a new one; blocks.
    pub(super) fn path(&self) -> &Path {
        let [beside, fallback] = &self.0;
        let trial = with_suffix(beside, UNFINISHED_SUFFIX);
        let is_there = |path: &PathBuf| path.exists();
        if !is_there(beside) && (is_there(fallback) || File::create(&trial).is_err()) {
            return fallback;
        }
        // What remains of the trial is overwritten later.
        let _ = fs::remove_file(trial);
        beside
    }
}

/// Locks out other imports of the same file into the same board.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If it stays, the next import locks it.
        let _ = fs::remove_file(&self.path);
    }
}

/// A finished import that included rows of this one.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    pub(super) record: ImportRecord,
    /// Whether it had all of them, not only the first ones.
    pub(super) is_whole: bool,
    /// Whether it made the same events of them.
    pub(super) is_read_alike: bool,
}

impl Earlier {
    /// Why the rows may have other ids this time, if so: then even a board that remembers them would count them again.
    pub(super) fn id_change(&self) -> Option<&'static str> {
        if !self.is_read_alike {
            Some("rows may get other ids now, because they were read with other options")
        } else if !self.is_whole && self.record.tally.generated > 0 {
            Some("rows without an id get other ids now, because the file has grown")
        } else {
            None
        }
    }
}

/// The part of a board's version that stays the same however often the board is redefined: the version without the number
/// of its definition.
fn life(version: Option<&str>) -> Option<&str> {
    Some(version?.rsplit_once('-')?.0)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(bytes: u64, url: &str) -> ImportJob {
        ImportJob {
            file: Some(Identity {
                bytes,
                xxh3: format!("{bytes:016x}"),
            }),
            board: "b".into(),
            url: url.into(),
            rejects: None,
            reading: Reading::default(),
        }
    }

    fn finished(job: ImportJob, version: Option<&str>) -> ImportRecord {
        let mut record = ImportRecord::new(job);
        record.board_version = version.map(Into::into);
        (record.rows, record.is_finished) = (3, true);
        (record.tally.applied, record.tally.generated) = (3, 3);
        record
    }

    fn place(file: &Path, fallback: &Path) -> RecordPlace {
        RecordPlace::new(file, &BoardId::parse("b").unwrap(), fallback)
    }

    #[test]
    fn each_file_and_board_has_its_own_record() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("a.csv"), folder.path().join("elsewhere"));
        let place = place(&file, &elsewhere);
        assert!(place.path().ends_with("a.csv.b.standings-import.json"));
        assert!(place.find().unwrap().is_none());

        let wanted = job(7, "http://h");
        let mut record = ImportRecord::new(wanted.clone());
        (record.rows, record.sent_rows) = (12, 20);
        record.sent_since = Some(Timestamp::parse("2026-11-21T00:30:00Z").unwrap());
        record.tally.applied = 3;
        record.write(place.path()).unwrap();
        let found = place.find().unwrap().unwrap();
        assert_eq!(found, record);
        assert_eq!(found.difference(&wanted), None);
        let other = found.difference(&job(8, "http://h"));
        assert_eq!(other.unwrap(), "the file had different content");
        let mut other = wanted.clone();
        other.reading.profiles = true;
        let difference = found.difference(&other).unwrap();
        assert!(difference.starts_with("without --format, "), "{difference}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let other = BoardId::parse("c").unwrap();
        let other = RecordPlace::new(&file, &other, &elsewhere);
        assert!(other.find().unwrap().is_none());
    }

    #[test]
    fn the_record_is_stored_elsewhere_if_the_folder_is_read_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("missing/a.csv");
        let place = place(&file, folder.path());
        ImportRecord::new(job(7, "http://h"))
            .write(place.path())
            .unwrap();
        assert!(folder.path().join("a.csv.b.standings-import.json").exists());
        assert!(place.find().unwrap().is_some());
        // It stays there, even if it could be written next to the file by now.
        fs::create_dir(folder.path().join("missing")).unwrap();
        assert!(
            place.path().starts_with(folder.path())
                && !place.path().starts_with(file.parent().unwrap())
        );
    }

    #[test]
    fn a_file_is_imported_into_a_board_by_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        let (place, other) = (place(&file, folder.path()), BoardId::parse("c").unwrap());
        let lock = place.lock().unwrap().unwrap();
        let refused = place.lock().unwrap_err().to_string();
        assert!(refused.contains("another import"), "{refused}");
        let elsewhere = RecordPlace::new(&file, &other, folder.path()).lock();
        assert!(elsewhere.unwrap().is_some(), "another board");
        drop(lock);
        // The leftovers of a killed import don't block others.
        fs::write(with_suffix(&place.0[0], LOCK_SUFFIX), "").unwrap();
        drop(place.lock().unwrap().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_record_is_not_treated_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder.path().join("a.csv"), folder.path());
        let other_form = serde_json::to_string(&ImportRecord {
            version: 9,
            ..ImportRecord::new(job(7, ""))
        });
        for content in [
            "",
            "{\"rows\": 1}",
            "{\"version\": 9}",
            "{\"version\": 3, \"rows\": 1}",
            &other_form.unwrap(),
        ] {
            fs::write(place.path(), content).unwrap();
            let message = place.find().unwrap_err().to_string();
            assert!(message.contains("can't read the record"), "{message}");
        }
    }

    #[test]
    fn a_finished_import_belongs_to_a_content_and_a_generation_of_the_board() {
        let record = finished(job(7, "http://h"), Some("g-1"));
        let is_earlier = |job: &ImportJob, version| {
            let earlier = record.as_earlier(job, None, version);
            earlier.map(|earlier| earlier.is_whole)
        };
        assert_eq!(is_earlier(&job(7, "http://other"), Some("g-2")), Some(true));
        assert_eq!(
            is_earlier(&job(7, "http://h"), Some("h-1")),
            None,
            "made again"
        );
        assert_eq!(is_earlier(&job(7, "http://h"), None), Some(true));
        assert_eq!(is_earlier(&job(7, "http://other"), None), None);
        assert_eq!(is_earlier(&job(9, "http://h"), Some("g-1")), None);
        let beginning = job(7, "").file;
        let mut grown = record
            .as_earlier(&job(9, ""), beginning.as_ref(), Some("g-1"))
            .unwrap();
        assert!(!grown.is_whole && grown.id_change().unwrap().contains("has grown"));
        grown.record.tally.generated = 0;
        assert_eq!(grown.id_change(), None);
        let mut renamed = job(7, "");
        renamed.reading.columns = [("id".to_owned(), "row".to_owned())].into();
        let other = record.as_earlier(&renamed, None, Some("g-1")).unwrap();
        assert!(other.id_change().unwrap().contains("other options"));
        let mut rejected = record.clone();
        rejected.tally.applied = 0;
        let none = rejected.as_earlier(&renamed, None, Some("g-1"));
        assert!(none.is_none(), "nothing would count again");
        let unfinished = ImportRecord {
            is_finished: false,
            ..record.clone()
        };
        assert!(
            unfinished
                .as_earlier(&job(7, "http://h"), None, None)
                .is_none()
        );
    }
}
