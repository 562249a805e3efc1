//! The way from client-side to server-side apply, for `kubectl` only.
//!
//! Client-side apply remembers what it applied in an annotation. When the same user goes over to
//! server-side apply, fields that the annotation shows to be theirs are no conflicts, and the
//! annotation is kept true so that going back works too.

use serde_json::Value;

use super::Kind;
use super::set::Set;
use super::shape::Node;
use super::typed;

/// The manager that this is done for.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together may be this long.
const MAX_ANNOTATIONS: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// The fields that client-side apply set last and that still hold those values.
pub(super) fn owned(kind: &Kind<'_>, live: &Value) -> Option<Set> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied.get("apiVersion")?.as_str()? != kind.api_version {
        return None;
    }
    let node = Node::root(kind.schema);
    if !typed::validate(node, &applied).is_empty() {
        return None;
    }
    let difference = typed::compare(node, &applied, live);
    let unchanged = typed::fields(node, &applied).difference(&difference.modified);
    Some(unchanged.difference(&difference.added).difference(&difference.removed))
}

/// Writes the configuration into the annotation, where there is one.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
        if annotations.is_empty()
            && let Some(Value::Object(metadata)) = config.get_mut("metadata")
        {
            metadata.remove("annotations");
        }
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::String(format!("{config}\n")));
    let length: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if length > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}
