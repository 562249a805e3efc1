//! What each method does. Every one that takes a configuration checks all of it first.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::wire::{Error, Request};
use super::{Adapter, Connect};
use crate::change::{Change, Plan};
use crate::event::{Event, Report};
use crate::failure::{Category, Failure};
use crate::kubernetes::{self, Config, Kubernetes, SCHEMA};
use crate::resource::Key;
use crate::state::State;
use crate::{apply, destroy, dry_run, import, plan, status};

/// How many fields of a change are told in a line.
const FIELDS: usize = 3;
/// How much of a value is told in a line.
const LETTERS: usize = 60;

#[derive(Deserialize)]
struct Validate {
    config: String,
}

#[derive(Deserialize)]
struct Wanted {
    pack_json: String,
    #[serde(default)]
    deploy_config: String,
    #[serde(default)]
    environment: String,
    #[serde(default)]
    prior_state: String,
}

#[derive(Deserialize)]
struct Deployed {
    #[serde(default)]
    deploy_config: String,
    #[serde(default)]
    prior_state: String,
}

#[derive(Deserialize)]
struct Import {
    resource_type: String,
    resource_name: String,
    #[serde(default)]
    identifier: String,
    #[serde(flatten)]
    deployed: Deployed,
}

/// Events are kept for the answer.
#[derive(Default)]
struct Kept(Mutex<Vec<Event>>);

impl Report for Kept {
    fn event(&self, event: Event) {
        tracing::info!(message = event.message, "event");
        self.0.lock().push(event);
    }
}

impl<C: Connect> Adapter<C> {
    pub(super) async fn call(&self, request: &Request) -> Result<Value, Error> {
        match request.method.as_str() {
            "get_provider_info" => Ok(json!({
                "name": "omnia",
                "version": env!("CARGO_PKG_VERSION"),
                "capabilities": ["plan", "apply", "destroy", "status", "import"],
                "config_schema": SCHEMA,
            })),
            "validate_config" => {
                let Validate { config } = request.params()?;
                Ok(match Config::parse(&config) {
                    Ok(config) => json!({ "valid": true, "warnings": config.warnings }),
                    Err(invalid) => json!({ "valid": false, "errors": invalid.0 }),
                })
            }
            "plan" => self.plan(&request.params()?).await,
            "apply" => self.apply(request.params()?).await,
            "destroy" => self.destroy(&request.params()?).await,
            "status" => self.status(&request.params()?).await,
            "import" => self.import(&request.params()?).await,
            other => Err(Error::unknown(other)),
        }
    }

    async fn target(&self, config: &Config, pack: &str, version: &str) -> Result<Kubernetes, Error> {
        let client = self.connect.connect(config).await?;
        Ok(Kubernetes::new(client, config, pack, version, self.patience))
    }

    async fn decide(&self, params: &Wanted) -> Result<(Config, Kubernetes, State, Plan), Error> {
        let config = config(&params.deploy_config)?;
        let mut state = State::parse(&params.prior_state)?;
        let environment = Some(params.environment.as_str()).filter(|name| !name.is_empty());
        let built = kubernetes::build(&params.pack_json, &config, environment)?;
        let deployment = &built.deployment;
        let target = self.target(&config, &deployment.pack_id, &deployment.version).await?;
        let mut warnings = config.warnings.clone();
        // The caller has one state for all environments, and hands over whichever was deployed last.
        if let Some(other) = state.scope.clone().filter(|scope| *scope != format!("kubernetes:{}", config.workspace)) {
            warnings
                .push(format!("the state is of {other} and was set aside: what is live here is found by its labels"));
            state = State::default();
        }
        let mut plan = plan(&target, deployment, &built.desired, &state).await?;
        plan.warnings.splice(0..0, warnings);
        Ok((config, target, state, plan))
    }

    async fn plan(&self, params: &Wanted) -> Result<Value, Error> {
        let (_, _, _, plan) = self.decide(params).await?;
        let changes: Vec<Value> = plan.changes.iter().map(change).collect();
        Ok(json!({ "changes": changes, "summary": plan.summary(), "warnings": plan.warnings }))
    }

    /// What fails is told in events and in the state, so that the caller keeps what was done.
    async fn apply(&self, params: Wanted) -> Result<Value, Error> {
        let (config, target, state, plan) = self.decide(&params).await?;
        let events = Kept::default();
        let state = if config.dry_run {
            dry_run(&plan, state, &events)
        } else {
            apply(&target, &plan, state, &mut (), &events, &CancellationToken::new()).await?.state
        };
        Ok(json!({ "adapter_state": state.to_text(), "events": *events.0.lock() }))
    }

    async fn destroy(&self, params: &Deployed) -> Result<Value, Error> {
        let config = config(&params.deploy_config)?;
        let state = State::parse(&params.prior_state)?;
        let events = Kept::default();
        if state.pack_id.is_empty() && state.resources.is_empty() {
            return Ok(json!({ "status": "destroyed", "events": nothing() }));
        }
        let target = self.target(&config, &state.pack_id, &state.version).await?;
        let done = destroy(&target, state, &mut (), &events).await?;
        if done.failures.is_empty() {
            return Ok(json!({ "status": "destroyed", "events": *events.0.lock() }));
        }
        // A success would make the caller forget what is left.
        let left: Vec<String> = done.state.resources.iter().map(|resource| resource.key.to_string()).collect();
        let why: Vec<String> = done.failures.iter().map(ToString::to_string).collect();
        let left = if left.is_empty() { "nothing that is known".to_owned() } else { left.join(", ") };
        Err(Error::internal(format!(
            "destroy is not complete; left: {left}; destroy again to go on; {}",
            why.join("; ")
        )))
    }

    async fn status(&self, params: &Deployed) -> Result<Value, Error> {
        let config = config(&params.deploy_config)?;
        let state = State::parse(&params.prior_state)?;
        if state.resources.is_empty() {
            return Ok(json!({ "status": "not_deployed", "state": params.prior_state }));
        }
        let target = self.target(&config, &state.pack_id, &state.version).await?;
        let report = status(&target, state).await?;
        Ok(json!({ "status": report.status, "resources": report.resources, "state": report.state.to_text() }))
    }

    async fn import(&self, params: &Import) -> Result<Value, Error> {
        let config = config(&params.deployed.deploy_config)?;
        let state = State::parse(&params.deployed.prior_state)?;
        let name = &params.resource_name;
        let names = [String::new(), name.clone(), format!("{}/{name}", config.workspace)];
        if !names.contains(&params.identifier) {
            let message =
                format!("{:?} cannot become {name:?}: objects of Kubernetes keep their names", params.identifier);
            return Err(Failure::new(Category::Configuration, message)
                .hint(format!("the identifier is {name}"))
                .into());
        }
        let target = self.target(&config, &state.pack_id, &state.version).await?;
        let (state, resource) = import(&target, state, &Key::new(&params.resource_type, name)).await?;
        Ok(json!({ "resource": resource, "state": state.to_text() }))
    }
}

fn config(text: &str) -> Result<Config, Error> {
    Config::parse(text).map_err(|invalid| Error::internal(format!("invalid configuration: {invalid}")))
}

fn nothing() -> [Event; 2] {
    [Event::note("No resources to destroy".into()), Event::complete("Destroy complete (nothing to do)".into())]
}

fn change(change: &Change) -> Value {
    json!({ "type": change.key.type_, "name": change.key.name, "action": change.action, "detail": detail(change) })
}

/// The change in a line, with the first of its fields.
fn detail(change: &Change) -> String {
    let mut text = change.detail.clone();
    for (at, field) in change.fields.iter().take(FIELDS).enumerate() {
        text.push_str(if at == 0 { ": " } else { ", " });
        text.push_str(&field.line(LETTERS));
    }
    if change.fields.len() > FIELDS {
        text.push_str(", …");
    }
    text
}
