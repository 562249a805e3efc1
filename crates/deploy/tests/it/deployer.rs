//! One deployment of a pack to a namespace.

use std::time::Duration;

use orrery_deploy::kubernetes::{self, Built, Config, Kubernetes};
use orrery_deploy::{Applied, Patience, Plan, Problems, Quiet, State, apply, plan};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub fn config(namespace: &str) -> Config {
    Config::parse(&json!({ "workspace": namespace, "providers": { "default": "mock" } }).to_string()).unwrap()
}

pub fn patience() -> Patience {
    Patience { pause: Duration::from_millis(1), settle: Duration::from_secs(30), ..Patience::default() }
}

pub struct Deployer {
    pub target: Kubernetes,
    pub built: Built,
}

impl Deployer {
    pub fn new(client: kube::Client, pack: &Value, config: &Config, patience: Patience) -> Self {
        let built = kubernetes::build(&pack.to_string(), config, None).unwrap();
        let (id, version) = (&built.deployment.pack_id, &built.deployment.version);
        Self { target: Kubernetes::new(client, config, id, version, patience), built }
    }

    pub async fn plan(&self, state: &State) -> Result<Plan, Problems> {
        plan(&self.target, &self.built.deployment, &self.built.desired, state).await
    }

    pub async fn apply(&self, state: State) -> Result<Applied, Problems> {
        let plan = self.plan(&state).await?;
        Ok(apply(&self.target, &plan, state, &mut (), &Quiet, &CancellationToken::new()).await?)
    }
}

/// The lines of a plan.
pub fn lines(plan: &Plan) -> Vec<String> {
    plan.changes.iter().map(ToString::to_string).collect()
}
