//! TLS before a server that has none.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::task::AbortOnDropHandle;

use super::client::install_tls_provider;
use super::repository;

/// Passes on what is sent to its port by TLS; it ends with this value.
pub struct TlsFront {
    pub port: u16,
    _passing: AbortOnDropHandle<()>,
}

/// The certificate of the private authority that has signed the one of [`TlsFront`], for `localhost`.
pub fn authority() -> PathBuf {
    fixture("ca.pem")
}

fn fixture(name: &str) -> PathBuf {
    repository().join("tests/fixtures/tls").join(name)
}

impl TlsFront {
    /// TLS before this port of the machine.
    pub async fn before(port: &str) -> Self {
        install_tls_provider();
        let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let target = format!("127.0.0.1:{port}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let passing = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let (acceptor, target) = (acceptor.clone(), target.clone());
                tokio::spawn(async move {
                    // Who speaks no TLS, or does not trust the certificate, is gone.
                    let Ok(mut near) = acceptor.accept(near).await else {
                        return;
                    };
                    let mut far = TcpStream::connect(&target).await.unwrap();
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self {
            port,
            _passing: AbortOnDropHandle::new(passing),
        }
    }
}
