//! Two versions of an agent and a router before them, each a real server on loopback.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::omnia::routing::Routing;
use axum::Router;
use axum::body::Body;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::routing::{any, get};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A port that nobody has at the moment.
pub fn free() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A version of an agent. Its streams say something whenever `ticks` changes, and end when it is gone.
async fn version(name: &'static str, ticks: watch::Receiver<u32>) -> String {
    let events = move || {
        let ticks = ticks.clone();
        async move {
            let say = move |mut ticks: watch::Receiver<u32>| async move {
                ticks.changed().await.ok()?;
                Some((Ok::<_, std::io::Error>(format!("data: {name}\n\n")), ticks))
            };
            let mut ticks = ticks;
            ticks.mark_changed();
            ([("content-type", "text/event-stream")], Body::from_stream(stream::unfold(ticks, say)))
        }
    };
    let socket = move |upgrade: WebSocketUpgrade| async move {
        upgrade.on_upgrade(move |mut socket| async move {
            while let Some(Ok(Message::Text(text))) = socket.recv().await {
                let _ = socket.send(Message::Text(format!("{name}: {text}").into())).await;
            }
        })
    };
    let cut = || async {
        let pieces = stream::iter([Ok("begin"), Err(std::io::Error::other("cut"))]);
        Body::from_stream(pieces.then(|piece| async {
            tokio::task::yield_now().await;
            piece
        }))
    };
    let router = Router::new()
        .route("/", any(move || async move { name }))
        .route("/broken", get(|| async { StatusCode::INTERNAL_SERVER_ERROR }))
        .route("/cut", get(cut))
        .route("/events", get(events))
        .route("/ws", get(socket));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

pub struct World {
    pub http: reqwest::Client,
    /// Where the new version is served by the first Deployment, once it was promoted.
    pub promoted: String,
    folder: tempfile::TempDir,
    routing: Routing,
    ports: (u16, u16),
    router: Option<tokio::runtime::Runtime>,
    ticks: Option<watch::Sender<u32>>,
}

impl World {
    pub async fn start(weight: i32) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (ticks, heard) = watch::channel(0);
        let routing = Routing {
            stable: version("old", heard.clone()).await,
            canary: version("new", heard.clone()).await,
            weight,
            salt: "support-bb".into(),
            window: "support-bb/1".into(),
            session_header: "X-Omnia-Session".into(),
            session_cookie: "omnia-session".into(),
            retiring: false,
        };
        let mut world = Self {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            promoted: version("new", heard).await,
            folder: tempfile::tempdir().unwrap(),
            routing,
            ports: (free(), free()),
            router: None,
            ticks: Some(ticks),
        };
        world.write();
        world.revive().await;
        world
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("routing.json")
    }

    /// As a kubelet does it: the new file takes the old one's place.
    fn write(&self) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, serde_json::to_vec(&self.routing).unwrap()).unwrap();
        std::fs::rename(next, self.file()).unwrap();
    }

    /// Changes what the router is told, and waits until it says that it acts on it.
    pub async fn tell(&mut self, change: impl FnOnce(&mut Routing)) {
        change(&mut self.routing);
        self.write();
        let wanted = serde_json::to_value(&self.routing).unwrap();
        self.until(|report| report["routing"] == wanted).await;
    }

    async fn until(&self, done: impl Fn(&Value) -> bool) {
        let waiting = async {
            while !done(&self.report().await) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap();
    }

    /// Waits until nothing is under way on a side.
    pub async fn idle(&self, side: &str) {
        self.until(|report| report[side]["inFlight"] == 0).await;
    }

    pub async fn report(&self) -> Value {
        self.get("report").await.json().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        self.http.get(format!("http://127.0.0.1:{}/{path}", self.ports.1)).send().await.unwrap()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports.0)
    }

    pub async fn ask(&self, session: &str) -> String {
        let request = self.http.get(self.url("/")).header("X-Omnia-Session", session);
        request.send().await.unwrap().text().await.unwrap()
    }

    /// One request of each of these sessions, and who answered.
    pub async fn visit(&self, sessions: Range<usize>) -> Vec<String> {
        let visits = sessions.map(|id| async move { self.ask(&format!("session-{id}")).await });
        stream::iter(visits).buffered(16).collect().await
    }

    pub fn tick(&self) {
        self.ticks.as_ref().unwrap().send_modify(|count| *count += 1);
    }

    pub fn end_streams(&mut self) {
        self.ticks = None;
    }

    /// Ends the router in the middle of whatever it does.
    pub fn kill(&mut self) {
        self.router.take().unwrap().shutdown_background();
    }

    pub async fn revive(&mut self) {
        let options = orrery_router::Options { port: self.ports.0, health_port: self.ports.1, routing: self.file() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            // The port of one that has just died may not be free at once.
            while orrery_router::serve(options.clone(), CancellationToken::new()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        self.router = Some(runtime);
        let waiting = async {
            while self.http.get(format!("http://127.0.0.1:{}/readyz", self.ports.1)).send().await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap();
    }

    pub fn client(&self) -> Arc<(reqwest::Client, String)> {
        Arc::new((reqwest::Client::builder().no_proxy().build().unwrap(), self.url("/")))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(router) = self.router.take() {
            router.shutdown_background();
        }
    }
}
