//! List, get, create, replace and delete, for every kind alike.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::assets::hexadecimal as hex;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::Path;
use crate::kinds::LAST_APPLIED;
use crate::kinds::{CONFIG, KINDS, Kind};
use crate::query::{self, ListQuery, Row};

/// Options of reads and writes of one object.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ObjectQuery {
    /// `json`, a view for people, or `yaml`, the whole object.
    output: Option<Output>,
    /// `All`: say what would come of it and change nothing.
    dry_run: Option<DryRun>,
}

/// How an object is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// A view.
    Json,
    /// The whole object.
    Yaml,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
enum DryRun {
    All,
}

/// `GET /api/v1/{kind}` and `GET /api/v1/namespaces/{namespace}/{kind}`.
pub async fn list(
    kind: &'static Kind,
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    query: &ListQuery,
    headers: &HeaderMap,
) -> Result<Response> {
    let texts = listed(kind, app, caller, namespace, query.label_selector.as_deref()).await?;
    let page = query::page(&rows(&texts)?, query, kind)?;
    let text = if query.output == Some(Output::Yaml) { yaml(&page)? } else { page.to_string() };
    let tag = HeaderValue::from_str(&format!("\"{}\"", hex(&Sha256::digest(text.as_bytes())[..16])))
        .expect("hexadecimal digits are a header value");
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let media = if query.output == Some(Output::Yaml) { "application/yaml" } else { "application/json" };
    let headers = [(header::ETAG, tag), (header::CONTENT_TYPE, HeaderValue::from_static(media))];
    Ok((headers, text).into_response())
}

fn yaml(value: &Value) -> Result<String> {
    serde_saphyr::to_string(value).map_err(|error| Error::bad_request(error.to_string()))
}

/// What the caller can see: everything asked for, or, across namespaces, what is in those they may list.
pub async fn visible(
    kind: &'static Kind,
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for text in listed(kind, app, caller, namespace, selector).await? {
        let list: Items<DynamicObject> = serde_json::from_str(&text).map_err(unreadable)?;
        objects.extend(list.items);
    }
    Ok(objects)
}

/// The lists of the Kubernetes API as it wrote them: one, or one for each namespace.
async fn listed(
    kind: &'static Kind,
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<Vec<String>> {
    let parameters = ListParams { label_selector: kind.selector(selector), ..ListParams::default() };
    let ask = async |namespace: Option<&str>| -> Result<String> {
        let objects = kind.api(&caller.client, namespace);
        let request =
            kube::core::Request::new(objects.resource_url()).list(&parameters).map_err(kube::Error::BuildRequest)?;
        Ok(caller.client.request_text(request).await?)
    };
    match ask(namespace).await {
        Err(error) if error.is_forbidden() && namespace.is_none() => {}
        done => return Ok(vec![done?]),
    }
    let mut texts = Vec::new();
    for namespace in caller.namespaces(app, kind.access()).await? {
        texts.push(ask(Some(&namespace)).await?);
    }
    Ok(texts)
}

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

/// What filters and order look at; the rest of an object is read only if it is on the page.
fn rows(texts: &[String]) -> Result<Vec<Row<'_>>> {
    let mut rows = Vec::new();
    for text in texts {
        let list: Items<&RawValue> = serde_json::from_str(text).map_err(unreadable)?;
        for object in list.items {
            rows.push(Row::read(object).map_err(unreadable)?);
        }
    }
    Ok(rows)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: serde_json::Error) -> Error {
    Error::new(
        StatusCode::BAD_GATEWAY,
        "PlaneUnavailable",
        format!("The Kubernetes API's answer cannot be read: {error}"),
    )
}

/// `GET /api/v1/namespaces`.
pub async fn namespaces(State(app): State<App>, Extension(caller): Extension<Caller>) -> Result<Json<Value>> {
    let listed = Api::<Namespace>::all(caller.client.clone()).list(&ListParams::default()).await.map_err(Error::from);
    let mut names: Vec<String> = match listed {
        Ok(list) => list.items.iter().map(ResourceExt::name_any).collect(),
        Err(error) if error.is_forbidden() => caller.namespaces(&app, KINDS[0].access()).await?,
        Err(error) => return Err(error),
    };
    names.sort();
    Ok(Json(json!({"namespaces": names})))
}

/// `GET /api/v1/config`: the one object, or the empty one that stands for the defaults while nobody made it.
pub async fn get_singleton(
    kind: &'static Kind,
    caller: &Caller,
    name: &str,
    query: &ObjectQuery,
    headers: &HeaderMap,
) -> Result<Response> {
    match get(kind, caller, None, name, query, headers).await {
        Err(error) if error.is_not_found() => respond(kind, &empty(kind, name), query, StatusCode::OK),
        answer => answer,
    }
}

/// `PUT /api/v1/config`: replaces the object, or makes it.
pub async fn put_singleton(
    kind: &'static Kind,
    caller: &Caller,
    name: &str,
    query: &ObjectQuery,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response> {
    match replace(kind, caller, None, name, query, headers, body).await {
        Err(error) if error.is_not_found() => {
            let mut object = empty(kind, name);
            let sent = read(headers, body)?;
            object.data["spec"] = sent.get("spec").cloned().unwrap_or(sent);
            let created = kind.api(&caller.client, None).create(&writing(query), &object).await?;
            respond(kind, &created, query, StatusCode::CREATED)
        }
        answer => answer,
    }
}

fn empty(kind: &Kind, name: &str) -> DynamicObject {
    DynamicObject::new(name, &kind.resource()).data(json!({"spec": {}}))
}

fn writing(query: &ObjectQuery) -> PostParams {
    PostParams { dry_run: query.dry_run.is_some(), field_manager: Some("orrery-server".to_owned()) }
}

/// `GET …/{name}`, as a view or, with `?output=yaml`, as the whole object.
pub async fn get(
    kind: &'static Kind,
    caller: &Caller,
    namespace: Option<&str>,
    name: &str,
    query: &ObjectQuery,
    headers: &HeaderMap,
) -> Result<Response> {
    let object = kind.api(&caller.client, namespace).get(name).await?;
    if !kind.holds(&object) {
        return Err(Error::not_found(format!("{} {name} does not exist", kind.name)));
    }
    let tag = etag(&object);
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    respond(kind, &object, query, StatusCode::OK)
}

/// `POST …`: a whole object as JSON or YAML, or the fields of its spec beside `name`, as KubeOpenCode's clients send.
pub async fn create(
    kind: &'static Kind,
    caller: &Caller,
    namespace: &str,
    query: &ObjectQuery,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response> {
    let object = complete(kind, namespace, read(headers, body)?)?;
    let created = kind.api(&caller.client, Some(namespace)).create(&writing(query), &object).await?;
    respond(kind, &created, query, StatusCode::CREATED)
}

/// `PUT …/{name}`: replaces the spec. `If-Match`, or a resourceVersion in the body, refuses to overwrite a newer one.
pub async fn replace(
    kind: &'static Kind,
    caller: &Caller,
    namespace: Option<&str>,
    name: &str,
    query: &ObjectQuery,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response> {
    let sent = read(headers, body)?;
    let objects = kind.api(&caller.client, namespace);
    let mut object = objects.get(name).await?;
    let expected = match (headers.get(header::IF_MATCH), sent["metadata"]["resourceVersion"].as_str()) {
        (Some(tag), _) => Some(tag.to_str().unwrap_or_default().trim_matches('"').to_owned()),
        (None, version) => version.map(str::to_owned),
    };
    object.metadata.managed_fields = None;
    if expected.is_some() {
        object.metadata.resource_version = expected;
    }
    for field in ["labels", "annotations"] {
        if sent["metadata"].is_null() {
            continue;
        }
        let sent: Option<BTreeMap<String, String>> = serde_json::from_value(sent["metadata"][field].clone())
            .map_err(|error| Error::bad_request(format!("metadata.{field}: {error}")))?;
        match field {
            "labels" => object.metadata.labels = sent,
            _ => object.metadata.annotations = keep_applied(object.metadata.annotations.take(), sent),
        }
    }
    object.data["spec"] = if sent.get("spec").is_some() { sent["spec"].clone() } else { sent };
    let replaced = objects.replace(name, &writing(query), &object).await?;
    respond(kind, &replaced, query, StatusCode::OK)
}

/// What `kubectl apply` remembers is not shown, so that it is not sent back; it stays.
fn keep_applied(
    old: Option<BTreeMap<String, String>>,
    new: Option<BTreeMap<String, String>>,
) -> Option<BTreeMap<String, String>> {
    let applied = old.and_then(|mut old| old.remove_entry(LAST_APPLIED));
    let mut new = new.unwrap_or_default();
    if let Some((name, value)) = applied {
        new.entry(name).or_insert(value);
    }
    (!new.is_empty()).then_some(new)
}

/// `DELETE …/{name}`.
pub async fn delete(
    kind: &'static Kind,
    caller: &Caller,
    namespace: &str,
    name: &str,
    query: &ObjectQuery,
    headers: &HeaderMap,
) -> Result<Response> {
    let mut parameters = DeleteParams::background();
    parameters.dry_run = query.dry_run.is_some();
    if let Some(tag) = headers.get(header::IF_MATCH).and_then(|tag| tag.to_str().ok()) {
        parameters.preconditions =
            Some(Preconditions { resource_version: Some(tag.trim_matches('"').to_owned()), uid: None });
    }
    kind.api(&caller.client, Some(namespace)).delete(name, &parameters).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn respond(kind: &Kind, object: &DynamicObject, query: &ObjectQuery, status: StatusCode) -> Result<Response> {
    let tag = etag(object);
    let value = value(object);
    if query.output == Some(Output::Yaml) {
        let text = yaml(&(CONFIG.view)(&value))?;
        let kind = HeaderValue::from_static("application/yaml");
        return Ok((status, [(header::ETAG, tag), (header::CONTENT_TYPE, kind)], text).into_response());
    }
    Ok((status, [(header::ETAG, tag)], Json((kind.view)(&value))).into_response())
}

fn etag(object: &DynamicObject) -> HeaderValue {
    let version = object.metadata.resource_version.as_deref().unwrap_or_default();
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// The object as JSON.
pub fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// A body in JSON, or in YAML when it says so.
fn read(headers: &HeaderMap, body: &Bytes) -> Result<Value> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    let bad = |error: &dyn std::fmt::Display| Error::bad_request(format!("The body cannot be read: {error}"));
    let value: Value = if kind.contains("yaml") {
        let text = std::str::from_utf8(body).map_err(|error| bad(&error))?;
        serde_saphyr::from_str(text).map_err(|error| bad(&error))?
    } else {
        serde_json::from_slice(body).map_err(|error| bad(&error))?
    };
    if !value.is_object() {
        return Err(bad(&"it is not an object"));
    }
    if !matches!(value.get("metadata"), None | Some(Value::Object(_) | Value::Null)) {
        return Err(bad(&"metadata: must be an object"));
    }
    Ok(value)
}

/// Makes a whole object of what was sent.
fn complete(kind: &Kind, namespace: &str, mut sent: Value) -> Result<DynamicObject> {
    let mut object = if sent.get("spec").is_some() {
        sent
    } else {
        let fields = sent.as_object_mut().expect("read() lets only objects through");
        let name = fields.remove("name");
        fields.remove("namespace");
        json!({"metadata": {"name": name}, "spec": sent})
    };
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name.into();
    let metadata =
        object["metadata"].as_object_mut().ok_or_else(|| Error::bad_request("metadata: must be an object"))?;
    metadata.insert("namespace".to_owned(), namespace.into());
    let named = metadata.get("name").is_some_and(|name| name.as_str().is_some_and(|name| !name.is_empty()));
    if !named {
        metadata.remove("name");
        match kind.generate_name {
            Some(prefix) => metadata.entry("generateName").or_insert(prefix.into()),
            None if metadata.contains_key("generateName") => &mut Value::Null,
            None => return Err(Error::bad_request("name: is required")),
        };
    }
    serde_json::from_value(object)
        .map_err(|error| Error::bad_request(format!("The body is not a {}: {error}", kind.name)))
}

/// Path of a namespaced object.
pub type ObjectPath = Path<(String, String)>;
