#![allow(clippy::needless_pass_by_value, reason = "inline JSON reads better without references")]

use super::*;
use serde_json::{Value, json};

fn pod(spec: Value) -> Arc<Pod> {
    let value = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
    Arc::new(serde_json::from_value(value).expect("a Pod"))
}

fn asking(requests: Value) -> Arc<Pod> {
    pod(json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

fn on_node(node: &str, requests: Value) -> Arc<Pod> {
    pod(json!({"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

fn node(name: &str, spec: Value) -> Arc<Node> {
    let value = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "disk": "ssd", "cores": "8"}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}},
    });
    Arc::new(serde_json::from_value(value).expect("a Node"))
}

fn words(pod: &Pod, nodes: &[Arc<Node>], placed: &[Arc<Pod>]) -> String {
    choose(pod, nodes, placed, &BTreeMap::new()).map_or_else(|unfit| unfit.to_string(), |node| format!("on {node}"))
}

#[test]
fn without_nodes_it_waits() {
    assert_eq!(words(&asking(json!({})), &[], &[]), "no nodes available to schedule pods");
}

#[test]
fn the_emptier_node_is_taken() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    assert_eq!(words(&asking(json!({})), &nodes, &[on_node("a", json!({}))]), "on b");
    assert_eq!(words(&asking(json!({})), &nodes, &[]), "on a");
}

#[test]
fn room_is_counted_in_every_resource_and_in_pods() {
    let nodes = [node("a", json!({}))];
    let asked = asking(json!({"cpu": "1500m", "memory": "900Mi"}));
    assert_eq!(words(&asked, &nodes, &[]), "on a");
    assert_eq!(
        words(&asked, &nodes, &[on_node("a", json!({"cpu": "501m", "memory": "200Mi"}))]),
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No \
         preemption victims found for incoming pod."
    );
    let full: Vec<_> = (0..3).map(|_| on_node("a", json!({}))).collect();
    assert!(words(&asking(json!({})), &nodes, &full).starts_with("0/1 nodes are available: 1 Too many pods."));
    assert!(words(&asking(json!({"gpu": "1"})), &nodes, &[]).contains("1 Insufficient gpu"));
}

#[test]
fn the_hungriest_init_container_counts_with_the_sidecars_before_it() {
    let nodes = [node("a", json!({}))];
    let spec = |init: &str| {
        pod(json!({
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"name": "init", "resources": {"requests": {"cpu": init}}},
            ],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}],
        }))
    };
    assert_eq!(words(&spec("1"), &nodes, &[]), "on a");
    assert!(words(&spec("1001m"), &nodes, &[]).contains("Insufficient cpu"));
}

#[test]
fn selectors_affinity_and_taints_rule_nodes_out() {
    let plain = json!([{"name": "c"}]);
    let nodes =
        [node("a", json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})), node("b", json!({}))];
    let picky = pod(json!({"nodeSelector": {"disk": "tape"}, "containers": plain}));
    assert_eq!(
        words(&picky, &nodes, &[]),
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {k: \
         v}. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    let tolerant = pod(json!({
        "nodeName": "", "nodeSelector": {"kubernetes.io/hostname": "a"}, "containers": plain,
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }));
    assert_eq!(words(&tolerant, &nodes, &[]), "on a");
    let affine = |operator: &str, value: &str| {
        let terms = json!([{"matchExpressions": [{"key": "cores", "operator": operator, "values": [value]}]}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        pod(json!({"affinity": {"nodeAffinity": required}, "containers": plain}))
    };
    assert_eq!(words(&affine("Gt", "4"), &nodes, &[]), "on b");
    assert!(words(&affine("Lt", "4"), &nodes, &[]).contains("affinity/selector"));
}

#[test]
fn a_cordoned_node_takes_nothing_new() {
    let nodes = [node("a", json!({"unschedulable": true}))];
    assert!(words(&asking(json!({})), &nodes, &[]).contains("1 node(s) were unschedulable"));
}

#[test]
fn missing_classes_and_claims_are_named() {
    let nodes = [node("a", json!({}))];
    let classy = pod(json!({"runtimeClassName": "gvisor", "containers": [{"name": "c"}]}));
    assert_eq!(
        words(&classy, &nodes, &[]),
        "0/1 nodes are available: RuntimeClass \"gvisor\" not found. preemption: 0/1 nodes are available: 1 Preemption is \
         not helpful for scheduling."
    );
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let claiming = pod(json!({"containers": [{"name": "c"}], "volumes": volumes}));
    assert_eq!(claims(&claiming).collect::<Vec<_>>(), ["data"]);
    let with = |claim: Option<Value>| {
        let claim = claim.map(|claim| Arc::new(serde_json::from_value(claim).expect("a claim")));
        choose(&claiming, &nodes, &[], &BTreeMap::from([("data".to_owned(), claim)])).map_err(|unfit| unfit.to_string())
    };
    assert!(with(None).is_err_and(|words| words.contains("persistentvolumeclaim \"data\" not found")));
    assert!(
        with(Some(json!({"status": {"phase": "Pending"}}))).is_err_and(|words| words.contains("unbound immediate"))
    );
    assert_eq!(with(Some(json!({"status": {"phase": "Bound"}}))), Ok("a".to_owned()));
}
