//! What is decided about a pack's canary: when it steps, pauses, is promoted or given up.

use std::sync::Arc;

use api::omnia::routing::window;
use api::omnia::{AgentRuntime, PromptPack};
use engine::{Decision, Step};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use orrery_controllers::omnia::prompt_pack::{Observed, decide};
use rstest::rstest;
use serde_json::{Value, json};

use crate::omnia_packs::content;
use crate::support::{at, condition, yaml};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A pack at 1.0.0 that gets 1.1.0, with agents whose routers do what they are told.
struct Trial {
    pack: PromptPack,
    text: String,
    agents: Vec<AgentRuntime>,
    kept: Vec<ConfigMap>,
    now: Timestamp,
    decision: Decision,
}

impl Trial {
    fn new(canary: &str, agents: usize) -> Self {
        let pack = "
metadata: { name: support, namespace: team, uid: p-uid, generation: 2 }
spec: { version: 1.0.0, source: { type: configmap, configMapRef: { name: content } } }";
        let mut pack: PromptPack = yaml(pack);
        pack.spec.rollout = serde_json::from_value(json!({ "type": "canary" })).unwrap();
        pack.spec.rollout.canary = Some(yaml(canary));
        let agent = |index: usize| {
            let text = format!(
                "metadata: {{ name: a{index}, namespace: team }}\nspec: {{ promptPackRef: {{ name: support }}, facade: {{}} }}"
            );
            yaml(&text)
        };
        let mut trial = Self {
            pack,
            text: content("1.0.0", "old"),
            agents: (0..agents).map(agent).collect(),
            kept: Vec::new(),
            now: at("2026-01-01T00:00:00Z"),
            decision: Decision::none(),
        };
        trial.decide();
        assert_eq!(trial.status()["phase"], "Active", "the first version has nothing to be compared with");
        trial.pack.spec.version = "1.1.0".into();
        trial.text = content("1.1.0", "new");
        trial.decide();
        trial
    }

    fn decide(&mut self) {
        let source = json!({ "metadata": { "name": "content" }, "data": { "pack.json": self.text } });
        let observed = Observed {
            pack: Arc::new(self.pack.clone()),
            source: Some(Arc::new(serde_json::from_value(source).unwrap())),
            kept: self.kept.iter().map(|map| Arc::new(serde_json::from_value(json!(map)).unwrap())).collect(),
            active: None,
            users: self.agents.iter().cloned().map(Arc::new).collect(),
        };
        self.decision = decide(&observed, self.now);
        for step in &self.decision.steps {
            match step {
                Step::Create(made) => self.kept.push(serde_json::from_value(made.value.clone()).unwrap()),
                Step::Patch(patch) => {
                    let mut status = json!(self.pack.status.clone().unwrap_or_default());
                    json_patch::merge(&mut status, &patch.body["status"]);
                    self.pack.status = Some(serde_json::from_value(status).unwrap());
                }
                _ => {}
            }
        }
    }

    fn status(&self) -> Value {
        json!(self.pack.status)
    }

    /// The agents' routers act on what the pack wants, and have measured this in the present step.
    fn measured(&mut self, requests: i64, errors: i64, p95: i64) {
        let status = self.pack.status.clone().unwrap();
        let (canary, weight) = (status.canary.unwrap(), status.canary_weight.unwrap());
        let side = json!({ "requests": requests, "errors": errors, "latencyP95Ms": p95 });
        let part = json!({ "canary": {
            "version": "1.1.0", "configMap": canary.config_map, "stage": "Routing", "weight": weight,
            "window": window(&canary.config_map, canary.step), "moved": weight == 100,
            "canary": side, "stable": { "requests": 9 * requests } } });
        for agent in &mut self.agents {
            agent.status = Some(serde_json::from_value(part.clone()).unwrap());
        }
        self.decide();
    }

    fn after(&mut self, time: SignedDuration) {
        self.now += time;
        self.decide();
    }

    fn weight(&self) -> Value {
        self.status()["canaryWeight"].clone()
    }

    fn progressing(&self) -> (String, String) {
        condition(&self.status(), "CanaryProgressing")
    }
}

#[test]
fn a_new_version_is_a_canary_beside_the_active_one_until_it_is_promoted() {
    let mut trial = Trial::new("weight: 10", 2);
    let status = trial.status();
    assert_eq!((&status["phase"], &status["activeVersion"]), (&json!("Canary"), &json!("1.0.0")));
    assert_eq!((&status["canaryVersion"], &status["canaryWeight"]), (&json!("1.1.0"), &json!(10)));
    assert_eq!(status["versions"][0]["version"], "1.0.0", "agents play the first");
    assert_eq!(status["versions"][1]["configMap"], status["canary"]["configMap"], "both contents are kept");
    assert_eq!(trial.kept.len(), 2);
    assert!(trial.kept.iter().all(|map| map.immutable == Some(true)));
    assert_eq!(trial.progressing(), ("Unknown".into(), "AgentsNotReady".into()));

    trial.measured(50, 1, 40);
    let status = trial.status();
    assert_eq!(status["canary"]["stage"], "Running");
    assert_eq!((&status["canary"]["canary"]["requests"], &status["canary"]["agentsReady"]), (&json!(100), &json!(2)));
    assert_eq!(
        (&status["canary"]["canary"]["share"], &status["canary"]["canary"]["errorRate"]),
        (&json!(10.0), &json!(2.0))
    );
    trial.after(60 * MINUTE);
    assert_eq!(trial.weight(), 10, "nothing happens by itself");
    assert_eq!(trial.progressing(), ("True".into(), "Holding".into()));

    trial.pack.spec.rollout.canary.as_mut().unwrap().weight = 40;
    trial.decide();
    assert_eq!(trial.weight(), 40);
    assert_eq!(trial.status()["canary"]["canary"]["requests"], 0, "the numbers begin again");

    trial.pack.spec.rollout.canary.as_mut().unwrap().weight = 100;
    trial.decide();
    assert_eq!(
        (trial.weight(), &trial.status()["phase"]),
        (json!(100), &json!("Canary")),
        "the old one's last requests"
    );
    trial.measured(1, 0, 1);
    let status = trial.status();
    assert_eq!((&status["phase"], &status["activeVersion"]), (&json!("Active"), &json!("1.1.0")));
    assert_eq!((&status["canaryVersion"], &status["canary"]), (&Value::Null, &Value::Null));
    assert_eq!(trial.progressing(), ("True".into(), "Promoted".into()));
}

#[test]
fn promote_names_a_version_and_leaves_the_weight_for_the_next() {
    let mut trial = Trial::new("weight: 10", 1);
    trial.pack.spec.rollout.canary.as_mut().unwrap().promote = Some("v1.1.0".into());
    trial.decide();
    assert_eq!((trial.weight(), trial.progressing().1), (json!(100), "Promoting".into()));
    trial.measured(0, 0, 0);
    assert_eq!(trial.status()["activeVersion"], "1.1.0");
    trial.pack.spec.version = "1.2.0".into();
    trial.text = content("1.2.0", "newer");
    trial.decide();
    assert_eq!((trial.weight(), &trial.status()["canaryVersion"]), (json!(10), &json!("1.2.0")));
}

#[test]
fn an_aborted_version_is_not_tried_again_while_it_is_named() {
    let mut trial = Trial::new("weight: 10", 1);
    trial.measured(1, 0, 1);
    trial.pack.spec.rollout.canary.as_mut().unwrap().abort = Some("1.1.0".into());
    trial.decide();
    let status = trial.status();
    assert_eq!((&status["phase"], &status["activeVersion"]), (&json!("Active"), &json!("1.0.0")));
    assert_eq!((&status["canary"], &status["rejected"]["reason"]), (&Value::Null, &json!("Aborted")));
    trial.after(MINUTE);
    assert!(trial.decision.steps.is_empty(), "it is said once");
    trial.pack.spec.rollout.canary.as_mut().unwrap().abort = None;
    trial.decide();
    assert_eq!((&trial.status()["phase"], trial.weight()), (&json!("Canary"), json!(10)));
}

#[test]
fn the_old_content_again_ends_the_canary() {
    let mut trial = Trial::new("weight: 10", 1);
    trial.pack.spec.version = "1.0.0".into();
    trial.text = content("1.0.0", "old");
    trial.decide();
    let status = trial.status();
    assert_eq!(
        (&status["phase"], &status["canary"], &status["activeVersion"]),
        (&json!("Active"), &Value::Null, &json!("1.0.0"))
    );
}

#[test]
fn without_agents_there_is_nobody_to_try_it_on() {
    let trial = Trial::new("weight: 10", 0);
    assert_eq!((&trial.status()["phase"], &trial.status()["activeVersion"]), (&json!("Active"), &json!("1.1.0")));
}

#[test]
fn steps_come_with_time_alone_when_nothing_is_analysed() {
    let mut trial = Trial::new("{ weight: 20, stepWeight: 40, interval: 2m }", 1);
    trial.after(60 * MINUTE);
    assert_eq!(trial.weight(), 20, "the time begins when the agents have the share");
    trial.measured(0, 0, 0);
    assert_eq!(trial.decision.look_again, Some(trial.now + 2 * MINUTE));
    trial.after(2 * MINUTE);
    assert_eq!(trial.weight(), 60);
    trial.measured(0, 0, 0);
    trial.after(2 * MINUTE);
    assert_eq!((trial.weight(), trial.progressing().1), (json!(100), "Promoting".into()));
}

const ANALYSED: &str = "{ weight: 10, interval: 1m, analysis: { minRequests: 50, maxErrorRate: 5, maxLatency: 500ms, consecutiveFailures: 2 } }";

#[rstest]
#[case::errors(100, 6, 40)]
#[case::latency(100, 0, 1000)]
fn steps_that_do_not_hold_end_a_canary(#[case] requests: i64, #[case] errors: i64, #[case] p95: i64) {
    let mut trial = Trial::new(ANALYSED, 1);
    trial.measured(requests, errors, p95);
    trial.after(MINUTE);
    assert_eq!((trial.weight(), trial.progressing()), (json!(10), ("False".into(), "StepFailed".into())));
    trial.measured(100, 0, 40);
    trial.after(MINUTE);
    assert_eq!(
        (trial.weight(), &trial.status()["canary"]["failures"]),
        (json!(20), &json!(0)),
        "failures in a row count"
    );
    for _ in 0..2 {
        trial.measured(requests, errors, p95);
        trial.after(MINUTE);
    }
    let status = trial.status();
    assert_eq!((&status["phase"], &status["activeVersion"]), (&json!("Failed"), &json!("1.0.0")));
    assert_eq!(trial.progressing(), ("False".into(), "AnalysisFailed".into()));
    trial.after(60 * MINUTE);
    assert_eq!(trial.status()["rejected"]["reason"], "AnalysisFailed", "it is not tried again by itself");
}

#[test]
fn too_few_requests_pause_a_canary_and_never_promote_it() {
    let mut trial = Trial::new(&ANALYSED.replace("weight: 10", "weight: 95"), 1);
    trial.measured(49, 0, 1);
    trial.after(600 * MINUTE);
    assert_eq!((trial.weight(), trial.progressing()), (json!(95), ("Unknown".into(), "Inconclusive".into())));
    assert_eq!(trial.status()["canary"]["verdict"], "Inconclusive");
    trial.measured(50, 0, 1);
    assert_eq!((trial.weight(), trial.progressing().1), (json!(100), "Promoting".into()), "now they are enough");
}

#[rstest]
#[case::inconclusive(true)]
#[case::not_ready(false)]
fn a_canary_without_progress_is_given_up_at_its_deadline(#[case] ready: bool) {
    let mut trial = Trial::new(&ANALYSED.replace("interval: 1m", "interval: 1m, progressDeadline: 30m"), 1);
    if ready {
        trial.measured(1, 0, 1);
    }
    assert!(trial.decision.look_again.is_some(), "nobody else would wake it");
    trial.after(29 * MINUTE);
    assert_eq!(trial.status()["phase"], "Canary");
    trial.after(MINUTE);
    assert_eq!(
        (&trial.status()["phase"], trial.progressing().1),
        (&json!("Failed"), "ProgressDeadlineExceeded".into())
    );
}

#[test]
fn agents_that_name_a_version_or_do_not_run_are_not_waited_for() {
    let mut trial = Trial::new("weight: 100", 3);
    trial.agents[0].spec.prompt_pack_ref.version = Some("1.0.0".into());
    trial.agents[1].spec.runtime = Some(yaml("replicas: 0"));
    trial.agents[2].status = Some(yaml("phase: Failed"));
    trial.decide();
    assert_eq!(trial.status()["activeVersion"], "1.1.0");
}
