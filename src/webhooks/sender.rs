//! Sends messages to webhooks over HTTP, to no address that is not for everybody.
//!
//! What is checked is the address that is dialled: a name is looked up once for each try, and only those of its addresses are
//! dialled that were found to be global unicast. So a name that leads elsewhere a moment later leads nowhere. There is no proxy,
//! no redirect is followed, and no connection is used twice.

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
/// The longest time for all of a try.
const TRY_TIMEOUT: Duration = Duration::from_secs(15);
/// How many bytes of a connection are read: of TLS, of answers that only announce another one (1xx), and of the answer.
const READ_BYTES_MAX: u64 = 128 << 10;
/// How much is kept of why a try has failed, in bytes.
const ERROR_BYTES_MAX: usize = 200;

/// A name that is being looked up: all addresses that it has now.
type Looking = BoxFuture<'static, io::Result<Vec<IpAddr>>>;

/// Looks a name up as the system does.
fn look_up(name: String) -> Looking {
    Box::pin(async move {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    })
}

/// What sends the messages of an engine.
pub fn of(engine: &Engine) -> &Sender {
    engine.states.get()
}

/// Sends messages.
#[derive(Debug)]
pub struct Sender {
    /// Whether receivers may be anywhere, also without TLS.
    pub allows_private: bool,
    look_up: fn(String) -> Looking,
    /// Made when it is first needed: a small container has no certificates, and needs none without TLS.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Default for Sender {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Sender {
    /// A sender; with `allows_private` its receivers may be anywhere, also without TLS.
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
        let sent = sent.unwrap_or_else(|_| Err("it took more than 15 s".to_owned()));
        let (status, error) = match sent {
            Ok((response, _connection)) => {
                let status = response.status().as_u16();
                // What is left of the answer makes no difference, and is bounded as the connection is.
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

    /// Sends a request, and returns the head of its answer, with the connection that the body comes by.
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
            // The one who sends is told how it ends.
            let _ = connection.await;
        });
        let connection = AbortOnDropHandle::new(connection);
        let response = sender.send_request(request).await.map_err(root_cause)?;
        Ok((response, connection))
    }

    /// Connects with one of the addresses that may be dialled.
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

    /// Those addresses of a name that may be dialled.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut addresses = (self.look_up)(name.to_owned()).await?;
        addresses.retain(|address| self.allows_private || is_global_unicast(*address));
        if addresses.is_empty() {
            let detail = "the name has no address that is global unicast";
            return Err(io::Error::other(detail));
        }
        Ok(addresses)
    }

    fn tls(&self) -> Result<TlsConnector, String> {
        let config = self.tls.get_or_init(|| {
            // It fails if the process has a provider already, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let config = ClientConfig::with_platform_verifier();
            config.map(Arc::new).map_err(root_cause)
        });
        config.clone().map(TlsConnector::from)
    }
}

/// Dials one address after the other until one answers. Each has an equal part of the time.
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

/// With or without TLS.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// What a receiver sends. It fails when that is too much: the client of HTTP reads answers that announce another one without end.
struct Bounded(Take<OwnedReadHalf>);

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.limit() == 0 {
            let detail = "it sent more than 128 KiB";
            return Poll::Ready(Err(io::Error::other(detail)));
        }
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

/// Why an answer with this status says that the message was not taken.
fn error_of(status: u16) -> Option<String> {
    match status {
        200..=299 => None,
        300..=399 => Some(format!("{status}: redirects are not followed")),
        GONE => Some(format!("{status}: the receiver wants no more messages")),
        _ => Some(format!("the status is {status}")),
    }
}

/// What lies at the bottom of an error, bounded.
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

    /// Answers with a global address first, and with a loopback address from then on.
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

    /// Always answers with these.
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
        let found = sender.addresses("app.example").await;
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn a_name_that_leads_to_loopback_a_moment_later_leads_nowhere() {
        let sender = Sender {
            look_up: rebinding,
            ..Sender::new(false)
        };
        // What is dialled is what was checked: there is one look-up, and its result.
        assert_eq!(resolved(&sender).await.unwrap(), ["1.1.1.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let webhook = webhook(format!("https://app.example:{port}/"));
        let id = MessageId::named("msg_1");
        let now = Timestamp::from_ms_clamped(0);
        let tried = sender.send(&webhook, &id, "{}", now).await;
        let error = tried.error.unwrap();
        assert!(
            error.contains("no address that is global unicast"),
            "{error}"
        );
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
    async fn of_the_addresses_of_a_name_only_those_for_everybody_are_dialled() {
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
            assert!(error.contains("not global unicast"), "{error}");
        }
    }
}
