//! The fields of a row, and the names that they have in the file.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::reading::Reading;
use crate::cli::text::shortened;
use crate::domain::data::EntryData;
use crate::events::body::COLUMNS;

/// The fields of a profile, in addition to the member.
const PROFILE_FIELDS: [&str; 3] = ["name", "avatar_url", "attributes"];
/// The fields of a row: those of an event, then those of a profile.
pub(super) const FIELDS: [&str; COLUMNS.len() + PROFILE_FIELDS.len()] = {
    let mut fields = [""; COLUMNS.len() + PROFILE_FIELDS.len()];
    let mut field = 0;
    while field < fields.len() {
        fields[field] = if field < COLUMNS.len() {
            COLUMNS[field]
        } else {
            PROFILE_FIELDS[field - COLUMNS.len()]
        };
        field += 1;
    }
    fields
};

/// The texts of a row's fields, in the order of [`FIELDS`]; for those that are JSON what [`json_field`] returns.
pub(super) type Row<'a> = [Option<Cow<'a, str>>; FIELDS.len()];

pub(super) const ID: usize = 0;
pub(super) const MEMBER: usize = 1;
pub(super) const SCORE: usize = 2;
pub(super) const AT: usize = 3;
pub(super) const DATA: usize = NAME - 1;
pub(super) const NAME: usize = COLUMNS.len();
pub(super) const AVATAR_URL: usize = NAME + 1;
pub(super) const ATTRIBUTES: usize = NAME + 2;
const _: () = {
    assert!(matches!(FIELDS[ID].as_bytes(), b"id"));
    assert!(matches!(FIELDS[MEMBER].as_bytes(), b"member"));
    assert!(matches!(FIELDS[SCORE].as_bytes(), b"score"));
    assert!(matches!(FIELDS[AT].as_bytes(), b"at"));
    assert!(matches!(FIELDS[DATA].as_bytes(), b"data"));
    assert!(matches!(FIELDS[NAME].as_bytes(), b"name"));
    assert!(matches!(FIELDS[AVATAR_URL].as_bytes(), b"avatar_url"));
    assert!(matches!(FIELDS[ATTRIBUTES].as_bytes(), b"attributes"));
};

/// The name of `at` in the export of a standing.
pub(super) const EXPORTED_AT: &str = "reached_at";
/// What says in the export of a standing whether the member was hidden.
pub(super) const HIDDEN: &str = "hidden";

/// The names of the fields in the file, in the order of [`FIELDS`]; none for a field whose own name another field has there.
pub(super) struct FieldNames(Vec<Option<String>>);

impl FieldNames {
    /// Without `profiles` the fields of profiles have no names, and are ignored like any other.
    pub(super) fn new(reading: &Reading) -> Self {
        let count = if reading.profiles {
            FIELDS.len()
        } else {
            COLUMNS.len()
        };
        let is_taken = |own: &str| {
            let mut names = reading.columns.values();
            names.any(|name| name.eq_ignore_ascii_case(own))
        };
        let name = |field: usize| match reading.columns.get(FIELDS[field]) {
            Some(name) => Some(name.clone()),
            None if field == AT && reading.is_export => Some(EXPORTED_AT.to_owned()),
            None => Some(FIELDS[field].to_owned()).filter(|own| !is_taken(own)),
        };
        Self((0..count).map(name).collect())
    }

    /// The field with a name that is recognised.
    pub(super) fn find(&self, is_name: impl Fn(&str) -> bool) -> Option<usize> {
        let is_name = |name: &Option<String>| name.as_deref().is_some_and(&is_name);
        self.0.iter().position(is_name)
    }

    pub(super) fn of(&self, field: usize) -> &str {
        self.0[field].as_deref().unwrap_or(FIELDS[field])
    }

    /// All names, for messages.
    pub(super) fn list(&self) -> String {
        let names: Vec<&str> = self.0.iter().flatten().map(String::as_str).collect();
        names.join(", ")
    }
}

/// Whether a field is JSON, not a text.
pub(super) const fn is_json(field: usize) -> bool {
    matches!(field, SCORE | DATA | ATTRIBUTES)
}

/// What is sent for a field that is JSON: the number of a score and the object of attributes as written, data in its
/// canonical form; nothing for the `null` of an object.
pub(super) fn json_field(field: usize, text: &str) -> Result<Option<Cow<'_, str>>, String> {
    let text = text.trim_ascii();
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    match field {
        SCORE => {
            let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
            let shown = || format!("the score {} is not a number", shortened(text));
            let number = (is_number && is_json()).then(|| Some(text.into()));
            number.ok_or_else(shown)
        }
        _ if text == "null" => Ok(None),
        DATA => {
            let data = EntryData::parse(text).map_err(|error| format!("the data {error}"))?;
            Ok(Some(data.as_str().to_owned().into()))
        }
        _ => {
            let object = (text.starts_with('{') && is_json()).then(|| Some(text.into()));
            object.ok_or_else(|| "the attributes must be a JSON object".to_owned())
        }
    }
}
