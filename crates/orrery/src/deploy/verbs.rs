//! What each command does: files and flags in, the engine's work, words and data out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use deploy::kubernetes::{self, Built, Config, Kubernetes};
use deploy::state::{FileStore, Lock, Store};
use deploy::{Action, Failure, Key, Patience, Plan, State};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::progress::Progress;
use super::render::{changes, colourful, plan as drawn, print};
use super::{Common, Destination, Format, input};
use crate::{cluster, style};

/// Everything that a command works with.
struct Work {
    common: Common,
    config: Config,
    target: Kubernetes,
    store: Box<dyn Store>,
}

impl Work {
    /// Reads the files and connects.
    async fn begin(common: Common) -> anyhow::Result<(Self, Built)> {
        let text = input::pack(common.pack.as_deref())?;
        let config = config(&common)?;
        let built = kubernetes::build(&text, &config, common.env.as_deref())?;
        let work = Self::connect(common, config, &built.deployment.pack_id, &built.deployment.version).await?;
        Ok((work, built))
    }

    async fn connect(common: Common, config: Config, pack: &str, version: &str) -> anyhow::Result<Self> {
        for warning in &config.warnings {
            style::say(format_args!("warning: {warning}"));
        }
        let client = match &config.endpoint {
            Some(endpoint) => kubernetes::client(endpoint)?,
            None => cluster::Options::of(common.kubeconfig.clone(), common.data_dir.clone()).connect().await?.client,
        };
        let patience = Patience { settle: common.timeout, ..Patience::default() };
        let target = Kubernetes::new(client, &config, pack, version, patience);
        let store: Box<dyn Store> = match &common.state {
            Some(file) => Box::new(FileStore::new(file)),
            None => Box::new(target.state(common.env.as_deref())),
        };
        Ok(Self { common, config, target, store })
    }

    async fn plan(&self, built: &Built, state: &State) -> anyhow::Result<Plan> {
        let plan = deploy::plan(&self.target, &built.deployment, &built.desired, state).await?;
        for warning in &plan.warnings {
            style::say(format_args!("warning: {warning}"));
        }
        Ok(plan)
    }

    fn prints_json(&self) -> bool {
        self.common.output == Format::Json
    }

    /// Prints a result, in words or as data.
    fn show(&self, text: impl FnOnce() -> String, data: impl FnOnce() -> Value) -> anyhow::Result<()> {
        print(&if self.prints_json() { format!("{:#}\n", data()) } else { text() })
    }

    /// Does work under the lock, and gives it back whatever comes of it.
    async fn locked<T>(
        &mut self,
        operation: &str,
        work: impl AsyncFnOnce(&mut Self, State) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let state = self.store.lock(&Lock::new(operation)).await?;
        let done = work(self, state).await;
        let unlocked = self.store.unlock().await;
        let done = done?;
        unlocked?;
        Ok(done)
    }
}

fn config(common: &Common) -> anyhow::Result<Config> {
    if common.target == Destination::Agentcore {
        bail!("this version cannot deploy to AgentCore: use --target kubernetes");
    }
    let text = input::config(&common.config, common.env.as_deref(), "omnia")?;
    Config::parse(&text).with_context(|| format!("{} is not a valid configuration", common.config.display()))
}

/// Ends work in order when someone presses Ctrl-C, so that the state is true.
fn interruptible() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            style::say("ending what has begun; the state will be true");
            token.cancel();
        }
    });
    stop
}

pub async fn plan(common: Common, out: Option<PathBuf>, detailed: bool) -> anyhow::Result<ExitCode> {
    let (work, built) = Work::begin(common).await?;
    let (state, _) = work.store.read().await?;
    let plan = work.plan(&built, &state).await?;
    if let Some(file) = out {
        save(&plan, &file)?;
    }
    work.show(|| drawn(&plan, colourful()), || json!(plan))?;
    Ok(if detailed && !plan.is_empty() { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// Packs are not for everyone's eyes.
fn save(plan: &Plan, file: &Path) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    let opened = options.create(true).truncate(true).write(true).mode(0o600).open(file);
    let written = opened.and_then(|mut opened| opened.write_all(&serde_json::to_vec(plan)?));
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn load(file: &Path) -> anyhow::Result<Plan> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let plan: Plan = serde_json::from_str(&text).with_context(|| format!("{} is not a plan", file.display()))?;
    if plan.format != Plan::FORMAT {
        bail!("{} has format {}, this version reads {}", file.display(), plan.format, Plan::FORMAT);
    }
    Ok(plan)
}

pub async fn apply(mut common: Common, saved: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let (mut work, saved, built) = match saved {
        None => {
            let (work, built) = Work::begin(common).await?;
            (work, None, Some(built))
        }
        Some(file) => {
            let plan = load(&file)?;
            // The environment decides where the state is.
            common.env = common.env.or_else(|| plan.environment.clone());
            let config = config(&common)?;
            let work = Work::connect(common, config, &plan.pack_id, &plan.version).await?;
            (work, Some(plan), None)
        }
    };
    let stop = interruptible();
    let (plan, applied) = work
        .locked("apply", async |work, state| {
            let plan = match (&saved, &built) {
                (Some(plan), _) => plan.clone(),
                (None, Some(built)) => work.plan(built, &state).await?,
                (None, None) => bail!("there is neither a plan nor a pack"),
            };
            if !work.prints_json() {
                style::say(drawn(&plan, false).trim_end());
            }
            let progress = Progress::new();
            if work.config.dry_run {
                deploy::dry_run(&plan, state, &progress);
                return Ok((plan, None));
            }
            let applied = deploy::apply(&work.target, &plan, state, work.store.as_mut(), &progress, &stop).await?;
            Ok((plan, Some(applied)))
        })
        .await?;
    let Some(applied) = applied else {
        work.show(|| "Dry run: nothing was written.\n".into(), || json!({ "dryRun": true, "plan": plan }))?;
        return Ok(ExitCode::SUCCESS);
    };
    let count = |action: Action| applied.done.iter().filter(|(_, done)| *done == action).count();
    let text = || {
        format!(
            "{} {}: {} created, {} updated, {} deleted, {} failed\n",
            plan.pack_id,
            plan.version,
            count(Action::Create),
            count(Action::Update) + count(Action::Drift),
            count(Action::Delete),
            applied.failures.len()
        )
    };
    work.show(text, || json!({ "state": applied.state, "failures": words(&applied.failures) }))?;
    Ok(if applied.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn words(failures: &[Failure]) -> Vec<String> {
    failures.iter().map(ToString::to_string).collect()
}

pub async fn status(common: Common) -> anyhow::Result<ExitCode> {
    let (work, _) = Work::begin(common).await?;
    let (state, lock) = work.store.read().await?;
    let report = deploy::status(&work.target, state).await?;
    let overall = serde_json::to_value(report.status)?;
    let text = || {
        let mut text = format!("{}\n", overall.as_str().unwrap_or_default());
        for resource in &report.resources {
            let why = if resource.detail.is_empty() { String::new() } else { format!(" ({})", resource.detail) };
            let _ = writeln!(text, "{} {} {}{why}", resource.key.type_, resource.key.name, resource.status);
        }
        if let Some(lock) = &lock {
            let _ = writeln!(text, "locked by {} ({})", lock.owner, lock.operation);
        }
        text
    };
    work.show(text, || json!({ "status": overall, "resources": report.resources, "lock": lock }))?;
    Ok(ExitCode::SUCCESS)
}

pub async fn destroy(common: Common) -> anyhow::Result<ExitCode> {
    let (mut work, built) = Work::begin(common).await?;
    let done = work
        .locked("destroy", async |work, mut state| {
            // A state that was lost does not hide what carries our labels.
            state.pack_id.clone_from(&built.deployment.pack_id);
            Ok(deploy::destroy(&work.target, state, work.store.as_mut(), &Progress::new()).await?)
        })
        .await?;
    let left: Vec<String> = done.state.resources.iter().map(|resource| resource.key.to_string()).collect();
    let text = || match left.len() {
        0 if done.failures.is_empty() => "destroyed\n".to_owned(),
        _ => format!("left: {}; destroy again to go on\n", left.join(", ")),
    };
    work.show(text, || json!({ "left": left, "failures": words(&done.failures) }))?;
    Ok(if done.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub async fn import(common: Common, type_: &str, name: &str) -> anyhow::Result<ExitCode> {
    let (mut work, built) = Work::begin(common).await?;
    let key = Key::new(type_, name);
    let resource = work
        .locked("import", async |work, mut state| {
            state.pack_id.clone_from(&built.deployment.pack_id);
            let (state, resource) = deploy::import(&work.target, state, &key).await?;
            work.store.keep(&state).await?;
            Ok(resource)
        })
        .await?;
    work.show(|| format!("{key} is part of the deployment ({})\n", resource.status), || json!(resource))?;
    Ok(ExitCode::SUCCESS)
}

pub async fn refresh(common: Common) -> anyhow::Result<ExitCode> {
    let (mut work, built) = Work::begin(common).await?;
    let found = work
        .locked("refresh", async |work, state| {
            let serial = state.serial;
            let (state, found) = deploy::refresh(&work.target, &built.deployment, &built.desired, state).await?;
            if state.serial != serial {
                work.store.keep(&state).await?;
            }
            Ok(found)
        })
        .await?;
    let text = || {
        let nothing = || "Nobody else changed anything.\n".to_owned();
        if found.is_empty() { nothing() } else { changes(found.iter(), colourful()) }
    };
    work.show(text, || json!({ "changes": found }))?;
    Ok(ExitCode::SUCCESS)
}

pub async fn unlock(common: Common, id: &str) -> anyhow::Result<ExitCode> {
    let (work, _) = Work::begin(common).await?;
    work.store.force_unlock(id).await?;
    work.show(|| format!("{id} is unlocked\n"), || json!({ "unlocked": id }))?;
    Ok(ExitCode::SUCCESS)
}
