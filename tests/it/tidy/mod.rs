//! The rules of the house that no compiler checks (ARCHITECTURE.md says why).

mod rooms;
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use standings::core::jobs::JobKind;

use crate::harness::repository;

fn files(folder: &Path, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|other| other == ending) {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// The code of a source file, without its unit tests and comments.
fn code(text: &str) -> String {
    let mut lines = text.lines();
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            // An item ends with its own line, or with the brace that closes it.
            let is_whole = |line: &&str| line.starts_with('}') || line.ends_with(';');
            let _ = lines
                .by_ref()
                .find(|line| !line.starts_with(' ') && is_whole(line));
        } else if !line.trim_start().starts_with("//") {
            kept.push(line);
        }
    }
    kept.join("\n")
}

#[test]
fn code_leaves_out_tests_and_comments() {
    let text = "use a;\n#[cfg(test)]\nmod tests;\n// no code\nfn one() {}\n#[cfg(test)]\nmod more {\n    use b;\n}\nfn two() {}";
    assert_eq!(code(text), "use a;\nfn one() {}\nfn two() {}");
}

#[test]
fn lint_libraries_stay_where_they_belong() {
    // What speaks HTTP to callers, but for the client of the commands, and the statuses of problems.
    let http: &[&str] = &[
        "http/",
        "access/",
        "live/",
        "console/",
        "embed/",
        "api/",
        "routes",
        "operations/health.rs",
        "domain/problems.rs",
        "cli/client.rs",
    ];
    let homes = [
        ("fred::", &["redis/"][..]),
        ("axum", http),
        ("StatusCode", http),
    ];
    let source = repository().join("src");
    for (path, text) in files(&source, "rs") {
        let file = path.strip_prefix(&source).unwrap().to_str().unwrap();
        if file.ends_with("tests.rs") {
            continue;
        }
        for (library, homes) in homes {
            let is_home = homes
                .iter()
                .any(|home| file.starts_with(home) || file.contains(&format!("/{home}")));
            assert!(
                is_home || !code(&text).contains(library),
                "{file} names {library}"
            );
        }
        let names_io = ["tokio", "reqwest", "fred"]
            .iter()
            .any(|library| code(&text).contains(library));
        assert!(!file.starts_with("domain/") || !names_io, "{file} has IO");
    }
}

#[test]
fn lint_keys_are_made_in_one_place_and_scripts_make_none() {
    let keys = repository().join("src/redis/keys.rs");
    for (path, text) in files(&repository().join("src"), "rs") {
        assert!(
            path == keys || !code(&text).contains("\"st:{"),
            "{} makes a key",
            path.display()
        );
    }
    for (path, text) in files(&repository().join("scripts"), "lua") {
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"));
        assert!(
            !code.collect::<String>().contains("'st:"),
            "{} makes a key",
            path.display()
        );
    }
}

#[test]
fn lint_every_file_that_comments_and_pages_name_exists() {
    let root = repository();
    let path =
        Regex::new(r"\b((?:src/|scripts/|tests/it/)?(?:[a-z_]+/)+[a-z_]+\.(?:rs|lua))\b").unwrap();
    let mut texts = files(&root.join("src"), "rs");
    texts.extend(files(&root.join("scripts"), "lua"));
    let page = root.join("ARCHITECTURE.md");
    texts.push((page.clone(), std::fs::read_to_string(page).unwrap()));
    for (file, text) in texts {
        let is_rust = file.extension().is_some_and(|ending| ending == "rs");
        let comments = text
            .lines()
            .filter(|line| !is_rust || line.trim_start().starts_with("//"));
        for line in comments {
            for found in path.find_iter(line) {
                let name = found.as_str();
                let folder = file.parent().unwrap();
                let roots = [
                    root.clone(),
                    root.join("src"),
                    root.join("scripts"),
                    root.join("tests/it"),
                    folder.to_owned(),
                    folder.parent().unwrap().to_owned(),
                ];
                let is_there = roots.iter().any(|root| root.join(name).exists());
                assert!(is_there, "{} names {name}, which is gone", file.display());
            }
        }
    }
}

#[test]
fn lint_every_job_is_named_for_operators() {
    let guide = std::fs::read_to_string(repository().join("docs/monitoring.md")).unwrap();
    for kind in JobKind::of_every_instance().chain(JobKind::in_background()) {
        let name = kind.name();
        assert!(guide.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn lint_every_script_has_its_contract() {
    for (path, text) in files(&repository().join("scripts"), "lua") {
        let is_fragment = path.parent().is_some_and(|folder| folder.ends_with("lib"));
        let parts: &[&str] = if is_fragment {
            &["-- lib/"]
        } else {
            &["-- KEYS[1]", "-- ARGV[1]", "-- Reply", "-- Example"]
        };
        for part in parts {
            assert!(text.contains(part), "{} lacks {part}", path.display());
        }
        let checks_numbers = text.contains("-- Takes: ") || text.contains("if #KEYS");
        assert!(
            is_fragment || checks_numbers,
            "{} lacks -- Takes",
            path.display()
        );
    }
}

/// The words of a variable of the Makefile.
fn makefile_words(variable: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("Makefile"))
        .unwrap()
        .replace("\\\n", " ");
    let mut lines = text.lines();
    let words = lines
        .find_map(|line| line.strip_prefix(variable)?.strip_prefix(" = "))
        .unwrap_or_else(|| panic!("the Makefile sets {variable}"));
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn lint_every_test_that_the_makefile_names_exists() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let listed = command.args(["--list", "--format", "terse"]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let run = makefile_words("ON_CLUSTERS");
    let left_out = makefile_words("NOT_ON_CLUSTERS");
    for name in &run {
        let is_run =
            |test: &str| test.contains(name) && !left_out.iter().any(|other| test.contains(other));
        assert!(listed.lines().any(is_run), "no test is named {name}");
    }
    for name in &left_out {
        let is_left_out =
            |test: &str| test.contains(name) && run.iter().any(|other| test.contains(other));
        assert!(listed.lines().any(is_left_out), "{name} leaves nothing out");
    }
}
