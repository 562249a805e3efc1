//! Custom resources: a definition becomes rows of the table, one for each served version.

use std::sync::Arc;

use machinery::meta::NameRule;
use machinery::schema::rules::Rules;
use machinery::table::Column;
use serde_json::Value;

use crate::hooks::Plain;
use crate::kinds::{Conversion, Kind, Printer, Scale, Storage, Subresource, Table, Writing};
use crate::object;
use crate::request::Verb;
use crate::server::ApiServer;

pub mod cleanup;
pub mod conditions;

/// The store's name of definitions.
pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Holds a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Puts a definition's rows into the table, or takes them out.
pub fn install(server: &ApiServer, definition: &Value, deleted: bool) {
    let group = text(&definition["spec"]["group"]);
    let plural = text(&definition["spec"]["names"]["plural"]);
    let established = conditions::is_true(definition, "Established");
    let rows = if deleted || !established { Vec::new() } else { rows(definition) };
    server.kinds().replace_custom(&group, &plural, rows);
}

/// The row of a resource that is defined but not in the table yet: a client that saw the definition
/// in a watch can be faster than we are.
pub fn catch_up(server: &ApiServer, group: &str, plural: &str) -> bool {
    let key = store::Key::new(DEFINITIONS, "", format!("{plural}.{group}"));
    let Some(entry) = server.store().get(&key) else { return false };
    let definition = object::parse(&entry.value);
    let established = conditions::is_true(&definition, "Established");
    if established {
        install(server, &definition, false);
    }
    established
}

/// Installs every definition in the store.
pub fn install_all(server: &ApiServer) {
    let page = server.store().list(&store::Scope::all(DEFINITIONS), &store::Paging::default());
    for entry in page.map(|page| page.entries).unwrap_or_default() {
        install(server, &object::parse(&entry.value), false);
    }
}

fn rows(definition: &Value) -> Vec<Kind> {
    let served = list(&definition["spec"]["versions"]).filter(|version| version["served"] == true);
    served.filter_map(|version| row(definition, version)).collect()
}

fn row(definition: &Value, version: &Value) -> Option<Kind> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let (group, plural, kind) = (text(&spec["group"]), text(&names["plural"]), text(&names["kind"]));
    let name = text(&version["name"]);
    let schema = Arc::new(machinery::crd::schema(version));
    let storage_version = list(&spec["versions"]).find(|one| one["storage"] == true).map(|one| text(&one["name"]))?;
    let stored = object::strings(definition["status"].get("storedVersions"));
    let conversion = if stored == [name.clone()] { Conversion::Same } else { Conversion::Relabel };
    let status = version["subresources"].get("status").is_some_and(|value| !value.is_null());
    let scale = version["subresources"].get("scale").filter(|value| !value.is_null()).map(scale);
    let deprecation = (version["deprecated"] == true).then(|| {
        let warning = text(&version["deprecationWarning"]);
        if warning.is_empty() { format!("{group}/{name} {kind} is deprecated") } else { warning }
    });
    Some(Kind {
        list_kind: text(&names["listKind"]),
        singular: text(&names["singular"]),
        short_names: object::strings(names.get("shortNames")),
        categories: object::strings(names.get("categories")),
        namespaced: spec["scope"] == "Namespaced",
        verbs: verbs(definition),
        subresources: subresources(&group, &name, &kind, status, scale.is_some()),
        storage: Some(Storage {
            resource: format!("{group}/{plural}").into(),
            api_version: format!("{group}/{storage_version}"),
            conversion,
        }),
        rules: Some(Arc::new(Rules::of(schema.clone()))),
        schema: Some(schema),
        name_rule: NameRule::DnsSubdomain,
        printer: Printer::Paths(Column::of_version(version)),
        selectable: list(&version["selectableFields"])
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
        scale,
        writing: Writing { status, generation: true, strict_update: true, ..Writing::default() },
        hooks: &Plain,
        custom: true,
        fingerprint: format!("{}/{}", object::uid(definition), object::generation(definition).unwrap_or(0)),
        deprecation,
        version: name,
        group,
        plural,
        kind,
    })
}

/// A definition that is going away takes no new objects.
fn verbs(definition: &Value) -> Vec<Verb> {
    let mut verbs = vec![
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Create,
        Verb::Update,
        Verb::Watch,
    ];
    if object::is_deleting(definition) {
        verbs.retain(|verb| *verb != Verb::Create);
    }
    verbs
}

fn subresources(group: &str, version: &str, kind: &str, status: bool, scale: bool) -> Vec<Subresource> {
    let below = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
    };
    let mut list = Vec::new();
    if status {
        list.push(below("status", group, version, kind));
    }
    if scale {
        list.push(below("scale", "autoscaling", "v1", "Scale"));
    }
    list
}

fn scale(scale: &Value) -> Scale {
    let path = |field: &str| steps(&text(&scale[field]));
    let selector = path("labelSelectorPath");
    Scale {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: (!selector.is_empty()).then_some(selector),
    }
}

/// The steps of a simple JSONPath (`.spec.replicas`).
pub fn steps(path: &str) -> Vec<String> {
    path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect()
}

/// Rows of other definitions or built-in kinds that have one of these names in the group.
pub fn name_conflicts(table: &Table, definition: &Value) -> Vec<(&'static str, String)> {
    let spec = &definition["spec"];
    let (group, names) = (text(&spec["group"]), &spec["names"]);
    let plural = text(&names["plural"]);
    let others: Vec<&Arc<Kind>> =
        table.iter().filter(|row| row.group == group && !(row.custom && row.plural == plural)).collect();
    let mut wanted = vec![("PluralConflict", plural.clone()), ("SingularConflict", text(&names["singular"]))];
    wanted.extend(object::strings(names.get("shortNames")).into_iter().map(|name| ("ShortNamesConflict", name)));
    let mut conflicts: Vec<(&'static str, String)> = wanted
        .into_iter()
        .filter(|(_, name)| others.iter().any(|row| resource_names(row).any(|taken| taken == name)))
        .collect();
    for (reason, kind) in [("KindConflict", text(&names["kind"])), ("ListKindConflict", text(&names["listKind"]))] {
        if others.iter().any(|row| row.kind == kind || row.list_kind == kind) {
            conflicts.push((reason, kind));
        }
    }
    conflicts
}

fn resource_names(row: &Kind) -> impl Iterator<Item = &String> {
    [&row.plural, &row.singular].into_iter().chain(&row.short_names)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
