//! From settings and contexts to a recipe: a Pod in which an agent works.

use std::collections::BTreeMap;

use api::kubeopencode::CaBundle;
use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, Probe, ResourceRequirements, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::build::{Recipe, container};
use super::context::Contexts;
use super::environment::{self, CA_DIRECTORY, CONFIG_FILE};
use super::settings::{Settings, System};
use super::volume::{claim, config_map, empty, item, mount, read_only, secret, sub_path};

/// A Pod in which an agent works: everything its recipe is made from.
pub struct Workplace<'a> {
    /// Settings of the Agent or template.
    pub settings: &'a Settings,
    /// What the platform's operator decided.
    pub system: &'a System,
    /// What the agent should know.
    pub contexts: &'a Contexts,
    /// Name of the `ConfigMap` that carries the files.
    pub config_map: &'a str,
    /// Labels of the controller; they win over the user's.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the controller.
    pub annotations: BTreeMap<String, String>,
    /// The container that does the work.
    pub main: Main,
}

/// The container that does the work, and what is special about its Pod.
#[derive(Clone, Debug, Default)]
pub struct Main {
    /// Name of the container.
    pub name: &'static str,
    /// Its image.
    pub image: String,
    /// Its command.
    pub command: Vec<String>,
    /// Whether the command is the user's own, which may do without the agent.
    pub custom: bool,
    /// Variables after the first few, before the credentials.
    pub env: Vec<EnvVar>,
    /// Ports it listens on.
    pub ports: Vec<ContainerPort>,
    /// Until when it is starting.
    pub startup: Option<Probe>,
    /// Whether it must be restarted.
    pub liveness: Option<Probe>,
    /// Whether it can serve.
    pub readiness: Option<Probe>,
    /// `Never` for a Task, `Always` for a server.
    pub restart_policy: &'static str,
    /// The claim that keeps the workspace; an empty directory when `None`.
    pub workspace_claim: Option<String>,
    /// More volumes.
    pub volumes: Vec<Volume>,
    /// More mounts.
    pub mounts: Vec<VolumeMount>,
}

impl Workplace<'_> {
    /// What its Pod is made of.
    pub fn recipe(&self) -> Recipe {
        let pod = &self.settings.pod;
        let mut labels = pod.labels.clone().unwrap_or_default();
        labels.extend(self.labels.clone());
        Recipe {
            labels,
            annotations: self.annotations.clone(),
            init_containers: self.init_containers(),
            containers: vec![self.main_container()],
            volumes: self.volumes(),
            scheduling: pod.scheduling.clone().unwrap_or_default(),
            restart_policy: Some(self.main.restart_policy),
            service_account: Some(self.settings.service_account.clone()),
            image_pull_secrets: self.settings.image_pull_secrets.clone(),
            runtime_class: pod.runtime_class_name.clone(),
            security_context: pod.pod_security_context.clone(),
            ..Recipe::default()
        }
    }

    /// Repositories come before files, so that a file may be put inside a repository.
    fn init_containers(&self) -> Vec<Container> {
        let repositories = self.contexts.repositories.iter().enumerate();
        let downloads = self.contexts.downloads.iter().enumerate();
        std::iter::once(self.agent_init())
            .chain(self.helper_init())
            .chain(self.ca_init())
            .chain(repositories.map(|(index, repository)| self.git_init(index, repository)))
            .chain(self.context_init())
            .chain(downloads.map(|(index, download)| self.url_fetch(index, download)))
            .collect()
    }

    fn main_container(&self) -> Container {
        let pod = &self.settings.pod;
        let git = !self.contexts.repositories.is_empty();
        let mut env = environment::of_main(self.settings, &self.main.env, self.contexts.instructions, git);
        env.extend(environment::tail(self.settings, &self.system.cluster_domain));
        let secrets = environment::whole_secrets(&self.settings.credentials);
        let mut container = Container {
            working_dir: Some(self.settings.workspace.clone()),
            env: Some(env),
            env_from: (!secrets.is_empty()).then_some(secrets),
            ports: (!self.main.ports.is_empty()).then(|| self.main.ports.clone()),
            startup_probe: self.main.startup.clone(),
            liveness_probe: self.main.liveness.clone(),
            readiness_probe: self.main.readiness.clone(),
            resources: Some(pod.resources.clone().unwrap_or_else(default_resources)),
            lifecycle: pod.lifecycle.clone(),
            volume_mounts: Some(self.mounts()),
            ..container(self.main.name, &self.main.image, self.main.command.clone())
        };
        if let Some(context) = &pod.security_context {
            container.security_context = Some(context.clone());
        }
        container
    }

    fn volumes(&self) -> Vec<Volume> {
        let workspace = match &self.main.workspace_claim {
            Some(name) => claim("workspace", name),
            None => empty("workspace"),
        };
        let mut volumes = vec![empty("tools"), workspace];
        for (index, credential) in self.settings.credentials.iter().enumerate() {
            if credential.mount_path.is_none() {
                continue;
            }
            let mode = Some(credential.file_mode.unwrap_or(0o600));
            let items = credential.secret_ref.key.as_ref().map(|key| vec![item(key, "secret-file", mode)]);
            volumes.push(secret(format!("credential-{index}"), &credential.secret_ref.name, items, mode));
        }
        if self.contexts.files.iter().any(|file| self.in_workspace(&file.path)) {
            volumes.push(config_map("context-files", self.config_map, None, None, false));
        }
        if self.outside_files().next().is_some() {
            let items = self.outside_files().map(|file| item(&file.key, &file.key, file.mode)).collect();
            volumes.push(config_map("context-mounts", self.config_map, Some(items), None, false));
        }
        for (index, directory) in self.contexts.directories.iter().enumerate() {
            let mode = if self.in_workspace(&directory.path) { None } else { directory.mode };
            let volume =
                config_map(format!("dir-mount-{index}"), &directory.config_map, None, mode, directory.optional);
            volumes.push(volume);
        }
        volumes.extend((0..self.contexts.repositories.len()).map(|index| empty(format!("git-context-{index}"))));
        for (index, download) in self.contexts.downloads.iter().enumerate() {
            if !self.in_workspace(&download.path) {
                volumes.push(empty(format!("url-context-{index}")));
            }
        }
        volumes.extend(self.settings.ca_bundle.as_ref().map(ca_volume));
        volumes.extend(self.main.volumes.clone());
        volumes.extend(self.settings.pod.extra_volumes.clone().unwrap_or_default());
        volumes
    }

    fn mounts(&self) -> Vec<VolumeMount> {
        let mut mounts = vec![mount("tools", "/tools"), mount("workspace", &self.settings.workspace)];
        for (index, credential) in self.settings.credentials.iter().enumerate() {
            let Some(path) = &credential.mount_path else { continue };
            let whole = read_only(format!("credential-{index}"), path);
            mounts.push(if credential.secret_ref.key.is_some() { sub_path(whole, "secret-file") } else { whole });
        }
        for file in self.outside_files() {
            mounts.push(sub_path(read_only("context-mounts", &file.path), &file.key));
        }
        for (index, directory) in self.contexts.directories.iter().enumerate() {
            if !self.in_workspace(&directory.path) {
                mounts.push(read_only(format!("dir-mount-{index}"), &directory.path));
            }
        }
        if !self.contexts.repositories.is_empty() {
            mounts.push(sub_path(read_only("git-context-0", "/git/.gitconfig"), ".gitconfig"));
        }
        mounts.extend(self.repository_mounts());
        for (index, download) in self.contexts.downloads.iter().enumerate() {
            if !self.in_workspace(&download.path) {
                mounts.push(sub_path(mount(format!("url-context-{index}"), &download.path), "content"));
            }
        }
        if self.settings.ca_bundle.is_some() {
            mounts.push(read_only("ca-bundle", CA_DIRECTORY));
        }
        mounts.extend(self.main.mounts.clone());
        mounts.extend(self.settings.pod.extra_volume_mounts.clone().unwrap_or_default());
        mounts
    }

    /// Files outside of the workspace are mounted one by one, so that what the image has beside them stays visible.
    fn outside_files(&self) -> impl Iterator<Item = &super::context::File> {
        self.contexts.files.iter().filter(|file| !self.in_workspace(&file.path))
    }
}

impl Contexts {
    /// Adds the agent's configuration, where the container looks for it.
    #[must_use]
    pub fn with_config(mut self, settings: &Settings) -> Self {
        if let Some(config) = &settings.config {
            self.add_file(CONFIG_FILE, config.clone(), None);
        }
        self
    }
}

fn ca_volume(bundle: &CaBundle) -> Volume {
    let items =
        |key: Option<&String>, usual: &str| Some(vec![item(key.map_or(usual, String::as_str), "tls.crt", None)]);
    match (&bundle.config_map_ref, &bundle.secret_ref) {
        (Some(reference), _) => {
            config_map("ca-bundle", &reference.name, items(reference.key.as_ref(), "ca-bundle.crt"), None, false)
        }
        (None, Some(reference)) => secret("ca-bundle", &reference.name, items(reference.key.as_ref(), "ca.crt"), None),
        (None, None) => empty("ca-bundle"),
    }
}

fn default_resources() -> ResourceRequirements {
    let memory = |amount: &str| Some(BTreeMap::from([("memory".to_owned(), Quantity(amount.to_owned()))]));
    ResourceRequirements { requests: memory("512Mi"), limits: memory("4Gi"), ..ResourceRequirements::default() }
}
