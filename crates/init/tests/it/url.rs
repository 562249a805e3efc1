use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Once;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use orrery_init::{Env, url};

async fn echo(headers: HeaderMap) -> String {
    let value = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
    format!("{} {}", value("authorization"), value("x-team"))
}

async fn serve() -> String {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let router = Router::new()
        .route("/text", get(async || "hello"))
        .route("/echo", get(echo))
        .route("/missing", get(async || (StatusCode::NOT_FOUND, "no such guide")))
        .route("/slow", get(std::future::pending::<()>));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

#[tokio::test]
async fn content_arrives_with_its_mode() {
    let (base, directory) = (serve().await, tempfile::tempdir().unwrap());
    let target = directory.path().join("deep/guide.md");
    let env: Env = [
        ("URL_SOURCE", format!("{base}/text")),
        ("URL_TARGET", target.display().to_string()),
        ("URL_FILE_MODE", "750".to_owned()),
    ]
    .into_iter()
    .collect();
    url::run(&env).await.unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "hello");
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o7777, 0o750);
}

#[tokio::test]
async fn headers_and_credentials_are_sent() {
    let (base, directory) = (serve().await, tempfile::tempdir().unwrap());
    let target = directory.path().join("out");
    let fetch = async |more: &[(&str, &str)]| {
        let (source, file) = (format!("{base}/echo"), target.display().to_string());
        let base =
            [("URL_SOURCE", source.as_str()), ("URL_TARGET", file.as_str()), ("URL_HEADERS", r#"{"x-team": "blue"}"#)];
        let env: Env = base.iter().chain(more).map(|(key, value)| (*key, *value)).collect();
        url::run(&env).await.unwrap();
        fs::read_to_string(&target).unwrap()
    };
    assert_eq!(fetch(&[]).await, "- blue");
    assert_eq!(fetch(&[("URL_AUTH_TOKEN", "t")]).await, "Bearer t blue");
    assert_eq!(fetch(&[("URL_AUTH_USERNAME", "u"), ("URL_AUTH_PASSWORD", "p")]).await, "Basic dTpw blue");
}

#[tokio::test]
async fn a_failure_says_what_the_server_said_and_leaves_no_file() {
    let (base, directory) = (serve().await, tempfile::tempdir().unwrap());
    let target = directory.path().join("out").display().to_string();
    let fail = async |source: String, timeout: &str| {
        let env: Env =
            [("URL_SOURCE", source.as_str()), ("URL_TARGET", &target), ("URL_TIMEOUT", timeout)].into_iter().collect();
        url::run(&env).await.unwrap_err().to_string()
    };
    let refused = fail(format!("{base}/missing?key=secret"), "30").await;
    assert!(refused.contains("404") && refused.contains("no such guide") && !refused.contains("secret"), "{refused}");
    assert!(fail(format!("{base}/slow"), "1").await.contains("/slow"));
    assert!(fail("file:///etc/passwd".to_owned(), "1").await.contains("URL_SOURCE"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
