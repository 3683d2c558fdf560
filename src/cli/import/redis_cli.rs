//! Reads the members and scores of a sorted set as `redis-cli` prints them: all in one line of CSV, or each on a line.
//!
//! Neither has a header, and nothing shows where a pair begins. So reading ends at the first text that should be a score and
//! is none: in what follows, members and scores may have changed places.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use ::csv::ByteRecord;

use super::fields::{FIELDS, MEMBER, Row, SCORE};
use super::rejects::{Place, RowText};
use super::rows::{Batcher, ROW_BYTES_MAX, Stop, content};
use crate::cli::text::shortened;

/// Reads `"member","score","member",…`, in any number of lines.
pub(super) fn read_csv(
    mut text: impl BufRead,
    batcher: &mut Batcher<'_>,
    name: &str,
) -> Result<(), Stop> {
    let next = |value: &mut Vec<u8>| next_value(&mut text, value);
    read_pairs(next, Place::Pair, batcher, |pair, detail| {
        content(name, 1, &format!("pair {pair} {detail}"))
    })
}

/// Reads a member and its score on alternating lines.
pub(super) fn read_lines(
    mut text: impl BufRead,
    batcher: &mut Batcher<'_>,
    name: &str,
) -> Result<(), Stop> {
    let next = |line: &mut Vec<u8>| next_line(&mut text, line);
    let place = |pair| Place::Line(2 * pair - 1);
    read_pairs(next, place, batcher, |pair, detail| {
        let hint = "If a member contains a line break, use redis-cli --csv and --format redis-csv";
        content(name, 2 * pair - 1, &format!("{detail}. {hint}"))
    })
}

/// Reads pairs to the end. `next` returns whether there is another text; `wrong` says what is wrong with a pair.
fn read_pairs(
    mut next: impl FnMut(&mut Vec<u8>) -> io::Result<bool>,
    place: impl Fn(u64) -> Place,
    batcher: &mut Batcher<'_>,
    wrong: impl Fn(u64, &str) -> Stop,
) -> Result<(), Stop> {
    // Rejected rows are written as CSV of events.
    let header = ByteRecord::from(vec![FIELDS[MEMBER], FIELDS[SCORE]]);
    batcher.header = Some(Arc::new(header));
    let (mut member, mut score) = (Vec::new(), Vec::new());
    for pair in 1.. {
        let failed = |error: io::Error| wrong(pair, &format!("can't be read: {error}"));
        if !next(&mut member).map_err(failed)? {
            break;
        }
        let has_score = next(&mut score).map_err(failed)?;
        // What `redis-cli` prints if there are no members.
        if !has_score && pair == 1 && member.is_empty() {
            break;
        }
        let number = parse_score(&score).filter(|_| has_score).ok_or_else(|| {
            let [member, score] =
                [&member, &score].map(|text| shortened(&String::from_utf8_lossy(text)));
            let text = if has_score {
                format!("has a member {member} with the score {score}, which is not a number")
            } else {
                format!("has a member {member} without a score: was the file cut off?")
            };
            wrong(pair, &text)
        })?;
        let text = || Some(RowText::Csv(ByteRecord::from(vec![&member, &score])));
        batcher.push(place(pair), row(&member, number), text)?;
    }
    Ok(())
}

fn row(member: &[u8], score: f64) -> Result<Row<'_>, String> {
    let member = str::from_utf8(member).map_err(|_| "member is not UTF-8")?;
    if !score.is_finite() {
        return Err(format!("the score {score} is not finite"));
    }
    let mut row = Row::default();
    row[MEMBER] = Some(member.into());
    // The shortest decimal number that is this double.
    row[SCORE] = Some(Cow::Owned(score.to_string()));
    Ok(row)
}

/// The score as Redis has it, if the text is one.
fn parse_score(text: &[u8]) -> Option<f64> {
    let score: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

/// Reads a line without its end; returns whether there was one.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    read_until(text, b'\n', line)?;
    let has_line = !line.is_empty();
    if line.ends_with(b"\n") {
        line.pop();
    }
    Ok(has_line)
}

/// Reads a value of CSV with what separates it from the next one; returns whether there was one.
fn next_value(text: &mut impl BufRead, value: &mut Vec<u8>) -> io::Result<bool> {
    value.clear();
    let Some(first) = skip(text, b"\n")? else {
        return Ok(false);
    };
    if first != b'"' {
        // A server that speaks RESP3 sends scores that are not quoted.
        return read_bare(text, value).map(|()| true);
    }
    text.consume(1);
    let mut from = 0;
    loop {
        read_until(text, b'"', value)?;
        if !value[from..].ends_with(b"\"") {
            return Err(io::Error::other("its closing quotation mark is missing"));
        }
        value.pop();
        let escapes = value[from..]
            .iter()
            .rev()
            .take_while(|byte| **byte == b'\\');
        if escapes.count() % 2 == 0 {
            break;
        }
        value.push(b'"');
        from = value.len();
    }
    unescape(value);
    end_value(text)?;
    Ok(true)
}

/// Reads a value that has no quotation marks, up to the next comma or the end of the line.
fn read_bare(text: &mut impl BufRead, value: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let buffer = text.fill_buf()?;
        let end = buffer.iter().position(|byte| b",\n".contains(byte));
        let count = end.unwrap_or(buffer.len());
        value.extend_from_slice(&buffer[..count]);
        require_bounded(value)?;
        text.consume(count);
        if end.is_some() || count == 0 {
            return end_value(text);
        }
    }
}

/// Passes what comes after a value.
fn end_value(text: &mut impl BufRead) -> io::Result<()> {
    match text.fill_buf()?.first() {
        None => {}
        Some(b',' | b'\n') => text.consume(1),
        Some(_) => {
            return Err(io::Error::other(
                "a comma is missing after a quotation mark",
            ));
        }
    }
    Ok(())
}

/// Passes these bytes, and returns the next one.
fn skip(text: &mut impl BufRead, passed: &[u8]) -> io::Result<Option<u8>> {
    loop {
        match text.fill_buf()?.first() {
            Some(byte) if passed.contains(byte) => text.consume(1),
            first => return Ok(first.copied()),
        }
    }
}

fn read_until(text: &mut impl BufRead, end: u8, value: &mut Vec<u8>) -> io::Result<()> {
    text.by_ref()
        .take(ROW_BYTES_MAX as u64)
        .read_until(end, value)?;
    require_bounded(value)
}

fn require_bounded(value: &[u8]) -> io::Result<()> {
    if value.len() < ROW_BYTES_MAX {
        return Ok(());
    }
    Err(io::Error::other("a text has more than 1 MiB"))
}

/// Replaces the escapes of `redis-cli`, those of C strings, by what they stand for.
fn unescape(value: &mut Vec<u8>) {
    let Some(first) = value.iter().position(|byte| *byte == b'\\') else {
        return;
    };
    let escaped = value.split_off(first);
    let mut rest = escaped.as_slice();
    while let [byte, after @ ..] = rest {
        let (byte, after) = match (byte, after) {
            (b'\\', [b'x', high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (16 * high + low, after),
                _ => (b'x', &rest[2..]),
            },
            (b'\\', [escape, after @ ..]) => (escaped_byte(*escape), after),
            (byte, after) => (*byte, after),
        };
        value.push(byte);
        rest = after;
    }
}

fn escaped_byte(escape: u8) -> u8 {
    match escape {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 0x07,
        b'b' => 0x08,
        other => other,
    }
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> io::Result<Vec<String>> {
        // A tiny buffer, so that every value is at its end once.
        let mut text = io::BufReader::with_capacity(3, text.as_bytes());
        let (mut values, mut value) = (Vec::new(), Vec::new());
        while next_value(&mut text, &mut value)? {
            values.push(String::from_utf8_lossy(&value).into_owned());
        }
        Ok(values)
    }

    #[test]
    fn values_are_those_that_redis_has() {
        for (text, expected) in [
            ("", &[][..]),
            ("\n", &[]),
            (r#""a","1""#, &["a", "1"]),
            ("\"a\",\"1\"\n\"b\",2.5\n\n", &["a", "1", "b", "2.5"]),
            (r#""a\"b,c\\","","x""#, &["a\"b,c\\", "", "x"]),
            (r#""\\\"","\\\\""#, &["\\\"", "\\\\"]),
            (
                r#""\xc3\xa9\n\r\t\a\b\x00\xE2\x98\x83""#,
                &["é\n\r\t\u{7}\u{8}\0☃"],
            ),
            (r#""\xff""#, &["\u{fffd}"]),
            ("\"é\",inf", &["é", "inf"]),
            ("ERROR,\"NOAUTH\"\n", &["ERROR", "NOAUTH"]),
        ] {
            assert_eq!(values(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            ("\"a", "closing quotation mark is missing"),
            (r#""a\""#, "closing quotation mark is missing"),
            ("\"a\"b", "a comma is missing"),
            (&format!("\"{}", "a".repeat(2 << 20)), "more than 1 MiB"),
            (&"a".repeat(2 << 20), "more than 1 MiB"),
        ] {
            let error = values(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn scores_are_the_shortest_texts_of_doubles() {
        for (text, expected) in [
            ("0.10000000000000001", "0.1"),
            ("3", "3"),
            ("-0", "-0"),
            ("1e+20", "100000000000000000000"),
            ("1.7976931348623157e+308", &format!("{}", f64::MAX)),
            ("9007199254740993", "9007199254740992"),
        ] {
            let score = parse_score(text.as_bytes()).unwrap();
            let row = row(b"a", score).unwrap();
            assert_eq!(row[SCORE].as_deref(), Some(expected));
        }
        for (text, expected) in [("inf", "the score inf is"), ("-inf", "the score -inf is")] {
            let refused = row(b"a", parse_score(text.as_bytes()).unwrap()).unwrap_err();
            assert!(refused.starts_with(expected), "{refused}");
        }
        for text in ["", "ann", "nan", "1 ", "1\r"] {
            assert_eq!(parse_score(text.as_bytes()), None, "{text}");
        }
    }
}
