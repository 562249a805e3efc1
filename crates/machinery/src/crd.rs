//! What a `CustomResourceDefinition` must be, as the API server judges it.

use serde_json::{Value, json};

use crate::field::{self, Path};
use crate::meta::names;
use crate::schema::rules::Compiled;
use crate::schema::{Schema, Type};
use crate::status::Cause;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// Keywords that keep their meaning when status is split off the schema.
const ROOT_KEYWORDS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
/// Most selectable fields of one version.
const MAX_SELECTABLE: usize = 8;

/// Fills in what follows from the rest: singular, list kind, conversion and, at first, the stored version.
pub fn default(definition: &mut Value) {
    let kind = text(&definition["spec"]["names"]["kind"]).to_owned();
    if let Some(names) =
        definition.get_mut("spec").and_then(|spec| spec.get_mut("names")).and_then(Value::as_object_mut)
    {
        if names.get("singular").is_none_or(|given| text(given).is_empty()) {
            names.insert("singular".into(), kind.to_lowercase().into());
        }
        if names.get("listKind").is_none_or(|given| text(given).is_empty()) && !kind.is_empty() {
            names.insert("listKind".into(), format!("{kind}List").into());
        }
    }
    if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
        if spec.get("conversion").is_none_or(Value::is_null) {
            spec.insert("conversion".into(), json!({ "strategy": "None" }));
        }
        if spec.get("preserveUnknownFields").is_some_and(|given| given != &Value::Bool(true)) {
            spec.remove("preserveUnknownFields");
        }
    }
    let stored = definition["status"]["storedVersions"].as_array().is_some_and(|stored| !stored.is_empty());
    if !stored {
        let storage = list(&definition["spec"]["versions"])
            .find(|version| version["storage"] == true)
            .map(|version| version["name"].clone());
        if let (Some(storage), Some(object)) = (storage, definition.as_object_mut()) {
            let status = object.entry("status").or_insert_with(|| json!({}));
            if let Some(status) = status.as_object_mut() {
                status.insert("storedVersions".into(), json!([storage]));
            }
        }
    }
}

/// Checks a new definition (`old` none) or a changed one, but for its metadata. Defaults must be filled in.
pub fn validate(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &definition["spec"];
    let mut causes: Vec<Cause> = if old.is_none() { check_name(definition).into_iter().collect() } else { Vec::new() };
    causes.extend(check_spec(spec));
    if let Some(old) = old {
        causes.extend(unchanged(spec, old));
    }
    causes.extend(stored_versions(definition));
    causes.extend(approval(definition));
    if spec["preserveUnknownFields"] == true && old.is_none_or(|old| old["spec"]["preserveUnknownFields"] != true) {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(field::invalid(&Path::new("spec.preserveUnknownFields"), &Value::Bool(true), detail));
    }
    causes
}

/// The schema of one version's objects. The definition was checked by [`validate`] before it was stored.
pub fn schema(version: &Value) -> Schema {
    Schema::of_checked(&version["schema"]["openAPIV3Schema"])
}

fn check_name(definition: &Value) -> Option<Cause> {
    let name = text(&definition["metadata"]["name"]);
    let expected = format!("{}.{}", text(&definition["spec"]["names"]["plural"]), text(&definition["spec"]["group"]));
    let detail = "must be spec.names.plural+\".\"+spec.group";
    (!name.is_empty() && name != expected).then(|| field::invalid_text(&Path::new("metadata.name"), name, detail))
}

fn check_spec(spec: &Value) -> Vec<Cause> {
    let path = Path::new("spec");
    let mut causes = Vec::new();
    let group = text(&spec["group"]);
    let group_path = path.child("group");
    let problems = names::dns1123_subdomain(group);
    if group.is_empty() {
        causes.push(field::required(&group_path, ""));
    } else if !problems.is_empty() {
        causes.push(field::invalid_text(&group_path, group, &problems.join(",")));
    } else if !group.contains('.') {
        causes.push(field::invalid_text(&group_path, group, "should be a domain with at least one dot"));
    }
    match text(&spec["scope"]) {
        "" => causes.push(field::required(&path.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        _ => causes.push(field::not_supported(&path.child("scope"), &spec["scope"], &["Cluster", "Namespaced"])),
    }
    let versions_path = path.child("versions");
    let versions: Vec<&Value> = list(&spec["versions"]).collect();
    for (index, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let version_path = versions_path.index(index);
            let schema_path = version_path.child("schema");
            causes.push(field::required(&schema_path.child("openAPIV3Schema"), ""));
        }
    }
    causes.extend(check_versions(spec, &versions));
    for part in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"][part]).is_empty() {
            causes.push(field::required(&path.child("names").child(part), ""));
        }
    }
    causes.extend(check_names(&spec["names"], &path.child("names")));
    causes.extend(check_conversion(&spec["conversion"], &path.child("conversion")));
    causes
}

/// The versions one by one. What all of them share is reported where the API server keeps it: on the
/// whole spec.
fn check_versions(spec: &Value, versions: &[&Value]) -> Vec<Cause> {
    let path = Path::new("spec");
    let versions_path = path.child("versions");
    let mut causes = Vec::new();
    let shared = |key: &str| {
        versions.first().is_some_and(|first| {
            first.get(key).is_some_and(|value| versions.iter().all(|version| version.get(key) == Some(value)))
        })
    };
    for (index, version) in versions.iter().enumerate() {
        let version_path = versions_path.index(index);
        let name = text(&version["name"]);
        let problems = names::dns1035_label(name);
        if !problems.is_empty() {
            causes.push(field::invalid_text(&version_path.child("name"), name, &problems.join(",")));
        }
        let deprecation = deprecation_warning(version);
        causes.extend(deprecation.map(|detail| {
            field::invalid(&version_path.child("deprecationWarning"), &version["deprecationWarning"], detail)
        }));
        if !shared("schema") {
            causes.extend(check_schema(version, &version_path.child("schema")));
        }
        if !shared("subresources") {
            causes.extend(check_subresources(&version["subresources"], &version_path.child("subresources")));
        }
        if !shared("additionalPrinterColumns") {
            causes.extend(check_columns(version, &version_path));
        }
        if !shared("selectableFields") {
            causes.extend(check_selectable(version, &version_path));
        }
    }
    if let Some(first) = versions.first().map(|first| text(&first["name"])) {
        // Kubernetes keeps the first version's name on the spec too, and says it twice.
        let problems = names::dns1035_label(first);
        if !problems.is_empty() {
            causes.push(field::invalid_text(&path.child("version"), first, &problems.join(",")));
        }
    }
    if versions
        .iter()
        .enumerate()
        .any(|(index, version)| versions[..index].iter().any(|other| other["name"] == version["name"]))
    {
        causes.push(field::invalid_printed(
            &versions_path,
            &print_versions(spec, versions),
            "must contain unique version names",
        ));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(field::invalid_printed(&versions_path, &print_versions(spec, versions), detail));
    }
    if let Some(first) = versions.first() {
        if shared("schema") {
            causes.extend(check_schema(first, &path.child("validation")));
        }
        if shared("subresources") {
            causes.extend(check_subresources(&first["subresources"], &path.child("subresources")));
        }
        if shared("additionalPrinterColumns") {
            causes.extend(check_columns(first, &path));
        }
        if shared("selectableFields") {
            causes.extend(check_selectable(first, &path));
        }
    }
    causes
}

/// Versions the way the API server prints them inside a cause, without what it keeps elsewhere.
fn print_versions(spec: &Value, versions: &[&Value]) -> String {
    if versions.is_empty() {
        return if spec["versions"].is_array() { "[]".to_owned() } else { "null".to_owned() };
    }
    let flag = |version: &Value, key: &str| version[key] == true;
    let printed: Vec<String> = versions
        .iter()
        .map(|version| {
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
                field::quote(text(&version["name"])),
                flag(version, "served"),
                flag(version, "storage"),
                flag(version, "deprecated"),
                field::json(&version["deprecationWarning"]),
            )
        })
        .collect();
    format!("[{}]", printed.join(","))
}

fn deprecation_warning(version: &Value) -> Option<&'static str> {
    let warning = version["deprecationWarning"].as_str()?;
    match warning {
        _ if version["deprecated"] != true => Some("can only be set for deprecated versions"),
        "" => Some("must not be an empty string"),
        _ if warning.len() > 256 => Some("must be <= 256 characters long"),
        _ => None,
    }
}

fn check_schema(version: &Value, path: &Path<'_>) -> Vec<Cause> {
    let document = &version["schema"]["openAPIV3Schema"];
    let Some(keywords) = document.as_object() else { return Vec::new() };
    let mut causes = Vec::new();
    let path = path.child("openAPIV3Schema");
    if version["subresources"]["status"].is_object() {
        let foreign = keywords.iter().any(|(key, value)| {
            !ROOT_KEYWORDS.contains(&key.as_str()) && !value.is_null() && value != &Value::Bool(false)
        });
        if !matches!(text(&document["type"]), "" | "object") {
            let detail =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            causes.push(field::invalid(&path.child("type"), &document["type"], detail));
        } else if foreign {
            let list = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
            let detail = format!(
                "only {list} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            causes.push(field::invalid(&path, document, &detail));
        }
    }
    match Schema::from_json_schema_at(document, &path) {
        Ok(schema) => causes.extend(Compiled::new_at(&schema, &path).err().into_iter().flatten()),
        Err(found) => causes.extend(found),
    }
    causes
}

fn check_subresources(subresources: &Value, path: &Path<'_>) -> Vec<Cause> {
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else { return Vec::new() };
    let mut causes = Vec::new();
    let wanted = [
        ("specReplicasPath", "scale.specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", "scale.statusReplicasPath", &[".status."], "should be a json path under .status"),
        (
            "labelSelectorPath",
            "scale.labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ];
    for (key, name, prefixes, detail) in wanted {
        let path = path.child(name);
        match text(&scale[key]) {
            "" if key == "labelSelectorPath" => {}
            "" => causes.push(field::required(&path, "")),
            given if !given.starts_with('.') => {
                causes.push(field::invalid_text(&path, given, "must be a simple json path starting with ."));
            }
            given if !prefixes.iter().any(|prefix| given.starts_with(prefix)) => {
                causes.push(field::invalid_text(&path, given, detail));
            }
            _ => {}
        }
    }
    causes
}

fn check_columns(version: &Value, path: &Path<'_>) -> Vec<Cause> {
    let columns_path = path.child("additionalPrinterColumns");
    let mut causes = Vec::new();
    for (index, column) in list(&version["additionalPrinterColumns"]).enumerate() {
        let path = columns_path.index(index);
        if text(&column["name"]).is_empty() {
            causes.push(field::required(&path.child("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(&column["type"]) {
            "" => causes.push(field::required(&path.child("type"), &types)),
            given if !COLUMN_TYPES.contains(&given) => {
                causes.push(field::invalid_text(&path.child("type"), given, &types));
            }
            _ => {}
        }
        let format = text(&column["format"]);
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            causes.push(field::invalid_text(&path.child("format"), format, &detail));
        }
        match text(&column["jsonPath"]) {
            "" => causes.push(field::required(&path.child("JSONPath"), "")),
            given if !given.starts_with('.') => {
                causes.push(field::invalid_text(
                    &path.child("JSONPath"),
                    given,
                    "must be a simple json path starting with .",
                ));
            }
            _ => {}
        }
    }
    causes
}

fn check_selectable(version: &Value, path: &Path<'_>) -> Vec<Cause> {
    let list_path = path.child("selectableFields");
    let mut causes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let Ok(schema) = Schema::from_json_schema(&version["schema"]["openAPIV3Schema"]) else { return causes };
    for (index, selectable) in list(&version["selectableFields"]).enumerate() {
        let item = list_path.index(index);
        let path = item.child("jsonPath");
        let given = text(&selectable["jsonPath"]);
        if given.is_empty() {
            causes.push(field::required(&path, ""));
            continue;
        }
        let Some(found) = given
            .strip_prefix('.')
            .and_then(|dotted| dotted.split('.').try_fold(&schema, |schema, name| schema.field(name)))
        else {
            let detail = if given.starts_with('.') {
                "is an invalid path: does not refer to a valid field".to_owned()
            } else {
                format!("is an invalid path: expected [ or . but got: {given}")
            };
            causes.push(field::invalid_text(&path, given, &detail));
            continue;
        };
        if given.starts_with(".metadata") {
            // Metadata is only as well known as the definition describes it.
            let described = given[1..]
                .split('.')
                .try_fold(&version["schema"]["openAPIV3Schema"], |node, name| node["properties"].get(name));
            let detail = match described {
                Some(_) => "must not point to fields in metadata",
                None => "is an invalid path: does not refer to a valid field",
            };
            causes.push(field::invalid_text(&path, given, detail));
            continue;
        }
        if !matches!(found.value_type, Type::String | Type::Boolean | Type::Integer) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            causes.push(field::invalid_text(&path, given, detail));
        }
        if seen.contains(&given) {
            causes.push(field::duplicate(&path, &given.into()));
        } else {
            seen.push(given);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        causes.push(field::too_many(&list_path, seen.len(), MAX_SELECTABLE as u64));
    }
    causes
}

fn check_names(given: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for part in ["plural", "singular"] {
        let name = text(&given[part]);
        let problems = names::dns1035_label(name);
        if !name.is_empty() && !problems.is_empty() {
            causes.push(field::invalid_text(&path.child(part), name, &problems.join(",")));
        }
    }
    for part in ["kind", "listKind"] {
        let name = text(&given[part]);
        let problems = names::dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !problems.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
            causes.push(field::invalid_text(&path.child(part), name, &detail));
        }
    }
    let each = |part: &'static str, causes: &mut Vec<Cause>| {
        let part_path = path.child(part);
        for (index, name) in list(&given[part]).enumerate() {
            let problems = names::dns1035_label(text(name));
            if !problems.is_empty() {
                causes.push(field::invalid_text(&part_path.index(index), text(name), &problems.join(",")));
            }
        }
    };
    each("shortNames", &mut causes);
    if !text(&given["kind"]).is_empty() && given["kind"] == given["listKind"] {
        let detail = "kind and listKind may not be the same";
        causes.push(field::invalid_text(&path.child("listKind"), text(&given["listKind"]), detail));
    }
    each("categories", &mut causes);
    causes
}

fn check_conversion(conversion: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let webhook_path = path.child("webhookClientConfig");
    let has_webhook = conversion["webhook"].is_object();
    match text(&conversion["strategy"]) {
        _ if conversion.is_null() => {}
        "" => causes.push(field::required(&path.child("strategy"), "")),
        "None" => {
            if has_webhook {
                causes.push(field::forbidden(&webhook_path, "should not be set when strategy is not set to Webhook"));
            }
        }
        "Webhook" => {
            if !conversion["webhook"]["clientConfig"].is_object() {
                causes.push(field::required(&webhook_path, "required when strategy is set to Webhook"));
            }
        }
        _ => causes.push(field::not_supported(&path.child("strategy"), &conversion["strategy"], &["None", "Webhook"])),
    }
    causes
}

/// What may not change once objects exist under it.
fn unchanged(spec: &Value, old: &Value) -> Vec<Cause> {
    let path = Path::new("spec");
    let names_path = path.child("names");
    let old_spec = &old["spec"];
    let established = list(&old["status"]["conditions"])
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let mut causes = Vec::new();
    if established {
        causes.extend(field::immutable(&path.child("scope"), &spec["scope"], &old_spec["scope"]));
        causes.extend(field::immutable(&names_path.child("kind"), &spec["names"]["kind"], &old_spec["names"]["kind"]));
    }
    causes.extend(field::immutable(&path.child("group"), &spec["group"], &old_spec["group"]));
    causes.extend(field::immutable(
        &names_path.child("plural"),
        &spec["names"]["plural"],
        &old_spec["names"]["plural"],
    ));
    causes
}

/// Checks `status.storedVersions` against the versions there are.
pub fn stored_versions(definition: &Value) -> Vec<Cause> {
    let status = Path::new("status");
    let path = status.child("storedVersions");
    let stored = &definition["status"]["storedVersions"];
    let listed: Vec<&str> = list(stored).map(text).collect();
    if listed.is_empty() {
        return vec![field::invalid(&path, &Value::Null, "must have at least one stored version")];
    }
    let mut causes = Vec::new();
    for version in list(&definition["spec"]["versions"]) {
        let name = text(&version["name"]);
        if version["storage"] == true && !listed.contains(&name) {
            causes.push(field::invalid(&path, stored, &format!("must have the storage version {name}")));
        }
    }
    for (index, name) in listed.iter().enumerate() {
        if !list(&definition["spec"]["versions"]).any(|version| text(&version["name"]) == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            causes.push(field::invalid_text(&path.index(index), name, &detail));
        }
    }
    causes
}

/// Groups of the Kubernetes project need its blessing.
fn approval(definition: &Value) -> Option<Cause> {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = text(&definition["spec"]["group"]);
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if !protected {
        return None;
    }
    let annotations = Path::new("metadata.annotations");
    let path = annotations.key(ANNOTATION);
    match definition["metadata"]["annotations"][ANNOTATION].as_str() {
        None | Some("") => Some(field::required(
            &path,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        )),
        Some(value) if value.starts_with("unapproved") || value.starts_with("http") => None,
        Some(value) => Some(field::invalid_text(
            &path,
            value,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        )),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
