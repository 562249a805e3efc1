//! An Agent over its template.
//!
//! A field that the Agent sets wins whole, lists and objects included; nothing is merged inside. A list that the Agent
//! sets to empty is set: it takes the template's away. An empty string or command is not a setting.

use super::Blueprint;

impl Blueprint {
    /// The settings of an Agent that follows `template`.
    #[must_use]
    pub fn over(self, template: &Self) -> Self {
        let text = |own: Option<String>, inherited: &Option<String>| {
            own.filter(|value| !value.is_empty()).or_else(|| inherited.clone())
        };
        Self {
            agent_image: text(self.agent_image, &template.agent_image),
            executor_image: text(self.executor_image, &template.executor_image),
            attach_image: text(self.attach_image, &template.attach_image),
            workspace_dir: text(self.workspace_dir, &template.workspace_dir),
            service_account_name: text(self.service_account_name, &template.service_account_name),
            command: self.command.filter(|words| !words.is_empty()).or_else(|| template.command.clone()),
            contexts: self.contexts.or_else(|| template.contexts.clone()),
            config: self.config.or_else(|| template.config.clone()),
            credentials: self.credentials.or_else(|| template.credentials.clone()),
            pod_spec: self.pod_spec.or_else(|| template.pod_spec.clone()),
            ca_bundle: self.ca_bundle.or_else(|| template.ca_bundle.clone()),
            proxy: self.proxy.or_else(|| template.proxy.clone()),
            image_pull_secrets: self.image_pull_secrets.or_else(|| template.image_pull_secrets.clone()),
            max_concurrent_tasks: self.max_concurrent_tasks.or(template.max_concurrent_tasks),
            quota: self.quota.or_else(|| template.quota.clone()),
            extra_ports: self.extra_ports.or_else(|| template.extra_ports.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(agent: serde_json::Value, template: serde_json::Value) -> serde_json::Value {
        let agent: Blueprint = serde_json::from_value(agent).expect("an agent's settings");
        let template: Blueprint = serde_json::from_value(template).expect("a template's settings");
        serde_json::to_value(agent.over(&template)).expect("settings are JSON")
    }

    #[test]
    fn the_agent_wins_where_it_says_something() {
        let template = json!({ "workspaceDir": "/t", "executorImage": "t", "maxConcurrentTasks": 3 });
        assert_eq!(
            merged(json!({ "executorImage": "a", "workspaceDir": "" }), template.clone()),
            json!({ "workspaceDir": "/t", "executorImage": "a", "maxConcurrentTasks": 3 })
        );
        assert_eq!(merged(json!({ "maxConcurrentTasks": 0 }), template)["maxConcurrentTasks"], 0);
    }

    #[test]
    fn a_list_replaces_the_list_and_an_empty_one_takes_it_away() {
        let text = |text: &str| json!({ "type": "Text", "text": text });
        let template = json!({ "contexts": [text("t1"), text("t2")], "command": ["t"] });
        assert_eq!(merged(json!({ "contexts": [text("a")] }), template.clone())["contexts"], json!([text("a")]));
        assert_eq!(merged(json!({ "contexts": [] }), template.clone())["contexts"], json!([]));
        assert_eq!(merged(json!({ "command": [] }), template)["command"], json!(["t"]));
    }

    #[test]
    fn an_object_replaces_the_object() {
        let template = json!({ "proxy": { "httpProxy": "http://t", "noProxy": "t" } });
        assert_eq!(merged(json!({ "proxy": { "noProxy": "a" } }), template)["proxy"], json!({ "noProxy": "a" }));
    }

    #[test]
    fn limits_are_inherited() {
        let quota = json!({ "maxTaskStarts": 50, "windowSeconds": 3600 });
        assert_eq!(merged(json!({}), json!({ "quota": quota.clone() }))["quota"], quota);
    }
}
