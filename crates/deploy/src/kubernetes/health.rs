//! Whether objects work, by what their controllers say. What nobody has looked at does not count as working.

use serde_json::Value;

use super::kinds;
use crate::status::Health;
use crate::target::Live;

pub fn of(live: &Live) -> Health {
    if live.object["metadata"]["deletionTimestamp"].is_string() {
        return Health::Unhealthy("it is being deleted".into());
    }
    match live.key.type_.as_str() {
        kinds::CONFIG_MAP => Health::Healthy(String::new()),
        kinds::AGENT_RUNTIME => runtime(&live.object, None),
        _ => phase(&live.object, &["Active", "Ready", "Canary"]),
    }
}

/// A runtime works when it is Ready, as it is written now and with the version of the pack that is wanted.
pub fn runtime(object: &Value, version: Option<&str>) -> Health {
    if let Some(stale) = unseen(object) {
        return Health::Unhealthy(stale);
    }
    let status = &object["status"];
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    if ready.is_none_or(|ready| ready["status"] != "True") {
        return Health::Unhealthy(why(object));
    }
    let plays = status["activeVersion"].as_str();
    match (plays, version) {
        (Some(plays), Some(version)) if plays != version => {
            Health::Unhealthy(format!("it still plays version {plays}"))
        }
        _ => Health::Healthy(plays.map(|plays| format!("plays version {plays}")).unwrap_or_default()),
    }
}

/// Whether its controller says that it cannot work.
pub fn failed(object: &Value) -> bool {
    unseen(object).is_none() && object["status"]["phase"] == "Failed"
}

fn phase(object: &Value, good: &[&str]) -> Health {
    if let Some(stale) = unseen(object) {
        return Health::Unhealthy(stale);
    }
    match object["status"]["phase"].as_str() {
        Some(phase) if good.contains(&phase) => Health::Healthy(phase.to_owned()),
        _ => Health::Unhealthy(why(object)),
    }
}

/// Why what the status says is not about the object as it is.
fn unseen(object: &Value) -> Option<String> {
    let status = object["status"].as_object().filter(|status| !status.is_empty());
    let Some(status) = status else { return Some("no controller has looked at it yet".into()) };
    let (seen, now) = (status.get("observedGeneration")?.as_i64()?, object["metadata"]["generation"].as_i64()?);
    (seen < now).then(|| "its controller has not looked at the last change yet".into())
}

/// The phase, and the first condition that stands in the way.
fn why(object: &Value) -> String {
    let status = &object["status"];
    let phase = status["phase"].as_str().unwrap_or("Pending");
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let bad = |condition: &&Value| condition["status"] == "False";
    // "Ready" only repeats what another says better.
    let told = conditions.iter().filter(bad).min_by_key(|condition| condition["type"] == "Ready");
    match told {
        Some(condition) => {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            format!("{phase}: {} is {}: {}", text("type"), text("reason"), text("message"))
        }
        None => phase.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "reads better at the calls")]
    fn object(status: Value) -> Value {
        json!({ "metadata": { "generation": 2 }, "status": status })
    }

    #[test]
    fn only_ready_as_written_now_counts() {
        let ready = |seen: u8, status: &str| {
            object(json!({ "observedGeneration": seen, "phase": "Running", "activeVersion": "1.0.0",
                "conditions": [{ "type": "Ready", "status": status, "reason": "R", "message": "m" }] }))
        };
        assert_eq!(runtime(&ready(2, "True"), Some("1.0.0")), Health::Healthy("plays version 1.0.0".into()));
        assert_eq!(runtime(&ready(2, "True"), Some("2.0.0")), Health::Unhealthy("it still plays version 1.0.0".into()));
        assert!(matches!(runtime(&ready(1, "True"), None), Health::Unhealthy(why) if why.contains("last change")));
        assert_eq!(runtime(&ready(2, "False"), None), Health::Unhealthy("Running: Ready is R: m".into()));
        assert!(matches!(runtime(&json!({}), None), Health::Unhealthy(why) if why.contains("no controller")));
    }

    #[test]
    fn pending_and_degraded_are_not_healthy() {
        for bad in ["Pending", "Degraded", "Failed", "Error"] {
            assert!(matches!(phase(&object(json!({ "phase": bad })), &["Active"]), Health::Unhealthy(_)), "{bad}");
        }
        assert_eq!(phase(&object(json!({ "phase": "Active" })), &["Active"]), Health::Healthy("Active".into()));
    }

    #[test]
    fn the_reason_is_the_most_telling_condition() {
        let told = why(&object(json!({ "phase": "Failed", "conditions": [
            { "type": "Ready", "status": "False", "reason": "RuntimeNotReady", "message": "" },
            { "type": "ToolRegistryReady", "status": "False", "reason": "ToolRegistryNotFound", "message": "no t" },
        ] })));
        assert_eq!(told, "Failed: ToolRegistryReady is ToolRegistryNotFound: no t");
    }
}
