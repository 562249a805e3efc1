//! Pods: the one kind whose status takes thought to print.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE, Columns, Definition, NAME, age, list, name, or_none, text};
use crate::object;

/// Pods.
pub static PODS: Columns = Columns {
    definitions: &[
        NAME,
        Definition("Ready", "string", 0, "Ready containers of all."),
        Definition("Status", "string", 0, "What the Pod is doing."),
        Definition("Restarts", "string", 0, "How often containers were restarted, and when last."),
        AGE,
        Definition("IP", "string", 1, "Its address."),
        Definition("Node", "string", 1, "Where it runs."),
        Definition("Nominated Node", "string", 1, "Where it may run next."),
        Definition("Readiness Gates", "string", 1, "Conditions that must hold before it is ready."),
    ],
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let ready =
        containers(status).filter(|state| is_ready(state)).count() + sidecars(pod).filter(|s| is_ready(s)).count();
    let total = list(&spec["containers"]).count() + list(&spec["initContainers"]).filter(|c| is_sidecar(c)).count();
    vec![
        name(pod),
        json!(format!("{ready}/{total}")),
        json!(reason(pod)),
        json!(restarts(pod, now)),
        age(pod, now),
        or_none(text(&status["podIP"])),
        or_none(text(&spec["nodeName"])),
        or_none(text(&status["nominatedNodeName"])),
        or_none(gates(pod)),
    ]
}

/// The word in the Status column: the most telling of phase, init progress and container states.
fn reason(pod: &Value) -> String {
    let status = &pod["status"];
    let own = text(&status["reason"]);
    let mut reason = if own.is_empty() { text(&status["phase"]) } else { own };
    if let Some(init) = initializing(pod) {
        reason = init;
    } else {
        let mut running = false;
        for container in status["containerStatuses"].as_array().into_iter().flatten().rev() {
            match stopped(&container["state"]) {
                Some(word) => reason = word,
                None => running |= is_ready(container),
            }
        }
        // One container is done, another still serves: the Pod runs.
        if reason == "Completed" && running {
            let ready = list(&status["conditions"]).any(|one| one["type"] == "Ready" && one["status"] == "True");
            reason = if ready { "Running".into() } else { "NotReady".into() };
        }
    }
    if object::is_deleting(pod) {
        return if text(&status["reason"]) == "NodeLost" { "Unknown".into() } else { "Terminating".into() };
    }
    reason
}

/// `Init:…` while an init container has not finished.
fn initializing(pod: &Value) -> Option<String> {
    let total = list(&pod["spec"]["initContainers"]).count();
    for (index, state) in list(&pod["status"]["initContainerStatuses"]).enumerate() {
        let done = state["state"]["terminated"]["exitCode"] == 0;
        let sidecar = list(&pod["spec"]["initContainers"]).any(|c| c["name"] == state["name"] && is_sidecar(c));
        if done || (sidecar && state["started"] == true) {
            continue;
        }
        let word = stopped(&state["state"]).filter(|word| word != "PodInitializing");
        return Some(word.map_or_else(|| format!("Init:{index}/{total}"), |word| format!("Init:{word}")));
    }
    None
}

/// Why a container does not run, if it does not.
fn stopped(state: &Value) -> Option<String> {
    if let Some(waiting) = state["waiting"]["reason"].as_str().filter(|reason| !reason.is_empty()) {
        return Some(waiting.to_owned());
    }
    let terminated = state.get("terminated").filter(|value| !value.is_null())?;
    Some(match (text(&terminated["reason"]), terminated["signal"].as_i64().unwrap_or(0)) {
        (reason, _) if !reason.is_empty() => reason,
        (_, 0) => format!("ExitCode:{}", terminated["exitCode"]),
        (_, signal) => format!("Signal:{signal}"),
    })
}

fn restarts(pod: &Value, now: Timestamp) -> String {
    let states = || containers(&pod["status"]).chain(list(&pod["status"]["initContainerStatuses"]));
    let count: i64 = states().filter_map(|state| state["restartCount"].as_i64()).sum();
    let last = states().filter_map(|state| state["lastState"]["terminated"]["finishedAt"].as_str()).max();
    match last.and_then(|time| time.parse::<Timestamp>().ok()) {
        Some(last) if count > 0 => {
            format!("{count} ({} ago)", machinery::table::human_duration(now.as_second() - last.as_second()))
        }
        _ => count.to_string(),
    }
}

fn gates(pod: &Value) -> String {
    let gates: Vec<&Value> = list(&pod["spec"]["readinessGates"]).collect();
    if gates.is_empty() {
        return String::new();
    }
    let holds = |gate: &&&Value| {
        list(&pod["status"]["conditions"]).any(|one| one["type"] == gate["conditionType"] && one["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

fn containers(status: &Value) -> impl Iterator<Item = &Value> {
    list(&status["containerStatuses"])
}

fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    list(&pod["status"]["initContainerStatuses"])
        .filter(|state| list(&pod["spec"]["initContainers"]).any(|one| one["name"] == state["name"] && is_sidecar(one)))
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn is_ready(state: &Value) -> bool {
    state["ready"] == true && !state["state"]["running"].is_null()
}
