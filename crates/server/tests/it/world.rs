//! A server in front of a plane, and people who ask it.

use std::any::Any;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Request, StatusCode};
use futures::StreamExt as _;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Resource};
use orrery_server::{Options, Server};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// A plane with our kinds on it, and two namespaces.
pub struct World {
    pub client: Client,
    _kept: Box<dyn Any + Send + Sync>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    /// Asserts the one shape of a refusal, and gives its message.
    pub fn refused(&self, code: u16) -> String {
        assert_eq!(self.code.as_u16(), code, "{}", self.text);
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        assert!(body["error"].as_str().is_some_and(|reason| !reason.is_empty()), "{body}");
        body["message"].as_str().expect("a message").to_owned()
    }
}

impl World {
    /// On any plane that `client` may do everything on.
    pub async fn on(client: Client, kept: Box<dyn Any + Send + Sync>) -> Self {
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        for definition in api::crds() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
            let name = definition.metadata.name.unwrap();
            await_condition(definitions.clone(), &name, conditions::is_crd_established()).await.unwrap();
        }
        let world = Self { client, _kept: kept };
        for namespace in ["red", "blue"] {
            world.create::<Namespace>(None, json!({"metadata": {"name": namespace}})).await;
        }
        world
    }

    pub fn options(&self) -> Options {
        Options::new(self.client.clone())
    }

    pub async fn create<K>(&self, namespace: Option<&str>, object: Value)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
    {
        let resource = ApiResource::erase::<K>(&());
        let objects: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let mut object = object;
        object["apiVersion"] = K::api_version(&()).into_owned().into();
        object["kind"] = K::kind(&()).into_owned().into();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        objects.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Objects of one of our kinds, past the server.
    pub fn objects(&self, kind: &str, plural: &str, namespace: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("kubeopencode.io", "v1alpha1", kind);
        Api::namespaced_with(self.client.clone(), namespace, &ApiResource::from_gvk_with_plural(&gvk, plural))
    }

    /// A service account's token: `namespace/name`, with every right or with those of a Role in its namespace.
    pub async fn token(&self, namespace: &str, name: &str, rules: Option<Value>) -> String {
        self.create::<ServiceAccount>(Some(namespace), json!({"metadata": {"name": name}})).await;
        let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
        let group = "rbac.authorization.k8s.io";
        if let Some(rules) = rules {
            self.create::<Role>(Some(namespace), json!({"metadata": {"name": name}, "rules": rules})).await;
            let role = json!({"apiGroup": group, "kind": "Role", "name": name});
            let binding = json!({"metadata": {"name": name}, "subjects": subjects, "roleRef": role});
            self.create::<RoleBinding>(Some(namespace), binding).await;
        } else {
            let role = json!({"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"});
            let binding =
                json!({"metadata": {"name": format!("{namespace}-{name}")}, "subjects": subjects, "roleRef": role});
            self.create::<ClusterRoleBinding>(None, binding).await;
        }
        let request = TokenRequest {
            spec: TokenRequestSpec { audiences: Vec::new(), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let token = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        token.status.unwrap().token
    }

    /// Somebody who may do anything, at a server with the usual settings.
    pub async fn administrator(&self, name: &str) -> Person {
        let token = self.token("default", name, None).await;
        Person { router: Server::new(self.options()).router(), token: Some(token) }
    }
}

/// Somebody who asks the server.
#[derive(Clone)]
pub struct Person {
    pub router: Router,
    pub token: Option<String>,
}

impl Person {
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let response = self.open(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Answer { code: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> axum::response::Response {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }

    /// Events of a stream until `enough` says so; it must come within a minute.
    pub async fn events(&self, path: &str, last: Option<&str>, enough: impl FnMut(&[Sent]) -> bool) -> Vec<Sent> {
        let mut stream = self.listen(path, last).await;
        stream.until(enough).await;
        stream.events()
    }

    /// A stream that stays open.
    pub async fn listen(&self, path: &str, last: Option<&str>) -> Listening {
        let headers: Vec<(&str, &str)> = last.map(|id| ("last-event-id", id)).into_iter().collect();
        let response = self.open("GET", path, &headers, Body::empty()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["x-accel-buffering"], "no", "proxies must not hold a stream back");
        Listening { body: response.into_body().into_data_stream(), text: String::new() }
    }
}

/// An open stream and what it has said.
pub struct Listening {
    pub body: BodyDataStream,
    pub text: String,
}

impl Listening {
    /// Reads until `enough` says so or the stream ends.
    pub async fn until(&mut self, mut enough: impl FnMut(&[Sent]) -> bool) {
        let reading = async {
            while !enough(&parse(&self.text)) {
                let Some(chunk) = self.body.next().await else { return };
                self.text.push_str(&String::from_utf8_lossy(&chunk.unwrap()));
            }
        };
        tokio::time::timeout(Duration::from_mins(1), reading).await.expect("the stream says what is waited for");
    }

    pub fn events(&self) -> Vec<Sent> {
        parse(&self.text)
    }
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub event: String,
    pub id: String,
    pub data: Value,
}

fn parse(text: &str) -> Vec<Sent> {
    let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    whole.split("\n\n").filter(|block| block.contains("data:")).map(one).collect()
}

fn one(block: &str) -> Sent {
    let field = |name: &str| {
        let value = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim_start().to_owned()
    };
    Sent { event: field("event"), id: field("id"), data: serde_json::from_str(&field("data")).unwrap() }
}

/// A manifest of the smallest template.
pub fn template(name: &str) -> Value {
    json!({"name": name, "workspaceDir": "/workspace", "serviceAccountName": "default"})
}

/// Writes a log as the controllers keep it.
pub fn keep(root: &Path, namespace: &str, task: &str, uid: &str, text: &str) {
    let archive = controllers::logs::Archive { directory: root.to_owned() };
    let folder = archive.of(namespace, task, uid);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agent.log"), text).unwrap();
}
