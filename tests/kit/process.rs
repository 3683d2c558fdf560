//! Programs that are started.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What has not happened by then never does. It is long, since a busy machine may be slow.
const WAIT_MAX: Duration = Duration::from_mins(3);
/// The pause between two looks whether it has happened.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until a condition holds, and panics if it never does.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    assert!(came_true(condition).await, "it never came true that {what}");
}

/// Waits until a condition holds; false if it never does.
pub async fn came_true(condition: impl AsyncFn() -> bool) -> bool {
    let begun = Instant::now();
    while !condition().await {
        if begun.elapsed() >= WAIT_MAX {
            return false;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    true
}

/// A running program; it ends with this value.
pub struct Process(Child);

impl Process {
    /// Starts a program that reads nothing, and whose standard output nobody reads.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| {
            let program = command.get_program().to_string_lossy();
            panic!("{program} can't be started: {error}")
        });
        Self(child)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills it without a warning, if it has not ended by itself, and waits until it is gone.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
