//! Everything a Pod needs before its first container starts: directories, volumes, files, namespaces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use tokio_util::task::AbortOnDropHandle;

use super::{Input, Worker, back_off};
use crate::driver::{Identity, SandboxSpec};
use crate::environment::{Kind, Place, Sources};
use crate::images::Image;
use crate::plan;
use crate::process::give;
use crate::volumes::{self, Layout, Source};

/// Why a Pod is not ready for its containers.
pub(super) struct Trouble {
    pub reason: &'static str,
    pub message: String,
}

impl Trouble {
    fn new(reason: &'static str) -> impl FnOnce(String) -> Self {
        move |message| Self { reason, message }
    }

    fn io(doing: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { reason: "FailedMount", message: format!("{doing}: {error}") }
    }
}

impl Worker {
    pub(super) async fn open_sandbox(&mut self) {
        match self.try_open().await {
            Ok(()) => {
                self.tries = 0;
                self.retry = None;
                self.facts.trouble = None;
                self.facts.sandboxed = true;
                self.closed = false;
            }
            Err(trouble) => {
                self.node.events.say(&self.pod, "Warning", trouble.reason, &trouble.message);
                self.facts.trouble = Some((trouble.reason.to_owned(), trouble.message));
                self.retry = Some(Timestamp::now() + back_off(self.tries));
                self.tries += 1;
            }
        }
    }

    async fn try_open(&mut self) -> Result<(), Trouble> {
        if let Some(words) = plan::refusal(&self.pod) {
            return Err(Trouble { reason: "NotOffered", message: words });
        }
        let groups = self.node.groups.clone();
        tokio::task::spawn_blocking(move || groups.announce());
        let identity = self.identity()?;
        let layout = self.lay_out(&identity).await?;
        let network = self.node.network(&self.uid);
        self.facts.address = network.as_ref().map(|network| network.address.to_string());
        if !self.facts.isolation.in_force {
            // The Pod is where this machine is.
            self.facts.address = Some(std::net::Ipv4Addr::LOCALHOST.to_string());
        }
        self.write_own_files(&identity).map_err(Trouble::io("write /etc files"))?;
        self.write_volumes(&identity).await?;
        let spec = SandboxSpec {
            hostname: self.hostname(),
            volume_group: self.fs_group().filter(|_| matches!(identity, Identity::Subordinate { .. })),
            identity,
            volumes: layout.directories,
            memory_volumes: layout.memory,
            images: self.image_layers(),
            network,
            programs: self.node.programs.clone(),
        };
        let sandbox = self
            .node
            .driver
            .open(&self.uid, &spec)
            .await
            .map_err(|error| Trouble { reason: "IsolationUnavailable", message: words_of(&error) })?;
        let watch = sandbox
            .watch()
            .await
            .map_err(|error| Trouble { reason: "IsolationUnavailable", message: words_of(&error) })?;
        self.follow(watch.events);
        self.sandbox = Some(sandbox);
        Ok(())
    }

    /// Passes on what the sandbox tells.
    pub(super) fn follow(&mut self, mut events: tokio::sync::mpsc::Receiver<crate::driver::Event>) {
        let own = self.own.clone();
        self.watcher = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if own.send(Input::Container(event)).await.is_err() {
                    return;
                }
            }
            let _ = own.send(Input::SandboxGone).await;
        })));
    }

    pub(super) fn identity(&self) -> Result<Identity, Trouble> {
        let spec = self.pod.spec.clone().unwrap_or_default();
        let mut users = Vec::new();
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let image = self.node.images.find(container.image.as_deref().unwrap_or_default()).unwrap_or(Image::Host);
            // A refused user is said when its container starts.
            users.extend(plan::user(&self.pod, container, &image).ok());
        }
        self.node.driver.identity(&users).map_err(|error| Trouble { reason: "NotOffered", message: error.to_string() })
    }

    fn image_layers(&self) -> BTreeMap<String, Vec<PathBuf>> {
        let spec = self.pod.spec.clone().unwrap_or_default();
        let mut layers = BTreeMap::new();
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            if let Ok(Image::Imported(image)) = self.node.images.find(container.image.as_deref().unwrap_or_default()) {
                layers.insert(image.id, image.layers);
            }
        }
        layers
    }

    fn hostname(&self) -> String {
        let spec = self.pod.spec.as_ref();
        let declared = spec.and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
        let name = declared.unwrap_or_else(|| self.pod.name_any());
        // The kernel takes 64 bytes.
        name.chars().take(63).collect::<String>().trim_end_matches(['-', '.']).to_owned()
    }

    /// Makes the Pod's directories.
    async fn lay_out(&self, identity: &Identity) -> Result<Layout, Trouble> {
        let group = self.fs_group();
        let doing = "make the Pod's directories";
        for path in ["", "etc", "containers", "volumes"] {
            make_private(&self.directory.join(path), identity).map_err(Trouble::io(doing))?;
        }
        let mut layout = Layout::default();
        for volume in volumes::of(&self.pod) {
            let source = volumes::source(&volume).map_err(Trouble::new("FailedMount"))?;
            let directory = match source {
                Source::Memory(limit) => {
                    layout.memory.insert(volume.name, limit);
                    continue;
                }
                Source::Claim(claim) => {
                    let path = self.claim_directory(&claim).await?;
                    share(&path, identity, group).map_err(Trouble::io("prepare the claim's directory"))?;
                    path
                }
                Source::Empty => {
                    let path = self.directory.join("volumes").join(&volume.name);
                    share(&path, identity, group).map_err(Trouble::io(doing))?;
                    path
                }
                Source::Files => {
                    let path = self.directory.join("volumes").join(&volume.name);
                    make_private(&path, identity).map_err(Trouble::io(doing))?;
                    fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(Trouble::io(doing))?;
                    path
                }
            };
            layout.directories.insert(volume.name, directory);
        }
        Ok(layout)
    }

    /// A claim's directory outlives its Pods.
    async fn claim_directory(&self, name: &str) -> Result<PathBuf, Trouble> {
        let api: Api<PersistentVolumeClaim> = self.namespaced();
        let claim = api.get(name).await.map_err(|error| Trouble {
            reason: "FailedMount",
            message: format!("persistentvolumeclaim \"{name}\": {error}"),
        })?;
        Ok(crate::claims::place(&self.node.claims, &claim))
    }

    pub(super) fn fs_group(&self) -> Option<u32> {
        let context = self.pod.spec.as_ref()?.security_context.as_ref()?;
        context.fs_group.and_then(|group| u32::try_from(group).ok())
    }

    fn write_own_files(&self, identity: &Identity) -> io::Result<()> {
        let spec = self.pod.spec.clone().unwrap_or_default();
        let hostname = self.hostname();
        let mut hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
        if let Some(address) = &self.facts.address {
            let _ = writeln!(hosts, "{address}\t{hostname}");
        }
        for alias in spec.host_aliases.unwrap_or_default() {
            let _ = writeln!(hosts, "{}\t{}", alias.ip, alias.hostnames.unwrap_or_default().join(" "));
        }
        let namespace = self.pod.namespace().unwrap_or_default();
        let resolver = self.node.resolver_file(&namespace, spec.dns_config.as_ref());
        let etc = self.directory.join("etc");
        for (name, text) in [("hosts", hosts), ("hostname", format!("{hostname}\n")), ("resolv.conf", resolver)] {
            let path = etc.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
            give(&path, identity, None)?;
        }
        Ok(())
    }

    /// Writes every volume that holds files.
    async fn write_volumes(&mut self, identity: &Identity) -> Result<(), Trouble> {
        let sources = self.fetch(volumes::needs(&self.pod)).await.map_err(Trouble::new("FailedMount"))?;
        let tokens = self.tokens().await.map_err(Trouble::new("FailedMount"))?;
        let place = self.place();
        for volume in volumes::of(&self.pod) {
            if volumes::source(&volume) != Ok(Source::Files) {
                continue;
            }
            let files = volumes::payload(&self.pod, &volume, &sources, &tokens, &place).map_err(|words| Trouble {
                reason: "FailedMount",
                message: format!("volume {}: {words}", volume.name),
            })?;
            let directory = self.directory.join("volumes").join(&volume.name);
            volumes::files::write(&directory, &files, identity, self.fs_group())
                .map_err(Trouble::io(&format!("volume {}", volume.name)))?;
        }
        Ok(())
    }

    /// Writes volumes again when a ConfigMap or Secret in one of them changed.
    pub(super) async fn refresh_volumes(&mut self, kind: Kind, name: &str) {
        let concerned = volumes::needs(&self.pod).iter().any(|(other, needed)| *other == kind && needed == name);
        if self.sandbox.is_none() {
            // What was missing may be there now.
            self.retry = None;
            self.forget_obstacles();
            return;
        }
        self.forget_obstacles();
        if concerned {
            self.rewrite_volumes().await;
        }
    }

    fn forget_obstacles(&mut self) {
        for container in self.containers.values_mut() {
            if let Some(obstacle) = &mut container.obstacle
                && obstacle.reason == "CreateContainerConfigError"
            {
                obstacle.retry = Timestamp::now();
            }
        }
    }

    pub(super) async fn renew_tokens(&mut self) {
        self.renew = Some(Timestamp::now() + SignedDuration::from_secs(30));
        self.rewrite_volumes().await;
    }

    async fn rewrite_volumes(&mut self) {
        let outcome = match self.identity() {
            Ok(identity) => self.write_volumes(&identity).await,
            Err(trouble) => Err(trouble),
        };
        if let Err(trouble) = outcome {
            self.node.events.say(&self.pod, "Warning", trouble.reason, &trouble.message);
        }
    }

    /// The ConfigMaps and Secrets named, as they are now.
    pub(super) async fn fetch(&self, names: Vec<(Kind, String)>) -> Result<Sources, String> {
        let mut sources = Sources::default();
        for (kind, name) in names {
            match kind {
                Kind::ConfigMap if !sources.config_maps.contains_key(&name) => {
                    let found =
                        self.namespaced::<ConfigMap>().get_opt(&name).await.map_err(|error| error.to_string())?;
                    sources.config_maps.insert(name, found.map(config_map_data));
                }
                Kind::Secret if !sources.secrets.contains_key(&name) => {
                    let found = self.namespaced::<Secret>().get_opt(&name).await.map_err(|error| error.to_string())?;
                    let data = found.map(|secret| {
                        secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
                    });
                    sources.secrets.insert(name, data);
                }
                _ => {}
            }
        }
        Ok(sources)
    }

    /// Fresh tokens for the Pod's volumes, by audience.
    async fn tokens(&mut self) -> Result<BTreeMap<String, String>, String> {
        let mut tokens = BTreeMap::new();
        let spec = self.pod.spec.clone().unwrap_or_default();
        let account = spec.service_account_name.unwrap_or_else(|| "default".to_owned());
        for projection in volumes::token_requests(&self.pod) {
            let audience = projection.audience.unwrap_or_default();
            let request = TokenRequest {
                spec: TokenRequestSpec {
                    audiences: if audience.is_empty() { Vec::new() } else { vec![audience.clone()] },
                    expiration_seconds: projection.expiration_seconds.or(Some(3600)),
                    bound_object_ref: Some(BoundObjectReference {
                        api_version: Some("v1".to_owned()),
                        kind: Some("Pod".to_owned()),
                        name: Some(self.pod.name_any()),
                        uid: Some(self.uid.clone()),
                    }),
                },
                ..TokenRequest::default()
            };
            let accounts: Api<ServiceAccount> = self.namespaced();
            let answer = accounts.create_token_request(&account, &PostParams::default(), &request).await;
            let answer = answer.map_err(|error| format!("token for service account {account}: {error}"))?;
            let status = answer.status.ok_or_else(|| format!("token for service account {account}: none came"))?;
            // Renewed when a fifth of its life is left, as a kubelet does.
            let now = Timestamp::now();
            let life = status.expiration_timestamp.0.duration_since(now);
            let due = now + life * 4 / 5;
            self.renew = Some(self.renew.filter(|time| *time > now).map_or(due, |time| time.min(due)));
            tokens.insert(audience, status.token);
        }
        Ok(tokens)
    }

    pub(super) fn place(&self) -> Place {
        Place {
            pod_address: self.facts.address.clone().unwrap_or_default(),
            host_address: self.facts.host.clone(),
            cpu_millis: self.node.capacity.cpus * 1000,
            memory: self.node.capacity.memory,
        }
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.node.client.clone(), self.pod.namespace().as_deref().unwrap_or("default"))
    }
}

fn config_map_data(config_map: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = config_map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    let binary = config_map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    text.chain(binary).collect()
}

/// An error and what caused it.
pub(super) fn words_of(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words.push_str(": ");
        words.push_str(&error.to_string());
        source = error.source();
    }
    words
}

/// A directory that only the Pod's root can enter.
fn make_private(path: &Path, identity: &Identity) -> io::Result<()> {
    if !path.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    give(path, identity, None)
}

/// A directory that every user of the Pod can write.
fn share(path: &Path, identity: &Identity, group: Option<u32>) -> io::Result<()> {
    if !path.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    give(path, identity, group)?;
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    fs::set_permissions(path, Permissions::from_mode(mode))
}
