//! The examples of the API's design document, applied as they stand to a real plane: each does what the document says, and
//! those that break its own rules are refused with the field's name.

use serde_json::Value;

use crate::agents::World;

fn example(name: &str) -> String {
    format!("{}/tests/it/seed/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_documents_examples_do_what_it_says() {
    let world = World::start();
    world.kubectl(&["create", "namespace", "engineering"]);
    world.kubectl(&[
        "create",
        "secret",
        "generic",
        "shared-github-creds",
        "-n",
        "engineering",
        "--from-literal=token=t0ken",
    ]);
    for namespace in ["kubeopencode-system", "engineering", "platform-agents"] {
        if namespace != "engineering" {
            world.kubectl(&["create", "namespace", namespace]);
        }
        world.kubectl(&["create", "serviceaccount", "kubeopencode-agent", "-n", namespace]);
    }
    world.kubectl(&["apply", "-f", &example("document.yaml")]);
    let get = |namespace: &str, what: &str| -> Value {
        serde_json::from_str(&world.kubectl(&["get", what, "-n", namespace, "-o", "json"])).unwrap()
    };
    let wait = |namespace: &str, what: &str, condition: &str| {
        world.kubectl(&["wait", "-n", namespace, what, &format!("--for={condition}"), "--timeout=120s"]);
    };

    // 1. A simple task: the Agent serves, its Task attaches to it.
    wait("kubeopencode-system", "agent/default", "condition=ServerReady");
    let agent = get("kubeopencode-system", "agent/default");
    let status = &agent["status"];
    assert_eq!(status["deploymentName"], "default-server");
    assert_eq!(status["serviceName"], "default");
    assert_eq!(status["url"], "http://default.kubeopencode-system.svc.cluster.local:4096");
    assert_eq!((&status["ready"], &status["suspended"]), (&true.into(), &false.into()));
    wait("kubeopencode-system", "task/update-service-a", "jsonpath={.status.podName}=update-service-a-pod");
    wait("kubeopencode-system", "pod/update-service-a-pod", "create");
    let pod = get("kubeopencode-system", "pod/update-service-a-pod");
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["image"], "quay.io/kubeopencode/kubeopencode-agent-attach:latest");
    assert!(
        container["command"][2].as_str().unwrap().contains("run --attach 'http://default.kubeopencode-system"),
        "{container:#}"
    );
    assert_eq!(pod["spec"]["restartPolicy"], "Never");

    // 2. Settings of the whole cluster reach the containers that prepare a Pod.
    let first = &pod["spec"]["initContainers"][0];
    assert_eq!(
        (&first["image"], &first["imagePullPolicy"]),
        (&"quay.io/kubeopencode/kubeopencode:latest".into(), &"Always".into())
    );

    // 3. Persistence: two claims, and a Deployment that never lets two Pods hold them.
    wait("platform-agents", "agent/slack-agent", "condition=ServerReady");
    let sessions = get("platform-agents", "pvc/slack-agent-server-sessions");
    assert_eq!(sessions["spec"]["resources"]["requests"]["storage"], "2Gi");
    let deployment = get("platform-agents", "deploy/slack-agent-server");
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    let resources = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["requests"]["cpu"], "500m");

    // 4. A template: the Agent carries its label and its settings, a Task runs from it alone.
    wait("engineering", "agent/alice-agent", "condition=ServerReady");
    let alice = world.kubectl(&[
        "get",
        "agents",
        "-n",
        "engineering",
        "-l",
        "kubeopencode.io/agent-template=team-python-dev",
        "-o",
        "name",
    ]);
    assert_eq!(alice, "agent.kubeopencode.io/alice-agent\n");
    let server = get("engineering", "deploy/alice-agent-server");
    let env = server["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let token = env.iter().find(|variable| variable["name"] == "GITHUB_TOKEN").expect("the template's credential");
    assert_eq!(token["valueFrom"]["secretKeyRef"]["name"], "shared-github-creds");
    wait("engineering", "task/batch-lint", "jsonpath={.status.podName}=batch-lint-pod");
    let lint = get("engineering", "pod/batch-lint-pod");
    assert_eq!(lint["spec"]["containers"][0]["image"], "quay.io/kubeopencode/kubeopencode-agent-devbox:latest");
    let template = get("engineering", "agenttemplate/team-python-dev");
    assert_eq!(template["status"]["taskStartHistory"][0]["taskName"], "batch-lint", "its quota is kept count of");

    // 5. What the full example names is not there: said, not hidden. With it, the Agent is built as declared.
    wait("kubeopencode-system", "agent/my-agent", "condition=Ready=false");
    let policy =
        ["create", "configmap", "org-security-policy", "-n", "kubeopencode-system", "--from-literal=p.md=be safe"];
    world.kubectl(&policy);
    wait("kubeopencode-system", "agent/my-agent", "condition=Ready");
    let spec = get("kubeopencode-system", "deploy/my-agent-server")["spec"]["template"]["spec"].clone();
    assert_eq!(
        (&spec["runtimeClassName"], &spec["serviceAccountName"]),
        (&"gvisor".into(), &"kubeopencode-agent".into())
    );
    assert_eq!(spec["nodeSelector"]["kubernetes.io/os"], "linux");
    assert_eq!(spec["tolerations"][0]["key"], "dedicated");
    assert_eq!(spec["containers"][0]["envFrom"][0]["secretRef"]["name"], "api-credentials");
    let volumes = spec["volumes"].as_array().unwrap();
    let key = volumes.iter().find(|volume| volume["secret"]["secretName"] == "ssh-keys").unwrap();
    assert_eq!(key["secret"]["items"][0]["mode"], 0o400);
    wait("kubeopencode-system", "task/update-service-b", "jsonpath={.status.phase}=Queued");

    // 6. Limits.
    let limited = get("kubeopencode-system", "agent/rate-limited-agent");
    assert_eq!(limited["spec"]["quota"]["maxTaskStarts"], 10);
    assert_eq!(get("kubeopencode-system", "agent/opencode-agent")["spec"]["maxConcurrentTasks"], 3);
}

#[test]
fn examples_that_break_the_documents_own_rules_are_refused_by_field() {
    let world = World::start();
    world.kubectl(&["create", "namespace", "kubeopencode-system"]);
    let output = world.refused(&["apply", "-f", &example("refused.yaml")]);
    assert!(output.contains("spec.agentRef in body must be of type object"), "{output}");
    assert!(output.contains("set agentRef (run on an Agent) or templateRef"), "{output}");
}
