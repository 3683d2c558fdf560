//! Reading JSON documents, so that an error says where it lies.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::board::FieldError;

/// Why a document can't be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DocumentError {
    /// It is no JSON: why not.
    Malformed(String),
    /// It is not the JSON that is expected: where, and what is wrong.
    Unexpected(FieldError),
}

/// Reads a JSON object.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, DocumentError> {
    let malformed = |error: serde_json::Error| DocumentError::Malformed(error.to_string());
    // serde would also read an array, and take its items for the fields in their order.
    if text.trim_ascii_start().starts_with('[') {
        serde_json::from_str::<IgnoredAny>(text).map_err(malformed)?;
        let detail = "must be an object, not an array";
        return Err(DocumentError::Unexpected(FieldError::new("", detail)));
    }
    // Keeping track of where an error lies takes time, so it is done only if there is an error.
    if let Ok(parsed) = serde_json::from_str(text) {
        return Ok(parsed);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed: T = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let pointer = pointer(error.path());
        // serde may find a wrong field before it finds that the text is no JSON. The latter is told first.
        match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => {
                let detail = without_place(error.inner());
                DocumentError::Unexpected(FieldError::new(pointer, detail))
            }
            Err(error) => malformed(error),
        }
    })?;
    json.end().map_err(malformed)?;
    Ok(parsed)
}

/// serde_json's message without its line and column: the pointer says it better.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
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
