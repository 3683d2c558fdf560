//! `.env`, the file with settings in the working directory.
//!
//! It may have API keys. So it is read whole or not at all, and nothing in it is substituted: `$` and `\` are ordinary
//! characters. A line is empty, a comment (`# …`), or `NAME=value`, optionally after `export `. A value ends at a comment
//! (` # …`) or at the end of the line; spaces around it are not part of it. A value that begins with a single or a double
//! quote ends at the next quote of that kind. If a name is repeated, the last value counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;
use thiserror::Error;

use crate::redis::embedded;

/// The name of the file. Only the one in the working directory is read.
const NAME: &str = ".env";

pub type Variables = BTreeMap<String, String>;

/// Why the file can't be read. It never contains a value.
#[derive(Debug, Error)]
pub enum EnvFileError {
    #[error("{NAME} can't be read: {0}")]
    File(#[from] io::Error),
    /// Whose it is.
    #[error(
        "{NAME} can't be read: it belongs to another user (id {0}), and its settings could name programs to run. Use \
         a file that you or root own, or environment variables"
    )]
    Owner(u32),
    #[error("{NAME} can't be read: line {number}: {fault}")]
    Line {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
}

/// Reads the file of a directory; without a file there are no variables.
///
/// An installed program reads only a file that belongs to its own user or to root: it may be started in a directory
/// where others put files. A clone may belong to another user, as it does when it is mounted into a container.
pub fn read(directory: &Path) -> Result<Variables, EnvFileError> {
    read_of(directory, |owner| {
        owner == 0 || owner == geteuid().as_raw() || embedded::is_in_clone()
    })
}

/// Reads the file, if its owner is trusted.
fn read_of(
    directory: &Path,
    is_trusted: impl FnOnce(u32) -> bool,
) -> Result<Variables, EnvFileError> {
    let path = directory.join(NAME);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        // A broken symbolic link is not "no file".
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Ok(Variables::new());
        }
        Err(error) => return Err(error.into()),
    };
    let owner = file.metadata()?.uid();
    if !is_trusted(owner) {
        return Err(EnvFileError::Owner(owner));
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    parse(&content)
}

fn parse(content: &[u8]) -> Result<Variables, EnvFileError> {
    let content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
    let mut variables = Variables::new();
    for (number, line) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        let line = str::from_utf8(line).map_err(|_| "it is not UTF-8");
        match line.and_then(parse_line) {
            Ok(variable) => variables.extend(variable),
            Err(fault) => return Err(EnvFileError::Line { number, fault }),
        }
    }
    Ok(variables)
}

fn parse_line(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim();
    // Even in a comment: if lines ended in CR alone, the whole file would be one.
    if line.contains(|c: char| c.is_control() && c != '\t') {
        return Err("it has a control character");
    }
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, value) = line.split_once('=').ok_or("it is not NAME=value")?;
    let name = match name.split_once(char::is_whitespace) {
        Some(("export", name)) => name.trim(),
        _ => name.trim_end(),
    };
    let is_sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(is_sound) {
        return Err("the text before the = is not a name");
    }
    Ok(Some((name.to_owned(), parse_value(value)?.to_owned())))
}

fn parse_value(value: &str) -> Result<&str, &'static str> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = value.trim_start().strip_prefix(quote) {
            let closed = quoted.split_once(quote);
            let (inside, rest) = closed.ok_or("a quote is not closed in the line")?;
            if !without_comment(rest).trim().is_empty() {
                return Err("there is text after the closing quote");
            }
            return Ok(inside);
        }
    }
    Ok(without_comment(value).trim())
}

/// The text before a `#` that follows white space.
fn without_comment(text: &str) -> &str {
    text.match_indices('#')
        .map(|(place, _)| place)
        .find(|place| text[..*place].ends_with(char::is_whitespace))
        .map_or(text, |place| &text[..place])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn values_are_taken_literally() {
        for (line, value) in [
            ("A=1", "1"),
            ("  A = 1  ", "1"),
            ("export A=1", "1"),
            ("export\tA=1", "1"),
            ("A=1\r", "1"),
            ("A=", ""),
            ("A=''", ""),
            ("A= # nothing", ""),
            ("A=a b", "a b"),
            ("A=a b # c", "a b"),
            ("A=a\t#c", "a"),
            ("A=a#b", "a#b"),
            ("A=#a", "#a"),
            ("A=a=b", "a=b"),
            ("A=admin:a$bc$$D${E}", "admin:a$bc$$D${E}"),
            (r"A=a\nb\", r"a\nb\"),
            ("A='a # \"b\" $c'", "a # \"b\" $c"),
            ("A=\"a 'b' $c\\\"", "a 'b' $c\\"),
            ("A='a' # b", "a"),
            ("A=it's", "it's"),
            ("A=admin:abc, read:def", "admin:abc, read:def"),
            ("A=größe", "größe"),
        ] {
            let expected = Variables::from([("A".to_owned(), value.to_owned())]);
            assert_eq!(parse(line.as_bytes()).ok(), Some(expected), "{line}");
        }
    }

    #[test]
    fn an_invalid_line_of_the_env_file_is_named() {
        for (line, fault) in [
            (&b"KEY: value"[..], "not NAME=value"),
            (b"KEY", "not NAME=value"),
            (b"export", "not NAME=value"),
            (b"KEY: a=b", "not a name"),
            (b"=1", "not a name"),
            (b"export =1", "not a name"),
            (b"A B=1", "not a name"),
            (b"A='b", "not closed"),
            (b"A=\"b # c", "not closed"),
            (b"A='b' c", "after the closing quote"),
            (b"A='b'c", "after the closing quote"),
            (b"A='b'#c", "after the closing quote"),
            (b"A=b\rB=c", "control"),
            (b"# a\rB=c", "control"),
            (b"A=b\0", "control"),
            (b"A=\xFF", "UTF-8"),
        ] {
            let content = [b"\xEF\xBB\xBF# one\r\nTWO=secret\n\n", line, b"\nFIVE=5"].concat();
            let error = parse(&content).unwrap_err().to_string();
            assert!(error.contains("line 4: "), "{error}");
            assert!(error.contains(fault), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_last_value_of_a_name_counts() {
        let variables = parse(b"A=1\nB=2\nA=3\nB=\n").unwrap();
        let expected = [("A", "3"), ("B", "")];
        assert_eq!(
            variables,
            expected
                .map(|(name, value)| (name.into(), value.into()))
                .into()
        );
    }

    #[test]
    fn a_missing_file_is_ignored_and_an_unreadable_one_is_an_error() {
        let directory = tempfile::TempDir::new().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(directory.path().join(NAME), "A=1").unwrap();
        assert_eq!(read(&inner).unwrap(), Variables::new(), "of a parent");
        std::os::unix::fs::symlink("nowhere", inner.join(NAME)).unwrap();
        assert!(read(&inner).is_err(), "a link to nowhere");
        fs::remove_file(inner.join(NAME)).unwrap();
        fs::create_dir(inner.join(NAME)).unwrap();
        assert!(read(&inner).is_err(), "a directory");
        assert_eq!(read(directory.path()).unwrap()["A"], "1");
    }

    #[test]
    fn a_file_of_another_user_is_not_read() {
        let directory = tempfile::TempDir::new().unwrap();
        fs::write(directory.path().join(NAME), "A=1").unwrap();
        let us = geteuid().as_raw();
        let error = read_of(directory.path(), |owner| owner != us)
            .unwrap_err()
            .to_string();
        assert!(error.contains("another user"), "{error}");
        assert_eq!(read(directory.path()).unwrap()["A"], "1");
    }
}
