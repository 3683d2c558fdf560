//! Plays a league with members of given skill and attendance, and prints how they spread over its tiers:
//! `cargo run --release --example simulate_league -- league.json --members 100000 --periods 52`.
//!
//! It needs neither a service nor Redis: who is seated where, who goes up and down, and with what bonus, is decided by the code that
//! the service decides with (`src/domain/league/`).

mod season;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde::Deserialize;

use standings::boards::draft::{Draft, Fields};
use standings::domain::board::{Board, FieldError};
use standings::domain::document::{self, DocumentError};
use standings::domain::ids::BoardId;
use standings::domain::league::{League, Share};

use self::season::{Population, SKILL_GROUPS, Season};

/// Plays a league and prints how its members spread over the tiers.
#[derive(Clone, Debug, Parser)]
struct Args {
    /// A file with the definition of the board, as JSON.
    definition: PathBuf,
    /// How many members play.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    members: u32,
    /// For how many periods.
    #[arg(long, default_value_t = 52, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    periods: u32,
    /// The share of the periods in which a member plays, from 0 to 1, on average over all members.
    #[arg(long, default_value = "0.8", value_parser = share)]
    attendance: Share,
    /// The share of a score that is chance, from 0 to 1. The rest is skill.
    #[arg(long, default_value = "0.5", value_parser = share)]
    luck: Share,
    /// The mean of what a member scores in a period.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    points: u32,
    /// What the chance follows from: the same seed, the same season.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn share(text: &str) -> Result<Share, String> {
    serde_json::from_str(text)
        .map_err(|_| "is not a number from 0 to 1 with at most 4 decimals".into())
}

/// Why there is nothing to print, a line for each fault.
type Faults = Vec<String>;

fn main() -> ExitCode {
    let done = simulate(&Args::parse()).and_then(|text| {
        let printed = io::stdout().lock().write_all(text.as_bytes());
        printed.map_err(|error| vec![format!("the table can't be written: {error}")])
    });
    let Err(faults) = done else {
        return ExitCode::SUCCESS;
    };
    for fault in &faults {
        let _ = writeln!(io::stderr(), "error: {fault}");
    }
    ExitCode::FAILURE
}

fn simulate(args: &Args) -> Result<String, Faults> {
    let board = read(&args.definition)?;
    let population = Population {
        members: args.members,
        attendance: args.attendance,
        luck: args.luck,
        points: args.points,
        seed: args.seed,
    };
    let season =
        Season::play(&board, &population, args.periods).map_err(|error| vec![error.to_string()])?;
    let league = board.definition.league.as_ref();
    Ok(report(
        league.expect("invariant: only leagues are played"),
        &season,
    ))
}

/// The board that a file defines, if it is a league.
fn read(path: &Path) -> Result<Board, Faults> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| vec![format!("{name}: {error}")])?;
    board_of(&text).map_err(|errors| {
        let lines = errors.into_iter().map(|error| {
            let FieldError {
                pointer, detail, ..
            } = error;
            let place = if pointer.is_empty() {
                "the definition"
            } else {
                &pointer
            };
            format!("{name}: {place}: {detail}")
        });
        lines.collect()
    })
}

/// What a read of a board says about its name.
#[derive(Deserialize)]
struct Named {
    board: Option<BoardId>,
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Vec<FieldError>> {
    document::read(text).map_err(DocumentError::into_errors)
}

fn board_of(text: &str) -> Result<Board, Vec<FieldError>> {
    let fields: Fields = parse(text)?;
    let Named { board } = parse(text)?;
    let any = || BoardId::parse("league").expect("invariant: this is the id of a board");
    let id = board.unwrap_or_else(any);
    let definition = Draft::Whole(fields).definition(&id, None, None);
    let definition = definition?;
    let mut errors = definition.check();
    if definition.league.is_none() {
        errors.push(FieldError::new(
            "/league",
            "is missing: only a league can be simulated",
        ));
    }
    if errors.is_empty() {
        Ok(Board::new(id, definition, 1, 1, [].into()))
    } else {
        Err(errors)
    }
}

/// What is printed of a season.
fn report(league: &League, season: &Season) -> String {
    let names: Vec<String> = league
        .tiers
        .iter()
        .map(|tier| tier.name.to_string())
        .collect();
    let parts = [
        "The members of each tier at the beginning of each period, and how many of all went up and down in it:",
        &table(&periods(&names, season)),
        "The tiers in the last period:",
        &table(&last_period(&names, season)),
        "Where members are after it, by skill, from the tenth with the least to the tenth with the most:",
        &table(&skills(&names, season)),
    ];
    parts.join("\n")
}

fn periods(names: &[String], season: &Season) -> Vec<Vec<String>> {
    let head = ["period", "played", "cohorts", "up", "down"].map(ToOwned::to_owned);
    let mut rows = vec![[&head, names].concat()];
    let total: u64 = season.sizes.iter().sum();
    let sizes = |sizes: &[u64]| -> Vec<String> {
        let cells = sizes
            .iter()
            .map(|size| format!("{size} {}", percent(*size, total)));
        cells.collect()
    };
    for (index, period) in season.periods.iter().enumerate() {
        let of_all = |count: fn(&season::TierPeriod) -> u64| {
            period.iter().map(count).sum::<u64>().to_string()
        };
        let mut row = vec![
            (index + 1).to_string(),
            of_all(|tier| tier.played),
            of_all(|tier| tier.cohorts),
            of_all(|tier| tier.up),
            of_all(|tier| tier.down),
        ];
        let before: Vec<u64> = period.iter().map(|tier| tier.members).collect();
        row.extend(sizes(&before));
        rows.push(row);
    }
    let mut after = vec!["after".to_owned()];
    after.resize(head.len(), String::new());
    after.extend(sizes(&season.sizes));
    rows.push(after);
    rows
}

fn last_period(names: &[String], season: &Season) -> Vec<Vec<String>> {
    let head = [
        "tier", "members", "share", "played", "cohorts", "up", "down",
    ];
    let mut rows = vec![head.map(ToOwned::to_owned).to_vec()];
    let total: u64 = season.sizes.iter().sum();
    let last = season.periods.last().into_iter().flatten();
    for (name, tier) in names.iter().zip(last) {
        let counts = [tier.played, tier.cohorts, tier.up, tier.down];
        let mut row = vec![
            name.clone(),
            tier.members.to_string(),
            percent(tier.members, total),
        ];
        row.extend(counts.map(|count| count.to_string()));
        rows.push(row);
    }
    rows
}

fn skills(names: &[String], season: &Season) -> Vec<Vec<String>> {
    let mut rows = vec![[&["skill".to_owned()], names].concat()];
    for group in 0..SKILL_GROUPS {
        let of_group = season.skills.iter().map(|groups| groups[group]);
        let total = of_group.clone().sum();
        let cells = of_group.map(|count| percent(count, total));
        let mut row = vec![(group + 1).to_string()];
        row.extend(cells);
        rows.push(row);
    }
    rows
}

/// A share in percent, rounded down to a tenth.
fn percent(count: u64, total: u64) -> String {
    let thousandths = (count * 1_000).checked_div(total).unwrap_or(0);
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

/// Rows of equally many cells as lines; each column is as wide as its widest cell.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line = cells
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect::<Vec<_>>()
            .join("  ");
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = r#"{"windows": ["week"], "ties": "first", "score_min": 0, "league": {
        "cohort_size": 10, "tiers": [
            {"name": "bronze", "promote": 0.3, "demote": 0},
            {"name": "silver", "promote": 0.2, "demote": 0.2},
            {"name": "gold", "promote": 0, "demote": 0.3}]}}"#;

    fn args(text: &str) -> Args {
        Args::parse_from(std::iter::once("simulate_league").chain(text.split_whitespace()))
    }

    fn simulated(definition: &str, more: &str) -> Result<String, Faults> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("league.json");
        fs::write(&path, definition).unwrap();
        let args = args(&format!("{} {more}", path.display()));
        simulate(&args).map_err(|faults| {
            let file = format!("{}: ", path.display());
            faults.iter().map(|line| line.replace(&file, "")).collect()
        })
    }

    #[test]
    fn a_season_is_printed_as_tables() {
        let more = "--members 1000 --periods 3 --attendance 1 --luck 0";
        let text = simulated(DEFINITION, more).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "The members of each tier at the beginning of each period, and how many of all went up and down in it:",
            "period  played  cohorts   up  down       bronze     silver       gold",
            "     1    1000      100  300     0  1000 100.0%     0 0.0%     0 0.0%",
            "     2    1000      100  270    60    700 70.0%  300 30.0%     0 0.0%",
        ];
        assert_eq!(lines[..4], expected);
        assert_eq!(lines[5].split_whitespace().next(), Some("after"), "{text}");
        let of_best = lines.last().unwrap().split_whitespace();
        assert_eq!(of_best.collect::<Vec<_>>()[..2], ["10", "0.0%"], "{text}");
        assert_eq!(simulated(DEFINITION, more).as_ref(), Ok(&text));
        assert_ne!(simulated(DEFINITION, &format!("{more} --seed 2")), Ok(text));
    }

    #[test]
    fn errors_in_a_definition_are_listed_line_by_line() {
        let wrong = DEFINITION
            .replace(r#""demote": 0}"#, r#""demote": 0.5}"#)
            .replace("\"score_min\": 0, ", "");
        let lines = simulated(&wrong, "").unwrap_err();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("/league/tiers/0/demote: "),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("/score_min: "), "{lines:?}");
        let lines = simulated(r#"{"windows": ["week"]}"#, "").unwrap_err();
        assert_eq!(
            lines,
            ["/league: is missing: only a league can be simulated"]
        );
        for (text, expected) in [
            ("[]", "the definition: must be an object, not an array"),
            ("null", "the definition: must be an object, not null"),
            (r#"{"board": "../x"}"#, "/board: a board id must have"),
        ] {
            let lines = simulated(text, "").unwrap_err();
            assert!(lines[0].starts_with(expected), "{lines:?}");
        }
        let lines = simulated("{", "").unwrap_err();
        assert!(
            lines[0].starts_with("the definition: Line 1, column 1: the JSON ends too early"),
            "{lines:?}"
        );
        let lines = simulate(&args("/nowhere/at/all.json")).unwrap_err();
        assert!(lines[0].starts_with("/nowhere/at/all.json: "), "{lines:?}");
    }

    #[test]
    fn a_definition_from_a_service_can_be_simulated() {
        let answer = DEFINITION.replacen('{', r#"{"board": "cup", "#, 1);
        assert_eq!(
            simulated(&answer, "--members 50"),
            simulated(DEFINITION, "--members 50")
        );
    }
}
