//! Every route does what it says, on any plane.

use api::omnia::{PromptPack, ToolRegistry};
use axum::body::Body;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use orrery_server::{Options, Server};
use serde_json::{Value, json};

use crate::world::{Person, World, keep, template};

pub async fn objects(world: &World) {
    let ada = world.administrator("objects").await;
    let tasks = "/api/v1/namespaces/red/tasks";
    assert_eq!(ada.post("/api/v1/namespaces/red/agenttemplates", &template("shell")).await.code, 201);

    // As fields, as a whole object, and as YAML.
    let flat = json!({"name": "flat", "description": "a", "templateRef": {"name": "shell"}});
    let created = ada.post(tasks, &flat).await;
    assert_eq!((created.code.as_u16(), created.json()["phase"].as_str()), (201, Some("Pending")), "{}", created.text);
    let whole = json!({"metadata": {"name": "whole", "labels": {"team": "a"}}, "spec": {"description": "b", "templateRef": {"name": "shell"}}});
    assert_eq!(ada.post(tasks, &whole).await.code, 201);
    let yaml = "metadata:\n  name: yaml\nspec:\n  description: c\n  templateRef:\n    name: shell\n";
    assert_eq!(ada.send("POST", tasks, &[("content-type", "application/yaml")], yaml).await.code, 201);
    let unnamed = ada.post(tasks, &json!({"description": "d", "templateRef": {"name": "shell"}})).await.json();
    assert!(unnamed["name"].as_str().unwrap().starts_with("task-"));
    let dry = ada
        .post(
            &format!("{tasks}?dryRun=All"),
            &json!({"name": "dry", "description": "e", "templateRef": {"name": "shell"}}),
        )
        .await;
    assert_eq!(dry.code, 201);
    ada.get(&format!("{tasks}/dry")).await.refused(404);

    // Pages, filters, order, selectors.
    let page = ada.get(&format!("{tasks}?limit=3&sortOrder=asc")).await.json();
    assert_eq!(page["pagination"], json!({"limit": 3, "offset": 0, "totalCount": 4, "hasMore": true}));
    assert_eq!(ada.get(&format!("{tasks}?limit=3&offset=3")).await.json()["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(ada.get("/api/v1/tasks?labelSelector=team%3Da").await.json()["tasks"][0]["name"], "whole");
    assert_eq!(ada.get(&format!("{tasks}?name=FLA")).await.json()["total"], 1);
    let list = ada.get(&format!("{tasks}?output=yaml")).await;
    assert_eq!(list.headers["content-type"], "application/yaml");
    let list = ada.get(tasks).await;
    let tag = list.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(ada.send("GET", tasks, &[("if-none-match", &tag)], Body::empty()).await.code, 304);

    // One object: tags, YAML out and in, and somebody else's change is not overwritten.
    let object = format!("{tasks}/flat");
    let first = ada.get(&object).await;
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(ada.send("GET", &object, &[("if-none-match", &tag)], Body::empty()).await.code, 304);
    let text = ada.get(&format!("{object}?output=yaml")).await.text;
    assert!(text.contains("kind: Task") && !text.contains("managedFields"), "{text}");
    let edited = text.replace("spec:", "spec:\n  timeout: 5m");
    let put = async |body: String| ada.send("PUT", &object, &[("content-type", "application/yaml")], body).await;
    assert_eq!(put(edited.clone()).await.json()["timeout"], "5m");
    put(edited).await.refused(409);
    let change = json!({"description": "x", "templateRef": {"name": "shell"}}).to_string();
    ada.send("PUT", &object, &[("if-match", &tag)], change).await.refused(409);
    ada.send("DELETE", &object, &[("if-match", &tag)], Body::empty()).await.refused(409);
    assert_eq!(ada.send("DELETE", &format!("{object}?dryRun=All"), &[], Body::empty()).await.code, 204);
    assert_eq!(ada.send("DELETE", &object, &[], Body::empty()).await.code, 204);
    ada.get(&object).await.refused(404);
    let shell = "/api/v1/namespaces/red/agenttemplates/shell";
    assert_eq!(ada.get(shell).await.json()["workspaceDir"], "/workspace");
    assert_eq!(ada.send("DELETE", shell, &[], Body::empty()).await.code, 204);
    ada.get(shell).await.refused(404);
    assert_eq!(ada.get(&format!("{tasks}/whole/events")).await.json(), json!({"events": []}));
}

pub async fn actions(world: &World) {
    let ada = world.administrator("actions").await;
    let at = |kind: &str| format!("/api/v1/namespaces/blue/{kind}");
    let act = async |path: String| ada.send("POST", &path, &[], Body::empty()).await;
    ada.post(&at("agenttemplates"), &template("shell")).await;
    let agent = json!({"name": "reviewer", "workspaceDir": "/workspace", "serviceAccountName": "default"});
    assert_eq!(ada.post(&at("agents"), &agent).await.code, 201);
    ada.post(&at("tasks"), &json!({"name": "busy", "description": "a", "agentRef": {"name": "reviewer"}})).await;
    status(world, "Task", "tasks", "busy", json!({"phase": "Running", "conditions": []})).await;

    // Not under the feet of a Task, unless forced.
    let why = act(at("agents/reviewer/suspend")).await.refused(409);
    assert!(why.contains("runs 1 Tasks"), "{why}");
    assert_eq!(act(at("agents/reviewer/suspend?force=true")).await.json()["suspend"], true);
    assert_eq!(act(at("agents/reviewer/resume")).await.json()["suspend"], false);

    assert_eq!(act(at("tasks/busy/stop")).await.json()["annotations"]["kubeopencode.io/stop"], "true");
    status(world, "Task", "tasks", "busy", json!({"phase": "Completed", "conditions": []})).await;
    assert!(act(at("tasks/busy/stop")).await.refused(409).contains("has ended already"));

    let task = json!({"spec": {"description": "a", "templateRef": {"name": "shell"}}});
    let cron = json!({"name": "nightly", "schedule": "30 2 * * *", "taskTemplate": task});
    assert_eq!(ada.post(&at("crontasks"), &cron).await.code, 201);
    assert_eq!(act(at("crontasks/nightly/trigger")).await.json()["annotations"]["kubeopencode.io/trigger"], "true");
    assert_eq!(act(at("crontasks/nightly/suspend")).await.json()["suspend"], true);
    assert!(act(at("crontasks/nightly/trigger")).await.refused(409).contains("Resume it first"));
    assert_eq!(ada.get("/api/v1/upcoming?namespace=blue").await.json()["schedules"], json!([]));
    assert_eq!(act(at("crontasks/nightly/resume")).await.json()["suspend"], false);
    let upcoming = ada.get("/api/v1/upcoming?namespace=blue&hours=24").await.json();
    assert_eq!(upcoming["schedules"][0]["runs"].as_array().unwrap().len(), 1, "{upcoming}");
    let run = json!({"metadata": {"name": "nightly-1", "labels": {"kubeopencode.io/crontask": "nightly"}}, "spec": task["spec"]});
    ada.post(&at("tasks"), &run).await;
    let history = ada.get(&at("crontasks/nightly/history")).await.json();
    assert_eq!((history["total"].as_u64(), history["tasks"][0]["name"].as_str()), (Some(1), Some("nightly-1")));
    ada.get(&at("crontasks/nowhere/history")).await.refused(404);
}

/// The kinds of the other dialect are rows of the same table: objects, stream and search know them, and what their pages
/// need is served in the caller's own name.
pub async fn packs(world: &World) {
    let ada = world.administrator("packs").await;
    let at = |kind: &str| format!("/api/v1/namespaces/blue/{kind}");
    let pack = json!({"name": "shop", "version": "1.0.0", "description": "sells", "source": {"type": "configmap", "configMapRef": {"name": "x"}}});
    assert_eq!(ada.post(&at("promptpacks"), &pack).await.code, 201);
    assert_eq!(ada.get("/api/v1/promptpacks").await.json()["promptPacks"][0]["version"], "1.0.0");
    assert_eq!(ada.get("/api/v1/search?q=sells").await.json()["results"][0]["kind"], "PromptPack");

    // A version's content comes from the ConfigMap that the pack names, and from no other.
    assert!(ada.get(&at("promptpacks/shop/content")).await.refused(404).contains("no version yet"));
    let map = |name: &str, text: &str| json!({"metadata": {"name": name}, "data": {"pack.json": text}});
    world.create::<ConfigMap>(Some("blue"), map("shop-1", "{\"id\":\"shop\"}")).await;
    world.create::<ConfigMap>(Some("blue"), map("other", "not yours")).await;
    let versions = json!([{"version": "1.0.0", "configMap": "shop-1", "prompts": ["default"]}]);
    let seen = json!({"phase": "Active", "activeVersion": "1.0.0", "versions": versions});
    let change = Patch::Merge(json!({"status": seen}));
    let packs = Api::<PromptPack>::namespaced(world.client.clone(), "blue");
    packs.patch_status("shop", &PatchParams::default(), &change).await.unwrap();
    let content = ada.get(&at("promptpacks/shop/content")).await.json();
    assert_eq!(content, json!({"version": "1.0.0", "configMap": "shop-1", "text": "{\"id\":\"shop\"}"}));
    ada.get(&at("promptpacks/shop/content?configMap=other")).await.refused(404);
    let rules = json!([{"apiGroups": ["omnia.altairalabs.ai"], "resources": ["*"], "verbs": ["get", "list"]}]);
    let bob = Person { token: Some(world.token("blue", "reader", Some(rules)).await), ..ada.clone() };
    assert_eq!(bob.get(&at("promptpacks/shop")).await.json()["activeVersion"], "1.0.0");
    bob.get(&at("promptpacks/shop/content")).await.refused(403);

    // A canary is weighed, promoted and aborted by the version that is meant; without one there is nothing to decide.
    let act = async |verb: &str| ada.send("POST", &at(&format!("promptpacks/shop/{verb}")), &[], Body::empty()).await;
    for verb in ["promote", "abort", "retry", "weight?percent=20"] {
        act(verb).await.refused(409);
    }
    let change = Patch::Merge(json!({"spec": {"version": "1.1.0", "rollout": {"type": "canary"}}}));
    packs.patch("shop", &PatchParams::default(), &change).await.unwrap();
    let change = Patch::Merge(json!({"status": {"phase": "Canary", "canaryVersion": "1.1.0"}}));
    packs.patch_status("shop", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(act("weight?percent=20").await.json()["rollout"]["canary"]["weight"], 20);
    act("weight?percent=101").await.refused(422);
    act("weight?percent=many").await.refused(400);
    assert_eq!(act("promote").await.json()["rollout"]["canary"]["promote"], "1.1.0");
    let change = Patch::Merge(json!({"spec": {"rollout": {"canary": {"promote": null}}}}));
    packs.patch("shop", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(act("abort").await.json()["rollout"]["canary"]["abort"], "1.1.0");
    assert_eq!(act("retry").await.json()["rollout"]["canary"]["abort"], Value::Null);

    // What a policy leaves to an agent is said by the rule that the controllers apply.
    let runtime = json!({"name": "shop", "promptPackRef": {"name": "shop"}, "facade": {"type": "websocket"}, "toolRegistryRef": {"name": "tools"}});
    assert_eq!(ada.post(&at("agentruntimes"), &runtime).await.code, 201);
    let declared = json!([{"name": "look"}, {"name": "pay"}]);
    assert_eq!(ada.post(&at("toolregistries"), &json!({"name": "tools", "tools": declared})).await.code, 201);
    let found = json!([{"name": "look", "status": "Available"}, {"name": "pay", "status": "Unavailable"}]);
    let change = Patch::Merge(json!({"status": {"phase": "Degraded", "discoveredTools": found}}));
    let registries = Api::<ToolRegistry>::namespaced(world.client.clone(), "blue");
    registries.patch_status("tools", &PatchParams::default(), &change).await.unwrap();
    // A tool's schema is in the status, or in the ConfigMap that the status names.
    let tool = |name: &str| at(&format!("toolregistries/tools/details?tool={name}"));
    ada.get(&tool("nothing")).await.refused(404);
    let kept = json!({"configMap": "tools-0", "key": "look", "digest": "x"});
    let found = json!([{"name": "look", "status": "Available", "schemaRef": kept}, {"name": "pay", "status": "Unavailable", "inputSchema": {"type": "object"}}]);
    let change = Patch::Merge(json!({"status": {"discoveredTools": found}}));
    registries.patch_status("tools", &PatchParams::default(), &change).await.unwrap();
    let text = json!({"inputSchema": {"type": "object", "title": "large"}}).to_string();
    world.create::<ConfigMap>(Some("blue"), json!({"metadata": {"name": "tools-0"}, "data": {"look": text}})).await;
    assert_eq!(ada.get(&tool("look")).await.json()["inputSchema"]["title"], "large");
    assert_eq!(ada.get(&tool("pay")).await.json()["inputSchema"]["type"], "object");
    bob.get(&tool("look")).await.refused(403);
    let policy = json!({"name": "careful", "toolBlocklist": ["pay"]});
    assert_eq!(ada.post(&at("agentpolicies"), &policy).await.code, 201);
    let effect = bob.get(&at("agentpolicies/careful/effect")).await.json();
    let tools = json!([{"name": "look", "allowed": true}, {"name": "pay", "allowed": false}]);
    let expected = json!({"refuses": true, "agents": [{"agent": "shop", "registry": "tools", "tools": tools}]});
    assert_eq!(effect, expected);

    // Who may see nothing of a kind hears that there is nothing, and does not wait for ever.
    let kinds = "/api/v1/stream?kinds=providers,tasks,toolregistries";
    let heard = bob.events(kinds, None, |events| events.len() >= 3).await;
    let items = |kind: &str| {
        heard.iter().find(|event| event.data["kind"] == kind).map(|event| event.data["items"].as_array().unwrap().len())
    };
    assert_eq!((items("tasks"), items("providers"), items("toolregistries")), (Some(0), Some(0), Some(1)));
}

pub async fn singles(world: &World) {
    let ada = world.administrator("singles").await;
    assert!(ada.get("/api/v1/info").await.json()["version"].is_string());
    assert_eq!(ada.get("/api/v1/whoami").await.json()["name"], "system:serviceaccount:default:singles");
    let namespaces = ada.get("/api/v1/namespaces").await.json();
    assert!(namespaces["namespaces"].as_array().unwrap().contains(&json!("red")), "{namespaces}");
    assert_eq!(ada.get("/health").await.json()["status"], "ok");
    assert_eq!(ada.get("/ready").await.json()["status"], "ok");
    assert!(ada.get("/metrics").await.text.ends_with("# EOF\n"));
    assert!(ada.get("/api/v1/events").await.json()["events"].is_array());
    assert!(ada.get("/api/v1/namespaces/red/events?type=Warning&limit=5").await.json()["events"].is_array());

    // Settings are there before anybody made them.
    assert_eq!(ada.get("/api/v1/config").await.json()["spec"], json!({}));
    let put = async |query: &str, most: Value| {
        let body = json!({"spec": {"cleanup": {"maxRetainedTasks": most}}}).to_string();
        let json = [("content-type", "application/json")];
        ada.send("PUT", &format!("/api/v1/config{query}"), &json, body).await
    };
    let kept = async || ada.get("/api/v1/config").await.json()["spec"]["cleanup"]["maxRetainedTasks"].clone();
    // A dry run says what would come and leaves it, whether there are settings yet or not.
    assert_eq!(put("?dryRun=All", json!(4)).await.json()["spec"]["cleanup"]["maxRetainedTasks"], 4);
    assert_eq!(kept().await, Value::Null);
    assert_eq!(put("", json!(5)).await.code, 201);
    assert_eq!(put("?dryRun=All", json!(6)).await.json()["spec"]["cleanup"]["maxRetainedTasks"], 6);
    assert_eq!(kept().await, 5);
    assert!(put("?dryRun=All", json!("many")).await.refused(422).contains("maxRetainedTasks"));
    assert_eq!(put("", json!(6)).await.code, 200);
    assert_eq!(kept().await, 6);
}

/// Whatever is wrong with a request, the answer has the one shape and says what.
pub async fn refusals(world: &World) {
    let ada = world.administrator("refusals").await;
    let tasks = "/api/v1/namespaces/red/tasks";
    for (method, path, body, code, says) in [
        ("GET", "/api/v1/nowhere", "", 404, "no such route"),
        ("DELETE", "/api/v1/info", "", 405, "openapi.json"),
        ("GET", &format!("{tasks}?limit=many"), "", 400, "limit"),
        ("GET", &format!("{tasks}?colour=red"), "", 400, "colour"),
        ("GET", &format!("{tasks}?sortOrder=up"), "", 400, "up"),
        ("GET", &format!("{tasks}?labelSelector=%3D%3D%3D"), "", 400, ""),
        ("GET", &format!("{tasks}/..%2F..%2Fagents"), "", 400, "name"),
        ("GET", &format!("{tasks}/Upper"), "", 400, "name"),
        ("GET", "/api/v1/search", "", 400, "q"),
        ("GET", "/api/v1/search?q=a&namespace=..%2Fx", "", 400, "namespace"),
        ("GET", "/api/v1/upcoming?namespace=N%13", "", 400, "namespace"),
        ("GET", "/api/v1/stream?namespace=a%2Fb", "", 400, "namespace"),
        ("GET", "/api/v1/stream?kinds=secrets", "", 400, "secrets"),
        ("POST", tasks, "{", 400, "cannot be read"),
        ("POST", tasks, "[]", 400, "not an object"),
        ("POST", tasks, r#"{"metadata": 5, "spec": {}}"#, 400, "metadata"),
        ("POST", tasks, r#"{"name": "x", "description": 5, "templateRef": {"name": "s"}}"#, 422, "description"),
        ("POST", "/api/v1/namespaces/red/agents", r#"{"profile": "x"}"#, 400, "name"),
        (
            "POST",
            "/api/v1/namespaces/nowhere/tasks",
            r#"{"description": "x", "templateRef": {"name": "s"}}"#,
            404,
            "nowhere",
        ),
        ("POST", &format!("{tasks}/nowhere/stop"), "", 404, "nowhere"),
        ("GET", &format!("{tasks}/nowhere/logs"), "", 404, "nowhere"),
        ("GET", &format!("{tasks}/nowhere/logs?container=..%2Fx"), "", 400, "container"),
        ("GET", "/api/v1/namespaces/red/agents/nowhere/terminal", "", 404, "nowhere"),
    ] {
        let answer = ada.send(method, path, &[("content-type", "application/json")], body.to_owned()).await;
        let message = answer.refused(code);
        assert!(message.to_lowercase().contains(says), "{method} {path}: {message}");
    }
    let large = "x".repeat(4 << 20);
    ada.send("POST", tasks, &[("content-type", "application/json")], large).await.refused(413);
}

/// A reconnect with the id of any event gets what came after it: nothing twice, nothing lost.
pub async fn stream(world: &World) {
    let ada = world.administrator("stream").await;
    let post = async |name: &str| {
        let task = json!({"name": name, "description": "a", "templateRef": {"name": "shell"}});
        assert_eq!(ada.post("/api/v1/namespaces/red/tasks", &task).await.code, 201);
    };
    post("before").await;
    let path = "/api/v1/stream?kinds=tasks&namespace=red";
    let first = ada.events(path, None, |events| !events.is_empty()).await;
    assert_eq!(first[0].event, "snapshot");
    assert!(first[0].data["items"].as_array().unwrap().iter().any(|item| item["name"] == "before"));
    for name in ["one", "two", "three"] {
        post(name).await;
    }
    let rest = ada.events(path, Some(&first[0].id), |events| events.len() == 3).await;
    let names = |events: &[crate::world::Sent]| -> Vec<String> {
        events.iter().map(|event| event.data["object"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(rest.iter().all(|event| event.event == "change" && event.data["type"] == "ADDED"));
    assert_eq!(names(&rest), ["one", "two", "three"]);
    let last = ada.events(path, Some(&rest[0].id), |events| events.len() == 2).await;
    assert_eq!(names(&last), ["two", "three"]);
    // An id that makes no sense begins anew.
    let anew = ada.events(path, Some("nonsense"), |events| !events.is_empty()).await;
    assert_eq!(anew[0].event, "snapshot");
}

pub async fn search(world: &World) {
    let ada = world.administrator("search").await;
    let task = json!({"metadata": {"name": "needle", "labels": {"colour": "mauve"}}, "spec": {"description": "Find the haystack", "templateRef": {"name": "shell"}}});
    ada.post("/api/v1/namespaces/red/tasks", &task).await;
    for (words, field) in [("needle", "name"), ("mauve", "labels"), ("haystack", "description")] {
        let found = ada.get(&format!("/api/v1/search?q={words}")).await.json();
        assert_eq!((found["total"].as_u64(), &found["results"][0]["field"]), (Some(1), &json!(field)), "{words}");
    }
}

/// What was kept of a log is served after its Pod is gone, and can be resumed at any line.
pub async fn kept_logs(world: &World) {
    let folder = tempfile::tempdir().unwrap();
    let token = world.token("default", "logs", None).await;
    let logs = Some(controllers::logs::Archive { directory: folder.path().to_owned() });
    let ada = Person { router: Server::new(Options { logs, ..world.options() }).router(), token: Some(token) };
    let task = json!({"name": "gone", "description": "a", "templateRef": {"name": "shell"}});
    let uid = ada.post("/api/v1/namespaces/red/tasks", &task).await.json()["uid"].as_str().unwrap().to_owned();
    let done = json!({"phase": "Completed", "podName": "gone-pod", "conditions": []});
    status_in(world, "red", "Task", "tasks", "gone", done).await;
    let text = "2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:01.1Z b\n2026-01-01T00:00:02Z c\n";
    keep(folder.path(), "red", "gone", &uid, text);

    let path = "/api/v1/namespaces/red/tasks/gone/logs";
    let all = ada.events(path, None, |_| false).await;
    let types: Vec<&str> = all.iter().map(|event| event.data["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["status", "log", "log", "log", "complete"]);
    assert_eq!(all[1].data["content"], "a\n");
    for (index, event) in all.iter().enumerate().filter(|(_, event)| event.data["type"] == "log") {
        let rest = ada.events(path, Some(&event.id), |_| false).await;
        let lines = |events: &[crate::world::Sent]| -> Vec<Value> {
            events
                .iter()
                .filter(|event| event.data["type"] == "log")
                .map(|event| event.data["content"].clone())
                .collect()
        };
        assert_eq!(lines(&rest), lines(&all[index + 1..]));
    }
    let tail = ada.events(&format!("{path}?tailLines=1"), None, |_| false).await;
    assert_eq!(tail[1].data["content"], "c\n");
    // A container whose log was not kept is said to have none.
    let other = ada.events(&format!("{path}?container=git-init"), None, |_| false).await;
    assert!(other[1].data["message"].as_str().unwrap().contains("was not kept"));
}

async fn status(world: &World, kind: &str, plural: &str, name: &str, status: Value) {
    status_in(world, "blue", kind, plural, name, status).await;
}

/// Sets a status as a controller would.
pub async fn status_in(world: &World, namespace: &str, kind: &str, plural: &str, name: &str, status: Value) {
    let objects = world.objects(kind, plural, namespace);
    objects.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await.unwrap();
}
