//! The file of rejected rows, in the format of the imported file, or as CSV if `redis-cli` has written that. The user can fix
//! it and import it alone.
//!
//! Each row is unchanged, with the reason in an additional column, which imports ignore. But if its event was taken, and only
//! its profile rejected, its score is left out, so that it can't count again.
//!
//! The record of the import has the length of this file after the rejections of all acknowledged rows. A resumed import cuts
//! the file to that length, because it sends later rows again. So no row is missing from it, and none is in it twice.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use csv::ByteRecord;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{ImportError, ndjson, remove};
use crate::cli::text::shortened;

/// The column, or field, with the reason. It comes first, so that it is under its name even in a row that has too few or
/// too many fields.
const COLUMN: &str = "rejection";

/// Their name in messages.
pub(super) const REJECTS: &str = "the rejected rows to";

/// Where a row begins in the file, counted from 1.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    Line(u64),
    /// Of a member and its score, where all are on one line.
    Pair(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Pair(pair) => write!(f, "pair {pair}"),
        }
    }
}

/// Where a row comes from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) place: Place,
    /// The unchanged row, if it is kept.
    pub(super) text: Option<RowText>,
}

/// An unchanged row.
#[derive(Clone, Debug)]
pub(super) enum RowText {
    Csv(ByteRecord),
    Ndjson(Vec<u8>),
}

/// A row that was rejected.
#[derive(Clone, Debug)]
pub(super) struct Rejection {
    pub(super) source: Source,
    /// The name of a problem, or `unreadable`.
    pub(super) kind: String,
    pub(super) title: String,
    /// What exactly is wrong.
    pub(super) detail: String,
    /// Whether its event was taken, and only its profile rejected.
    pub(super) is_taken: bool,
}

impl Rejection {
    pub(super) fn new(source: Source, kind: &str, title: &str, detail: &str) -> Self {
        Self {
            source,
            kind: shortened(kind),
            title: shortened(title),
            detail: shortened(detail),
            is_taken: false,
        }
    }
}

/// The file of rejected rows.
#[derive(Debug)]
pub(super) struct Rejects {
    path: PathBuf,
    /// The name of the score in the imported file.
    score: String,
    file: File,
    bytes: u64,
}

impl Rejects {
    /// Opens it for an import with `kept` bytes of it from an earlier run, or creates it; blocks. `score`: the name of the
    /// score in the imported file.
    pub(super) fn open(path: &Path, kept: Option<u64>, score: &str) -> Result<Self, ImportError> {
        let (name, bytes) = (path.display().to_string(), kept.unwrap_or(0));
        let open = || -> io::Result<(File, u64)> {
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(io::Error::other("it is not a file"));
            }
            Ok((file, metadata.len()))
        };
        let (file, length) = open().map_err(ImportError::write(REJECTS, path))?;
        if kept.is_none() && length > 0 {
            return Err(ImportError::RejectsExist(name));
        }
        if length < bytes {
            return Err(ImportError::RejectsChanged(name));
        }
        let mut rejects = Self {
            path: path.to_owned(),
            score: score.to_owned(),
            file,
            bytes,
        };
        rejects.cut(bytes)?;
        Ok(rejects)
    }

    /// Appends rows; blocks. If a write fails, what it has left is cut off when the import is resumed.
    pub(super) fn append(
        &mut self,
        header: Option<&ByteRecord>,
        rejections: &[Rejection],
    ) -> Result<(), ImportError> {
        if rejections.is_empty() {
            return Ok(());
        }
        let is_new = self.bytes == 0;
        let text = written(header.filter(|_| is_new), header, rejections, &self.score);
        text.and_then(|text| {
            self.file.write_all(&text)?;
            self.bytes += text.len() as u64;
            Ok(())
        })
        .map_err(ImportError::write(REJECTS, &self.path))
    }

    /// Flushes it to disk, and returns its length; blocks.
    pub(super) fn sync(&self) -> Result<u64, ImportError> {
        let synced = self.file.sync_data();
        synced.map_err(ImportError::write(REJECTS, &self.path))?;
        Ok(self.bytes)
    }

    /// Truncates it to this length.
    pub(super) fn cut(&mut self, bytes: u64) -> Result<(), ImportError> {
        let cut = self.file.set_len(bytes);
        cut.and_then(|()| self.file.seek(SeekFrom::Start(bytes)))
            .map_err(ImportError::write(REJECTS, &self.path))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Ends it: without rows there is no file; blocks.
    pub(super) fn close(&self) -> Result<(), ImportError> {
        if self.sync()? > 0 {
            return Ok(());
        }
        remove(&self.path).map_err(ImportError::write(REJECTS, &self.path))
    }
}

/// Rows as they are written to the file; `first`: the header, if the file has none yet.
fn written(
    first: Option<&ByteRecord>,
    header: Option<&ByteRecord>,
    rejections: &[Rejection],
    score: &str,
) -> io::Result<Vec<u8>> {
    let mut csv = csv::WriterBuilder::new()
        .flexible(true)
        .from_writer(Vec::new());
    // A file that was fixed and rejected again already has the column.
    let old = column(header, COLUMN);
    let fields = |reason: &str, record: &ByteRecord, emptied: Option<usize>| {
        let mut fields = ByteRecord::from(vec![reason]);
        for (index, field) in record.iter().enumerate() {
            match Some(index) {
                index if index == old => {}
                index if index == emptied => fields.push_field(b""),
                _ => fields.push_field(field),
            }
        }
        fields
    };
    let mut lines = Vec::new();
    if let Some(header) = first {
        csv.write_byte_record(&fields(COLUMN, header, None))?;
    }
    for rejection in rejections {
        let Source { place, text } = &rejection.source;
        let reason = format!("{place}: {}: {}", rejection.kind, rejection.detail);
        match text {
            Some(RowText::Csv(record)) => {
                let emptied = column(header, score).filter(|_| rejection.is_taken);
                csv.write_byte_record(&fields(&reason, record, emptied))?;
            }
            Some(RowText::Ndjson(text)) if rejection.is_taken => {
                let line = ndjson::without_field(text, score)?;
                write_ndjson(&mut lines, &reason, &line)?;
            }
            Some(RowText::Ndjson(text)) => write_ndjson(&mut lines, &reason, text)?,
            // Too long to be kept or sent.
            None => write_ndjson(&mut lines, &reason, b"{}")?,
        }
    }
    lines.extend(csv.into_inner().map_err(csv::IntoInnerError::into_error)?);
    Ok(lines)
}

/// The place of a column.
fn column(header: Option<&ByteRecord>, name: &str) -> Option<usize> {
    let is_name = |column: &[u8]| column.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
    header?.iter().position(is_name)
}

/// Writes a line; a value that is not an object becomes a field of one.
fn write_ndjson(lines: &mut Vec<u8>, reason: &str, line: &[u8]) -> io::Result<()> {
    write!(lines, "{{\"{COLUMN}\":")?;
    serde_json::to_writer(&mut *lines, reason)?;
    let is_json = serde_json::from_slice::<IgnoredAny>(line).is_ok();
    let fields = line.trim_ascii().strip_prefix(b"{").filter(|_| is_json);
    if let Some(fields) = fields {
        let fields = without_reason(fields.trim_ascii());
        if fields != b"}" {
            lines.push(b',');
        }
        lines.extend_from_slice(fields);
    } else {
        lines.extend_from_slice(b",\"text\":");
        serde_json::to_writer(&mut *lines, &String::from_utf8_lossy(line.trim_ascii()))?;
        lines.push(b'}');
    }
    lines.push(b'\n');
    Ok(())
}

/// The fields of an object without the reason that an earlier import has put first.
fn without_reason(fields: &[u8]) -> &[u8] {
    let value = fields.strip_prefix(format!("\"{COLUMN}\":").as_bytes());
    let Some(value) = value else {
        return fields;
    };
    let mut values = serde_json::Deserializer::from_slice(value).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => {
            let rest = value[values.byte_offset()..].trim_ascii();
            rest.strip_prefix(b",").unwrap_or(rest).trim_ascii()
        }
        _ => fields,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn rejection(line: u64, text: Option<RowText>) -> Rejection {
        let place = Place::Line(line);
        let source = Source { place, text };
        Rejection::new(
            source,
            "event-too-late",
            "Event too late",
            "long\u{1b}[2J ago",
        )
    }

    fn text_of(header: Option<&ByteRecord>, rejections: &[Rejection]) -> String {
        let written = written(header, header, rejections, "score");
        String::from_utf8(written.unwrap()).unwrap()
    }

    #[test]
    fn rejected_csv_rows_follow_the_reason_unchanged() {
        let header = ByteRecord::from(vec!["member", "rejection", "score"]);
        let rows = [
            vec!["a,b", "before", "1"],
            vec!["\"c\""],
            vec!["d", "", "1", "2"],
        ];
        let rejections: Vec<_> = (2..)
            .zip(rows)
            .map(|(line, row)| rejection(line, Some(RowText::Csv(ByteRecord::from(row)))))
            .collect();
        assert_eq!(
            text_of(Some(&header), &rejections),
            "rejection,member,score\n\
             line 2: event-too-late: long [2J ago,\"a,b\",1\n\
             line 3: event-too-late: long [2J ago,\"\"\"c\"\"\"\n\
             line 4: event-too-late: long [2J ago,d,1,2\n"
        );
    }

    #[test]
    fn rejected_ndjson_lines_get_a_field_and_other_values_become_objects() {
        let cases = [
            (&b" {\"member\": \"a\"} \r\n"[..], ",\"member\": \"a\"}"),
            (
                b"{\"rejection\":\"an,\\\"old} one\", \"score\":1,\"score\":2}",
                ",\"score\":1,\"score\":2}",
            ),
            (b"{\"rejection\":\"old\"}", "}"),
            (b"{}", "}"),
            (b"not {json", ",\"text\":\"not {json\"}"),
            (b"[1]", ",\"text\":\"[1]\"}"),
            (b"{\"a\":1} {}", ",\"text\":\"{\\\"a\\\":1} {}\"}"),
        ];
        for (line, expected) in cases {
            let line = rejection(7, Some(RowText::Ndjson(line.to_vec())));
            let expected =
                format!("{{\"rejection\":\"line 7: event-too-late: long [2J ago\"{expected}\n");
            let text = text_of(None, &[line]);
            assert_eq!(text, expected);
            assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok());
        }
    }

    #[test]
    fn a_row_whose_event_was_taken_is_written_without_its_score() {
        let header = ByteRecord::from(vec!["member", " Score ", "name"]);
        let taken = |text| Rejection {
            is_taken: true,
            ..rejection(2, Some(text))
        };
        let row = taken(RowText::Csv(ByteRecord::from(vec!["a", "1", "x"])));
        assert_eq!(
            text_of(Some(&header), &[row]),
            "rejection,member, Score ,name\nline 2: event-too-late: long [2J ago,a,,x\n"
        );
        let line = br#"{"member":"a", "score":1.50,"name":"\u00e9","score":2,"n":[1.0]}"#;
        assert_eq!(
            text_of(None, &[taken(RowText::Ndjson(line.to_vec()))]),
            "{\"rejection\":\"line 2: event-too-late: long [2J ago\",\"member\":\"a\",\"name\":\"\\u00e9\",\"n\":[1.0]}\n"
        );
    }

    #[test]
    fn the_file_is_new_or_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejects.ndjson");
        let row = || rejection(1, Some(RowText::Ndjson(b"{}".to_vec())));
        let mut rejects = Rejects::open(&path, None, "score").unwrap();
        rejects.append(None, &[row()]).unwrap();
        let kept = rejects.sync().unwrap();
        rejects.append(None, &[row()]).unwrap();
        assert!(matches!(
            Rejects::open(&path, None, "score"),
            Err(ImportError::RejectsExist(_))
        ));
        let rejects = Rejects::open(&path, Some(kept), "score").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), kept);
        rejects.close().unwrap();
        assert!(matches!(
            Rejects::open(&path, Some(kept + 1), "score"),
            Err(ImportError::RejectsChanged(_))
        ));
        let empty = Rejects::open(&path, Some(0), "score").unwrap();
        empty.close().unwrap();
        assert!(!path.exists(), "without rows there is no file");
    }
}
