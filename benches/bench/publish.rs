//! Writing the results into BENCHMARKS.md, between comments that mark their places.

use std::path::Path;

use crate::Result;
use crate::load::float;
use crate::machine::Machine;
use crate::run::Results;
use crate::{picture, say, table};

/// Replaces the tables and the picture.
pub fn publish(results: &Results) -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = repository.join("BENCHMARKS.md");
    let mut text = std::fs::read_to_string(&page)?;
    text = replace(&text, "machine", &machine(&results.machine))?;
    text = replace(&text, "rows", &table::markdown(&results.rows))?;
    for curve in &results.growth {
        text = replace(
            &text,
            curve.name,
            &table::points(curve.title, &curve.points),
        )?;
    }
    std::fs::write(&page, text)?;
    std::fs::create_dir_all(repository.join("docs"))?;
    picture::draw(&results.growth, &repository.join("docs/benchmarks.svg"))?;
    say("BENCHMARKS.md and docs/benchmarks.svg were written");
    Ok(())
}

/// Replaces the comparison with Podium, and what README.md says of it.
pub fn comparison(table: &str, in_short: &str) -> Result<()> {
    for (page, text) in [("BENCHMARKS.md", table), ("README.md", in_short)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let page = std::fs::read_to_string(&path)?;
        std::fs::write(path, replace(&page, "podium", text)?)?;
    }
    say("BENCHMARKS.md and README.md were written");
    Ok(())
}

/// Puts a text between `<!-- name -->` and `<!-- /name -->`.
fn replace(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let missing = || format!("the page has no {begin}");
    let (before, rest) = page.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{text}\n{end}{after}"))
}

fn machine(machine: &Machine) -> String {
    let rows = [
        ("date", machine.date.clone()),
        ("processor", machine.processor.clone()),
        ("cores", machine.cores.to_string()),
        ("memory", machine.memory.clone()),
        ("system", machine.system.clone()),
        ("Redis", machine.redis.clone()),
        ("compiler", machine.rustc.clone()),
        (
            "members of big boards",
            table::number(float(machine.members as u64)),
        ),
        ("rounds", machine.rounds.to_string()),
    ]
    .map(|(name, value)| vec![name.to_owned(), value]);
    table::aligned(&["", ""], &rows)
}
