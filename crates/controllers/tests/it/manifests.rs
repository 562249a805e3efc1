//! Manifests as users write them, against a plane: what is accepted, and what a refusal says.

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use crate::support::yaml;
use testkit::Plane;

use crate::world::plane;

/// The examples of the API's design document.
const AGENT: &str = r#"
kind: Agent
metadata: { name: my-agent }
spec:
  profile: "Full-stack development agent with GitHub and AWS access"
  agentImage: quay.io/kubeopencode/kubeopencode-agent-opencode:latest
  executorImage: quay.io/kubeopencode/kubeopencode-agent-devbox:latest
  workspaceDir: /workspace
  command: ["sh", "-c", "/tools/opencode run --format json \"$(cat /workspace/task.md)\""]
  contexts:
  - type: Text
    text: |
      # Coding Standards
      - Use descriptive variable names
  - type: ConfigMap
    configMap: { name: org-security-policy }
  credentials:
  - { name: api-keys, secretRef: { name: api-credentials } }
  - { name: github-token, secretRef: { name: github-creds, key: token }, env: GITHUB_TOKEN }
  - { name: ssh-key, secretRef: { name: ssh-keys, key: id_rsa }, mountPath: /home/agent/.ssh/id_rsa, fileMode: 0400 }
  podSpec:
    labels: { network-policy: agent-restricted }
    scheduling:
      nodeSelector: { kubernetes.io/os: linux }
      tolerations: [{ key: "dedicated", operator: "Equal", value: "ai-workload", effect: "NoSchedule" }]
    runtimeClassName: gvisor
  maxConcurrentTasks: 3
  serviceAccountName: kubeopencode-agent
"#;

const TASK: &str = r##"
kind: Task
metadata: { name: update-service-a }
spec:
  description: |
    Update dependencies to latest versions.
    Run tests and create PR.
  contexts:
  - type: Text
    mountPath: /workspace/guides/standards.md
    text: "# Coding Standards"
  - type: ConfigMap
    configMap: { name: security-policy }
  agentRef: { name: my-agent }
"##;

const CONFIG: &str = "
kind: KubeOpenCodeConfig
metadata: { name: cluster }
spec:
  systemImage: { image: quay.io/kubeopencode/kubeopencode:latest, imagePullPolicy: Always }
  cleanup: { ttlSecondsAfterFinished: 3600, maxRetainedTasks: 100 }
";

const TEMPLATE: &str = r"
kind: AgentTemplate
metadata: { name: team-python-dev }
spec:
  executorImage: quay.io/kubeopencode/kubeopencode-agent-devbox:latest
  workspaceDir: /workspace
  serviceAccountName: kubeopencode-agent
  contexts: [{ name: coding-standards, type: Text, text: Always follow PEP 8. }]
  credentials: [{ name: github-token, secretRef: { name: shared-github-creds, key: token }, env: GITHUB_TOKEN }]
  maxConcurrentTasks: 3
  quota: { maxTaskStarts: 50, windowSeconds: 3600 }
";

const CRON: &str = "
kind: CronTask
metadata: { name: nightly }
spec:
  schedule: '0 9 * * 1-5'
  timeZone: Europe/Berlin
  taskTemplate: { spec: { templateRef: { name: team-python-dev }, description: x } }
";

async fn create(plane: &Plane, manifest: &str) -> Result<DynamicObject, String> {
    let mut value: Value = yaml(manifest);
    let kind = value["kind"].as_str().unwrap().to_owned();
    value["apiVersion"] = "kubeopencode.io/v1alpha1".into();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kubeopencode.io", "v1alpha1", &kind));
    let api: Api<DynamicObject> = if kind == "KubeOpenCodeConfig" {
        Api::all_with(plane.client(), &resource)
    } else {
        Api::namespaced_with(plane.client(), "default", &resource)
    };
    let created = api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await;
    created.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    })
}

#[tokio::test]
async fn the_documents_examples_are_accepted_and_defaults_filled_in() {
    let plane = plane().await;
    let agent = create(&plane, AGENT).await.unwrap();
    assert_eq!(agent.data["spec"]["port"], 4096);
    assert_eq!(agent.data["spec"]["credentials"][2]["fileMode"], 0o400);
    create(&plane, TASK).await.unwrap();
    create(&plane, CONFIG).await.unwrap();
    create(&plane, TEMPLATE).await.unwrap();
    let cron = create(&plane, CRON).await.unwrap();
    assert_eq!(cron.data["spec"]["concurrencyPolicy"], "Forbid");
    assert_eq!(cron.data["spec"]["maxRetainedTasks"], 10);
}

/// Every rule of the definitions once: a kind, a spec that breaks it, and how the refusal must name the field.
const REFUSED: &[(&str, &str, &str)] = &[
    ("Task", "description: x", "spec.agentRef: Invalid value"),
    ("Task", "agentRef: { name: a }, templateRef: { name: b }", "spec.templateRef: Invalid value"),
    ("Task", "agentRef: my-agent", "spec.agentRef in body must be of type object"),
    ("Task", "agentRef: {}", "spec.agentRef.name: Required"),
    ("Task", "agentRef: { name: '' }", "spec.agentRef.name in body should be at least 1"),
    ("Task", "templateRef: {}", "spec.templateRef.name: Required"),
    ("Task", "templateRef: { name: '' }", "spec.templateRef.name in body should be at least 1"),
    ("Task", "agentRef: { name: a }, timeout: soon", "spec.timeout"),
    ("Task", "agentRef: { name: a }, timeout: LONG", "spec.timeout: Too long"),
    ("Context", "text: x", "spec.contexts[0].type: Required"),
    ("Context", "type: Telepathy", "spec.contexts[0].type: Unsupported value"),
    ("Context", "type: Text", "spec.contexts[0].text: Invalid value"),
    ("Context", "type: ConfigMap", "spec.contexts[0].configMap: Invalid value"),
    ("Context", "type: ConfigMap, configMap: {}", "spec.contexts[0].configMap.name: Required"),
    ("Context", "type: ConfigMap, configMap: { name: m, key: '' }", "spec.contexts[0].configMap.key"),
    ("Context", "type: Git, mountPath: r", "spec.contexts[0].git: Invalid value"),
    ("Context", "type: Git, git: { repository: 'https://r' }", "spec.contexts[0].mountPath: Invalid value"),
    ("Context", "type: Git, mountPath: r, git: {}", "spec.contexts[0].git.repository: Required"),
    ("Context", "type: Git, mountPath: r, git: { repository: '' }", "spec.contexts[0].git.repository"),
    ("Context", "type: Git, mountPath: r, git: { repository: r, depth: -1 }", "spec.contexts[0].git.depth"),
    (
        "Context",
        "type: Git, mountPath: r, git: { repository: r, secretRef: {} }",
        "spec.contexts[0].git.secretRef.name",
    ),
    ("Context", "type: URL, mountPath: r", "spec.contexts[0].url: Invalid value"),
    ("Context", "type: URL, url: { source: 'https://r' }", "spec.contexts[0].mountPath: Invalid value"),
    ("Context", "type: URL, mountPath: r, url: {}", "spec.contexts[0].url.source: Required"),
    ("Context", "type: URL, mountPath: r, url: { source: 'ftp://r' }", "spec.contexts[0].url.source"),
    ("Context", "type: URL, mountPath: r, url: { source: 'http://r', timeout: 0 }", "spec.contexts[0].url.timeout"),
    (
        "Context",
        "type: URL, mountPath: r, url: { source: 'http://r', secretRef: {} }",
        "spec.contexts[0].url.secretRef.name",
    ),
    ("Context", "type: Text, text: x, fileMode: 512", "spec.contexts[0].fileMode"),
    ("Context", "type: Text, text: x, fileMode: -1", "spec.contexts[0].fileMode"),
    ("Context", "type: Text, text: x, mountPath: LONG", "spec.contexts[0].mountPath: Too long"),
    ("Agent", "workspaceDir: /w", "serviceAccountName"),
    ("Agent", "serviceAccountName: ''", "spec.serviceAccountName"),
    ("Agent", "serviceAccountName: s, workspaceDir: w", "spec.workspaceDir"),
    ("Agent", "serviceAccountName: s, port: 0", "spec.port"),
    ("Agent", "serviceAccountName: s, port: 70000", "spec.port"),
    ("Agent", "serviceAccountName: s, extraPorts: [{ name: web }]", "spec.extraPorts[0].port: Required"),
    ("Agent", "serviceAccountName: s, extraPorts: [{ port: 80 }]", "spec.extraPorts[0].name: Required"),
    ("Agent", "serviceAccountName: s, extraPorts: [{ name: Web_1, port: 80 }]", "spec.extraPorts[0].name"),
    (
        "Agent",
        "serviceAccountName: s, extraPorts: [{ name: a-name-that-is-long, port: 80 }]",
        "spec.extraPorts[0].name",
    ),
    ("Agent", "serviceAccountName: s, extraPorts: [{ name: web, port: 0 }]", "spec.extraPorts[0].port"),
    ("Agent", "serviceAccountName: s, extraPorts: [{ name: web, port: 65536 }]", "spec.extraPorts[0].port"),
    (
        "Agent",
        "serviceAccountName: s, extraPorts: [{ name: web, port: 1, protocol: SCTP }]",
        "spec.extraPorts[0].protocol",
    ),
    ("Agent", "serviceAccountName: s, maxConcurrentTasks: -1", "spec.maxConcurrentTasks"),
    ("Agent", "serviceAccountName: s, quota: { windowSeconds: 60 }", "spec.quota.maxTaskStarts: Required"),
    ("Agent", "serviceAccountName: s, quota: { maxTaskStarts: 1 }", "spec.quota.windowSeconds: Required"),
    ("Agent", "serviceAccountName: s, quota: { maxTaskStarts: 0, windowSeconds: 60 }", "spec.quota.maxTaskStarts"),
    ("Agent", "serviceAccountName: s, quota: { maxTaskStarts: 1, windowSeconds: 59 }", "spec.quota.windowSeconds"),
    ("Agent", "serviceAccountName: s, quota: { maxTaskStarts: 1, windowSeconds: 86401 }", "spec.quota.windowSeconds"),
    ("Agent", "serviceAccountName: s, persistence: { sessions: { size: big } }", "spec.persistence.sessions.size"),
    ("Agent", "serviceAccountName: s, persistence: { workspace: { size: big } }", "spec.persistence.workspace.size"),
    ("Agent", "serviceAccountName: s, standby: {}", "spec.standby.idleTimeout: Required"),
    ("Agent", "serviceAccountName: s, standby: { idleTimeout: soon }", "spec.standby.idleTimeout"),
    ("Agent", "templateRef: {}", "spec.templateRef.name: Required"),
    ("Agent", "templateRef: { name: '' }", "spec.templateRef.name"),
    ("Agent", "serviceAccountName: s, caBundle: {}", "spec.caBundle.configMapRef: Invalid value"),
    ("Agent", "serviceAccountName: s, caBundle: { configMapRef: {} }", "spec.caBundle.configMapRef.name: Required"),
    ("Agent", "serviceAccountName: s, caBundle: { secretRef: {} }", "spec.caBundle.secretRef.name: Required"),
    (
        "Agent",
        "serviceAccountName: s, caBundle: { configMapRef: { name: a }, secretRef: { name: b } }",
        "spec.caBundle.secretRef: Invalid value",
    ),
    ("Credential", "secretRef: { name: s }", "spec.credentials[0].name: Required"),
    ("Credential", "name: c", "spec.credentials[0].secretRef: Required"),
    ("Credential", "name: c, secretRef: {}", "spec.credentials[0].secretRef.name: Required"),
    ("Credential", "name: c, env: X, secretRef: { name: s }", "spec.credentials[0].env: Invalid value"),
    ("Credential", "name: c, env: '', secretRef: { name: s, key: k }", "spec.credentials[0].env"),
    ("Credential", "name: c, env: X, secretRef: { name: s, key: '' }", "spec.credentials[0].secretRef.key"),
    ("Credential", "name: c, secretRef: { name: s, key: k }", "spec.credentials[0].secretRef.key"),
    ("Credential", "name: c, mountPath: relative, secretRef: { name: s }", "spec.credentials[0].mountPath"),
    ("Credential", "name: c, mountPath: /m, fileMode: 512, secretRef: { name: s }", "spec.credentials[0].fileMode"),
    ("AgentTemplate", "workspaceDir: /w", "spec.serviceAccountName: Required"),
    ("AgentTemplate", "serviceAccountName: s", "spec.workspaceDir: Required"),
    ("AgentTemplate", "serviceAccountName: s, workspaceDir: w", "spec.workspaceDir"),
    ("CronTask", "taskTemplate: { spec: { agentRef: { name: a } } }", "spec.schedule: Required"),
    ("CronTask", "schedule: '* * * * *'", "spec.taskTemplate: Required"),
    ("CronTask", "schedule: '', taskTemplate: { spec: { agentRef: { name: a } } }", "spec.schedule"),
    ("CronTask", "schedule: '* * * * *', taskTemplate: {}", "spec.taskTemplate.spec: Required"),
    ("CronTask", "schedule: '* * * * *', taskTemplate: { spec: {} }", "spec.taskTemplate.spec.agentRef: Invalid value"),
    ("Schedule", "concurrencyPolicy: Maybe", "spec.concurrencyPolicy: Unsupported value"),
    ("Schedule", "maxRetainedTasks: 0", "spec.maxRetainedTasks"),
    ("Schedule", "startingDeadlineSeconds: -1", "spec.startingDeadlineSeconds"),
    ("KubeOpenCodeConfig", "cleanup: { ttlSecondsAfterFinished: -1 }", "spec.cleanup.ttlSecondsAfterFinished"),
    ("KubeOpenCodeConfig", "cleanup: { maxRetainedTasks: -1 }", "spec.cleanup.maxRetainedTasks"),
    (
        "KubeOpenCodeConfig",
        "systemImage: { imagePullPolicy: Sometimes }",
        "spec.systemImage.imagePullPolicy: Unsupported",
    ),
];

/// The manifest of a refused spec; some kinds above stand for a part of another.
fn manifest(kind: &str, spec: &str) -> String {
    let (kind, spec) = match kind {
        "Context" => ("Task", format!("agentRef: {{ name: a }}, contexts: [{{ {spec} }}]")),
        "Credential" => ("Agent", format!("serviceAccountName: s, credentials: [{{ {spec} }}]")),
        "Schedule" => {
            let task = "taskTemplate: { spec: { agentRef: { name: a } } }";
            ("CronTask", format!("schedule: '* * * * *', {task}, {spec}"))
        }
        kind => (kind, spec.to_owned()),
    };
    let name = if kind == "KubeOpenCodeConfig" { "cluster" } else { "x" };
    format!("kind: {kind}\nmetadata: {{ name: {name} }}\nspec: {{ {} }}", spec.replace("LONG", &"9m".repeat(2100)))
}

#[tokio::test]
async fn every_rule_refuses_with_the_name_of_the_field() {
    let plane = plane().await;
    for (kind, spec, expected) in REFUSED {
        let refusal = create(&plane, &manifest(kind, spec)).await.expect_err(spec);
        assert!(refusal.contains(expected), "{kind} {{ {spec} }}\n{refusal}\nshould name {expected}");
    }
}

#[tokio::test]
async fn names_that_could_not_be_used_are_refused() {
    let plane = plane().await;
    for (kind, spec, most) in [
        ("Task", "agentRef: { name: a }", 63),
        ("Agent", "serviceAccountName: s", 63),
        ("AgentTemplate", "serviceAccountName: s, workspaceDir: /w", 63),
        ("CronTask", "schedule: '* * * * *', taskTemplate: { spec: { agentRef: { name: a } } }", 52),
    ] {
        let named = |name: &str| format!("kind: {kind}\nmetadata: {{ name: {name} }}\nspec: {{ {spec} }}");
        let refusal = create(&plane, &named(&"x".repeat(most + 1))).await.expect_err(kind);
        assert!(refusal.contains(&format!("metadata.name must have at most {most} characters")), "{refusal}");
        create(&plane, &named(&"x".repeat(most))).await.unwrap();
    }
    let other = "kind: KubeOpenCodeConfig\nmetadata: { name: other }\nspec: {}";
    let refusal = create(&plane, other).await.expect_err("there is one");
    assert!(refusal.contains("metadata.name must be cluster"), "{refusal}");
}
