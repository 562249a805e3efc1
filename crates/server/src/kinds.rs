//! The table of kinds: a kind of any dialect is a row here and a page in the UI.

mod parts;
mod view;

use api::kubeopencode::names::{CONFIG_NAME, GROUP, VERSION};
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
    },
];

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
    Kind { plural, list_key: plural, name, group, version, view, shape: None, generate_name: None }
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

    /// The kind for questions about what a caller may do.
    pub fn access(&self) -> Resource<'static> {
        Resource { group: self.group, plural: self.plural, subresource: "" }
    }

    /// The kind for the Kubernetes client.
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
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
