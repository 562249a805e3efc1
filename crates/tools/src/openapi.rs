//! Tools that an OpenAPI document describes: found in it, and called as it says.

mod document;
mod schema;

use std::time::Duration;

use api::omnia::tools::OperationCall;
use api::omnia::{Location, Parameter, Style};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use url::Url;
use url::form_urlencoded::Serializer;

use crate::call::{Secret, plain_text};
use crate::caller::Caller;
use crate::client::{self, Bounds, Client, Error};
use crate::{Found, Problem};

pub use document::operations;

/// How much of a document is read.
const MOST_OF_A_DOCUMENT: usize = 8 << 20;
/// What stays as it is in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where a document is, and what of it is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The document.
    pub url: String,
    /// Where operations are called, whatever the document says.
    pub base: Option<String>,
    /// Only these operations; all when empty.
    pub filter: Vec<String>,
    /// Who asks for it.
    pub caller: Caller,
    /// Operations are called at the document's own host, whatever host it names: a Service does not know its name.
    pub at_home: bool,
}

impl Client {
    /// The tools of a document.
    pub async fn operations(&self, source: &Source, patience: Duration) -> Result<Vec<Found>, Problem> {
        let url = client::url(&source.url)?;
        let request = client::request(Method::GET, &url, &source.caller)?
            .header(ACCEPT, "application/json, application/yaml;q=0.9, */*;q=0.5")
            .body(Full::default())
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let text = self.ask(request, Bounds { time: patience, bytes: MOST_OF_A_DOCUMENT }).await?;
        let source = source.clone();
        // Reading megabytes of text and checking a thousand schemas takes a while.
        let read = tokio::task::spawn_blocking(move || operations(&text, &url, &source)).await;
        read.unwrap_or_else(|error| Err(Problem::new("InvalidAnswer", format!("the document cannot be read: {error}"))))
    }
}

/// The request that makes a call.
pub(crate) fn request(
    call: &OperationCall,
    endpoint: &str,
    arguments: &Value,
    secret: Secret<'_>,
) -> Result<Request<Full<Bytes>>, Error> {
    let operation = &call.operation;
    let method = Method::from_bytes(operation.method.as_bytes())
        .map_err(|_| Error::Invalid(format!("{:?} is no method", operation.method)))?;
    let none = Map::new();
    let arguments = arguments.as_object().unwrap_or(&none);
    let mut url = client::url(endpoint)?;
    place(&mut url, &operation.path, &operation.parameters, arguments)?;
    let mut request = client::request(method, &url, &Caller::of(&call.access, secret)?)?;
    let mut cookies = Vec::new();
    for (parameter, value) in given(&operation.parameters, arguments) {
        let name = parameter.name.as_deref().unwrap_or(&parameter.argument);
        match parameter.location {
            Location::Header => {
                let unfit = || Error::Arguments(format!("{} cannot be sent in a header", parameter.argument));
                let name: HeaderName = name.parse().map_err(|_| unfit())?;
                let value: HeaderValue = joined(value).parse().map_err(|_| unfit())?;
                request = request.header(name, value);
            }
            Location::Cookie => cookies.push(format!("{name}={}", utf8_percent_encode(&joined(value), SEGMENT))),
            Location::Path | Location::Query => {}
        }
    }
    if !cookies.is_empty() {
        request = request.header(COOKIE, cookies.join("; "));
    }
    let mut bytes = Bytes::new();
    if let Some(body) = &operation.body
        && let Some(value) = arguments.get(&body.argument)
    {
        bytes = encode(&body.content_type, value).into();
        request = request.header(CONTENT_TYPE, &body.content_type);
    }
    request.body(Full::new(bytes)).map_err(|error| Error::Invalid(error.to_string()))
}

/// The parameters that have a value.
fn given<'a>(
    parameters: &'a [Parameter],
    arguments: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a Parameter, &'a Value)> {
    parameters.iter().filter_map(|parameter| Some((parameter, arguments.get(&parameter.argument)?)))
}

/// Fills in the path and the query.
fn place(url: &mut Url, path: &str, parameters: &[Parameter], arguments: &Map<String, Value>) -> Result<(), Error> {
    let mut filled = path.to_owned();
    let mut query = Vec::new();
    for (parameter, value) in given(parameters, arguments) {
        let name = parameter.name.as_deref().unwrap_or(&parameter.argument);
        match parameter.location {
            Location::Path => {
                let text = joined(value);
                if matches!(text.as_str(), "" | "." | "..") {
                    return Err(Error::Arguments(format!("{} may not be {text:?} in a path", parameter.argument)));
                }
                filled = filled.replace(&format!("{{{name}}}"), &utf8_percent_encode(&text, SEGMENT).to_string());
            }
            Location::Query => pairs(name, parameter.style, value, &mut query),
            Location::Header | Location::Cookie => {}
        }
    }
    if filled.contains('{') {
        return Err(Error::Arguments(format!("{path} has a part that no argument fills in")));
    }
    let base = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{base}{filled}"));
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    Ok(())
}

/// What a value becomes in a query.
fn pairs(name: &str, style: Style, value: &Value, query: &mut Vec<(String, String)>) {
    match (value, style) {
        (Value::Array(items), Style::Plain | Style::Deep) => {
            query.extend(items.iter().map(|item| (name.to_owned(), plain_text(item))));
        }
        (Value::Object(fields), Style::Plain) => {
            query.extend(fields.iter().map(|(key, value)| (key.clone(), plain_text(value))));
        }
        (Value::Object(fields), Style::Deep) => {
            query.extend(fields.iter().map(|(key, value)| (format!("{name}[{key}]"), plain_text(value))));
        }
        _ => query.push((name.to_owned(), joined(value))),
    }
}

/// A value where only one can stand.
fn joined(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            let pairs = fields.iter().flat_map(|(key, value)| [key.clone(), plain_text(value)]);
            pairs.collect::<Vec<_>>().join(",")
        }
        single => plain_text(single),
    }
}

fn encode(content_type: &str, value: &Value) -> String {
    match (content_type, value) {
        ("application/x-www-form-urlencoded", Value::Object(fields)) => {
            let mut query = Vec::new();
            for (name, value) in fields {
                pairs(name, Style::Plain, value, &mut query);
            }
            Serializer::new(String::new()).extend_pairs(query).finish()
        }
        ("text/plain", value) => plain_text(value),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use api::omnia::{Body, Operation};
    use serde_json::json;

    use super::*;

    fn parameter(argument: &str, location: Location) -> Parameter {
        Parameter { argument: argument.into(), location, ..Parameter::default() }
    }

    fn make(operation: Operation, arguments: &Value) -> Result<Request<Full<Bytes>>, Error> {
        let call = OperationCall { operation, access: api::omnia::tools::Access::default() };
        request(&call, "http://a.test/v1/", arguments, &|_| None)
    }

    #[test]
    fn arguments_go_where_the_document_says() {
        let operation = Operation {
            method: "PUT".into(),
            path: "/pets/{id}".into(),
            parameters: vec![
                parameter("id", Location::Path),
                parameter("tags", Location::Query),
                Parameter { style: Style::Joined, ..parameter("fields", Location::Query) },
                Parameter { style: Style::Deep, ..parameter("where", Location::Query) },
                Parameter { name: Some("X-Trace".into()), ..parameter("trace", Location::Header) },
                parameter("taste", Location::Cookie),
            ],
            body: Some(Body { argument: "body".into(), content_type: "application/json".into() }),
        };
        let arguments = json!({ "id": "a/b c", "tags": ["x", "y"], "fields": [1, 2], "where": { "k": true },
            "trace": "t", "taste": "sweet;", "body": { "name": "Rex" } });
        let request = make(operation, &arguments).expect("a request");
        assert_eq!(request.uri(), "http://a.test/v1/pets/a%2Fb%20c?tags=x&tags=y&fields=1%2C2&where%5Bk%5D=true");
        assert_eq!(request.headers()["x-trace"], "t");
        assert_eq!(request.headers()["cookie"], "taste=sweet%3B");
        assert_eq!(request.headers()["content-type"], "application/json");
    }

    #[test]
    fn an_argument_cannot_leave_its_place() {
        let operation = Operation {
            method: "GET".into(),
            path: "/pets/{id}/toys".into(),
            parameters: vec![parameter("id", Location::Path)],
            ..Operation::default()
        };
        for id in ["..", ".", ""] {
            assert!(matches!(make(operation.clone(), &json!({ "id": id })), Err(Error::Arguments(_))), "{id:?}");
        }
        let request = make(operation.clone(), &json!({ "id": "../../etc?x#y" })).expect("a request");
        assert_eq!(request.uri(), "http://a.test/v1/pets/..%2F..%2Fetc%3Fx%23y/toys");
        assert!(matches!(make(operation, &json!({})), Err(Error::Arguments(_))));
    }

    #[test]
    fn forms_and_text_are_written_as_such() {
        assert_eq!(encode("application/x-www-form-urlencoded", &json!({ "a": "b c", "d": [1, 2] })), "a=b+c&d=1&d=2");
        assert_eq!(encode("text/plain", &json!("x")), "x");
        assert_eq!(encode("application/json", &json!("x")), "\"x\"");
    }
}
