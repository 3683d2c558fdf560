//! A Redis server of one's own: a child process, on a socket in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::process::Process;
pub use super::process::eventually;

/// The folder of a server's append-only file.
const DATA: &str = "appendonlydir";

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// The server; it ends with this value.
pub struct RedisServer {
    directory: TempDir,
    arguments: Vec<String>,
    /// The size that a file of its can have, in blocks of `ulimit`; `None` for any.
    file_blocks_max: Option<u32>,
    process: Mutex<Process>,
}

impl RedisServer {
    pub async fn start() -> Self {
        Self::start_with(&["--port", "0"]).await
    }

    /// Starts it with further arguments.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::begin(arguments, None).await
    }

    /// Starts it where no file can have more than so many blocks: its append-only file meets a full disk.
    pub async fn start_on_small_disk(file_blocks_max: u32) -> Self {
        Self::begin(&["--port", "0"], Some(file_blocks_max)).await
    }

    async fn begin(arguments: &[&str], file_blocks_max: Option<u32>) -> Self {
        let directory = TempDir::new().unwrap();
        let arguments: Vec<String> = arguments.iter().copied().map(str::to_owned).collect();
        let process = spawn(directory.path(), &arguments, file_blocks_max);
        let server = Self {
            directory,
            arguments,
            file_blocks_max,
            process: Mutex::new(process),
        };
        server.wait_until_ready().await;
        server
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.lock().id()
    }

    async fn wait_until_ready(&self) {
        eventually("redis answers", async || {
            try_command(&self.socket(), "PING")
                .await
                .is_some_and(|pong| pong == "+PONG\r\n")
        })
        .await;
    }

    /// Kills the server without a warning; what it had acknowledged is in its append-only file.
    pub fn kill(&self) {
        self.process.lock().kill();
    }

    /// Has the server stop where it is, without an end, or go on.
    pub fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { "-STOP" } else { "-CONT" };
        let id = self.id().to_string();
        let sent = Command::new("kill").args([signal, "--", &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Starts it again.
    pub async fn restart(&self) {
        let directory = self.directory.path();
        *self.process.lock() = spawn(directory, &self.arguments, self.file_blocks_max);
        self.wait_until_ready().await;
    }

    /// Copies its data as it is now.
    pub fn copy_data(&self) -> TempDir {
        let copy = TempDir::new().unwrap();
        copy_files(&self.directory.path().join(DATA), copy.path());
        copy
    }

    /// Kills it, and starts it again with a copy of its data, or with none.
    pub async fn go_back(&self, copy: Option<&TempDir>) {
        self.kill();
        let data = self.directory.path().join(DATA);
        std::fs::remove_dir_all(&data).unwrap();
        if let Some(copy) = copy {
            copy_files(copy.path(), &data);
        }
        self.restart().await;
    }

    /// Sends one command, words separated by spaces, and returns the raw reply, up to 64 KiB.
    pub async fn command(&self, command: &str) -> String {
        raw_command(&self.socket(), command).await
    }

    /// Sends one command of any bytes and returns its reply.
    pub async fn run(&self, words: &[&[u8]]) -> Reply {
        run(&self.socket(), words).await
    }
}

/// Sends one command of any bytes to a server and returns its reply.
pub async fn run(socket: &Path, words: &[&[u8]]) -> Reply {
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        command.extend(format!("${}\r\n", word.len()).as_bytes());
        command.extend(*word);
        command.extend(b"\r\n");
    }
    let mut stream = BufReader::new(UnixStream::connect(socket).await.unwrap());
    stream.write_all(&command).await.unwrap();
    Reply::read(&mut stream).await
}

/// Sends one command to a server, words separated by spaces, and returns the raw reply, up to 64 KiB.
pub async fn raw_command(socket: &Path, command: &str) -> String {
    try_command(socket, command).await.unwrap()
}

/// The same; nothing if it does not listen.
pub async fn try_command(socket: &Path, command: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).await.ok()?;
    stream
        .write_all(format!("{command}\r\n").as_bytes())
        .await
        .ok()?;
    let mut reply = vec![0; 65_536];
    let length = stream.read(&mut reply).await.ok()?;
    reply.truncate(length);
    Some(String::from_utf8_lossy(&reply).into_owned())
}

/// A reply in the first version of Redis' protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Text(Vec<u8>),
    Integer(i64),
    List(Vec<Reply>),
    Error(String),
    Nil,
}

impl Reply {
    async fn read(stream: &mut BufReader<UnixStream>) -> Self {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match (kind, rest.parse::<i64>()) {
            ("+", _) => Self::text_of(rest),
            ("-", _) => Self::Error(rest.to_owned()),
            (":", Ok(number)) => Self::Integer(number),
            ("$" | "*", Ok(-1)) => Self::Nil,
            ("$", Ok(length)) => {
                let mut bytes = vec![0; usize::try_from(length).unwrap() + 2];
                stream.read_exact(&mut bytes).await.unwrap();
                bytes.truncate(bytes.len() - 2);
                Self::Text(bytes)
            }
            ("*", Ok(length)) => {
                let mut items = Vec::new();
                for _ in 0..length {
                    items.push(Box::pin(Self::read(stream)).await);
                }
                Self::List(items)
            }
            _ => panic!("no reply: {line:?}"),
        }
    }

    pub fn text_of(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }

    /// A list of texts.
    pub fn texts(texts: &[&str]) -> Self {
        Self::List(texts.iter().map(|text| Self::text_of(text)).collect())
    }

    #[track_caller]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            other => panic!("no list: {other:?}"),
        }
    }

    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            other => panic!("no text: {other:?}"),
        }
    }

    /// Whether this text stands anywhere in it.
    pub fn holds(&self, text: &str) -> bool {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes).contains(text),
            Self::List(items) => items.iter().any(|item| item.holds(text)),
            Self::Integer(_) | Self::Error(_) | Self::Nil => false,
        }
    }

    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

/// The program that the environment names, or the one on the path.
pub fn program() -> Command {
    let named = std::env::var_os("STANDINGS_REDIS_SERVER");
    Command::new(named.unwrap_or_else(|| "redis-server".into()))
}

/// Starts a server that writes all that is done down, unless the arguments say otherwise.
fn spawn(directory: &Path, arguments: &[String], file_blocks_max: Option<u32>) -> Process {
    let mut command = program();
    if let Some(blocks) = file_blocks_max {
        // Who ignores the signal is told by the error of the write, as with a full disk.
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &limited]).arg(command.get_program());
        command = shell;
    }
    command
        .args(["--unixsocket", "redis.sock", "--save", ""])
        .args(["--appendonly", "yes", "--appendfsync", "no"])
        .args(["--daemonize", "no", "--dir"])
        .arg(directory)
        .args(arguments)
        .current_dir(directory)
        .stderr(Stdio::null());
    Process::start(&mut command)
}
