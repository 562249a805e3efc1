//! Rollouts played through in memory: the decisions are carried out on plain objects, ReplicaSets obey at once.

use super::*;
use engine::Step;
use jiff::SignedDuration;
use serde_json::{Value, json};

/// A Deployment with its ReplicaSets as JSON, and the time.
struct World {
    deployment: Value,
    sets: Vec<Value>,
    made: usize,
    now: Timestamp,
    events: Vec<String>,
    /// Images whose Pods never become ready.
    broken: &'static str,
}

impl World {
    fn new(spec: &Value) -> Self {
        let mut deployment = json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "d", "generation": 1, "resourceVersion": "1"},
            "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "progressDeadlineSeconds": 60,
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}}},
        });
        merge(&mut deployment["spec"], spec);
        let now = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
        Self { deployment, sets: Vec::new(), made: 0, now, events: Vec::new(), broken: "broken" }
    }

    fn image(&mut self, image: &str) {
        self.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    }

    fn observed(&self) -> Observed {
        let deployment: Arc<Deployment> =
            Arc::new(serde_json::from_value(self.deployment.clone()).expect("a Deployment"));
        let sets =
            self.sets.iter().map(|set| Arc::new(serde_json::from_value(set.clone()).expect("a ReplicaSet"))).collect();
        let running = self
            .sets
            .iter()
            .filter(|set| set["status"]["replicas"].as_i64() > Some(0))
            .map(|set| set["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
            .collect();
        let selector = &deployment.spec.as_ref().expect("a spec").selector.clone();
        Observed { sets: Claim::new(&*deployment, selector, sets), deployment, running }
    }

    /// One decision, carried out; `false` when there was nothing to do.
    fn step(&mut self) -> bool {
        let decision = Deployments.decide(&self.observed(), self.now);
        self.events.extend(decision.events.iter().map(|event| event.note.clone()));
        let busy = !decision.steps.is_empty();
        for step in decision.steps {
            match step {
                Step::Create(object) => {
                    let mut set = object.value;
                    self.made += 1;
                    set["metadata"]["uid"] = json!(format!("set-{}", self.made));
                    set["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                    set["metadata"]["generation"] = json!(1);
                    self.sets.push(set);
                }
                Step::Patch(patch) => merge(self.object(&patch.target.uid), &patch.body),
                Step::Delete(deletion) => self.sets.retain(|set| set["metadata"]["uid"] != json!(deletion.target.uid)),
                other => panic!("unexpected: {other:?}"),
            }
        }
        busy
    }

    fn object(&mut self, uid: &str) -> &mut Value {
        if uid == "d" {
            return &mut self.deployment;
        }
        self.sets.iter_mut().find(|set| set["metadata"]["uid"] == json!(uid)).expect("a known ReplicaSet")
    }

    /// The ReplicaSet controller and the Pods: all that is asked for runs, and serves unless it is broken.
    fn obey(&mut self) {
        for set in &mut self.sets {
            let replicas = set["spec"]["replicas"].as_i64().unwrap_or(0);
            let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            let ready = if image == self.broken { 0 } else { replicas };
            set["status"] = json!({"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
                "observedGeneration": 1});
        }
    }

    fn count(&self, field: &str) -> i64 {
        self.sets.iter().map(|set| set["status"][field].as_i64().unwrap_or(0)).sum()
    }

    fn asked(&self) -> i64 {
        self.sets.iter().map(|set| set["spec"]["replicas"].as_i64().unwrap_or(0)).sum()
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            self.obey();
            if !self.step() {
                return;
            }
        }
        panic!("never settles: {:#}", self.deployment);
    }

    fn condition(&self, type_: &str) -> (String, String, String) {
        let list = self.deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = list.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// Revision, image and size of every ReplicaSet.
    fn history(&self) -> Vec<(String, String, i64)> {
        let one = |set: &Value| {
            let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            let revision = set["metadata"]["annotations"][revision::REVISION].as_str().unwrap_or_default();
            (revision.to_owned(), image.to_owned(), set["spec"]["replicas"].as_i64().unwrap_or(0))
        };
        self.sets.iter().map(one).collect()
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().expect("made one above").remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

fn entry(revision: &str, image: &str, size: i64) -> (String, String, i64) {
    (revision.to_owned(), image.to_owned(), size)
}

#[test]
fn a_first_rollout_arrives_and_says_so() {
    let mut world = World::new(&json!({}));
    world.settle();
    assert_eq!(world.history(), [entry("1", "v1", 4)]);
    let name = world.sets[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    assert_eq!(
        world.condition("Progressing"),
        ("True".into(), "NewReplicaSetAvailable".into(), format!("ReplicaSet \"{name}\" has successfully progressed."))
    );
    assert_eq!(world.condition("Available").1, "MinimumReplicasAvailable");
    assert_eq!(world.deployment["metadata"]["annotations"][revision::REVISION], "1");
    assert_eq!(world.events, [format!("Scaled up replica set {name} from 0 to 4")]);
    assert_eq!(
        world.sets[0]["spec"]["selector"]["matchLabels"][template::HASH],
        world.sets[0]["metadata"]["labels"][template::HASH]
    );
}

#[test]
fn no_rollout_ever_exceeds_the_surge_or_falls_below_the_minimum() {
    for replicas in 1..=7 {
        for surge in 0..=3 {
            for unavailable in 0..=3 {
                let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
                let mut world = World::new(
                    &json!({"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}),
                );
                world.settle();
                world.image("v2");
                let most = i64::from(replicas + surge);
                let least = i64::from(replicas - if surge == 0 && unavailable == 0 { 1 } else { unavailable });
                let case = format!("{replicas} replicas, surge {surge}, unavailable {unavailable}");
                for _ in 0..100 {
                    let busy = world.step();
                    assert!(world.asked() <= most, "{case}: {} Pods", world.asked());
                    let serving: i64 = world
                        .sets
                        .iter()
                        .map(|set| {
                            set["status"]["availableReplicas"]
                                .as_i64()
                                .unwrap_or(0)
                                .min(set["spec"]["replicas"].as_i64().unwrap_or(0))
                        })
                        .sum();
                    assert!(serving >= least, "{case}: only {serving} serve");
                    world.obey();
                    if !busy {
                        break;
                    }
                }
                assert_eq!(world.history()[1], entry("2", "v2", i64::from(replicas)), "{case}");
                assert_eq!(world.history()[0].2, 0, "{case}");
            }
        }
    }
}

#[test]
fn a_bad_image_stops_at_the_deadline_with_the_old_pods_serving_and_undo_goes_back() {
    let mut world = World::new(&json!({}));
    world.settle();
    world.image("broken");
    world.settle();
    assert_eq!(world.history(), [entry("1", "v1", 3), entry("2", "broken", 2)]);
    assert_eq!(world.condition("Progressing").1, "ReplicaSetUpdated");
    let due = Deployments.decide(&world.observed(), world.now).look_again.expect("the deadline");
    assert_eq!(due, world.now + SignedDuration::from_secs(61));
    world.now = due;
    world.settle();
    let name = world.sets[1]["metadata"]["name"].as_str().expect("a name").to_owned();
    assert_eq!(
        world.condition("Progressing"),
        (
            "False".into(),
            "ProgressDeadlineExceeded".into(),
            format!("ReplicaSet \"{name}\" has timed out progressing.")
        )
    );
    assert_eq!(world.count("availableReplicas"), 3);
    assert_eq!(world.condition("Available").0, "True", "three of four are within the allowed quarter");

    world.image("v1");
    world.settle();
    assert_eq!(world.history(), [entry("3", "v1", 4), entry("2", "broken", 0)]);
    assert_eq!(world.sets[0]["metadata"]["annotations"][revision::HISTORY], "1");
    assert_eq!(world.condition("Progressing").1, "NewReplicaSetAvailable");
}

#[test]
fn recreate_ends_the_old_before_it_starts_the_new() {
    let mut world = World::new(&json!({"strategy": {"type": "Recreate"}}));
    world.settle();
    world.image("v2");
    assert!(world.step());
    assert_eq!(world.history(), [entry("1", "v1", 0)]);
    world.step();
    assert_eq!(world.sets.len(), 1, "the old Pods still run");
    world.settle();
    assert_eq!(world.history(), [entry("1", "v1", 0), entry("2", "v2", 4)]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new(&json!({}));
    world.settle();
    world.deployment["spec"]["paused"] = json!(true);
    world.image("v2");
    world.deployment["spec"]["replicas"] = json!(6);
    world.settle();
    assert_eq!(world.history(), [entry("1", "v1", 6)]);
    assert_eq!(
        world.condition("Progressing"),
        ("Unknown".into(), "DeploymentPaused".into(), "Deployment is paused".into())
    );
    world.deployment["spec"]["paused"] = json!(false);
    world.settle();
    assert_eq!(world.history(), [entry("1", "v1", 0), entry("2", "v2", 6)]);
}

#[test]
fn scaling_during_a_rollout_is_shared_out() {
    let rolling = json!({"maxSurge": 2, "maxUnavailable": 2});
    let mut world =
        World::new(&json!({"replicas": 10, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}));
    world.settle();
    world.image("broken");
    world.settle();
    assert_eq!(world.history(), [entry("1", "v1", 8), entry("2", "broken", 4)]);
    world.deployment["spec"]["replicas"] = json!(20);
    world.settle();
    let sizes: Vec<i64> = world.history().iter().map(|(_, _, size)| *size).collect();
    assert_eq!(sizes.iter().sum::<i64>(), 22);
    assert!(sizes[0] > 8 && sizes[1] > 4, "both grow: {sizes:?}");
}

#[test]
fn counts_from_before_a_scaling_end_no_pods_that_are_needed_after_it() {
    let rolling = json!({"maxSurge": 3, "maxUnavailable": 2});
    let mut world =
        World::new(&json!({"replicas": 20, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}));
    world.settle();
    world.image("broken");
    world.settle();
    world.deployment["spec"]["replicas"] = json!(6);
    // The ReplicaSets do not get round to counting in between.
    while world.step() {}
    let (_, image, size) = &world.history()[0];
    assert!(image == "v1" && *size >= 4, "four must serve: {:?}", world.history());
}

#[test]
fn history_is_kept_up_to_its_limit() {
    let mut world = World::new(&json!({"revisionHistoryLimit": 2}));
    for version in 1..=5 {
        world.image(&format!("v{version}"));
        world.settle();
    }
    let kept: Vec<String> = world.history().into_iter().map(|(revision, _, _)| revision).collect();
    assert_eq!(kept, ["3", "4", "5"]);
}

#[test]
fn without_a_deadline_nothing_is_said_of_progress() {
    let mut world = World::new(&json!({"progressDeadlineSeconds": i32::MAX}));
    world.settle();
    assert_eq!(world.condition("Progressing").0, "");
}
