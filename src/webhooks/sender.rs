//! Sends messages to webhooks over HTTP, only to public addresses.
//!
//! It checks the address that it dials: a name is resolved once per try, and only those of its addresses that are global
//! unicast are dialled. So DNS rebinding has no effect. It uses no proxy, follows no redirects, and reuses no connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::{Host, Position, Url};

use crate::core::Engine;
use crate::domain::address::is_global_unicast;
use crate::domain::delivery::{GONE, Try};
use crate::domain::message::MessageId;
use crate::domain::time::Timestamp;
use crate::domain::webhook::{Webhook, check_url};

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of a whole try.
const TRY_TIMEOUT: Duration = Duration::from_secs(15);
/// How many bytes of a connection are read: TLS, informational responses (1xx), and the response.
const READ_BYTES_MAX: u64 = 128 << 10;
/// How many bytes of a try's error are kept.
const ERROR_BYTES_MAX: usize = 200;

/// A name lookup in progress: all of the name's current addresses.
type Looking = BoxFuture<'static, io::Result<Vec<IpAddr>>>;

/// Resolves a name as the system does.
fn look_up(name: String) -> Looking {
    Box::pin(async move {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    })
}

pub fn of(engine: &Engine) -> &Sender {
    engine.states.get()
}

#[derive(Debug)]
pub struct Sender {
    /// Whether receivers may have any address, and need no TLS.
    pub allows_private: bool,
    look_up: fn(String) -> Looking,
    /// Created when first needed: a small container has no certificates, and needs none without TLS.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Default for Sender {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Sender {
    /// A sender; with `allows_private`, receivers may have any address and need no TLS.
    pub fn new(allows_private: bool) -> Self {
        Self {
            allows_private,
            look_up,
            tls: OnceLock::new(),
        }
    }

    /// Sends a message to a webhook once.
    pub async fn send(&self, webhook: &Webhook, id: &MessageId, body: &str, now: Timestamp) -> Try {
        let deadline = Instant::now() + TRY_TIMEOUT;
        let sent = timeout_at(deadline, self.post(webhook, id, body, now)).await;
        let sent = sent.unwrap_or_else(|_| Err("the receiver took more than 15 s".to_owned()));
        let (status, error) = match sent {
            Ok((response, _connection)) => {
                let status = response.status().as_u16();
                // The rest of the response doesn't matter, and the connection bounds it.
                let _ = timeout_at(deadline, response.collect()).await;
                (Some(status), error_of(status))
            }
            Err(error) => (None, Some(error)),
        };
        Try {
            at: now,
            status,
            error,
        }
    }

    /// Sends a request, and returns the head of the response, with the connection that the body comes by.
    async fn post(
        &self,
        webhook: &Webhook,
        id: &MessageId,
        body: &str,
        now: Timestamp,
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), String> {
        let url = check_url(&webhook.url, self.allows_private)?;
        let second = now.ms().div_euclid(1_000);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
            .header(USER_AGENT, concat!("standings/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "*/*")
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id.to_string())
            .header("webhook-timestamp", second.to_string())
            .header("webhook-signature", webhook.signatures(id, second, body))
            .body(Full::<Bytes>::from(body.to_owned()))
            .map_err(|error| error.to_string())?;
        let connected = timeout(CONNECT_TIMEOUT, self.connect(&url)).await;
        let connection = connected.map_err(|_| "no connection within 5 s")??;
        let (mut sender, connection) = http1::handshake(TokioIo::new(connection))
            .await
            .map_err(root_cause)?;
        let connection = tokio::spawn(async move {
            // The caller gets the error from the request itself.
            let _ = connection.await;
        });
        let connection = AbortOnDropHandle::new(connection);
        let response = sender.send_request(request).await.map_err(root_cause)?;
        Ok((response, connection))
    }

    /// Connects to one of the allowed addresses.
    async fn connect(&self, url: &Url) -> Result<Box<dyn Connection>, String> {
        let (name, addresses) = match url.host() {
            Some(Host::Ipv4(address)) => (IpAddr::from(address).into(), vec![address.into()]),
            Some(Host::Ipv6(address)) => (IpAddr::from(address).into(), vec![address.into()]),
            Some(Host::Domain(name)) => {
                let server = ServerName::try_from(name.to_owned()).map_err(root_cause)?;
                (server, self.addresses(name).await.map_err(root_cause)?)
            }
            None => return Err("the URL has no host".to_owned()),
        };
        let port = url.port_or_known_default().unwrap_or_default();
        let stream = dial(&addresses, port).await;
        let (read, write) = stream.map_err(root_cause)?.into_split();
        let stream = tokio::io::join(Bounded(read.take(READ_BYTES_MAX)), write);
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let stream = self.tls()?.connect(name, stream).await;
        Ok(Box::new(stream.map_err(root_cause)?))
    }

    /// The allowed addresses of a name.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut addresses = (self.look_up)(name.to_owned()).await?;
        addresses.retain(|address| self.allows_private || is_global_unicast(*address));
        if addresses.is_empty() {
            let detail = "the host has no public address";
            return Err(io::Error::other(detail));
        }
        Ok(addresses)
    }

    fn tls(&self) -> Result<TlsConnector, String> {
        let config = self.tls.get_or_init(|| {
            // Fails if the process already has a provider, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let config = ClientConfig::with_platform_verifier();
            config.map(Arc::new).map_err(root_cause)
        });
        config.clone().map(TlsConnector::from)
    }
}

/// Dials one address after the other until one accepts, sharing the time equally.
async fn dial(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let parts = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    for address in addresses {
        let dialled = TcpStream::connect(SocketAddr::new(*address, port));
        match timeout(CONNECT_TIMEOUT / parts, dialled).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::Error::other("no connection within 5 s"),
        }
    }
    Err(failed)
}

/// A connection, with or without TLS.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// What a receiver sends, limited: otherwise the HTTP client would read informational responses endlessly.
struct Bounded(Take<OwnedReadHalf>);

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.limit() == 0 {
            let detail = "the receiver sent more than 128 KiB";
            return Poll::Ready(Err(io::Error::other(detail)));
        }
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

/// The error for a status which means that the message was not accepted.
fn error_of(status: u16) -> Option<String> {
    match status {
        200..=299 => None,
        300..=399 => Some(format!("{status}: redirects are not followed")),
        GONE => Some(format!("{status}: the receiver wants no more messages")),
        _ => Some(format!("the status is {status}")),
    }
}

/// The root cause of an error, truncated.
fn root_cause(error: impl std::error::Error + 'static) -> String {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let mut text = cause.to_string();
    text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;
    use crate::domain::access::Boards;
    use crate::domain::webhook::{SECRET_BYTES, SigningSecret};

    static LOOK_UPS: AtomicUsize = AtomicUsize::new(0);

    /// Returns a global address first, and a loopback address from then on.
    fn rebinding(_: String) -> Looking {
        let is_first = LOOK_UPS.fetch_add(1, Ordering::SeqCst) == 0;
        let address = if is_first { "1.1.1.1" } else { "127.0.0.1" };
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
    }

    const MIXED: [&str; 5] = [
        "10.0.0.1",
        "1.1.1.1",
        "::1",
        "::ffff:127.0.0.1",
        "2606:4700::1111",
    ];

    /// Always returns these.
    fn mixed(_: String) -> Looking {
        let addresses = MIXED.map(|text| text.parse().unwrap());
        Box::pin(async move { Ok(addresses.into()) })
    }

    fn webhook(url: String) -> Webhook {
        Webhook {
            url,
            events: Vec::new(),
            boards: Boards::all(),
            secret: SigningSecret::of([7; SECRET_BYTES]),
            previous: None,
            created_at: Timestamp::from_ms_clamped(0),
            key: None,
            disabled: None,
            tests: 0,
        }
    }

    async fn resolved(sender: &Sender) -> Result<Vec<String>, String> {
        let found = sender
            .addresses("app.example")
            .await
            .map_err(|error| error.to_string())?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn a_name_that_later_resolves_to_loopback_is_refused() {
        let sender = Sender {
            look_up: rebinding,
            ..Sender::new(false)
        };
        // The dialled address is the checked one: there is one lookup, with one result.
        assert_eq!(resolved(&sender).await.unwrap(), ["1.1.1.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let webhook = webhook(format!("https://app.example:{port}/"));
        let id = MessageId::named("msg_1");
        let now = Timestamp::from_ms_clamped(0);
        let tried = sender.send(&webhook, &id, "{}", now).await;
        let error = tried.error.unwrap();
        assert!(error.contains("the host has no public address"), "{error}");
        assert_eq!(
            LOOK_UPS.load(Ordering::SeqCst),
            2,
            "one look-up for each try"
        );
        let nobody = std::future::poll_fn(|context| {
            std::task::Poll::Ready(listener.poll_accept(context).is_pending())
        });
        assert!(nobody.await, "nobody has dialled");
    }

    #[tokio::test]
    async fn only_public_addresses_of_a_name_are_dialled() {
        let names = |allows_private| Sender {
            look_up: mixed,
            ..Sender::new(allows_private)
        };
        let found = resolved(&names(false)).await.unwrap();
        assert_eq!(found, ["1.1.1.1", "2606:4700::1111"]);
        assert_eq!(resolved(&names(true)).await.unwrap().len(), MIXED.len());
    }

    #[tokio::test]
    async fn an_address_in_a_url_is_checked_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let id = MessageId::named("msg_1");
        let now = Timestamp::from_ms_clamped(0);
        // It was stored while private receivers were allowed.
        for host in ["127.0.0.1", "0x7f000001", "[::ffff:127.0.0.1]"] {
            let webhook = webhook(format!("https://{host}:{port}/"));
            let tried = Sender::default().send(&webhook, &id, "{}", now).await;
            let error = tried.error.unwrap();
            assert!(error.contains("must be a public address"), "{error}");
        }
    }
}
