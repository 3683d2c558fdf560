//! The ids of rows that have none.

use std::collections::HashMap;
use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::rows::{AT, DATA, ID, MEMBER, Row};
use crate::http::events::COLUMNS;

/// What the ids of rows without one follow from.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// The whole file and the row's number: a file that was changed has other ids.
    #[default]
    File,
    /// The row's content, and how often the same content came before: a file keeps the ids of the rows that
    /// were not changed. Each row without an id needs an `at`.
    Rows,
}

/// An event's id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Id {
    /// The row has it.
    Own,
    /// By the row's number, from 1.
    Number(u64),
    /// By the row's content, and the how-manieth row with it this is, from 1.
    Content { hash: u128, nth: u32 },
}

/// Gives each row its id.
#[derive(Debug)]
pub(super) struct RowIds {
    ids: Ids,
    /// What ids by number begin with.
    prefix: String,
    /// How often each content came; about 50 bytes for each row without an id.
    counts: HashMap<u128, u32>,
}

impl RowIds {
    pub(super) fn new(ids: Ids, prefix: String) -> Self {
        Self {
            ids,
            prefix,
            counts: HashMap::new(),
        }
    }

    /// The id of the row with this number. To be asked for each row, once, in the order of the file.
    pub(super) fn of(&mut self, row: &Row<'_>, number: u64) -> Result<Id, String> {
        if row[ID].is_some() {
            return Ok(Id::Own);
        }
        if self.ids == Ids::File {
            return Ok(Id::Number(number));
        }
        if row[AT].is_none() {
            let at = COLUMNS[AT];
            return Err(format!(
                "no {at}, which --ids rows needs where there is no id"
            ));
        }
        let hash = hash(row);
        let nth = self.counts.entry(hash).or_default();
        *nth += 1;
        Ok(Id::Content { hash, nth: *nth })
    }

    /// An id that was generated, as it is sent; it needs no escapes in JSON.
    pub(super) fn shown(&self, id: &Id) -> impl fmt::Display {
        fmt::from_fn(move |f| match id {
            Id::Own => Ok(()),
            Id::Number(number) => write!(f, "{}{number}", self.prefix),
            Id::Content { hash, nth } => write!(f, "row-{hash:032x}-{nth}"),
        })
    }
}

/// The hash of what the event says, whatever the format and the order of the columns.
fn hash(row: &Row<'_>) -> u128 {
    let mut hash = Xxh3::new();
    for (index, field) in row.iter().enumerate().skip(MEMBER) {
        // A row without data has the id that it had before there was such a field.
        if index == DATA && field.is_none() {
            continue;
        }
        // With its length, so that no two rows are the same text.
        let length = field.as_ref().map_or(u64::MAX, |field| field.len() as u64);
        hash.update(&length.to_le_bytes());
        hash.update(field.as_deref().unwrap_or_default().as_bytes());
    }
    hash.digest128()
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_128;

    use super::super::rows::SCORE;
    use super::*;

    fn row<'a>(member: &'a str, at: Option<&'a str>) -> Row<'a> {
        let mut row = Row::default();
        row[MEMBER] = Some(member.into());
        row[SCORE] = Some("1".into());
        row[AT] = at.map(Into::into);
        row
    }

    #[test]
    fn equal_rows_are_told_apart_by_how_many_came_before() {
        let mut ids = RowIds::new(Ids::Rows, String::new());
        let (noon, member) = (Some("2026-11-21T12:00:00Z"), "ann");
        let mut of = |row: Row<'static>| {
            let id = ids.of(&row, 9).unwrap();
            ids.shown(&id).to_string()
        };
        let first = of(row(member, noon));
        assert_eq!(first.len(), "row--1".len() + 32);
        let other = of(row("bob", noon));
        let second = of(row(member, noon));
        assert_eq!(second, first.strip_suffix('1').unwrap().to_owned() + "2");
        assert_ne!(other, first);

        let error = ids.of(&row(member, None), 1).unwrap_err();
        assert!(error.contains("--ids rows"), "{error}");
    }

    #[test]
    fn a_row_without_data_has_the_id_that_earlier_releases_gave_it() {
        let noon = "2026-11-21T12:00:00Z";
        // Member, score and `at`, and no voter, channel, device and address.
        let mut content = Vec::new();
        for text in ["ann", "1", noon] {
            content.extend((text.len() as u64).to_le_bytes());
            content.extend(text.as_bytes());
        }
        content.extend([u64::MAX.to_le_bytes(); 4].as_flattened());
        assert_eq!(hash(&row("ann", Some(noon))), xxh3_128(&content));
        let mut with_data = row("ann", Some(noon));
        with_data[DATA] = Some("{}".into());
        assert_ne!(hash(&with_data), hash(&row("ann", Some(noon))));
    }

    #[test]
    fn a_field_that_ends_early_is_not_the_beginning_of_the_next() {
        let mut shifted = row("an", Some("n"));
        shifted[AT + 2] = Some("x".into());
        let mut other = row("an", Some("n"));
        other[AT + 1] = Some("x".into());
        assert_ne!(hash(&shifted), hash(&other));
    }
}
