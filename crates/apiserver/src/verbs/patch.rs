//! Changing an object in part: three kinds of patch, and server-side apply.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use machinery::patch;
use machinery::status::Status;
use serde_json::Value;

use crate::call::Call;
use crate::decode::{self, Decoded};
use crate::object;
use crate::options;
use crate::verbs::get;
use crate::write::{self, Proposal};

/// The patch types, by media type.
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// PATCH of an object.
pub async fn patch(call: &Call, body: &Bytes) -> Result<Response, Status> {
    match decode::media_type(&call.headers).as_str() {
        APPLY => return apply(call, body).await,
        JSON | MERGE => {}
        STRATEGIC if !call.kind.custom => {}
        _ => return Err(unsupported(call)),
    }
    if call.query.force.is_some() {
        let path = machinery::field::Path::new("force");
        let cause = machinery::field::forbidden(&path, "may not be specified for non-apply patch");
        return Err(options::invalid("PatchOptions", vec![cause]));
    }
    let change = decode::patch(body)?;
    let object = write::modify(call, &call.target.subresource, |live| {
        let mut object = merge(call, live, &change.value)?;
        if !object.is_object() {
            return Err(Status::bad_request("the patch leaves something that is not an object"));
        }
        keep_type(call, &object)?;
        write::admit_patched(call, &mut object, &change.duplicates)?;
        Ok(Proposal::whole(object))
    })
    .await?;
    Ok(get::answer(call, StatusCode::OK, object))
}

fn merge(call: &Call, live: &Value, change: &Value) -> Result<Value, Status> {
    match decode::media_type(&call.headers).as_str() {
        JSON => patch::json::apply(live, change),
        STRATEGIC => match &call.kind.schema {
            Some(schema) => patch::strategic::apply(schema, live, change),
            None => patch::merge::apply(live, change),
        },
        _ => patch::merge::apply(live, change),
    }
}

/// A patch must leave an object of the same kind.
fn keep_type(call: &Call, object: &Value) -> Result<(), Status> {
    if object["kind"] != call.kind.kind.as_str() || object["apiVersion"] != call.kind.api_version().as_str() {
        return Err(Status::bad_request(format!(
            "the patch changes apiVersion or kind, which must stay {} {}",
            call.kind.api_version(),
            call.kind.kind
        )));
    }
    Ok(())
}

fn unsupported(call: &Call) -> Status {
    let strategic = if call.kind.custom { "" } else { ", application/strategic-merge-patch+json" };
    Status::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {JSON}, {MERGE}, \
         {APPLY}{strategic}"
    ))
}

/// Server-side apply: creates the object when it is not there.
async fn apply(call: &Call, body: &Bytes) -> Result<Response, Status> {
    if call.query.field_manager.is_empty() {
        let path = machinery::field::Path::new("fieldManager");
        let cause = machinery::field::required(&path, "is required for apply patch");
        return Err(options::invalid("PatchOptions", vec![cause]));
    }
    let decoded = decode::yaml(body).map_err(|status| Status::bad_request(format!("error decoding YAML: {status}")))?;
    let config = configuration(call, decoded)?;
    let subresource = &call.target.subresource;
    loop {
        if call.server.store().get(&call.key(&call.target.name)?).is_some() || !subresource.is_empty() {
            let object = write::modify(call, subresource, |live| applied(call, Some(live), &config)).await?;
            return Ok(get::answer(call, StatusCode::OK, object));
        }
        let uid = object::uid(&config);
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(call.conflict(&call.target.name, why));
        }
        match write::create(call, applied(call, None, &config)?).await {
            // Someone made it in between: then it is a change.
            Err(status) if status.reason == "AlreadyExists" => {}
            Err(status) => return Err(status),
            Ok(object) => return Ok(get::answer(call, StatusCode::CREATED, object)),
        }
    }
}

/// The applied configuration, checked: what it says is owned, so unknown fields matter here too.
fn configuration(call: &Call, decoded: Decoded) -> Result<Value, Status> {
    let name = call.target.name.clone();
    let mut config = write::admit_applied(call, decoded)?;
    match object::name(&config) {
        "" => {
            object::metadata_mut(&mut config).insert("name".into(), name.into());
        }
        given if given != name => {
            return Err(Status::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        _ => {}
    }
    if object::metadata(&config).get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    // What the endpoint may not write is not owned either.
    let status = call.target.subresource == "status";
    if call.kind.writing.status && !status {
        object::put(&mut config, "status", None);
    }
    if status && let Some(fields) = config.as_object_mut() {
        fields.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        if !call.kind.writing.status_metadata {
            object::metadata_mut(&mut config).retain(|field, _| matches!(field.as_str(), "name" | "namespace"));
        }
    }
    Ok(config)
}

fn applied(call: &Call, live: Option<&Value>, config: &Value) -> Result<Proposal, Status> {
    let mut object = write::apply(call, live, config)?;
    // A resourceVersion in the configuration is a condition on the live object.
    let seen = object::resource_version(config);
    if !seen.is_empty() {
        object::metadata_mut(&mut object).insert("resourceVersion".into(), seen.into());
    }
    Ok(Proposal { object, applied: true })
}
