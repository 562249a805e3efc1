//! The one client.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, Url};

use crate::address::{self, Careful};

/// How much of an answer is read.
const MOST_BYTES: usize = 1 << 20;
/// How much of a refusal is worth telling.
const SHOWN: usize = 500;

/// Why a tool gave no answer.
#[derive(Debug, thiserror::Error)]
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
    /// More than is read.
    #[error("the answer is larger than {} KiB", MOST_BYTES / 1024)]
    TooLarge,
}

impl Error {
    /// Whether the same call may work later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Timeout(_) => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Invalid(_) | Self::Arguments(_) | Self::TooLarge => false,
        }
    }
}

/// Asks tools' servers.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) http: reqwest::Client,
}

impl Client {
    /// A client that follows nobody elsewhere.
    pub fn new() -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .dns_resolver(Careful::shared())
            .connect_timeout(Duration::from_secs(10))
            .user_agent(concat!("orrery/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(Self { http })
    }

    /// A URL that may be asked.
    pub(crate) fn url(text: &str) -> Result<Url, Error> {
        let url = Url::parse(text).map_err(|error| Error::Invalid(format!("{text:?} is no URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Invalid(format!("{text:?} is neither http nor https")));
        }
        address::check(&url).map_err(Error::Invalid)?;
        Ok(url)
    }

    /// Sends a request and reads its answer whole, in bounded time and size.
    pub(crate) async fn ask(request: RequestBuilder, patience: Duration) -> Result<String, Error> {
        let asked = async {
            let response = request.send().await.map_err(|error| Error::Unreachable(chain(&error)))?;
            let status = response.status();
            let body = read(response).await?;
            if status.is_success() {
                return Ok(body);
            }
            let body: String = body.trim().chars().take(SHOWN).collect();
            Err(Error::Refused { status: status.as_u16(), body })
        };
        tokio::time::timeout(patience, asked).await.unwrap_or(Err(Error::Timeout(patience)))
    }
}

async fn read(response: Response) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk.map_err(|error| Error::Unreachable(chain(&error)))?);
        if bytes.len() > MOST_BYTES {
            return Err(Error::TooLarge);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An error with everything behind it, without the URL, which may hold a secret.
fn chain(error: &reqwest::Error) -> String {
    let mut text = String::from("cannot be asked");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
