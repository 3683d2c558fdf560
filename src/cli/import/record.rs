//! The record of an import: how far the file was sent, what is acknowledged and rejected, how ids were made, and whether
//! it is finished.
//!
//! While an import is unfinished, its record is a file beside the imported one, the *checkpoint*, which is replaced in
//! one step. When it is finished, its record becomes a line of the file of *marks*, in the user's folder for state, so
//! that nobody counts the same rows again by mistake. A mark names content, not a file: a file that was moved, renamed
//! or copied is still known, and a file that has grown is known by its beginning. A mark belongs to one creation of a
//! board: if the board is deleted and created anew, the mark does not apply.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ids::Ids;
use super::input::Identity;
use super::summary::Tally;
use crate::cli::text::shortened;
use crate::domain::time::Timestamp;

/// What a checkpoint's name adds to that of the file.
const CHECKPOINT_SUFFIX: &str = ".standings-import.json";
/// What the name of a checkpoint adds while it is written.
const UNFINISHED_SUFFIX: &str = ".new";
/// The file of marks in the user's folder for state.
pub(super) const MARKS_IN_STATE: &str = "standings/imports.jsonl";
/// The same beside the imported file.
const MARKS_BESIDE_FILE: &str = "standings-imports.jsonl";
/// The form of a record. Marks of earlier forms are understood, and other checkpoints are not.
const VERSION: u32 = 2;

/// Why the records of imports can't be used.
#[derive(Debug, Error)]
pub(super) enum RecordError {
    /// Then an interrupted import could not go on.
    #[error("can't write the checkpoint {0}: {1}")]
    Write(String, io::Error),
    /// It is there, and can't be understood.
    #[error("can't read the checkpoint {0}: {1}; --restart begins anew without it")]
    Read(String, io::Error),
    /// It is one of another import, which differs in this.
    #[error(
        "the checkpoint {0} is of another import ({1}): finish that one first, or begin anew with --restart"
    )]
    Other(String, String),
    /// The marks of finished imports can't be read, or not be added to.
    #[error("can't use {0}, which says what was imported: {1}")]
    Marks(String, io::Error),
}

/// What an import is, so that another one doesn't take its checkpoint.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Job {
    /// `None` of a stream, which has no record.
    pub(super) file: Option<Identity>,
    pub(super) board: String,
    pub(super) url: String,
    /// What the ids of rows without one follow from.
    pub(super) ids: Ids,
    /// The file of rejected rows.
    pub(super) rejects: Option<PathBuf>,
}

/// The record of an import.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Record {
    version: u32,
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
    /// No row at all was sent before this time; `None` until one is.
    pub(super) begun: Option<Timestamp>,
    /// What became of the rows that were acknowledged, the rejected ones included.
    #[serde(flatten)]
    pub(super) tally: Tally,
    /// How long the file of rejected rows is with those that were acknowledged, in bytes.
    pub(super) rejects_bytes: u64,
    /// Whether all rows of the file have been acknowledged.
    pub(super) is_finished: bool,
}

impl Record {
    /// Of an import that has sent nothing.
    pub(super) fn new(job: Job) -> Self {
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

    /// Reads the checkpoint at a path, if there is one; blocks.
    fn read(path: &Path) -> Result<Option<Self>, RecordError> {
        let read = || {
            let record: Self = serde_json::from_slice(&fs::read(path)?)?;
            let Self {
                version,
                rows,
                sent_rows,
                ..
            } = record;
            if version != VERSION {
                let text = format!("its version is {version}, not {VERSION}");
                return Err(io::Error::other(text));
            }
            if rows > sent_rows {
                let text = format!("{rows} rows are acknowledged, and {sent_rows} were sent");
                return Err(io::Error::other(text));
            }
            Ok(record)
        };
        match read() {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(RecordError::Read(path.display().to_string(), cause)),
        }
    }

    /// Replaces the checkpoint at a path in one step, so that a crash leaves the old one or the new one; blocks.
    pub(super) fn write(&self, path: &Path) -> Result<(), RecordError> {
        let unfinished = with_suffix(path, UNFINISHED_SUFFIX);
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            // Before its name is that of the checkpoint, its content is on the disk.
            file.sync_all()?;
            fs::rename(&unfinished, path)
        };
        write().map_err(|cause| RecordError::Write(path.display().to_string(), cause))
    }

    /// Adds it to a file of marks; blocks.
    fn append(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::options().create(true).append(true).open(path)?;
        // It begins a line of its own, also where the last one was cut off.
        let line = serde_json::to_string(self)?;
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_data()
    }

    /// What another import differs in.
    fn difference(&self, wanted: &Job) -> Option<String> {
        let found = &self.job;
        Some(if found.board != wanted.board {
            format!("board {}", found.board)
        } else if found.url != wanted.url {
            format!("service {}", found.url)
        } else if found.file != wanted.file {
            "the file had another content".to_owned()
        } else if found.ids != wanted.ids {
            "with other --ids".to_owned()
        } else if found.rejects != wanted.rejects {
            match &found.rejects {
                Some(path) => format!("with --rejects {}", path.display()),
                None => "without --rejects".to_owned(),
            }
        } else {
            return None;
        })
    }
}

/// Where the records of a file's imports lie.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Of an unfinished one: beside the file, or in the fallback.
    checkpoints: [PathBuf; 2],
    /// Of finished ones, the best place first.
    marks: Vec<PathBuf>,
}

impl Places {
    /// `state`: the user's folder for state; `fallback`: the folder that serves where nothing can be written beside the
    /// file.
    pub(super) fn new(file: &Path, state: Option<&Path>, fallback: &Path) -> Self {
        let name = Path::new(file.file_name().unwrap_or_default());
        let beside = file.parent().unwrap_or(fallback);
        let marks = [beside, fallback].map(|folder| folder.join(MARKS_BESIDE_FILE));
        let checkpoints = [file, &fallback.join(name)];
        Self {
            checkpoints: checkpoints.map(|path| with_suffix(path, CHECKPOINT_SUFFIX)),
            marks: state
                .map(|state| state.join(MARKS_IN_STATE))
                .into_iter()
                .chain(marks)
                .collect(),
        }
    }

    /// The unfinished import, with the place of its record, if it is the one that is wanted; blocks.
    pub(super) fn unfinished(&self, job: &Job) -> Result<Option<(PathBuf, Record)>, RecordError> {
        for path in &self.checkpoints {
            if let Some(record) = Record::read(path)? {
                return match record.difference(job) {
                    None => Ok(Some((path.clone(), record))),
                    Some(difference) => {
                        let path = path.display().to_string();
                        Err(RecordError::Other(path, shortened(&difference)))
                    }
                };
            }
        }
        Ok(None)
    }

    /// The place for the record of a new import; blocks.
    pub(super) fn new_checkpoint(&self) -> PathBuf {
        let [beside, fallback] = &self.checkpoints;
        let trial = with_suffix(beside, UNFINISHED_SUFFIX);
        if File::create(&trial).is_err() {
            return fallback.clone();
        }
        // What remains of the trial is overwritten later.
        let _ = fs::remove_file(trial);
        beside.clone()
    }

    /// Removes the records of unfinished imports; blocks.
    pub(super) fn forget(&self) -> Result<(), RecordError> {
        self.checkpoints.iter().try_for_each(|path| remove(path))
    }

    /// The finished imports into boards of one name; blocks.
    pub(super) fn finished(&self, board: &str) -> Result<Finished, RecordError> {
        let mut finished = Vec::new();
        for path in &self.marks {
            let text = match fs::read_to_string(path) {
                Ok(text) => text,
                Err(cause)
                    if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
                {
                    continue;
                }
                Err(cause) => return Err(RecordError::Marks(path.display().to_string(), cause)),
            };
            // A line that was cut off is none.
            let lines = text.lines();
            let records = lines.filter_map(|line| serde_json::from_str::<Record>(line).ok());
            finished.extend(records.filter(|record| {
                // Marks of the first form don't say that they are of finished imports.
                let is_finished = record.is_finished || record.version < VERSION;
                is_finished && record.job.board == board && record.rows > 0
            }));
        }
        Ok(Finished(finished))
    }

    /// Adds a finished import to the first place where that can be done; blocks.
    pub(super) fn finish(&self, record: &Record) -> Result<(), RecordError> {
        let mut failure = None;
        for path in &self.marks {
            match record.append(path) {
                Ok(()) => return Ok(()),
                Err(cause) => failure = failure.or(Some((path, cause))),
            }
        }
        failure.map_or(Ok(()), |(path, cause)| {
            Err(RecordError::Marks(path.display().to_string(), cause))
        })
    }
}

/// The finished imports into boards of one name, in the order in which they ended.
#[derive(Debug)]
pub(super) struct Finished(Vec<Record>);

impl Finished {
    /// The sizes of the imported files in bytes, in ascending order.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let files = self.0.iter().filter_map(|record| record.job.file.as_ref());
        let mut sizes: Vec<_> = files.map(|file| file.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The last import of the same content into the same board, or of its beginning. `beginnings` are those of
    /// the sizes.
    pub(super) fn find(
        &self,
        job: &Job,
        beginnings: &[Identity],
        board_version: Option<&str>,
    ) -> Option<Earlier> {
        let file = job.file.as_ref()?;
        let is_board = |record: &Record| {
            let lives = (life(record.board_version.as_deref()), life(board_version));
            match lives {
                (Some(before), Some(now)) => before == now,
                _ => record.job.url == job.url,
            }
        };
        let last = |is_file: &dyn Fn(&Identity) -> bool, is_whole| {
            let is_one = |record: &&Record| {
                record.job.file.as_ref().is_some_and(is_file) && is_board(record)
            };
            let record = self.0.iter().rfind(is_one)?.clone();
            Some(Earlier { record, is_whole })
        };
        last(&|known| known == file, true)
            .or_else(|| last(&|known| beginnings.contains(known), false))
    }
}

/// A finished import that had rows of this one.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    pub(super) record: Record,
    /// Whether it had all of them, and not only the first ones.
    pub(super) is_whole: bool,
}

impl Earlier {
    /// Whether the rows have the same ids this time, so that a board that remembers them counts none again.
    pub(super) fn has_same_ids(&self, ids: Ids) -> bool {
        let Record { job, tally, .. } = &self.record;
        tally.generated == 0 || (job.ids == ids && (self.is_whole || ids == Ids::Rows))
    }
}

/// Removes a checkpoint, if it is there; blocks.
pub(super) fn remove(path: &Path) -> Result<(), RecordError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(RecordError::Write(path.display().to_string(), cause))
        }
        _ => Ok(()),
    }
}

/// What a board has in common with itself only, however often it is redefined: its version without the count of its
/// definitions.
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

    fn job(bytes: u64, url: &str) -> Job {
        Job {
            file: Some(Identity {
                bytes,
                xxh3: format!("{bytes:016x}"),
            }),
            board: "b".into(),
            url: url.into(),
            ids: Ids::File,
            rejects: None,
        }
    }

    fn finished(job: Job, version: Option<&str>) -> Record {
        let mut record = Record::new(job);
        record.board_version = version.map(Into::into);
        (record.rows, record.tally.generated, record.is_finished) = (3, 3, true);
        record
    }

    #[test]
    fn a_checkpoint_is_found_by_the_import_that_wrote_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("a.csv"), folder.path().join("elsewhere"));
        let places = Places::new(&file, None, &elsewhere);
        let path = places.new_checkpoint();
        assert!(path.ends_with("a.csv.standings-import.json"));
        let wanted = job(7, "http://h");
        assert!(places.unfinished(&wanted).unwrap().is_none());

        let mut record = Record::new(wanted.clone());
        (record.rows, record.sent_rows) = (12, 20);
        record.sent_since = Some(Timestamp::parse("2026-11-21T00:30:00Z").unwrap());
        record.tally.applied = 3;
        record.write(&path).unwrap();
        let (_, found) = places.unfinished(&wanted).unwrap().unwrap();
        assert_eq!(found, record);

        let mut other = wanted.clone();
        other.board = "c".into();
        let message = places.unfinished(&other).unwrap_err().to_string();
        assert!(
            message.contains("of another import (board b)") && message.contains("--restart"),
            "{message}"
        );
        let message = places
            .unfinished(&job(8, "http://h"))
            .unwrap_err()
            .to_string();
        assert!(message.contains("another content"), "{message}");

        places.forget().unwrap();
        assert!(places.unfinished(&wanted).unwrap().is_none());
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "nothing is left");
    }

    #[test]
    fn where_nothing_can_be_written_it_lies_in_the_other_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("missing/a.csv");
        let places = Places::new(&file, None, folder.path());
        let wanted = job(7, "http://h");
        let record = Record::new(wanted.clone());
        record.write(&places.new_checkpoint()).unwrap();
        assert!(folder.path().join("a.csv.standings-import.json").exists());
        assert!(places.unfinished(&wanted).unwrap().is_some());
    }

    #[test]
    fn a_damaged_checkpoint_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(&folder.path().join("a.csv"), None, folder.path());
        let other_form = serde_json::to_string(&Record {
            version: 9,
            ..Record::new(job(7, ""))
        });
        for content in [
            "",
            "{\"rows\": 1}",
            "{\"version\": 9}",
            "{\"version\": 2, \"rows\": 1}",
            &other_form.unwrap(),
        ] {
            fs::write(folder.path().join("a.csv.standings-import.json"), content).unwrap();
            let message = places.unfinished(&job(7, "")).unwrap_err().to_string();
            assert!(message.contains("can't read the checkpoint"), "{message}");
        }
    }

    #[test]
    fn a_mark_is_of_content_and_of_one_life_of_a_board() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("some");
        let mut places = Places::new(&folder.path().join("a.csv"), Some(&state), folder.path());
        let path = places.marks[0].clone();
        // A folder that can't be made.
        places.marks.insert(0, "/dev/null/marks.jsonl".into());
        places
            .finish(&finished(job(7, "http://h"), Some("g-1")))
            .unwrap();
        let torn = fs::read_to_string(&path).unwrap() + "{\"file\": {\"by";
        fs::write(&path, torn).unwrap();
        places.finish(&finished(job(5, "http://h"), None)).unwrap();

        let marks = places.finished("b").unwrap();
        assert_eq!(marks.sizes(), [5, 7]);
        let find = |bytes, url, version| {
            let found = marks.find(&job(bytes, url), &[], version);
            found.map(|earlier| (earlier.record.job.file.unwrap().bytes, earlier.is_whole))
        };
        assert_eq!(find(7, "http://other", Some("g-2")), Some((7, true)));
        assert_eq!(find(7, "http://h", Some("h-1")), None, "made anew");
        assert_eq!(find(7, "http://h", None), Some((7, true)));
        assert_eq!(find(5, "http://h", Some("g-1")), Some((5, true)));
        assert_eq!(find(5, "http://other", Some("g-1")), None);
        let beginnings = [job(7, "").file.unwrap()];
        let grown = marks.find(&job(9, ""), &beginnings, Some("g-1"));
        assert!(!grown.unwrap().is_whole);
        assert!(places.finished("c").unwrap().0.is_empty());
    }

    #[test]
    fn a_mark_of_the_first_form_is_understood() {
        let line = r#"{"file":{"bytes":7,"xxh3":"00"},"board":"b","url":"u","ids":"rows","rejects":null,"board_version":"g-1","rows":3,"generated":2,"begun":"2026-11-21T00:30:00.000Z"}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!((record.rows, record.tally.generated), (3, 2));
        assert!(record.job.ids == Ids::Rows && record.begun() > Timestamp::MIN);
    }

    #[test]
    fn ids_are_the_same_if_they_do_not_follow_from_what_has_changed() {
        let earlier = |ids, generated, is_whole| {
            let mut record = finished(job(7, ""), None);
            (record.job.ids, record.tally.generated) = (ids, generated);
            Earlier { record, is_whole }
        };
        assert!(earlier(Ids::File, 3, true).has_same_ids(Ids::File));
        assert!(!earlier(Ids::File, 3, true).has_same_ids(Ids::Rows));
        assert!(!earlier(Ids::File, 3, false).has_same_ids(Ids::File));
        assert!(earlier(Ids::Rows, 3, false).has_same_ids(Ids::Rows));
        assert!(earlier(Ids::File, 0, false).has_same_ids(Ids::Rows));
    }
}
