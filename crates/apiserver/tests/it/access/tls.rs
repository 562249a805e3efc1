use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::pki::{Identity, Pki};
use apiserver::tls::{Limits, Listener};
use apiserver::user::User;
use axum::routing::get;
use axum::{Extension, Json, Router};
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::House;

struct Served {
    address: SocketAddr,
    pki: Pki,
    /// Signed by the same authority, long ago.
    outdated: Identity,
    stop: CancellationToken,
    ended: JoinHandle<()>,
    /// Wakes the request to `/slow`.
    slow: Arc<Notify>,
    /// Told when a request to `/slow` is running.
    entered: Arc<Notify>,
    _house: House,
}

async fn serve(limits: Limits) -> Served {
    let house = House::new();
    let folder = tempfile::tempdir().unwrap();
    let outdated = Pki::open(folder.path(), &[], Timestamp::now() - (500 * 24).hours()).unwrap().admin;
    let pki = Pki::open(folder.path(), &[], Timestamp::now()).unwrap();
    let listener = Listener::new(TcpListener::bind("127.0.0.1:0").await.unwrap(), &pki, limits).unwrap();
    let address = listener.address().unwrap();
    let (stop, slow, entered) = (CancellationToken::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let wait = {
        let (slow, entered) = (slow.clone(), entered.clone());
        move || async move {
            entered.notify_one();
            slow.notified().await;
            "done"
        }
    };
    let who = |Extension(user): Extension<Arc<User>>| async move { Json(json!(*user)) };
    let router = house.access.guard(Router::new().route("/version/slow", get(wait)).fallback(who));
    let ended = tokio::spawn(listener.serve(router, stop.clone()));
    Served { address, pki, outdated, stop, ended, slow, entered, _house: house }
}

impl Served {
    fn client(&self, identity: Option<&Identity>) -> reqwest::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = reqwest::Certificate::from_pem(self.pki.authority.as_bytes()).unwrap();
        let mut builder = reqwest::Client::builder().tls_certs_only([authority]).no_proxy();
        if let Some(identity) = identity {
            let pem = format!("{}{}", identity.certificate, identity.key);
            builder = builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
        }
        builder.build().unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    async fn get(&self, identity: Option<&Identity>) -> (u16, Value) {
        let response = self.client(identity).get(self.url("/api")).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }
}

#[tokio::test]
async fn the_certificate_says_who_it_is() {
    let served = serve(Limits::default()).await;
    let (code, user) = served.get(Some(&served.pki.admin)).await;
    assert_eq!(code, 200);
    assert_eq!(user, json!({ "username": "admin", "groups": ["system:masters", "system:authenticated"] }));
}

#[tokio::test]
async fn bad_certificates_get_a_status_not_an_alert() {
    let served = serve(Limits::default()).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = Pki::open(elsewhere.path(), &[], Timestamp::now()).unwrap().admin;
    for identity in [None, Some(&foreign), Some(&served.outdated), Some(&served.pki.serving)] {
        let (code, body) = served.get(identity).await;
        assert_eq!(code, 401);
        assert_eq!(body["reason"], "Unauthorized");
    }
}

#[tokio::test]
async fn clients_that_do_not_trust_us_do_not_talk_to_us() {
    let served = serve(Limits::default()).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let mut stranger = served.pki.clone();
    stranger.authority = Pki::open(elsewhere.path(), &[], Timestamp::now()).unwrap().authority;
    let client = Served { pki: stranger, ..served }.client(None);
    assert!(client.get("https://localhost/version").send().await.is_err());
}

#[tokio::test]
async fn both_versions_of_http_are_served() {
    let served = serve(Limits::default()).await;
    let client = served.client(None);
    assert_eq!(client.get(served.url("/version")).send().await.unwrap().version(), http::Version::HTTP_2);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authority = reqwest::Certificate::from_pem(served.pki.authority.as_bytes()).unwrap();
    let old = reqwest::Client::builder().tls_certs_only([authority]).http1_only().no_proxy().build().unwrap();
    assert_eq!(old.get(served.url("/version")).send().await.unwrap().version(), http::Version::HTTP_11);
}

#[tokio::test]
async fn who_says_nothing_is_cut_off() {
    let served = serve(Limits { handshake: Duration::from_millis(20), ..Limits::default() }).await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(silent.read(&mut [0; 16]).await.unwrap(), 0);
    // And who speaks no TLS learns so at once.
    let mut plain = TcpStream::connect(served.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    plain.read_to_end(&mut rest).await.unwrap();
    assert!(!rest.starts_with(b"HTTP"));
}

#[tokio::test]
async fn who_connects_and_asks_nothing_is_cut_off() {
    let served = serve(Limits { first_request: Duration::from_millis(20), ..Limits::default() }).await;
    let mut roots = rustls::RootCertStore::empty();
    let authority = <rustls_pki_types::CertificateDer as rustls_pki_types::pem::PemObject>::from_pem_slice(
        served.pki.authority.as_bytes(),
    );
    roots.add(authority.unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(served.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut tls = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    // Closed with or without TLS's goodbye: either way the connection is over.
    let read = tls.read(&mut [0; 16]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn stopping_lets_running_requests_finish() {
    let served = serve(Limits::default()).await;
    let client = served.client(None);
    let running = tokio::spawn(client.get(served.url("/version/slow")).send());
    served.entered.notified().await;
    served.stop.cancel();
    // The door is closed …
    while TcpStream::connect(served.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // … but who is inside is served.
    served.slow.notify_one();
    assert_eq!(running.await.unwrap().unwrap().text().await.unwrap(), "done");
    served.ended.await.unwrap();
}

#[tokio::test]
async fn stopping_does_not_wait_forever() {
    let served = serve(Limits { drain: Duration::from_millis(20), ..Limits::default() }).await;
    let client = served.client(None);
    let running = tokio::spawn(client.get(served.url("/version/slow")).send());
    served.entered.notified().await;
    served.stop.cancel();
    served.ended.await.unwrap();
    assert!(running.await.unwrap().is_err());
}

#[tokio::test]
async fn beyond_the_limit_clients_wait_their_turn() {
    let served = serve(Limits { connections: 1, ..Limits::default() }).await;
    let first = served.client(None);
    let running = tokio::spawn(first.get(served.url("/version/slow")).send());
    served.entered.notified().await;
    let second = served.client(None);
    let mut waiting = tokio::spawn(second.get(served.url("/version")).send());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "the second client was served beyond the limit");
    served.slow.notify_one();
    running.await.unwrap().unwrap().text().await.unwrap();
    drop(first);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
}
