//! The lines of an exported standing, as NDJSON and as CSV. The digest of a result is computed from the NDJSON.

use std::borrow::Cow;
use std::io;

use serde::Serialize;

use super::profile::ShownProfile;
use super::score::ShownScore;
use super::time::Timestamp;

/// An exported entry.
#[derive(Clone, Debug, Serialize)]
pub struct ExportLine<'a> {
    /// Its rank.
    pub rank: u64,
    /// The member; `None` once erased.
    pub member: Option<&'a str>,
    /// The score.
    pub score: ShownScore,
    /// When that score was reached; `None` on boards with `ties: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_at: Option<Timestamp>,
    /// Whether the member is hidden, if hidden members are included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// The member's profile, if profiles are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Option<ShownProfile>>,
}

/// The columns that every CSV has.
const COLUMNS: [&str; 4] = ["rank", "member", "score", "reached_at"];
const HIDDEN_COLUMN: &str = "hidden";
const PROFILE_COLUMNS: [&str; 3] = ["name", "avatar_url", "attributes"];

impl ExportLine<'_> {
    /// Writes a line of NDJSON.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write_json(&self, to: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut *to, self)?;
        to.write_all(b"\n")
    }

    /// Writes a line of CSV.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write_csv(&self, to: &mut csv::Writer<impl io::Write>) -> csv::Result<()> {
        let reached_at = self.reached_at.map(|at| at.to_string());
        let (rank, score) = (self.rank.to_string(), self.score.to_string());
        let member = self.member.unwrap_or_default();
        let cells = [
            &rank,
            member,
            &score,
            reached_at.as_deref().unwrap_or_default(),
        ];
        for cell in cells {
            to.write_field(&*harmless(cell))?;
        }
        if let Some(hidden) = self.hidden {
            to.write_field(hidden.to_string())?;
        }
        if let Some(profile) = &self.profile {
            let profile = profile.as_ref().map(ShownProfile::profile);
            let cells = [
                profile.map(|profile| profile.name.as_str()),
                profile.and_then(|profile| profile.avatar_url.as_deref()),
                profile.map(|profile| profile.attributes.get()),
            ];
            for cell in cells {
                to.write_field(&*harmless(cell.unwrap_or_default()))?;
            }
        }
        to.write_record(None::<&[u8]>)
    }
}

/// Writes the names of the columns of a CSV in which lines have `hidden`, or profiles.
///
/// # Errors
///
/// Those of `to`.
pub fn write_header(
    to: &mut csv::Writer<impl io::Write>,
    (has_hidden, has_profiles): (bool, bool),
) -> csv::Result<()> {
    let hidden = has_hidden.then_some(&HIDDEN_COLUMN);
    let of_profiles = PROFILE_COLUMNS.iter().filter(|_| has_profiles);
    to.write_record(COLUMNS.iter().chain(hidden).chain(of_profiles))
}

/// A cell that no spreadsheet takes for a formula. Cells that might be one get an apostrophe, as do cells that begin with
/// one: removing the first apostrophe restores the original.
fn harmless(cell: &str) -> Cow<'_, str> {
    let is_number = || cell.parse::<f64>().is_ok_and(f64::is_finite);
    if cell.starts_with([
        '=', '+', '-', '@', '\t', '\r', '\n', '\'', '＝', '＋', '－', '＠',
    ]) && !is_number()
    {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    }
}

/// The original of a cell that is read back.
pub fn original(cell: &str) -> &str {
    cell.strip_prefix('\'').unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::super::score::{Decimals, Score};
    use super::*;

    fn line(member: Option<&str>) -> ExportLine<'_> {
        let decimals = Decimals::try_from(2).unwrap();
        ExportLine {
            rank: 1,
            member,
            score: Score::parse("-1.5", decimals).unwrap().shown(decimals),
            reached_at: Timestamp::parse("2026-11-21T00:30:00Z").ok(),
            hidden: None,
            profile: None,
        }
    }

    fn csv_of(line: &ExportLine<'_>) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        line.write_csv(&mut writer).unwrap();
        String::from_utf8(writer.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn a_line_has_the_documented_format() {
        let mut json = Vec::new();
        line(Some("ann")).write_json(&mut json).unwrap();
        line(None).write_json(&mut json).unwrap();
        let expected = concat!(
            r#"{"rank":1,"member":"ann","score":-1.5,"reached_at":"2026-11-21T00:30:00.000Z"}"#,
            "\n",
            r#"{"rank":1,"member":null,"score":-1.5,"reached_at":"2026-11-21T00:30:00.000Z"}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(json).unwrap(), expected);
        assert_eq!(
            csv_of(&line(Some("ann"))),
            "1,ann,-1.5,2026-11-21T00:30:00.000Z\n"
        );
        assert_eq!(csv_of(&line(None)), "1,,-1.5,2026-11-21T00:30:00.000Z\n");
    }

    #[test]
    fn no_cell_is_a_formula_and_none_is_lost() {
        for (cell, written) in [
            ("ann", "ann"),
            ("-5", "-5"),
            ("+1.5e3", "+1.5e3"),
            ("=1+1", "'=1+1"),
            ("+1+1", "'+1+1"),
            ("-inf", "'-inf"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("＝1+1", "'＝1+1"),
            ("'=1", "''=1"),
            ("a=1", "a=1"),
        ] {
            assert_eq!(harmless(cell), written);
            assert_eq!(original(written), cell);
        }
        let quoted = csv_of(&line(Some("=HYPERLINK(\"x\",\"y\")")));
        assert!(
            quoted.starts_with(r#"1,"'=HYPERLINK(""x"",""y"")","#),
            "{quoted}"
        );
    }
}
