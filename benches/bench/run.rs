//! Running what was asked for, and handing it out.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use crate::growth::{CURVES, Cause, Curve};
use crate::load::float;
use crate::machine::Machine;
use crate::rows::{Group, Measure, Measured, ROWS, Row};
use crate::session::Session;
use crate::table::Line;
use crate::{Options, Result, memory, picture, publish, queue, say, table};

/// All that a run has found.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Where it was found.
    pub machine: Machine,
    /// The table.
    pub rows: Vec<Line>,
    /// How cost grows.
    pub growth: Vec<Curve>,
}

/// Measures what was asked for, prints it, and keeps it beside what was built.
pub async fn run(options: &Options) -> Result<()> {
    if options.list {
        return list();
    }
    let is_built = |row: &&Row| {
        cfg!(feature = "kafka") || !matches!(row.measure, Measure::Of(Group::Kafka, _))
    };
    // Who names a row hears why it can't be measured.
    let rows = ROWS
        .iter()
        .filter(|row| is_chosen(options, row.name))
        .filter(|row| !options.only.is_empty() || is_built(row));
    let curves = CURVES
        .into_iter()
        .filter(|(_, name, _)| is_chosen(options, name));
    check_names(options)?;
    let begun = Instant::now();
    let session = Session::start(options).await?;
    let mut results = Results {
        machine: Machine::look(&session.redis, &session.extent).await?,
        rows: Vec::new(),
        growth: Vec::new(),
    };
    for row in rows {
        let begun = Instant::now();
        let line = Line::new(row, &measure(&session, row, options).await?);
        let (figure, seconds) = (line.shown_figure(), begun.elapsed().as_secs_f64());
        say(&format!("{}: {figure} ({seconds:.1} s)", row.name));
        results.rows.push(line);
    }
    for (cause, name, title) in curves {
        results
            .growth
            .push(curve(&session, options, (cause, name, title)).await?);
    }
    hand_out(&results, options)?;
    say(&format!("done in {:.0} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

fn list() -> Result<()> {
    let rows = ROWS.iter().map(|row| (row.name, row.title));
    let curves = CURVES.iter().map(|(_, name, title)| (*name, *title));
    for (name, title) in rows.chain(curves) {
        writeln!(std::io::stdout(), "{name:<22} {title}")?;
    }
    Ok(())
}

fn is_chosen(options: &Options, name: &str) -> bool {
    options.only.is_empty() || options.only.iter().any(|only| only == name)
}

fn check_names(options: &Options) -> Result<()> {
    let rows = ROWS.iter().map(|row| row.name);
    let known: Vec<&str> = rows
        .chain(CURVES.iter().map(|(_, name, _)| *name))
        .collect();
    let mut names = options.only.iter();
    match names.find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("nothing is called {name}; --list names what there is").into()),
        None => Ok(()),
    }
}

async fn measure(session: &Session, row: &Row, options: &Options) -> Result<Measured> {
    Ok(match row.measure {
        Measure::Load(workload, beside) => session.beside(workload, beside).await?,
        Measure::EntryMemory(board) => memory::of_entry(session, board).await?.into(),
        Measure::KeptMemory => memory::of_kept(&options.service).await?.into(),
        Measure::IdMemory => memory::of_id(&options.service).await?.into(),
        Measure::Of(group, figure) => session.figure(group, figure, options).await?,
        Measure::QueueSingle => queue::measure_single(session, options).await?,
        Measure::IdleMemory => Measured::told(session.idle_bytes.map(megabytes)),
        Measure::PeakMemory => {
            let peak = memory::of_service_under_load(session).await?;
            Measured::told(peak.map(megabytes))
        }
    })
}

fn megabytes(bytes: u64) -> f64 {
    float(bytes) / 1e6
}

async fn curve(
    session: &Session,
    options: &Options,
    (cause, name, title): (Cause, &'static str, &'static str),
) -> Result<Curve> {
    let begun = Instant::now();
    let points = session.curve(cause, options).await?;
    say(&format!("{name} ({:.1} s)", begun.elapsed().as_secs_f64()));
    Ok(Curve {
        name,
        title,
        points,
    })
}

fn hand_out(results: &Results, options: &Options) -> Result<()> {
    let mut out = std::io::stdout();
    if !results.rows.is_empty() {
        writeln!(out, "{}", table::markdown(&results.rows))?;
    }
    for curve in &results.growth {
        writeln!(out, "{}", table::points(curve.title, &curve.points))?;
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let json = serde_json::to_string_pretty(results)?;
    std::fs::write(folder.join("bench.json"), json)?;
    if !results.growth.is_empty() {
        picture::draw(&results.growth, &folder.join("bench.svg"))?;
    }
    if options.publish {
        publish::publish(results)?;
    }
    Ok(())
}
