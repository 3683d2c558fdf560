//! The program as a process: its settings and where they come from, its log, and what it says when it can't start.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::Child;

use crate::faults::kill_redis;
use crate::harness::program::{self, Program};
use crate::harness::redis::eventually;
use crate::harness::servers::free_ports;
use crate::harness::{Client, RedisServer, repository};

/// Runs a command of the program in a folder; returns its exit status and what it says on standard error.
fn run(folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_standings"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STANDINGS_") {
            command.env_remove(name);
        }
    }
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[test]
fn a_variable_that_is_not_utf8_is_named_in_one_line() {
    let folder = TempDir::new().unwrap();
    for (name, is_taken) in [
        ("STANDINGS_API_KEYS", false),
        ("STANDINGS_REDIS_URL", false),
        ("STANDINGS_DATA_DIR", true),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_standings"))
            .args(["serve", "--redis-server", "/nowhere"])
            .current_dir(folder.path())
            .env_remove("STANDINGS_TEST_SEED")
            .env(name, OsStr::from_bytes(b"admin:secret-\xff"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            text.contains(name) && text.contains("UTF-8"),
            !is_taken,
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(is_taken || !text.contains("secret"), "{text}");
    }
}

#[test]
fn an_invalid_setting_gives_one_line_and_exit_status_1() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(".env");
    let long = "admin:long-enough";
    for (content, environment, said) in [
        (
            "# a\nKEY: value\nSTANDINGS_API_KEYS=admin:secret-1",
            None,
            ".env can't be read: line 2: ",
        ),
        (
            "STANDINGS_API_KEYS=\"admin:secret-1",
            None,
            "line 1: a quote is not closed",
        ),
        (
            "STANDINGS_API_KEYS=admin:secret",
            None,
            "STANDINGS_API_KEYS",
        ),
        (
            "STANDINGS_API_KEYS=secret-of-none",
            None,
            "STANDINGS_API_KEYS",
        ),
        (
            "STANDINGS_API_KEYS=secret-of-none",
            Some(("STANDINGS_API_KEYS", long)),
            "",
        ),
        (
            "STANDINGS_API_KEYS=admin:secret-1",
            Some(("STANDINGS_API_KEYS", "secret")),
            "STANDINGS_API_KEYS",
        ),
        (
            "STANDINGS_CORS_ORIGINS=https://a.example/",
            None,
            "as browsers send it: https://a.example",
        ),
        (
            "",
            Some(("STANDINGS_CORS_ORIGINS", "not a url")),
            "not an origin",
        ),
        (
            "",
            Some(("STANDINGS_CORS_ORIGINS", "*,https://a.example")),
            "combined with others",
        ),
        (
            "",
            Some(("STANDINGS_LISTEN", "nowhere")),
            "STANDINGS_LISTEN (--listen <LISTEN>) is \"nowhere\"",
        ),
        (
            "SITE_TITLE=My Great Site\nexport STANDINGS_LISTEN='127.0.0.1:1' # one",
            None,
            "",
        ),
    ] {
        fs::write(&file, content).unwrap();
        for command in ["openapi", "serve", "healthcheck"] {
            if command != "openapi" && said.is_empty() {
                continue;
            }
            let (status, text) = run(folder.path(), &[command], environment.as_slice());
            assert_eq!(
                status,
                Some(i32::from(!said.is_empty())),
                "{content}: {text}"
            );
            let lines = usize::from(!said.is_empty());
            assert_eq!(text.lines().count(), lines, "{content}: {text}");
            assert!(text.contains(said), "{content}: {text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
    fs::write(&file, "STANDINGS_API_KEYS=admin:a\nSTANDINGS_LOGG=info").unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    assert_eq!(
        run(&inner, &["openapi"], &[]),
        (Some(0), String::new()),
        "of a parent"
    );
    fs::write(&file, "STANDINGS_LOGG=info").unwrap();
    let (status, text) = run(folder.path(), &["openapi"], &[("STANDINGS_KEYS", "1")]);
    assert_eq!(status, Some(0));
    assert!(
        text.contains("STANDINGS_LOGG is not a setting; did you mean STANDINGS_LOG?"),
        "{text}"
    );
    assert!(text.contains("STANDINGS_KEYS is not a setting"), "{text}");
}

#[test]
fn the_service_does_not_start_with_an_invalid_setting() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(".env");
    let key = ("STANDINGS_API_KEY", "hush-hush");
    let said = "STANDINGS_API_KEY is a setting of `import`, `compare`, `export` and `reshard`, not of the service";
    for command in ["serve", "worker"] {
        // What is empty in the environment hides what is in the file.
        for (content, environment, is_refused) in [
            ("STANDINGS_API_KEY=hush-hush", None, true),
            ("", Some(key), true),
            ("STANDINGS_API_KEY=", Some(key), true),
            ("STANDINGS_API_KEY=hush-hush", Some((key.0, "")), false),
            ("STANDINGS_API_KEY=", None, false),
        ] {
            fs::write(&file, content).unwrap();
            // Without its server's program no service stays.
            let args = [command, "--redis-server", "/nowhere"];
            let (status, text) = run(folder.path(), &args, environment.as_slice());
            assert_eq!(status, Some(1), "{text}");
            assert_eq!(text.contains(said), is_refused, "{content}: {text}");
            assert!(!text.contains("hush"), "{text}");
        }
    }
}

/// The program in a folder with this `.env`.
fn in_folder(folder: &Path, settings: &str, args: &[&str]) -> tokio::process::Command {
    fs::write(folder.join(".env"), settings).unwrap();
    let mut command = program::command(args);
    command.current_dir(folder);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_example_starts_and_its_api_keys_work() {
    let folder = TempDir::new().unwrap();
    let example = fs::read_to_string(repository().join(".env.example"))
        .unwrap()
        .replace("LISTEN=127.0.0.1:8080", "LISTEN=127.0.0.1:0");
    let program = Program::run_until_ready(&mut in_folder(folder.path(), &example, &[])).await;
    program
        .client()
        .define("b", json!({"windows": ["day"]}))
        .await;
    assert!(folder.path().join("data/appendonlydir").is_dir());
    let open = "the service is open: STANDINGS_API_KEYS is not set";
    let log = program.stop().await;
    assert!(log.contains(open), "{log}");

    let keys =
        "SITE_TITLE=My Great Site\nSTANDINGS_API_KEYS=admin:a$HOMEa${x}\\n, read:b'c\"d#e#\n";
    let settings = format!("{example}\n{keys}STANDINGS_LOGS=debug\n");
    let mut command = in_folder(folder.path(), &settings, &[]);
    let program = Program::run_until_ready(command.env("STANDINGS_LISTEN", "127.0.0.1:0")).await;
    let client = program.client();
    client
        .get("/v1/boards")
        .await
        .expect_problem(401, "unauthenticated");
    for (key, status) in [
        ("a$HOMEa${x}\\n", 200),
        ("b'c\"d#e#", 403),
        ("a", 401),
        ("a${x}\\n", 401),
    ] {
        let asked = client.with_key(key).get("/v1/instances").await;
        asked.expect(status);
    }
    let log = program.log();
    assert!(
        log.contains("STANDINGS_LOGS is not a setting; did you mean STANDINGS_LOG?"),
        "{log}"
    );
    assert!(!log.contains(open), "{log}");
    program.stop().await;

    // The environment comes first, also with the empty value that stands for the default.
    let mut command = in_folder(folder.path(), &settings, &[]);
    command.env("STANDINGS_LISTEN", "127.0.0.1:0");
    let program = Program::run_until_ready(command.env("STANDINGS_API_KEYS", "")).await;
    program.client().get("/v1/boards").await.expect(200);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_origins_may_call_if_all_are_allowed() {
    let folder = TempDir::new().unwrap();
    let settings = "STANDINGS_CORS_ORIGINS=*\nSTANDINGS_LISTEN=127.0.0.1:0\n";
    let program = Program::run_until_ready(&mut in_folder(folder.path(), settings, &[])).await;
    let request = program
        .client()
        .builder(Method::OPTIONS, "/v1/boards")
        .header("origin", "https://any.example")
        .header("access-control-request-method", "PUT")
        .header("access-control-request-headers", "authorization");
    let answer = request.send().await.unwrap();
    let headers = answer.headers();
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert!(!headers.contains_key("access-control-allow-credentials"));
    let allowed = headers["access-control-allow-headers"].to_str().unwrap();
    assert!(allowed.contains("authorization"), "{allowed}");
    program.stop().await;
}

/// A program with a private server, that writes its log to this end; ready.
async fn serve_with_log_to(end: Stdio, folder: &Path, settings: &[&str]) -> (Child, Client) {
    let address = format!("127.0.0.1:{}", free_ports()[0]);
    let data = folder.join("data");
    let data = data.to_str().unwrap();
    let args = [&["--listen", &address, "--data-dir", data], settings].concat();
    let mut command = program::command(&args);
    let mut child = command.stderr(end).spawn().unwrap();
    let client = Client::new(&format!("http://{address}"));
    let exited = RefCell::new(&mut child);
    eventually("the program is ready", async || {
        let status = exited.borrow_mut().try_wait().unwrap();
        assert!(status.is_none(), "it has ended: {status:?}");
        let answer = client.builder(Method::GET, "/readyz").send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
    (child, client)
}

/// The sum of a counter's values.
async fn counted(client: &Client, name: &str, label: &str) -> u64 {
    let text = client.get("/metrics").await.text;
    let lines = text
        .lines()
        .filter(|line| line.starts_with(name) && !line.starts_with('#') && line.contains(label));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

const LOST: &str = "standings_log_lines_lost_total";

async fn kill_private_redis(folder: &Path) {
    kill_redis(&folder.join("data/redis.sock")).await;
}

/// Without its Redis the service has something to say.
async fn works_and_starts_its_redis_again(child: &mut Child, client: &Client, folder: &Path) {
    client.define("b", json!({"windows": ["all"]})).await;
    for round in 0..2 {
        kill_private_redis(folder).await;
        let event = json!({"events": [{"board": "b", "id": format!("e-{round}"), "member": "m", "score": 1}]});
        client.post_until_taken("/v1/events", &event).await;
    }
    eventually("both events are read", async || {
        let page = client.get("/v1/boards/b/standings/all").await;
        page.json["entries"][0]["score"] == 2
    })
    .await;
    client.get("/livez").await.expect(200);
    assert!(counted(client, LOST, "").await > 0);
    let status = program::stop(child).await;
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_on_a_full_disk_does_not_break_the_service() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return; // Only Linux has it.
    }
    let folder = TempDir::new().unwrap();
    let end = fs::File::options().write(true).open(full).unwrap();
    let (mut child, client) = serve_with_log_to(end.into(), folder.path(), &[]).await;
    works_and_starts_its_redis_again(&mut child, &client, folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_a_closed_pipe_does_not_break_the_service() {
    let folder = TempDir::new().unwrap();
    let (read, end) = std::io::pipe().unwrap();
    drop(read);
    let (mut child, client) = serve_with_log_to(end.into(), folder.path(), &[]).await;
    works_and_starts_its_redis_again(&mut child, &client, folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_log_blocks_nothing_and_later_counts_lost_lines() {
    let folder = TempDir::new().unwrap();
    let debug = ["--log", "info,fred=off,standings::http=debug"];
    let (mut child, client) = serve_with_log_to(Stdio::piped(), folder.path(), &debug).await;
    lose_lines(&client).await;
    client.define("b", json!({"windows": ["all"]})).await;
    kill_private_redis(folder.path()).await;
    let event = json!({"events": [{"board": "b", "id": "e", "member": "m", "score": 1}]});
    client.post_until_taken("/v1/events", &event).await;
    let mut end = child.stderr.take().unwrap();
    let (mut read, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    while !String::from_utf8_lossy(&read).contains("log lines were lost lines=") {
        let count = end.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the log has ended");
        read.extend_from_slice(&chunk[..count]);
    }
    lose_lines(&client).await;
    let status = program::stop(&mut child).await;
    assert!(status.success(), "{status}");
    // Until here nobody has read.
    drop(end);
}

/// Has so much logged that the pipe and the buffer are full.
async fn lose_lines(client: &Client) {
    let path = format!("/{}", "x".repeat(32_000));
    let before = counted(client, LOST, "").await;
    eventually("the buffer of the log is full", async || {
        client.get(&path).await.expect_problem(404, "not-found");
        counted(client, LOST, "").await > before + 10
    })
    .await;
}

/// A number behind `name=` in a line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    rest.split(' ').next()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_redis_does_not_flood_the_log_and_every_failure_is_counted() {
    let redis = RedisServer::start().await;
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--redis-url",
        &redis.url(),
        "--drain-seconds",
        "0",
    ];
    let program = Program::run_until_ready(program::command(&args).env("NO_COLOR", "1")).await;
    let client = program.client().once();
    client.define("b", json!({"windows": ["all"]})).await;
    redis.kill();
    eventually("the service has noticed", async || {
        client.get("/v1/boards/b/standings/all").await.status == 503
    })
    .await;
    for _ in 0..300 {
        client
            .get("/v1/boards/b/standings/all")
            .await
            .expect_problem(503, "store-unavailable");
    }
    let failed = counted(&client, "standings_http_requests_total", "status=\"503\"").await;
    assert!(failed >= 300);
    let log = program.stop().await;
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("request failed"))
        .collect();
    let of_reads: Vec<&&str> = lines
        .iter()
        .filter(|line| field(line, "route").is_some())
        .collect();
    let example = of_reads.first().unwrap();
    assert_eq!(field(example, "status"), Some("503"), "{example}");
    assert!(
        example.contains(" cause=\"Redis is not available: "),
        "{example}"
    );
    assert!(example.contains(" request_id="), "{example}");
    for line in of_reads {
        let ms = field(line, "ms").unwrap();
        let digits = ms.split_once('.').map_or("", |(_, digits)| digits);
        assert!(digits.len() <= 3 && ms.parse::<f64>().is_ok(), "{line}");
    }
    let more = lines.iter().filter_map(|line| field(line, "more"));
    let more: u64 = more.map(|more| more.parse::<u64>().unwrap()).sum();
    let said = log
        .lines()
        .filter(|line| field(line, "route").is_some())
        .count();
    assert_eq!(more + said as u64, failed, "{log}");
    assert!((said as u64) < failed / 2, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_check_and_other_clients_report_an_answer_in_one_line() {
    let folder = TempDir::new().unwrap();
    let program = Program::serve(folder.path()).await;
    assert_eq!(program.run(&["healthcheck"]).await, Ok(String::new()));
    program.stop().await;

    let folder = TempDir::new().unwrap();
    let keys = ("STANDINGS_API_KEYS", "admin:administers");
    let mut command = program::command(&["--listen", "127.0.0.1:0", "--data-dir"]);
    let program = Program::run_until_ready(command.arg(folder.path()).env(keys.0, keys.1)).await;
    fs::write(folder.path().join("a.csv"), "member,score\na,1\n").unwrap();
    let url = program.client().base;
    let said = |args: &[&str]| {
        let (status, said) = run(folder.path(), &[args, &["--url", &url]].concat(), &[]);
        assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
        said
    };
    let refused = said(&["reshard", "b", "--shards", "2"]);
    assert!(
        refused.contains("(401): set --api-key or STANDINGS_API_KEY to one that has `configure`"),
        "{refused}"
    );
    let refused = said(&["import", "a.csv", "--board", "b"]);
    assert!(
        refused.contains(
            "(401): set --api-key or STANDINGS_API_KEY to one that has `read` and `write`"
        ),
        "{refused}"
    );
    let refused = said(&[
        "import",
        "a.csv",
        "--board",
        "b",
        "--api-key",
        "administers",
    ]);
    assert!(refused.contains("there is no board b at"), "{refused}");
    program.stop().await;

    let nobody = ["healthcheck", "--url", "http://127.0.0.1:1"];
    let (status, said) = run(folder.path(), &nobody, &[]);
    let begin = "standings: http://127.0.0.1:1 is not ready: ";
    assert!(status == Some(1) && said.starts_with(begin), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_only_token_keys_or_without_them_says_what_it_lacks() {
    let secret = "s".repeat(32);
    for (name, value) in [
        ("STANDINGS_JWT_KEY", &*secret),
        ("STANDINGS_API_KEYS", "admin:an-admin"),
    ] {
        let data = TempDir::new().unwrap();
        let arguments = ["--listen", "127.0.0.1:0", "--data-dir"];
        let mut command = program::command(&arguments);
        let program = Program::run_until_ready(command.arg(data.path()).env(name, value)).await;
        let client = program.client().with_key("eyJh.eyJz.c2ln");
        let detail = client
            .get("/v1/boards")
            .await
            .expect_problem(401, "unauthenticated");
        let log = program.stop().await;
        let has_only_tokens = name == "STANDINGS_JWT_KEY";
        let warning = "nobody can define a board: there are keys for players' tokens, but no API keys. Set STANDINGS_API_KEYS=";
        assert_eq!(log.contains(warning), has_only_tokens, "{log}");
        let is_without_keys = detail.contains("STANDINGS_JWT_KEY");
        assert_eq!(is_without_keys, !has_only_tokens, "{detail}");
        assert!(detail.starts_with("the token "), "{detail}");
        assert!(!log.contains("overcommit"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gives_access_only_to_what_it_names() {
    let folder = TempDir::new().unwrap();
    let secret = (
        "STANDINGS_JWT_KEY",
        "a-secret-of-at-least-32-bytes-for-tokens",
    );
    let token = async |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_standings"));
        command.args(["token", "--sub", "ann"]).args(more);
        command
            .current_dir(folder.path())
            .env_clear()
            .envs(variables.iter().copied());
        let output = command.output().await.unwrap();
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        match (output.status.success(), texts) {
            (true, [token, _]) => Ok(token.trim_end().to_owned()),
            (false, [_, said]) => Err(said),
        }
    };
    let mut command = program::command(&["--listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(folder.path()).env(secret.0, secret.1);
    let program =
        Program::run_until_ready(command.env("STANDINGS_API_KEYS", "admin:administers")).await;
    let admin = program.client().with_key("administers");
    for board in ["dart", "golf-1", "chess"] {
        admin.define(board, json!({"windows": ["all"]})).await;
    }
    let boards = ["--board", "dart", "--board", "golf-*"];
    let playing = token(&[secret], &[&boards[..], &["--scope", "play"]].concat()).await;
    let player = program.client().with_key(&playing.unwrap());
    let event = |member: &str| json!({"member": member, "score": 1});
    for (board, member, status) in [
        ("dart", "ann", 200),
        ("golf-1", "ann", 200),
        ("chess", "ann", 403),
        ("dart", "bob", 403),
    ] {
        let path = format!("/v1/boards/{board}/events");
        player.post(&path, event(member)).await.expect(status);
    }
    let page = "/v1/boards/dart/standings/all";
    player.get(page).await.expect_problem(403, "forbidden");
    let both = token(
        &[secret],
        &[&boards[..], &["--scope", "read,vote"]].concat(),
    )
    .await;
    let voter = program.client().with_key(&both.unwrap());
    voter.get(page).await.expect(200);
    voter
        .post("/v1/boards/dart/events", event("bob"))
        .await
        .expect(200);
    program.stop().await;

    let set = folder.path().join("keys.json");
    let secret_key =
        json!({"kty": "oct", "kid": "app", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"});
    let public_key =
        json!({"kty": "OKP", "crv": "Ed25519", "x": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I"});
    let public_key = public_key.to_string();
    fs::write(&set, json!({"keys": [secret_key]}).to_string()).unwrap();
    let of_file = ("STANDINGS_JWT_KEYS", set.to_str().unwrap());
    let args = ["--board", "dart", "--scope", "play"];
    let public = (secret.0, public_key.as_str());
    assert!(token(&[of_file, public], &args).await.is_ok());
    for (variables, args, said) in [
        (&[][..], &args[..], "no key is set: set STANDINGS_JWT_KEY"),
        (&[public], &args, "public keys, which can't sign"),
        (&[(secret.0, "short")], &args, "32 bytes"),
        (
            &[secret],
            &["--board", "dart", "--scope", "write"],
            "[possible values: read, play, vote]",
        ),
        (
            &[secret],
            &["--board", "a b", "--scope", "play"],
            "a board id of up to 128 characters",
        ),
        (&[secret], &["--scope", "play"], "--board"),
    ] {
        let refused = token(variables, args).await.unwrap_err();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn a_null_origin_is_only_allowed_with_keys() {
    let folder = TempDir::new().unwrap();
    let origins = ("STANDINGS_CORS_ORIGINS", "capacitor://localhost,null");
    for (keys, is_refused) in [("", true), ("admin:administers", false)] {
        let keys = ("STANDINGS_API_KEYS", keys);
        let args = ["serve", "--redis-server", "/nowhere"];
        let (status, said) = run(folder.path(), &args, &[origins, keys]);
        assert_eq!(status, Some(1), "{said}");
        assert_eq!(said.contains("lists null"), is_refused, "{said}");
    }
}
