//! The file of erasures: lines of JSON. The first names the format, the last says how many there are, so that a file that was cut
//! off is noticed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::core::hide::store::erasures::{KnownErasure, name_under};
use crate::domain::erasure::Erasure;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::time::Timestamp;

/// The format of the file. A release reads this one only.
const FORMAT: &str = "standings-erasures-1";

/// What Redis knew of erasures when the file was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ErasureFile {
    /// The only board that it has; `None`: all, and the erasures on all boards.
    pub only: Option<BoardId>,
    /// The keys of the hashes that name members, first the one that new erasures get.
    pub keys: Vec<String>,
    /// About the last stamp given out by then: boards of a later generation were created after the export.
    pub stamp: u64,
    /// The members that were erased on all boards.
    pub everywhere: FiledErasures,
    pub boards: BTreeMap<BoardId, FiledBoard>,
}

/// The last erasures of members, by their names.
pub type FiledErasures = HashMap<String, FiledErasure>;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FiledBoard {
    /// Distinguishes it from other boards of its name.
    pub generation: u64,
    pub erasures: FiledErasures,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FiledErasure {
    /// The place of the key of its hash in [`ErasureFile::keys`].
    pub key: usize,
    pub erasure: Erasure,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Line {
    Begin(Begin),
    Board(BoardLine),
    Erased(ErasedLine),
    End(End),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    format: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    board: Option<BoardId>,
    keys: Vec<String>,
    stamp: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct BoardLine {
    id: BoardId,
    generation: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ErasedLine {
    /// `None`: it was erased on all boards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    board: Option<BoardId>,
    member: String,
    key: usize,
    number: u64,
    at: Timestamp,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct End {
    lines: usize,
}

/// Why a file can't be applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileError {
    /// It can't be read.
    Unreadable(String),
    /// It does not begin like a file of erasures.
    Other,
    /// It is of another release.
    OtherFormat(String),
    /// A line is not valid, for this reason. They count from 1.
    Invalid(usize, String),
    /// Its end is missing.
    CutOff,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => f.write_str(why),
            Self::Other => f.write_str("this is not a file of `standings erasures export`"),
            Self::OtherFormat(format) => write!(
                f,
                "its format is {format:?}, and this release reads {FORMAT:?}: use the release that wrote it"
            ),
            Self::Invalid(line, why) => write!(f, "line {line}: {why}"),
            Self::CutOff => f.write_str("its last line is missing: it was cut off. Export again"),
        }
    }
}

impl ErasureFile {
    /// A file without erasures. `key`: of the hashes of new erasures.
    pub(crate) fn new(only: Option<BoardId>, key: String, stamp: u64) -> Self {
        Self {
            only,
            keys: vec![key],
            stamp,
            everywhere: FiledErasures::new(),
            boards: BTreeMap::new(),
        }
    }

    /// Adds a member that was erased on all boards.
    pub(crate) fn add_everywhere(&mut self, name: String, erasure: Erasure) {
        let filed = FiledErasure { key: 0, erasure };
        self.everywhere.insert(name, filed);
    }

    /// Adds a board with what its shards know. Of several erasures of a member the last one is kept.
    pub(crate) fn add_board(&mut self, id: BoardId, generation: u64, known: Vec<KnownErasure>) {
        let mut erasures = FiledErasures::new();
        for KnownErasure { key, name, erasure } in known {
            let key = self.place_of(key);
            let filed = erasures
                .entry(name)
                .or_insert(FiledErasure { key, erasure });
            if filed.erasure.number < erasure.number {
                filed.erasure = erasure;
            }
        }
        let board = FiledBoard {
            generation,
            erasures,
        };
        self.boards.insert(id, board);
    }

    /// The place of a key, which is added if it is new.
    fn place_of(&mut self, key: String) -> usize {
        let known = self.keys.iter().position(|known| *known == key);
        known.unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    /// Writes it.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        let begin = Begin {
            format: FORMAT.to_owned(),
            board: self.only.clone(),
            keys: self.keys.clone(),
            stamp: self.stamp,
        };
        let mut lines = vec![Line::Begin(begin)];
        lines.extend(erased_lines(None, &self.everywhere));
        for (id, board) in &self.boards {
            lines.push(Line::Board(BoardLine {
                id: id.clone(),
                generation: board.generation,
            }));
            lines.extend(erased_lines(Some(id), &board.erasures));
        }
        let end = End {
            lines: lines.len() + 1,
        };
        lines.push(Line::End(end));
        for line in lines {
            serde_json::to_writer(&mut out, &line)?;
            writeln!(out)?;
        }
        out.flush()
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// See [`FileError`].
    pub fn read(file: impl BufRead) -> Result<Self, FileError> {
        let unreadable = |error: io::Error| FileError::Unreadable(error.to_string());
        let mut lines = file.lines().enumerate();
        let first = lines.next().ok_or(FileError::Other)?.1;
        let mut read = Self::begun(&first.map_err(unreadable)?)?;
        let mut is_ended = false;
        for (index, line) in lines {
            let (number, line) = (index + 1, line.map_err(unreadable)?);
            let invalid = |why: &str| FileError::Invalid(number, why.to_owned());
            let line = serde_json::from_str(&line).map_err(|error| invalid(&error.to_string()))?;
            is_ended = match line {
                _ if is_ended => return Err(invalid("the file goes on after its end")),
                Line::Begin(_) => return Err(invalid("a second beginning")),
                Line::End(end) if end.lines != number => {
                    return Err(invalid("lines are missing: export again"));
                }
                Line::End(_) => true,
                Line::Board(board) => {
                    read.boards.entry(board.id).or_default().generation = board.generation;
                    false
                }
                Line::Erased(erased) => {
                    read.add(erased).map_err(invalid)?;
                    false
                }
            };
        }
        is_ended.then_some(read).ok_or(FileError::CutOff)
    }

    /// The file that begins with this line.
    fn begun(line: &str) -> Result<Self, FileError> {
        #[derive(Deserialize)]
        struct AnyBegin {
            begin: AnyFormat,
        }
        #[derive(Deserialize)]
        struct AnyFormat {
            format: String,
        }
        let any: AnyBegin = serde_json::from_str(line).map_err(|_| FileError::Other)?;
        if any.begin.format != FORMAT {
            return Err(FileError::OtherFormat(any.begin.format));
        }
        match serde_json::from_str(line) {
            Ok(Line::Begin(begin)) if !begin.keys.is_empty() => Ok(Self {
                only: begin.board,
                keys: begin.keys,
                stamp: begin.stamp,
                everywhere: FiledErasures::new(),
                boards: BTreeMap::new(),
            }),
            Ok(_) => Err(FileError::Invalid(1, "`keys` is empty".to_owned())),
            Err(error) => Err(FileError::Invalid(1, error.to_string())),
        }
    }

    fn add(&mut self, line: ErasedLine) -> Result<(), &'static str> {
        if line.key >= self.keys.len() {
            return Err("`key` is not the place of one of the `keys`");
        }
        let erasures = match &line.board {
            None => &mut self.everywhere,
            Some(id) => {
                let board = self.boards.get_mut(id);
                &mut board.ok_or("the line of its board is missing")?.erasures
            }
        };
        let (number, at) = (line.number, line.at);
        let filed = FiledErasure {
            key: line.key,
            erasure: Erasure { number, at },
        };
        erasures.insert(line.member, filed);
        Ok(())
    }
}

/// Lines of erasures, in the order of their numbers.
fn erased_lines(board: Option<&BoardId>, erasures: &FiledErasures) -> Vec<Line> {
    let mut erasures: Vec<_> = erasures.iter().collect();
    erasures.sort_unstable_by_key(|(name, filed)| (filed.erasure.number, *name));
    let line = |(name, filed): (&String, &FiledErasure)| {
        Line::Erased(ErasedLine {
            board: board.cloned(),
            member: name.clone(),
            key: filed.key,
            number: filed.erasure.number,
            at: filed.erasure.at,
        })
    };
    erasures.into_iter().map(line).collect()
}

/// Erasures of a file that a board, or the service, may not know.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'f> {
    keys: &'f [String],
    pub(super) erasures: HashMap<&'f str, FiledErasure>,
}

impl<'f> Wanted<'f> {
    /// Those that were made on all boards.
    pub(super) fn everywhere(file: &'f ErasureFile) -> Self {
        Self {
            keys: &file.keys,
            erasures: of_file(&file.everywhere).collect(),
        }
    }

    /// Those that a board of this generation may have to know.
    pub(super) fn on_board(file: &'f ErasureFile, id: &BoardId, generation: u64) -> Self {
        let mut wanted = Self::everywhere(file);
        let own = file.boards.get(id).map(|board| of_file(&board.erasures));
        for (name, filed) in own.into_iter().flatten() {
            let known = wanted.erasures.entry(name).or_insert(filed);
            if known.erasure.number < filed.erasure.number {
                *known = filed;
            }
        }
        wanted
            .erasures
            .retain(|_, filed| filed.erasure.number > generation);
        wanted
    }

    /// Drops the erasures that do not satisfy a condition on the name of the member and the erasure.
    pub(super) fn keep_if(&mut self, is_wanted: impl Fn(&str, Erasure) -> bool) {
        self.erasures
            .retain(|name, filed| is_wanted(name, filed.erasure));
    }

    /// Drops all erasures of a member.
    pub(super) fn drop_of(&mut self, member: &MemberId) {
        for key in self.keys {
            self.erasures
                .remove(name_under(key, member.as_str()).as_str());
        }
    }

    /// The last erasure of a member, with its name.
    pub(super) fn of(&self, member: &MemberId) -> Option<(&'f str, Erasure)> {
        let named = self.keys.iter().enumerate().filter_map(|(place, key)| {
            let name = name_under(key, member.as_str());
            let (name, filed) = self.erasures.get_key_value(name.as_str())?;
            (filed.key == place).then_some((*name, filed.erasure))
        });
        named.max_by_key(|(_, erasure)| erasure.number)
    }

    /// The names and erasures by the key of the names, for keys that have any, in the order of the file.
    pub(super) fn by_key(&self) -> Vec<(&'f str, Vec<(&'f str, Erasure)>)> {
        let keys = self.keys.iter().enumerate().map(|(place, key)| {
            let of_key = self.erasures.iter();
            let of_key = of_key.filter(|(_, filed)| filed.key == place);
            let names = of_key.map(|(name, filed)| (*name, filed.erasure));
            (key.as_str(), names.collect::<Vec<_>>())
        });
        keys.filter(|(_, names)| !names.is_empty()).collect()
    }
}

fn of_file(erasures: &FiledErasures) -> impl Iterator<Item = (&str, FiledErasure)> {
    erasures.iter().map(|(name, filed)| (name.as_str(), *filed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> BoardId {
        BoardId::parse(text).unwrap()
    }

    fn erasure(number: u64) -> Erasure {
        let at = Timestamp::from_us(1_795_305_600_123_456).unwrap();
        Erasure { number, at }
    }

    fn known(key: &str, member: &str, number: u64) -> KnownErasure {
        KnownErasure {
            key: key.to_owned(),
            name: name_under(key, member),
            erasure: erasure(number),
        }
    }

    fn file() -> ErasureFile {
        let mut file = ErasureFile::new(None, "k".to_owned(), 90);
        file.add_everywhere(name_under("k", "eve"), erasure(80));
        let of_shards = vec![
            known("k", "ann", 50),
            known("old", "bob", 20),
            known("k", "ann", 60),
        ];
        file.add_board(id("b"), 10, of_shards);
        file.add_board(id("c"), 30, Vec::new());
        file
    }

    fn text(file: &ErasureFile) -> String {
        let mut written = Vec::new();
        file.write(&mut written).unwrap();
        String::from_utf8(written).unwrap()
    }

    fn error(text: &str) -> String {
        ErasureFile::read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let text = text(&file());
        assert_eq!(ErasureFile::read(text.as_bytes()), Ok(file()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"begin":{"format":"standings-erasures-1","keys":["k","old"],"stamp":90}}"#
        );
        assert!(
            lines[1].contains(r#""number":80,"at":"2026-11-22T00:00:00.123456Z"#),
            "{text}"
        );
        assert_eq!(lines.last(), Some(&r#"{"end":{"lines":7}}"#));
    }

    #[test]
    fn a_file_that_is_not_whole_or_not_ours_is_refused() {
        let text = text(&file());
        let lines: Vec<&str> = text.lines().collect();
        let without = |index: usize| [&lines[..index], &lines[index + 1..]].concat().join("\n");
        assert!(error(&without(6)).contains("cut off"));
        assert_eq!(
            error(&without(5)),
            "line 6: lines are missing: export again"
        );
        assert_eq!(
            error(&without(2)),
            "line 3: the line of its board is missing"
        );
        assert!(error(&(text.clone() + lines[1])).contains("goes on after its end"));
        assert!(error(&text.replace(r#""key":1"#, r#""key":2"#)).contains("`key`"));
        assert!(error(&text.replace("erasures-1", "erasures-2")).contains("standings-erasures-2"));
        for other in ["", "id,member\n1,ann", r#"{"begin":{}}"#] {
            assert!(error(other).contains("not a file of"), "{other}");
        }
        assert!(error(&text[..text.len() - 30]).starts_with("line 6: "));
    }

    #[test]
    fn a_board_wants_erasures_that_are_later_than_it_and_than_what_it_knows() {
        let file = file();
        let of = |wanted: &Wanted<'_>, member: &str| {
            let found = wanted.of(&MemberId::parse(member).unwrap());
            found.map(|(_, erasure)| erasure.number)
        };
        let mut wanted = Wanted::on_board(&file, &id("b"), 10);
        let numbers = ["ann", "bob", "eve", "cid"].map(|member| of(&wanted, member));
        assert_eq!(numbers, [Some(60), Some(20), Some(80), None]);
        let keys: Vec<_> = wanted
            .by_key()
            .iter()
            .map(|(key, names)| (*key, names.len()))
            .collect();
        assert_eq!(keys, [("k", 2), ("old", 1)]);
        wanted.keep_if(|_, erasure| erasure.number != 80);
        assert_eq!((of(&wanted, "ann"), of(&wanted, "eve")), (Some(60), None));
        wanted.drop_of(&MemberId::parse("bob").unwrap());
        assert_eq!(of(&wanted, "bob"), None);
        // Of names under two keys the last erasure counts.
        let mut file = file.clone();
        file.add_board(
            id("e"),
            10,
            vec![known("k", "ann", 50), known("old", "ann", 70)],
        );
        assert_eq!(of(&Wanted::on_board(&file, &id("e"), 10), "ann"), Some(70));
        // A board that was created later, and one that the file lacks.
        assert_eq!(of(&Wanted::on_board(&file, &id("b"), 70), "ann"), None);
        assert_eq!(of(&Wanted::on_board(&file, &id("d"), 5), "eve"), Some(80));
    }
}
