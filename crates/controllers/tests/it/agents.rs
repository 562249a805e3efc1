//! What is decided about Agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kubeopencode::{Agent, AgentTemplate};
use engine::Decision;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use orrery_controllers::kubeopencode::agent::{Observed, decide};
use orrery_controllers::kubeopencode::host::{ObservedAgent, Template};
use orrery_controllers::pod::System;
use serde_json::json;

use crate::support::{at, condition, container, env, object, status, steps, yaml};

const AGENT: &str = r#"
metadata: { name: slack-agent, namespace: platform-agents, uid: a-uid, generation: 3 }
spec:
  profile: "Persistent Slack bot agent for interactive sessions"
  workspaceDir: /workspace
  serviceAccountName: kubeopencode-agent
  port: 4096
  persistence:
    sessions: { size: "2Gi" }
    workspace: { size: "10Gi" }
  podSpec:
    resources: { requests: { memory: "512Mi", cpu: "500m" } }
  maxConcurrentTasks: 10
"#;

fn observed(agent: &str, template: Template) -> Observed {
    Observed {
        host: ObservedAgent { agent: Arc::new(yaml::<Agent>(agent)), template },
        cluster: None,
        config_maps: BTreeMap::new(),
        deployment: None,
        config_map: None,
        claims: Vec::new(),
        pods: Vec::new(),
        unfinished: 0,
        new_token: None,
    }
}

fn decided(observed: &Observed) -> Decision {
    decide(observed, &System::default(), at("2026-01-01T00:00:00Z"))
}

#[test]
fn an_agent_is_a_deployment_a_service_and_its_volumes() {
    let decision = decided(&observed(AGENT, Template::None));
    assert_eq!(
        steps(&decision),
        [
            "create PersistentVolumeClaim slack-agent-server-sessions",
            "create PersistentVolumeClaim slack-agent-server-workspace",
            "apply Deployment slack-agent-server",
            "apply Service slack-agent",
            "patch status Agent slack-agent",
        ]
    );
    let deployment = object(&decision, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate", "a ReadWriteOnce volume never hangs a rollout");
    let pod = &deployment["spec"]["template"]["spec"];
    let server = container(pod, "opencode-server");
    assert!(server["command"][2].as_str().unwrap().contains("/tools/opencode serve --port 4096 --hostname 0.0.0.0"));
    assert_eq!(server["resources"], json!({ "requests": { "memory": "512Mi", "cpu": "500m" } }));
    let variables: BTreeMap<String, String> = env(&server).into_iter().collect();
    assert_eq!(variables["OPENCODE_DB"], "/data/sessions/opencode.db");
    let service = object(&decision, "Service");
    assert_eq!(
        service["spec"]["ports"],
        json!([{ "name": "http", "port": 4096, "targetPort": 4096, "protocol": "TCP" }])
    );
    let written = status(&decision);
    assert_eq!(written["url"], "http://slack-agent.platform-agents.svc.cluster.local:4096");
    assert_eq!(
        (&written["deploymentName"], &written["serviceName"]),
        (&json!("slack-agent-server"), &json!("slack-agent"))
    );
    assert_eq!(condition(&written, "ServerReady"), ("False".into(), "DeploymentNotReady".into()));
}

#[test]
fn a_ready_deployment_makes_a_ready_agent() {
    let mut observed = observed(AGENT, Template::None);
    let ready: Deployment = serde_json::from_value(json!({ "status": { "readyReplicas": 1 } })).unwrap();
    observed.deployment = Some(Arc::new(ready));
    let written = status(&decided(&observed));
    assert_eq!(written["ready"], true);
    assert_eq!(condition(&written, "ServerReady"), ("True".into(), "DeploymentReady".into()));
    assert_eq!(condition(&written, "ServerHealthy"), ("True".into(), "DeploymentHealthy".into()));
}

#[test]
fn suspending_scales_to_nothing() {
    let decision = decided(&observed(&format!("{AGENT}\n  suspend: true\n"), Template::None));
    assert_eq!(object(&decision, "Deployment")["spec"]["replicas"], 0);
    let written = status(&decision);
    assert_eq!(written["suspended"], true);
    assert_eq!(condition(&written, "ServerReady"), ("False".into(), "Suspended".into()));
    assert_eq!(condition(&written, "Suspended"), ("True".into(), "UserRequested".into()));
}

const TEMPLATE: &str = r"
metadata: { name: team, namespace: ns }
spec:
  executorImage: registry.example/devbox:1
  workspaceDir: /team
  serviceAccountName: team-sa
  contexts: [{ name: standards, type: Text, text: Use type hints. }]
  extraPorts: [{ name: web, port: 3000 }]
";

#[test]
fn an_agent_follows_its_template_and_carries_its_label() {
    let agent = "metadata: { name: alice, namespace: ns, uid: u }\nspec: { templateRef: { name: team } }";
    let decision = decided(&observed(agent, Template::Found(Arc::new(yaml::<AgentTemplate>(TEMPLATE)))));
    assert_eq!(steps(&decision)[0], "patch object Agent alice");
    let pod = object(&decision, "Deployment")["spec"]["template"]["spec"].clone();
    assert_eq!(pod["serviceAccountName"], "team-sa");
    assert_eq!(container(&pod, "opencode-server")["image"], "registry.example/devbox:1");
    let ports = object(&decision, "Service")["spec"]["ports"].clone();
    assert_eq!(ports[1]["name"], "web", "inherited ports reach the Service too");
    let text = object(&decision, "ConfigMap")["data"]["team-.kubeopencode-context.md"].clone();
    assert!(text.as_str().unwrap().starts_with("<context name=\"standards\" namespace=\"ns\" type=\"Text\">"));
    let config =
        env(&container(&pod, "opencode-server")).into_iter().find(|(name, _)| name == "OPENCODE_CONFIG_CONTENT");
    assert_eq!(config.unwrap().1, r#"{"instructions":[".kubeopencode/context.md"]}"#);
}

#[test]
fn a_missing_template_is_said_and_what_runs_goes_on() {
    let agent = "metadata: { name: alice, namespace: ns, uid: u }\nspec: { templateRef: { name: team } }";
    let decision = decided(&observed(agent, Template::Missing));
    assert!(!steps(&decision).iter().any(|step| step.contains("Deployment")));
    assert_eq!(condition(&status(&decision), "Ready"), ("False".into(), "Invalid".into()));
}

#[test]
fn changed_files_roll_the_deployment_and_the_same_do_not() {
    let digest = |text: &str| {
        let agent = format!("{AGENT}\n  contexts: [{{ type: Text, text: {text} }}]\n");
        let deployment = object(&decided(&observed(&agent, Template::None)), "Deployment");
        deployment["spec"]["template"]["metadata"]["annotations"]["kubeopencode.io/context-hash"].clone()
    };
    assert_eq!(digest("one"), digest("one"));
    assert_ne!(digest("one"), digest("two"));
}

#[test]
fn files_that_nobody_wants_any_more_are_deleted() {
    let mut observed = observed(AGENT, Template::None);
    observed.config_map =
        Some(Arc::new(yaml::<ConfigMap>("metadata: { name: slack-agent-server-context, namespace: n, uid: c }")));
    assert_eq!(steps(&decided(&observed))[0], "delete ConfigMap slack-agent-server-context");
}
