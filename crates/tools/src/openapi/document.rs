//! The operations of a document, as tools.

use std::collections::BTreeSet;

use api::omnia::{Body, Location, Operation, Parameter, Style};
use serde_json::{Map, Value, json};
use url::Url;

use super::Source;
use super::schema::Schemas;
use crate::found::{MOST_TOOLS, tool_name};
use crate::{Found, Problem};

/// Methods whose operations are tools.
const METHODS: &[&str] = &["get", "put", "post", "delete", "patch"];
/// Headers that are not parameters, as the specification says.
const NOT_PARAMETERS: &[&str] = &["accept", "authorization", "content-type"];
/// How long a chain of references may be.
const MOST_HOPS: usize = 8;

/// The tools of a document that came from `url`.
pub fn operations(text: &[u8], url: &Url, source: &Source) -> Result<Vec<Found>, Problem> {
    let document = parse(text)?;
    let base = base(&document, url, source)?;
    let mut schemas = Schemas::of(&document);
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let none = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&none);
    for (path, item) in paths {
        let item = resolve(&document, item).unwrap_or(item);
        for method in METHODS {
            let Some(operation) = item.get(*method).filter(|operation| operation.is_object()) else { continue };
            let id = operation["operationId"].as_str();
            if !source.filter.is_empty() && !id.is_some_and(|id| source.filter.iter().any(|wanted| wanted == id)) {
                continue;
            }
            seen.extend(id.map(ToOwned::to_owned));
            if found.len() == MOST_TOOLS {
                let message = format!(
                    "the document has more than {MOST_TOOLS} operations: name those that are wanted in operationFilter"
                );
                return Err(Problem::new("TooManyTools", message));
            }
            found.push(tool(&document, &mut schemas, &base, path, method, item, operation).checked());
        }
    }
    let missing = source.filter.iter().filter(|id| !seen.contains(*id));
    found.extend(missing.map(|id| Found {
        name: tool_name(id),
        problem: Some(Problem::new("OperationNotFound", format!("the document has no operation {id:?}"))),
        ..Found::default()
    }));
    if found.is_empty() {
        return Err(Problem::new("NoTools", "the document has no operations"));
    }
    Ok(found)
}

fn parse(text: &[u8]) -> Result<Value, Problem> {
    let odd = |message: String| Problem::new("InvalidAnswer", message);
    let text = std::str::from_utf8(text).map_err(|error| odd(format!("the document is no text: {error}")))?;
    let document: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| odd(format!("the document is no JSON: {error}")))?
    } else {
        serde_saphyr::from_str(text).map_err(|error| odd(format!("the document is no YAML: {error}")))?
    };
    match document["openapi"].as_str() {
        Some(version) if version.starts_with("3.0") || version.starts_with("3.1") => Ok(document),
        Some(version) => Err(odd(format!("the document is OpenAPI {version}; 3.0 and 3.1 are understood"))),
        None => Err(odd("the document has no field openapi: it is no OpenAPI document".into())),
    }
}

/// Where operations are called: never at a host that the handler does not name.
fn base(document: &Value, url: &Url, source: &Source) -> Result<String, Problem> {
    if let Some(base) = &source.base {
        return Ok(base.clone());
    }
    let server = &document["servers"][0];
    let mut text = server["url"].as_str().unwrap_or("/").to_owned();
    for (name, variable) in server["variables"].as_object().into_iter().flatten() {
        text = text.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
    }
    let mut base = url
        .join(&text)
        .map_err(|error| Problem::new("InvalidAnswer", format!("the document's server {text:?} is no URL: {error}")))?;
    if base.origin() != url.origin() {
        if !source.at_home {
            let message = format!(
                "the document sends calls to {text}, which the handler does not name: set openAPIConfig.baseURL"
            );
            return Err(Problem::new("ForeignServer", message));
        }
        let path = base.path().to_owned();
        base = url.clone();
        base.set_path(&path);
    }
    base.set_query(None);
    base.set_fragment(None);
    Ok(base.to_string())
}

/// Follows references within the document.
fn resolve<'a>(document: &'a Value, mut value: &'a Value) -> Option<&'a Value> {
    for _ in 0..MOST_HOPS {
        let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Some(value) };
        value = document.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

fn tool(
    document: &Value,
    schemas: &mut Schemas<'_>,
    base: &str,
    path: &str,
    method: &str,
    item: &Value,
    operation: &Value,
) -> Found {
    let text = |field: &str| operation[field].as_str().map(str::trim).filter(|text| !text.is_empty());
    let title = format!("{} {path}", method.to_ascii_uppercase());
    let id = text("operationId").map_or_else(|| format!("{method}{path}").replace(['{', '}'], ""), ToOwned::to_owned);
    let name = tool_name(&id);
    let mut found = Found {
        remote_name: (name != id).then(|| id.clone()),
        name,
        description: text("description").or(text("summary")).unwrap_or(&title).to_owned(),
        endpoint: base.to_owned(),
        ..Found::default()
    };
    match describe(document, schemas, path, method, item, operation) {
        Ok((operation, input)) => {
            (found.operation, found.input_schema) = (Some(operation), input);
            found.output_schema = answer(document, operation_answers(document, method, item), schemas);
        }
        Err(problem) => found.problem = Some(problem),
    }
    found
}

fn operation_answers<'a>(document: &'a Value, method: &str, item: &'a Value) -> Option<&'a Value> {
    let responses = &item[method]["responses"];
    let good = ["200", "201", "202", "2XX"].iter().find_map(|status| responses.get(*status))?;
    resolve(document, good)
}

/// What an operation answers, if that can be said in few words.
fn answer(document: &Value, response: Option<&Value>, schemas: &mut Schemas<'_>) -> Option<Value> {
    let (_, content) = content(response?)?;
    let schema = resolve_media(document, content)?;
    schemas.whole(schema).ok().filter(Value::is_object)
}

fn resolve_media(document: &Value, media: &Value) -> Option<Value> {
    resolve(document, media)?.get("schema").cloned()
}

/// How an operation is called, and the schema of its arguments.
fn describe(
    document: &Value,
    schemas: &mut Schemas<'_>,
    path: &str,
    method: &str,
    item: &Value,
    operation: &Value,
) -> Result<(Operation, Value), Problem> {
    let unsupported = |message: String| Problem::new("Unsupported", message);
    if !path.starts_with('/') {
        return Err(unsupported(format!("its path {path:?} does not begin with a slash")));
    }
    let mut how = Operation { method: method.to_ascii_uppercase(), path: path.to_owned(), ..Operation::default() };
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in parameters(document, item, operation)? {
        let name = parameter["name"].as_str().unwrap_or_default();
        let Ok(location) = serde_json::from_value::<Location>(parameter["in"].clone()) else {
            return Err(unsupported(format!("its parameter {name:?} is in {}", parameter["in"])));
        };
        if location == Location::Header && NOT_PARAMETERS.contains(&name.to_ascii_lowercase().as_str()) {
            continue;
        }
        let argument = free_name(name, &properties);
        let inner = parameter["content"].as_object().and_then(|content| content.values().next());
        let mut schema = inner.unwrap_or(parameter).get("schema").cloned().unwrap_or_else(|| json!({}));
        note(&mut schema, parameter);
        properties.insert(argument.clone(), schema);
        if parameter["required"] == true || location == Location::Path {
            required.push(argument.clone());
        }
        let style = style(location, parameter);
        how.parameters.push(Parameter { name: (argument != name).then(|| name.into()), argument, location, style });
    }
    if let Some(body) = operation.get("requestBody") {
        let body = resolve(document, body).ok_or_else(|| unsupported("its requestBody is elsewhere".into()))?;
        let Some((content_type, media)) = content(body) else {
            let known: Vec<&String> = body["content"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
            return Err(unsupported(format!("its body is written as {known:?}; JSON, forms and text are understood")));
        };
        let argument = free_name("body", &properties);
        let mut schema = media.get("schema").cloned().unwrap_or_else(|| json!({}));
        note(&mut schema, body);
        properties.insert(argument.clone(), schema);
        if body["required"] == true {
            required.push(argument.clone());
        }
        how.body = Some(Body { argument, content_type: content_type.to_owned() });
    }
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Ok((how, schemas.whole(schema)?))
}

/// The parameters of an operation: its own win over those of its path.
fn parameters<'a>(document: &'a Value, item: &'a Value, operation: &'a Value) -> Result<Vec<&'a Value>, Problem> {
    let mut all: Vec<&Value> = Vec::new();
    let lists = [&item["parameters"], &operation["parameters"]];
    for parameter in lists.into_iter().filter_map(Value::as_array).flatten() {
        let elsewhere = || Problem::new("Unsupported", "one of its parameters is elsewhere");
        let parameter = resolve(document, parameter).ok_or_else(elsewhere)?;
        all.retain(|known| (&known["name"], &known["in"]) != (&parameter["name"], &parameter["in"]));
        all.push(parameter);
    }
    Ok(all)
}

/// A name for an argument that is not taken.
fn free_name(name: &str, taken: &Map<String, Value>) -> String {
    let mut free = name.to_owned();
    while taken.contains_key(&free) {
        free.push('_');
    }
    free
}

/// What the document says about a parameter is more than what its schema says.
fn note(schema: &mut Value, about: &Value) {
    if let (Some(object), Some(text)) = (schema.as_object_mut(), about["description"].as_str()) {
        object.insert("description".into(), text.into());
    }
}

fn style(location: Location, parameter: &Value) -> Style {
    let explode = parameter["explode"].as_bool();
    match (location, parameter["style"].as_str()) {
        (Location::Query, Some("deepObject")) => Style::Deep,
        (Location::Query, None | Some("form")) if explode != Some(false) => Style::Plain,
        _ => Style::Joined,
    }
}

/// The way of writing a body that we can write.
fn content(body: &Value) -> Option<(&str, &Value)> {
    let all = body["content"].as_object()?;
    let plain = |name: &str| name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let pick = |fits: &dyn Fn(&str) -> bool| {
        all.iter().find(|(name, _)| fits(&plain(name))).map(|(name, media)| (name.as_str(), media))
    };
    pick(&|name| name == "application/json" || name == "*/*" || name.ends_with("+json"))
        .map(|(name, media)| (if name.contains('*') { "application/json" } else { name }, media))
        .or_else(|| pick(&|name| name == "application/x-www-form-urlencoded"))
        .or_else(|| pick(&|name| name == "text/plain"))
}
