//! What is decided about Tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kubeopencode::account::{Report, summarise};
use api::kubeopencode::{Agent, AgentTemplate, Task};
use engine::Decision;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use orrery_controllers::kubeopencode::host::{Host, ObservedAgent, Template};
use orrery_controllers::kubeopencode::task::{Observed, Policy, Present, decide};
use orrery_controllers::pod::{Linked, Tools};
use serde_json::{Value, json};

use crate::support::{at, condition, container, env, object, status, steps, yaml};

const TEMPLATE: &str = r#"
metadata: { name: dev, namespace: ns, uid: t-uid }
spec:
  workspaceDir: /workspace
  serviceAccountName: sa
  command: ["sh", "-c", "cat $WORKSPACE_DIR/task.md"]
"#;

const TASK: &str = r#"
metadata: { name: hello, namespace: ns, uid: 12345678-9, generation: 1, resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z" }
spec:
  templateRef: { name: dev }
  description: Say hello.
"#;

fn present(task: &str, host: Host) -> Present {
    Present { task: Arc::new(yaml(task)), host, cluster: None, config_maps: BTreeMap::new(), pod: None, session: None }
}

fn template(text: &str) -> Host {
    Host::Template(Arc::new(yaml::<AgentTemplate>(text)))
}

fn agent(text: &str) -> Host {
    Host::Agent(ObservedAgent { agent: Arc::new(yaml::<Agent>(text)), template: Template::None })
}

fn decided(present: Present, now: &str) -> Decision {
    decide(&Observed::Task(Box::new(present)), &Policy::default(), at(now))
}

fn running(task: &str) -> Task {
    let mut task: Task = yaml(task);
    task.status = Some(
        serde_json::from_value(json!({
            "phase": "Running", "podName": "hello-pod", "startTime": "2026-01-01T00:00:01Z",
            "observedGeneration": 1, "conditions": [],
        }))
        .unwrap(),
    );
    task
}

fn pod(status: Value, deleted: Option<&str>) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": { "name": "hello-pod", "namespace": "ns", "uid": "p", "resourceVersion": "9",
            "creationTimestamp": "2026-01-01T00:00:01Z",
            "finalizers": ["kubeopencode.io/tracking"],
            "ownerReferences": [{ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "name": "hello", "uid": "12345678-9" }] },
        "status": status,
    });
    if let Some(deleted) = deleted {
        pod["metadata"]["deletionTimestamp"] = json!(deleted);
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

#[test]
fn a_template_task_is_recorded_and_then_gets_its_pod() {
    let decision = decided(present(TASK, template(TEMPLATE)), "2026-01-01T00:00:01Z");
    assert_eq!(steps(&decision), ["patch status Task hello", "create ConfigMap hello-context", "create Pod hello-pod"]);
    let written = status(&decision);
    assert_eq!((&written["phase"], &written["podName"]), (&json!("Running"), &json!("hello-pod")));
    assert_eq!(object(&decision, "ConfigMap")["data"], json!({ "workspace-task.md": "Say hello." }));
    let pod = object(&decision, "Pod");
    assert_eq!(pod["metadata"]["finalizers"], json!(["kubeopencode.io/tracking"]));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "12345678-9");
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    let agent = container(&pod["spec"], "agent");
    assert_eq!(agent["image"], "quay.io/kubeopencode/kubeopencode-agent-devbox:latest");
    assert_eq!(agent["command"], json!(["sh", "-c", "cat $WORKSPACE_DIR/task.md"]));
    assert_eq!(agent["workingDir"], "/workspace");
    let names: Vec<String> = env(&agent).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["HOME", "SHELL", "PATH", "TASK_NAME", "TASK_NAMESPACE", "WORKSPACE_DIR", "OPENCODE_PERMISSION"]);
    assert_eq!(agent["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    let mappings = env(&container(&pod["spec"], "context-init")).into_iter().find(|(name, _)| name == "FILE_MAPPINGS");
    assert_eq!(mappings.unwrap().1, r#"[{"key":"workspace-task.md","targetPath":"/workspace/task.md"}]"#);
}

#[test]
fn the_same_task_makes_the_same_pod_every_time() {
    let make = || object(&decided(present(TASK, template(TEMPLATE)), "2026-01-01T00:00:01Z"), "Pod").to_string();
    assert_eq!(make(), make());
}

#[test]
fn any_workspace_works_task_md_included() {
    let host = template(&TEMPLATE.replace("/workspace", "/srv/work"));
    let pod = object(&decided(present(TASK, host), "2026-01-01T00:00:01Z"), "Pod");
    let mappings = env(&container(&pod["spec"], "context-init")).into_iter().find(|(name, _)| name == "FILE_MAPPINGS");
    assert!(mappings.unwrap().1.contains("/srv/work/task.md"));
}

#[test]
fn credentials_certificates_and_proxies_reach_the_agent() {
    let host = template(
        r#"
metadata: { name: dev, namespace: ns }
spec:
  workspaceDir: /workspace
  serviceAccountName: sa
  credentials:
  - name: api-keys
    secretRef: { name: api-credentials }
  - name: github-token
    secretRef: { name: github-creds, key: token }
    env: GITHUB_TOKEN
  - name: ssh-key
    secretRef: { name: ssh-keys, key: id_rsa }
    mountPath: /home/agent/.ssh/id_rsa
    fileMode: 0400
  - name: certs
    secretRef: { name: certs }
    mountPath: /certs
  caBundle: { configMapRef: { name: corp } }
  proxy: { httpsProxy: "http://proxy:3128", noProxy: "intranet" }
  podSpec:
    extraEnv: [{ name: LAST, value: "1" }]
    labels: { network-policy: restricted, kubeopencode.io/task: forged }
"#,
    );
    let pod = object(&decided(present(TASK, host), "2026-01-01T00:00:01Z"), "Pod");
    let agent = container(&pod["spec"], "agent");
    assert_eq!(agent["envFrom"], json!([{ "secretRef": { "name": "api-credentials" } }]));
    let variables: BTreeMap<String, String> = env(&agent).into_iter().collect();
    assert_eq!(variables["GITHUB_TOKEN"], "<from>");
    assert_eq!(variables["NODE_EXTRA_CA_CERTS"], "/etc/ssl/certs/custom-ca/tls.crt");
    assert_eq!(variables["SSL_CERT_FILE"], "/tools/ca-bundle.crt");
    assert_eq!(variables["no_proxy"], "intranet,.svc,.cluster.local");
    assert_eq!(env(&agent).last().unwrap().0, "LAST", "the user's additions win");
    let volume = |name: &str| pod["spec"]["volumes"].as_array().unwrap().iter().find(|v| v["name"] == name).cloned();
    let key = volume("credential-2").unwrap();
    assert_eq!(key["secret"]["items"], json!([{ "key": "id_rsa", "path": "secret-file", "mode": 0o400 }]));
    assert_eq!(volume("credential-3").unwrap()["secret"]["defaultMode"], 0o600);
    assert_eq!(
        volume("ca-bundle").unwrap()["configMap"]["items"],
        json!([{ "key": "ca-bundle.crt", "path": "tls.crt" }])
    );
    assert_eq!(pod["metadata"]["labels"]["network-policy"], "restricted");
    assert_eq!(pod["metadata"]["labels"]["kubeopencode.io/task"], "hello", "ours cannot be forged");
    for init in pod["spec"]["initContainers"].as_array().unwrap() {
        assert_eq!(init["securityContext"]["allowPrivilegeEscalation"], false, "{}", init["name"]);
    }
}

#[test]
fn contexts_become_init_containers_and_mounts() {
    let task = r#"
metadata: { name: hello, namespace: ns, uid: 12345678-9, creationTimestamp: "2026-01-01T00:00:00Z" }
spec:
  templateRef: { name: dev }
  description: x
  contexts:
  - { type: Git, mountPath: repo, git: { repository: "https://example.org/r.git", ref: main, path: guides/, depth: 0, recurseSubmodules: true, secretRef: { name: git } } }
  - { type: URL, mountPath: docs/spec.json, fileMode: 0440, url: { source: "https://example.org/s" } }
  - { type: URL, mountPath: /opt/spec.json, optional: true, url: { source: "https://example.org/s" } }
  - { type: ConfigMap, mountPath: /etc/guides, configMap: { name: guides } }
  - { type: Text, mountPath: /etc/motd, text: hi }
"#;
    let mut present = present(task, template(TEMPLATE));
    present.config_maps.insert("guides".into(), ConfigMap::default());
    let pod = object(&decided(present, "2026-01-01T00:00:01Z"), "Pod");
    let inits: Vec<&str> =
        pod["spec"]["initContainers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(inits, ["opencode-init", "git-init-0", "context-init", "url-fetch-0", "url-fetch-1"]);
    let git: BTreeMap<String, String> = env(&container(&pod["spec"], "git-init-0")).into_iter().collect();
    assert_eq!((git["GIT_REF"].as_str(), git["GIT_DEPTH"].as_str()), ("main", "0"));
    assert_eq!(git["GIT_RECURSE_SUBMODULES"], "true");
    assert_eq!(git["GIT_PASSWORD"], "<from>");
    let mounts = container(&pod["spec"], "agent")["volumeMounts"].clone();
    let at_path = |path: &str| mounts.as_array().unwrap().iter().find(|m| m["mountPath"] == path).cloned().unwrap();
    assert_eq!(at_path("/workspace/repo")["subPath"], "repo/guides");
    assert_eq!(at_path("/opt/spec.json")["subPath"], "content");
    assert_eq!(at_path("/etc/motd")["subPath"], "etc-motd");
    assert_eq!(at_path("/etc/guides")["name"], "dir-mount-0");
    let inside: BTreeMap<String, String> = env(&container(&pod["spec"], "url-fetch-0")).into_iter().collect();
    assert_eq!((inside["URL_TARGET"].as_str(), inside["URL_FILE_MODE"].as_str()), ("/workspace/docs/spec.json", "440"));
}

#[test]
fn a_missing_template_is_waited_for_and_then_fails() {
    let missing = || present(TASK, Host::Missing("AgentTemplate dev".into()));
    let soon = decided(missing(), "2026-01-01T00:00:01Z");
    assert_eq!(status(&soon)["phase"], "Pending");
    assert_eq!(condition(&status(&soon), "Ready"), ("False".into(), "AgentError".into()));
    let late = decided(missing(), "2026-01-01T00:00:30Z");
    assert_eq!(status(&late)["phase"], "Failed");
    assert_eq!(condition(&status(&late), "Failed").1, "AgentError");
}

#[test]
fn the_end_is_recorded_before_the_pod_is_let_go() {
    for (phase, expected) in [("Succeeded", "Completed"), ("Failed", "Failed")] {
        let mut present = present(TASK, template(TEMPLATE));
        present.task = Arc::new(running(TASK));
        present.pod = Some(pod(json!({ "phase": phase }), None));
        let decision = decided(present, "2026-01-01T00:01:00Z");
        assert_eq!(steps(&decision), ["patch status Task hello", "patch object Pod hello-pod"]);
        assert_eq!(status(&decision)["phase"], expected);
        assert_eq!(status(&decision)["completionTime"], "2026-01-01T00:01:00Z");
    }
}

#[test]
fn stopping_deletes_the_pod_and_waits_for_its_end() {
    let mut task = running(TASK);
    task.metadata.annotations = Some(BTreeMap::from([("kubeopencode.io/stop".into(), "true".into())]));
    let with = |pod: Arc<Pod>| {
        let mut present = present(TASK, template(TEMPLATE));
        present.task = Arc::new(task.clone());
        present.pod = Some(pod);
        decided(present, "2026-01-01T00:01:00Z")
    };
    assert_eq!(steps(&with(pod(json!({ "phase": "Running" }), None))), ["delete Pod hello-pod"]);
    assert_eq!(steps(&with(pod(json!({ "phase": "Running" }), Some("2026-01-01T00:01:30Z")))), Vec::<String>::new());
    let ended = with(pod(json!({ "phase": "Failed" }), Some("2026-01-01T00:01:30Z")));
    assert_eq!(status(&ended)["phase"], "Completed");
    assert_eq!(condition(&status(&ended), "Stopped"), ("True".into(), "UserStopped".into()));
}

#[test]
fn a_timeout_stops_it_too() {
    let mut task = running(TASK);
    task.spec.timeout = Some(api::duration::Duration("1m".into()));
    let with = |pod: Arc<Pod>, now: &str| {
        let mut present = present(TASK, template(TEMPLATE));
        present.task = Arc::new(task.clone());
        present.pod = Some(pod);
        decided(present, now)
    };
    let before = with(pod(json!({ "phase": "Running" }), None), "2026-01-01T00:01:00Z");
    assert_eq!((steps(&before), before.look_again), (vec![], Some(at("2026-01-01T00:01:01Z"))));
    let after = with(pod(json!({ "phase": "Running" }), None), "2026-01-01T00:01:01Z");
    assert_eq!(steps(&after), ["delete Pod hello-pod"]);
    let ended = with(pod(json!({ "phase": "Failed" }), Some("2026-01-01T00:01:02Z")), "2026-01-01T00:01:03Z");
    assert_eq!(condition(&status(&ended), "Stopped").1, "Timeout");
}

#[test]
fn a_pod_that_someone_deletes_is_lost() {
    let mut present = present(TASK, template(TEMPLATE));
    present.task = Arc::new(running(TASK));
    present.pod = Some(pod(json!({ "phase": "Running" }), Some("2026-01-01T00:00:30Z")));
    let decision = decided(present, "2026-01-01T00:01:00Z");
    assert_eq!(status(&decision)["phase"], "Failed");
    assert_eq!(condition(&status(&decision), "Failed").1, "PodLost");
    assert_eq!(steps(&decision).len(), 2, "and its Pod is let go");
}

#[test]
fn an_image_that_cannot_be_pulled_is_said_at_once_and_fails_in_the_end() {
    let stuck = json!({ "phase": "Pending", "containerStatuses": [{ "name": "agent", "image": "", "imageID": "",
        "ready": false, "restartCount": 0, "state": { "waiting": { "reason": "ErrImagePull", "message": "no such image" } } }] });
    let mut first = present(TASK, template(TEMPLATE));
    first.task = Arc::new(running(TASK));
    first.pod = Some(pod(stuck, None));
    let mut second = first.clone();
    let decision = decided(first, "2026-01-01T00:01:00Z");
    assert_eq!(condition(&status(&decision), "Ready"), ("False".into(), "ErrImagePull".into()));
    assert_eq!(decision.look_again, Some(at("2026-01-01T00:06:00Z")));
    let mut task = running(TASK);
    task.status.as_mut().unwrap().conditions = serde_json::from_value(status(&decision)["conditions"].clone()).unwrap();
    second.task = Arc::new(task);
    let late = decided(second, "2026-01-01T00:06:00Z");
    assert_eq!(status(&late)["phase"], "Failed");
    assert_eq!(steps(&late), ["patch status Task hello", "delete Pod hello-pod"]);
}

const AGENT: &str = r"
metadata: { name: a, namespace: ns, uid: a-uid }
spec: { serviceAccountName: sa, maxConcurrentTasks: 1 }
status: { ready: true }
";

fn agent_task() -> String {
    TASK.replace("templateRef: { name: dev }", "agentRef: { name: a }")
}

#[test]
fn a_task_waits_until_its_agent_is_ready_and_the_queue_lets_it_in() {
    let queued = |agent_text: &str| {
        let decision = decided(present(&agent_task(), agent(agent_text)), "2026-01-01T00:00:01Z");
        assert_eq!(status(&decision)["phase"], "Queued");
        condition(&status(&decision), "Queued").1
    };
    assert_eq!(queued(&AGENT.replace("ready: true", "ready: false")), "AgentServerNotReady");
    assert_eq!(queued(&AGENT.replace("maxConcurrentTasks: 1", "suspend: true")), "AgentSuspended");
    assert_eq!(
        queued(&AGENT.replace("ready: true", "ready: true, activeTasks: [{ name: o, uid: o }]")),
        "AgentAtCapacity"
    );
    let full = AGENT.replace("maxConcurrentTasks: 1", "quota: { maxTaskStarts: 1, windowSeconds: 60 }");
    assert_eq!(queued(&full), "QuotaExceeded");
    let admitted = AGENT.replace("ready: true", "ready: true, activeTasks: [{ name: hello, uid: 12345678-9 }]");
    let decision = decided(present(&agent_task(), agent(&admitted)), "2026-01-01T00:00:01Z");
    let command = container(&object(&decision, "Pod")["spec"], "agent")["command"][2].clone();
    let command = command.as_str().unwrap();
    assert!(
        command.contains("run --attach 'http://a.ns.svc.cluster.local:4096' --title 'kubeopencode/ns/hello/345678-9'")
    );
    assert_eq!(
        container(&object(&decision, "Pod")["spec"], "agent")["image"],
        "quay.io/kubeopencode/kubeopencode-agent-attach:latest"
    );
}

const ADMITTED: &str = r"
metadata: { name: a, namespace: ns, uid: a-uid }
spec: { serviceAccountName: sa, contexts: [{ type: Text, text: of the agent }] }
status: { ready: true }
";

#[test]
fn what_a_task_brings_is_sent_to_the_server_and_named_in_its_request() {
    let contexts = "\n  contexts: [{ type: Text, name: rules, text: be brief }, { type: Text, mountPath: guide.md, text: how to }, { type: Git, optional: true, mountPath: /srv/repo, git: { repository: 'https://example.org/r' } }]";
    let task = format!("{}{contexts}", agent_task());
    let mut policy = Policy::default();
    policy.system.tools = Tools::Linked;
    let observed = Observed::Task(Box::new(present(&task, agent(ADMITTED))));
    let decision = decide(&observed, &policy, at("2026-01-01T00:00:01Z"));
    let data = object(&decision, "ConfigMap")["data"].clone();
    let prompt = data["workspace-.kubeopencode-prompt.md"].as_str().unwrap().to_owned();
    let guide = "/workspace/.kubeopencode/tasks/hello-345678-9/guide.md";
    assert!(prompt.contains("be brief") && prompt.contains(&format!("- {guide}\n- /srv/repo")), "{prompt}");
    assert!(!prompt.contains("of the agent"), "the server has its own contexts already");
    let agent = container(&object(&decision, "Pod")["spec"], "agent");
    let variable = |wanted: &str| env(&agent).into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    assert_eq!(variable("PROMPT_FILE").as_deref(), Some("/workspace/.kubeopencode/prompt.md"));
    let items: Value = serde_json::from_str(&variable("CONTEXT_ITEMS").unwrap()).unwrap();
    assert_eq!(items, json!([{ "path": guide, "optional": false }, { "path": "/srv/repo", "optional": true }]));
    let url = "http://a.ns.svc.cluster.local:4095/tasks/hello-345678-9";
    assert_eq!(variable("CONTEXT_URL").as_deref(), Some(url));
    assert!(variable("OPENCODE_CONFIG_CONTENT").is_none());
}

#[test]
fn programs_are_linked_where_the_machines_files_are_seen_and_copied_elsewhere() {
    let mut policy = Policy::default();
    policy.system.tools = Tools::Linked;
    policy.system.linked_images = Linked(Arc::new(|image| image.starts_with("quay.io/")));
    let copies = |image: &str| {
        let agent = ADMITTED.replace("sa,", &format!("sa, attachImage: '{image}',"));
        let observed = Observed::Task(Box::new(present(&agent_task(), self::agent(&agent))));
        let pod = object(&decide(&observed, &policy, at("2026-01-01T00:00:01Z")), "Pod");
        env(&container(&pod["spec"], "opencode-init")).contains(&("TOOLS_COPY".to_owned(), "true".to_owned()))
    };
    assert!(!copies("quay.io/kubeopencode/kubeopencode-agent-attach:latest"));
    assert!(copies("registry.example.com/imported:1"));
}

#[test]
fn nothing_is_mounted_over_the_workspace_of_a_server() {
    let contexts = "\n  contexts: [{ type: Git, mountPath: /workspace, git: { repository: 'https://example.org/r' } }]";
    let decision = decided(present(&format!("{}{contexts}", agent_task()), agent(ADMITTED)), "2026-01-01T00:00:01Z");
    assert_eq!(condition(&status(&decision), "Ready").1, "ContextError");
    assert!(status(&decision).to_string().contains("relative mountPath"));
}

#[test]
fn what_cannot_be_brought_to_a_running_agent_is_refused_and_not_lost() {
    let contexts = "\n  contexts: [{ type: Git, mountPath: repo, git: { repository: 'https://example.org/r' } }]";
    let decision = decided(present(&format!("{}{contexts}", agent_task()), agent(ADMITTED)), "2026-01-01T00:00:01Z");
    assert_eq!(status(&decision)["phase"], "Failed");
    assert_eq!(condition(&status(&decision), "Ready").1, "ContextError");
}

#[test]
fn a_session_that_ended_in_an_error_fails_the_task() {
    let failed =
        json!({ "info": { "role": "assistant", "error": { "name": "ProviderModelNotFoundError", "data": {} } } });
    let report: Report = summarise(&json!({ "id": "s", "title": "t" }), &[failed]);
    let mut present = present(&agent_task(), agent(AGENT));
    present.task = Arc::new(running(&agent_task()));
    present.pod = Some(pod(json!({ "phase": "Succeeded" }), None));
    present.session = Some(report);
    let decision = decided(present, "2026-01-01T00:01:00Z");
    assert_eq!(status(&decision)["phase"], "Failed");
    assert_eq!(condition(&status(&decision), "Failed").1, "SessionError");
    assert_eq!(status(&decision)["session"]["id"], "s");
}

#[test]
fn a_pod_whose_task_is_gone_is_let_go() {
    let decision = decide(&Observed::Orphan(pod(json!({}), None)), &Policy::default(), at("2026-01-01T00:00:00Z"));
    assert_eq!(steps(&decision), ["patch object Pod hello-pod"]);
}

#[test]
fn nothing_is_written_twice() {
    let mut present = present(TASK, template(TEMPLATE));
    let mut task = running(TASK);
    task.status.as_mut().unwrap().phase = Some(api::kubeopencode::TaskPhase::Completed);
    present.task = Arc::new(task);
    assert_eq!(steps(&decided(present, "2026-01-01T00:01:00Z")), Vec::<String>::new());
}
