//! `orrery up --demo`: an Agent with the real OpenCode and a first Task, so that there is something to see.
//!
//! With a provider's key in the environment the Agent uses that provider. Without one it uses a model that plays a script
//! and says so: enough to see an agent at work, and nothing that could be taken for more.

mod script;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context as _;
use api::kubeopencode::{Agent, Task};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::style;
use crate::work::{logs, run};

/// Variables that hold a provider's key, as OpenCode knows them.
const KEYS: [&str; 8] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
];

const NAME: &str = "demo";
const SECRET: &str = "demo-provider-keys";
const TASK: &str = "demo-hello";
const NAMESPACE: &str = "default";

/// What the demo needs.
pub struct Demo {
    pub client: kube::Client,
    /// Where logs of Pods that are gone are kept.
    pub logs: std::path::PathBuf,
    /// The link to the UI, to be said once more.
    pub link: String,
    /// Port of the scripted model, if it is free.
    pub port: u16,
}

impl Demo {
    /// Shows it, then keeps the scripted model going. A demo that fails says so; the plane goes on.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let keys = keys();
        let script = if keys.is_empty() { Some(listen(self.port).await?) } else { None };
        let port = script.as_ref().map(TcpListener::local_addr).transpose()?.map(|address| address.port());
        let serve = async {
            match script {
                Some(listener) => axum::serve(listener, model::router(Arc::new(script::turn))).await,
                None => std::future::pending().await,
            }
        };
        let show = async {
            if let Err(error) = self.show(&keys, port).await {
                style::error(&error.context("the demo failed; everything else runs"));
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = serve => Ok(served?),
            () = show => Ok(()),
            () = stop.cancelled() => Ok(()),
        }
    }

    async fn show(&self, keys: &BTreeMap<String, String>, port: Option<u16>) -> anyhow::Result<()> {
        self.declare(keys, port).await?;
        let used = if keys.is_empty() {
            "a demo model that plays a script (set ANTHROPIC_API_KEY, OPENAI_API_KEY or another key for a real one)"
                .into()
        } else {
            format!("your {}", keys.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
        };
        style::say(format_args!("\nStarting Agent {NAME}: the real OpenCode, with {used} …"));
        let agents: Api<Agent> = Api::namespaced(self.client.clone(), NAMESPACE);
        let ready = |agent: Option<&Agent>| agent.and_then(|a| a.status.as_ref()).is_some_and(|status| status.ready);
        await_condition(agents, NAME, ready).await.context("the Agent cannot be watched")?;
        Box::pin(self.first_task()).await?;
        let program = std::env::args().next().unwrap_or_else(|| "orrery".into());
        style::say(format_args!(
            "\nWhat next:\n  {}\n  {}\n  {}\n  or open {}\n",
            style::bold(&format!("{program} run \"Say what you can do\"")),
            style::bold("kubectl get agents,tasks"),
            style::bold(&format!("{program} why agent {NAME}")),
            self.link,
        ));
        Ok(())
    }

    /// The Agent, and the keys it needs.
    async fn declare(&self, keys: &BTreeMap<String, String>, port: Option<u16>) -> anyhow::Result<()> {
        let ours = PatchParams::apply("orrery-demo").force();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        if keys.is_empty() {
            // Keys of an earlier start; there may be none.
            let _ = secrets.delete(SECRET, &DeleteParams::default()).await;
        } else {
            let secret =
                json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET }, "stringData": keys });
            secrets.patch(SECRET, &ours, &Patch::Apply(secret)).await.context("the keys cannot be stored")?;
        }
        let agents: Api<Agent> = Api::namespaced(self.client.clone(), NAMESPACE);
        agents.patch(NAME, &ours, &Patch::Apply(agent(keys, port))).await.context("the Agent cannot be created")?;
        Ok(())
    }

    /// Creates the first Task, unless an earlier start did, and prints its log and what it used.
    async fn first_task(&self) -> anyhow::Result<()> {
        let tasks: Api<Task> = Api::namespaced(self.client.clone(), NAMESPACE);
        if tasks.get_opt(TASK).await?.is_some() {
            style::say(format_args!("Agent {NAME} is ready again."));
            return Ok(());
        }
        let task = serde_json::from_value(json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
            "metadata": { "name": TASK }, "spec": { "agentRef": { "name": NAME },
                "description": "Write hello.md, a file of two lines that greets whoever reads it. Then show it." } }))?;
        tasks.create(&PostParams::default(), &task).await.context("the first Task cannot be created")?;
        style::say(format_args!("Agent {NAME} is ready. Task {TASK} asks it to write a file; this is its log:\n"));
        let cluster =
            Cluster { client: self.client.clone(), namespace: NAMESPACE.into(), logs: Some(self.logs.clone()) };
        logs::follow(&cluster, TASK).await?;
        let ended = await_condition(tasks, TASK, run::is_over).await?.context("the Task was deleted")?;
        let (phase, why) = run::result(&ended);
        let summary = ended.status.and_then(|status| status.session).and_then(|session| session.summary);
        let summary = summary.unwrap_or_default();
        let tokens = summary.token_usage.unwrap_or_default();
        style::say(format_args!(
            "\nTask {TASK}: {} {why}({} tokens read, {} written, {} dollars, {} file changed)",
            style::green(&format!("{phase:?}")),
            tokens.input,
            tokens.output,
            summary.cost.unwrap_or_default(),
            summary.files_changed.unwrap_or_default(),
        ));
        Ok(())
    }
}

/// Keys that the user has, not empty.
fn keys() -> BTreeMap<String, String> {
    let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    KEYS.iter().filter_map(|name| Some(((*name).to_owned(), set(name)?))).collect()
}

async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?),
    }
}

fn agent(keys: &BTreeMap<String, String>, port: Option<u16>) -> Value {
    let disable = |name: &&str| variable(&format!("OPENCODE_DISABLE_{name}"), "1");
    let mut env: Vec<Value> = ["AUTOUPDATE", "LSP_DOWNLOAD"].iter().map(disable).collect();
    let mut spec = json!({ "profile": "Shows what an Agent is", "serviceAccountName": "default" });
    if let Some(port) = port {
        let url = format!("http://{}:{port}/v1", node::network::HOST_NAME);
        spec["config"] = model::opencode::config("orrery-demo", "Demo script (not a real model)", &url, (0.0, 0.0));
        // A script needs nothing from the network.
        env.extend(["MODELS_FETCH", "DEFAULT_PLUGINS"].iter().map(disable));
    }
    if !keys.is_empty() {
        spec["credentials"] = json!([{ "name": "provider", "secretRef": { "name": SECRET } }]);
        let model = std::env::var("ORRERY_DEMO_MODEL").ok().filter(|model| !model.is_empty());
        spec["config"] =
            model.map_or_else(|| json!({ "share": "disabled" }), |m| json!({ "share": "disabled", "model": m }));
    }
    spec["podSpec"] = json!({ "extraEnv": env });
    json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": { "name": NAME }, "spec": spec })
}

fn variable(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_ones_own_is_used_instead_of_the_script() {
        let keys = BTreeMap::from([("OPENAI_API_KEY".to_owned(), "secret".to_owned())]);
        let own = agent(&keys, None);
        assert_eq!(own["spec"]["credentials"][0]["secretRef"]["name"], SECRET);
        assert!(!own.to_string().contains("orrery-demo") && !own.to_string().contains("secret\""), "{own}");
        let scripted = agent(&BTreeMap::new(), Some(2747));
        assert!(scripted["spec"]["credentials"].is_null());
        assert!(scripted["spec"]["config"].to_string().contains(":2747/v1"), "{scripted}");
    }
}
