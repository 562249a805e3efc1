//! What is decided about `ToolRegistries`: each arrow of their flow chart, each row of their table of phases.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::omnia::ToolRegistry;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use orrery_controllers::omnia::Settings;
use orrery_controllers::omnia::tool_registry::{Observed, Place, decide};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{at, condition, status, yaml};

pub fn registry(spec: &str) -> Observed {
    let text = format!("metadata: {{ name: desk, namespace: team, generation: 1 }}\nspec:\n{spec}");
    Observed {
        registry: Arc::new(yaml::<ToolRegistry>(&text)),
        services: Vec::new(),
        slices: Vec::new(),
        places: BTreeMap::new(),
        locked: BTreeMap::new(),
        answers: BTreeMap::new(),
        pods: Vec::new(),
        maps: Vec::new(),
    }
}

/// A Service, and how many of its endpoints are ready.
pub fn serve(observed: &mut Observed, name: &str, meta: &Value, ports: &Value, ready: &[bool]) {
    let mut metadata = json!({ "name": name, "namespace": "team" });
    for (key, value) in meta.as_object().unwrap() {
        metadata[key] = value.clone();
    }
    let service = json!({ "metadata": metadata, "spec": { "ports": ports } });
    observed.services.push(Arc::new(serde_json::from_value::<Service>(service).unwrap()));
    let endpoints: Vec<Value> =
        ready.iter().map(|ready| json!({ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } })).collect();
    let slice = json!({ "metadata": { "name": name, "namespace": "team", "labels": { "kubernetes.io/service-name": name } }, "addressType": "IPv4", "endpoints": endpoints });
    observed.slices.push(Arc::new(serde_json::from_value::<EndpointSlice>(slice).unwrap()));
}

fn written(observed: &Observed) -> Value {
    status(&decide(observed, &Settings::default(), at("2026-01-01T00:00:00Z")))
}

/// Name, endpoint and reason of each tool.
fn tools(status: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = status["discoveredTools"].as_array().unwrap();
    list.iter().map(|tool| (text(&tool["name"]), text(&tool["endpoint"]), text(&tool["reason"]))).collect()
}

const TWO: &str = "
  handlers:
  - { name: a, type: http, tool: { name: a, description: d, inputSchema: { type: object } }, httpConfig: { endpoint: 'http://one.team.svc/x' } }
  - { name: b, type: grpc, tool: { name: b, description: d, inputSchema: { type: object } }, grpcConfig: { endpoint: 'two:9000' } }
";

#[rstest]
#[case::all(&[true], &[true, false], "Ready", "True", "AllAvailable")]
#[case::some(&[true], &[false], "Degraded", "True", "SomeUnavailable")]
#[case::none(&[false], &[], "Failed", "False", "NoneAvailable")]
fn the_phase_follows_the_services(
    #[case] one: &[bool],
    #[case] two: &[bool],
    #[case] phase: &str,
    #[case] truth: &str,
    #[case] reason: &str,
) {
    let mut observed = registry(TWO);
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), one);
    serve(&mut observed, "two", &json!({}), &json!([{ "port": 9000 }]), two);
    let status = written(&observed);
    assert_eq!(status["phase"], phase, "{status:#}");
    assert_eq!(status["discoveredToolsCount"], 2);
    assert_eq!(condition(&status, "ToolsDiscovered"), (truth.into(), reason.into()));
    assert_eq!(condition(&status, "HandlersValid"), ("True".into(), "HandlersValid".into()));
}

#[test]
fn explicit_schemas_are_recorded_and_a_missing_service_is_said() {
    let mut observed = registry(TWO);
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), &[true]);
    let status = written(&observed);
    assert_eq!(
        tools(&status),
        [
            ("a".into(), "http://one.team.svc/x".into(), String::new()),
            ("b".into(), "two:9000".into(), "ServiceNotFound".into()),
        ]
    );
    assert_eq!(status["discoveredTools"][0]["inputSchema"], json!({ "type": "object" }));
    assert_eq!(status["discoveredTools"][0]["handlerName"], "a");
    assert_eq!(status["discoveredTools"][0]["lastChecked"], "2026-01-01T00:00:00Z");
}

const OUTSIDE: &str = "
  handlers:
  - { name: a, type: http, tool: { name: a, description: d, inputSchema: {} }, httpConfig: { endpoint: 'https://tools.example.com/x' } }
";

#[test]
fn places_outside_are_as_they_answered_and_asked_again() {
    let place = Place { host: "tools.example.com".into(), port: 443 };
    let mut observed = registry(OUTSIDE);
    observed.places.insert(place.clone(), Ok(()));
    let decision = decide(&observed, &Settings::default(), at("2026-01-01T00:00:00Z"));
    assert_eq!(status(&decision)["phase"], "Ready");
    assert_eq!(decision.look_again, Some(at("2026-01-01T00:01:00Z")));
    observed.places.insert(place, Err("no answer".into()));
    let status = written(&observed);
    assert_eq!((&status["phase"], &status["discoveredTools"][0]["error"]), (&json!("Failed"), &json!("no answer")));
    assert_eq!(tools(&status)[0].2, "Unreachable");
}

#[test]
fn a_service_that_is_watched_needs_no_second_look() {
    let mut observed = registry(TWO);
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), &[true]);
    assert_eq!(decide(&observed, &Settings::default(), at("2026-01-01T00:00:00Z")).look_again, None);
}

const SELECTED: &str = "
  handlers:
  - { name: find-it, type: http, selector: { matchLabels: { role: tool }, port: PORT }, tool: { name: fallback, description: of the handler, inputSchema: { type: object, properties: { q: {} } } } }
";

fn annotated() -> Value {
    json!({ "labels": { "role": "tool" }, "annotations": {
        "omnia.altairalabs.ai/tool-name": "Search", "omnia.altairalabs.ai/tool-description": "Searches",
        "omnia.altairalabs.ai/tool-type": "grpc", "omnia.altairalabs.ai/tool-path": "v1/search" } })
}

#[rstest]
#[case::by_name("web", "grpc://s.team.svc.cluster.local:8081/v1/search")]
#[case::by_number("'8082'", "grpc://s.team.svc.cluster.local:8082/v1/search")]
fn services_are_found_by_labels_and_speak_for_themselves(#[case] port: &str, #[case] url: &str) {
    let mut observed = registry(&SELECTED.replace("PORT", port));
    serve(
        &mut observed,
        "s",
        &annotated(),
        &json!([{ "name": "first", "port": 80 }, { "name": "web", "port": 8081 }, { "name": "more", "port": 8082 }]),
        &[true],
    );
    serve(&mut observed, "other", &json!({ "labels": { "role": "other" } }), &json!([{ "port": 1 }]), &[true]);
    let status = written(&observed);
    assert_eq!(tools(&status), [("Search".into(), url.into(), String::new())]);
    let tool = &status["discoveredTools"][0];
    assert_eq!((&tool["description"], &tool["inputSchema"]["properties"]["q"]), (&json!("Searches"), &json!({})));
}

#[test]
fn without_annotations_the_handler_speaks_and_without_a_port_the_first_is_taken() {
    let mut observed = registry(&SELECTED.replace(", port: PORT", ""));
    serve(
        &mut observed,
        "s",
        &json!({ "labels": { "role": "tool" } }),
        &json!([{ "port": 81 }, { "port": 82 }]),
        &[true],
    );
    let status = written(&observed);
    assert_eq!(tools(&status), [("fallback".into(), "http://s.team.svc.cluster.local:81".into(), String::new())]);
    assert_eq!(status["discoveredTools"][0]["description"], "of the handler");
}

#[test]
fn what_is_wrong_with_a_service_is_said() {
    let reason = |port: &str, meta: &Value, ready: &[bool]| {
        let mut observed = registry(&SELECTED.replace("PORT", port));
        serve(&mut observed, "s", meta, &json!([{ "name": "web", "port": 80 }]), ready);
        let status = written(&observed);
        assert_eq!(status["phase"], "Failed");
        tools(&status)[0].2.clone()
    };
    assert_eq!(reason("web", &json!({ "labels": { "role": "other" } }), &[true]), "ServiceNotFound");
    assert_eq!(reason("gone", &annotated(), &[true]), "PortNotFound");
    assert_eq!(reason("web", &annotated(), &[false]), "NoReadyEndpoints");
    let mut odd = annotated();
    odd["annotations"]["omnia.altairalabs.ai/tool-type"] = json!("telepathy");
    assert_eq!(reason("web", &odd, &[true]), "Invalid");
    let mut odd = annotated();
    odd["annotations"]["omnia.altairalabs.ai/tool-name"] = json!("not a name");
    assert_eq!(reason("web", &odd, &[true]), "Invalid");
}

#[test]
fn a_selector_may_look_into_another_namespace() {
    let mut observed =
        registry("  handlers: [{ name: a, type: http, selector: { matchLabels: { role: tool }, namespace: other } }]");
    serve(&mut observed, "s", &annotated(), &json!([{ "port": 80 }]), &[true]);
    assert_eq!(tools(&written(&observed))[0].2, "ServiceNotFound", "the one in the registry's namespace is not meant");
}

#[test]
fn a_name_means_one_tool() {
    let mut observed = registry(&TWO.replace("name: b, description", "name: a, description"));
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), &[true]);
    serve(&mut observed, "two", &json!({}), &json!([{ "port": 9000 }]), &[true]);
    let status = written(&observed);
    assert_eq!((tools(&status)[1].2.as_str(), &status["phase"]), ("DuplicateName", &json!("Degraded")));
}

#[test]
fn a_handler_that_cannot_be_read_does_not_stop_the_others() {
    let mut observed = registry(&TWO.replace(
        "name: b, description: d, inputSchema: { type: object }",
        "name: b, description: d, inputSchema: { type: nonsense }",
    ));
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), &[true]);
    serve(&mut observed, "two", &json!({}), &json!([{ "port": 9000 }]), &[true]);
    let status = written(&observed);
    assert_eq!(status["phase"], "Degraded");
    assert_eq!(condition(&status, "HandlersValid"), ("False".into(), "ValidationFailed".into()));
    assert_eq!(tools(&status)[1].2, "Invalid");
}

#[test]
fn a_declared_tool_has_no_endpoint() {
    let status = written(&registry("  tools: [{ name: Later, description: d, inputSchema: { type: object } }]"));
    assert_eq!((&status["phase"], &status["discoveredTools"][0]["status"]), (&json!("Failed"), &json!("Unavailable")));
    assert_eq!(tools(&status), [("Later".into(), String::new(), "NoEndpoint".into())]);
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut observed = registry(TWO);
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), &[true]);
    let mut again = (*observed.registry).clone();
    again.status = Some(serde_json::from_value(written(&observed)).unwrap());
    observed.registry = Arc::new(again);
    let later = decide(&observed, &Settings::default(), at("2026-01-01T01:00:00Z"));
    assert!(later.steps.is_empty(), "{later:?}");
}
