//! Every failure that HTTP has, at every request of an apply and a destroy. Whatever happens: the state is true, nothing is
//! orphaned, and the next run completes.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body as Answer;
use axum::response::Response;
use futures::future::BoxFuture;
use http::Request;
use kube::client::Body;
use orrery_deploy::{Patience, Quiet, State, Status, destroy};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::shop::{Shop, pack};
use tower::{Service, ServiceExt as _};

use crate::deployer::{Deployer, config, patience};

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is answered with this status and not carried out.
    Refused(u16),
    /// It is answered with 429 and when to come back, and not carried out.
    Busy,
    /// It is never answered; carried out or not.
    Timeout { done: bool },
    /// The connection is cut; carried out or not.
    Cut { done: bool },
}

const FAULTS: [Fault; 11] = [
    Fault::Refused(401),
    Fault::Refused(403),
    Fault::Refused(404),
    Fault::Refused(409),
    Fault::Refused(422),
    Fault::Refused(500),
    Fault::Busy,
    Fault::Timeout { done: false },
    Fault::Timeout { done: true },
    Fault::Cut { done: false },
    Fault::Cut { done: true },
];

/// Between a deployment and its plane.
#[derive(Clone)]
struct Weather {
    plane: tower::util::BoxCloneSyncService<Request<Body>, Response, std::convert::Infallible>,
    state: Arc<Mutex<Clouds>>,
}

#[derive(Debug)]
struct Clouds {
    requests: usize,
    at: usize,
    /// Not only one request: all from there on.
    lasting: bool,
    fault: Fault,
}

impl Weather {
    fn new(shop: &Shop, at: usize, lasting: bool, fault: Fault) -> Self {
        let plane = shop.plane.server().service_as::<Body>(apiserver::user::User::master("deployer"));
        Self { plane, state: Arc::new(Mutex::new(Clouds { requests: 0, at, lasting, fault })) }
    }

    fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Whether it came to the fault at all.
    fn struck(&self) -> bool {
        let clouds = self.state.lock();
        clouds.requests >= clouds.at
    }
}

impl Service<Request<Body>> for Weather {
    type Response = Response;
    type Error = axum::BoxError;
    type Future = BoxFuture<'static, Result<Response, axum::BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), axum::BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fault = {
            let mut clouds = self.state.lock();
            clouds.requests += 1;
            let hit = clouds.requests == clouds.at || (clouds.lasting && clouds.requests > clouds.at);
            hit.then_some(clouds.fault)
        };
        let plane = self.plane.clone();
        Box::pin(async move {
            let carried_out = matches!(fault, None | Some(Fault::Timeout { done: true } | Fault::Cut { done: true }));
            let answer = if carried_out { Some(plane.oneshot(request).await?) } else { None };
            match (fault, answer) {
                (None, Some(answer)) => Ok(answer),
                (Some(Fault::Refused(code)), _) => Ok(refusal(code, None)),
                (Some(Fault::Busy), _) => Ok(refusal(429, Some("0"))),
                (Some(Fault::Timeout { .. }), _) => std::future::pending().await,
                _ => Err("connection reset by peer".into()),
            }
        })
    }
}

fn refusal(code: u16, retry_after: Option<&str>) -> Response {
    let reason = match code {
        409 => "Conflict",
        404 => "NotFound",
        _ => "Trouble",
    };
    let status =
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "bad weather" });
    let mut response = Response::builder().status(code).header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    response.body(Answer::from(status.to_string())).unwrap()
}

/// Impatient, because waiting is all that timeouts do.
fn hasty() -> Patience {
    Patience {
        request: Duration::from_millis(40),
        settle: Duration::from_millis(400),
        doubt: Duration::from_millis(40),
        ..patience()
    }
}

/// What is done in bad weather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    First,
    Next,
    Destroy,
}

fn first() -> Value {
    pack("1.0.0", &["a", "b"], true, &["x"])
}

/// Another version, with one agent less and without a blocklist.
fn next() -> Value {
    pack("1.1.0", &["a"], true, &[])
}

struct Run<'a> {
    shop: &'a Shop,
    namespace: String,
}

impl Run<'_> {
    async fn calm(&self, pack: &Value, state: State) -> State {
        let deployer = Deployer::new(self.shop.plane.client(), pack, &config(&self.namespace), patience());
        let applied =
            deployer.apply(state).await.unwrap_or_else(|problems| panic!("the next run completes: {problems}"));
        assert_eq!(applied.failures, [], "the next run completes");
        let again = deployer.plan(&applied.state).await.unwrap();
        assert!(again.is_empty(), "{:#?}", again.changes);
        applied.state
    }

    async fn tear_down(&self, state: State) {
        let deployer = Deployer::new(self.shop.plane.client(), &first(), &config(&self.namespace), patience());
        let done = destroy(&deployer.target, state, &mut (), &Quiet).await.unwrap();
        assert_eq!(done.failures, []);
        assert_eq!(self.shop.owned(&self.namespace).await, [], "nothing is left");
        assert!(done.state.resources.is_empty());
    }

    /// What the state says is there is there, and what is there is in the state.
    async fn check(&self, state: &State) {
        let owned = self.shop.owned(&self.namespace).await;
        for (key, _) in &owned {
            let known = state.resources.iter().any(|resource| resource.key.to_string() == *key);
            assert!(known, "{key} is orphaned: {state:#?}");
        }
        for resource in state.resources.iter().filter(|resource| resource.status != Status::Failed) {
            let there =
                owned.iter().any(|(key, uid)| resource.key.to_string() == *key && resource.uid.as_ref() == Some(uid));
            assert!(there, "{} is in the state and not in the cluster", resource.key);
        }
    }

    async fn go(&self, operation: Operation, weather: &Weather) {
        let before = match operation {
            Operation::First => State::default(),
            Operation::Next | Operation::Destroy => self.calm(&first(), State::default()).await,
        };
        let wanted = if operation == Operation::Next { next() } else { first() };
        let deployer = Deployer::new(weather.client(), &wanted, &config(&self.namespace), hasty());
        let after = if operation == Operation::Destroy {
            destroy(&deployer.target, before, &mut (), &Quiet).await.unwrap().state
        } else {
            // A plan that fails has written nothing.
            deployer.apply(before.clone()).await.map_or(before, |applied| applied.state)
        };
        // As the caller gets it back.
        let after = State::parse(&after.to_text()).unwrap();
        self.check(&after).await;
        if operation == Operation::Destroy {
            return self.tear_down(after).await;
        }
        let after = self.calm(&wanted, after).await;
        self.tear_down(after).await;
    }
}

/// Every request of an operation meets every fault, once or for good.
async fn storm(operation: Operation, lasting: bool) {
    let shop = Shop::open().await;
    let long = std::env::var_os("ORRERY_TEST_LONG").is_some();
    let mut runs = 0;
    for (number, fault) in FAULTS.into_iter().enumerate() {
        // All requests of all faults take minutes; a third of them, another third for each fault, is what every run can bear.
        let (start, step) = if long { (1, 1) } else { (1 + number % 3, 3) };
        for at in (start..).step_by(step) {
            let namespace = format!("run-{number}-{at}");
            shop.namespace(&namespace).await;
            let weather = Weather::new(&shop, at, lasting, fault);
            Run { shop: &shop, namespace }.go(operation, &weather).await;
            runs += 1;
            if !weather.struck() {
                break;
            }
        }
    }
    assert!(runs > 20, "only {runs} runs");
}

#[tokio::test]
async fn a_first_apply_survives_one_bad_answer() {
    storm(Operation::First, false).await;
}

#[tokio::test]
async fn a_first_apply_survives_the_end_of_the_world() {
    storm(Operation::First, true).await;
}

#[tokio::test]
async fn an_update_survives_one_bad_answer() {
    storm(Operation::Next, false).await;
}

#[tokio::test]
async fn an_update_survives_the_end_of_the_world() {
    storm(Operation::Next, true).await;
}

#[tokio::test]
async fn a_destroy_survives_one_bad_answer() {
    storm(Operation::Destroy, false).await;
}

#[tokio::test]
async fn a_destroy_survives_the_end_of_the_world() {
    storm(Operation::Destroy, true).await;
}
