//! Options of a write, checked as Kubernetes checks them: 422, about the options object.

use machinery::field::{self, Path};
use machinery::status::{Cause, Status};
use serde_json::json;

use crate::call::Call;
use crate::request::Verb;

/// Refuses options that cannot be meant.
pub fn check(call: &Call) -> Result<(), Status> {
    let query = &call.query;
    let mut causes = Vec::new();
    let dry_run: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if dry_run.iter().any(|value| *value != "All") {
        causes.push(field::not_supported(&Path::new("dryRun"), &json!(dry_run), &["All"]));
    }
    if !matches!(query.field_validation.as_str(), "" | "Ignore" | "Strict" | "Warn") {
        let given = json!(query.field_validation);
        causes.push(field::not_supported(&Path::new("fieldValidation"), &given, &["", "Ignore", "Strict", "Warn"]));
    }
    causes.extend(machinery::meta::validate_manager(&query.field_manager, &Path::new("fieldManager")));
    if causes.is_empty() { Ok(()) } else { Err(invalid(kind(call.target.verb), causes)) }
}

/// The options object of a verb.
fn kind(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        Verb::Get | Verb::List | Verb::Watch => "ListOptions",
    }
}

/// 422 about an options object.
pub fn invalid(kind: &str, causes: Vec<Cause>) -> Status {
    Status::invalid("meta.k8s.io", kind, "", causes)
}
