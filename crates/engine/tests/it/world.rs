//! A plane, a controller small enough to see through, and a client that can be told to fail.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use orrery_engine::{
    Controller, Decision, Engine, Error, Event, Failure, Key, Options, Outcome, View, VirtualClock, Watches,
};
use serde_json::{Value, json};
use testkit::Plane;
use tower::Service;

pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Keeps `NAME-copy` equal to every ConfigMap with the label `mirror`, and counts looks in an annotation on request.
pub struct Mirror;

pub struct Observed {
    original: Arc<ConfigMap>,
}

impl Controller for Mirror {
    const NAME: &'static str = "mirror";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::none().mapped::<ConfigMap>(|map, _| {
            let owner = map.owner_references().iter().map(|owner| owner.name.clone()).next();
            vec![Key::new(map.namespace().unwrap(), owner.unwrap_or(map.name_any()))]
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let original = view.cached::<ConfigMap>(key).filter(|map| map.labels().contains_key("mirror"));
        Ok(original.map(|original| Observed { original }))
    }

    fn decide(&self, observed: &Observed, _now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        let original = &*observed.original;
        match original.labels()["mirror"].as_str() {
            "apply" => decision.apply(&copy(original)),
            "create" => decision.create(&copy(original)),
            "sign" => decision.annotate(original, [("signed", Some(original.data.as_ref().unwrap()["text"].clone()))]),
            "invalid" => {
                let mut wrong = copy(original);
                wrong.metadata.name = Some("Not A Name".into());
                decision.create(&wrong)
            }
            "retry" => decision.outcome(Outcome::Retry("not yet".into())),
            "permanent" => decision.outcome(Outcome::Permanent("never".into())),
            other => panic!("unknown: {other}"),
        };
        decision
    }

    fn refused(&self, observed: &Observed, failure: &Failure, _now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        decision.annotate(&*observed.original, [("refused", Some(failure.reason.to_owned()))]);
        decision.event(Event::warning(&*observed.original, failure.reason, "Mirror", failure.message.clone()));
        decision
    }
}

pub fn copy(original: &ConfigMap) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{}-copy", original.name_any())),
            namespace: original.namespace(),
            labels: Some([(MANAGED_BY.to_owned(), "mirror".to_owned())].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                name: original.name_any(),
                uid: original.uid().unwrap(),
                controller: Some(true),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        data: original.data.clone(),
        ..ConfigMap::default()
    }
}

/// What happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the server.
    Before,
    /// It is executed, but the answer is lost.
    After,
}

/// Counts writes, and fails one of them.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    pub control: Arc<Control>,
}

#[derive(Default)]
pub struct Control {
    writes: AtomicUsize,
    fault: std::sync::Mutex<Option<(usize, Fault)>>,
}

impl Control {
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Fails the write with this number, counted from now.
    pub fn fail(&self, number: usize, fault: Fault) {
        *self.fault.lock().unwrap() = Some((self.writes() + number, fault));
    }
}

type Answer<R> = Pin<Box<dyn Future<Output = Result<R, tower::BoxError>> + Send>>;

impl<S, R> Service<http::Request<Body>> for Faulty<S>
where
    S: Service<http::Request<Body>, Response = R> + Clone + Send + 'static,
    S::Error: Into<tower::BoxError>,
    S::Future: Send,
{
    type Response = R;
    type Error = tower::BoxError;
    type Future = Answer<R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut inner = self.inner.clone();
        let mut fault = None;
        if request.method() != http::Method::GET {
            let number = self.control.writes.fetch_add(1, Ordering::SeqCst);
            let mut planned = self.control.fault.lock().unwrap();
            fault = planned.take_if(|(at, _)| *at == number).map(|(_, fault)| fault);
        }
        Box::pin(async move {
            if fault == Some(Fault::Before) {
                return Err("the connection was refused".into());
            }
            let answer = inner.call(request).await.map_err(Into::into)?;
            if fault == Some(Fault::After) { Err("the connection was reset".into()) } else { Ok(answer) }
        })
    }
}

pub struct World {
    pub plane: Plane,
    pub clock: VirtualClock,
}

impl World {
    pub async fn start() -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { plane: Plane::start().await, clock: VirtualClock::at(start) }
    }

    /// An engine with the mirror, its caches filled, and the control over its client.
    pub async fn engine(&self) -> (Engine, Arc<Control>) {
        let control = Arc::new(Control::default());
        let inner = self.plane.server().service_as(apiserver::user::User::master("mirror"));
        let client = Client::new(Faulty { inner, control: Arc::clone(&control) }, "default");
        let engine = Engine::new(client, Arc::new(self.clock.clone()), Options::default()).with(Mirror);
        engine.refresh().await.unwrap();
        (engine, control)
    }

    pub fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.plane.client())
    }

    pub async fn create(&self, name: &str, label: &str, text: &str) -> ConfigMap {
        let map = json!({"metadata": {"name": name, "labels": {"mirror": label}}, "data": {"text": text}});
        self.maps().create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap()
    }

    pub async fn merge(&self, name: &str, patch: Value) -> ConfigMap {
        self.maps().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    pub async fn text(&self, name: &str) -> Option<String> {
        self.maps().get_opt(name).await.unwrap().and_then(|map| map.data?.remove("text"))
    }
}
