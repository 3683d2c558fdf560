//! These tests need a `redis-server` or `valkey-server` on the PATH. They only send signals to servers that they started.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::watch;

use super::home::{Home, socket_path};
use super::process::read_log_line;
use super::wire::ask;
use super::*;

/// How long anything may take before a test fails.
const DEADLINE: Duration = Duration::from_mins(3);
/// Names the directory for [`a_service_that_crashes`], which is a test only in name. Because of its prefix it is also a
/// setting that the server must not see.
const CRASH_DIR: &str = "STANDINGS_TEST_CRASH_DIR";

/// The id of a user that is not the one of the tests.
const NOBODY: u32 = 65_534;

impl EmbeddedServer {
    fn state(&self) -> ServerState {
        // Only the watcher holds the sender: if it is closed, the runtime has dropped the watcher.
        if self.state.has_changed().is_err() {
            return ServerState::Stopped;
        }
        *self.state.borrow()
    }
}

#[tokio::test]
async fn data_survives_a_restart_of_the_service() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    assert_eq!(tell(&server, "SET k kept").await, "+OK");
    server.stop().await;
    assert_eq!(server.state(), ServerState::Stopped);
    server.stop().await;

    let server = start(dir.path()).await;
    assert_eq!(get(&server, "k").await, "kept");
    server.stop().await;
}

#[tokio::test]
async fn the_server_has_our_settings_and_no_configuration_file() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("with a space, \"quotes\" and ünicode")).await;
    for (name, value) in [
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("save", ""),
        ("port", "0"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("unixsocketperm", "700"),
        ("lazyfree-lazy-user-del", "yes"),
        ("enable-debug-command", "no"),
    ] {
        let reply = tell(&server, &format!("CONFIG GET {name}")).await;
        assert!(
            reply.ends_with(&format!("\r\n{value}")),
            "{name}: {reply:?}"
        );
    }
    let info = tell(&server, "INFO server").await;
    assert!(info.lines().any(|line| line == "config_file:"), "{info}");
    assert_eq!(mode(server.socket()), 0o700);
    server.stop().await;
}

#[tokio::test]
async fn a_directory_that_another_service_uses_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let error = refused(config(dir.path())).await;
    let path = dir.path().canonicalize().unwrap();
    let expected = format!(
        "the data directory {} is in use by process {}",
        path.display(),
        std::process::id()
    );
    assert_eq!(error, expected);
    assert_eq!(tell(&server, "PING").await, "+PONG");
    server.stop().await;
}

#[tokio::test]
async fn one_of_many_services_gets_the_directory() {
    let (_dir, dir) = canonical_dir();
    let _left_over = crash_a_service(&dir).await;
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        starts.spawn(EmbeddedServer::start(config(&dir)));
    }
    let (started, refused): (Vec<_>, Vec<_>) =
        starts.join_all().await.into_iter().partition(Result::is_ok);
    assert!(
        refused
            .iter()
            .all(|error| matches!(error, Err(EmbeddedError::DataDirInUse(..))))
    );
    let [Ok(server)] = &started[..] else {
        panic!("{} have the directory", started.len())
    };
    assert_eq!(get(server, "k").await, "kept");
    server.stop().await;
}

#[tokio::test]
async fn a_killed_server_is_restarted_with_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for round in 1..=3 {
        assert_eq!(
            tell(&server, &format!("SET k{round} v{round}")).await,
            "+OK"
        );
        let killed = pid(&server);
        until_written(&server).await;
        signal("KILL", killed);
        until_running(&server, killed).await;
        for earlier in 1..=round {
            assert_eq!(
                get(&server, &format!("k{earlier}")).await,
                format!("v{earlier}")
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn restarts_go_on_until_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let program = Fragile::new(dir.path());
    let server = EmbeddedServer::start(program.config()).await.unwrap();
    assert_eq!(tell(&server, "SET k kept").await, "+OK");
    until_written(&server).await;
    program.break_it();
    let killed = pid(&server);
    signal("KILL", killed);
    until_restarting(&server, 3).await;
    program.mend_it();
    until_running(&server, killed).await;
    assert_eq!(get(&server, "k").await, "kept");
    server.stop().await;
}

#[tokio::test]
async fn a_shutdown_ends_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let program = Fragile::new(dir.path());
    let server = EmbeddedServer::start(program.config()).await.unwrap();
    program.break_it();
    signal("KILL", pid(&server));
    until_restarting(&server, 2).await;
    tokio::time::timeout(DEADLINE, server.stop()).await.unwrap();
    assert_eq!(server.state(), ServerState::Stopped);
    program.mend_it();
    EmbeddedServer::start(program.config())
        .await
        .unwrap()
        .stop()
        .await;
}

/// A server that loads its data says LOADING: not ready, but no failure either.
#[tokio::test]
async fn the_service_waits_for_a_loading_server_and_can_shut_it_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let fill = r#"EVAL "for key = 1, 8000 do redis.call('INCR', key) end" 0"#;
    assert_eq!(tell(&server, fill).await, "$-1");
    server.stop().await;

    // 8,000 keys at 300 µs each take 2.4 s.
    let slow = script(
        dir.path(),
        "slow",
        r#"exec redis-server "$@" --key-load-delay 300"#,
    );
    let slow = EmbeddedConfig {
        data_dir: dir.path().into(),
        server: Some(slow),
    };
    let begun = Instant::now();
    let server = EmbeddedServer::start(slow).await.unwrap();
    let load_time = begun.elapsed();
    assert!(load_time > Duration::from_secs(2), "did not load slowly");
    assert_eq!(tell(&server, "DBSIZE").await, ":8000");

    signal("KILL", pid(&server));
    let reply = async || ask(server.socket(), "PING").await.unwrap_or_default();
    until(async || reply().await.starts_with("-LOADING")).await;
    assert!(matches!(server.state(), ServerState::Restarting { .. }));
    let begun = Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < load_time, "waited for the load to end");

    let server = start(dir.path()).await;
    assert_eq!(tell(&server, "DBSIZE").await, ":8000");
    server.stop().await;
}

#[tokio::test]
async fn the_server_of_a_crashed_service_is_replaced() {
    let (_dir, dir) = canonical_dir();
    let socket = dir.join("redis.sock");
    let left_over = crash_a_service(&dir).await;
    assert_eq!(
        ask(&socket, "PING").await.unwrap(),
        "+PONG",
        "did not outlive its service"
    );
    let environment = fs::read_to_string(dir.join("environment")).unwrap();
    assert!(
        environment.contains("PATH=") && !environment.contains(CRASH_DIR),
        "{environment}"
    );

    let server = start(&dir).await;
    assert_ne!(pid(&server), left_over.pid);
    assert_eq!(get(&server, "k").await, "kept");
    server.stop().await;
}

/// Without its socket a left-over can't be shut down. Its lock alone must keep the next one out.
#[tokio::test]
async fn an_unreachable_leftover_server_keeps_the_next_one_out() {
    let (_dir, dir) = canonical_dir();
    let mut left_over = crash_a_service(&dir).await;
    let reachable = std::mem::replace(&mut left_over.socket, dir.join("hidden.sock"));
    fs::rename(reachable, &left_over.socket).unwrap();

    let home = Home::open(&dir).unwrap();
    let error = home
        .claim(Duration::from_millis(100))
        .await
        .unwrap_err()
        .to_string();
    drop(home);
    assert!(
        error.ends_with(&format!(": process {} has not ended", left_over.pid)),
        "{error}"
    );

    ask(&left_over.socket, "SHUTDOWN NOSAVE").await.unwrap();
    let server = start(&dir).await;
    assert_eq!(get(&server, "k").await, "kept");
    server.stop().await;
}

#[tokio::test]
async fn a_server_started_by_hand_on_our_socket_is_replaced() {
    let (_dir, dir) = canonical_dir();
    let mut by_hand = ByHand::start(&dir, &dir.join("redis.sock")).await;
    assert_eq!(ask(&by_hand.socket, "SET k kept").await.unwrap(), "+OK");

    let server = start(&dir).await;
    assert!(
        by_hand
            .child
            .try_wait()
            .unwrap()
            .is_some_and(|status| status.success())
    );
    assert_eq!(get(&server, "k").await, "kept");
    server.stop().await;
}

#[tokio::test]
async fn a_server_of_other_data_on_our_socket_is_left_alone() {
    let ours = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let by_hand = ByHand::start(other.path(), &ours.path().join("redis.sock")).await;
    let home = Home::open(ours.path()).unwrap();
    let error = home.claim(Duration::ZERO).await.unwrap_err().to_string();
    assert!(
        error.contains(&format!(
            "process {} uses its socket, but for",
            by_hand.child.id()
        )),
        "{error}"
    );
    assert_eq!(ask(&by_hand.socket, "PING").await.unwrap(), "+PONG");
}

#[test]
fn a_runtime_that_ends_kills_the_server_and_frees_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let first = runtime.block_on(async {
        let server = start(dir.path()).await;
        assert_eq!(tell(&server, "SET k kept").await, "+OK");
        until_written(&server).await;
        server
    });
    drop(runtime);
    assert_eq!(first.state(), ServerState::Stopped);

    tokio::runtime::Runtime::new().unwrap().block_on(async {
        until(async || ask(first.socket(), "PING").await.is_err()).await;
        let server = start(dir.path()).await;
        assert_eq!(get(&server, "k").await, "kept");
        server.stop().await;
        first.stop().await;
    });
}

#[tokio::test]
async fn a_dropped_handle_shuts_the_server_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let states = server.watch_state();
    drop(server);
    until_state(states, |state| *state == ServerState::Stopped).await;
    // A clean shutdown removes the socket; a kill leaves it.
    assert!(!dir.path().join("redis.sock").exists());
}

#[tokio::test]
async fn an_abandoned_start_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let note = dir.path().join("server.lock");
    for _ in 0..5 {
        let spawned = until(async || fs::read(&note).is_ok_and(|pid| !pid.is_empty()));
        tokio::select! {
            biased;
            () = spawned => {}
            server = EmbeddedServer::start(config(dir.path())) => server.unwrap().stop().await,
        }
        let _ = fs::write(&note, "");
    }
    let server = start(dir.path()).await;
    assert_eq!(tell(&server, "PING").await, "+PONG");
    server.stop().await;
}

#[tokio::test]
async fn a_cut_last_transaction_never_comes_back_in_part() {
    let whole = tempfile::tempdir().unwrap();
    let server = start(whole.path()).await;
    for _ in 0..3 {
        add(&server).await;
    }
    server.stop().await;
    let file = fs::read(whole.path().join(INCREMENTAL)).unwrap();
    let block = last_block(&file);

    let cuts = futures::stream::iter(block..=file.len()).map(async |cut| {
        let dir = copy_of(whole.path());
        fs::write(dir.path().join(INCREMENTAL), &file[..cut]).unwrap();
        let server = start(dir.path()).await;
        let taken = if cut == file.len() { 3 } else { 2 };
        assert_eq!(count(&server).await, taken, "cut at {cut}");
        // A single write, or another script.
        if cut % 2 == 0 {
            assert_eq!(tell(&server, "SET single kept").await, "+OK");
        } else {
            add(&server).await;
        }
        server.stop().await;

        let server = start(dir.path()).await;
        if cut % 2 == 0 {
            assert_eq!(get(&server, "single").await, "kept", "cut at {cut}");
        }
        let taken = taken + u32::from(cut % 2 == 1);
        assert_eq!(count(&server).await, taken, "cut at {cut}");
        server.stop().await;
    });
    cuts.buffer_unordered(8).collect::<()>().await;
}

/// The server alone is killed while it writes, and restarted by its watcher.
#[tokio::test]
async fn a_restarted_server_drops_half_a_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let program = Fragile::new(dir.path());
    let server = EmbeddedServer::start(program.config()).await.unwrap();
    for _ in 0..3 {
        add(&server).await;
    }
    until_written(&server).await;
    program.break_it();
    let killed = pid(&server);
    signal("KILL", killed);
    until_restarting(&server, 2).await;
    let path = dir.path().join("data").join(INCREMENTAL);
    let file = fs::read(&path).unwrap();
    fs::write(&path, &file[..file.len() - 5]).unwrap();
    program.mend_it();
    until_running(&server, killed).await;
    assert_eq!(count(&server).await, 2);
    add(&server).await;
    server.stop().await;

    let server = EmbeddedServer::start(program.config()).await.unwrap();
    assert_eq!(count(&server).await, 3);
    server.stop().await;
}

/// If the server dies during a rewrite, there are two files of commands. If the first is torn, data in the middle is lost:
/// the server would refuse it once or twice, and then take it.
#[tokio::test]
async fn a_torn_file_before_another_is_refused_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for _ in 0..3 {
        add(&server).await;
    }
    server.stop().await;
    let first = dir.path().join(INCREMENTAL);
    let second = dir.path().join(INCREMENTAL.replace(".1.", ".2."));
    let file = fs::read(&first).unwrap();
    let (torn, rest) = (&file[..file.len() - 5], &file[..last_block(&file)]);
    fs::write(second, rest).unwrap();
    let manifest = dir.path().join("appendonlydir/appendonly.aof.manifest");
    let lines = fs::read_to_string(&manifest).unwrap();
    let line = "file appendonly.aof.2.incr.aof seq 2 type i\n";
    fs::write(&manifest, lines + line).unwrap();

    fs::write(&first, torn).unwrap();
    for _ in 0..4 {
        let error = refused(config(dir.path())).await;
        assert!(
            error.contains("appendonly.aof.1.incr.aof ends in the middle of a write"),
            "{error}"
        );
    }
    fs::write(&first, &file).unwrap();
    let server = start(dir.path()).await;
    assert_eq!(count(&server).await, 5);
    server.stop().await;
}

#[tokio::test]
async fn a_copy_in_a_wrong_folder_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = start(&dir).await;
    add(&server).await;
    let before = count(&server).await;
    server.stop().await;
    let copy = parent.path().join("copy");
    let right = dir.join("appendonlydir");
    fs::rename(&right, &copy).unwrap();
    for wrong in ["", "appendonlydir/appendonlydir", "data/appendonlydir"] {
        let wrong = dir.join(wrong);
        fs::create_dir_all(&wrong).unwrap();
        let names = || {
            fs::read_dir(&copy)
                .unwrap()
                .map(|file| file.unwrap().file_name())
        };
        for name in names() {
            fs::copy(copy.join(&name), wrong.join(&name)).unwrap();
        }
        let error = refused(config(&dir)).await;
        let expected = format!("move it and the files next to it to {}", right.display());
        assert!(error.contains(&expected), "{error}");
        names().for_each(|name| fs::remove_file(wrong.join(name)).unwrap());
    }
    fs::remove_dir_all(&right).unwrap();
    fs::rename(&copy, &right).unwrap();
    let server = start(&dir).await;
    assert_eq!(count(&server).await, before);
    server.stop().await;
}

#[tokio::test]
async fn a_damaged_file_is_an_error_that_quotes_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    tell(&server, "SET k v").await;
    server.stop().await;
    let aof = dir.path().join("appendonlydir/appendonly.aof.1.incr.aof");
    fs::write(&aof, "*1\r\n$3\r\nbad, and more to follow").unwrap();
    for _ in 0..2 {
        let error = refused(config(dir.path())).await;
        assert!(
            error.starts_with("the Redis server did not start: exit status: 1: "),
            "{error}"
        );
        assert!(
            error.contains(" reading the append only file appendonly.aof.1.incr.aof"),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1);
    }
}

#[tokio::test]
async fn a_deep_data_directory_gets_its_socket_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("deep/".repeat(30));
    let server = start(&deep).await;
    let socket = server.socket().to_owned();
    assert!(socket.as_os_str().len() <= 103, "{}", socket.display());
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    ask(&socket, "SET k kept").await.unwrap();
    server.stop().await;
    assert!(!socket.parent().unwrap().exists());

    let server = start(&deep).await;
    assert_eq!(server.socket(), socket);
    assert_eq!(get(&server, "k").await, "kept");
    server.stop().await;
}

#[tokio::test]
async fn a_socket_directory_that_is_not_ours_alone_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let temp = tempfile::tempdir().unwrap();
    let deep = dir.path().join("deep/".repeat(30));
    fs::create_dir_all(&deep).unwrap();
    let private = socket_path(&deep, temp.path())
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    assert_eq!(
        socket_path(&deep, temp.path()).unwrap().parent(),
        Some(&*private)
    );

    fs::set_permissions(&private, Permissions::from_mode(0o755)).unwrap();
    assert!(socket_path(&deep, temp.path()).is_err());
    fs::remove_dir(&private).unwrap();
    symlink(dir.path(), &private).unwrap();
    assert!(socket_path(&deep, temp.path()).is_err());
    let error = socket_path(&deep, &deep).unwrap_err();
    assert_eq!(
        error.to_string(),
        "its path and TMPDIR are both too long for a socket"
    );
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_used_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::create_dir(locked.join("lock")).unwrap();
    for (data_dir, reason) in [
        (file.clone(), "not a directory"),
        (file.join("below"), "Not a directory"),
        (locked, "Is a directory"),
    ] {
        let error = refused(config(&data_dir)).await;
        let expected = format!(
            "the data directory {} can't be used: {reason}",
            data_dir.display()
        );
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[tokio::test]
async fn a_missing_program_is_an_error_that_says_how_to_get_one() {
    let error = locate::first_usable(Vec::new())
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(error.lines().count(), 6, "a line for each system");
    for hint in [
        "apt-get install redis-server",
        "dnf install valkey",
        "apk add valkey",
        "brew install valkey",
        "WSL2",
        "Docker Desktop",
        "STANDINGS_REDIS_URL",
    ] {
        assert!(error.contains(hint), "{error}");
    }
}

#[tokio::test]
async fn an_unsuitable_program_is_an_error_that_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let old = script(
        dir.path(),
        "old",
        "echo Redis server v=6.2.14 sha=00000000:0",
    );
    let mute = script(dir.path(), "mute", "exit 0");
    let missing = dir.path().join("missing");
    for (program, reason) in [
        (
            &old,
            " is version 6.2.14; Redis 7.0 or any Valkey is needed",
        ),
        (
            &mute,
            " can't be run as the Redis server: `--version` prints no version",
        ),
        (
            &missing,
            " can't be run as the Redis server: No such file or directory",
        ),
    ] {
        let data_dir = dir.path().join("data");
        let config = EmbeddedConfig {
            data_dir,
            server: Some(program.clone()),
        };
        let error = refused(config).await;
        assert!(
            error.starts_with(&format!("{}{reason}", program.display())),
            "{error}"
        );
    }
    assert!(!dir.path().join("data").exists());
}

#[tokio::test]
async fn programs_are_tried_in_order_until_one_is_suitable() {
    let dir = tempfile::tempdir().unwrap();
    let [beside, a, b, tools] = ["beside", "a", "b", "tools"].map(|name| dir.path().join(name));
    for dir in [&beside, &a, &b, &tools] {
        fs::create_dir(dir).unwrap();
    }
    let own = script(&beside, "standings", "exit 0");
    let ours = script(&beside, "redis-server", "exit 1");
    let valkey = script(
        &a,
        "valkey-server",
        "echo Valkey server v=9.1.2 sha=00000000:1",
    );
    let old = script(
        &b,
        "redis-server",
        "echo Redis server v=5.0.7 sha=00000000:0",
    );
    let tool = script(
        &tools,
        "valkey-server",
        "echo Valkey server v=7.2.4 sha=00000000:1",
    );
    fs::write(a.join("redis-server"), "not executable").unwrap();
    let path = std::env::join_paths([&a, &b]).unwrap();
    let candidates = locate::candidates(Some(&own), &path, Some(&tools));
    let expected = [ours.clone(), old.clone(), valkey.clone(), tool];
    assert_eq!(candidates, expected);
    assert_eq!(locate::first_usable(candidates).await.unwrap(), valkey);
    // Only root may give a file away.
    if chown(&ours, Some(NOBODY), None).is_ok() {
        let candidates = locate::candidates(Some(&own), &path, None);
        assert_eq!(candidates, expected[1..3], "put there by another user");
    }
    let error = locate::first_usable(vec![old]).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::ProgramTooOld(_, version) if version == "5.0.7"));
}

#[test]
fn without_proc_our_program_is_found_by_its_path() {
    let running = std::env::current_exe().unwrap().canonicalize().unwrap();
    let missing = || Err(std::io::ErrorKind::NotFound.into());
    let own = |called: &Path| locate::program_of(missing(), Some(called.into()));
    assert_eq!(own(&running), Some(running.clone()));
    let found = locate::program_of(Ok(running.clone()), Some("another".into()));
    assert_eq!(found, Some(running));
    assert_eq!(own(Path::new("standings")), None, "found by the PATH");
}

#[tokio::test]
async fn a_server_of_another_kind_or_an_older_one_does_not_get_the_data() {
    let (_dir, dir) = canonical_dir();
    let data_dir = dir.join("data");
    let of = |release: &str| {
        let body =
            format!(r#"[ "$1" = --version ] && echo {release} && exit; exec redis-server "$@""#);
        let server = Some(script(&dir, "server", &body));
        EmbeddedServer::start(EmbeddedConfig {
            data_dir: data_dir.clone(),
            server,
        })
    };
    let note = || fs::read_to_string(data_dir.join("server.version")).unwrap();

    let server = of("Redis server v=7.2.10 sha=0").await.unwrap();
    assert_eq!(tell(&server, "SET k kept").await, "+OK");
    server.stop().await;
    assert_eq!(note(), "Redis 7.2.10\n");
    let aof = fs::read(data_dir.join(INCREMENTAL)).unwrap();
    for (release, found) in [
        ("Redis server v=7.2.9 sha=0", "Redis 7.2.9"),
        ("Valkey server v=9.1.2 sha=0", "Valkey 9.1.2"),
    ] {
        let error = of(release).await.unwrap_err().to_string();
        let expected = format!(
            "the data in {} was written by Redis 7.2.10, and {} is {found}: ",
            data_dir.display(),
            dir.join("server").display()
        );
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(note(), "Redis 7.2.10\n");
        assert_eq!(fs::read(data_dir.join(INCREMENTAL)).unwrap(), aof);
    }
    let server = of("Redis server v=8.0.0 sha=0").await.unwrap();
    assert_eq!(get(&server, "k").await, "kept");
    server.stop().await;
    assert_eq!(note(), "Redis 8.0.0\n");

    // As in a directory from before the server was recorded.
    fs::remove_file(data_dir.join("server.version")).unwrap();
    of("Valkey server v=9.1.2 sha=0")
        .await
        .unwrap()
        .stop()
        .await;
    assert_eq!(note(), "Valkey 9.1.2\n");
}

#[test]
fn restart_delays_double_up_to_their_limit() {
    let delays = [1, 2, 3, 6, 7, 40, u32::MAX].map(|n| restart_delay(n).as_millis());
    assert_eq!(delays, [50, 100, 200, 1600, 2000, 2000, 2000]);
}

#[test]
fn log_lines_are_split_into_severity_and_message() {
    for (line, expected) in [
        (
            "7:M 21 Nov 2026 06:16:39.369 * Ready to accept",
            (false, "Ready to accept"),
        ),
        (
            "7:M 21 Nov 2026 06:16:39.369 # Out of memory now",
            (true, "Out of memory now"),
        ),
        (
            "7:C 21 Nov 2026 06:16:39.368 # Configuration loaded",
            (false, "Configuration loaded"),
        ),
        (
            "*** FATAL CONFIG FILE ERROR ***",
            (true, "*** FATAL CONFIG FILE ERROR ***"),
        ),
        ("", (false, "")),
    ] {
        assert_eq!(read_log_line(line), expected);
    }
}

/// Runs in a separate process, started by [`crash_a_service`]; as an ordinary test it does nothing.
#[tokio::test]
async fn a_service_that_crashes() {
    let Some(dir) = std::env::var_os(CRASH_DIR) else {
        return;
    };
    let data_dir = PathBuf::from(dir);
    let body = r#"env > "$(dirname "$0")/environment"; exec redis-server "$@""#;
    let server = Some(script(&data_dir, "program", body));
    let server = EmbeddedServer::start(EmbeddedConfig { data_dir, server })
        .await
        .unwrap();
    tell(&server, "SET k kept").await;
    // No destructor runs, as after a SIGKILL.
    std::process::exit(0);
}

/// A server left over by a crashed service. Dropping it shuts the server down.
struct LeftOver {
    pid: u32,
    socket: PathBuf,
}

impl Drop for LeftOver {
    fn drop(&mut self) {
        if let Ok(mut stream) = std::os::unix::net::UnixStream::connect(&self.socket) {
            let _ = stream.write_all(b"SHUTDOWN NOSAVE\r\n");
        }
    }
}

/// Starts a service on the directory in another process, which ends without any clean-up.
async fn crash_a_service(dir: &Path) -> LeftOver {
    let module = module_path!().split_once("::").unwrap().1;
    let mut service = tokio::process::Command::new(std::env::current_exe().unwrap());
    service.args(["--exact", &format!("{module}::a_service_that_crashes")]);
    let status = service
        .env(CRASH_DIR, dir)
        .stdout(Stdio::null())
        .status()
        .await
        .unwrap();
    assert!(status.success());
    let pid = fs::read_to_string(dir.join("server.lock")).unwrap();
    LeftOver {
        pid: pid.trim().parse().unwrap(),
        socket: dir.join("redis.sock"),
    }
}

/// A server started by someone else. Dropping it ends the server.
struct ByHand {
    child: std::process::Child,
    socket: PathBuf,
}

impl ByHand {
    async fn start(dir: &Path, socket: &Path) -> Self {
        let mut command = Command::new(locate::find_program(None).await.unwrap());
        command
            .args(["--port", "0", "--save", "", "--appendonly", "yes", "--dir"])
            .arg(dir);
        command
            .arg("--unixsocket")
            .arg(socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let this = Self {
            child: command.spawn().unwrap(),
            socket: socket.into(),
        };
        until(async || {
            ask(socket, "PING")
                .await
                .is_ok_and(|reply| reply == "+PONG")
        })
        .await;
        this
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server program that can be made to fail.
struct Fragile {
    dir: PathBuf,
    program: PathBuf,
}

impl Fragile {
    fn new(dir: &Path) -> Self {
        let body = r#"[ -e "$(dirname "$0")/broken" ] && exit 1; exec redis-server "$@""#;
        Self {
            dir: dir.into(),
            program: script(dir, "fragile", body),
        }
    }

    fn config(&self) -> EmbeddedConfig {
        EmbeddedConfig {
            data_dir: self.dir.join("data"),
            server: Some(self.program.clone()),
        }
    }

    fn break_it(&self) {
        fs::write(self.dir.join("broken"), "").unwrap();
    }

    fn mend_it(&self) {
        fs::remove_file(self.dir.join("broken")).unwrap();
    }
}

/// Writes an executable script, in another process: a file that this process has open for writing, even in a child that
/// another thread has just forked, can't be run.
fn script(dir: &Path, name: &str, body: &str) -> PathBuf {
    let file = dir.join(name);
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 700 "$0""#;
    let status = Command::new("sh")
        .arg("-c")
        .arg(write)
        .arg(&file)
        .arg(body)
        .status()
        .unwrap();
    assert!(status.success());
    file
}

/// A directory that is deleted with the first value, and its path as the server sees it.
fn canonical_dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

fn config(data_dir: &Path) -> EmbeddedConfig {
    EmbeddedConfig {
        data_dir: data_dir.into(),
        server: None,
    }
}

async fn start(data_dir: &Path) -> EmbeddedServer {
    EmbeddedServer::start(config(data_dir)).await.unwrap()
}

/// The error of a start that fails.
async fn refused(config: EmbeddedConfig) -> String {
    EmbeddedServer::start(config).await.unwrap_err().to_string()
}

/// The server's reply.
async fn tell(server: &EmbeddedServer, command: &str) -> String {
    ask(server.socket(), command).await.unwrap()
}

async fn until_state(
    mut states: watch::Receiver<ServerState>,
    is_reached: impl FnMut(&ServerState) -> bool,
) {
    let reached = tokio::time::timeout(DEADLINE, states.wait_for(is_reached)).await;
    reached.unwrap().unwrap();
}

async fn until_restarting(server: &EmbeddedServer, attempt: u32) {
    let restarts = |state: &_| *state == ServerState::Restarting { attempt };
    until_state(server.watch_state(), restarts).await;
}

/// Waits until the server runs in another process than this one.
async fn until_running(server: &EmbeddedServer, killed: u32) {
    let runs = |state: &_| matches!(state, ServerState::Running { pid } if *pid != killed);
    until_state(server.watch_state(), runs).await;
}

async fn get(server: &EmbeddedServer, key: &str) -> String {
    let reply = tell(server, &format!("GET {key}")).await;
    reply.rsplit("\r\n").next().unwrap().to_owned()
}

/// Waits until every acknowledged write is in the file. The server holds writes back only while it
/// fsyncs earlier ones.
async fn until_written(server: &EmbeddedServer) {
    let written = async || {
        let info = tell(server, "INFO persistence").await;
        info.contains("\naof_buffer_length:0\r")
    };
    until(written).await;
}

/// The file of commands of a new server.
const INCREMENTAL: &str = "appendonlydir/appendonly.aof.1.incr.aof";

/// Increments three keys in a script, whose writes are one block of the file.
async fn add(server: &EmbeddedServer) {
    let script = "redis.call('INCR', 'a') redis.call('RPUSH', 'b', 'x') redis.call('INCR', 'c')";
    assert_eq!(tell(server, &format!("EVAL \"{script}\" 0")).await, "$-1");
}

/// How often [`add`] was carried out; its keys have to agree.
async fn count(server: &EmbeddedServer) -> u32 {
    let [a, c] = [get(server, "a").await, get(server, "c").await];
    let b = tell(server, "LLEN b").await;
    assert_eq!([&b[1..], &c], [&a, &a], "half of a script is there");
    a.parse().unwrap()
}

/// The offset of the last block in the file.
fn last_block(file: &[u8]) -> usize {
    let multi = b"*1\r\n$5\r\nMULTI\r\n";
    let begins = file.windows(multi.len()).rposition(|bytes| bytes == multi);
    begins.unwrap()
}

/// A directory with a copy of another one's append-only file.
fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let folder = copy.path().join("appendonlydir");
    fs::create_dir(&folder).unwrap();
    for file in fs::read_dir(dir.join("appendonlydir")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    copy
}

async fn until(condition: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(
            begun.elapsed() < DEADLINE,
            "the condition did not come true"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn pid(server: &EmbeddedServer) -> u32 {
    match server.state() {
        ServerState::Running { pid } => pid,
        state => panic!("the server is {state:?}"),
    }
}

fn signal(name: &str, pid: u32) {
    assert!(pid > 1);
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}
