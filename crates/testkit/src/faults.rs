//! Faults between a controller and its API: a process that dies before or after a write, and answers that get lost.
//!
//! Writes are counted, so that a scenario can first be run without faults and then once for each write and fault.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::response::{IntoResponse as _, Response};
use futures::future::BoxFuture;
use http::{Method, Request};
use kube::client::Body;
use parking_lot::Mutex;
use tower::{Service, ServiceExt as _};

use crate::{Chance, Plane};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The process ends before the write is sent.
    CrashBefore,
    /// The process ends after the write was carried out.
    CrashAfter,
    /// The write is carried out, and the caller never hears of it.
    AnswerLost,
}

/// Every kind.
pub const KINDS: [Kind; 3] = [Kind::CrashBefore, Kind::CrashAfter, Kind::AnswerLost];

/// Something that goes wrong at one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which write, counted from 1.
    pub at: usize,
    /// What.
    pub kind: Kind,
}

/// Between a controller's client and its plane.
#[derive(Clone, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    writes: usize,
    fault: Option<Fault>,
    /// Something goes wrong once in so many writes.
    often: Option<(Chance, usize)>,
    /// Writes of these paths are not taken.
    closed: Option<String>,
    dead: bool,
}

impl Faults {
    /// With at most one fault.
    pub fn new(fault: Option<Fault>) -> Self {
        Self { state: Arc::new(Mutex::new(State { fault, ..State::default() })) }
    }

    /// With a fault once in so many writes.
    pub fn often(chance: Chance, one_in: usize) -> Self {
        Self { state: Arc::new(Mutex::new(State { often: Some((chance, one_in)), ..State::default() })) }
    }

    /// From now on the API is not available for writes of paths with this in them; `None` opens it again.
    pub fn close(&self, path: Option<&str>) {
        self.state.lock().closed = path.map(ToOwned::to_owned);
    }

    fn is_closed(&self, path: &str) -> bool {
        self.state.lock().closed.as_ref().is_some_and(|closed| path.contains(closed.as_str()))
    }

    /// A client of `plane` that the faults happen to.
    pub fn client(&self, plane: &Plane) -> kube::Client {
        let user = apiserver::user::User::master("system:orrery:controllers");
        let plane = plane.server().service_as::<Body>(user).map_err(BoxError::from).boxed_clone();
        kube::Client::new(Between { plane, faults: self.clone() }, "default")
    }

    /// How many writes were sent so far. Events do not count: a lost one holds nothing up.
    pub fn writes(&self) -> usize {
        self.state.lock().writes
    }

    /// Whether the process has ended. Nothing it sends arrives any more.
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// A new process starts.
    pub fn restart(&self) {
        self.state.lock().dead = false;
    }

    /// What happens to the next write.
    fn next(&self) -> Option<Kind> {
        let mut state = self.state.lock();
        state.writes += 1;
        let by_chance =
            |(chance, one_in): &(Chance, usize)| chance.one_in(*one_in).then(|| KINDS[chance.below(KINDS.len())]);
        let kind = match state.fault {
            Some(fault) => (fault.at == state.writes).then_some(fault.kind),
            None => state.often.as_ref().and_then(by_chance),
        };
        state.dead |= matches!(kind, Some(Kind::CrashBefore | Kind::CrashAfter));
        kind
    }
}

#[derive(Clone)]
struct Between {
    plane: tower::util::BoxCloneService<Request<Body>, Response, BoxError>,
    faults: Faults,
}

impl Service<Request<Body>> for Between {
    type Response = Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.faults.is_dead() {
            return Box::pin(async { Err("the process has ended".into()) });
        }
        let is_event = request.uri().path().contains("/events");
        if is_event && request.method() == Method::POST {
            // Nothing here reads Events: one is answered as the plane would, and not carried out.
            let answer = Response::new(axum::body::Body::new(request.into_body()));
            return Box::pin(async { Ok(answer) });
        }
        let is_write = request.method() != Method::GET && !is_event;
        if is_write && self.faults.is_closed(request.uri().path()) {
            return Box::pin(async { Ok(axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response()) });
        }
        let kind = if is_write { self.faults.next() } else { None };
        if kind == Some(Kind::CrashBefore) {
            return Box::pin(async { Err("the process ended before the write".into()) });
        }
        let plane = self.plane.clone();
        Box::pin(async move {
            let answer = plane.oneshot(request).await?;
            match kind {
                None => Ok(answer),
                Some(_) => Err("the answer was lost".into()),
            }
        })
    }
}
