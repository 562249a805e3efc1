//! What becomes of what servers say about their tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::omnia::{AuthType, DiscoveredTool, Operation};
use engine::{Engine, Step};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Patch, PatchParams};
use orrery_controllers::Options;
use orrery_controllers::kubeopencode::session::NoSessions;
use orrery_controllers::omnia::Settings;
use orrery_controllers::omnia::tool_registry::discover::{Answer, Discover};
use orrery_controllers::omnia::tool_registry::{Observed, Question, Stop, What, decide};
use rstest::rstest;
use serde_json::{Value, json};
use tools::{Credentials, Found, Problem};

use crate::omnia_scenarios;
use crate::omnia_tools::{registry, serve};
use crate::support::{at, condition, object, status, steps};
use crate::world::{Weather, World, plane};

const OPENAPI: &str =
    "  handlers: [{ name: shop, type: openapi, openAPIConfig: { specURL: 'http://one.team.svc/openapi.json' } }]";

fn found(name: &str, words: usize) -> Found {
    Found {
        name: name.into(),
        description: format!("Does {name}."),
        input_schema: json!({ "type": "object", "description": "x".repeat(words) }),
        endpoint: "http://one.team.svc/".into(),
        operation: Some(Operation { method: "GET".into(), path: format!("/{name}"), ..Operation::default() }),
        ..Found::default()
    }
}

fn observed(answer: Answer) -> Observed {
    let mut observed = registry(OPENAPI);
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), &[true]);
    observed.answers.insert(("shop".into(), None), answer);
    observed
}

fn now() -> jiff::Timestamp {
    at("2026-01-01T00:00:00Z")
}

#[rstest]
#[case::all(&[None, None], "Ready", "AllAvailable")]
#[case::some(&[None, Some("InvalidSchema")], "Degraded", "SomeUnavailable")]
#[case::none(&[Some("Unsupported")], "Failed", "NoneAvailable")]
fn what_a_server_says_is_recorded(
    #[case] problems: &[Option<&'static str>],
    #[case] phase: &str,
    #[case] reason: &str,
) {
    let tool = |(number, problem): (usize, Option<&'static str>)| Found {
        problem: problem.map(|reason| Problem { reason, message: "why".into() }),
        ..found(&format!("t{number}"), 1)
    };
    let observed = observed(Ok(problems.iter().copied().enumerate().map(tool).collect()));
    let decision = decide(&observed, &Settings::default(), now());
    let status = status(&decision);
    assert_eq!(status["phase"], phase, "{status:#}");
    assert_eq!(condition(&status, "ToolsDiscovered").1, reason);
    let tools = status["discoveredTools"].as_array().unwrap();
    assert_eq!(tools.len(), problems.len());
    for (tool, problem) in tools.iter().zip(problems) {
        assert_eq!(tool["reason"], problem.map_or(Value::Null, Into::into));
        assert_eq!((&tool["handlerName"], &tool["endpoint"]), (&json!("shop"), &json!("http://one.team.svc/")));
    }
    assert_eq!(tools[0]["operation"], json!({ "method": "GET", "path": "/t0" }));
    assert_eq!(decision.look_again, Some(now() + SignedDuration::from_mins(1)), "servers are asked again");
}

#[test]
fn tools_of_a_server_that_is_gone_stay_listed_as_unavailable() {
    let mut observed = observed(Ok(vec![found("a", 1), found("b", 1)]));
    let mut known = (*observed.registry).clone();
    known.status = Some(serde_json::from_value(status(&decide(&observed, &Settings::default(), now()))).unwrap());
    observed.registry = Arc::new(known);
    let problem = Problem { reason: "Timeout", message: "no answer within 10s".into() };
    observed.answers.insert(("shop".into(), None), Err(problem));
    let status = status(&decide(&observed, &Settings::default(), now()));
    let tools: Vec<(&Value, &Value, &Value)> = status["discoveredTools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (&tool["name"], &tool["reason"], &tool["error"]))
        .collect();
    let error = json!("no answer within 10s");
    assert_eq!(tools, [(&json!("a"), &json!("Timeout"), &error), (&json!("b"), &json!("Timeout"), &error)]);
    assert_eq!(status["phase"], "Failed");
}

#[rstest]
#[case::refused(Some(Problem { reason: "Refused", message: "answered 500".into() }), &[true], "Refused")]
#[case::not_ready(None, &[false], "NoReadyEndpoints")]
fn a_server_that_never_answered_is_listed_by_its_handler(
    #[case] problem: Option<Problem>,
    #[case] ready: &[bool],
    #[case] reason: &str,
) {
    let mut observed = registry(OPENAPI);
    serve(&mut observed, "one", &json!({}), &json!([{ "port": 80 }]), ready);
    observed.answers = problem.map(|problem| (("shop".to_owned(), None), Err(problem))).into_iter().collect();
    let status = status(&decide(&observed, &Settings::default(), now()));
    assert_eq!(
        (&status["discoveredTools"][0]["name"], &status["discoveredTools"][0]["reason"]),
        (&json!("shop"), &json!(reason))
    );
}

#[test]
fn schemas_that_do_not_fit_go_to_config_maps_that_the_status_names() {
    let many: Vec<Found> = (0..20).map(|n| found(&format!("t{n}"), 100_000)).collect();
    let mut observed = observed(Ok(many));
    let decision = decide(&observed, &Settings::default(), now());
    let maps: Vec<ConfigMap> = decision
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Apply(object) if object.resource.kind == "ConfigMap" => {
                Some(serde_json::from_value(object.value.clone()).unwrap())
            }
            _ => None,
        })
        .collect();
    assert_eq!(maps.len(), 3, "{:?}", steps(&decision));
    let status = status(&decision);
    assert!(status.to_string().len() < 16 << 10);
    for tool in status["discoveredTools"].as_array().unwrap() {
        let tool: DiscoveredTool = serde_json::from_value(tool.clone()).unwrap();
        let reference = tool.schema_ref.unwrap();
        let map = maps.iter().find(|map| map.metadata.name.as_ref() == Some(&reference.config_map)).unwrap();
        let details: Value = serde_json::from_str(&map.data.as_ref().unwrap()[&reference.key]).unwrap();
        assert_eq!(details["inputSchema"]["description"].as_str().unwrap().len(), 100_000);
        assert_eq!(details["operation"]["path"], format!("/{}", tool.name));
    }
    assert_eq!(steps(&decision).last().unwrap(), "patch status ToolRegistry desk", "what it names is there before it");

    // When they fit again, nothing is left behind.
    observed.answers.insert(("shop".into(), None), Ok(vec![found("t", 1)]));
    observed.maps = maps.into_iter().map(Arc::new).collect();
    let after = steps(&decide(&observed, &Settings::default(), now()));
    assert_eq!(after.iter().filter(|step| step.starts_with("delete ConfigMap")).count(), 3, "{after:?}");
}

#[test]
fn more_tools_than_an_object_holds_are_not_listed() {
    let many: Vec<Found> = (0..2500).map(|n| found(&format!("t{n}"), 1)).collect();
    let status = status(&decide(&observed(Ok(many)), &Settings::default(), now()));
    let tools = status["discoveredTools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[2000]["reason"]), (2001, &json!("TooManyTools")));
    let message = condition_message(&status);
    assert!(message.len() < 1000, "{message}");
}

fn condition_message(status: &Value) -> String {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().map(|condition| condition["message"].as_str().unwrap()).collect()
}

/// How often each handler was asked.
static ASKED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

pub fn times_asked(handler: &str) -> usize {
    ASKED.lock().unwrap().get(handler).copied().unwrap_or_default()
}

/// A server that has as many tools as it has Pods. Those called big have big ones.
#[derive(Debug)]
struct Counting;

impl Discover for Counting {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            *ASKED.lock().unwrap().entry(question.asked.0.clone()).or_default() += 1;
            let pods = question.stops.iter().filter(|stop| matches!(stop, Stop::Pod { .. })).count();
            let big =
                question.stops.iter().any(|stop| matches!(stop, Stop::Pod { name, .. } if name.starts_with("big")));
            let words = if big { 120_000 } else { 10 };
            Ok((0..pods).map(|n| found(&format!("t{n}"), words)).collect())
        })
    }

    /// A program has one tool, called as its Pod's image is.
    fn read<'a>(&'a self, _: &'a kube::Client, pod: &'a Pod, endpoint: &'a str) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if ended != Some("Succeeded") {
                return Err(Problem { reason: "Unreachable", message: "the program ended".into() });
            }
            let image = pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
            Ok(vec![Found { endpoint: endpoint.into(), operation: None, ..found(&image, 1) }])
        })
    }
}

/// The controllers, with servers that answer without a network.
pub fn controllers(engine: Engine) -> Engine {
    let mut options = Options::default();
    options.omnia.discover = Arc::new(Counting);
    options.omnia.own_image = Some("ours".into());
    orrery_controllers::install(engine, &options, Arc::new(NoSessions))
}

#[test]
fn answers_are_kept_apart_by_service() {
    let mut observed =
        registry("  handlers: [{ name: shops, type: openapi, selector: { matchLabels: { role: shop } } }]");
    let meta = json!({ "labels": { "role": "shop" } });
    for name in ["one", "two"] {
        serve(&mut observed, name, &meta, &json!([{ "port": 80 }]), &[true]);
    }
    let of = |name: &str| ("shops".to_owned(), Some(("team".to_owned(), name.to_owned())));
    observed.answers = BTreeMap::from([
        (of("one"), Ok(vec![found("a", 1)])),
        (of("two"), Err(Problem { reason: "Refused", message: "no".into() })),
    ]);
    let status = status(&decide(&observed, &Settings::default(), now()));
    assert_eq!(status["phase"], "Degraded", "{status:#}");
}

const PROGRAM: &str = "
  serviceAccountName: modest
  handlers: [{ name: files, type: mcp, mcpConfig: { transport: stdio, command: npx, args: [-y, files], IMAGE env: { ROOT: /data } } }]";

fn with_image(own: Option<&str>) -> Settings {
    Settings { own_image: own.map(Into::into), ..Settings::default() }
}

#[test]
fn a_program_is_asked_by_a_pod_with_the_registrys_account() {
    let observed = registry(&PROGRAM.replace("IMAGE", ""));
    let decision = decide(&observed, &with_image(Some("ours")), now());
    let pod = object(&decision, "Pod");
    assert_eq!(pod["spec"]["serviceAccountName"], "modest");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ToolRegistry");
    let main = &pod["spec"]["containers"][0];
    assert_eq!((&main["image"], &main["command"]), (&json!("ours"), &json!(["/orrery", "mcp-tools"])));
    let program: Value = serde_json::from_str(main["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(
        program,
        json!({ "command": "npx", "arguments": ["-y", "files"], "directory": null, "environment": { "ROOT": "/data" } })
    );
    let status = status(&decision);
    assert_eq!((&status["phase"], &status["discoveredTools"][0]["status"]), (&json!("Pending"), &json!("Unknown")));
}

#[test]
fn our_program_is_brought_to_an_image_that_lacks_it() {
    let observed = registry(&PROGRAM.replace("IMAGE", "image: theirs,"));
    let pod = object(&decide(&observed, &with_image(Some("ours")), now()), "Pod");
    let (bring, main) = (&pod["spec"]["initContainers"][0], &pod["spec"]["containers"][0]);
    assert_eq!((&bring["image"], &bring["command"]), (&json!("ours"), &json!(["/orrery", "self-init"])));
    assert_eq!((&main["image"], &main["command"][0]), (&json!("theirs"), &json!("/tools/kubeopencode")));
}

#[test]
fn without_an_image_of_ours_a_program_is_never_asked() {
    let decision = decide(&registry(&PROGRAM.replace("IMAGE", "")), &with_image(None), now());
    assert_eq!(steps(&decision), ["patch status ToolRegistry desk"], "nothing is run");
    let tool = &status(&decision)["discoveredTools"][0];
    assert_eq!(tool["reason"], "NoProgram");
    assert!(tool["error"].as_str().unwrap().contains("--helper-image"));
}

#[test]
fn a_program_is_asked_again_after_a_while_and_keeps_its_tools_meanwhile() {
    let settings = with_image(Some("ours"));
    let mut observed = registry(&PROGRAM.replace("IMAGE", ""));
    let mut pod: Pod = serde_json::from_value(object(&decide(&observed, &settings, now()), "Pod")).unwrap();
    pod.status = Some(serde_json::from_value(json!({ "phase": "Succeeded" })).unwrap());
    observed.pods = vec![Arc::new(pod)];
    let said = Found {
        endpoint: "stdio://npx".into(),
        operation: None,
        remote_name: Some("read-file".into()),
        ..found("read_file", 1)
    };
    observed.answers.insert(("files".into(), None), Ok(vec![said]));
    let first = decide(&observed, &settings, at("2026-01-01T00:00:10Z"));
    assert_eq!(steps(&first), ["patch status ToolRegistry desk"]);
    assert_eq!(status(&first)["phase"], "Ready");
    let mut known = (*observed.registry).clone();
    known.status = Some(serde_json::from_value(status(&first)).unwrap());
    observed.registry = Arc::new(known);

    let later = decide(&observed, &settings, at("2026-01-01T00:10:00Z"));
    assert!(steps(&later)[0].starts_with("delete Pod desk-files-"), "{:?}", steps(&later));
    observed.pods.clear();
    observed.answers.clear();
    let again = decide(&observed, &settings, at("2026-01-01T00:10:01Z"));
    assert_eq!(steps(&again).len(), 1, "nothing is said meanwhile: {:?}", steps(&again));
    assert!(steps(&again)[0].starts_with("create Pod desk-files-"));
}

/// Tells its tools only to those who say the password.
#[derive(Debug)]
struct Doorkeeper;

impl Discover for Doorkeeper {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let What::OpenApi(source) = &question.what else { panic!("{question:?}") };
            if Some(&source.caller.credentials) == Credentials::new(AuthType::Bearer, "sesame").as_ref() {
                return Ok(vec![found("treasure", 1)]);
            }
            Err(Problem { reason: "Refused", message: format!("answered 401 to {question:?}") })
        })
    }

    fn read<'a>(&'a self, _: &'a kube::Client, _: &'a Pod, _: &'a str) -> BoxFuture<'a, Answer> {
        Box::pin(async { Err(Problem { reason: "Unreachable", message: "there are no programs".into() }) })
    }
}

fn guarded(engine: Engine) -> Engine {
    let mut options = Options::default();
    options.omnia.discover = Arc::new(Doorkeeper);
    orrery_controllers::install(engine, &options, Arc::new(NoSessions))
}

#[tokio::test]
async fn servers_are_asked_with_the_credentials_of_their_handler_as_they_change() {
    let mut world = World::on(plane().await, "guarded", Weather::Calm, guarded).await;
    let access = "authType: bearer, authSecretRef: { name: keys, key: token }";
    let spec = format!(
        "handlers: [{{ name: cave, type: openapi, openAPIConfig: {{ specURL: 'http://cave.example.com/x', {access} }} }}]"
    );
    world.create(&omnia_scenarios::object("ToolRegistry", "desk", &spec)).await;
    let registry = |world: &World| world.objects::<Value>("omnia.altairalabs.ai/toolregistries")[0].clone();
    let is =
        |reason: &'static str| move |world: &World| registry(world)["status"]["discoveredTools"][0]["reason"] == reason;
    // No change but the Secret's own wakes it: the server would be asked again only after a minute.
    let soon = Duration::from_secs(30);
    world.until(soon, is("SecretNotFound")).await;
    let secret = |data: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys" }, "stringData": data });
    let give = async |world: &World, data: Value| {
        let params = PatchParams::apply("a user").force();
        world.api::<Secret>().patch("keys", &params, &Patch::Apply(&secret(data))).await.unwrap();
    };
    give(&world, json!({ "other": "x" })).await;
    world.until(soon, is("SecretKeyNotFound")).await;
    give(&world, json!({ "token": "abracadabra" })).await;
    world.until(soon, is("Refused")).await;
    assert!(!registry(&world).to_string().contains("abracadabra"), "what is said about a question shows no secret");
    give(&world, json!({ "token": "sesame" })).await;
    world.until(soon, |world| registry(world)["status"]["phase"] == "Ready").await;
    assert_eq!(registry(&world)["status"]["discoveredTools"][0]["name"], "treasure");
}
