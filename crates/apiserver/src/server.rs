//! The server: what all requests share, and the tower services that answer them.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use machinery::status::Status;
use store::Store;
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::{CompressionLayer, Predicate};

use crate::access::Access;
use crate::addresses::Addresses;
use crate::kinds::Kinds;
use crate::metrics::Metrics;
use crate::openapi::Documents;
use crate::pods::PodAccess;
use crate::respond;
use crate::user::User;

/// First address and prefix length of the usual range of Service addresses.
pub const SERVICE_RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 96, 0, 0), 12);

/// What a server is made of.
pub struct Config {
    /// Where objects are kept.
    pub store: Store,
    /// Who may do what.
    pub access: Access,
    /// Who runs Pods; without it logs and exec are refused.
    pub pods: Option<Arc<dyn PodAccess>>,
    /// First address and prefix length of the range Services get their addresses from.
    pub service_range: (Ipv4Addr, u8),
    /// How many requests may be under way at once (watches and streams not counted).
    pub in_flight: usize,
    /// How long a client may take to send a body.
    pub patience: Duration,
    /// The port clients reach the server on, told to Pods by the `kubernetes` Service.
    pub port: u16,
    /// Whether new Pods get their service account's token, as with kube-apiserver's `ServiceAccount` admission. It needs
    /// somebody who gives every namespace an account and the root certificate.
    pub mount_tokens: bool,
}

impl Config {
    /// The usual settings over a store.
    pub fn new(store: Store, access: Access) -> Self {
        Self {
            store,
            access,
            pods: None,
            service_range: SERVICE_RANGE,
            in_flight: 400,
            patience: Duration::from_mins(1),
            port: 6443,
            mount_tokens: false,
        }
    }
}

/// How many objects can be waited for without waiting for each other.
const TURNS: usize = 64;

/// The embedded Kubernetes API. Clones are handles to one server.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    access: Access,
    kinds: Kinds,
    pods: Option<Arc<dyn PodAccess>>,
    addresses: Addresses,
    documents: Documents,
    metrics: Metrics,
    in_flight: Semaphore,
    turns: [Mutex<()>; TURNS],
    patience: Duration,
    port: u16,
    mount_tokens: bool,
    closing: CancellationToken,
}

impl ApiServer {
    /// A server over a store. Call [`ApiServer::start`] before serving: it brings the kinds and
    /// namespaces every client counts on.
    pub fn new(config: Config) -> Self {
        let inner = Inner {
            addresses: Addresses::new(config.service_range, &config.store),
            store: config.store,
            access: config.access,
            kinds: Kinds::builtin(),
            pods: config.pods,
            documents: Documents::default(),
            metrics: Metrics::default(),
            in_flight: Semaphore::new(config.in_flight),
            turns: std::array::from_fn(|_| Mutex::new(())),
            patience: config.patience,
            port: config.port,
            mount_tokens: config.mount_tokens,
            closing: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Who may do what.
    pub fn access(&self) -> &Access {
        &self.inner.access
    }

    /// The table of kinds.
    pub fn kinds(&self) -> &Kinds {
        &self.inner.kinds
    }

    /// Who runs Pods, if anyone does.
    pub fn pods(&self) -> Option<&Arc<dyn PodAccess>> {
        self.inner.pods.as_ref()
    }

    /// Addresses of Services.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.inner.addresses
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.inner.documents
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(crate) fn port(&self) -> u16 {
        self.inner.port
    }

    pub(crate) fn mounts_tokens(&self) -> bool {
        self.inner.mount_tokens
    }

    pub(crate) fn patience(&self) -> Duration {
        self.inner.patience
    }

    /// Waits for one's turn to write an object that others write at the same time.
    pub(crate) async fn turn(&self, key: &store::Key) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % TURNS as u64).unwrap_or(0);
        self.inner.turns[index].lock().await
    }

    pub(crate) fn in_flight(&self) -> &Semaphore {
        &self.inner.in_flight
    }

    /// Cancelled when the server goes away: watches and streams end, background work stops.
    pub fn closing(&self) -> CancellationToken {
        self.inner.closing.clone()
    }

    /// Ends watches, streams and background work. Requests under way finish.
    pub fn close(&self) {
        self.inner.closing.cancel();
    }

    /// The API for requests whose [`User`] is already known and set as an extension; those without
    /// one are anonymous.
    pub fn routes(&self) -> Router {
        let server = self.clone();
        let handler = move |request: Request| {
            let server = server.clone();
            async move { crate::dispatch::serve(server, request).await }
        };
        let compression = CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(Large);
        Router::new().fallback(handler).layer(CatchPanicLayer::custom(panicked)).layer(compression)
    }

    /// The API for anyone: who they are is proved by their credentials.
    pub fn router(&self) -> Router {
        self.access().guard(self.routes())
    }

    /// The API for one trusted identity, without socket or credential: hand it to `kube::Client::new`.
    pub fn service_as<B>(&self, user: User) -> BoxCloneSyncService<http::Request<B>, Response, Infallible>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let routes = self.access().trust(user, self.routes());
        BoxCloneSyncService::new(routes.map_request(|request: http::Request<B>| request.map(Body::new)))
    }
}

/// Answers that are worth packing for those who accept it: as in Kubernetes, from 128 KiB. Watches have no size.
#[derive(Clone, Copy)]
struct Large;

impl Predicate for Large {
    fn should_compress<B: http_body::Body>(&self, response: &http::Response<B>) -> bool {
        response.body().size_hint().exact().is_some_and(|size| size >= 128 * 1024)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature catch-panic asks for")]
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let what = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default();
    tracing::error!(panic = what, "a request handler panicked");
    respond::status(StatusCode::INTERNAL_SERVER_ERROR, &Status::internal("the request could not be completed"))
}
