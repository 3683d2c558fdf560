//! The documentation. The commands of its sessions are run as they stand, and the service has to answer what is printed
//! below them. Its links lead somewhere, and its tables have all metrics, fields and problems.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use standings::domain::time::Timestamp;
use standings::http::problem::KINDS;
use standings::redis::kinds::Kind;
use tempfile::TempDir;
use tokio::process::Command;

use crate::harness::program::Program;
use crate::harness::{World, repository};

/// Where the sessions expect the service.
const ADDRESS: &str = "127.0.0.1:8080";
/// What stands for a part of an answer that is left out.
const LEFT_OUT: char = '…';
/// The pause between two blocks of commands.
const PAUSE: Duration = Duration::from_secs(1);

/// A block between fences.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut parts = page.split("```");
    parts.next();
    let mut blocks = Vec::new();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push(Block { language, text });
    }
    blocks
}

/// A text without spaces, without the time of day in instants, and without the revisions of standings.
fn comparable(text: &str) -> String {
    let text = text.split_whitespace().collect::<String>();
    let mut parts = text.split(r#","revision":""#);
    let mut text = parts.next().unwrap().to_owned();
    text.extend(parts.filter_map(|part| Some(part.split_once('"')?.1)));
    let mut rest: &str = &text;
    let mut comparable = String::new();
    while let Some((before, after)) = rest.split_once('T') {
        let is_date = before.len() >= 10 && before.is_char_boundary(before.len() - 10) && {
            let date = &before[before.len() - 10..];
            date.bytes()
                .all(|byte| byte == b'-' || byte.is_ascii_digit())
        };
        comparable.push_str(before);
        comparable.push('T');
        rest = match after.split_once('Z') {
            Some((_, after)) if is_date => after,
            _ => after,
        };
    }
    comparable + rest
}

/// Checks that an output is what is printed, as far as it is.
fn assert_shown(output: &str, printed: &str, commands: &str) {
    let has_headers = output.starts_with("HTTP/");
    let (output, printed) = (comparable(output), comparable(printed));
    let (first, last) = match printed.rsplit_once(LEFT_OUT) {
        Some((before, last)) => (before, last),
        None => ("", printed.as_str()),
    };
    let mut rest = output.as_str();
    for (index, part) in first.split(LEFT_OUT).enumerate() {
        let place = rest.find(part).unwrap_or_else(|| {
            panic!("{commands}\nprints {part}\nand answers {output}");
        });
        let is_begin = index > 0 || has_headers || place == 0;
        assert!(is_begin, "{commands}\nanswers before: {}", &rest[..place]);
        rest = &rest[place + part.len()..];
    }
    let is_whole = printed.contains(LEFT_OUT) || has_headers || rest == last;
    assert!(
        is_whole && rest.ends_with(last),
        "{commands}\nprints at last {last}\nand answers {rest}"
    );
}

/// Plays the sessions of a page, which begin at this time; returns how many blocks of commands it has.
async fn play(page: &str, now: &str) -> usize {
    let world = World::start(now).await;
    let begun = Timestamp::parse(now).unwrap();
    let address = world.client().base.strip_prefix("http://").unwrap();
    let page = std::fs::read_to_string(repository().join(page)).unwrap();
    let page = page.replace(ADDRESS, address);
    let blocks = blocks(&page);
    let is_function =
        |block: &&Block<'_>| block.language == "sh" && block.text.starts_with("api()");
    let function = blocks.iter().find(is_function).unwrap().text;
    // The service has a clock of its own here, and so have its commands: nobody waits.
    let yesterday = Timestamp::from_ms_clamped(begun.ms() - 86_400_000);
    let clock = format!("date() {{ echo {yesterday}; }}\nsleep() {{ :; }}\n");
    let prelude = format!("set -e\n{function}\n{clock}");

    let mut count = 0;
    let mut last: Option<(&str, String)> = None;
    for Block { language, text } in blocks {
        match (language, &last) {
            ("sh", _) if text.contains("api /") || text.contains("api '/") => {
                count += 1;
                let pause =
                    i64::try_from(PAUSE.as_millis()).unwrap() * i64::try_from(count).unwrap();
                world
                    .clock
                    .set(Timestamp::from_ms_clamped(begun.ms() + pause));
                let mut shell = Command::new("sh");
                let output = shell.args(["-c", &format!("{prelude}{text}")]).output();
                let output = output.await.unwrap();
                assert!(
                    output.status.success(),
                    "{text}\n{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                last = Some((text, String::from_utf8(output.stdout).unwrap()));
            }
            ("json", Some((commands, output))) => {
                assert_shown(output, text, commands);
                // The next one is of something else.
                last = None;
            }
            ("text", Some((commands, output))) => {
                for line in text.lines() {
                    let is_there = output.lines().any(|shown| shown.trim_end() == line);
                    assert!(is_there, "{commands}\nprints {line}\nand answers {output}");
                }
            }
            // Commands of another kind: what is printed below them is not of the service.
            _ => last = None,
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_of_the_readme_answer_what_they_print() {
    assert!(play("README.md", "2026-11-21T08:00:05Z").await >= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vote_answers_what_it_prints() {
    assert!(play("docs/votes.md", "2026-11-21T12:50:38Z").await >= 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queued_event_answers_what_it_prints() {
    assert!(play("docs/queue.md", "2026-11-21T20:14:59Z").await >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rewards_answer_what_they_print() {
    assert!(play("docs/rewards.md", "2026-11-21T08:00:58Z").await >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_results_answer_what_they_print() {
    assert!(play("docs/results.md", "2026-11-21T08:00:57Z").await >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_season_answers_what_it_prints() {
    assert!(play("docs/leagues.md", "2026-11-21T08:00:55Z").await >= 6);
}

#[test]
fn a_wrong_answer_is_noticed() {
    let shows = |output: &str, printed: &str| {
        std::panic::catch_unwind(|| assert_shown(output, printed, "api /")).is_ok()
    };
    let output = "{\"a\":1,\"at\":\"2026-11-21T08:00:05.796Z\"}\n{\"b\":[2,3]}\n";
    assert!(shows(output, "{\"a\":1,…}\n{\"b\":[2,…]}"));
    assert!(shows(
        output,
        "{\"a\":1,\n \"at\":\"2026-11-21T12:00:00Z\"}{…}"
    ));
    assert!(!shows(output, "{\"a\":1,…}\n{\"b\":[3,…]}"));
    assert!(!shows(
        output,
        "{\"a\":1,\"at\":\"2026-11-22T08:00:05.796Z\"}{…}"
    ));
    assert!(!shows(output, "{\"b\":[2,3]}"));
    assert!(!shows(output, "{\"a\":1,…}\n{\"b\""));
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The anchors of a page: its headings as GitHub names them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let names = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let is_kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    let kept = names.map(|name| name.chars().filter(is_kept).collect::<String>());
    kept.map(|name| name.replace(' ', "-")).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ]
    .map(str::to_owned)
    .to_vec();
    for entry in std::fs::read_dir(repository().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if Path::new(&name).extension().is_some_and(|end| end == "md") {
            pages.push(format!("docs/{name}"));
        }
    }
    for page in pages {
        let text = read(&page);
        let folder = Path::new(&page).parent().unwrap();
        for link in text.split("](").skip(1) {
            let (link, _) = link.split_once(')').unwrap();
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if path.contains("://") {
                continue;
            }
            let target = match path {
                "" => repository().join(&page),
                path => repository().join(folder).join(path),
            };
            assert!(target.exists(), "{page} links to {link}");
            if !anchor.is_empty() {
                let target = std::fs::read_to_string(target).unwrap();
                assert!(anchors(&target).contains(anchor), "{page} links to {link}");
            }
        }
    }
}

/// Checks that a page has each of these names as code.
fn assert_named<'a>(page: &str, names: impl IntoIterator<Item = &'a str>) {
    let text = read(page);
    for name in names {
        assert!(text.contains(&format!("`{name}`")), "{page} lacks {name}");
    }
}

#[test]
fn the_tables_have_all_fields_and_problems() {
    assert_named("docs/api.md", KINDS.iter().map(|kind| kind.name));
    let openapi: serde_json::Value = serde_json::from_str(&read("openapi/openapi.json")).unwrap();
    for (page, schema) in [
        ("docs/definition.md", "Definition"),
        ("docs/leagues.md", "LeagueDefinition"),
        ("docs/rewards.md", "RewardRuleDefinition"),
        ("docs/votes.md", "QuotaDefinition"),
    ] {
        let fields = openapi["components"]["schemas"][schema]["properties"].as_object();
        assert_named(page, fields.unwrap().keys().map(String::as_str));
    }
}

/// The row of a table that names something in its second cell: what it says in its last cell.
fn told_of<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let mut rows = rows.map(|row| row.trim_matches('|').split('|').collect::<Vec<_>>());
    let row = rows.find(|cells| cells.len() == 4 && cells[1].contains(&format!("`{name}`")))?;
    Some(row[3].trim())
}

#[test]
fn what_is_kept_about_people_is_told_of_every_kind_of_data() {
    let page = read("docs/privacy.md");
    for kind in Kind::ALL {
        let name = match kind.code() {
            "" => "st:{board}",
            code => code,
        };
        let told = told_of(&page, name).unwrap_or_else(|| panic!("{kind:?}: `{name}` has no row"));
        let expected = kind.erasing().name();
        assert!(told.starts_with(expected), "{kind:?} ({expected}): {told}");
    }
    // What all boards share has no kinds: the file of all keys has its names.
    let keys = read("src/redis/keys.rs");
    let (code, _) = keys.split_once("#[cfg(test)]").unwrap();
    let mut shared = code
        .split("\"st:{boards}:")
        .skip(1)
        .map(|rest| rest.split_once('"').unwrap().0);
    assert!(shared.clone().count() > 20);
    shared.all(|name| told_of(&page, name).is_some() || panic!("{name} has no row"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_metrics_is_complete() {
    let folder = TempDir::new().unwrap();
    let program = Program::serve(folder.path()).await;
    let metrics = program.client().get("/metrics").await.text;
    let names = metrics.lines().filter_map(|line| {
        let name = line.strip_prefix("# TYPE ")?;
        Some(name.split_once(' ')?.0)
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() > 5, "{metrics}");
    assert_named("docs/monitoring.md", names);
    program.stop().await;
}
