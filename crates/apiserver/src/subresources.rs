//! What lies below an object, beside its status.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::call::Call;
use crate::decode;
use crate::object::{self, Object};
use crate::request::unknown_path;
use crate::respond;
use crate::verbs::{delete, get};
use crate::write::{self, Proposal};

mod scale;
mod streams;

/// Whether the answer is a stream that lives as long as the client likes.
pub fn is_stream(call: &Call) -> bool {
    call.kind.plural == "pods"
        && call.kind.group.is_empty()
        && matches!(call.target.subresource.as_str(), "log" | "exec" | "attach" | "portforward")
}

/// Answers a request for a stream.
pub async fn stream(call: Call, parts: &Parts) -> Result<Response, Status> {
    match call.target.subresource.as_str() {
        "log" => streams::log(&call).await,
        "portforward" => streams::port_forward(call, parts).await,
        _ => streams::exec(call, parts).await,
    }
}

/// Answers a request for anything else.
pub async fn run(call: &mut Call, body: &Bytes) -> Result<Response, Status> {
    match call.target.subresource.as_str() {
        "scale" => scale::run(call, body).await,
        "finalize" => finalize(call, body).await,
        "binding" => bind(call, body).await,
        "eviction" => evict(call, body).await,
        "token" => token(call, body),
        _ => Err(unknown_path()),
    }
}

/// PUT of a Namespace's finalizers.
async fn finalize(call: &Call, body: &Bytes) -> Result<Response, Status> {
    let wanted = write::admit(call, decode::object(&call.headers, body)?)?;
    let object = write::modify(call, "finalize", |live| {
        let mut object = live.clone();
        object["spec"] = json!({ "finalizers": object::strings(wanted["spec"].get("finalizers")) });
        let seen = object::resource_version(&wanted);
        object::put(&mut object["metadata"], "resourceVersion", (!seen.is_empty()).then(|| seen.into()));
        Ok(Proposal::whole(object))
    })
    .await?;
    Ok(get::answer(call, StatusCode::OK, object))
}

/// POST of a Binding: gives a Pod to a node, once.
async fn bind(call: &Call, body: &Bytes) -> Result<Response, Status> {
    let binding = decode::object(&call.headers, body)?.value;
    let target = &binding["target"];
    let node = target["name"].as_str().unwrap_or_default();
    if node.is_empty() || !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
        let path = machinery::field::Path::new("target");
        let cause = machinery::field::required(&path.child("name"), "a Binding names the Node");
        return Err(Status::invalid("", "Binding", &call.target.name, vec![cause]));
    }
    write::modify(call, "binding", |live| {
        let current = live["spec"]["nodeName"].as_str().unwrap_or_default();
        if object::is_deleting(live) {
            return Err(call.conflict(
                &call.target.name,
                format!("pod {} is being deleted, cannot be assigned to a host", call.target.name),
            ));
        }
        if !current.is_empty() {
            let why = format!("pod {} is already assigned to node \"{current}\"", call.target.name);
            return Err(call.conflict(&call.target.name, why));
        }
        let mut pod = live.clone();
        pod["spec"]["nodeName"] = node.into();
        scheduled(&mut pod);
        Ok(Proposal::whole(pod))
    })
    .await?;
    Ok(respond::value(StatusCode::CREATED, &success(), call.accept.pretty))
}

/// Notes in the status that the Pod has a node.
fn scheduled(pod: &mut Value) {
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": object::now(),
    });
    let conditions = &mut pod["status"]["conditions"];
    match conditions.as_array_mut() {
        Some(list) => {
            list.retain(|one| one["type"] != "PodScheduled");
            list.push(condition);
        }
        None => *conditions = json!([condition]),
    }
}

/// POST of an Eviction: a delete. There are no disruption budgets to ask.
async fn evict(call: &mut Call, body: &Bytes) -> Result<Response, Status> {
    let eviction = decode::object(&call.headers, body)?.value;
    let options = eviction.get("deleteOptions").filter(|options| !options.is_null()).map(Value::to_string);
    let options = Bytes::from(options.unwrap_or_default());
    delete::delete(call, &options).await?;
    Ok(respond::value(StatusCode::CREATED, &success(), call.accept.pretty))
}

/// POST to ask for a token.
fn token(call: &Call, body: &Bytes) -> Result<Response, Status> {
    let request = decode::object(&call.headers, body)?.value;
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let token = call.server.access().create_token(namespace, name, request, jiff::Timestamp::now())?;
    Ok(get::answer(call, StatusCode::CREATED, Object::Value(token)))
}

fn success() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
