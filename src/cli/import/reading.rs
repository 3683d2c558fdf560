//! The options that say how a file is read. They decide what is sent, so they are part of what identifies an import.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::fields::{FIELDS, MEMBER, NAME, SCORE};
use super::input::Format;
use super::{ImportArgs, ImportError};
use crate::cli::text::shortened;
use crate::domain::time::Timestamp;

/// How a file is read.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Reading {
    /// `None`: the extension or the content says it.
    pub(super) format: Option<Format>,
    /// Whether it is the export of a standing.
    pub(super) is_export: bool,
    /// The names in the file of fields that have another name there.
    pub(super) columns: BTreeMap<String, String>,
    /// The time of the first row, if rows have none.
    pub(super) at: Option<Timestamp>,
    /// Whether profiles are written.
    pub(super) profiles: bool,
}

/// The name in a file of one of our fields.
#[derive(Clone, Debug)]
pub struct ColumnName {
    field: String,
    name: String,
}

impl ColumnName {
    /// Parses `field=name`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (field, name) = text
            .split_once('=')
            .filter(|(_, name)| !name.trim().is_empty())
            .ok_or("must be a field, `=`, and its name in the file, such as member=player")?;
        let (field, name) = (field.trim().to_owned(), name.trim().to_owned());
        if !FIELDS.contains(&field.as_str()) {
            let fields = FIELDS.join(", ");
            return Err(format!("{field} is not a field; the fields are {fields}"));
        }
        Ok(Self { field, name })
    }
}

impl Reading {
    /// # Errors
    /// Fails if options contradict each other.
    pub(super) fn new(args: &ImportArgs) -> Result<Self, ImportError> {
        let mut reading = Self {
            format: args.format,
            is_export: args.from_export,
            columns: BTreeMap::new(),
            at: args.at,
            profiles: args.profiles,
        };
        reading
            .check(&args.columns)
            .map_err(|detail| ImportError::Options(shortened(&detail)))?;
        let names = args.columns.iter().cloned();
        reading.columns = names
            .map(|ColumnName { field, name }| (field, name))
            .collect();
        Ok(reading)
    }

    fn check(&self, columns: &[ColumnName]) -> Result<(), String> {
        if let Some(format) = self.format.filter(|format| format.is_of_redis()) {
            let others = self.is_export || self.profiles || !columns.is_empty();
            let text =
                "has members and scores alone: leave out --columns, --profiles and --from-export";
            if others {
                return Err(format!("a file of --format {} {text}", format.name()));
            }
        }
        let (mut fields, mut names) = (BTreeSet::new(), BTreeSet::new());
        for ColumnName { field, name } in columns {
            if !fields.insert(field) {
                return Err(format!("--columns has {field} twice"));
            }
            if !names.insert(name.to_ascii_lowercase()) {
                return Err(format!("--columns has {name} for two fields"));
            }
            if FIELDS[NAME..].contains(&field.as_str()) && !self.profiles {
                return Err(format!("{field} belongs to a profile: add --profiles"));
            }
        }
        for required in [FIELDS[MEMBER], FIELDS[SCORE]] {
            let has_name = columns.iter().any(|column| column.field == required);
            if !has_name && names.contains(required) {
                return Err(format!(
                    "--columns has {required} for another field: say which name {required} has"
                ));
            }
        }
        Ok(())
    }

    /// Whether rows that are read like this become the same events as with `other`.
    pub(super) fn gives_same_events(&self, other: &Self) -> bool {
        let profiles = self.profiles;
        *self
            == Self {
                profiles,
                ..other.clone()
            }
    }
}

/// The options as they are given.
impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns
            .map(|(field, name)| format!("{field}={name}"))
            .collect();
        let options = [
            self.format
                .map(|format| format!("--format {}", format.name())),
            self.is_export.then(|| "--from-export".to_owned()),
            (!columns.is_empty()).then(|| format!("--columns {}", columns.join(","))),
            self.at.map(|at| format!("--at {at}")),
            self.profiles.then(|| "--profiles".to_owned()),
        ];
        let options: Vec<_> = options.into_iter().flatten().collect();
        if options.is_empty() {
            return f.write_str("without --format, --from-export, --columns, --at and --profiles");
        }
        write!(f, "with {}", options.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reading: &Reading, columns: &[&str]) -> Result<(), String> {
        let columns: Result<Vec<_>, _> =
            columns.iter().map(|text| ColumnName::parse(text)).collect();
        reading.check(&columns?)
    }

    #[test]
    fn wrong_names_are_refused_by_name() {
        let (events, profiles) = (
            Reading::default(),
            Reading {
                profiles: true,
                ..Reading::default()
            },
        );
        for (columns, expected) in [
            (&["member"][..], "such as member=player"),
            (&["member="], "such as member=player"),
            (
                &["player=member"],
                "player is not a field; the fields are id, member, score",
            ),
            (&["member=a", "member=b"], "has member twice"),
            (&["member=a", "score=A"], "has A for two fields"),
            (&["name=a"], "name belongs to a profile: add --profiles"),
            (&["member=Score"], "--columns has score for another field"),
        ] {
            let refused = check(&events, columns).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        check(&events, &["member=a=b", " score = points "]).unwrap();
        check(&events, &["member=score", "score=member"]).unwrap();
        check(&profiles, &["name=a"]).unwrap();
        let redis = Reading {
            format: Some(Format::RedisCsv),
            ..profiles
        };
        let refused = check(&redis, &[]).unwrap_err();
        assert!(
            refused.starts_with("a file of --format redis-csv has"),
            "{refused}"
        );
    }

    #[test]
    fn options_are_shown_as_they_are_given() {
        let none = Reading::default();
        let all = Reading {
            format: Some(Format::Ndjson),
            is_export: true,
            columns: [("score", "points"), ("member", "player")]
                .map(|(field, name)| (field.to_owned(), name.to_owned()))
                .into(),
            at: Timestamp::parse("2020-01-01T00:00:00Z").ok(),
            profiles: true,
        };
        assert!(none.to_string().starts_with("without --format, "));
        assert_eq!(
            all.to_string(),
            "with --format ndjson --from-export --columns member=player,score=points --at 2020-01-01T00:00:00.000Z --profiles"
        );
        let events = Reading {
            profiles: false,
            ..all.clone()
        };
        assert!(events.gives_same_events(&all) && !events.gives_same_events(&none));
    }
}
