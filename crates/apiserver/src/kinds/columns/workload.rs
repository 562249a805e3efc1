//! Deployments and ReplicaSets.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE, Columns, Definition, NAME, age, labels, list, name, or_none, text};

const CONTAINERS: Definition = Definition("Containers", "string", 1, "Names of the containers.");
const IMAGES: Definition = Definition("Images", "string", 1, "Images of the containers.");
const SELECTOR: Definition = Definition("Selector", "string", 1, "Labels of its Pods.");

/// Deployments.
pub static DEPLOYMENTS: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Ready", "string", 0, "Ready Pods of those wanted."),
        Definition("Up-to-date", "string", 0, "Pods of the current template."),
        Definition("Available", "string", 0, "Pods ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let ready = format!("{}/{}", count(&object["status"]["readyReplicas"]), count(&object["spec"]["replicas"]));
        let mut cells = vec![
            name(object),
            json!(ready),
            json!(count(&object["status"]["updatedReplicas"])),
            json!(count(&object["status"]["availableReplicas"])),
            age(object, now),
        ];
        cells.extend(template(object));
        cells
    },
};

/// ReplicaSets.
pub static REPLICA_SETS: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Desired", "integer", 0, "Pods wanted."),
        Definition("Current", "integer", 0, "Pods there are."),
        Definition("Ready", "integer", 0, "Pods that are ready."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: replica_set_cells,
};

fn replica_set_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        json!(count(&object["spec"]["replicas"])),
        json!(count(&object["status"]["replicas"])),
        json!(count(&object["status"]["readyReplicas"])),
        age(object, now),
    ];
    cells.extend(template(object));
    cells
}

fn count(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn template(object: &Value) -> [Value; 3] {
    let containers = &object["spec"]["template"]["spec"]["containers"];
    let each = |field: &str| json!(list(containers).map(|one| text(&one[field])).collect::<Vec<_>>().join(","));
    [each("name"), each("image"), or_none(selector(&object["spec"]["selector"]))]
}

/// A label selector as one line.
fn selector(selector: &Value) -> String {
    let mut parts = vec![labels(&selector["matchLabels"])];
    for expression in list(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let values = crate::object::strings(expression.get("values")).join(",");
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key,
            _ => format!("!{key}"),
        });
    }
    parts.retain(|part| !part.is_empty());
    parts.join(",")
}
