//! What a Task runs on: an Agent over its template, or a template by itself.

use std::sync::Arc;

use api::kubeopencode::{
    ActiveTask, Agent, AgentTemplate, Blueprint, ContextItem, KubeOpenCodeConfigSpec, TaskStart, names,
};
use engine::{Error, Key, View};
use kube::ResourceExt;

use crate::pod::{Invalid, Limits, Settings};

/// An Agent with the template it follows, as they were observed.
#[derive(Clone, Debug)]
pub struct ObservedAgent {
    /// The Agent.
    pub agent: Arc<Agent>,
    /// Its template.
    pub template: Template,
}

/// The template of an Agent.
#[derive(Clone, Debug)]
pub enum Template {
    /// It names none.
    None,
    /// The one it names is not there.
    Missing,
    /// Here it is.
    Found(Arc<AgentTemplate>),
}

impl ObservedAgent {
    /// Looks up the template of an Agent.
    pub async fn of(agent: Arc<Agent>, view: &View) -> Result<Self, Error> {
        let template = match &agent.spec.template_ref {
            None => Template::None,
            Some(reference) => {
                let key = Key::new(agent.namespace().unwrap_or_default(), &reference.name);
                view.get::<AgentTemplate>(&key).await?.map_or(Template::Missing, Template::Found)
            }
        };
        Ok(Self { agent, template })
    }

    /// The Agent's settings over its template's.
    pub fn blueprint(&self) -> Result<Blueprint, Invalid> {
        let own = self.agent.spec.blueprint.clone();
        match &self.template {
            Template::None => Ok(own),
            Template::Found(template) => Ok(own.over(&template.spec.blueprint)),
            Template::Missing => {
                let name = self.agent.spec.template_ref.as_ref().map_or("", |reference| &reference.name);
                let problem = format!("AgentTemplate {name} does not exist in this namespace");
                Err(Invalid { field: "spec.templateRef.name", problem })
            }
        }
    }
}

/// What a Task runs on.
#[derive(Clone, Debug)]
pub enum Host {
    /// A running Agent.
    Agent(ObservedAgent),
    /// A Pod of its own.
    Template(Arc<AgentTemplate>),
    /// It names something that is not there.
    Missing(String),
}

impl Host {
    /// The merged settings.
    pub fn blueprint(&self) -> Result<Blueprint, Invalid> {
        match self {
            Self::Agent(observed) => observed.blueprint(),
            Self::Template(template) => Ok(template.spec.blueprint.clone()),
            Self::Missing(what) => {
                let field =
                    if what.starts_with("AgentTemplate") { "spec.templateRef.name" } else { "spec.agentRef.name" };
                Err(Invalid { field, problem: format!("{what} does not exist in this namespace") })
            }
        }
    }

    /// The checked settings.
    pub fn settings(&self, cluster: Option<&KubeOpenCodeConfigSpec>) -> Result<Settings, Invalid> {
        Settings::new(&self.blueprint()?, cluster)
    }

    /// The limits that Tasks on this host share.
    pub fn limits(&self) -> Limits {
        self.blueprint().map(|blueprint| Limits::of(&blueprint)).unwrap_or_default()
    }

    /// Tasks that the queue has let in.
    pub fn active_tasks(&self) -> &[ActiveTask] {
        match self {
            Self::Agent(observed) => observed.agent.status.as_ref().map_or(&[], |status| &status.active_tasks),
            Self::Template(template) => template.status.as_ref().map_or(&[], |status| &status.active_tasks),
            Self::Missing(_) => &[],
        }
    }

    /// Recent starts.
    pub fn history(&self) -> &[TaskStart] {
        match self {
            Self::Agent(observed) => observed.agent.status.as_ref().map_or(&[], |status| &status.task_start_history),
            Self::Template(template) => template.status.as_ref().map_or(&[], |status| &status.task_start_history),
            Self::Missing(_) => &[],
        }
    }

    /// The host's own contexts and where they are declared.
    pub fn contexts(&self) -> (String, Vec<ContextItem>) {
        let items = self.blueprint().ok().and_then(|blueprint| blueprint.contexts).unwrap_or_default();
        let source = match self {
            Self::Agent(observed) => format!("contexts of Agent {}", observed.agent.name_any()),
            Self::Template(template) => format!("contexts of AgentTemplate {}", template.name_any()),
            Self::Missing(what) => format!("contexts of {what}"),
        };
        (source, items)
    }
}

/// The address of an Agent's server.
pub fn agent_url(agent: &Agent, cluster_domain: &str) -> String {
    let namespace = agent.namespace().unwrap_or_default();
    format!("http://{}.{namespace}.svc.{cluster_domain}:{}", agent.name_any(), agent.spec.port)
}

/// The one configuration of the cluster, if there is one.
pub fn cluster_config(view: &View) -> Option<KubeOpenCodeConfigSpec> {
    let key = Key::new("", names::CONFIG_NAME);
    view.cached::<api::kubeopencode::KubeOpenCodeConfig>(&key).map(|config| config.spec.clone())
}
