//! The containers that prepare a Pod before its main container starts. Their contract (command, variables, paths) is
//! the original's, so either system image serves.

use api::kubeopencode::images;
use k8s_openapi::api::core::v1::{Container, EnvVar, VolumeMount};
use serde_json::json;

use super::build::container;
use super::context::{Download, Repository};
use super::environment::{CA_DIRECTORY, CA_FILE, CA_MERGED, basics, from_secret, tail, variable};
use super::settings::Tools;
use super::volume::{mount, read_only, sub_path};
use super::workplace::Workplace;

impl Workplace<'_> {
    /// A container of the system image that runs one of our verbs.
    fn system(&self, name: String, verb: &str, env: Vec<EnvVar>, mounts: Vec<VolumeMount>) -> Container {
        let mut container = Container {
            image_pull_policy: Some(self.system.pull_policy.as_str().into()),
            env: Some(basics(&self.settings.workspace).into_iter().chain(env).collect()),
            volume_mounts: Some(mounts),
            ..container(name, &self.system.image, vec!["/kubeopencode".into(), verb.into()])
        };
        self.finish(&mut container);
        container
    }

    /// Certificates, proxies and the user's additions, which every container gets.
    fn finish(&self, container: &mut Container) {
        let env = container.env.get_or_insert_default();
        if self.settings.ca_bundle.is_some() {
            env.push(variable("CUSTOM_CA_CERT_PATH", CA_FILE));
            container.volume_mounts.get_or_insert_default().push(read_only("ca-bundle", CA_DIRECTORY));
        }
        env.extend(tail(self.settings, &self.system.cluster_domain));
    }

    /// Brings the agent's binary to `/tools`.
    pub(super) fn agent_init(&self) -> Container {
        let tools = vec![variable("TOOLS_DIR", "/tools")];
        let mounts = vec![mount("tools", "/tools")];
        match self.system.tools {
            Tools::Linked => {
                let mut env = tools;
                if self.main.custom {
                    env.push(variable("TOOLS_OPTIONAL", "true"));
                }
                if !(self.system.linked_images.0)(&self.main.image) {
                    env.push(variable("TOOLS_COPY", "true"));
                }
                self.system("opencode-init".into(), "tools-init", env, mounts)
            }
            Tools::Copied => {
                let mut container = Container {
                    env: Some(tools),
                    volume_mounts: Some(mounts),
                    ..container("opencode-init", &self.settings.images.agent, Vec::new())
                };
                self.finish(&mut container);
                container
            }
        }
    }

    /// Brings our own binary to `/tools`, where it is not linked already.
    pub(super) fn helper_init(&self) -> Option<Container> {
        let image = self.system.helper_image.as_ref().filter(|_| !self.main.custom)?;
        let env = vec![variable("TOOLS_DIR", "/tools")];
        let mut container = self.system("helper-init".into(), "self-init", env, vec![mount("tools", "/tools")]);
        container.image = Some(image.clone());
        container.image_pull_policy = Some(images::pull_policy(image).into());
        Some(container)
    }

    /// Joins the image's own list of authorities with the user's, in the image that will use it.
    pub(super) fn ca_init(&self) -> Option<Container> {
        self.settings.ca_bundle.as_ref()?;
        let script = format!(
            "for system in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do \
             if [ -r \"$system\" ]; then cat \"$system\"; echo; break; fi; done > {CA_MERGED} && cat {CA_FILE} >> {CA_MERGED}"
        );
        Some(Container {
            volume_mounts: Some(vec![mount("tools", "/tools"), read_only("ca-bundle", CA_DIRECTORY)]),
            ..container("ca-init", &self.main.image, vec!["sh".into(), "-c".into(), script])
        })
    }

    /// Clones a repository into a volume of its own, or over the workspace when it belongs there.
    pub(super) fn git_init(&self, index: usize, repository: &Repository) -> Container {
        let git = &repository.git;
        let mut env = vec![
            variable("GIT_REPO", &git.repository),
            variable("GIT_REF", &git.reference),
            variable("GIT_DEPTH", git.depth.to_string()),
            variable("GIT_ROOT", "/git"),
            variable("GIT_LINK", "repo"),
        ];
        if git.recurse_submodules == Some(true) {
            env.push(variable("GIT_RECURSE_SUBMODULES", "true"));
        }
        if let Some(secret) = &git.secret_ref {
            let keys = [
                ("GIT_USERNAME", "username"),
                ("GIT_PASSWORD", "password"),
                ("GIT_SSH_KEY", "ssh-privatekey"),
                ("GIT_SSH_KNOWN_HOSTS", "ssh-known-hosts"),
            ];
            env.extend(keys.map(|(name, key)| from_secret(name, &secret.name, key, true)));
        }
        let mut mounts = vec![mount(format!("git-context-{index}"), "/git")];
        if repository.path == self.settings.workspace {
            env.push(variable("GIT_WORKSPACE_DIR", &self.settings.workspace));
            env.push(variable("GIT_REPO_SUBPATH", git.path.as_deref().unwrap_or_default().trim_matches('/')));
            mounts.push(mount("workspace", &self.settings.workspace));
        }
        if repository.optional {
            env.push(variable("CONTEXT_OPTIONAL", "true"));
        }
        self.system(format!("git-init-{index}"), "git-init", env, mounts)
    }

    /// Writes files and directories into the workspace; `None` when there are none.
    pub(super) fn context_init(&self) -> Option<Container> {
        let inside = |path: &str| self.in_workspace(path);
        let files: Vec<_> = self.contexts.files.iter().filter(|file| inside(&file.path)).collect();
        let directories: Vec<_> =
            self.contexts.directories.iter().enumerate().filter(|(_, directory)| inside(&directory.path)).collect();
        if files.is_empty() && directories.is_empty() {
            return None;
        }
        let mapping = |key: &str, path: &str, mode: Option<i32>| match mode {
            Some(mode) => json!({ "key": key, "targetPath": path, "fileMode": mode }),
            None => json!({ "key": key, "targetPath": path }),
        };
        let files: Vec<_> = files.iter().map(|file| mapping(&file.key, &file.path, file.mode)).collect();
        let mut mounts = vec![mount("workspace", &self.settings.workspace)];
        if !files.is_empty() {
            mounts.push(read_only("context-files", "/configmap-files"));
        }
        let mut mapped = Vec::new();
        for (index, directory) in directories {
            let source = format!("/configmap-dir-{index}");
            mounts.push(read_only(format!("dir-mount-{index}"), &source));
            mapped.push(match directory.mode {
                Some(mode) => json!({ "sourcePath": source, "targetPath": directory.path, "fileMode": mode }),
                None => json!({ "sourcePath": source, "targetPath": directory.path }),
            });
        }
        mounts.extend(self.repository_mounts().filter(|mount| inside(&mount.mount_path)));
        let env = vec![
            variable("CONFIGMAP_PATH", "/configmap-files"),
            variable("FILE_MAPPINGS", json!(files).to_string()),
            variable("DIR_MAPPINGS", json!(mapped).to_string()),
        ];
        Some(self.system("context-init".into(), "context-init", env, mounts))
    }

    /// Fetches a file into the workspace, or into a volume of its own.
    pub(super) fn url_fetch(&self, index: usize, download: &Download) -> Container {
        let inside = self.in_workspace(&download.path);
        let mut mounts = Vec::new();
        let target = if inside {
            mounts.push(mount("workspace", &self.settings.workspace));
            mounts.extend(self.repository_mounts().filter(|mount| self.in_workspace(&mount.mount_path)));
            download.path.clone()
        } else {
            mounts.push(mount(format!("url-context-{index}"), "/fetched"));
            "/fetched/content".to_owned()
        };
        let url = &download.url;
        let mut env = vec![
            variable("URL_SOURCE", &url.source),
            variable("URL_TARGET", target),
            variable("URL_TIMEOUT", url.timeout.to_string()),
        ];
        if let Some(headers) = &url.headers {
            env.push(variable("URL_HEADERS", json!(headers).to_string()));
        }
        if url.insecure_skip_tls_verify == Some(true) {
            env.push(variable("URL_INSECURE", "true"));
        }
        if let Some(secret) = &url.secret_ref {
            let keys =
                [("URL_AUTH_TOKEN", "token"), ("URL_AUTH_USERNAME", "username"), ("URL_AUTH_PASSWORD", "password")];
            env.extend(keys.map(|(name, key)| from_secret(name, &secret.name, key, true)));
        }
        if let Some(mode) = download.mode {
            env.push(variable("URL_FILE_MODE", format!("{mode:o}")));
        }
        if download.optional {
            env.push(variable("CONTEXT_OPTIONAL", "true"));
        }
        self.system(format!("url-fetch-{index}"), "url-fetch", env, mounts)
    }

    /// Repositories that have a volume of their own, mounted where they belong.
    pub(super) fn repository_mounts(&self) -> impl Iterator<Item = VolumeMount> + '_ {
        self.contexts
            .repositories
            .iter()
            .enumerate()
            .filter(|(_, repository)| repository.path != self.settings.workspace)
            .map(|(index, repository)| {
                let inner = match repository.git.path.as_deref().map(|path| path.trim_matches('/')) {
                    None | Some("" | ".") => "repo".to_owned(),
                    Some(path) => format!("repo/{path}"),
                };
                sub_path(mount(format!("git-context-{index}"), &repository.path), &inner)
            })
    }

    pub(super) fn in_workspace(&self, path: &str) -> bool {
        path.strip_prefix(&self.settings.workspace).is_some_and(|rest| rest.starts_with('/'))
    }
}
