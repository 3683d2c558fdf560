//! Reads JSON documents, so that errors have a place.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::board::FieldError;

/// Why a document can't be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DocumentError {
    /// It is not JSON, with the place and the reason.
    Malformed(String),
    /// It is not the expected JSON, with the places and the reasons.
    Unexpected(Vec<FieldError>),
}

impl DocumentError {
    /// All errors, with places in the document.
    pub fn into_errors(self) -> Vec<FieldError> {
        match self {
            Self::Unexpected(errors) => errors,
            Self::Malformed(detail) => vec![FieldError::new("", detail)],
        }
    }
}

/// Begins the list of the names that would be right.
pub const KNOWN: &str = " Known fields: ";
/// The maximum number of errors that are reported of one document.
const ERRORS_MAX: usize = 10;
/// The longest document, in bytes, in which more than the first error is searched for.
const SEARCHED_BYTES_MAX: usize = 64 << 10;
/// How alike two names must be for one to be meant by the other (Jaro–Winkler).
const ALIKE_MIN: f64 = 0.8;

/// The name most like this one, if it may be meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(likeness, _)| *likeness >= ALIKE_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest.map(|(_, known)| known)
}

/// What serde says of an error. For an unknown field it says which one was probably meant, and lists the known ones after
/// [`KNOWN`].
pub fn reason(message: &str) -> String {
    reason_and_meant(message).0
}

/// The same, and the field that an unknown one may mean.
fn reason_and_meant(message: &str) -> (String, Option<&str>) {
    let unknown = message.strip_prefix("unknown field `");
    let Some((name, known)) = unknown.and_then(|rest| rest.split_once("`, expected ")) else {
        return (message.to_owned(), None);
    };
    let names = known.split('`').skip(1).step_by(2);
    let meant = nearest(name, names.clone());
    let hint = match meant {
        Some(meant) => format!(": did you mean `{meant}`?"),
        None => ".".to_owned(),
    };
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    (format!("unknown field `{name}`{hint}{KNOWN}{names}"), meant)
}

/// A message of serde in the words of JSON.
pub fn in_json(message: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let kind = kinds.iter().find_map(|kind| message.strip_prefix(kind));
    let variant = message.strip_prefix("unknown variant ");
    let Some((found, expected)) = kind
        .or(variant)
        .and_then(|rest| rest.split_once(", expected "))
    else {
        return message.to_owned();
    };
    let found = match found {
        "map" => "an object",
        "sequence" => "an array",
        found => found,
    };
    let found = found.strip_prefix("integer ").unwrap_or(found);
    let expected = match expected {
        "a map" => "an object".to_owned(),
        "a sequence" => "an array".to_owned(),
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number of at least 0".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        structure if structure.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    };
    format!("must be {expected}, not {found}")
}

/// Where and why a text is not JSON.
fn malformed(error: &serde_json::Error) -> DocumentError {
    let message = without_place(error);
    let what = match &*message {
        "key must be a string" | "trailing comma" => {
            "expected a field name in quotes. A comma too many?"
        }
        "trailing characters" => "expected the end, after a complete JSON value",
        ended if ended.starts_with("EOF") => "the JSON ends too early. A bracket or quote missing?",
        other => other,
    };
    let (line, column) = (error.line(), error.column());
    DocumentError::Malformed(format!("Line {line}, column {column}: {what}"))
}

/// Reads a JSON object.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, DocumentError> {
    // serde would also accept an array, with the items as fields in order.
    if text.trim_ascii_start().starts_with('[') {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| malformed(&error))?;
        return Err(unexpected(String::new(), "must be an object, not an array"));
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
            Ok(_) => unexpected(pointer, &without_place(error.inner())),
            Err(error) => malformed(&error),
        }
    })?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(parsed)
}

/// An error at this place, from a message of serde.
fn unexpected(pointer: String, message: &str) -> DocumentError {
    let missing = message.strip_prefix("missing field `");
    let missing = missing.and_then(|rest| rest.strip_suffix('`'));
    // The pointer has the place. Two messages mention syntax, which is valid here.
    let error = match (missing, message) {
        (Some(name), _) => FieldError::new(pointer + &FieldError::pointer([name]), "is missing"),
        (_, "expected value") => FieldError::new(pointer, "must be a string"),
        (_, "trailing characters") => FieldError::new(pointer, "there are too many items"),
        (_, message) => {
            let message = in_json(message);
            let (detail, meant) = reason_and_meant(&message);
            FieldError::new(pointer, detail).with(meant)
        }
    };
    DocumentError::Unexpected(vec![error])
}

/// Reads a document. If `read` refuses it, the error has all errors: those of its form, and those that `more_of` finds in what
/// can be read without what is at their places. A long document is not searched for more than the first.
pub fn read_whole<T>(
    text: &str,
    read: impl Fn(&str) -> Result<T, DocumentError>,
    more_of: impl FnOnce(T, &[FieldError]) -> Vec<FieldError>,
) -> Result<T, DocumentError> {
    let mut errors = match read(text) {
        Err(DocumentError::Unexpected(first)) => first,
        done => return done,
    };
    if let Some(rest) = find_all(text, &mut errors, read) {
        let more = more_of(rest, &errors);
        errors.extend(more);
    }
    Err(DocumentError::Unexpected(errors))
}

/// Adds all other errors for which `read` refuses a document. Returns what it reads in the document without what is at their
/// places; `None` if nothing is left that can be read.
fn find_all<T>(
    text: &str,
    errors: &mut Vec<FieldError>,
    read: impl Fn(&str) -> Result<T, DocumentError>,
) -> Option<T> {
    let is_searched = text.len() <= SEARCHED_BYTES_MAX;
    let mut rest = is_searched.then(|| serde_json::from_str(text).ok())??;
    let (mut pointer, mut removed) = (errors.first()?.pointer.clone(), Vec::new());
    while errors.len() < ERRORS_MAX && remove(&mut rest, &pointer, &mut removed) {
        let mut error = match read(&rest.to_string()) {
            Ok(read) => return Some(read),
            Err(DocumentError::Malformed(_)) => return None,
            Err(DocumentError::Unexpected(errors)) => errors.into_iter().next()?,
        };
        let place = in_whole(&error.pointer, &removed);
        pointer = std::mem::replace(&mut error.pointer, place);
        // Without a wrong field, what contains it may be wrong too.
        if !errors
            .iter()
            .any(|known| is_in(&known.pointer, &error.pointer))
        {
            errors.push(error);
        }
    }
    None
}

/// Whether the first place is the second one, or in it.
fn is_in(place: &str, outer: &str) -> bool {
    let rest = place.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Removes what is at a place, or else what should contain it, and notes items removed from arrays. Returns false if that is
/// the whole document.
fn remove(document: &mut Value, pointer: &str, removed: &mut Vec<(String, usize)>) -> bool {
    let Some((outer, last)) = pointer.rsplit_once('/') else {
        return false;
    };
    let name = last.replace("~1", "/").replace("~0", "~");
    let was_there = match (document.pointer_mut(outer), name.parse()) {
        (Some(Value::Object(fields)), _) => fields.remove(&name).is_some(),
        (Some(Value::Array(items)), Ok(index)) if index < items.len() => {
            items.remove(index);
            removed.push((outer.to_owned(), index));
            true
        }
        _ => false,
    };
    was_there || remove(document, outer, removed)
}

/// A place in the whole document, from one in the document without the removed items.
fn in_whole(pointer: &str, removed: &[(String, usize)]) -> String {
    removed
        .iter()
        .rev()
        .fold(pointer.to_owned(), |pointer, (array, removed)| {
            let within = pointer
                .strip_prefix(array)
                .and_then(|rest| rest.strip_prefix('/'));
            let later = within.and_then(|within| {
                let (index, inner) = within.split_at(within.find('/').unwrap_or(within.len()));
                let index = index
                    .parse::<usize>()
                    .ok()
                    .filter(|index| index >= removed)?;
                Some(format!("{array}/{}{inner}", index + 1))
            });
            later.unwrap_or(pointer)
        })
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
    fn an_error_says_where_it_is_and_what_is_wrong() {
        let error = |text: &str| match read::<Document>(text).unwrap_err() {
            DocumentError::Malformed(detail) => detail,
            DocumentError::Unexpected(errors) => {
                let FieldError {
                    pointer, detail, ..
                } = &errors[0];
                format!("{pointer}: {detail}")
            }
        };
        for (text, expected) in [
            ("[]", ": must be an object, not an array"),
            (r#"{"order": 1}"#, "/order: must be a string"),
            ("null", ": must be an object, not null"),
            (
                r#"{"ranks": {}}"#,
                "/ranks: must be an array of length 2, not an object",
            ),
            (
                r#"{"order": "up"}"#,
                "/order: must be `desc` or `asc`, not `up`",
            ),
            (
                r#"{"ranks": [1, 2, 3]}"#,
                "/ranks: there are too many items",
            ),
            (
                r#"{"ranks": [1]}"#,
                "/ranks: must be an array of length 2, not 1",
            ),
            (
                r#"{"odrer": "asc"}"#,
                "/odrer: unknown field `odrer`: did you mean `order`? Known fields: `order`, `ranks`",
            ),
            (
                r#"{"title": "x"}"#,
                "/title: unknown field `title`. Known fields: `order`, `ranks`",
            ),
            (
                "{} x",
                "Line 1, column 4: expected the end, after a complete JSON value",
            ),
            (
                "{\n \"order\": \"asc\",}",
                "Line 2, column 17: expected a field name in quotes. A comma too many?",
            ),
            (
                "{order: 1}",
                "Line 1, column 2: expected a field name in quotes. A comma too many?",
            ),
            (
                r#"{"order": "asc""#,
                "Line 1, column 15: the JSON ends too early. A bracket or quote missing?",
            ),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn all_errors_are_found_each_at_its_place() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its form is looked at")]
        struct Outer {
            inner: Document,
            orders: Vec<crate::domain::board::Order>,
            count: u8,
        }
        let text = r#"{"a~/": 1, "inner": {"order": 1, "ranks": [1, "x", 2], "y": 1},
            "orders": ["asc", "up", "desc", "down", 5, "desc"]}"#;
        let errors_of = |text: &str| {
            let more_of = |_, _: &[FieldError]| panic!("a missing field can't be left out");
            match read_whole(text, |text| read::<Outer>(text), more_of) {
                Err(DocumentError::Unexpected(errors)) => errors,
                other => panic!("{other:?}"),
            }
        };
        let errors = errors_of(text);
        let places: Vec<_> = errors.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(
            places,
            [
                "/a~0~1",
                "/inner/order",
                "/inner/ranks/1",
                "/inner/y",
                "/orders/1",
                "/orders/3",
                "/orders/4",
                "/count"
            ]
        );
        assert_eq!(errors[7].detail, "is missing");
        let errors = errors_of(r#"{"inner": {"z": 1}, "orders": [], "count": 256}"#);
        assert_eq!(errors.len(), 2, "{errors:?}");
    }
}
