//! A small client, the same for every server: HTTP/1.1 over TLS, one connection for each worker, as kube-rs does it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const JSON: &str = "application/json";

/// How to reach a server and who asks.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    tls: TlsConnector,
    token: Option<String>,
}

impl std::fmt::Debug for Target {
    /// Without the token.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Target").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Who asks.
pub enum Identity {
    /// A bearer token.
    Token(String),
    /// A client certificate and its key, PEM.
    Certificate(String, String),
}

impl Target {
    /// A server at an `https` URL with an address, trusted by its authority's certificate.
    pub fn new(url: &str, authority: &str, identity: Identity) -> Result<Self> {
        let address = url.strip_prefix("https://").context("not an https URL")?.trim_end_matches('/');
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let (config, token) = match identity {
            Identity::Token(token) => (builder.with_no_client_auth(), Some(token)),
            Identity::Certificate(certificate, key) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
                (builder.with_client_auth_cert(chain, key)?, None)
            }
        };
        Ok(Self { address: address.parse()?, tls: TlsConnector::from(Arc::new(config)), token })
    }

    /// Whether it says that it is ready.
    pub async fn is_ready(&self) -> bool {
        match self.connect().await {
            Ok(mut connection) => connection.get("/readyz").await.is_ok(),
            Err(_) => false,
        }
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, target: self.clone() })
    }
}

/// One connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    target: Target,
}

impl Connection {
    /// Sends a request and reads the whole answer.
    pub async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        let response = self.request(method, path, JSON, body).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Reads something that must be there.
    pub async fn get(&mut self, path: &str) -> Result<Bytes> {
        let (status, body) = self.send(Method::GET, path, Bytes::new()).await?;
        ensure!(status.is_success(), "GET {path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Another connection to the same server.
    pub async fn again(&self) -> Result<Self> {
        self.target.connect().await
    }

    /// Deletes an object.
    pub async fn delete(&mut self, path: &str) -> Result<()> {
        let (status, answer) = self.send(Method::DELETE, path, Bytes::new()).await?;
        ensure!(status.is_success(), "DELETE {path}: {status} {}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// Creates something that must not be there.
    pub async fn create(&mut self, path: &str, body: Bytes) -> Result<()> {
        let (status, body) = self.send(Method::POST, path, body).await?;
        ensure!(status == StatusCode::CREATED, "POST {path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(())
    }

    /// Changes something by a JSON merge patch.
    pub async fn merge(&mut self, path: &str, body: Bytes) -> Result<()> {
        let response = self.request(Method::PATCH, path, "application/merge-patch+json", body).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "PATCH {path}: {status} {}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// Follows a watch line by line.
    pub async fn watch(mut self, path: &str) -> Result<Lines> {
        let response = self.request(Method::GET, path, JSON, Bytes::new()).await?;
        ensure!(response.status().is_success(), "GET {path}: {}", response.status());
        Ok(Lines { body: response.into_body(), rest: BytesMut::new(), _connection: self })
    }

    async fn request(&mut self, method: Method, path: &str, kind: &str, body: Bytes) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.target.address.to_string())
            .header("accept", "application/json")
            .header("content-type", kind);
        if let Some(token) = &self.target.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }
}

/// The lines of an answer that does not end.
pub struct Lines {
    body: Incoming,
    rest: BytesMut,
    _connection: Connection,
}

impl Lines {
    /// The next line.
    pub async fn next(&mut self) -> Result<Bytes> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Ok(self.rest.split_to(end + 1).freeze());
            }
            let Some(frame) = self.body.frame().await else { bail!("the watch ended") };
            if let Some(data) = frame?.data_ref() {
                self.rest.extend_from_slice(data);
            }
        }
    }
}
