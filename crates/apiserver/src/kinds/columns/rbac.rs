//! Roles and bindings.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE, CREATED, Columns, Definition, NAME, age, list, metadata, name, text};

/// Roles and ClusterRoles.
pub static ROLES: Columns = Columns {
    definitions: &[NAME, CREATED],
    cells: |object, _| vec![name(object), metadata(object, "creationTimestamp")],
};

/// Bindings of either scope.
pub static BINDINGS: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Role", "string", 0, "The role it grants."),
        AGE,
        Definition("Users", "string", 1, "Users it is granted to."),
        Definition("Groups", "string", 1, "Groups it is granted to."),
        Definition("ServiceAccounts", "string", 1, "Service accounts it is granted to."),
    ],
    cells: binding_cells,
};

fn binding_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = list(&object["subjects"]).filter(|subject| subject["kind"] == kind);
        let names = of_kind.map(|subject| match text(&subject["namespace"]) {
            namespace if namespace.is_empty() => text(&subject["name"]),
            namespace => format!("{namespace}/{}", text(&subject["name"])),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    let role = &object["roleRef"];
    vec![
        name(object),
        json!(format!("{}/{}", text(&role["kind"]), text(&role["name"]))),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
