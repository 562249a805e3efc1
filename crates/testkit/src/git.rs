//! A Git repository and a few files over HTTP on loopback, with a password where one is asked for.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// What is below `/private/` needs this user and password.
pub const CREDENTIALS: (&str, &str) = ("reader", "s3cret");

/// A running server. Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    root: tempfile::TempDir,
    _serving: AbortOnDropHandle<()>,
}

impl Server {
    /// Serves an empty directory.
    pub async fn start() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let router = axum::Router::new().fallback(answer).with_state(Arc::new(root.path().to_owned()));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { address, root, _serving: AbortOnDropHandle::new(serving) }
    }

    /// The address of a path, for a Pod of this machine's plane.
    pub fn url(&self, path: &str) -> String {
        format!("http://host.orrery.internal:{}/{path}", self.address.port())
    }

    /// Puts a file there.
    pub fn file(&self, path: &str, content: &str) {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    /// Makes a repository with one commit of these files on `main`.
    pub fn repository(&self, path: &str, files: &[(&str, &str)]) {
        let directory = self.root.path().join(path);
        std::fs::create_dir_all(&directory).expect("a directory");
        git(&directory, &["init", "--quiet", "--initial-branch=main", "."]);
        for (name, content) in files {
            let file = directory.join(name);
            std::fs::create_dir_all(file.parent().expect("it has a parent")).expect("a directory");
            std::fs::write(file, content).expect("a file");
        }
        git(&directory, &["add", "--all"]);
        git(&directory, &["commit", "--quiet", "--message=first"]);
    }
}

fn git(directory: &Path, words: &[&str]) {
    let author = ["-c", "user.name=Test", "-c", "user.email=test@example.test"];
    let status = Command::new("git").args(author).args(words).current_dir(directory).status();
    assert!(status.expect("git runs").success(), "git {words:?}");
}

async fn answer(
    State(root): State<Arc<PathBuf>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path();
    let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", CREDENTIALS.0, CREDENTIALS.1)));
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if path.starts_with("/private/") && given != expected {
        let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"test\"")];
        return (StatusCode::UNAUTHORIZED, ask, "who are you?").into_response();
    }
    let file = root.join(path.trim_start_matches('/'));
    if method == Method::GET && uri.query().is_none() && file.is_file() && !path.contains("/.git/") {
        return std::fs::read(file).expect("it can be read").into_response();
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    backend(&root, &method, &uri, content_type, &headers, &body)
        .await
        .unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response())
}

/// Git's own CGI program does the talking.
async fn backend(
    root: &Path,
    method: &Method,
    uri: &Uri,
    content_type: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> std::io::Result<Response> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("REQUEST_METHOD", method.as_str())
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", content_type)
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().expect("it is piped");
    let body = body.clone();
    let feed = tokio::spawn(async move { input.write_all(&body).await });
    let output = child.wait_with_output().await?;
    let _ = feed.await;
    let end = output.stdout.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or(0);
    let mut response = Response::new(Body::from(output.stdout[(end + 4).min(output.stdout.len())..].to_vec()));
    for line in String::from_utf8_lossy(&output.stdout[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().and_then(|code| code.parse().ok());
            *response.status_mut() = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or_default();
        } else if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}
