//! `url-fetch`: brings the content of a URL to a file.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use reqwest::{Certificate, Client, Response, Url};

use crate::env::{self, Env};

/// More than any text an agent can read; a URL that never ends must not fill the disk.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How much of an error page is worth showing.
const SHOWN_BYTES: usize = 2048;

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is missing or unreadable.
    #[error(transparent)]
    Setting(#[from] env::Error),
    /// Not a URL we fetch.
    #[error("URL_SOURCE {0:?} is not an http or https URL")]
    BadUrl(String),
    /// The extra certificates cannot be read.
    #[error("CUSTOM_CA_CERT_PATH {path} holds no certificate that can be read", path = path.display())]
    BadCertificates {
        /// The file.
        path: PathBuf,
    },
    /// No answer.
    #[error("{url} cannot be fetched")]
    Request {
        /// What was asked for, without credentials.
        url: String,
        /// Why not.
        #[source]
        source: reqwest::Error,
    },
    /// An answer that is no success.
    #[error("{url} answered {status}: {body}")]
    Refused {
        /// What was asked for, without credentials.
        url: String,
        /// The status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// More than [`MAX_BYTES`].
    #[error("{0} is larger than 64 MiB")]
    TooLarge(String),
    /// The file cannot be written.
    #[error("{path} cannot be written", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Fetches `URL_SOURCE` into `URL_TARGET`. The target appears whole or not at all.
pub async fn run(env: &Env) -> Result<(), Error> {
    let source = env.require("URL_SOURCE")?;
    let target = env.require_path("URL_TARGET")?;
    let url = Url::parse(source).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| Error::BadUrl(source.to_owned()))?;
    let mode = env.file_mode("URL_FILE_MODE", 0o644)?;
    let shown = without_credentials(&url);

    let response = request(&client(env)?, &url, env)?
        .send()
        .await
        .map_err(|source| Error::Request { url: shown.clone(), source: source.without_url() })?;
    let response = refuse_failure(response, &shown).await?;
    save(response, &target, mode, &shown).await
}

fn client(env: &Env) -> Result<Client, Error> {
    let mut builder = Client::builder()
        .timeout(env.seconds("URL_TIMEOUT", 30)?)
        .danger_accept_invalid_certs(env.flag("URL_INSECURE"))
        .user_agent(concat!("orrery/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = env.get("CUSTOM_CA_CERT_PATH").map(PathBuf::from) {
        let bad = || Error::BadCertificates { path: path.clone() };
        let pem = std::fs::read(&path).map_err(|_| bad())?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|_| bad())?;
        if certificates.is_empty() {
            return Err(bad());
        }
        builder = certificates.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
    }
    builder.build().map_err(|source| Error::Request { url: "client".to_owned(), source })
}

fn request(client: &Client, url: &Url, env: &Env) -> Result<reqwest::RequestBuilder, Error> {
    let mut request = client.get(url.clone());
    for (name, value) in env.json::<BTreeMap<String, String>>("URL_HEADERS")? {
        request = request.header(name, value);
    }
    if let Some(token) = env.get("URL_AUTH_TOKEN") {
        request = request.bearer_auth(token);
    } else if let Some(user) = env.get("URL_AUTH_USERNAME") {
        request = request.basic_auth(user, env.get("URL_AUTH_PASSWORD"));
    }
    Ok(request)
}

async fn refuse_failure(response: Response, shown: &str) -> Result<Response, Error> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).trim().to_owned();
    Err(Error::Refused { url: shown.to_owned(), status, body })
}

async fn save(response: Response, target: &Path, mode: u32, shown: &str) -> Result<(), Error> {
    let write = |source| Error::Write { path: target.to_owned(), source };
    let directory = target.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory).map_err(write)?;
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(write)?;
    let mut size = 0u64;
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|source| Error::Request { url: shown.to_owned(), source: source.without_url() })?;
        size += chunk.len() as u64;
        if size > MAX_BYTES {
            return Err(Error::TooLarge(shown.to_owned()));
        }
        file.write_all(&chunk).map_err(write)?;
    }
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).map_err(write)?;
    file.persist(target).map_err(|error| write(error.error))?;
    Ok(())
}

/// The URL as it may appear in a log: user, password and query can hold secrets.
fn without_credentials(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail only for URLs that cannot have credentials, which then need no hiding.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.to_string()
}
