//! The listeners, and how they end.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::ledger::Ledger;
use crate::proxy::Proxy;

/// How often the file is read.
const POLL: Duration = Duration::from_millis(200);
/// A router that is to end still takes connections for so long, until nobody is led to it any more.
const LINGER: Duration = Duration::from_secs(3);
/// What is under way then may take so long; the Pod's own patience is a little more.
const DRAIN: Duration = Duration::from_secs(55);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients connect.
    pub port: u16,
    /// Where health, numbers and reports are had.
    pub health_port: u16,
    /// The file that says where requests go.
    pub routing: PathBuf,
}

/// Serves until told to stop, and then until what is under way is done.
pub async fn serve(options: Options, stop: CancellationToken) -> Result<(), Error> {
    let listen = |port: u16| async move {
        TcpListener::bind(("0.0.0.0", port)).await.map_err(|source| Error::Listen { port, source })
    };
    let (clients, health) = (listen(options.port).await?, listen(options.health_port).await?);
    let ledger = Arc::new(Ledger::new(options.routing));
    ledger.refresh();
    let over = CancellationToken::new();
    let reading = tokio::spawn(read(Arc::clone(&ledger), over.clone()));
    let told = over.clone();
    let asked = axum::serve(health, questions(&ledger, &stop))
        .with_graceful_shutdown(async move { told.cancelled().await })
        .into_future();
    let asked = tokio::spawn(asked);
    pass(clients, Proxy { ledger, streams: TaskTracker::new() }, stop).await;
    over.cancel();
    let _ = tokio::join!(reading, asked);
    Ok(())
}

/// Follows the file.
async fn read(ledger: Arc<Ledger>, over: CancellationToken) {
    let mut turn = tokio::time::interval(POLL);
    while over.run_until_cancelled(turn.tick()).await.is_some() {
        ledger.refresh();
    }
}

async fn pass(listener: TcpListener, proxy: Proxy, stop: CancellationToken) {
    let proxy = Arc::new(proxy);
    let graceful = GracefulShutdown::new();
    let mut ending = std::pin::pin!(async {
        stop.cancelled().await;
        tokio::time::sleep(LINGER).await;
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut ending => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(POLL).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let proxy = Arc::clone(&proxy);
        let service = service_fn(move |request| {
            let proxy = Arc::clone(&proxy);
            async move { Ok::<_, Infallible>(proxy.handle(request).await) }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!(error = error.to_string(), "a connection broke off");
            }
        });
    }
    drop(listener);
    proxy.streams.close();
    let done = async { tokio::join!(graceful.shutdown(), proxy.streams.wait()) };
    if tokio::time::timeout(DRAIN, done).await.is_err() {
        tracing::warn!("what was still under way is cut off");
    }
}

/// Health, numbers and reports.
fn questions(ledger: &Arc<Ledger>, stop: &CancellationToken) -> Router {
    let registry = Arc::new(ledger.registry());
    let (reports, ready, stop) = (Arc::clone(ledger), Arc::clone(ledger), stop.clone());
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route(
            "/readyz",
            get(move || async move {
                let fit = ready.routing().is_some() && !stop.is_cancelled();
                if fit { "ok".into_response() } else { not_yet() }
            }),
        )
        .route(
            "/report",
            get(move || async move {
                reports.refresh();
                reports.report().map_or_else(not_yet, |report| Json(report).into_response())
            }),
        )
        .route(
            "/metrics",
            get(move || async move {
                let mut text = String::new();
                let encoded = prometheus_client::encoding::text::encode(&mut text, &registry);
                encoded.map(|()| text).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
            }),
        )
}

fn not_yet() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "not yet, or not any more").into_response()
}
