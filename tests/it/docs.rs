//! The documentation. The commands of every page are run as they stand, in the order of the page, and the service has to
//! answer what is printed below them. Its links lead somewhere, and its tables have all metrics, fields and problems.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use standings::domain::time::Timestamp;
use standings::http::problem::KINDS;
use standings::redis::kinds::Kind;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::harness::program::Program;
use crate::harness::{PATIENT, World, repository};

/// Where the sessions expect the service.
const ADDRESS: &str = "127.0.0.1:8080";
/// What stands for a part of an answer that is left out.
const LEFT_OUT: char = '…';
/// How often it is looked whether the commands wait for the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Turns a hang into a failure.
const HANG: Duration = Duration::from_mins(2);

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

/// Checks that commands have printed no problem, unless it is shown below them.
fn assert_no_problem(output: &str, shown: &str, commands: &str) {
    let is_problem = |text: &str| text.contains("\"type\":\"/problems/");
    assert!(
        !is_problem(output) || is_problem(&comparable(shown)),
        "{commands}\nanswers {output}"
    );
}

/// The program of a server's client, if there is one: `pip` brings a server without it.
fn redis_client() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["redis-cli", "valkey-cli"].into_iter();
    let files = names.flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// What a session finds in addition to its own commands: the time of the test's clock, and waiting for it.
const PRELUDE: &str = r#"set -e
date() {
  now=$(cat "$PLAY/now")
  for last in "$@"; do
    case $last in *day* | -v-1d) now=$((now - 86400)) ;; esac
  done
  command date -u -d "@$now" "$last" 2>/dev/null || command date -u -r "$now" "$last"
}
sleep() {
  echo "$1" >"$PLAY/sleep.new" && mv "$PLAY/sleep.new" "$PLAY/sleep"
  while [ -e "$PLAY/sleep" ]; do command sleep 0.05; done
}
"#;
/// The line that ends the output of a block.
const END: &str = "\u{1e}";

/// A shell in which the commands of a page run.
struct Session {
    shell: Child,
    output: Lines<BufReader<ChildStdout>>,
    world: World,
    folder: TempDir,
    now: Timestamp,
}

impl Session {
    /// Begins at this time, on a service that is empty, in a clone whose program is built.
    async fn begin(now: &str) -> Self {
        let world = World::start(now).await;
        let folder = TempDir::new().unwrap();
        let clone = folder.path().join("clone");
        std::fs::create_dir_all(clone.join("target/debug")).unwrap();
        let program = env!("CARGO_BIN_EXE_standings");
        symlink(program, clone.join("target/debug/standings")).unwrap();
        // Where `make run` keeps the data of its server.
        let socket = world.redis.url();
        let data = Path::new(socket.strip_prefix("unix://").unwrap());
        symlink(data.parent().unwrap(), clone.join("data")).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = [folder.path().to_owned()].into_iter();
        let path = std::env::join_paths(own.chain(std::env::split_paths(&path))).unwrap();
        if let Some(client) = redis_client() {
            symlink(client, folder.path().join("redis-cli")).unwrap();
        }
        let mut shell = Command::new("sh");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STANDINGS_") {
                shell.env_remove(&name);
            }
        }
        shell
            .current_dir(&clone)
            .env("PATH", path)
            .env("PLAY", folder.path())
            .env("STANDINGS_REDIS_URL", world.redis.url())
            // In place of its default, which the program of a page uses.
            .env("STANDINGS_URL", &world.client().base)
            .env("STANDINGS_TIMEOUT_FACTOR", PATIENT.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut shell = shell.spawn().unwrap();
        let output = BufReader::new(shell.stdout.take().unwrap()).lines();
        let now = Timestamp::parse(now).unwrap();
        let mut session = Self {
            shell,
            output,
            world,
            folder,
            now,
        };
        session.run(PRELUDE).await;
        session
    }

    /// Moves the clock on.
    fn pass(&mut self, seconds: u64) {
        let ms = i64::try_from(seconds * 1_000).unwrap();
        self.now = Timestamp::from_ms_clamped(self.now.ms() + ms);
        self.world.clock.set(self.now);
        let now = (self.now.ms() / 1_000).to_string();
        std::fs::write(self.folder.path().join("now"), now).unwrap();
    }

    /// Lets the time pass that the commands wait for.
    fn pass_what_is_slept(&mut self) {
        let asked = self.folder.path().join("sleep");
        if let Ok(seconds) = std::fs::read_to_string(&asked) {
            self.pass(seconds.trim().parse().unwrap());
            std::fs::remove_file(asked).unwrap();
        }
    }

    /// Runs some commands, a second after the last ones. Returns what they print.
    async fn run(&mut self, commands: &str) -> String {
        self.pass(1);
        let input = format!("{commands}\nprintf '\\n{END}\\n'\n");
        let stdin = self.shell.stdin.as_mut().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        let mut printed = String::new();
        let begun = Instant::now();
        loop {
            match timeout(LOOK_INTERVAL, self.output.next_line()).await {
                Ok(line) => match line.unwrap().as_deref() {
                    Some(END) => return printed,
                    Some(line) => printed.extend([line, "\n"]),
                    None => panic!("a command has failed:\n{commands}\nIt printed:\n{printed}"),
                },
                Err(_) => self.pass_what_is_slept(),
            }
            assert!(begun.elapsed() < HANG, "it hangs:\n{commands}");
        }
    }
}

/// Runs the commands of a page in their order, from this time on, and compares what they print with what is printed below.
async fn play(page: &str, now: &str) {
    let text = read(page);
    let blocks = blocks(&text);
    if !blocks.iter().any(|block| block.language == "sh") {
        return;
    }
    let mut session = Session::begin(now).await;
    let _working = session.world.instances[0].work();
    let address = session
        .world
        .client()
        .base
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let mut last: Option<(&str, String)> = None;
    for (index, Block { language, text }) in blocks.iter().enumerate() {
        match (*language, &last) {
            // What is imported was written with it.
            ("sh", _)
                if ["redis-cli", "--from-redis"]
                    .iter()
                    .any(|word| text.contains(word))
                    && redis_client().is_none() =>
            {
                last = None;
            }
            ("sh", _) => {
                let output = session.run(&text.replace(ADDRESS, &address)).await;
                let shown: String = blocks[index + 1..]
                    .iter()
                    .take_while(|block| !block.language.starts_with("sh"))
                    .map(|block| block.text)
                    .collect();
                assert_no_problem(&output, &shown, &format!("{page}: {text}"));
                last = Some((text, output));
            }
            ("json", Some((commands, output))) => {
                assert_shown(output, text, &format!("{page}: {commands}"));
                // The next one is of something else.
                last = None;
            }
            ("text", Some((commands, output))) => {
                for line in text.lines() {
                    let is_there = output.lines().any(|shown| shown.trim_end() == line);
                    assert!(
                        is_there,
                        "{page}: {commands}\nprints {line}\nand answers {output}"
                    );
                }
            }
            _ => last = None,
        }
    }
}

/// When the sessions of pages begin whose answers have a date.
const BEGUN: [(&str, &str); 6] = [
    ("README.md", "2026-11-21T08:00:05Z"),
    ("docs/leagues.md", "2026-11-21T08:00:55Z"),
    ("docs/queue.md", "2026-11-21T20:14:59Z"),
    ("docs/results.md", "2026-11-21T08:00:57Z"),
    ("docs/rewards.md", "2026-11-21T08:00:58Z"),
    ("docs/votes.md", "2026-11-21T12:50:36Z"),
];
/// How many blocks of commands no test runs, at most.
const NOT_RUN_MAX: usize = 10;

fn pages() -> Vec<String> {
    let docs = std::fs::read_dir(repository().join("docs")).unwrap();
    let names = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_page = |name: &String| Path::new(name).extension().is_some_and(|end| end == "md");
    let mut pages: Vec<_> = names
        .filter(is_page)
        .map(|name| format!("docs/{name}"))
        .collect();
    pages.push("README.md".to_owned());
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_on_every_page_do_what_the_page_says() {
    for page in pages() {
        let begun = BEGUN.iter().find(|(name, _)| *name == page);
        play(
            &page,
            begun.map_or("2026-11-21T08:00:00Z", |(_, begun)| begun),
        )
        .await;
    }
}

#[test]
fn untested_commands_are_few_and_give_a_reason() {
    let mut count = 0;
    for page in pages() {
        for Block { language, .. } in blocks(&read(&page)) {
            if let Some(reason) = language.strip_prefix("sh ") {
                let reason = reason.strip_prefix("no-run: ").unwrap_or_default();
                assert!(!reason.is_empty(), "{page}: {language}");
                count += usize::from(reason != "make clients runs it");
            }
        }
    }
    assert!(count <= NOT_RUN_MAX, "{count} blocks are not run");
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
    let refused = "{\"type\":\"/problems/not-found\"}";
    let hides = |shown| std::panic::catch_unwind(|| assert_no_problem(refused, shown, "api /"));
    assert!(hides("{…}").is_err() && hides(refused).is_ok());
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
fn lint_every_link_has_a_target() {
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
fn lint_the_tables_have_all_fields_and_problems() {
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
    let mut rows = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|row| row.trim_matches('|').split('|').collect::<Vec<_>>());
    let row = rows.find(|cells| cells.len() == 4 && cells[1].contains(&format!("`{name}`")))?;
    Some(row[3].trim())
}

#[test]
fn lint_the_privacy_page_lists_every_kind_of_data() {
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
async fn lint_the_table_of_metrics_is_complete() {
    let folder = TempDir::new().unwrap();
    let program = Program::serve(folder.path()).await;
    let metrics = program.client().get("/metrics").await.text;
    let names: Vec<_> = metrics
        .lines()
        .filter_map(|line| {
            let name = line.strip_prefix("# TYPE ")?;
            Some(name.split_once(' ')?.0)
        })
        .collect();
    assert!(names.len() > 5, "{metrics}");
    assert_named("docs/monitoring.md", names);
    program.stop().await;
}
