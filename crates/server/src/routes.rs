//! Routes that describe themselves: whatever the router serves is in the OpenAPI document, because both are made from
//! the same call.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::app::App;

/// What a route does, in the words of the OpenAPI document.
pub struct Operation {
    /// Lower case, as OpenAPI writes it.
    pub method: &'static str,
    /// The whole path.
    pub path: String,
    /// One sentence.
    pub summary: String,
    /// The heading it stands under.
    pub tag: String,
    /// Parameters of the query.
    pub query: Vec<Value>,
    /// The kind that the body holds.
    pub body: Option<&'static str>,
    /// What comes back.
    pub answer: Answer,
    /// Whether it needs no credentials.
    pub open: bool,
}

/// What comes back when all is well.
#[derive(Clone, Copy)]
pub enum Answer {
    /// A JSON object.
    Object,
    /// The view of an object of this kind.
    View(&'static str),
    /// One page of a list: the key of its items and their kind.
    Page(&'static str, &'static str),
    /// The view of an object of this kind or, when asked for, all of it as YAML.
    Either(&'static str),
    /// Server-sent events.
    Events,
    /// A WebSocket.
    Socket,
    /// Text for people or for Prometheus.
    Text,
    /// Nothing but the status.
    Nothing,
}

impl Operation {
    fn new(method: &'static str, path: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            summary: summary.into(),
            tag: "Server".to_owned(),
            query: Vec::new(),
            body: None,
            answer: Answer::Object,
            open: false,
        }
    }

    /// GET.
    pub fn get(path: impl Into<String>, summary: impl Into<String>) -> Self {
        Self::new("get", path, summary)
    }

    /// POST.
    pub fn post(path: impl Into<String>, summary: impl Into<String>) -> Self {
        Self::new("post", path, summary)
    }

    /// PUT.
    pub fn put(path: impl Into<String>, summary: impl Into<String>) -> Self {
        Self::new("put", path, summary)
    }

    /// DELETE.
    pub fn delete(path: impl Into<String>, summary: impl Into<String>) -> Self {
        Self { answer: Answer::Nothing, ..Self::new("delete", path, summary) }
    }

    /// Under which heading.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = tag.into();
        self
    }

    /// Takes the fields of `T` as parameters.
    #[must_use]
    pub fn query<T: JsonSchema>(mut self) -> Self {
        let schema = schema::<T>();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        self.query = properties
            .into_iter()
            .map(|(name, mut schema)| {
                let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
                json!({"name": name, "in": "query", "description": description, "schema": schema})
            })
            .collect();
        self
    }

    /// Takes an object of a kind.
    #[must_use]
    pub fn body(mut self, kind: &'static str) -> Self {
        self.body = Some(kind);
        self
    }

    /// Answers so.
    #[must_use]
    pub fn answers(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    /// Needs no credentials.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }
}

/// The schema of a type, all in one piece.
pub fn schema<T: JsonSchema>() -> Value {
    let settings =
        schemars::generate::SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// A router and what is said about it.
#[derive(Default)]
pub struct Routes {
    /// The router.
    pub router: Router<App>,
    /// What it serves.
    pub operations: Vec<Operation>,
}

impl Routes {
    /// Serves one operation.
    #[must_use]
    pub fn serve<H, T>(mut self, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let filter = match operation.method {
            "get" => MethodFilter::GET,
            "post" => MethodFilter::POST,
            "put" => MethodFilter::PUT,
            _ => MethodFilter::DELETE,
        };
        self.router = self.router.route(&operation.path, on(filter, handler));
        self.operations.push(operation);
        self
    }
}
