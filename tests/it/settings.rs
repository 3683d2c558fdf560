//! The table in docs/settings.md and `.env.example` are generated from the definitions of the settings, like the help.

use std::collections::BTreeSet;

use clap::Arg;
use clap::builder::StyledStr;

use crate::harness::committed::assert_committed;
use crate::harness::repository;

/// The variable with which these tests write the files: `STANDINGS_WRITE_SETTINGS=1 cargo test --test it settings`.
const WRITE: &str = "STANDINGS_WRITE_SETTINGS";
/// The lines around the table in docs/settings.md.
const MARKERS: [&str; 2] = ["<!-- settings -->\n", "<!-- /settings -->\n"];
/// The maximum length of a comment line in `.env.example`, in bytes.
const COMMENT_MAX: usize = 110;
/// The head of `.env.example`.
const EXAMPLE: &str = r#"# Every setting with its default. docs/settings.md explains them. Copy this file to .env in the working directory.
#
# Flags and environment variables override this file. An empty value means the default. Every line is NAME=value, a
# comment or empty. A value is taken literally, including $ and \, and ends at " #", at the closing quote or at the end
# of the line. Docker Compose, however, replaces $NAME and ${NAME} unless the value is in single quotes.
"#;

/// The settings, each once. Some commands share settings.
fn settings() -> Vec<Arg> {
    let mut seen = BTreeSet::new();
    let settings = standings::config::settings();
    settings.filter(|arg| seen.insert(variable(arg))).collect()
}

fn variable(arg: &Arg) -> String {
    arg.get_env().unwrap().to_str().unwrap().to_owned()
}

fn default(arg: &Arg) -> String {
    let values = arg.get_default_values().first();
    values.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

/// A help text as one line that ends in a full stop, which clap removes from a single paragraph.
fn sentence(help: &StyledStr) -> String {
    let help = help.to_string();
    let words: Vec<_> = help.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned() + "."
}

/// Turns the names of pages, such as docs/redis.md, into links.
fn linked(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let path = word.trim_end_matches(['.', ',']);
        let Some(target) = path.strip_prefix("docs/") else {
            return word.to_owned();
        };
        let (page, _) = target.split_once('#').unwrap_or((target, ""));
        format!("[{page}]({target}){}", &word[path.len()..])
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A text as comment lines of limited length.
fn comment(text: &str) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in text.split(' ') {
        if lines.last().unwrap().len() + word.len() >= COMMENT_MAX {
            lines.push("#".to_owned());
        }
        lines.last_mut().unwrap().extend([" ", word]);
    }
    lines.join("\n")
}

/// All settings, formatted by `row`, under the headings of the help, formatted by `head`.
fn listed(head: impl Fn(&str) -> String, row: impl Fn(&Arg) -> String) -> String {
    let mut text = String::new();
    let mut last = None;
    for arg in settings() {
        let heading = arg.get_help_heading().map(str::to_owned);
        if heading != last {
            text += &head(heading.as_deref().unwrap());
            last = heading;
        }
        text += &row(&arg);
    }
    text
}

#[test]
fn lint_the_page_of_settings_has_all_settings() {
    let table = listed(
        |heading| {
            format!("\n### {heading}\n\n| variable | default | meaning |\n| --- | --- | --- |\n")
        },
        |arg| {
            let default = match default(arg).as_str() {
                "" => "none".to_owned(),
                value => format!("`{value}`"),
            };
            let help = arg.get_long_help().or(arg.get_help()).unwrap();
            let meaning = linked(&sentence(help));
            format!("| `{}` | {default} | {meaning} |\n", variable(arg))
        },
    );
    let [begin, end] = MARKERS;
    let page = std::fs::read_to_string(repository().join("docs/settings.md")).unwrap();
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let expected = format!("{before}{begin}{table}\n{end}{after}");
    assert_committed("docs/settings.md", &expected, WRITE);
}

#[test]
fn lint_the_example_file_has_all_settings() {
    let settings = listed(
        |heading| format!("\n## {heading}\n"),
        |arg| {
            let help = comment(&sentence(arg.get_help().unwrap()));
            format!("\n{help}\n{}={}\n", variable(arg), default(arg))
        },
    );
    assert_committed(".env.example", &format!("{EXAMPLE}{settings}"), WRITE);
}

#[test]
fn lint_commands_that_share_a_setting_describe_it_alike() {
    let described: BTreeSet<_> = standings::config::settings()
        .map(|arg| {
            let help = arg.get_help().map(ToString::to_string);
            (variable(&arg), default(&arg), help)
        })
        .collect();
    assert_eq!(described.len(), settings().len(), "{described:?}");
}
