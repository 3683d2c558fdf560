//! The imported file: its identity, how it is opened, and what it contains.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

use super::ImportError;

/// The name that stands for the standard input.
pub(super) const STDIN_NAME: &str = "-";
/// The size of each read, in bytes.
pub(super) const BUFFER_BYTES: usize = 1 << 16;
/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Written by some programs before UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Identifies the content of a file.
///
/// The hash covers every byte, not only the ends: two exports of the same size may differ by one score in the middle, and
/// must not be mistaken for each other. Reading the file once more costs little compared to sending it. The name and the
/// time of the last change are left out, so a copy counts as the same file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Identity {
    /// The stored size, in bytes.
    pub(super) bytes: u64,
    /// The hash, 16 hexadecimal digits.
    pub(super) xxh3: String,
}

/// How rows are written in a file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A header row, and rows.
    Csv,
    /// A JSON object per line.
    Ndjson,
    /// What `redis-cli --csv ZRANGE … WITHSCORES` prints.
    RedisCsv,
    /// What `redis-cli ZRANGE … WITHSCORES` writes into a file.
    RedisLines,
}

/// A file or a stream, opened but not decoded.
pub(super) struct Input {
    path: PathBuf,
    read: Box<dyn Read + Send>,
    /// The identity of the content; `None` for what can be read only once, such as a pipe.
    pub(super) identity: Option<Identity>,
    /// The identity of its beginning of the wanted size, if it is longer than that.
    pub(super) beginning: Option<Identity>,
    /// Counts the stored bytes that have been read so far.
    pub(super) bytes_read: Arc<AtomicU64>,
}

impl Input {
    /// Opens a file and computes its identity, and that of its beginning of `size` bytes; blocks.
    pub(super) fn open(path: &Path, size: Option<u64>) -> Result<Self, ImportError> {
        let mut input = Self {
            path: path.to_owned(),
            read: Box::new(io::stdin()),
            identity: None,
            beginning: None,
            bytes_read: Arc::default(),
        };
        if path != Path::new(STDIN_NAME) {
            input.open_file(size).map_err(|cause| ImportError::Read {
                path: path.display().to_string(),
                cause,
            })?;
        }
        Ok(input)
    }

    fn open_file(&mut self, size: Option<u64>) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            self.read = Box::new(file);
            return Ok(());
        }
        let (identity, beginning) = Identity::of(&mut file, size)?;
        file.rewind()?;
        // The identity does not cover what is appended in the meantime.
        self.read = Box::new(file.take(identity.bytes));
        (self.identity, self.beginning) = (Some(identity), beginning);
        Ok(())
    }

    /// The name, for messages.
    pub(super) fn name(&self) -> String {
        if self.path == Path::new(STDIN_NAME) {
            "standard input".to_owned()
        } else {
            self.path.display().to_string()
        }
    }

    /// The prefix of ids for rows without one. For a file it follows from the content, so that the same row gets the same
    /// id in another run. A stream has no content before it is read: it gets a random prefix, which makes retries of this
    /// run safe, but no others.
    pub(super) fn id_prefix(&self) -> String {
        match &self.identity {
            Some(identity) => format!("import-{}-", identity.xxh3),
            None => format!("import-{:016x}-", RandomState::new().hash_one(())),
        }
    }

    /// The text, decompressed, without its byte order mark, and its format, if that is not known; blocks until the first
    /// bytes arrive.
    pub(super) fn decode(
        self,
        format: Option<Format>,
    ) -> io::Result<(Box<dyn BufRead + Send>, Format)> {
        let counted = Counted {
            read: self.read,
            count: self.bytes_read,
        };
        let mut stored = BufReader::with_capacity(BUFFER_BYTES, counted);
        let is_gzip = stored.fill_buf()?.starts_with(&GZIP_MAGIC);
        let mut read: Box<dyn BufRead + Send> = if is_gzip {
            Box::new(BufReader::with_capacity(
                BUFFER_BYTES,
                MultiGzDecoder::new(stored),
            ))
        } else {
            Box::new(stored)
        };
        if read.fill_buf()?.starts_with(&BYTE_ORDER_MARK) {
            read.consume(BYTE_ORDER_MARK.len());
        }
        let format = match format.or_else(|| Format::of_name(&self.path)) {
            Some(format) => format,
            None => Format::of_content(read.fill_buf()?),
        };
        Ok((read, format))
    }
}

impl Identity {
    /// The identity of the whole, and of its beginning of this size, if it is longer than that.
    fn of(mut read: impl Read, size: Option<u64>) -> io::Result<(Self, Option<Self>)> {
        let mut hash = Xxh3Default::new();
        let identity = |bytes, hash: &Xxh3Default| Self {
            bytes,
            xxh3: format!("{:016x}", hash.digest()),
        };
        let first = io::copy(&mut read.by_ref().take(size.unwrap_or(0)), &mut hash)?;
        let beginning = identity(first, &hash);
        let rest = io::copy(&mut read, &mut hash)?;
        let beginning = Some(beginning).filter(|_| size == Some(first) && rest > 0);
        Ok((identity(first + rest, &hash), beginning))
    }
}

impl Format {
    /// The format according to the extension, ignoring that of a compression.
    fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (_, extension) = name.strip_suffix(".gz").unwrap_or(&name).rsplit_once('.')?;
        match extension {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }

    /// The value of `--format`.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether `redis-cli` has written the file.
    pub(super) fn is_of_redis(self) -> bool {
        matches!(self, Self::RedisCsv | Self::RedisLines)
    }

    fn of_content(head: &[u8]) -> Self {
        if head.trim_ascii_start().starts_with(b"{") {
            Self::Ndjson
        } else {
            Self::Csv
        }
    }
}

/// Counts the bytes that are read.
struct Counted<R> {
    read: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read.read(buffer)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_the_extension_and_then_the_content() {
        let of_name = |name: &str| Format::of_name(Path::new(name));
        assert_eq!(of_name("a/b.csv"), Some(Format::Csv));
        assert_eq!(of_name("b.CSV.GZ"), Some(Format::Csv));
        assert_eq!(of_name("b.jsonl"), Some(Format::Ndjson));
        assert_eq!(of_name("b.ndjson.gz"), Some(Format::Ndjson));
        assert_eq!(of_name("events.gz"), None);
        assert_eq!(of_name("-"), None);
        assert_eq!(Format::of_content(b"\n  {\"member\""), Format::Ndjson);
        assert_eq!(Format::of_content(b"member,score"), Format::Csv);
        assert_eq!(Format::of_content(b""), Format::Csv);
    }

    #[test]
    fn the_file_identity_covers_every_byte() {
        let of = |bytes: &[u8]| Identity::of(bytes, None).unwrap().0;
        let mut content = vec![b'x'; 3 << 20];
        let before = of(&content);
        assert_eq!(before, of(&content));
        assert_eq!((before.bytes, before.xxh3.len()), (3 << 20, 16));
        content.push(b'x');
        let beginning = |size| Identity::of(&*content, Some(size)).unwrap().1;
        assert_eq!(beginning(1), Some(of(b"x")));
        assert_eq!(beginning(3 << 20), Some(before.clone()));
        assert_eq!(beginning((3 << 20) + 1), None, "that is the whole");
        assert_eq!(beginning(4 << 20), None);
        content.pop();
        content[3 << 19] = b'y';
        assert_ne!(before, of(&content));
    }

    #[test]
    fn a_directory_or_a_missing_file_is_reported_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| Input::open(path, None).err().unwrap().to_string();
        let said = message(folder.path());
        assert!(said.contains("is a directory"), "{said}");
        let message = message(&folder.path().join("none.csv"));
        assert!(
            message.starts_with("can't read ") && !message.contains('\n'),
            "{message}"
        );
    }
}
