//! The reference H: an HTTP server set up as the service is, which parses the same body and gives the same
//! answer, and does nothing else, or no more than one `XADD`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use clap::Args;
use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ServerConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use serde::Deserialize;
use serde_json::value::RawValue;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use crate::Result;
use crate::kit::process::eventually;
use crate::process::Process;
use crate::redis::Redis;
use crate::service::{Kept, free_address};

/// What the server answers, and where.
#[derive(Args, Debug)]
pub struct BareArgs {
    /// The address to serve on.
    #[arg(long)]
    listen: SocketAddr,
    /// The status of every answer.
    #[arg(long)]
    status: u16,
    /// A header of every answer, as `name: value`.
    #[arg(long = "header")]
    headers: Vec<String>,
    /// A file with the body of every answer.
    #[arg(long)]
    body: PathBuf,
    /// The socket of the Redis server to whose stream it appends each event.
    #[arg(long)]
    redis: Option<PathBuf>,
}

/// The stream that it appends to.
pub const STREAM: &str = "h:stream";

/// An event, parsed as the service parses it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    member: Cow<'a, str>,
    #[serde(borrow)]
    score: &'a RawValue,
    #[serde(borrow, default)]
    at: Option<Cow<'a, str>>,
}

/// A server that repeats one answer; it ends with this value.
pub struct Bare {
    process: Process,
    address: SocketAddr,
    _body: NamedTempFile,
}

impl Bare {
    /// Starts a server that repeats this answer.
    pub async fn start(answer: &Kept) -> Result<Self> {
        Self::start_with(answer, &[]).await
    }

    /// The same that appends each event to [`STREAM`] first.
    pub async fn start_appending(answer: &Kept, redis: &Redis) -> Result<Self> {
        let socket = redis.socket();
        Self::start_with(answer, &["--redis".as_ref(), socket.as_os_str()]).await
    }

    async fn start_with(answer: &Kept, arguments: &[&OsStr]) -> Result<Self> {
        let body = NamedTempFile::new()?;
        std::fs::write(body.path(), &answer.body)?;
        let address = free_address();
        let headers = answer.headers.iter();
        let process = Process::start(
            Command::new(std::env::current_exe()?)
                .args(["bare", "--listen", &address.to_string()])
                .args(["--status", &answer.status.to_string(), "--body"])
                .arg(body.path())
                .args(arguments)
                .args(headers.map(|(name, value)| format!("--header={name}: {value}"))),
        );
        let is_ready = async || tokio::net::TcpStream::connect(address).await.is_ok();
        eventually("the reference is ready", is_ready).await;
        Ok(Self {
            process,
            address,
            _body: body,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// The answer as the server holds it.
#[derive(Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (self.status, self.headers, self.body).into_response()
    }
}

/// Serves until the process is ended.
pub fn run(args: &BareArgs) -> Result<()> {
    let answer = Answer {
        status: StatusCode::from_u16(args.status)?,
        headers: args
            .headers
            .iter()
            .map(|header| parse_header(header))
            .collect::<Result<_>>()?,
        body: std::fs::read(&args.body)?.into(),
    };
    // The same as in `src/main.rs`.
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.listen).await?.tap_io(|connection| {
            // As in the service; a connection without it is only slower.
            let _ = connection.set_nodelay(true);
        });
        let app = match &args.redis {
            Some(socket) => appending(answer, connect(socket).await?),
            None => router(answer),
        };
        axum::serve(listener, app).await?;
        Ok(())
    })
}

fn parse_header(header: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = header.split_once(": ").ok_or("a header without a colon")?;
    Ok((name.parse()?, value.parse()?))
}

fn router(answer: Answer) -> Router {
    let posted = answer.clone();
    let post = async move |body: Bytes| match parse_event(&body) {
        Some(_) => posted.into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    };
    Router::new().route("/{*path}", get(async move || answer).post(post))
}

/// The id of the event that a body is, if it has one.
fn parse_event(body: &[u8]) -> Option<String> {
    let event: Event<'_> = serde_json::from_slice(body).ok()?;
    std::hint::black_box((&event.member, event.score, &event.at));
    Some(event.id.unwrap_or_default().into_owned())
}

async fn connect(socket: &Path) -> Result<Client> {
    let config = Config {
        server: ServerConfig::new_unix_socket(socket),
        ..Config::default()
    };
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    Ok(client)
}

fn appending(answer: Answer, client: Client) -> Router {
    let post = async move |body: Bytes| match parse_event(&body) {
        Some(id) => {
            let command = CustomCommand::new_static("XADD", ClusterHash::FirstKey, false);
            let words: Vec<Value> = vec![
                STREAM.into(),
                "*".into(),
                "id".into(),
                id.into(),
                "event".into(),
                body.into(),
            ];
            match client.custom::<String, _>(command, words).await {
                Ok(_) => answer.into_response(),
                Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            }
        }
        None => StatusCode::BAD_REQUEST.into_response(),
    };
    Router::new().route("/{*path}", axum::routing::post(post))
}
