//! How many: one number of an object, in a form that is the same for every kind.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use machinery::field::{self, Path};
use machinery::patch;
use machinery::status::Status;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::decode;
use crate::kinds::{Kind, Printer, Scale, columns};
use crate::object;
use crate::request::{Verb, unknown_path};
use crate::respond;
use crate::write::{self, Proposal};

/// GET, PUT and PATCH of `/scale`.
pub async fn run(call: &Call, body: &Bytes) -> Result<Response, Status> {
    let paths = call.kind.scale.clone().ok_or_else(unknown_path)?;
    let object = match call.target.verb {
        Verb::Get => call.value(&*call.entry(&call.target.name)?),
        Verb::Update => {
            let wanted = decode::object(&call.headers, body)?.value;
            change(call, &paths, |_| Ok(wanted.clone())).await?
        }
        _ => {
            let media_type = decode::media_type(&call.headers);
            let wanted = if media_type.ends_with("+yaml") { decode::yaml(body)? } else { decode::json(body)? }.value;
            change(call, &paths, |current| match media_type.as_str() {
                "application/json-patch+json" => patch::json::apply(current, &wanted),
                _ => patch::merge::apply(current, &wanted),
            })
            .await?
        }
    };
    let kind = Kind { printer: Printer::Code(&columns::SCALES), ..Kind::clone(&call.kind) };
    let shaped = call.accept.shape(&kind, show(&object, &paths), true);
    Ok(respond::value(StatusCode::OK, &shaped, call.accept.pretty))
}

async fn change(call: &Call, paths: &Scale, make: impl Fn(&Value) -> Result<Value, Status>) -> Result<Value, Status> {
    let changed = write::modify(call, "scale", |live| {
        let wanted = make(&show(live, paths))?;
        let replicas = replicas(call, &wanted)?;
        let mut object = live.clone();
        set(&mut object, &paths.spec_replicas, replicas.into());
        let seen = object::resource_version(&wanted);
        object::put(&mut object["metadata"], "resourceVersion", (!seen.is_empty()).then(|| seen.into()));
        Ok(Proposal::whole(object))
    });
    Ok(changed.await?.into_value())
}

fn replicas(call: &Call, scale: &Value) -> Result<i64, Status> {
    let path = Path::new("spec");
    let value = &scale["spec"]["replicas"];
    match value.as_i64() {
        Some(number) if (0..=i64::from(i32::MAX)).contains(&number) => Ok(number),
        None if value.is_null() => Ok(0),
        _ => {
            let cause = field::invalid(&path.child("replicas"), value, "must be greater than or equal to 0");
            Err(Status::invalid("autoscaling", "Scale", &call.target.name, vec![cause]))
        }
    }
}

/// An object as a Scale.
fn show(object: &Value, paths: &Scale) -> Value {
    let fields = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: Map<String, Value> = fields
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), object::metadata(object).get(*field)?.clone())))
        .collect();
    let number = |path: &[String]| find(object, path).and_then(Value::as_i64).unwrap_or(0);
    let selector = match &paths.selector {
        Some(path) => find(object, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => machinery::selector::LabelSelector::from_object(object["spec"].get("selector"))
            .map(|selector| selector.to_string())
            .unwrap_or_default(),
    };
    let mut status = json!({ "replicas": number(&paths.status_replicas) });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": number(&paths.spec_replicas) }, "status": status,
    })
}

fn find<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| value.get(step))
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let place = path.iter().fold(object, |here, step| {
        if !here.is_object() {
            *here = json!({});
        }
        &mut here[step.as_str()]
    });
    *place = value;
}
