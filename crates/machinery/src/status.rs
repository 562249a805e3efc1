//! API errors: the `Status` object, built in one place.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One field-level cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, … (or `FieldManagerConflict`).
    pub reason: String,
    /// What is wrong, in words.
    pub message: String,
    /// The field, as `spec.containers[0].name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// Why a request was refused. Converts to HTTP status, `reason` and `message` as clients expect.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason (`NotFound`, `Conflict`, …).
    pub reason: &'static str,
    /// The words a person reads.
    pub message: String,
    /// The object in question: name, group, kind (the plural resource, as Kubernetes does), uid.
    /// Boxed, so that a `Result` with a [`Status`] stays small.
    pub details: Box<Details>,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural resource, in the field that Kubernetes calls `kind`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Field-level causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

impl Status {
    /// A refusal with no object.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::default() }
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404 for an object. `resource` is the plural.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(group, resource)))
            .about(group, resource, name)
    }

    /// 409: there is one of that name already.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(group, resource)))
            .about(group, resource, name)
    }

    /// 409: the object changed in between, or a precondition failed.
    pub fn conflict(group: &str, resource: &str, name: &str, why: impl std::fmt::Display) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, resource)),
        )
        .about(group, resource, name)
    }

    /// 422: the object is not valid. `kind` is the Kind, as Kubernetes prints it here.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut lines: Vec<String> = causes
            .iter()
            .map(|cause| {
                if cause.field.is_empty() {
                    cause.message.clone()
                } else {
                    format!("{}: {}", cause.field, cause.message)
                }
            })
            .collect();
        let mut seen = std::collections::HashSet::new();
        lines.retain(|line| seen.insert(line.clone()));
        let words = match lines.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut status =
            Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {words}", qualified(group, kind)))
                .about(group, kind, name);
        status.details.causes = causes;
        status
    }

    /// 403: who you are may not do this.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl std::fmt::Display) -> Self {
        let subject = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        Self::new(403, "Forbidden", format!("{}{subject} is forbidden: {why}", qualified(group, resource)))
            .about(group, resource, name)
    }

    /// 401: we do not know who you are.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 410: the revision asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 405 for a verb the resource does not have.
    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(405, "MethodNotAllowed", message)
    }

    /// 415: a body format we do not read.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 413: more than we read.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 500: our fault.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// Names the object.
    #[must_use]
    pub fn about(mut self, group: &str, resource: &str, name: &str) -> Self {
        group.clone_into(&mut self.details.group);
        resource.clone_into(&mut self.details.kind);
        name.clone_into(&mut self.details.name);
        self
    }

    /// The body sent to the client.
    pub fn to_value(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if *self.details != Details::default() {
            body["details"] = serde_json::to_value(&self.details).expect("details are plain data");
        }
        body
    }
}

fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
