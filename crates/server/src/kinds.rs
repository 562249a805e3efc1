//! The table of kinds: a kind of any dialect is a row here and a page in the UI.

mod deployment;
mod omnia;
mod parts;
mod view;

use api::kubeopencode::names::{CONFIG_NAME, GROUP, VERSION};
use api::omnia::names::GROUP as OMNIA;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;

use crate::access::Resource;
use view::Shape;

/// How a kind is shown: the object as the Kubernetes API gives it → the shape of our routes.
pub type View = fn(&Value) -> Value;

/// One row.
pub struct Kind {
    /// The path segment, and the plural in the Kubernetes API.
    pub plural: &'static str,
    /// The key that holds the items of a list.
    pub list_key: &'static str,
    /// The name of the kind, as in `kind: Task`.
    pub name: &'static str,
    /// The API group.
    pub group: &'static str,
    /// The API version.
    pub version: &'static str,
    /// How it is shown.
    pub view: View,
    /// What is in its view, for the OpenAPI document.
    pub shape: Option<&'static Shape>,
    /// Prefix of generated names, for kinds whose objects may be created without one.
    pub generate_name: Option<&'static str>,
    /// For a kind that is kept in objects of another: which of them.
    pub kept_in: Option<KeptIn>,
}

/// Objects of the Kubernetes API that hold a kind of ours. They are read here, never written.
pub struct KeptIn {
    /// Their plural.
    pub plural: &'static str,
    /// What they are labelled with.
    pub selector: &'static str,
}

/// Every namespaced kind we serve.
pub static KINDS: &[Kind] = &[
    Kind {
        plural: "tasks",
        list_key: "tasks",
        name: "Task",
        group: GROUP,
        version: VERSION,
        view: view::task,
        shape: Some(&view::TASK),
        generate_name: Some("task-"),
        kept_in: None,
    },
    Kind {
        plural: "crontasks",
        list_key: "cronTasks",
        name: "CronTask",
        group: GROUP,
        version: VERSION,
        view: view::cron_task,
        shape: Some(&view::CRON_TASK),
        generate_name: None,
        kept_in: None,
    },
    Kind {
        plural: "agents",
        list_key: "agents",
        name: "Agent",
        group: GROUP,
        version: VERSION,
        view: view::agent,
        shape: Some(&view::AGENT),
        generate_name: None,
        kept_in: None,
    },
    Kind {
        plural: "agenttemplates",
        list_key: "templates",
        name: "AgentTemplate",
        group: GROUP,
        version: VERSION,
        view: view::template,
        shape: Some(&view::TEMPLATE),
        generate_name: None,
        kept_in: None,
    },
    of_omnia("promptpacks", "promptPacks", "PromptPack", |object| omnia::PROMPT_PACK.view(object), &omnia::PROMPT_PACK),
    of_omnia(
        "agentruntimes",
        "agentRuntimes",
        "AgentRuntime",
        |object| omnia::AGENT_RUNTIME.view(object),
        &omnia::AGENT_RUNTIME,
    ),
    of_omnia(
        "toolregistries",
        "toolRegistries",
        "ToolRegistry",
        |object| omnia::TOOL_REGISTRY.view(object),
        &omnia::TOOL_REGISTRY,
    ),
    of_omnia(
        "agentpolicies",
        "agentPolicies",
        "AgentPolicy",
        |object| omnia::AGENT_POLICY.view(object),
        &omnia::AGENT_POLICY,
    ),
    of_omnia("providers", "providers", "Provider", |object| omnia::PROVIDER.view(object), &omnia::PROVIDER),
    Kind {
        plural: "packdeployments",
        list_key: "packDeployments",
        name: "PackDeployment",
        group: "",
        version: "v1",
        view: deployment::view,
        shape: Some(&deployment::SHAPE),
        generate_name: None,
        kept_in: Some(KeptIn { plural: "secrets", selector: "orrery.dev/deployment=state" }),
    },
];

const fn of_omnia(
    plural: &'static str,
    list_key: &'static str,
    name: &'static str,
    view: View,
    shape: &'static Shape,
) -> Kind {
    Kind {
        plural,
        list_key,
        name,
        group: OMNIA,
        version: "v1alpha1",
        view,
        shape: Some(shape),
        generate_name: None,
        kept_in: None,
    }
}

/// What our objects are made of. It can be followed, so that a page shows it live; to change it is for `kubectl`.
pub static PARTS: &[Kind] = &[
    part("pods", "Pod", "", "v1", parts::pod),
    part("deployments", "Deployment", "apps", "v1", parts::deployment),
    part("services", "Service", "", "v1", parts::service),
];

const fn part(
    plural: &'static str,
    name: &'static str,
    group: &'static str,
    version: &'static str,
    view: View,
) -> Kind {
    Kind { plural, list_key: plural, name, group, version, view, shape: None, generate_name: None, kept_in: None }
}

/// Where `kubectl apply` keeps what it applied.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The cluster's settings: one object, not a collection.
pub static CONFIG: Kind = Kind {
    plural: "kubeopencodeconfigs",
    list_key: "configs",
    name: "KubeOpenCodeConfig",
    group: GROUP,
    version: VERSION,
    view: view::whole,
    shape: None,
    generate_name: None,
    kept_in: None,
};
/// Its only name.
pub const CONFIG_OBJECT: &str = CONFIG_NAME;

impl Kind {
    /// The row for a path segment.
    pub fn by_plural(plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.plural == plural)
    }

    /// `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The plural in the Kubernetes API.
    fn api_plural(&self) -> &'static str {
        self.kept_in.as_ref().map_or(self.plural, |kept| kept.plural)
    }

    /// A label selector that is the caller's, and chooses only objects of the kind.
    pub fn selector(&self, wanted: Option<&str>) -> Option<String> {
        let own = self.kept_in.as_ref().map(|kept| kept.selector);
        let parts: Vec<&str> = own.into_iter().chain(wanted).filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    /// Whether an object is of the kind, and not of another that is kept in the same place.
    pub fn holds(&self, object: &DynamicObject) -> bool {
        let Some((label, value)) = self.kept_in.as_ref().and_then(|kept| kept.selector.split_once('=')) else {
            return true;
        };
        object.metadata.labels.as_ref().and_then(|labels| labels.get(label)).is_some_and(|found| found == value)
    }

    /// The kind for questions about what a caller may do.
    pub fn access(&self) -> Resource<'static> {
        Resource { group: self.group, plural: self.api_plural(), subresource: "" }
    }

    /// The kind for the Kubernetes client.
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: if self.kept_in.is_some() { "Secret" } else { self.name }.to_owned(),
            plural: self.api_plural().to_owned(),
        }
    }

    /// Objects in one namespace, or in all of them.
    pub fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource()),
            None => Api::all_with(client.clone(), &self.resource()),
        }
    }
}
