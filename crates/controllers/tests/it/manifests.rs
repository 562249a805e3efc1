//! Manifests as users write them, against a plane: what is accepted, and what a refusal says.

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use rstest::rstest;
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

#[rstest]
#[case::no_reference("kind: Task\nmetadata: { name: x }\nspec: { description: x }", "agentRef")]
#[case::both(
    "kind: Task\nmetadata: { name: x }\nspec: { agentRef: { name: a }, templateRef: { name: b } }",
    "templateRef"
)]
#[case::a_string("kind: Task\nmetadata: { name: x }\nspec: { agentRef: my-agent }", "spec.agentRef")]
#[case::timeout("kind: Task\nmetadata: { name: x }\nspec: { agentRef: { name: a }, timeout: soon }", "spec.timeout")]
#[case::no_text(
    "kind: Task\nmetadata: { name: x }\nspec: { agentRef: { name: a }, contexts: [{ type: Text }] }",
    "text is required"
)]
#[case::no_git(
    "kind: Task\nmetadata: { name: x }\nspec: { agentRef: { name: a }, contexts: [{ type: Git, mountPath: r }] }",
    "git is required"
)]
#[case::git_nowhere(
    "kind: Task\nmetadata: { name: x }\nspec: { agentRef: { name: a }, contexts: [{ type: Git, git: { repository: 'https://r' } }] }",
    "mountPath"
)]
#[case::url_nowhere(
    "kind: Task\nmetadata: { name: x }\nspec: { agentRef: { name: a }, contexts: [{ type: URL, url: { source: 'https://r' } }] }",
    "mountPath"
)]
#[case::unknown_type(
    "kind: Task\nmetadata: { name: x }\nspec: { agentRef: { name: a }, contexts: [{ type: Telepathy }] }",
    "spec.contexts[0].type"
)]
#[case::no_account("kind: Agent\nmetadata: { name: x }\nspec: { workspaceDir: /w }", "serviceAccountName")]
#[case::relative_workspace(
    "kind: Agent\nmetadata: { name: x }\nspec: { serviceAccountName: s, workspaceDir: w }",
    "spec.workspaceDir"
)]
#[case::port("kind: Agent\nmetadata: { name: x }\nspec: { serviceAccountName: s, port: 70000 }", "spec.port")]
#[case::quota(
    "kind: Agent\nmetadata: { name: x }\nspec: { serviceAccountName: s, quota: { maxTaskStarts: 1, windowSeconds: 5 } }",
    "spec.quota.windowSeconds"
)]
#[case::env_without_key(
    "kind: Agent\nmetadata: { name: x }\nspec: { serviceAccountName: s, credentials: [{ name: c, env: X, secretRef: { name: s } }] }",
    "env needs secretRef.key"
)]
#[case::two_bundles(
    "kind: Agent\nmetadata: { name: x }\nspec: { serviceAccountName: s, caBundle: { configMapRef: { name: a }, secretRef: { name: b } } }",
    "only one of configMapRef and secretRef"
)]
#[case::template_without_account(
    "kind: AgentTemplate\nmetadata: { name: x }\nspec: { workspaceDir: /w }",
    "serviceAccountName"
)]
#[case::config_name("kind: KubeOpenCodeConfig\nmetadata: { name: other }\nspec: {}", "must be cluster")]
#[case::retained(
    "kind: CronTask\nmetadata: { name: x }\nspec: { schedule: '* * * * *', maxRetainedTasks: 0, taskTemplate: { spec: { agentRef: { name: a } } } }",
    "spec.maxRetainedTasks"
)]
#[tokio::test]
async fn a_refusal_names_the_field(#[case] manifest: &str, #[case] expected: &str) {
    let plane = plane().await;
    let refusal = create(&plane, manifest).await.expect_err("this must be refused");
    assert!(refusal.contains(expected), "{refusal}");
}
