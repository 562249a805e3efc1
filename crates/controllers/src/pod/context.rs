//! Contexts, resolved: what the user declared becomes files, directories, repositories, downloads and instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use api::kubeopencode::{ConfigMapContext, ContextItem, ContextType, GitContext, UrlContext};
use k8s_openapi::api::core::v1::ConfigMap;

/// The most that fits into a `ConfigMap`, with room for its metadata.
const LARGEST: usize = 1_000_000;

/// A list of contexts and where it was declared, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// `spec.contexts of Agent a`.
    pub source: &'a str,
    /// The contexts in their order.
    pub items: &'a [ContextItem],
}

/// Contexts that can be built into a Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contexts {
    /// Files with known content, in order of their paths' declaration.
    pub files: Vec<File>,
    /// `ConfigMaps` that become directories.
    pub directories: Vec<Directory>,
    /// Repositories to clone.
    pub repositories: Vec<Repository>,
    /// Files to fetch.
    pub downloads: Vec<Download>,
    /// Whether there is a context file for the agent to read as instructions.
    pub instructions: bool,
    /// Optional contexts that were left out, with the reason.
    pub skipped: Vec<String>,
}

/// A file with known content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Absolute path.
    pub path: String,
    /// Key in the `ConfigMap` that carries it.
    pub key: String,
    /// What it holds.
    pub content: String,
    /// Permissions, when declared.
    pub mode: Option<i32>,
}

/// A `ConfigMap` that becomes a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Absolute path.
    pub path: String,
    /// The `ConfigMap`.
    pub config_map: String,
    /// Permissions of its files, when declared.
    pub mode: Option<i32>,
    /// Whether it may be missing.
    pub optional: bool,
}

/// A repository to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Absolute path.
    pub path: String,
    /// What to clone.
    pub git: GitContext,
    /// Whether it may fail.
    pub optional: bool,
}

/// A file to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// Absolute path.
    pub path: String,
    /// What to fetch.
    pub url: UrlContext,
    /// Permissions, when declared.
    pub mode: Option<i32>,
    /// Whether it may fail.
    pub optional: bool,
}

/// A context that cannot be resolved. The message names the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Something that it refers to is not there; it may still come.
    #[error("{0}")]
    Missing(String),
    /// It cannot work as it is written.
    #[error("{0}")]
    Invalid(String),
}

/// The `ConfigMaps` that must be read to resolve these contexts.
pub fn config_maps_needed<'a>(items: impl IntoIterator<Item = &'a ContextItem>) -> BTreeSet<String> {
    let of_maps = items.into_iter().filter(|item| item.type_ == ContextType::ConfigMap);
    of_maps.filter_map(|item| item.config_map.as_ref()).map(|reference| reference.name.clone()).collect()
}

impl Contexts {
    /// Resolves the layers, lowest priority first. `config_maps` holds those of [`config_maps_needed`] that exist.
    ///
    /// Relative paths start at `relative`: the workspace, or the directory of a Task's own.
    pub fn resolve(
        workspace: &str,
        relative: &str,
        namespace: &str,
        layers: &[Layer],
        description: Option<&str>,
        config_maps: &BTreeMap<String, ConfigMap>,
    ) -> Result<Self, Problem> {
        let mut resolver =
            Resolver { workspace, relative, namespace, config_maps, contexts: Self::default(), text: String::new() };
        for layer in layers {
            for (index, item) in layer.items.iter().enumerate() {
                let what = format!("{}[{index}]", layer.source);
                match resolver.add(item, &what) {
                    Err(Problem::Missing(reason)) if item.optional == Some(true) => {
                        resolver.contexts.skipped.push(reason);
                    }
                    result => result?,
                }
            }
        }
        resolver.finish(description)
    }

    /// Adds a file of our own, such as the agent's configuration.
    pub fn add_file(&mut self, path: &str, content: String, mode: Option<i32>) {
        let taken: BTreeSet<&str> = self.files.iter().map(|file| file.key.as_str()).collect();
        let key = unused_key(path, &taken);
        self.files.push(File { path: path.to_owned(), key, content, mode });
    }

    /// The file that is sent to the agent as the request.
    pub fn prompt_file(workspace: &str) -> String {
        format!("{workspace}/.kubeopencode/prompt.md")
    }

    /// The same for an agent that serves in another Pod: the request is all that it reads by itself. So what would be
    /// instructions goes into the request, and it names what the Task brings. The answer is the latter's paths, with
    /// whether each may be missing.
    pub fn for_prompt(mut self, workspace: &str, description: &str) -> Result<(Self, Vec<(String, bool)>), Problem> {
        let (task, context) = (format!("{workspace}/task.md"), format!("{workspace}/.kubeopencode/context.md"));
        let files = self.files.iter().filter(|file| file.path != task && file.path != context);
        let mut brought: Vec<(String, bool)> = files.map(|file| (file.path.clone(), false)).collect();
        brought.extend(self.directories.iter().map(|directory| (directory.path.clone(), directory.optional)));
        brought.extend(self.repositories.iter().map(|repository| (repository.path.clone(), repository.optional)));
        brought.extend(self.downloads.iter().map(|download| (download.path.clone(), download.optional)));
        if brought.iter().any(|(path, _)| workspace == path || workspace.starts_with(&format!("{path}/"))) {
            return Err(Problem::Invalid(format!(
                "spec.contexts: {workspace} is the Agent's and other Tasks' too, so nothing can be mounted over it: use a \
                 relative mountPath, which is a directory of this Task's own"
            )));
        }
        let mut text = description.to_owned();
        if let Some(index) = self.files.iter().position(|file| file.path == context) {
            let _ = write!(text, "\n\n{}", self.files.remove(index).content);
        }
        if !brought.is_empty() {
            text.push_str("\n\nThis task brings files. They are at these paths, and only while you work on it:\n");
            for (path, _) in &brought {
                let _ = writeln!(text, "- {path}");
            }
        }
        self.instructions = false;
        self.add_file(&Self::prompt_file(workspace), text, None);
        Ok((self, brought))
    }

    /// What the `ConfigMap` that carries the files holds.
    pub fn data(&self) -> BTreeMap<String, String> {
        self.files.iter().map(|file| (file.key.clone(), file.content.clone())).collect()
    }
}

struct Resolver<'a> {
    workspace: &'a str,
    relative: &'a str,
    namespace: &'a str,
    config_maps: &'a BTreeMap<String, ConfigMap>,
    contexts: Contexts,
    /// The context file so far.
    text: String,
}

impl Resolver<'_> {
    fn add(&mut self, item: &ContextItem, what: &str) -> Result<(), Problem> {
        let path = item.mount_path.as_deref().filter(|path| !path.is_empty());
        let path = path.map(|path| absolute(self.relative, path, what)).transpose()?;
        match item.type_ {
            ContextType::Text => {
                let text = item.text.clone().ok_or_else(|| lacks(what, "text"))?;
                self.place(item, path, text);
            }
            ContextType::Runtime => self.instruct(item, super::runtime_text::TEXT),
            ContextType::ConfigMap => {
                let reference = item.config_map.as_ref().ok_or_else(|| lacks(what, "configMap"))?;
                self.config_map(item, reference, path, what)?;
            }
            ContextType::Git => {
                let git = item.git.clone().ok_or_else(|| lacks(what, "git"))?;
                let path = path.ok_or_else(|| lacks(what, "mountPath"))?;
                check_repository(&git.repository, what)?;
                self.contexts.repositories.push(Repository { path, git, optional: item.optional == Some(true) });
            }
            ContextType::Url => {
                let url = item.url.clone().ok_or_else(|| lacks(what, "url"))?;
                let path = path.ok_or_else(|| lacks(what, "mountPath"))?;
                let optional = item.optional == Some(true);
                self.contexts.downloads.push(Download { path, url, mode: item.file_mode, optional });
            }
        }
        Ok(())
    }

    fn config_map(
        &mut self,
        item: &ContextItem,
        reference: &ConfigMapContext,
        path: Option<String>,
        what: &str,
    ) -> Result<(), Problem> {
        let optional = item.optional == Some(true) || reference.optional == Some(true);
        let missing = |thing: String| Problem::Missing(format!("{what}: {thing} does not exist in {}", self.namespace));
        let Some(map) = self.config_maps.get(&reference.name) else {
            if !optional {
                return Err(missing(format!("ConfigMap {}", reference.name)));
            }
            self.contexts.skipped.push(format!("{what}: ConfigMap {} does not exist", reference.name));
            return Ok(());
        };
        let data = map.data.clone().unwrap_or_default();
        match (&reference.key, path) {
            (Some(key), path) => match data.get(key) {
                Some(text) => self.place(item, path, text.clone()),
                None if optional => {
                    self.contexts.skipped.push(format!("{what}: ConfigMap {} has no key {key}", reference.name));
                }
                None => return Err(missing(format!("key {key} of ConfigMap {}", reference.name))),
            },
            (None, Some(path)) => {
                let directory = Directory { path, config_map: reference.name.clone(), mode: item.file_mode, optional };
                self.contexts.directories.push(directory);
            }
            (None, None) => {
                let mut text = String::new();
                for (key, value) in &data {
                    let _ = writeln!(text, "<file name=\"{}\">\n{}\n</file>", escape(key), escape(value.trim_end()));
                }
                self.instruct_escaped(item, &text);
            }
        }
        Ok(())
    }

    /// Text goes to its own file, or into the context file.
    fn place(&mut self, item: &ContextItem, path: Option<String>, text: String) {
        match path {
            Some(path) => self.contexts.add_file(&path, text, item.file_mode),
            None => self.instruct(item, &text),
        }
    }

    fn instruct(&mut self, item: &ContextItem, text: &str) {
        self.instruct_escaped(item, &escape(text));
    }

    fn instruct_escaped(&mut self, item: &ContextItem, text: &str) {
        let (kind, fallback) = match item.type_ {
            ContextType::Text => ("Text", "context"),
            ContextType::ConfigMap => ("ConfigMap", "context"),
            ContextType::Git => ("Git", "context"),
            ContextType::Runtime => ("Runtime", "runtime"),
            ContextType::Url => ("URL", "context"),
        };
        let name = item.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(fallback);
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let _ = writeln!(
            self.text,
            "<context name=\"{}\" namespace=\"{}\" type=\"{kind}\">\n{}\n</context>",
            escape(name),
            escape(self.namespace),
            text.trim_end()
        );
    }

    fn finish(mut self, description: Option<&str>) -> Result<Contexts, Problem> {
        if !self.text.is_empty() {
            let path = format!("{}/.kubeopencode/context.md", self.workspace);
            let text = std::mem::take(&mut self.text);
            self.contexts.add_file(&path, text, None);
            self.contexts.instructions = true;
        }
        if let Some(description) = description {
            let path = format!("{}/task.md", self.workspace);
            self.contexts.add_file(&path, description.to_owned(), None);
        }
        refuse_conflicts(&self.contexts)?;
        let size: usize = self.contexts.files.iter().map(|file| file.key.len() + file.content.len()).sum();
        if size > LARGEST {
            return Err(Problem::Invalid(format!(
                "the contexts hold {size} bytes of text, and a ConfigMap holds at most {LARGEST}: use a Git or URL context"
            )));
        }
        Ok(self.contexts)
    }
}

fn lacks(what: &str, field: &str) -> Problem {
    Problem::Invalid(format!("{what}.{field} is required for this type"))
}

/// The absolute form of a path: relative ones start at `relative`. A path that climbs out with dots is refused.
fn absolute(relative: &str, path: &str, what: &str) -> Result<String, Problem> {
    let joined = if path.starts_with('/') { path.to_owned() } else { format!("{relative}/{path}") };
    let mut parts = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(Problem::Invalid(format!("{what}.mountPath: {path:?} must not contain .."))),
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return Err(Problem::Invalid(format!("{what}.mountPath: / cannot be mounted over")));
    }
    Ok(format!("/{}", parts.join("/")))
}

fn check_repository(repository: &str, what: &str) -> Result<(), Problem> {
    let known = ["https://", "http://", "ssh://", "git@", "file://"];
    if known.iter().any(|scheme| repository.starts_with(scheme)) {
        return Ok(());
    }
    Err(Problem::Invalid(format!(
        "{what}.git.repository: {repository:?} must begin with https://, http://, ssh:// or git@"
    )))
}

/// Two contexts for one path, or one inside a file of another, would silently hide each other.
fn refuse_conflicts(contexts: &Contexts) -> Result<(), Problem> {
    let files = contexts.files.iter().map(|file| (file.path.as_str(), true));
    let downloads = contexts.downloads.iter().map(|download| (download.path.as_str(), true));
    let directories = contexts.directories.iter().map(|directory| (directory.path.as_str(), false));
    let repositories = contexts.repositories.iter().map(|repository| (repository.path.as_str(), false));
    let mut taken: BTreeMap<&str, bool> = BTreeMap::new();
    for (path, is_file) in files.chain(downloads).chain(directories).chain(repositories) {
        if taken.insert(path, is_file).is_some() {
            return Err(Problem::Invalid(format!(
                "mount path conflict: two contexts want {path}; give one another mountPath"
            )));
        }
    }
    for path in taken.keys() {
        let parents = path.match_indices('/').skip(1).map(|(end, _)| &path[..end]);
        if let Some(file) = parents.into_iter().find(|parent| taken.get(parent) == Some(&true)) {
            return Err(Problem::Invalid(format!("mount path conflict: {path} lies below {file}, which is a file")));
        }
    }
    Ok(())
}

/// A key that a `ConfigMap` allows, readable, and not taken.
fn unused_key(path: &str, taken: &BTreeSet<&str>) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let plain: String = path.trim_start_matches('/').chars().map(allowed).collect();
    // The end of a path says most about it.
    let plain = &plain[plain.len().saturating_sub(200)..];
    let mut key = plain.to_owned();
    let mut number = 2;
    while taken.contains(key.as_str()) {
        key = format!("{plain}.{number}");
        number += 1;
    }
    key
}

/// Text as it may stand inside an XML element or attribute.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn items(value: serde_json::Value) -> Vec<ContextItem> {
        serde_json::from_value(value).expect("contexts")
    }

    fn resolve(agent: serde_json::Value, task: serde_json::Value) -> Result<Contexts, Problem> {
        let map: ConfigMap =
            serde_json::from_value(json!({ "data": { "b.md": "B <b>", "a.md": "A" } })).expect("a map");
        let maps = BTreeMap::from([("guides".to_owned(), map)]);
        let (agent, task) = (items(agent), items(task));
        let layers = [Layer { source: "agent", items: &agent }, Layer { source: "task", items: &task }];
        Contexts::resolve("/workspace", "/workspace", "ns", &layers, Some("do it"), &maps)
    }

    fn file<'a>(contexts: &'a Contexts, path: &str) -> &'a File {
        contexts.files.iter().find(|file| file.path == path).expect("the file")
    }

    #[test]
    fn what_has_no_path_becomes_instructions_in_priority_order() {
        let contexts = resolve(
            json!([{ "type": "Text", "name": "rules \"x\"", "text": "a < b & c" }, { "type": "Runtime" }]),
            json!([{ "type": "ConfigMap", "configMap": { "name": "guides" } }]),
        )
        .expect("resolved");
        let text = &file(&contexts, "/workspace/.kubeopencode/context.md").content;
        let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} in {text}"));
        assert!(
            at("<context name=\"rules &quot;x&quot;\" namespace=\"ns\" type=\"Text\">\na &lt; b &amp; c\n</context>")
                < at("name=\"runtime\"")
        );
        assert!(
            at("KubeOpenCode Runtime Context")
                < at("<file name=\"a.md\">\nA\n</file>\n<file name=\"b.md\">\nB &lt;b&gt;\n</file>")
        );
        assert!(contexts.instructions);
    }

    #[test]
    fn paths_are_relative_to_the_workspace_and_modes_are_kept() {
        let contexts = resolve(
            json!([{ "type": "Text", "text": "#!/bin/sh", "mountPath": "bin/run.sh", "fileMode": 0o755 }]),
            json!([{ "type": "ConfigMap", "mountPath": "/etc/guide.md", "configMap": { "name": "guides", "key": "a.md" } },
                   { "type": "ConfigMap", "mountPath": "docs/", "configMap": { "name": "guides" } }]),
        )
        .expect("resolved");
        assert_eq!(file(&contexts, "/workspace/bin/run.sh").mode, Some(0o755));
        assert_eq!(file(&contexts, "/etc/guide.md").content, "A");
        assert_eq!(contexts.directories[0].path, "/workspace/docs");
        assert_eq!(file(&contexts, "/workspace/task.md").key, "workspace-task.md");
        assert!(!contexts.instructions);
    }

    #[test]
    fn keys_of_different_paths_differ() {
        let text = |path: &str| json!({ "type": "Text", "text": path, "mountPath": path });
        let contexts = resolve(json!([text("/a/b-c"), text("/a-b/c")]), json!([])).expect("resolved");
        assert_eq!(contexts.data().len(), 3);
    }

    #[test]
    fn conflicts_and_climbing_paths_are_refused() {
        let text = |path: &str| json!({ "type": "Text", "text": "", "mountPath": path });
        for (task, expected) in [
            (json!([text("x"), text("/workspace/x")]), "mount path conflict"),
            (json!([text("x"), text("x/y")]), "which is a file"),
            (json!([text("task.md")]), "mount path conflict"),
            (json!([text("../x")]), "mountPath"),
            (json!([{ "type": "Git", "mountPath": "r", "git": { "repository": "x/y" } }]), "git.repository"),
        ] {
            let error = resolve(json!([]), task).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_said_unless_it_is_optional() {
        let missing =
            |optional: bool| json!([{ "type": "ConfigMap", "optional": optional, "configMap": { "name": "no" } }]);
        let error = resolve(json!([]), missing(false)).expect_err("missing");
        assert_eq!(error, Problem::Missing("task[0]: ConfigMap no does not exist in ns".into()));
        assert_eq!(resolve(json!([]), missing(true)).expect("optional").skipped.len(), 1);
        let key = json!([{ "type": "ConfigMap", "configMap": { "name": "guides", "key": "z", "optional": true } }]);
        assert_eq!(resolve(json!([]), key).expect("optional").files.len(), 1);
    }

    #[test]
    fn too_much_text_is_refused_before_the_server_would() {
        let big = json!([{ "type": "Text", "text": "x".repeat(1_100_000), "mountPath": "big" }]);
        assert!(resolve(json!([]), big).expect_err("too big").to_string().contains("use a Git or URL context"));
    }
}
