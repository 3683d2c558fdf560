//! Sends messages to webhooks over HTTP, to no address that is not for everybody.
//!
//! What is checked is the address that is dialled: a name is looked up once for each try, and only those of its addresses are
//! dialled that were found to be global unicast. So a name that leads elsewhere a moment later leads nowhere. There is no proxy,
//! no redirect is followed, and no connection is used twice.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, redirect};
use tokio::time::{Instant, timeout_at};

use crate::domain::address::is_global_unicast;
use crate::domain::delivery::Try;
use crate::domain::message::MessageId;
use crate::domain::time::Timestamp;
use crate::domain::webhook::{Webhook, check_url};

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for all of a try.
const TRY_TIMEOUT: Duration = Duration::from_secs(15);
/// The status of a receiver that wants no more messages.
const GONE: u16 = 410;
/// How much of an answer is read, in bytes. Nothing of it is kept.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How much is kept of why a try has failed, in bytes.
const ERROR_BYTES_MAX: usize = 200;

/// Looks up the addresses of a name.
pub trait Lookup: std::fmt::Debug + Send + Sync {
    /// All addresses that the name has now.
    fn addresses(&self, name: &str) -> Looking;
}

/// A name that is being looked up.
pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks names up as the system does.
#[derive(Debug)]
struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, name: &str) -> Looking {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// How a try has ended, and whether the receiver wants no more messages.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tried {
    /// How it has ended.
    pub end: Try,
    /// Whether the receiver has answered that it is gone for good (410).
    pub is_gone: bool,
}

/// Sends messages.
#[derive(Debug)]
pub struct Sender {
    /// Whether receivers may be anywhere, also without TLS.
    pub allows_private: bool,
    lookup: Arc<dyn Lookup>,
    /// With the certificates of the system, and without TLS.
    clients: [OnceLock<Result<Client, String>>; 2],
}

impl Default for Sender {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Sender {
    /// A sender; with `allows_private` its receivers may be anywhere, also without TLS.
    pub fn new(allows_private: bool) -> Self {
        Self::with_lookup(allows_private, Arc::new(SystemLookup))
    }

    fn with_lookup(allows_private: bool, lookup: Arc<dyn Lookup>) -> Self {
        Self {
            allows_private,
            lookup,
            clients: [OnceLock::new(), OnceLock::new()],
        }
    }

    /// Sends a message to a webhook once.
    pub async fn send(
        &self,
        webhook: &Webhook,
        id: &MessageId,
        body: &str,
        now: Timestamp,
    ) -> Tried {
        let deadline = Instant::now() + TRY_TIMEOUT;
        let sent = timeout_at(deadline, self.post(webhook, id, body, now)).await;
        let sent = sent.unwrap_or_else(|_| Err("it took more than 15 s".to_owned()));
        let (status, error) = match sent {
            Ok(response) => {
                let status = response.status().as_u16();
                // What is left of the answer makes no difference.
                let _ = timeout_at(deadline, read(response)).await;
                (Some(status), error_of(status))
            }
            Err(error) => (None, Some(error)),
        };
        let end = Try {
            at: now,
            status,
            error,
        };
        let is_gone = status == Some(GONE);
        Tried { end, is_gone }
    }

    async fn post(
        &self,
        webhook: &Webhook,
        id: &MessageId,
        body: &str,
        now: Timestamp,
    ) -> Result<Response, String> {
        let url = check_url(&webhook.url, self.allows_private)?;
        let client = self.client(url.scheme() == "https")?;
        let second = now.ms().div_euclid(1_000);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in [
            ("webhook-id", id.to_string()),
            ("webhook-timestamp", second.to_string()),
            ("webhook-signature", webhook.signatures(id, second, body)),
        ] {
            let value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
            headers.insert(name, value);
        }
        let request = client.post(url).headers(headers).body(body.to_owned());
        request.send().await.map_err(|error| root_cause(&error))
    }

    /// The client, which is made when it is first needed: a small container has no certificates, and needs none without TLS.
    fn client(&self, is_tls: bool) -> Result<&Client, String> {
        let client = self.clients[usize::from(is_tls)].get_or_init(|| {
            // It fails if the process has a provider already, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let mut builder = Client::builder()
                .user_agent(concat!("standings/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_TIMEOUT)
                .timeout(TRY_TIMEOUT)
                .redirect(redirect::Policy::none())
                .referer(false)
                .no_proxy()
                .pool_max_idle_per_host(0)
                .https_only(is_tls)
                .dns_resolver(CheckedNames {
                    allows_private: self.allows_private,
                    lookup: Arc::clone(&self.lookup),
                });
            if !is_tls {
                builder = builder.tls_certs_only([]);
            }
            builder.build().map_err(|error| root_cause(&error))
        });
        client.as_ref().map_err(Clone::clone)
    }
}

/// Gives a client those addresses of a name that it may dial.
#[derive(Clone)]
struct CheckedNames {
    allows_private: bool,
    lookup: Arc<dyn Lookup>,
}

impl Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, allows_private) = (self.lookup.addresses(name.as_str()), self.allows_private);
        Box::pin(async move {
            let mut addresses = found.await?;
            addresses.retain(|address| allows_private || is_global_unicast(*address));
            if addresses.is_empty() {
                let detail = "the name has no address that is global unicast";
                return Err(io::Error::other(detail).into());
            }
            // The port of the URL takes the place of 0.
            let sockets = addresses
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(sockets) as Addrs)
        })
    }
}

/// Reads a bounded part of an answer, and keeps nothing.
async fn read(mut response: Response) {
    let mut length = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        length += chunk.len();
        if length > ANSWER_BYTES_MAX {
            break;
        }
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

/// What lies at the bottom of an error, bounded and without the URL.
fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        let detail = if error.is_connect() {
            "no connection within 5 s"
        } else {
            "it took more than 15 s"
        };
        return detail.to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
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

    /// Answers with a global address first, and with a loopback address from then on.
    #[derive(Debug, Default)]
    struct Rebinding(AtomicUsize);

    impl Lookup for Rebinding {
        fn addresses(&self, _: &str) -> Looking {
            let is_first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
            let address = if is_first { "1.1.1.1" } else { "127.0.0.1" };
            Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
        }
    }

    /// Always answers with these.
    #[derive(Debug)]
    struct Always(&'static [&'static str]);

    impl Lookup for Always {
        fn addresses(&self, _: &str) -> Looking {
            let addresses = self.0.iter().map(|text| text.parse().unwrap()).collect();
            Box::pin(async move { Ok(addresses) })
        }
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

    async fn resolved(names: &CheckedNames) -> Result<Vec<String>, String> {
        let found = names.resolve("app.example".parse().unwrap()).await;
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.map(|address| address.ip().to_string()).collect())
    }

    #[tokio::test]
    async fn a_name_that_leads_to_loopback_a_moment_later_leads_nowhere() {
        let lookup = Arc::new(Rebinding::default());
        let names = CheckedNames {
            allows_private: false,
            lookup: lookup.clone(),
        };
        // What is dialled is what was checked: there is one look-up, and its result.
        assert_eq!(resolved(&names).await.unwrap(), ["1.1.1.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sender = Sender::with_lookup(false, lookup.clone());
        let webhook = webhook(format!("https://app.example:{port}/"));
        let id = MessageId::named("msg_1");
        let now = Timestamp::from_ms_clamped(0);
        let tried = sender.send(&webhook, &id, "{}", now).await;
        let error = tried.end.error.unwrap();
        assert!(
            error.contains("no address that is global unicast"),
            "{error}"
        );
        assert_eq!(
            lookup.0.load(Ordering::SeqCst),
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
        let mixed = &[
            "10.0.0.1",
            "1.1.1.1",
            "::1",
            "::ffff:127.0.0.1",
            "2606:4700::1111",
        ];
        let names = |allows_private| CheckedNames {
            allows_private,
            lookup: Arc::new(Always(mixed)),
        };
        let found = resolved(&names(false)).await.unwrap();
        assert_eq!(found, ["1.1.1.1", "2606:4700::1111"]);
        assert_eq!(resolved(&names(true)).await.unwrap().len(), mixed.len());
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
            let error = tried.end.error.unwrap();
            assert!(error.contains("not global unicast"), "{error}");
        }
    }
}
