//! Detects whether a server speaks TLS. If the URL says otherwise, the client library only reports that the server does not
//! answer.

use std::sync::Arc;
use std::time::Duration;

use fred::types::config::{Config, Server};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::StoreError;
use super::failure::NO_TLS;

/// How long a server may take to connect and to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// The first byte of a TLS answer: a handshake, or an alert.
const TLS_BEGINNINGS: [u8; 2] = [22, 21];
/// The first byte of a Redis answer: a text, or an error.
const REDIS_BEGINNINGS: &[u8] = b"+-";

/// Fails with [`StoreError::Unusable`] if a server speaks TLS but should not, or vice versa. Ignores servers that do not
/// answer.
pub(crate) async fn check_protocol(config: &Config) -> Result<(), StoreError> {
    for server in config.server.hosts() {
        if config.tls.is_some() {
            if REDIS_BEGINNINGS.contains(&first_byte(&server, b"PING\r\n").await) {
                return Err(StoreError::Unusable(NO_TLS.into()));
            }
        } else if let Some(hello) = hello()
            && TLS_BEGINNINGS.contains(&first_byte(&server, &hello).await)
        {
            let text = "the server uses TLS on this port: use rediss:// instead of redis://";
            return Err(StoreError::Unusable(text.into()));
        }
    }
    Ok(())
}

/// The first message of a TLS client.
fn hello() -> Option<Vec<u8>> {
    let config = ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    // A server answers whatever its name is, and that is enough.
    let name = ServerName::try_from("localhost").ok()?;
    let mut client = ClientConnection::new(Arc::new(config), name).ok()?;
    let mut hello = Vec::new();
    client.write_tls(&mut hello).ok()?;
    Some(hello)
}

/// The first byte of a server's answer; zero if there is none.
async fn first_byte(server: &Server, message: &[u8]) -> u8 {
    let asked = async {
        let mut stream = TcpStream::connect((&*server.host, server.port))
            .await
            .ok()?;
        stream.write_all(message).await.ok()?;
        stream.read_u8().await.ok()
    };
    let answer = tokio::time::timeout(ANSWER_TIME_MAX, asked).await;
    answer.ok().flatten().unwrap_or_default()
}
