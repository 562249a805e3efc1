//! The built-in rows.

use machinery::meta::NameRule;

use super::columns::{self, Columns};
use super::{Conversion, Kind, Printer, Scale, Storage, Subresource, Writing, api_version};
use crate::hooks::{self, Hooks, Plain};
use crate::request::Verb;

const ALL: [Verb; 8] =
    [Verb::Create, Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];
const CHANGE: [Verb; 3] = [Verb::Get, Verb::Patch, Verb::Update];

/// Every built-in kind.
pub fn rows() -> Vec<Kind> {
    [core(), apps(), rbac(), other(), reviews()].into_iter().flatten().collect()
}

fn core() -> Vec<Kind> {
    vec![
        row("", "v1", "Namespace", "namespaces")
            .cluster()
            .short(&["ns"])
            .named(NameRule::DnsLabel)
            .status()
            .below("finalize", "", "v1", "Namespace", &[Verb::Update])
            .verbs(&[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch])
            .select(&["status.phase"])
            .print(&columns::NAMESPACES)
            .hooks(&hooks::namespace::Namespace)
            .done(),
        row("", "v1", "ConfigMap", "configmaps").short(&["cm"]).print(&columns::CONFIG_MAPS).done(),
        row("", "v1", "Secret", "secrets")
            .select(&["type"])
            .print(&columns::SECRETS)
            .hooks(&hooks::secret::Secret)
            .done(),
        row("", "v1", "ServiceAccount", "serviceaccounts")
            .short(&["sa"])
            .below("token", "authentication.k8s.io", "v1", "TokenRequest", &[Verb::Create])
            .returns_deleted()
            .print(&columns::SERVICE_ACCOUNTS)
            .done(),
        row("", "v1", "Service", "services")
            .short(&["svc"])
            .categories(&["all"])
            .named(NameRule::DnsLabel)
            .status()
            .select(&["spec.clusterIP", "spec.type"])
            .returns_deleted()
            .print(&columns::SERVICES)
            .hooks(&hooks::service::Service)
            .done(),
        pods(),
        row("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            .short(&["pvc"])
            .status()
            .returns_deleted()
            .print(&columns::CLAIMS)
            .hooks(&hooks::persistent_volume_claim::Claim)
            .done(),
        row("", "v1", "Node", "nodes")
            .cluster()
            .short(&["no"])
            .status()
            .status_on_create()
            .select(&["spec.unschedulable"])
            .print(&columns::NODES)
            .done(),
        row("", "v1", "Event", "events")
            .short(&["ev"])
            .create_on_update()
            .select(&[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ])
            .print(&columns::EVENTS)
            .hooks(&hooks::event::Event)
            .done(),
        row("events.k8s.io", "v1", "Event", "events")
            .short(&["ev"])
            .create_on_update()
            .select(&[
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reason",
                "reportingController",
                "type",
            ])
            .stored_as("/events", "v1", Conversion::Events)
            .print(&columns::EVENTS)
            .hooks(&hooks::event::Event)
            .done(),
    ]
}

fn pods() -> Kind {
    row("", "v1", "Pod", "pods")
        .short(&["po"])
        .categories(&["all"])
        .status()
        .generation()
        .below("log", "", "v1", "Pod", &[Verb::Get])
        .below("exec", "", "v1", "PodExecOptions", &[Verb::Create, Verb::Get])
        .below("attach", "", "v1", "PodAttachOptions", &[Verb::Create, Verb::Get])
        .below("portforward", "", "v1", "PodPortForwardOptions", &[Verb::Create, Verb::Get])
        .below("binding", "", "v1", "Binding", &[Verb::Create])
        .below("eviction", "policy", "v1", "Eviction", &[Verb::Create])
        .select(&[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ])
        .returns_deleted()
        .print(&columns::PODS)
        .hooks(&hooks::pod::Pod)
        .done()
}

fn apps() -> Vec<Kind> {
    vec![
        row("apps", "v1", "Deployment", "deployments")
            .short(&["deploy"])
            .categories(&["all"])
            .status()
            .generation()
            .scale(None)
            .print(&columns::DEPLOYMENTS)
            .done(),
        row("apps", "v1", "ReplicaSet", "replicasets")
            .short(&["rs"])
            .categories(&["all"])
            .status()
            .generation()
            .scale(None)
            .select(&["status.replicas"])
            .print(&columns::REPLICA_SETS)
            .done(),
    ]
}

fn rbac() -> Vec<Kind> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let row = |kind, plural| row(GROUP, "v1", kind, plural).named(NameRule::PathSegment).create_on_update();
    vec![
        row("Role", "roles").print(&columns::ROLES).hooks(&hooks::role::Grants("roles")).done(),
        row("RoleBinding", "rolebindings").print(&columns::BINDINGS).hooks(&hooks::role::Grants("rolebindings")).done(),
        row("ClusterRole", "clusterroles")
            .cluster()
            .print(&columns::ROLES)
            .hooks(&hooks::role::Grants("clusterroles"))
            .done(),
        row("ClusterRoleBinding", "clusterrolebindings")
            .cluster()
            .print(&columns::BINDINGS)
            .hooks(&hooks::role::Grants("clusterrolebindings"))
            .done(),
    ]
}

fn other() -> Vec<Kind> {
    vec![
        row("coordination.k8s.io", "v1", "Lease", "leases").create_on_update().print(&columns::LEASES).done(),
        row("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
            .generation()
            .print(&columns::ENDPOINT_SLICES)
            .done(),
        row("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
            .cluster()
            .short(&["crd", "crds"])
            .categories(&["api-extensions"])
            .status()
            .generation()
            .strict_update()
            .hooks(&hooks::definition::Definition)
            .done(),
    ]
}

fn reviews() -> Vec<Kind> {
    let review = |group, kind, plural| row(group, "v1", kind, plural).cluster().asked().done();
    let mut rows = vec![
        review("authentication.k8s.io", "TokenReview", "tokenreviews"),
        review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
        review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
        review("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
        review("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    ];
    rows.push(
        row("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews").asked().done(),
    );
    rows
}

/// A row under construction.
struct Row(Kind);

fn row(group: &str, version: &str, kind: &str, plural: &str) -> Row {
    let api_version = api_version(group, version);
    Row(Kind {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: ALL.to_vec(),
        subresources: Vec::new(),
        storage: Some(Storage {
            resource: format!("{group}/{plural}").into(),
            api_version: api_version.clone(),
            conversion: Conversion::Same,
        }),
        schema: machinery::builtin::schema(&api_version, kind),
        rules: None,
        name_rule: NameRule::DnsSubdomain,
        printer: Printer::Code(&columns::PLAIN),
        selectable: Vec::new(),
        scale: None,
        writing: Writing::default(),
        hooks: &Plain,
        custom: false,
        fingerprint: String::new(),
        deprecation: None,
    })
}

impl Row {
    fn done(self) -> Kind {
        self.0
    }

    fn cluster(mut self) -> Self {
        self.0.namespaced = false;
        self
    }

    fn short(mut self, names: &[&str]) -> Self {
        self.0.short_names = names.iter().map(ToString::to_string).collect();
        self
    }

    fn categories(mut self, names: &[&str]) -> Self {
        self.0.categories = names.iter().map(ToString::to_string).collect();
        self
    }

    fn named(mut self, rule: NameRule) -> Self {
        self.0.name_rule = rule;
        self
    }

    fn verbs(mut self, verbs: &[Verb]) -> Self {
        self.0.verbs = verbs.to_vec();
        self
    }

    fn below(mut self, name: &str, group: &str, version: &str, kind: &str, verbs: &[Verb]) -> Self {
        self.0.subresources.push(Subresource {
            name: name.into(),
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            verbs: verbs.to_vec(),
        });
        self
    }

    fn status(mut self) -> Self {
        self.0.writing.status = true;
        self.0.writing.status_metadata = self.0.group.is_empty();
        let (group, version, kind) = (self.0.group.clone(), self.0.version.clone(), self.0.kind.clone());
        self.below("status", &group, &version, &kind, &CHANGE)
    }

    fn status_on_create(mut self) -> Self {
        self.0.writing.status_on_create = true;
        self
    }

    fn generation(mut self) -> Self {
        self.0.writing.generation = true;
        self
    }

    fn scale(mut self, selector: Option<&str>) -> Self {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        self.0.scale = Some(Scale {
            spec_replicas: path("spec.replicas"),
            status_replicas: path("status.replicas"),
            selector: selector.map(path),
        });
        self.below("scale", "autoscaling", "v1", "Scale", &CHANGE)
    }

    fn select(mut self, fields: &[&str]) -> Self {
        self.0.selectable = fields.iter().map(ToString::to_string).collect();
        self
    }

    fn stored_as(mut self, resource: &str, api_version: &str, conversion: Conversion) -> Self {
        self.0.storage = Some(Storage { resource: resource.into(), api_version: api_version.into(), conversion });
        self
    }

    /// A kind that is only asked, never kept.
    fn asked(mut self) -> Self {
        self.0.storage = None;
        self.0.verbs = vec![Verb::Create];
        self
    }

    fn strict_update(mut self) -> Self {
        self.0.writing.strict_update = true;
        self
    }

    fn create_on_update(mut self) -> Self {
        self.0.writing.create_on_update = true;
        self
    }

    fn returns_deleted(mut self) -> Self {
        self.0.writing.returns_deleted = true;
        self
    }

    fn print(mut self, columns: &'static Columns) -> Self {
        self.0.printer = Printer::Code(columns);
        self
    }

    fn hooks(mut self, hooks: &'static dyn Hooks) -> Self {
        self.0.hooks = hooks;
        self
    }
}
