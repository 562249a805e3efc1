//! Deployments: how soon the adapter answers, and how long a plan of 500 resources takes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::shop::{Shop, pack};

use crate::report::{Number, Row, Section, Target, quantile};
use crate::{Arguments, machine};

/// Resources of the pack: a runtime for each agent, and four others.
const RESOURCES: usize = 500;
const STARTS: usize = 30;

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[
    ("Adapter started → first answer, p50", Some(at_most(Duration::from_millis(20)))),
    ("… p99", None),
    ("Plan of 500 resources to create", Some(at_most(Duration::from_secs(2)))),
    ("Apply of 500 resources, until all are ready", None),
    ("Plan of 500 resources that are as they should be", Some(at_most(Duration::from_secs(2)))),
    ("Plan of 500 resources to update, with every field", Some(at_most(Duration::from_secs(2)))),
];

const fn at_most(time: Duration) -> Target {
    Target::AtMost(Number::Time(time))
}

/// Measures and takes the medians of the rounds.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let beside = std::env::current_exe()?.with_file_name("orrery");
    let orrery = arguments.orrery.clone().unwrap_or(beside).canonicalize()?;
    let facts = machine::facts(&arguments.data)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rounds = Vec::new();
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        rounds.push(runtime.block_on(measure(&orrery))?);
    }
    let rows = ROWS.iter().enumerate().map(|(index, (name, target))| {
        let numbers = rounds.iter().map(|round| round[index]).collect();
        let orrery = Number::median(numbers).context("no round was measured")?;
        Ok(Row { name, orrery, kubernetes: None, target: *target })
    });
    let now = jiff::Timestamp::now().strftime("%F");
    let introduction = format!(
        "`make bench`, {now}. {facts}\n\nThe adapter `promptarena-deploy-omnia` is a process that is asked over its standard \
         input; the plane is in the process that measures, over loopback; {} rounds, medians. The pack has {} agents, \
         tools and a blocklist: {RESOURCES} resources. A stand-in for the controllers makes runtimes ready as soon as it sees them.",
        arguments.rounds,
        RESOURCES - 4
    );
    Ok(Section { title: "Deployments", introduction, rows: rows.collect::<Result<_>>()? })
}

async fn measure(orrery: &Path) -> Result<Vec<Number>> {
    let shop = Shop::open().await;
    let url = shop.plane.serve().await;
    let orrery = orrery.to_owned();
    // The adapter is asked by blocking calls; the plane goes on meanwhile.
    tokio::task::spawn_blocking(move || ask(&orrery, &url)).await?
}

fn ask(orrery: &Path, url: &str) -> Result<Vec<Number>> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("promptarena-deploy-omnia");
    symlink(orrery, &program)?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let begin = Instant::now();
        Adapter::start(&program)?.call("get_provider_info", &json!({}))?;
        starts.push(begin.elapsed());
    }
    let names: Vec<String> = (0..RESOURCES - 4).map(|number| format!("agent-{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let config =
        json!({ "workspace": "default", "providers": { "default": "mock" }, "api_endpoint": url, "api_token": "none" });
    let request = |version: &str, state: &str| json!({ "pack_json": pack(version, &names, true, &["x"]).to_string(), "deploy_config": config.to_string(), "prior_state": state });
    let mut adapter = Adapter::start(&program)?;
    let (create, plan) = adapter.timed("plan", &request("1.0.0", ""))?;
    ensure!(plan["summary"] == format!("Plan: {RESOURCES} to create, 0 to update, 0 to delete"), "{}", plan["summary"]);
    let (apply, applied) = adapter.timed("apply", &request("1.0.0", ""))?;
    let state = applied["adapter_state"].as_str().context("a state")?.to_owned();
    ensure!(!state.contains("\"failed\""), "not everything was deployed");
    let (same, plan) = adapter.timed("plan", &request("1.0.0", &state))?;
    ensure!(
        plan["summary"].as_str().is_some_and(|text| text.ends_with(&format!("{RESOURCES} unchanged"))),
        "{}",
        plan["summary"]
    );
    let (update, plan) = adapter.timed("plan", &request("1.1.0", &state))?;
    ensure!(plan["summary"] == format!("Plan: 0 to create, {RESOURCES} to update, 0 to delete"), "{}", plan["summary"]);
    Ok(vec![
        Number::Time(quantile(&mut starts, 0.5)),
        Number::Time(quantile(&mut starts, 0.99)),
        Number::Time(create),
        Number::Time(apply),
        Number::Time(same),
        Number::Time(update),
    ])
}

/// A running adapter. Dropping it closes its input, which ends it.
struct Adapter {
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    process: Child,
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.requests = None;
        // Its end is of no interest.
        let _ = self.process.wait();
    }
}

impl Adapter {
    fn start(program: &Path) -> Result<Self> {
        let mut process = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().context("a pipe")?);
        Ok(Self { requests, answers, process })
    }

    fn timed(&mut self, method: &str, params: &Value) -> Result<(Duration, Value)> {
        let begin = Instant::now();
        let result = self.call(method, params)?;
        Ok((begin.elapsed(), result))
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": 1 });
        let requests = self.requests.as_mut().context("an open pipe")?;
        requests.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("{method} was answered with {line:?}"))?;
        ensure!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
        Ok(answer["result"].clone())
    }
}
