//! What is decided about `PromptPacks`: each arrow of their flow chart. And about Providers and `AgentPolicies`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::omnia::{AgentPolicy, AgentRuntime, PromptPack, Provider};
use engine::{Decision, Outcome};
use k8s_openapi::api::core::v1::ConfigMap;
use orrery_controllers::omnia::prompt_pack::{Observed, decide};
use orrery_controllers::omnia::{Contents, Settings, agent_policy, provider};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{at, condition, object, status, steps, yaml};

const PACK: &str = "
metadata: { name: support, namespace: team, uid: p-uid, generation: 2 }
spec: { version: 1.0.0, source: { type: configmap, configMapRef: { name: content } } }
";

pub fn content(version: &str, text: &str) -> String {
    json!({ "id": "support", "name": "Support", "version": version,
        "template_engine": { "version": "v1", "syntax": "{{variable}}" },
        "prompts": { "help": { "id": "help", "name": "Help", "version": "1.0.0", "system_template": text } } })
    .to_string()
}

fn source(text: &str) -> Arc<ConfigMap> {
    let map = json!({ "metadata": { "name": "content", "namespace": "team" }, "data": { "pack.json": text } });
    Arc::new(serde_json::from_value(map).unwrap())
}

fn observed(text: &str) -> Observed {
    Observed {
        pack: Arc::new(yaml::<PromptPack>(PACK)),
        source: Some(source(text)),
        kept: Vec::new(),
        active: None,
        users: Vec::new(),
    }
}

fn decided(observed: &Observed) -> Decision {
    decide(observed, at("2026-01-01T00:00:00Z"))
}

/// The same pack after a decision was carried out.
fn after(observed: &Observed, decision: &Decision) -> Observed {
    let mut next = observed.clone();
    let mut pack = (*observed.pack).clone();
    pack.status = Some(serde_json::from_value(status(decision)).unwrap());
    next.pack = Arc::new(pack);
    for step in &decision.steps {
        if let engine::Step::Create(made) | engine::Step::Apply(made) = step {
            let value = made.value.clone();
            if made.key().name == "support-active" {
                next.active = Some(Arc::new(serde_json::from_value(value).unwrap()));
            } else {
                next.kept.push(Arc::new(serde_json::from_value(value).unwrap()));
            }
        }
    }
    next
}

#[test]
fn a_missing_source_fails() {
    let mut observed = observed("");
    for source in [None, Some(source(""))] {
        observed.source = source;
        let decision = decided(&observed);
        let written = status(&decision);
        assert_eq!(written["phase"], "Failed");
        assert_eq!(condition(&written, "SourceValid"), ("False".into(), "SourceValidationFailed".into()));
        assert_eq!(condition(&written, "SchemaValid"), ("Unknown".into(), "SourceInvalid".into()));
        assert!(matches!(decision.outcome, Outcome::Permanent(_)), "it waits for a change");
        assert_eq!(steps(&decision), ["patch status PromptPack support"]);
    }
}

#[test]
fn invalid_content_fails_names_the_path_and_leaves_the_active_version() {
    let first = observed(&content("1.0.0", "a"));
    let mut next = after(&first, &decided(&first));
    next.source = Some(source(&content("1.0.0", "")));
    let decision = decided(&next);
    let written = status(&decision);
    assert_eq!(written["phase"], "Failed");
    assert_eq!(condition(&written, "SchemaValid"), ("False".into(), "SchemaValidationFailed".into()));
    assert!(written.to_string().contains("/prompts/help/system_template"), "{written:#}");
    assert!(written.get("activeVersion").is_none(), "what was active stays so: {written:#}");
    assert!(matches!(decision.outcome, Outcome::Permanent(_)));
    assert_eq!(steps(&decision), ["patch status PromptPack support"], "agents keep what they have");
}

#[test]
fn valid_content_is_kept_for_ever_and_made_active_at_once() {
    let decision = decided(&observed(&content("v1.0.0", "a")));
    let steps = steps(&decision);
    assert!(steps[0].starts_with("create ConfigMap support-"), "{steps:?}");
    assert_eq!(&steps[1..], ["apply ConfigMap support-active", "patch status PromptPack support"]);
    let kept = object(&decision, "ConfigMap");
    assert_eq!(kept["immutable"], true);
    assert_eq!(kept["metadata"]["ownerReferences"][0]["uid"], "p-uid");
    let written = status(&decision);
    assert_eq!((&written["phase"], &written["activeVersion"]), (&json!("Active"), &json!("v1.0.0")));
    assert_eq!(written["versions"][0]["configMap"], kept["metadata"]["name"]);
    assert_eq!(written["versions"][0]["entry"], "help");
    assert_eq!(condition(&written, "AgentsNotified"), ("True".into(), "NoAgentsToNotify".into()));
    assert_eq!((decision.outcome, decision.look_again), (Outcome::Done, None), "success is not requeued");
}

#[test]
fn agents_are_counted_and_told() {
    let mut observed = observed(&content("1.0.0", "a"));
    observed.users = vec![agent("a", ""), agent("b", ""), agent("c", "")];
    let written = status(&decided(&observed));
    assert_eq!(written["agents"], 3);
    assert_eq!(condition(&written, "AgentsNotified"), ("True".into(), "AgentsNotified".into()));
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let first = observed(&content("1.0.0", "a"));
    let again = after(&first, &decided(&first));
    let later = decide(&again, at("2026-01-01T01:00:00Z"));
    assert!(later.steps.is_empty(), "{:?}", steps(&later));
}

#[test]
fn an_update_in_two_writes_moves_the_agents_once() {
    let first = observed(&content("1.0.0", "a"));
    let mut next = after(&first, &decided(&first));
    next.source = Some(source(&content("1.1.0", "b")));
    let held = decided(&next);
    assert_eq!(steps(&held), ["patch status PromptPack support"], "held");
    assert_eq!(condition(&status(&held), "VersionsAgree"), ("False".into(), "VersionMismatch".into()));
    assert!(matches!(held.outcome, Outcome::Waiting(_)));
    let mut pack = (*next.pack).clone();
    pack.spec.version = "1.1.0".into();
    next.pack = Arc::new(pack);
    let moved = decided(&next);
    assert_eq!(status(&moved)["activeVersion"], "1.1.0");
    let versions: Vec<Value> =
        status(&moved)["versions"].as_array().unwrap().iter().map(|version| version["version"].clone()).collect();
    assert_eq!(versions, ["1.1.0", "1.0.0"], "the one before is kept");
}

#[test]
fn old_contents_go_unless_an_agent_names_them() {
    let mut current = observed(&content("1.0.0", "0"));
    let named = |version: &str| {
        let mut agent = (*agent("a", "")).clone();
        agent.spec.prompt_pack_ref.version = Some(version.to_owned());
        Arc::new(agent)
    };
    current.users = vec![named("1.0.1")];
    for patch in 0..14 {
        let version = format!("1.0.{patch}");
        let mut pack = (*current.pack).clone();
        pack.spec.version = version.clone();
        current.pack = Arc::new(pack);
        current.source = Some(source(&content(&version, &patch.to_string())));
        let decision = decided(&current);
        let gone: Vec<String> =
            steps(&decision).iter().filter_map(|step| step.strip_prefix("delete ConfigMap ").map(Into::into)).collect();
        let mut merged = serde_json::to_value(current.pack.status.clone().unwrap_or_default()).unwrap();
        for (key, value) in status(&decision).as_object().unwrap() {
            merged[key] = value.clone();
        }
        let mut next = after(&current, &decision);
        let mut pack = (*next.pack).clone();
        pack.status = Some(serde_json::from_value(merged).unwrap());
        next.pack = Arc::new(pack);
        next.kept.retain(|map| !gone.contains(&map.metadata.name.clone().unwrap()));
        current = next;
    }
    let status = current.pack.status.clone().unwrap();
    let versions: Vec<&str> = status.versions.iter().map(|version| version.version.as_str()).collect();
    assert_eq!(versions.len(), 11, "{versions:?}");
    assert_eq!((versions[0], versions[10]), ("1.0.13", "1.0.1"));
    assert_eq!(current.kept.len(), 11);
}

#[rstest]
#[case::mock("type: mock", &[], "Ready", "Valid")]
#[case::no_key("type: openai", &[], "Error", "SecretRequired")]
#[case::own_address("type: openai, baseURL: 'http://x'", &[], "Ready", "Valid")]
#[case::no_secret("type: claude, secretRef: { name: s }", &[], "Error", "SecretNotFound")]
#[case::no_such_key("type: claude, secretRef: { name: s }", &["OPENAI_API_KEY"], "Error", "SecretKeyNotFound")]
#[case::a_key("type: claude, secretRef: { name: s }", &["ANTHROPIC_API_KEY"], "Ready", "Valid")]
#[case::another_key("type: claude, secretRef: { name: s, key: k }", &["k"], "Ready", "Valid")]
#[case::unclear("type: auto, model: llama", &[], "Error", "Invalid")]
#[case::clear("type: auto, model: claude-x, secretRef: { name: s }", &["ANTHROPIC_API_KEY"], "Ready", "Valid")]
fn a_provider_is_ready_or_says_why_not(
    #[case] spec: &str,
    #[case] keys: &[&str],
    #[case] phase: &str,
    #[case] reason: &str,
) {
    let provider: Provider = yaml(&format!("metadata: {{ name: m, namespace: n, generation: 1 }}\nspec: {{ {spec} }}"));
    let contents = Contents { keys: keys.iter().map(|key| ((*key).to_owned(), String::new())).collect() };
    let secrets = if keys.is_empty() { BTreeMap::new() } else { BTreeMap::from([("s".to_owned(), contents)]) };
    let observed = provider::Observed { provider: Arc::new(provider), secrets };
    let written = status(&provider::decide(&observed, at("2026-01-01T00:00:00Z")));
    assert_eq!(written["phase"], phase, "{written:#}");
    assert_eq!(condition(&written, "Ready").1, reason);
}

fn agent(name: &str, extra: &str) -> Arc<AgentRuntime> {
    Arc::new(yaml(&format!(
        "metadata: {{ name: {name}, namespace: n }}\nspec: {{ promptPackRef: {{ name: p }}, facade: {{}}, {extra} }}"
    )))
}

#[rstest]
#[case::enforced("toolBlocklist: [x]", &[""], "Active", "True", "Enforced")]
#[case::nobody("toolBlocklist: [x]", &[], "Active", "Unknown", "NoAgents")]
#[case::permissive("toolBlocklist: [x], mode: permissive", &[""], "Active", "False", "Permissive")]
#[case::foreign("toolBlocklist: [x]", &["", "framework: { type: custom, image: i }"], "Error", "False", "ForeignRuntime")]
fn a_policy_says_whether_it_is_enforced(
    #[case] spec: &str,
    #[case] agents: &[&str],
    #[case] phase: &str,
    #[case] truth: &str,
    #[case] reason: &str,
) {
    let policy: AgentPolicy =
        yaml(&format!("metadata: {{ name: a, namespace: n, generation: 1 }}\nspec: {{ {spec} }}"));
    let agents = agents.iter().enumerate().map(|(index, extra)| agent(&format!("a{index}"), extra)).collect::<Vec<_>>();
    let settings = Settings { own_image: Some("host".into()), ..Settings::default() };
    let observed = agent_policy::Observed { policy: Arc::new(policy), agents: agents.clone() };
    let written = status(&agent_policy::decide(&observed, &settings, at("2026-01-01T00:00:00Z")));
    assert_eq!((&written["phase"], &written["matchedAgents"]), (&json!(phase), &json!(agents.len())));
    assert_eq!(condition(&written, "Enforced"), (truth.into(), reason.into()));
}
