//! The reference H: an HTTP server set up as the service is, which parses the same body and gives the same
//! answer, and does nothing else.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use crate::Result;
use crate::kit::process::eventually;
use crate::process::Process;
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
}

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
        let body = NamedTempFile::new()?;
        std::fs::write(body.path(), &answer.body)?;
        let address = free_address();
        let headers = answer.headers.iter();
        let process = Process::start(
            Command::new(std::env::current_exe()?)
                .args(["bare", "--listen", &address.to_string()])
                .args(["--status", &answer.status.to_string(), "--body"])
                .arg(body.path())
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
        axum::serve(listener, router(answer)).await?;
        Ok(())
    })
}

fn parse_header(header: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = header.split_once(": ").ok_or("a header without a colon")?;
    Ok((name.parse()?, value.parse()?))
}

fn router(answer: Answer) -> Router {
    let posted = answer.clone();
    let post = async move |body: Bytes| match serde_json::from_slice::<Event<'_>>(&body) {
        Ok(event) => {
            std::hint::black_box((&event.id, &event.member, event.score, &event.at));
            posted.into_response()
        }
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    };
    Router::new().route("/{*path}", get(async move || answer).post(post))
}
