//! The listener: TLS, then HTTP/1.1 or HTTP/2 into the router.
//!
//! A client may show a certificate. It is checked *after* the handshake, so that a foreign or expired one is
//! answered with a 401 `Status` that says what to do, not with a TLS alert that says nothing. The handshake
//! itself still proves that the client holds the certificate's key.
//!
//! A client that dawdles is cut off: in the handshake, before its first request, and in its headers. Beyond
//! the connection limit new clients wait in the kernel's queue.

mod verifier;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use parking_lot::RwLock;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub use verifier::{Certificate, Rejected};

use crate::pki::Pki;

/// How patient the listener is.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections served at once.
    pub connections: usize,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// Between the handshake and the first request.
    pub first_request: Duration,
    /// For the headers of a request, counted from the end of the one before.
    pub headers: Duration,
    /// For requests still running when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(30),
            headers: Duration::from_secs(90),
            drain: Duration::from_secs(5),
        }
    }
}

/// The certificates do not fit together.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// PEM that is not PEM.
    #[error("a certificate or key is not valid PEM")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// rustls refuses them.
    #[error("the certificates cannot be used for TLS")]
    Tls(#[from] rustls::Error),
    /// The authority cannot be trusted.
    #[error("the authority's certificate cannot verify clients")]
    Authority(#[from] rustls::server::VerifierBuilderError),
}

/// What connections are accepted with; replaced when certificates are renewed.
#[derive(Clone)]
struct Terms {
    acceptor: TlsAcceptor,
    clients: Arc<verifier::Clients>,
}

impl Terms {
    fn new(pki: &Pki) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = Arc::new(verifier::Clients::new(&pki.authority, &provider)?);
        let chain =
            CertificateDer::pem_slice_iter(pki.serving.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(pki.serving.key.as_bytes())?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(verifier::Ask::new(&clients)))
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), clients })
    }
}

/// Lets the certificates be replaced while the server runs. Open connections keep theirs.
#[derive(Clone)]
pub struct Renewal(Arc<RwLock<Terms>>);

impl Renewal {
    /// New connections get these certificates.
    pub fn replace(&self, pki: &Pki) -> Result<(), Error> {
        *self.0.write() = Terms::new(pki)?;
        Ok(())
    }
}

/// A bound socket, ready to serve.
pub struct Listener {
    tcp: TcpListener,
    terms: Arc<RwLock<Terms>>,
    limits: Limits,
}

impl Listener {
    /// Serves what is accepted on `tcp` with these certificates.
    pub fn new(tcp: TcpListener, pki: &Pki, limits: Limits) -> Result<Self, Error> {
        Ok(Self { tcp, terms: Arc::new(RwLock::new(Terms::new(pki)?)), limits })
    }

    /// Where it listens (the real port, when 0 was asked for).
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The handle that replaces certificates.
    pub fn renewal(&self) -> Renewal {
        Renewal(Arc::clone(&self.terms))
    }

    /// Serves until `stop`, then lets running requests finish within the drain limit.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(self.limits.connections));
        let abort = CancellationToken::new();
        let _abort_on_drop = abort.clone().drop_guard();
        while let Some((stream, address, permit)) = self.accept(&room, &stop).await {
            let connection = Connection {
                address,
                terms: self.terms.read().clone(),
                router: router.clone(),
                limits: self.limits.clone(),
                watcher: graceful.watcher(),
            };
            let (abort, stop) = (abort.clone(), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = connection.run(stream, &stop) => {}
                    () = abort.cancelled() => {}
                }
                drop(permit);
            });
        }
        // Whoever comes now should be refused at once, not wait in a queue that nobody serves.
        drop(self.tcp);
        if tokio::time::timeout(self.limits.drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests were still running when the drain limit passed; they are cut off");
        }
    }

    /// The next connection, once there is room for it; `None` when it is time to stop.
    async fn accept(
        &self,
        room: &Arc<Semaphore>,
        stop: &CancellationToken,
    ) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let permit = tokio::select! {
            permit = Arc::clone(room).acquire_owned() => permit.ok()?,
            () = stop.cancelled() => return None,
        };
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                () = stop.cancelled() => return None,
            };
            match accepted {
                Ok((stream, address)) => return Some((stream, address, permit)),
                Err(error) => {
                    // Out of file descriptors, mostly: others finish and free some.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// One accepted connection.
struct Connection {
    address: SocketAddr,
    terms: Terms,
    router: Router,
    limits: Limits,
    watcher: Watcher,
}

impl Connection {
    async fn run(self, stream: TcpStream, stop: &CancellationToken) {
        let Self { address, terms, router, limits, watcher } = self;
        let _ = stream.set_nodelay(true);
        let handshake = tokio::time::timeout(limits.handshake, terms.acceptor.accept(stream));
        let stream = tokio::select! {
            handshake = handshake => match handshake {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%address, %error, "TLS handshake failed"),
                Err(_) => return tracing::debug!(%address, "TLS handshake took too long"),
            },
            () = stop.cancelled() => return,
        };
        let certificate = stream.get_ref().1.peer_certificates().map(|chain| Arc::new(terms.clients.check(chain)));
        let asked = Arc::new(AtomicBool::new(false));
        let service = {
            let asked = Arc::clone(&asked);
            hyper::service::service_fn(move |mut request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                if let Some(certificate) = &certificate {
                    request.extensions_mut().insert(Arc::clone(certificate));
                }
                router.clone().oneshot(request.map(Body::new))
            })
        };
        let server = http(&limits);
        let serving = watcher.watch(server.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned());
        let silence = async {
            tokio::time::sleep(limits.first_request).await;
            if asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            result = serving => if let Err(error) = result {
                tracing::debug!(%address, %error, "connection ended");
            },
            () = silence => tracing::debug!(%address, "connection closed: no request came"),
        }
    }
}

fn http(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_concurrent_streams(1_000)
        .max_header_list_size(64 * 1024);
    builder
}
