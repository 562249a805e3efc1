//! From a pack and a configuration to the objects that should be there.

use std::collections::{BTreeMap, BTreeSet};

use api::omnia::names::PACK_KEY;
use api::omnia::pack::Pack;
use serde_json::{Value, json};

use super::config::Config;
use super::kinds::{AGENT_POLICY, AGENT_RUNTIME, CONFIG_MAP, Kind, PROMPT_PACK, TOOL_REGISTRY};
use super::names::{labels, sanitize};
use crate::failure::{Category, Failure, Problems};
use crate::resource::{Desired, Key};
use crate::state::Deployment;

/// The most that a `ConfigMap` holds.
pub const LARGEST_PACK: usize = 1_048_576;

/// What a pack comes to.
#[derive(Debug)]
pub struct Built {
    /// Which pack.
    pub deployment: Deployment,
    /// What should be there.
    pub desired: Vec<Desired>,
}

/// Reads a pack and says what should be there for it. Everything that is wrong is told at once.
pub fn build(text: &str, config: &Config, environment: Option<&str>) -> Result<Built, Problems> {
    let wrong = |message: String| Failure::new(Category::Configuration, message);
    let pack = Pack::parse(text).map_err(|invalid| {
        let told = invalid.0.into_iter().map(|problem| wrong(format!("the pack is invalid at {problem}")));
        Problems(told.collect())
    })?;
    let mut problems = Vec::new();
    if text.len() > LARGEST_PACK {
        let message = format!("the pack has {} bytes, a ConfigMap holds at most {LARGEST_PACK}", text.len());
        problems.push(wrong(message).hint("split it into several packs"));
    }
    if pack.agents.is_none()
        && let Err(unclear) = pack.entry(None)
    {
        let problem = wrong(format!("the pack is invalid at /prompts: {unclear}"));
        problems.push(problem.hint("call one \"default\", or list the agents under /agents"));
    }
    let builder = Builder { pack: &pack, text, config, id: sanitize(&pack.id) };
    let desired = builder.all();
    problems.extend(names(&desired, &builder.agents()));
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let deployment = Deployment {
        pack_id: pack.id.clone(),
        version: pack.version.clone(),
        environment: environment.map(str::to_owned),
    };
    Ok(Built { deployment, desired })
}

/// Names that cannot be, and names that two things would have.
fn names(desired: &[Desired], agents: &[(Option<&str>, String)]) -> Vec<Failure> {
    let wrong = |message: String| Failure::new(Category::Configuration, message);
    let mut problems = Vec::new();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (agent, name) in agents {
        let agent = agent.unwrap_or(name);
        if name.is_empty() {
            problems.push(wrong(format!("the agent {agent:?} has no letter or digit that a Kubernetes name may have")));
        } else if let Some(other) = seen.insert(name, agent) {
            problems.push(wrong(format!("the agents {other:?} and {agent:?} would both be called {name:?}")));
        }
    }
    let keys: BTreeSet<&Key> = desired.iter().map(|desired| &desired.key).collect();
    for key in keys {
        let longest = Kind::of(&key.type_).map_or(253, |kind| kind.longest);
        if key.name.len() > longest {
            let message = format!("the name of {key} has {} characters, it may have {longest}", key.name.len());
            problems.push(wrong(message).hint("choose a shorter id"));
        }
    }
    problems
}

struct Builder<'a> {
    pack: &'a Pack,
    text: &'a str,
    config: &'a Config,
    id: String,
}

impl Builder<'_> {
    fn all(&self) -> Vec<Desired> {
        let data = self.config_map();
        let pack = self.prompt_pack(&data.key);
        let (registry, policy) = (self.tool_registry(), self.agent_policy());
        let needs: Vec<Key> =
            [Some(&pack), registry.as_ref(), policy.as_ref()].into_iter().flatten().map(|d| d.key.clone()).collect();
        let agents = self.agents();
        let runtimes: Vec<Desired> = agents.iter().map(|(agent, name)| self.runtime(*agent, name, &needs)).collect();
        [data, pack].into_iter().chain(registry).chain(policy).chain(runtimes).collect()
    }

    /// The agents, and the names of their runtimes: one for each member, or one for the pack.
    fn agents(&self) -> Vec<(Option<&str>, String)> {
        match &self.pack.agents {
            Some(agents) => agents.members.keys().map(|name| (Some(name.as_str()), sanitize(name))).collect(),
            None => vec![(None, self.id.clone())],
        }
    }

    fn object(&self, type_: &'static str, name: String, summary: String, section: (&str, Value)) -> Desired {
        let kind = Kind::of(type_).expect("a row of the table");
        let labels = labels(&self.config.labels, &self.pack.id, &self.pack.version, type_);
        let mut body = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": { "name": name, "namespace": self.config.workspace, "labels": labels },
        });
        body[section.0] = section.1;
        Desired { key: Key::new(type_, name), body, summary, needs: Vec::new() }
    }

    fn config_map(&self) -> Desired {
        let name = format!("{}-packdata", self.id);
        let summary = format!("Create ConfigMap with pack data for {}", self.pack.id);
        self.object(CONFIG_MAP, name, summary, ("data", json!({ PACK_KEY: self.text })))
    }

    fn prompt_pack(&self, data: &Key) -> Desired {
        let mut spec = json!({
            "source": { "type": "configmap", "configMapRef": { "name": data.name } },
            "version": self.pack.version,
            "rollout": { "type": "immediate" },
        });
        if let Some(provider) = self.config.providers.get("default") {
            spec["providerRef"] = json!({ "name": provider });
        }
        if !self.pack.description.is_empty() {
            spec["description"] = json!(self.pack.description);
        }
        let summary = format!("Create PromptPack for {}", self.pack.id);
        let mut pack = self.object(PROMPT_PACK, self.id.clone(), summary, ("spec", spec));
        pack.needs = vec![data.clone()];
        pack
    }

    fn tool_registry(&self) -> Option<Desired> {
        if self.pack.tools.is_empty() {
            return None;
        }
        let mut tools: Vec<Value> = Vec::new();
        let by_name: BTreeMap<&str, _> = self.pack.tools.values().map(|tool| (tool.name.as_str(), tool)).collect();
        for (name, tool) in by_name {
            let mut declared = json!({ "name": name });
            if !tool.description.is_empty() {
                declared["description"] = json!(tool.description);
            }
            if let Some(schema) = &tool.parameters {
                declared["inputSchema"] = schema.clone();
            }
            tools.push(declared);
        }
        let summary = format!("Create ToolRegistry with {} tools", tools.len());
        Some(self.object(TOOL_REGISTRY, format!("{}-tools", self.id), summary, ("spec", json!({ "tools": tools }))))
    }

    fn agent_policy(&self) -> Option<Desired> {
        let prompts = self.pack.prompts.values();
        let blocked: BTreeSet<&String> = prompts.flat_map(|prompt| &prompt.tool_policy.blocklist).collect();
        if blocked.is_empty() {
            return None;
        }
        // Without a selector it would hold for everyone in the namespace.
        let agents: Vec<String> = self.agents().into_iter().map(|(_, name)| name).collect();
        let spec = json!({ "selector": { "agents": agents }, "toolBlocklist": blocked });
        let summary = format!("Create AgentPolicy for {}", self.pack.id);
        Some(self.object(AGENT_POLICY, format!("{}-policy", self.id), summary, ("spec", spec)))
    }

    fn runtime(&self, agent: Option<&str>, name: &str, needs: &[Key]) -> Desired {
        let mut spec = json!({
            "promptPackRef": { "name": self.id },
            "facade": { "type": "websocket", "handler": "runtime" },
        });
        if let Some(agent) = agent {
            spec["agentName"] = json!(agent);
        }
        for need in needs {
            match need.type_.as_str() {
                TOOL_REGISTRY => spec["toolRegistryRef"] = json!({ "name": need.name }),
                AGENT_POLICY => spec["agentPolicyRef"] = json!({ "name": need.name }),
                _ => {}
            }
        }
        let providers = &self.config.providers;
        if let Some(provider) = providers.get(agent.unwrap_or(&self.pack.id)).or_else(|| providers.get("default")) {
            spec["providerRef"] = json!({ "name": provider });
        }
        if let Some(settings) = self.runtime_settings() {
            spec["runtime"] = settings;
        }
        let summary = format!("Create AgentRuntime for {}", agent.unwrap_or(&self.pack.id));
        let mut runtime = self.object(AGENT_RUNTIME, name.to_owned(), summary, ("spec", spec));
        runtime.needs = needs.to_vec();
        runtime
    }

    fn runtime_settings(&self) -> Option<Value> {
        let wanted = &self.config.runtime;
        let mut settings = json!({});
        if let Some(replicas) = wanted.replicas {
            settings["replicas"] = json!(replicas);
        }
        for (name, amount) in [("cpu", &wanted.cpu), ("memory", &wanted.memory)] {
            if let Some(amount) = amount {
                settings["resources"]["requests"][name] = json!(amount);
            }
        }
        settings.as_object().is_some_and(|settings| !settings.is_empty()).then_some(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = json!({ "workspace": "shop", "providers": { "default": "mock", "b_c": "large" },
            "runtime": { "replicas": 2, "cpu": "500m" }, "labels": { "team": "x" } });
        Config::parse(&text.to_string()).expect("fine")
    }

    fn pack() -> Value {
        let prompt = |blocked: &[&str]| {
            json!({ "id": "p", "name": "P", "version": "1.0.0", "system_template": "Grüße, 世界",
                "tool_policy": { "blocklist": blocked } })
        };
        json!({
            "id": "my-pack", "name": "Mein Päckchen 📦", "version": "1.0.0+b.1",
            "description": "Hilft überall", "template_engine": { "version": "v1", "syntax": "{{variable}}" },
            "prompts": { "default": prompt(&["z", "a"]), "b_c": prompt(&["a", "m"]) },
            "tools": { "two": { "name": "two", "description": "d" },
                "One": { "name": "One", "description": "d", "parameters": { "type": "object", "properties": {} } } },
        })
    }

    fn built(pack: &Value) -> Vec<Desired> {
        build(&pack.to_string(), &config(), None).expect("fine").desired
    }

    fn keys(pack: &Value) -> Vec<String> {
        built(pack).iter().map(|desired| desired.key.to_string()).collect()
    }

    fn refused(pack: &Value) -> String {
        build(&pack.to_string(), &config(), None).expect_err("refused").to_string()
    }

    #[test]
    fn a_pack_becomes_five_types_and_only_those_it_needs() {
        let full = pack();
        let expected = [
            "configmap/my-pack-packdata",
            "prompt_pack/my-pack",
            "tool_registry/my-pack-tools",
            "agent_policy/my-pack-policy",
            "agent_runtime/my-pack",
        ];
        assert_eq!(keys(&full), expected);
        let mut plain = full;
        plain["tools"] = json!({});
        plain["description"] = json!("");
        plain["prompts"]["default"]["tool_policy"] = json!({});
        plain["prompts"]["b_c"]["tool_policy"] = json!({ "blocklist": [] });
        assert_eq!(keys(&plain), ["configmap/my-pack-packdata", "prompt_pack/my-pack", "agent_runtime/my-pack"]);
        assert!(built(&plain)[1].body["spec"].get("description").is_none());
    }

    #[test]
    fn objects_say_what_the_pack_says() {
        let pack = pack();
        let all = built(&pack);
        assert_eq!(all[0].body["data"]["pack.json"], json!(pack.to_string()), "byte for byte");
        assert_eq!(
            all[0].body["metadata"]["labels"],
            json!({ "team": "x", "app.kubernetes.io/managed-by": "promptarena", "promptkit.altairalabs.ai/pack-id": "my-pack",
                "promptkit.altairalabs.ai/pack-version": "1.0.0_b.1", "promptkit.altairalabs.ai/resource-type": "configmap" })
        );
        assert_eq!(all[1].body["spec"]["source"]["configMapRef"]["name"], "my-pack-packdata");
        assert_eq!(all[1].body["spec"]["providerRef"]["name"], "mock");
        assert_eq!(all[1].body["spec"]["description"], "Hilft überall");
        assert_eq!(all[2].body["spec"]["tools"][0]["name"], "One", "sorted");
        assert_eq!(all[3].body["spec"]["toolBlocklist"], json!(["a", "m", "z"]), "sorted, each once");
        assert_eq!(all[3].body["spec"]["selector"]["agents"], json!(["my-pack"]), "only ours");
        let spec = &all[4].body["spec"];
        assert_eq!(
            (&spec["toolRegistryRef"]["name"], &spec["agentPolicyRef"]["name"]),
            (&json!("my-pack-tools"), &json!("my-pack-policy"))
        );
        assert_eq!(spec["runtime"], json!({ "replicas": 2, "resources": { "requests": { "cpu": "500m" } } }));
        assert!(spec.get("agentName").is_none());
    }

    #[test]
    fn every_agent_of_a_pack_has_a_runtime_and_its_provider() {
        let mut pack = pack();
        pack["agents"] = json!({ "entry": "default", "members": { "default": {}, "b_c": {} } });
        let all = built(&pack);
        let runtimes: Vec<&Desired> = all.iter().filter(|desired| desired.key.type_ == AGENT_RUNTIME).collect();
        assert_eq!(runtimes.iter().map(|runtime| runtime.key.name.as_str()).collect::<Vec<_>>(), ["b-c", "default"]);
        assert_eq!(runtimes[0].body["spec"]["agentName"], "b_c");
        assert_eq!(runtimes[0].body["spec"]["providerRef"]["name"], "large");
        assert_eq!(runtimes[1].body["spec"]["providerRef"]["name"], "mock");
        assert_eq!(runtimes[0].needs.len(), 3);
    }

    #[test]
    fn names_that_collide_or_cannot_be_are_refused() {
        let mut pack = pack();
        for name in ["b-c", "日本"] {
            pack["prompts"][name] = pack["prompts"]["b_c"].clone();
        }
        pack["agents"] = json!({ "entry": "default", "members": { "default": {}, "b_c": {}, "b-c": {}, "日本": {} } });
        let told = refused(&pack);
        assert!(told.contains("the agents \"b-c\" and \"b_c\" would both be called \"b-c\""), "{told}");
        assert!(told.contains("the agent \"日本\" has no letter"), "{told}");
        let mut long = self::pack();
        long["id"] = json!("x".repeat(60));
        assert!(refused(&long).contains("has 60 characters, it may have 56"), "{}", refused(&long));
    }

    #[test]
    fn a_pack_that_does_not_fit_is_refused_with_both_sizes() {
        let mut pack = pack();
        pack["prompts"]["default"]["system_template"] = json!("x".repeat(LARGEST_PACK));
        let size = pack.to_string().len();
        assert!(refused(&pack).contains(&format!("the pack has {size} bytes, a ConfigMap holds at most 1048576")));
    }

    #[test]
    fn an_invalid_pack_is_told_by_path() {
        let mut pack = pack();
        pack["version"] = json!("one");
        pack["prompts"]["default"]["tool_policy"]["max_rounds"] = json!(0);
        let told = refused(&pack);
        assert!(
            told.contains("invalid at /version:")
                && told.contains("invalid at /prompts/default/tool_policy/max_rounds:"),
            "{told}"
        );
        let mut unclear = self::pack();
        let prompt = unclear["prompts"]["default"].clone();
        unclear["prompts"] = json!({ "a": prompt, "b": prompt });
        assert!(refused(&unclear).contains("invalid at /prompts: which of the prompts"), "{}", refused(&unclear));
    }
}
