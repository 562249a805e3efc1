//! The one client.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use rustls_platform_verifier::BuilderVerifierExt as _;
use url::Url;

use crate::caller::Caller;
use crate::connect::{Connect, Connector, Network};

/// How much of a call's answer is read.
pub(crate) const MOST_OF_AN_ANSWER: usize = 1 << 20;
/// How much of a refusal is worth telling.
const SHOWN: usize = 500;

/// Why a tool gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The tool cannot be called as it is described.
    #[error("{0}")]
    Invalid(String),
    /// What the caller gives is not what the tool takes.
    #[error("the arguments do not fit the tool's schema: {0}")]
    Arguments(String),
    /// Nobody answered.
    #[error("{0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// An answer that is no success.
    #[error("answered {status}: {body}")]
    Refused {
        /// The status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// What the tool itself says went wrong.
    #[error("{0}")]
    Failed(String),
    /// A status of gRPC that is no success.
    #[error("answered gRPC status {status}: {message}")]
    Status {
        /// The status.
        status: u16,
        /// Its message.
        message: String,
    },
    /// An answer that is not what was asked for.
    #[error("{0}")]
    Odd(String),
    /// More than is read.
    #[error("the answer is larger than {} KiB", .0 / 1024)]
    TooLarge(usize),
}

impl Error {
    /// What [`Error::reason`] says.
    pub(crate) const REASONS: &[&str] = &["Invalid", "Unreachable", "Timeout", "Refused", "InvalidAnswer", "TooLarge"];

    /// Whether the same call may work later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Timeout(_) => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            // Resources are exhausted, or the service is not available.
            Self::Status { status, .. } => matches!(status, 8 | 14),
            Self::Invalid(_) | Self::Arguments(_) | Self::Failed(_) | Self::Odd(_) | Self::TooLarge(_) => false,
        }
    }

    /// The kind of failure, in one word for a status.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::Arguments(_) => "Invalid",
            Self::Unreachable(_) => "Unreachable",
            Self::Timeout(_) => "Timeout",
            Self::Refused { .. } | Self::Failed(_) | Self::Status { .. } => "Refused",
            Self::Odd(_) => "InvalidAnswer",
            Self::TooLarge(_) => "TooLarge",
        }
    }
}

/// Asks tools' servers.
#[derive(Clone, Debug)]
pub struct Client {
    connect: Arc<dyn Connect>,
    http: Http,
    /// For those who speak HTTP/2 without being asked whether they do.
    http2: Http,
}

type Http = legacy::Client<HttpsConnector<Connector>, Full<Bytes>>;

/// Whom to trust is what the machine trusts; read once, because it takes a while.
static TLS: LazyLock<Result<rustls::ClientConfig, String>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(rustls::ConfigBuilder::with_platform_verifier)
        .map_err(|error| format!("the certificates that this machine trusts cannot be read: {error}"))?;
    Ok(config.with_no_client_auth())
});

impl Client {
    /// A client for the network, that follows nobody elsewhere.
    pub fn new() -> Result<Self, Error> {
        Self::through(Arc::new(Network))
    }

    /// A client whose connections somebody else makes.
    pub fn through(connect: Arc<dyn Connect>) -> Result<Self, Error> {
        Ok(Self::with(connect, TLS.clone().map_err(Error::Invalid)?))
    }

    fn with(connect: Arc<dyn Connect>, tls: rustls::ClientConfig) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(Connector(connect.clone()));
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        let http = builder.build(connector.clone());
        Self { connect, http, http2: builder.http2_only(true).build(connector) }
    }

    /// Sends a request and reads its answer whole, in bounded time and size. An answer that is no success is an error.
    pub(crate) async fn ask(&self, request: Request<Full<Bytes>>, bounds: Bounds) -> Result<Bytes, Error> {
        let asked = async {
            let response = self.send(request).await?;
            let status = response.status();
            let body = read(response, bounds.bytes).await?;
            if status.is_success() {
                return Ok(body);
            }
            Err(refused(status.as_u16(), &body))
        };
        tokio::time::timeout(bounds.time, asked).await.unwrap_or(Err(Error::Timeout(bounds.time)))
    }

    /// Sends a request. The caller bounds how long it waits and what it reads.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        self.http.request(request).await.map_err(|error| Error::Unreachable(chain(&error)))
    }
}

impl Client {
    /// The same client, which trusts others.
    pub(crate) fn with_tls(&self, tls: rustls::ClientConfig) -> Self {
        Self::with(self.connect.clone(), tls)
    }

    /// The same, over HTTP/2.
    pub(crate) async fn send_http2(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        self.http2.request(request).await.map_err(|error| Error::Unreachable(chain(&error)))
    }
}

/// How long one request may take and how much is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

/// A URL that may be asked.
pub(crate) fn url(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|error| Error::Invalid(format!("{text:?} is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::Invalid(format!("{text:?} is neither http nor https")));
    }
    Ok(url)
}

/// A request with what every request to this server has.
pub(crate) fn request(method: Method, url: &Url, caller: &Caller) -> Result<http::request::Builder, Error> {
    let mut request = Request::builder()
        .method(method)
        .uri(url.as_str())
        .header(USER_AGENT, concat!("orrery/", env!("CARGO_PKG_VERSION")));
    for (name, value) in &caller.headers {
        let invalid = |what: &str| Error::Invalid(format!("the header {name:?} has a {what} that cannot be sent"));
        let key: HeaderName = name.parse().map_err(|_| invalid("name"))?;
        let value: HeaderValue = value.parse().map_err(|_| invalid("value"))?;
        request = request.header(key, value);
    }
    if let Some(value) = &caller.credentials.0 {
        request = request.header(AUTHORIZATION, value);
    }
    Ok(request)
}

/// What a refusal says.
pub(crate) fn refused(status: u16, body: &[u8]) -> Error {
    let body: String = String::from_utf8_lossy(body).trim().chars().take(SHOWN).collect();
    Error::Refused { status, body }
}

/// Reads a body whole, up to a size.
pub(crate) async fn read(response: Response<Incoming>, most: usize) -> Result<Bytes, Error> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Unreachable(format!("the answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        bytes.extend_from_slice(&data);
        if bytes.len() > most {
            return Err(Error::TooLarge(most));
        }
    }
    Ok(bytes.into())
}

/// An error with everything behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = String::from("cannot be asked");
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
