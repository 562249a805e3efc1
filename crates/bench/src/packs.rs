//! Many agents on one pack: how soon a new version is in every Deployment, and with how many writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::report::{Number, Row, Section, Target, quantile};
use crate::stage::{Followed, Stage};
use crate::{Arguments, machine};

const AGENTS: usize = 500;
const OMNIA: &str = "/apis/omnia.altairalabs.ai/v1alpha1/namespaces/default";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[
    ("500 AgentRuntimes on one pack: a new version in their Deployments, p50", None),
    ("… in the last", Some(Target::AtMost(Number::Time(Duration::from_secs(5))))),
    ("… writes of each Deployment", Some(Target::AtMost(Number::Count(1.0)))),
];

/// Measures and takes the medians of the rounds.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let orrery = arguments.orrery()?;
    let facts = machine::facts(&arguments.data)?;
    let rounds = arguments.rounds(|| measure(&orrery, &arguments.data))?;
    let now = Timestamp::now().strftime("%F");
    let introduction = format!(
        "`make bench`, {now}. {facts}\n\nEverything runs in one `orrery up`, with this client on the same cores; {} rounds, \
         medians. The agents have images of their own, so that a new version is a new Pod template; they have no replicas, so \
         that no Pods come in between. The time runs from the write that wants the new version until a watch has the changed \
         Deployment; a write is a new generation of it.",
        arguments.rounds
    );
    Ok(Section { title: "Packs", introduction, rows: Row::of(ROWS, &rounds)? })
}

async fn measure(orrery: &Path, data: &Path) -> Result<Vec<Number>> {
    let mut stage = Stage::start(orrery, data, &[]).await?;
    stage.connection.create("/api/v1/namespaces/default/configmaps", content("1.0.0").to_string().into()).await?;
    let source = json!({ "type": "configmap", "configMapRef": { "name": "content" } });
    let pack = object("PromptPack", "support", &json!({ "version": "1.0.0", "source": source }));
    stage.connection.create(&format!("{OMNIA}/promptpacks"), pack.to_string().into()).await?;
    let mut deployments = stage.follow(DEPLOYMENTS).await?;
    stage.create_all((0..AGENTS).map(agent).collect()).await?;
    for _ in 0..AGENTS {
        deployments.added().await?;
    }
    // What a start still has to write does not count as a change of the version.
    tokio::time::sleep(Duration::from_secs(5)).await;
    // On a slow machine nothing was said on this one for so long that the server has closed it.
    stage.connection = stage.connection.again().await?;
    let before = generations(&mut stage).await?;
    let mut deployments = stage.follow(DEPLOYMENTS).await?;
    stage
        .connection
        .merge("/api/v1/namespaces/default/configmaps/content", content("1.1.0").to_string().into())
        .await?;
    let wanted = json!({ "spec": { "version": "1.1.0" } }).to_string();
    let began = Instant::now();
    stage.connection.merge(&format!("{OMNIA}/promptpacks/support"), wanted.into()).await?;
    let mut times = arrivals(&mut deployments, &before, began).await?;
    // Whatever is written twice is written soon after.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = generations(&mut stage).await?;
    let writes: i64 = after.iter().map(|(name, generation)| generation - before.get(name).unwrap_or(generation)).sum();
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let each = writes as f64 / AGENTS as f64;
    Ok(vec![Number::Time(quantile(&mut times, 0.5)), Number::Time(quantile(&mut times, 1.0)), Number::Count(each)])
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn content(version: &str) -> Value {
    let prompt = json!({ "id": "help", "name": "Help", "version": "1.0.0",
        "system_template": format!("You help customers, as of version {version}.") });
    let pack = json!({ "id": "support", "name": "Support", "version": version,
        "template_engine": { "version": "v1", "syntax": "{{variable}}" }, "prompts": { "help": prompt } });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "content" },
        "data": { "pack.json": pack.to_string() } })
}

fn agent(number: usize) -> (String, String) {
    let spec = json!({ "promptPackRef": { "name": "support" }, "facade": { "image": "agents.example/facade:1" },
        "framework": { "type": "custom", "image": "agents.example/runtime:1" }, "provider": { "type": "mock" },
        "runtime": { "replicas": 0 } });
    (format!("{OMNIA}/agentruntimes"), object("AgentRuntime", &format!("a-{number}"), &spec).to_string())
}

/// The generation of each Deployment.
async fn generations(stage: &mut Stage) -> Result<BTreeMap<String, i64>> {
    let list: Value = serde_json::from_slice(&stage.connection.get(DEPLOYMENTS).await?)?;
    let generation = |object: &Value| {
        let metadata = &object["metadata"];
        Some((metadata["name"].as_str()?.to_owned(), metadata["generation"].as_i64()?))
    };
    list["items"].as_array().context("no list")?.iter().map(|item| generation(item).context("no generation")).collect()
}

/// How long each Deployment took to change.
async fn arrivals(deployments: &mut Followed, before: &BTreeMap<String, i64>, began: Instant) -> Result<Vec<Duration>> {
    let mut times = BTreeMap::new();
    while times.len() < before.len() {
        let metadata = deployments.next().await?.object.metadata;
        if before.get(&metadata.name).is_some_and(|generation| metadata.generation > *generation) {
            times.entry(metadata.name).or_insert_with(|| began.elapsed());
        }
    }
    Ok(times.into_values().collect())
}
