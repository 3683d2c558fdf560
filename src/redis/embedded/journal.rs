//! Checks the server's append-only file before a server is started on it.
//!
//! The writes of a script are in the file as one block, `MULTI … EXEC`. A server that is killed while it writes may leave
//! the first part of a block. The client has no answer to this write, so the whole block must be removed. Redis 7 and
//! Valkey before 9.1.2 do so only if the file ends exactly after a command. If it ends within a command, they cut off only
//! this command, and leave a `MULTI` without its `EXEC`. They start, but everything that they write afterwards is within
//! that block: the next start either carries out the old half together with the next script, or drops everything after it.
//! [`mend`] cuts such a file where its open block begins.
//!
//! After a kill only the last file can end like that: a rewrite continues in a new file only once the old one is written
//! completely. If another file is torn, the machine has lost power, and data in the middle of the history is lost. The
//! server would cut that file, too, and refuse to start, but accept it the next time or the one after. So this is an error,
//! and nothing is changed.
//!
//! Other losses would make the server start without data, and soon overwrite the rest: a missing manifest next to files with
//! data, an empty snapshot file, and a restored copy in a wrong folder. These are errors, too. A file that is damaged in any other way is left to the
//! server, which refuses it and says where.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::Path;

use tokio::fs::{self, File};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tracing::warn;

/// The folder of the server's files, below its directory.
const FOLDER: &str = "appendonlydir";
/// The list of these files.
const MANIFEST: &str = "appendonly.aof.manifest";
/// The prefix of all their names.
const PREFIX: &str = "appendonly.aof.";
/// The snapshot without data with which a server begins. It is written before the first manifest.
const FIRST_SNAPSHOT: &str = "appendonly.aof.1.base.rdb";
/// The size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest line that is read as one, in bytes; a sound file's have at most 22.
const LINE_BYTES_MAX: u64 = 1024;
/// As long as `MULTI`, the longest name that matters, in bytes.
const NAME_BYTES_MAX: u64 = 5;

/// Cuts off an incomplete block at the end of the last file in a server's directory.
///
/// Call this only while no server uses the directory. It reads the files once, at about the speed of the disk; dropping the
/// future leaves them unchanged.
///
/// # Errors
///
/// A file can't be read or cut, a file before the last is torn, or data is lost without the server noticing.
pub(super) async fn mend(dir: &Path) -> io::Result<()> {
    let folder = dir.join(FOLDER);
    let manifest = match fs::read(folder.join(MANIFEST)).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            is_nowhere_else(dir).await?;
            return has_no_data(&folder).await;
        }
        manifest => manifest?,
    };
    let manifest = String::from_utf8_lossy(&manifest);
    for name in names(&manifest, "b") {
        // The server refuses to start without the file.
        let length = fs::metadata(folder.join(name)).await.map(|file| file.len());
        if matches!(length, Ok(0)) {
            return Err(io::Error::other(format!(
                "the snapshot {FOLDER}/{name} is empty: its data is lost; restore a backup"
            )));
        }
    }
    let names: Vec<&str> = names(&manifest, "i").collect();
    for (number, name) in (1..).zip(&names) {
        let path = folder.join(name);
        let file = match File::open(&path).await {
            // The server refuses to start without it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            file => file?,
        };
        let end = end_of(BufReader::with_capacity(BUFFER_BYTES, file)).await?;
        match end {
            End::Whole | End::Malformed => {}
            End::InBlock(begins_at) if number == names.len() => cut(&path, begins_at)?,
            // The server cuts this one correctly.
            End::InCommand if number == names.len() => {}
            End::InBlock(_) | End::InCommand => {
                return Err(io::Error::other(format!(
                    "{name} ends in the middle of a write, but is not the last append-only file: data in the \
                     middle is lost; restore a backup"
                )));
            }
        }
    }
    Ok(())
}

/// Checks that no copy was put next to its place by mistake: a server would start without its data.
async fn is_nowhere_else(dir: &Path) -> io::Result<()> {
    let folder = dir.join(FOLDER);
    let again = dir.join(dir.file_name().unwrap_or_default()).join(FOLDER);
    for wrong in [dir, &folder.join(FOLDER), &again] {
        if fs::try_exists(wrong.join(MANIFEST)).await? {
            return Err(io::Error::other(format!(
                "{MANIFEST} is in {}, where the server does not read it: move it and the files next to it to {}",
                wrong.display(),
                folder.display()
            )));
        }
    }
    Ok(())
}

/// Checks that a folder without a manifest has no data: a server would start from scratch there, and overwrite it. An
/// interrupted first start leaves a snapshot without data, and an empty file of commands.
async fn has_no_data(folder: &Path) -> io::Result<()> {
    let mut files = match fs::read_dir(folder).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    while let Some(file) = files.next_entry().await? {
        let name = file.file_name();
        let name = name.to_string_lossy();
        let may_have_data = name.starts_with(PREFIX) && name != FIRST_SNAPSHOT;
        if may_have_data && file.metadata().await?.len() > 0 {
            return Err(io::Error::other(format!(
                "{FOLDER}/{name} exists, but not {MANIFEST}, which lists such files: restore it, or a backup of the \
                 whole directory"
            )));
        }
    }
    Ok(())
}

/// The names of the files of a type, from the manifest's lines: `file NAME seq 1 type i`. Types: `b`, the snapshot that the
/// commands follow; `i`, files of commands; `h`, files that are no longer needed.
fn names<'a>(manifest: &'a str, kind: &str) -> impl Iterator<Item = &'a str> {
    manifest.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let field = |name| {
            words
                .chunks_exact(2)
                .find_map(|pair| (pair[0] == name).then_some(pair[1]))
        };
        let is_of_kind = field("type")? == kind;
        // The server refuses a name outside of its folder.
        field("file").filter(|name| is_of_kind && !name.contains('/'))
    })
}

fn cut(path: &Path, begins_at: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let bytes = file.metadata()?.len().saturating_sub(begins_at);
    // Not in another thread, which could still be at it when the server writes.
    file.set_len(begins_at)?;
    file.sync_all()?;
    warn!(
        file = %path.display(),
        begins_at,
        bytes,
        "removed the last write of the embedded Redis server: it was incomplete, and was never acknowledged"
    );
    Ok(())
}

/// How a file of commands ends.
#[derive(Debug, PartialEq)]
enum End {
    /// After a command, and outside of a block.
    Whole,
    /// In the middle of a command outside of a block.
    InCommand,
    /// Within a block that begins at this offset; the outermost, if there are several.
    InBlock(u64),
    /// It has something that is not a command.
    Malformed,
}

async fn end_of(file: impl AsyncBufRead + Unpin) -> io::Result<End> {
    let mut commands = Commands {
        file,
        offset: 0,
        line: Vec::new(),
        name: Vec::new(),
    };
    let mut block = None;
    loop {
        let begins_at = commands.offset;
        match commands.next().await {
            Ok(true) if commands.name.eq_ignore_ascii_case(b"MULTI") => {
                block = block.or(Some(begins_at));
            }
            Ok(true) if commands.name.eq_ignore_ascii_case(b"EXEC") => block = None,
            Ok(true) => {}
            Ok(false) => return Ok(block.map_or(End::Whole, End::InBlock)),
            Err(error) if error.kind() == TORN => {
                return Ok(block.map_or(End::InCommand, End::InBlock));
            }
            Err(error) if error.kind() == MALFORMED => return Ok(End::Malformed),
            Err(error) => return Err(error),
        }
    }
}

/// Reads the commands of a file, keeping only the name of the current one.
///
/// It is as lenient as the server, so that both see the same commands.
struct Commands<F> {
    file: F,
    /// The offset of what is read next.
    offset: u64,
    line: Vec<u8>,
    /// Empty if it is longer than any that matters.
    name: Vec<u8>,
}

/// The error for a torn file, or for something other than a command. Disk errors never have this kind.
const TORN: ErrorKind = ErrorKind::UnexpectedEof;
const MALFORMED: ErrorKind = ErrorKind::InvalidData;

impl<F: AsyncBufRead + Unpin> Commands<F> {
    /// Reads the next command, such as `*2`, `$4`, `INCR`, `$1`, `n`, each with a line end. Returns whether there is one.
    async fn next(&mut self) -> io::Result<bool> {
        self.read_line().await?;
        while self.line.first() == Some(&b'#') {
            self.read_line().await?;
        }
        if self.line.is_empty() {
            return Ok(false);
        }
        let words = self.number(b'*')?;
        if words == 0 {
            return Err(MALFORMED.into());
        }
        for word in 0..words {
            self.read_line().await?;
            let bytes = self.number(b'$')?;
            let is_read = word == 0 && bytes <= NAME_BYTES_MAX;
            if word == 0 {
                self.name.clear();
            }
            if is_read {
                let mut name = (&mut self.file).take(bytes);
                self.offset += name.read_to_end(&mut self.name).await? as u64;
            }
            self.skip(if is_read { 2 } else { bytes.saturating_add(2) })
                .await?;
        }
        Ok(true)
    }

    /// Reads a line, which is empty at the end of the file.
    async fn read_line(&mut self) -> io::Result<()> {
        self.line.clear();
        let mut limited = (&mut self.file).take(LINE_BYTES_MAX);
        self.offset += limited.read_until(b'\n', &mut self.line).await? as u64;
        Ok(())
    }

    /// The number after this mark in the line.
    fn number(&self, mark: u8) -> io::Result<u64> {
        let rest = match &self.line[..] {
            [first, rest @ .., b'\n'] if *first == mark => rest,
            [] => return Err(TORN.into()),
            [first, rest @ ..] if *first == mark && (rest.len() as u64) < LINE_BYTES_MAX - 1 => {
                return Err(TORN.into());
            }
            _ => return Err(MALFORMED.into()),
        };
        let mut digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        let add = |number: u64, digit: &u8| {
            let tenfold = number.checked_mul(10)?;
            tenfold.checked_add(u64::from(digit - b'0'))
        };
        digits.try_fold(0, add).ok_or(MALFORMED.into())
    }

    async fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let there = self.file.fill_buf().await?.len();
            if there == 0 {
                return Err(TORN.into());
            }
            let skipped = usize::try_from(bytes).map_or(there, |bytes| bytes.min(there));
            self.file.consume(skipped);
            self.offset += skipped as u64;
            bytes -= skipped as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of commands, the offset after each, and the block that is open there.
    #[derive(Default)]
    struct Sample {
        bytes: Vec<u8>,
        behind: Vec<(usize, Option<usize>)>,
    }

    impl Sample {
        fn add(&mut self, words: &[&[u8]]) {
            let begins_at = self.bytes.len();
            let open = self.behind.last().and_then(|(_, open)| *open);
            self.bytes
                .extend(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                self.bytes.extend(format!("${}\r\n", word.len()).as_bytes());
                self.bytes.extend(*word);
                self.bytes.extend(b"\r\n");
            }
            let open = match words[0] {
                b"MULTI" => open.or(Some(begins_at)),
                b"EXEC" => None,
                _ => open,
            };
            self.behind.push((self.bytes.len(), open));
        }

        /// How the file ends if it is cut here.
        fn end(&self, cut: usize) -> End {
            let before = self.behind.iter().rev().find(|(behind, _)| *behind <= cut);
            let (behind, open) = before.copied().unwrap_or_default();
            match open {
                Some(begins_at) => End::InBlock(begins_at as u64),
                None if behind == cut => End::Whole,
                None => End::InCommand,
            }
        }
    }

    fn sample() -> Sample {
        let mut sample = Sample::default();
        let long = vec![b'x'; 300];
        sample.add(&[b"SELECT", b"0"]);
        sample.add(&[b"MULTI"]);
        sample.add(&[b"SET", b"*1\r\n$4\r\nEXEC\r\n", b""]);
        sample.add(&[b"EXEC"]);
        sample.add(&[b"SET", b"MULTI", b"*1\r\n$5\r\nMULTI\r\n"]);
        sample.add(&[b"", b"\r\n"]);
        sample.add(&[b"MULTI"]);
        sample.add(&[b"ZREMRANGEBYSCORE", b"\0\xff", &long]);
        sample.add(&[b"PEXPIREAT", b"key", b"1"]);
        sample.add(&[b"EXEC"]);
        sample
    }

    #[tokio::test]
    async fn every_cut_is_recognised_whatever_part_of_the_file_is_in_memory() {
        let sample = sample();
        for buffer in [1, 2, 3, 7, 1 << 20] {
            for cut in 0..=sample.bytes.len() {
                let file = BufReader::with_capacity(buffer, &sample.bytes[..cut]);
                let end = end_of(file).await.unwrap();
                assert_eq!(end, sample.end(cut), "cut at {cut}, read by {buffer}");
            }
        }
    }

    #[tokio::test]
    async fn the_file_is_cut_at_the_first_torn_block() {
        let mut sample = Sample::default();
        sample.add(&[b"MULTI"]);
        sample.add(&[b"EXEC"]);
        sample.add(&[b"MULTI"]);
        sample.add(&[b"INCR", b"n"]);
        sample.add(&[b"MULTI"]);
        let end = end_of(&sample.bytes[..]).await.unwrap();
        assert_eq!(end, sample.end(sample.bytes.len()));
        assert_eq!(end, End::InBlock(29));
    }

    #[tokio::test]
    async fn a_file_is_read_as_the_server_reads_it() {
        let long = format!("*{}", "1".repeat(2_000));
        for (text, expected) in [
            ("", End::Whole),
            ("#TS:1763683200\r\n", End::Whole),
            ("#TS:1763683200\r\n*1\r\n$4\r\nPING\r\n", End::Whole),
            (
                "#TS:1763683200\r\n*1\r\n$5\r\nmulti\r\n#TS:1763683201\r\n",
                End::InBlock(0),
            ),
            ("*1\r\n$5\r\nMulti\r\n*1\r\n$4\r\nexec\r\n", End::Whole),
            ("*", End::InCommand),
            ("*1", End::InCommand),
            ("*1\r", End::InCommand),
            ("*1\r\n", End::InCommand),
            ("*1\r\n$18446744073709551615\r\n", End::InCommand),
            ("*0\r\n", End::Malformed),
            ("*-1\r\n", End::Malformed),
            ("*18446744073709551616\r\n", End::Malformed),
            ("*1\r\n:4\r\nPING\r\n", End::Malformed),
            ("PING\r\n", End::Malformed),
            ("P", End::Malformed),
            ("REDIS0011\n", End::Malformed),
            ("*1\r\n$5\r\nMULTI\r\n\0\0\0\0\n", End::Malformed),
            (&long, End::Malformed),
        ] {
            assert_eq!(end_of(text.as_bytes()).await.unwrap(), expected, "{text:?}");
        }
    }

    /// A directory with these files of commands, listed in this order.
    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        let mut manifest = vec![
            "file appendonly.aof.2.base.rdb seq 2 type b\n".to_owned(),
            "file appendonly.aof.1.incr.aof seq 1 type h\n".to_owned(),
        ];
        for (number, (name, bytes)) in (2..).zip(files) {
            manifest.push(format!("file {name} seq {number} type i startoffset 7\n"));
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        std::fs::write(folder.join(MANIFEST), manifest.concat()).unwrap();
        dir
    }

    fn content(dir: &tempfile::TempDir, name: &str) -> Vec<u8> {
        std::fs::read(dir.path().join(FOLDER).join(name)).unwrap()
    }

    #[tokio::test]
    async fn the_last_file_is_cut_where_its_open_block_begins() {
        let sample = sample();
        // The second block begins after the sixth command.
        let (block, _) = sample.behind[5];
        for (length, left) in [
            (block + 14, block + 14),
            (block + 15, block),
            (block + 16, block),
            (sample.bytes.len() - 1, block),
            (sample.bytes.len(), sample.bytes.len()),
        ] {
            let dir = directory(&[("a", &sample.bytes), ("b", &sample.bytes[..length])]);
            mend(dir.path()).await.unwrap();
            assert_eq!(content(&dir, "a"), sample.bytes);
            assert_eq!(content(&dir, "b"), sample.bytes[..left], "of {length}");
        }
    }

    #[tokio::test]
    async fn a_torn_file_followed_by_others_is_an_error_and_is_not_changed() {
        let sample = sample();
        for length in [sample.bytes.len() - 1, 3] {
            let dir = directory(&[("a", &sample.bytes[..length]), ("b", b"")]);
            let error = mend(dir.path()).await.unwrap_err().to_string();
            assert!(
                error.starts_with("a ends in the middle of a write, but is not the last"),
                "{error}"
            );
            assert_eq!(error.lines().count(), 1);
            assert_eq!(content(&dir, "a"), sample.bytes[..length]);
        }
    }

    #[tokio::test]
    async fn data_without_a_manifest_is_an_error() {
        for (name, bytes, is_sound) in [
            (FIRST_SNAPSHOT, "REDIS0011", true),
            ("appendonly.aof.1.incr.aof", "", true),
            ("appendonly.aof.1.incr.aof", "*1\r\n", false),
            ("appendonly.aof.2.base.rdb", "REDIS0011", false),
            ("temp-rewriteaof-7.aof", "REDIS0011", true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join(FOLDER);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(name), bytes).unwrap();
            let error = mend(dir.path()).await.err().map(|error| error.to_string());
            assert_eq!(error.is_none(), is_sound, "{name}: {error:?}");
            let error = error.unwrap_or_else(|| name.to_owned());
            assert!(error.contains(name), "{error}");
            assert_eq!(content(&dir, name), bytes.as_bytes());
        }
    }

    #[tokio::test]
    async fn an_empty_snapshot_is_an_error() {
        let dir = directory(&[("a", b"")]);
        let snapshot = dir.path().join(FOLDER).join("appendonly.aof.2.base.rdb");
        std::fs::write(&snapshot, "REDIS0011").unwrap();
        mend(dir.path()).await.unwrap();
        std::fs::write(&snapshot, "").unwrap();
        let error = mend(dir.path()).await.unwrap_err().to_string();
        assert!(error.contains("base.rdb is empty"), "{error}");
    }

    #[tokio::test]
    async fn missing_or_malformed_files_are_left_to_the_server() {
        let dir = tempfile::tempdir().unwrap();
        mend(dir.path()).await.unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "*1\r\n$5\r\nMULTI\r\n").unwrap();
        std::fs::create_dir(dir.path().join(FOLDER)).unwrap();
        for manifest in [
            "",
            "\n",
            "file",
            "type i",
            "file gone seq 1 type i\n",
            "file ../outside seq 1 type i\n",
            "\u{0}\u{ff}",
        ] {
            std::fs::write(dir.path().join(FOLDER).join(MANIFEST), manifest).unwrap();
            mend(dir.path()).await.unwrap();
            assert_eq!(std::fs::read(&outside).unwrap().len(), 15);
        }
    }
}
