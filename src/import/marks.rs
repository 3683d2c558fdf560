//! The marks that finished imports leave, so that nobody counts the same rows again by mistake.
//!
//! A mark names content, not a file: one that was moved, renamed or copied is still known, and one that has
//! grown is known by its beginning. It names one life of a board: of a board that was deleted and made anew
//! nothing is known. Marks are the lines of one file, in the user's folder for such things or beside the
//! imported file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::checkpoint::{CheckpointError, Job};
use super::ids::Ids;
use super::input::Identity;
use crate::domain::time::Timestamp;

/// A finished import.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Mark {
    #[serde(flatten)]
    pub(super) job: Job,
    /// The version of the board's definition.
    pub(super) board_version: Option<String>,
    /// How many rows it had.
    pub(super) rows: u64,
    /// How many of their ids were generated.
    pub(super) generated: u64,
    /// No row was sent before.
    pub(super) begun: Timestamp,
}

/// A finished import that had rows of this one.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    pub(super) mark: Mark,
    /// Whether it had all of them, and not only the first ones.
    pub(super) is_whole: bool,
}

impl Earlier {
    /// Whether the rows have the same ids this time, so that a board that remembers them counts none again.
    pub(super) fn has_same_ids(&self, ids: Ids) -> bool {
        self.mark.generated == 0
            || (self.mark.job.ids == ids && (self.is_whole || ids == Ids::Rows))
    }
}

/// The marks of earlier imports into boards of one name.
#[derive(Debug)]
pub(super) struct Marks {
    found: Vec<Mark>,
    /// Where they may lie; the next one goes to the first that can be written.
    paths: Vec<PathBuf>,
}

impl Marks {
    /// Reads them; blocks.
    pub(super) fn read(paths: Vec<PathBuf>, board: &str) -> Result<Self, CheckpointError> {
        let mut found = Vec::new();
        for path in &paths {
            let text = match fs::read_to_string(path) {
                Ok(text) => text,
                Err(cause)
                    if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
                {
                    continue;
                }
                Err(cause) => return Err(error(path, cause)),
            };
            // A line that was cut off is none.
            let marks = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Mark>(line).ok());
            found.extend(marks.filter(|mark| mark.job.board == board && mark.rows > 0));
        }
        Ok(Self { found, paths })
    }

    /// The sizes of the imported files in bytes, in ascending order.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let files = self.found.iter().filter_map(|mark| mark.job.file.as_ref());
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
        let is_board =
            |mark: &Mark| match (life(mark.board_version.as_deref()), life(board_version)) {
                (Some(before), Some(now)) => before == now,
                _ => mark.job.url == job.url,
            };
        let last = |is_file: &dyn Fn(&Identity) -> bool| {
            let is_one =
                |mark: &&Mark| mark.job.file.as_ref().is_some_and(is_file) && is_board(mark);
            self.found.iter().rfind(is_one).cloned()
        };
        let earlier = |is_whole| move |mark| Earlier { mark, is_whole };
        last(&|known| known == file)
            .map(earlier(true))
            .or_else(|| last(&|known| beginnings.contains(known)).map(earlier(false)))
    }

    /// Leaves another one; blocks.
    pub(super) fn leave(&self, mark: &Mark) -> Result<(), CheckpointError> {
        let write = |path: &Path| {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = File::options().create(true).append(true).open(path)?;
            // It begins a line of its own, also where the last one was cut off.
            let line = serde_json::to_string(mark)?;
            file.write_all(format!("\n{line}\n").as_bytes())?;
            file.sync_data()
        };
        let mut failure = None;
        for path in &self.paths {
            match write(path) {
                Ok(()) => return Ok(()),
                Err(cause) => failure = failure.or(Some(error(path, cause))),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// What a board has in common with itself only, however often it is redefined: its version without the count of its
/// definitions.
fn life(version: Option<&str>) -> Option<&str> {
    Some(version?.rsplit_once('-')?.0)
}

fn error(path: &Path, cause: io::Error) -> CheckpointError {
    CheckpointError::Marks {
        path: path.display().to_string(),
        cause,
    }
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

    fn mark(job: Job, version: Option<&str>) -> Mark {
        Mark {
            job,
            board_version: version.map(Into::into),
            rows: 3,
            generated: 3,
            begun: Timestamp::MIN,
        }
    }

    #[test]
    fn a_mark_is_of_content_and_of_one_life_of_a_board() {
        let folder = tempfile::tempdir().unwrap();
        let paths = vec![
            // A folder that can't be made.
            PathBuf::from("/dev/null/marks.jsonl"),
            folder.path().join("some/marks.jsonl"),
        ];
        let read = || Marks::read(paths[1..].to_vec(), "b").unwrap();
        let empty = Marks {
            found: Vec::new(),
            paths: paths.clone(),
        };
        empty.leave(&mark(job(7, "http://h"), Some("g-1"))).unwrap();
        let torn = fs::read_to_string(&paths[1]).unwrap() + "{\"file\": {\"by";
        fs::write(&paths[1], torn).unwrap();
        read().leave(&mark(job(5, "http://h"), None)).unwrap();

        let marks = read();
        assert_eq!(marks.sizes(), [5, 7]);
        let find = |bytes, url, version| {
            let found = marks.find(&job(bytes, url), &[], version);
            found.map(|earlier| (earlier.mark.job.file.unwrap().bytes, earlier.is_whole))
        };
        assert_eq!(find(7, "http://other", Some("g-2")), Some((7, true)));
        assert_eq!(find(7, "http://h", Some("h-1")), None, "made anew");
        assert_eq!(find(7, "http://h", None), Some((7, true)));
        assert_eq!(find(5, "http://h", Some("g-1")), Some((5, true)));
        assert_eq!(find(5, "http://other", Some("g-1")), None);
        let beginnings = [job(7, "").file.unwrap()];
        let grown = marks.find(&job(9, ""), &beginnings, Some("g-1"));
        assert!(!grown.unwrap().is_whole);
        assert!(
            Marks::read(paths[1..].to_vec(), "c")
                .unwrap()
                .found
                .is_empty()
        );
    }

    #[test]
    fn ids_are_the_same_if_they_do_not_follow_from_what_has_changed() {
        let earlier = |ids, generated, is_whole| {
            let mut mark = mark(job(7, ""), None);
            (mark.job.ids, mark.generated) = (ids, generated);
            Earlier { mark, is_whole }
        };
        assert!(earlier(Ids::File, 3, true).has_same_ids(Ids::File));
        assert!(!earlier(Ids::File, 3, true).has_same_ids(Ids::Rows));
        assert!(!earlier(Ids::File, 3, false).has_same_ids(Ids::File));
        assert!(earlier(Ids::Rows, 3, false).has_same_ids(Ids::Rows));
        assert!(earlier(Ids::File, 0, false).has_same_ids(Ids::Rows));
    }
}
