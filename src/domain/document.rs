//! Reads JSON documents, so that errors have a place.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::board::FieldError;

/// Why a document can't be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DocumentError {
    /// It is no JSON, with the reason.
    Malformed(String),
    /// It is not the expected JSON, with the place and the reason.
    Unexpected(FieldError),
}

/// Begins the list of the names that would be right.
pub const KNOWN: &str = " Known fields: ";
/// How alike two names must be for one to be meant by the other (Jaro–Winkler).
const ALIKE_MIN: f64 = 0.8;

/// The name most like this one, if it may be meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.map(|known| (strsim::jaro_winkler(known, name), known));
    let alike = alike.filter(|(likeness, _)| *likeness >= ALIKE_MIN);
    let nearest = alike.max_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest.map(|(_, known)| known)
}

/// What serde says of an error. Of an unknown field it says which is meant, and lists those that are known behind [`KNOWN`].
pub fn reason(message: &str) -> String {
    let unknown = message.strip_prefix("unknown field `");
    let Some((name, known)) = unknown.and_then(|rest| rest.split_once("`, expected ")) else {
        return message.to_owned();
    };
    let names = known.split('`').skip(1).step_by(2);
    let hint = match nearest(name, names.clone()) {
        Some(meant) => format!(": did you mean `{meant}`?"),
        None => ".".to_owned(),
    };
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    format!("unknown field `{name}`{hint}{KNOWN}{}", names.join(", "))
}

/// A message of serde in the words of JSON.
fn in_json(message: &str) -> String {
    let mut text = message
        .replace("expected a sequence", "expected an array")
        .replace("expected a map", "expected an object");
    if let Some(at) = text.find("expected struct ") {
        text.truncate(at);
        text.push_str("expected an object");
    }
    text
}

/// Reads a JSON object.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, DocumentError> {
    let malformed = |error: serde_json::Error| DocumentError::Malformed(error.to_string());
    // serde would also accept an array, with the items as fields in order.
    if text.trim_ascii_start().starts_with('[') {
        serde_json::from_str::<IgnoredAny>(text).map_err(malformed)?;
        let detail = "must be an object, not an array";
        return Err(DocumentError::Unexpected(FieldError::new("", detail)));
    }
    // Tracking the place of an error takes time, so that is done only if there is one.
    if let Ok(parsed) = serde_json::from_str(text) {
        return Ok(parsed);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed: T = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let pointer = pointer(error.path());
        // serde may find a wrong field before it finds invalid JSON. The latter is reported first.
        match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => {
                // The pointer has the place. Two messages mention syntax, which is valid here.
                let detail = match &*without_place(error.inner()) {
                    "expected value" => "invalid type: expected a string".to_owned(),
                    "trailing characters" => "there are too many items".to_owned(),
                    message => reason(&in_json(message)),
                };
                DocumentError::Unexpected(FieldError::new(pointer, detail))
            }
            Err(error) => malformed(error),
        }
    })?;
    json.end().map_err(malformed)?;
    Ok(parsed)
}

/// serde_json's message without its line and column.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.rfind(" at line ").unwrap_or(text.len()));
    text
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    });
    FieldError::pointer(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        #[expect(dead_code, reason = "only its form is looked at")]
        order: Option<crate::domain::board::Order>,
        #[expect(dead_code, reason = "only its form is looked at")]
        ranks: Option<[u64; 2]>,
    }

    #[test]
    fn an_error_says_where_it_lies_and_what_is_wrong() {
        let error = |text: &str| match read::<Document>(text).unwrap_err() {
            DocumentError::Malformed(detail) => detail,
            DocumentError::Unexpected(FieldError { pointer, detail }) => {
                format!("{pointer}: {detail}")
            }
        };
        for (text, expected) in [
            ("[]", ": must be an object, not an array"),
            (r#"{"order": 1}"#, "/order: invalid type: expected a string"),
            ("null", ": invalid type: null, expected an object"),
            (
                r#"{"ranks": {}}"#,
                "/ranks: invalid type: map, expected an array of length 2",
            ),
            (
                r#"{"order": "up"}"#,
                "/order: unknown variant `up`, expected `desc` or `asc`",
            ),
            (
                r#"{"ranks": [1, 2, 3]}"#,
                "/ranks: there are too many items",
            ),
            (
                r#"{"ranks": [1]}"#,
                "/ranks: invalid length 1, expected an array of length 2",
            ),
            (
                r#"{"odrer": "asc"}"#,
                "/odrer: unknown field `odrer`: did you mean `order`? Known fields: `order`, `ranks`",
            ),
            (
                r#"{"title": "x"}"#,
                "/title: unknown field `title`. Known fields: `order`, `ranks`",
            ),
            ("{} x", "trailing characters at line 1 column 4"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }
}
