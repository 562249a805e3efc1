//! How `kubectl get` prints built-in kinds: the columns and cells Kubernetes has.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object;

mod pod;
mod rbac;
mod workload;

/// One column: name, type, priority (0 is always shown, 1 with `-o wide`), description.
pub struct Definition(pub &'static str, pub &'static str, pub u8, pub &'static str);

/// The columns of a kind and the code that fills a row.
pub struct Columns {
    /// In order.
    pub definitions: &'static [Definition],
    /// One cell a column.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const NAME: Definition = Definition("Name", "string", 0, "Name of the object, unique in its namespace.");
const AGE: Definition = Definition("Age", "string", 0, "Time since the object was created.");
const CREATED: Definition = Definition("Created At", "date", 0, "When the object was created.");

/// Name and creation time, for kinds with nothing else to say.
pub static PLAIN: Columns = Columns {
    definitions: &[NAME, CREATED],
    cells: |object, _| vec![name(object), metadata(object, "creationTimestamp")],
};

pub use pod::PODS;
pub use rbac::{BINDINGS, ROLES};
pub use workload::{DEPLOYMENTS, REPLICA_SETS};

/// ConfigMaps.
pub static CONFIG_MAPS: Columns = Columns {
    definitions: &[NAME, Definition("Data", "string", 0, "How many entries it holds."), AGE],
    cells: |object, now| {
        let count = size(&object["data"]) + size(&object["binaryData"]);
        vec![name(object), json!(count), age(object, now)]
    },
};

/// Scales, of whatever kind.
pub static SCALES: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Desired", "integer", 0, "How many there should be."),
        Definition("Available", "integer", 0, "How many there are."),
        AGE,
    ],
    cells: |scale, now| {
        vec![name(scale), scale["spec"]["replicas"].clone(), scale["status"]["replicas"].clone(), age(scale, now)]
    },
};

/// Secrets.
pub static SECRETS: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Type", "string", 0, "What kind of secret it is."),
        Definition("Data", "string", 0, "How many entries it holds."),
        AGE,
    ],
    cells: |object, now| vec![name(object), object["type"].clone(), json!(size(&object["data"])), age(object, now)],
};

/// Namespaces.
pub static NAMESPACES: Columns = Columns {
    definitions: &[NAME, Definition("Status", "string", 0, "Active, or Terminating while it is being emptied."), AGE],
    cells: |object, now| vec![name(object), object["status"]["phase"].clone(), age(object, now)],
};

/// ServiceAccounts.
pub static SERVICE_ACCOUNTS: Columns =
    Columns { definitions: &[NAME, AGE], cells: |object, now| vec![name(object), age(object, now)] };

/// Services.
pub static SERVICES: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Type", "string", 0, "How it is reached."),
        Definition("Cluster-IP", "string", 0, "Its address inside the plane."),
        Definition("External-IP", "string", 0, "Its addresses outside."),
        Definition("Port(s)", "string", 0, "Ports and protocols."),
        AGE,
        Definition("Selector", "string", 1, "Labels of the Pods behind it."),
    ],
    cells: service_cells,
};

fn service_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let ports = list(&spec["ports"]).map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        match port["nodePort"].as_u64().filter(|number| *number > 0) {
            Some(node) => format!("{}:{node}/{protocol}", port["port"]),
            None => format!("{}/{protocol}", port["port"]),
        }
    });
    let external = if spec["type"] == "ExternalName" {
        spec["externalName"].as_str().unwrap_or_default().to_owned()
    } else {
        object::strings(spec.get("externalIPs")).join(",")
    };
    vec![
        name(object),
        spec["type"].clone(),
        or_none(text(&spec["clusterIP"])),
        or_none(external),
        or_none(ports.collect::<Vec<_>>().join(",")),
        age(object, now),
        or_none(labels(&spec["selector"])),
    ]
}

/// PersistentVolumeClaims.
pub static CLAIMS: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Status", "string", 0, "Pending, Bound or Lost."),
        Definition("Volume", "string", 0, "The volume it is bound to."),
        Definition("Capacity", "string", 0, "How much it holds."),
        Definition("Access Modes", "string", 0, "Who may mount it, and how."),
        Definition("StorageClass", "string", 0, "The class it asks for."),
        Definition("VolumeAttributesClass", "string", 0, "The attributes it asks for."),
        AGE,
        Definition("VolumeMode", "string", 1, "File system or block device."),
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let phase = if object::is_deleting(object) { json!("Terminating") } else { status["phase"].clone() };
        let modes = object::strings(status.get("accessModes"));
        let modes: Vec<&str> = modes.iter().map(|mode| short_access_mode(mode)).collect();
        vec![
            name(object),
            phase,
            json!(text(&spec["volumeName"])),
            json!(text(&status["capacity"]["storage"])),
            json!(modes.join(",")),
            json!(text(&spec["storageClassName"])),
            json!(spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>")),
            age(object, now),
            json!(text(&spec["volumeMode"])),
        ]
    },
};

fn short_access_mode(mode: &str) -> &str {
    match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    }
}

/// Events.
pub static EVENTS: Columns = Columns {
    definitions: &[
        Definition("Last Seen", "string", 0, "How long ago it last happened."),
        Definition("Type", "string", 0, "Normal or Warning."),
        Definition("Reason", "string", 0, "One word for why."),
        Definition("Object", "string", 0, "What it is about."),
        Definition("Subobject", "string", 1, "Which part of the object."),
        Definition("Source", "string", 1, "Who reports it."),
        Definition("Message", "string", 0, "What happened, in words."),
        Definition("First Seen", "string", 1, "How long ago it first happened."),
        Definition("Count", "string", 1, "How often it happened."),
        Definition("Name", "string", 1, "Name of the event."),
    ],
    cells: event_cells,
};

fn event_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    // Both event groups come here; each names the same facts in its own way.
    let either =
        |core: &str, new: &str| if object[core].is_null() { object[new].clone() } else { object[core].clone() };
    let about = either("involvedObject", "regarding");
    let source = either("source", "deprecatedSource");
    let first = either("firstTimestamp", "deprecatedFirstTimestamp");
    let last = either("lastTimestamp", "deprecatedLastTimestamp");
    let event_time = &object["eventTime"];
    let first_seen = if first.is_null() { event_time } else { &first };
    let last_seen = match (&object["series"]["lastObservedTime"], &last) {
        (series, _) if !series.is_null() => series,
        (_, last) if !last.is_null() => last,
        _ => first_seen,
    };
    let reporter = either("reportingComponent", "reportingController");
    let component = source["component"].as_str().filter(|name| !name.is_empty()).map_or(text(&reporter), str::to_owned);
    let source = [component, text(&source["host"])];
    let count = match (&object["series"]["count"], either("count", "deprecatedCount")) {
        (series, _) if !series.is_null() => series.clone(),
        (_, count) if !count.is_null() => count,
        _ => json!(1),
    };
    vec![
        since(last_seen, now),
        object["type"].clone(),
        object["reason"].clone(),
        json!(format!("{}/{}", text(&about["kind"]).to_lowercase(), text(&about["name"]))),
        json!(text(&about["fieldPath"])),
        json!(source.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ")),
        json!(text(&either("message", "note")).trim()),
        since(first_seen, now),
        count,
        name(object),
    ]
}

/// Nodes.
pub static NODES: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Status", "string", 0, "Whether it takes Pods."),
        Definition("Roles", "string", 0, "Roles its labels give it."),
        AGE,
        Definition("Version", "string", 0, "Version of the node agent."),
        Definition("Internal-IP", "string", 1, "Its address."),
        Definition("External-IP", "string", 1, "Its address outside."),
        Definition("OS-Image", "string", 1, "What it runs."),
        Definition("Kernel-Version", "string", 1, "Its kernel."),
        Definition("Container-Runtime", "string", 1, "What runs its Pods."),
    ],
    cells: node_cells,
};

fn node_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(&object["status"]["conditions"]).find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| &condition["status"]) {
        Some(value) if value == "True" => "Ready".to_owned(),
        Some(value) if value == "False" => "NotReady".to_owned(),
        _ => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let labels = object["metadata"]["labels"].as_object();
    let roles = labels.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"));
    let roles: Vec<&str> = roles.collect();
    let info = &object["status"]["nodeInfo"];
    let address = |kind: &str| {
        let found = list(&object["status"]["addresses"]).find(|address| address["type"] == kind);
        or_none(found.map(|address| text(&address["address"])).unwrap_or_default())
    };
    vec![
        name(object),
        json!(status),
        or_none(roles.join(",")),
        age(object, now),
        info["kubeletVersion"].clone(),
        address("InternalIP"),
        address("ExternalIP"),
        json!(text(&info["osImage"])),
        json!(text(&info["kernelVersion"])),
        json!(text(&info["containerRuntimeVersion"])),
    ]
}

/// Leases.
pub static LEASES: Columns = Columns {
    definitions: &[NAME, Definition("Holder", "string", 0, "Who holds it."), AGE],
    cells: |object, now| vec![name(object), json!(text(&object["spec"]["holderIdentity"])), age(object, now)],
};

/// EndpointSlices.
pub static ENDPOINT_SLICES: Columns = Columns {
    definitions: &[
        NAME,
        Definition("AddressType", "string", 0, "What kind of addresses it holds."),
        Definition("Ports", "string", 0, "The ports of every endpoint."),
        Definition("Endpoints", "string", 0, "The addresses."),
        AGE,
    ],
    cells: |object, now| {
        let ports: Vec<String> = list(&object["ports"]).map(|port| port["port"].to_string()).collect();
        let endpoints: Vec<String> =
            list(&object["endpoints"]).flat_map(|endpoint| object::strings(endpoint.get("addresses"))).collect();
        let first = |items: &[String]| match items.len() {
            0 => "<unset>".to_owned(),
            1..=3 => items.join(","),
            many => format!("{} + {} more...", items[..3].join(","), many - 3),
        };
        vec![
            name(object),
            object["addressType"].clone(),
            json!(first(&ports)),
            json!(first(&endpoints)),
            age(object, now),
        ]
    },
};

fn name(object: &Value) -> Value {
    metadata(object, "name")
}

fn metadata(object: &Value, field: &str) -> Value {
    object["metadata"][field].clone()
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now)
}

/// How long ago a time was, as a person says it.
fn since(time: &Value, now: Timestamp) -> Value {
    machinery::table::age(Some(time), now).into()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn or_none(text: String) -> Value {
    if text.is_empty() { json!("<none>") } else { Value::String(text) }
}

fn size(value: &Value) -> usize {
    value.as_object().map_or_else(|| value.as_array().map_or(0, Vec::len), serde_json::Map::len)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `a=b,c=d`
fn labels(value: &Value) -> String {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
}
