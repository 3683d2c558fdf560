//! Receivers of webhooks, good ones and bad ones.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// How a receiver answers.
#[derive(Clone, Debug)]
pub enum Manner {
    /// With this status.
    Status(u16),
    /// Never.
    Hangs,
    /// With answers that announce another one, for ever.
    Announces,
    /// With a byte of a head now and then, for ever.
    DripsHeads,
    /// With 200, and then with a byte of a body now and then, for ever.
    DripsBodies,
    /// With 200, and a body that has no end.
    Floods,
    /// With 200, and a body of another length than it says.
    Lies,
    /// By leading elsewhere.
    Redirects(String),
    /// Not at all: it ends the connection.
    Ends,
}

/// A message as it was received.
#[derive(Clone, Debug)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: String,
}

impl Received {
    pub fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Whether one of its signatures is by this secret, as a library of others makes it.
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let second = self.headers["webhook-timestamp"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        let library = Webhook::new(secret).unwrap();
        let expected = library
            .sign(self.id(), second, self.body.as_bytes())
            .unwrap();
        let signatures = self.headers["webhook-signature"].to_str().unwrap();
        signatures.split(' ').any(|signature| signature == expected)
    }
}

/// Receives messages on a port of this machine, until it is dropped.
pub struct Receiver {
    pub port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    manner: Arc<Mutex<Manner>>,
    _receiving: AbortOnDropHandle<()>,
}

impl Receiver {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let manner = Arc::new(Mutex::new(manner));
        let (to, by) = (Arc::clone(&received), Arc::clone(&manner));
        let receiving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (to, manner) = (Arc::clone(&to), by.lock().clone());
                tokio::spawn(async move {
                    // Who has had enough of a bad receiver is gone.
                    let _ = receive(stream, &to, manner).await;
                });
            }
        });
        Self {
            port,
            received,
            manner,
            _receiving: AbortOnDropHandle::new(receiving),
        }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?x=1", self.port)
    }

    pub fn set(&self, manner: Manner) {
        *self.manner.lock() = manner;
    }

    /// What it has received so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    pub fn count(&self) -> usize {
        self.received.lock().len()
    }
}

async fn receive(
    stream: TcpStream,
    to: &Mutex<Vec<Received>>,
    manner: Manner,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut headers, mut line) = (HeaderMap::new(), String::new());
    stream.read_line(&mut line).await?;
    assert!(line.starts_with("POST /hook?x=1 HTTP/1.1"), "{line}");
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        let name: HeaderName = name.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    let length = headers["content-length"].to_str().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await?;
    let body = String::from_utf8(body).unwrap();
    to.lock().push(Received { headers, body });
    answer(stream.get_mut(), manner).await
}

async fn answer(stream: &mut TcpStream, manner: Manner) -> std::io::Result<()> {
    let ok = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
    match manner {
        Manner::Status(status) => {
            let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
            stream.write_all(text.as_bytes()).await
        }
        Manner::Hangs => std::future::pending().await,
        Manner::Announces => {
            let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".repeat(1_000);
            loop {
                stream.write_all(&hints).await?;
            }
        }
        Manner::DripsHeads => {
            stream.write_all(ok).await?;
            stream.write_all(b"X-Drip: ").await?;
            drip(stream).await
        }
        Manner::DripsBodies => {
            stream.write_all(ok).await?;
            stream.write_all(b"Content-Length: 1000000\r\n\r\n").await?;
            drip(stream).await
        }
        Manner::Floods => {
            stream.write_all(ok).await?;
            stream
                .write_all(b"Transfer-Encoding: chunked\r\n\r\n")
                .await?;
            let chunk = [&b"10000\r\n"[..], &vec![b'x'; 0x10000], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk).await?;
            }
        }
        Manner::Lies => {
            stream.write_all(ok).await?;
            stream
                .write_all(b"Content-Length: 9999999999999\r\n\r\nok")
                .await
        }
        Manner::Redirects(url) => {
            let text =
                format!("HTTP/1.1 307 Elsewhere\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(text.as_bytes()).await
        }
        Manner::Ends => Ok(()),
    }
}

async fn drip(stream: &mut TcpStream) -> std::io::Result<()> {
    loop {
        stream.write_all(b"x").await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
