//! One test for each thing a manifest can ask of a Pod, beyond running a command.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::plane::{World, container_state, phase};
use crate::support::until;

async fn make<K>(world: &World, object: Value) -> K
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + serde::Serialize
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    world.api::<K>().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// Runs a Pod of one container to its end and returns what it said.
async fn run(world: &World, name: &str, script: &str, more: Value) -> String {
    let mut spec =
        json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "command": ["sh", "-c", script] }] });
    merge(&mut spec, more);
    world.create(name, spec).await;
    let pod = world.over(name).await;
    let log = world.logs(name, "main").await;
    assert_eq!(phase(&pod), "Succeeded", "{log} {:?}", pod.status);
    log
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) if into.len() == from.len() => {
            into.iter_mut().zip(from).for_each(|(into, from)| merge(into, from));
        }
        (into, from) => *into = from,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_is_there_before_the_work_and_goes_after_it() {
    let world = World::new().await;
    let mounts = json!([{ "name": "notes", "mountPath": "/notes" }]);
    let sidecar = "trap 'echo sidecar ended >> /notes/all; exit 0' TERM; echo sidecar >> /notes/all; touch /notes/up; \
                   while :; do sleep 0.05; done";
    world
        .create(
            "helped",
            json!({
                "restartPolicy": "Never",
                "initContainers": [
                    { "name": "first", "command": ["sh", "-c", "echo first >> /notes/all"], "volumeMounts": mounts },
                    { "name": "side", "restartPolicy": "Always", "command": ["sh", "-c", sidecar], "volumeMounts": mounts,
                      "startupProbe": { "exec": { "command": ["test", "-e", "/notes/up"] }, "periodSeconds": 1 } },
                    { "name": "second", "command": ["sh", "-c", "echo second >> /notes/all"], "volumeMounts": mounts },
                ],
                "containers": [{ "name": "main", "command": ["sh", "-c", "echo main >> /notes/all"], "volumeMounts": mounts }],
                "volumes": [{ "name": "notes", "persistentVolumeClaim": { "claimName": "notes" } }],
            }),
        )
        .await;
    // Missing at first: the Pod waits for its claim.
    world.until("helped", |pod| serde_json::to_string(&pod.status).unwrap().contains("FailedMount")).await;
    let claim: PersistentVolumeClaim = make(&world, claim("notes")).await;
    let pod = world.over("helped").await;
    assert_eq!(phase(&pod), "Succeeded");
    let notes = world.data.path().join("claims").join(claim.uid().unwrap()).join("all");
    assert_eq!(std::fs::read_to_string(notes).unwrap(), "first\nsidecar\nsecond\nmain\nsidecar ended\n");
    let sidecar = &pod.status.as_ref().unwrap().init_container_statuses.as_ref().unwrap()[1];
    assert_eq!(sidecar.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 0);
}

fn claim(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_outlives_pods_and_its_directory_goes_with_it() {
    let mut world = World::new().await;
    let volume = json!({
        "containers": [{ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
        "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "kept" } }],
    });
    let first: PersistentVolumeClaim = make(&world, claim("kept")).await;
    let directory = |claim: &PersistentVolumeClaim| world.data.path().join("claims").join(claim.uid().unwrap());
    let place = directory(&first);
    run(&world, "writer", "mkdir -m 700 /data/deep; echo mine > /data/deep/note", volume.clone()).await;
    world.delete("writer").await;
    assert_eq!(run(&world, "reader", "cat /data/deep/note", volume.clone()).await, "mine\n");
    world.delete("reader").await;
    assert!(place.is_dir());
    let api = world.api::<PersistentVolumeClaim>();
    api.delete("kept", &DeleteParams::default()).await.unwrap();
    until(|| !place.exists()).await;
    // A new claim of the old name is empty. One that goes while nobody watches goes at the next start.
    let second: PersistentVolumeClaim = make(&world, claim("kept")).await;
    let place = directory(&second);
    assert_eq!(run(&world, "again", "ls /data", volume).await, "");
    world.delete("again").await;
    world.stop().await;
    api.delete("kept", &DeleteParams::default()).await.unwrap();
    assert!(place.is_dir());
    world.start().await;
    until(|| !place.exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn projected_volumes_bring_everything_together() {
    let world = World::new().await;
    make::<ServiceAccount>(&world, json!({ "metadata": { "name": "default" } })).await;
    make::<ConfigMap>(&world, json!({ "metadata": { "name": "settings" }, "data": { "colour": "red" } })).await;
    make::<Secret>(&world, json!({ "metadata": { "name": "keys" }, "stringData": { "token": "s3cret" } })).await;
    let script = "cat /all/colour /all/deep/key; echo; cat /all/cpu; echo; cut -d. -f1 /all/identity | head -c 3; echo; \
                  stat -L -c %a /all/colour /all/deep/key; cat /part; echo; ls /named; cat /named/$WHO/x";
    let log = run(
        &world,
        "all",
        script,
        json!({
            "containers": [{
                "env": [{ "name": "WHO", "value": "me" }],
                "resources": { "limits": { "cpu": "2" } },
                "volumeMounts": [
                    { "name": "all", "mountPath": "/all" },
                    { "name": "all", "mountPath": "/part", "subPath": "colour" },
                    { "name": "named", "mountPath": "/named/me", "subPathExpr": "of-$(WHO)" },
                ],
            }],
            "initContainers": [{ "name": "fill", "command": ["sh", "-c", "mkdir /named/of-me; echo expanded > /named/of-me/x"],
                                 "volumeMounts": [{ "name": "named", "mountPath": "/named" }] }],
            "volumes": [
                { "name": "named", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
                { "name": "all", "projected": { "defaultMode": 0o440, "sources": [
                    { "configMap": { "name": "settings" } },
                    { "configMap": { "name": "not-there", "optional": true } },
                    { "secret": { "name": "keys", "items": [{ "key": "token", "path": "deep/key", "mode": 0o400 }] } },
                    { "downwardAPI": { "items": [
                        { "path": "cpu", "resourceFieldRef": { "containerName": "main", "resource": "limits.cpu" } } ] } },
                    { "serviceAccountToken": { "path": "identity", "expirationSeconds": 600, "audience": "somebody" } },
                ] } },
            ],
        }),
    )
    .await;
    assert_eq!(log, "reds3cret\n2\neyJ\n440\n400\nred\nme\nexpanded\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_asks_over_https_whoever_signed() {
    let world = World::new().await;
    let script = "cd /tmp; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out c -subj /CN=x -days 1 2>/dev/null; \
                  exec openssl s_server -accept 8443 -key k -cert c -www -quiet";
    let mut spec = json!({ "containers": [{ "name": "main", "command": ["sh", "-c", script] }] });
    spec["containers"][0]["readinessProbe"] =
        json!({ "httpGet": { "scheme": "HTTPS", "port": 8443, "path": "/" }, "periodSeconds": 1, "timeoutSeconds": 5 });
    world.create("secure", spec).await;
    world.until("secure", |pod| phase(pod) == "Running" && container_state(pod, 0)["ready"] == true).await;
    world.delete("secure").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_post_start_hook_ends_its_container() {
    let world = World::new().await;
    let mut spec =
        json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "command": ["sleep", "1000"] }] });
    spec["containers"][0]["lifecycle"] =
        json!({ "postStart": { "exec": { "command": ["sh", "-c", "echo why; exit 3"] } } });
    world.create("hooked", spec).await;
    let pod = world.over("hooked").await;
    assert_eq!(phase(&pod), "Failed");
    let events = world.api::<k8s_openapi::api::core::v1::Event>();
    let mut said = String::new();
    while !said.contains("FailedPostStartHook") {
        said = serde_json::to_string(&events.list(&kube::api::ListParams::default()).await.unwrap()).unwrap();
    }
    assert!(said.contains("exit code 3: why"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileges_are_what_the_context_says() {
    let world = World::new().await;
    let status = "grep -e CapEff -e Seccomp: -e NoNewPrivs /proc/self/status; touch /etc/x /tmp/x && echo written; \
                  touch /usr/bin/x 2>/dev/null && echo breach; echo x > /data/x && echo volume";
    let mounts = json!({
        "containers": [{ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
        "volumes": [{ "name": "data", "emptyDir": {} }],
    });
    let mut bare = mounts.clone();
    merge(
        &mut bare,
        json!({ "containers": [{ "securityContext": {
            "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] },
            "seccompProfile": { "type": "Unconfined" }, "allowPrivilegeEscalation": false,
        } }] }),
    );
    let log = run(&world, "bare", status, bare).await;
    assert!(log.contains("CapEff:\t0000000000000400"), "NET_BIND_SERVICE is bit 10: {log}");
    assert!(log.contains("Seccomp:\t0") && log.contains("NoNewPrivs:\t1") && log.contains("volume"), "{log}");
    let usual = run(&world, "usual", status, mounts.clone()).await;
    assert!(usual.contains("Seccomp:\t2") && usual.contains("written"), "{usual}");
    let mut sealed = mounts;
    merge(&mut sealed, json!({ "containers": [{ "securityContext": { "readOnlyRootFilesystem": true } }] }));
    let log = run(&world, "sealed", status, sealed).await;
    assert!(!log.contains("written") && !log.contains("breach") && log.contains("volume"), "{log}");
    let mut wrong = json!({ "containers": [{ "name": "main", "command": ["true"] }] });
    wrong["containers"][0]["securityContext"] = json!({ "runAsNonRoot": true });
    world.create("wrong", wrong).await;
    let says = |pod: &Pod| serde_json::to_string(&pod.status).unwrap().contains("runAsNonRoot");
    world.until("wrong", says).await;
}

/// A limit is in a control group of the Pod, or the Pod says that it is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_cpu_limit_is_a_quota_or_is_said_to_be_none() {
    let world = World::new().await;
    let mut spec = json!({ "containers": [{ "name": "main", "command": ["sleep", "1000"] }] });
    spec["containers"][0]["resources"] = json!({ "limits": { "cpu": "500m" } });
    let pod = world.create("slow", spec).await;
    let pod_now = world.until("slow", |pod| phase(pod) == "Running").await;
    let quotas: Vec<String> = crate::leak::groups_of(&pod.uid().unwrap())
        .iter()
        .filter_map(|group| {
            let unified = std::fs::read_to_string(group.join("cpu.max"));
            unified.or_else(|_| std::fs::read_to_string(group.join("cpu.cfs_quota_us"))).ok()
        })
        .collect();
    let enforced = quotas.iter().any(|quota| quota.starts_with("50000"));
    let said = serde_json::to_value(&pod_now.status).unwrap()["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .any(|condition| condition["type"] == "LimitsEnforced" && condition["status"] == "False");
    assert!(enforced != said, "enforced: {enforced}, said that not: {said}");
    world.delete("slow").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_directory_was_removed_by_hand_ends_by_itself() {
    let mut world = World::new().await;
    let pod = world.create("lost", json!({ "containers": [{ "name": "main", "command": ["sleep", "1000"] }] })).await;
    world.until("lost", |pod| phase(pod) == "Running").await;
    let directory = world.data.path().join("pods").join(pod.uid().unwrap());
    let shim = crate::support::shim_process(&directory).unwrap();
    // Nobody is there to start it again.
    world.stop().await;
    let mut by_hand = std::process::Command::new("sh");
    by_hand.args(["-c", r#"chmod -R u+rwx "$0" && rm -r "$0""#]).arg(&directory);
    assert!(by_hand.status().unwrap().success());
    until(|| nix::sys::signal::kill(shim, None).is_err()).await;
}

/// As root there are users enough. Somebody else has those of `/etc/subuid`; without any, it is said who can help.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_has_as_many_users_as_this_machine_gives() {
    let world = World::new().await;
    let container = |name: &str, user: u32, script: &str| {
        json!({ "name": name, "command": ["sh", "-c", script], "securityContext": { "runAsUser": user },
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }] })
    };
    world
        .create(
            "two",
            json!({
                "restartPolicy": "Never",
                "securityContext": { "fsGroup": 3000 },
                "initContainers": [container("first", 1000, "touch /data/x; mkdir -m 700 /data/own")],
                "containers": [container("main", 2000, "id -u; id -G; stat -c %u:%g /data/x; ls /data/own 2>/dev/null || echo closed")],
                "volumes": [{ "name": "data", "emptyDir": {} }],
            }),
        )
        .await;
    let many = nix::unistd::geteuid().is_root() || std::env::var_os("ORRERY_TEST_SUBORDINATE").is_some();
    if !many {
        world.until("two", |pod| serde_json::to_string(&pod.status).unwrap().contains("/etc/subuid")).await;
        return;
    }
    world.over("two").await;
    let log = world.logs("two", "main").await;
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0] == "2000" && lines[1].contains("3000") && lines[2] == "1000:3000", "{log}");
    assert!(log.ends_with("closed\n"), "one user's files are not another's: {log}");
    world.delete("two").await;
}

/// A log is turned over at 10 MB: what is shown is the end, without a gap.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_cut_at_its_beginning_only() {
    let world = World::new().await;
    let pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "command": ["seq", "600000"] }] });
    let pod = world.create("long", pod).await;
    world.over("long").await;
    let log = world.logs("long", "main").await;
    let numbers: Vec<u32> = log.lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers[0] > 1, "it was turned over");
    assert_eq!(numbers.last(), Some(&600_000));
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "a gap");
    let kept = std::fs::read_dir(world.data.path().join("pods").join(pod.uid().unwrap()).join("containers/main/0"));
    let logs = kept.unwrap().flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("log")).count();
    assert_eq!(logs, 2, "one older file is kept");
}
