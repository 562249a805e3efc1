//! The definitions as a real API server would take them.

use std::{fs, path::PathBuf};

use serde_json::Value;

fn definitions() -> Vec<(String, Value)> {
    let name = |crd: &Value| crd["metadata"]["name"].as_str().unwrap().to_owned();
    orrery_api::crds().into_iter().map(|crd| serde_json::to_value(crd).unwrap()).map(|crd| (name(&crd), crd)).collect()
}

fn roots() -> Vec<(String, Value)> {
    let root = |crd: Value| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    definitions().into_iter().map(|(name, crd)| (name, root(crd))).collect()
}

/// Calls `visit` with every schema and its path.
fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            walk(&schema[key], &format!("{path}[]"), visit);
        }
    }
}

/// The YAML in the chart is what the types say. `ORRERY_UPDATE=1` writes it anew.
#[test]
fn the_chart_carries_these_definitions() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/orrery/crds");
    for (name, definition) in definitions() {
        let file = folder.join(format!("{name}.yaml"));
        let text =
            format!("# Generated from crates/api; do not edit.\n{}", serde_saphyr::to_string(&definition).unwrap());
        if std::env::var_os("ORRERY_UPDATE").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &text).unwrap();
        }
        let committed = fs::read_to_string(&file).unwrap_or_default();
        assert!(committed == text, "{} is stale: run this test with ORRERY_UPDATE=1", file.display());
    }
}

#[test]
fn every_field_has_a_description() {
    for (name, root) in roots() {
        let mut missing = Vec::new();
        walk(&root, "", &mut |path, schema| {
            let is_property = !path.ends_with("[]") && !path.is_empty();
            let standard = matches!(path, ".apiVersion" | ".kind" | ".metadata");
            if is_property && !standard && schema["description"].as_str().unwrap_or_default().is_empty() {
                missing.push(path.to_owned());
            }
        });
        assert_eq!(missing, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn every_schema_is_structural() {
    for (name, root) in roots() {
        walk(&root, "", &mut |path, schema| {
            let free = schema["x-kubernetes-preserve-unknown-fields"] == true;
            let either = schema["x-kubernetes-int-or-string"] == true;
            assert!(schema["type"].is_string() || free || either, "{name}{path} has no type: {schema}");
            for key in ["$ref", "anyOf", "oneOf", "allOf", "not", "definitions", "const", "nullable"] {
                assert!(schema.get(key).is_none(), "{name}{path} has {key}: {schema}");
            }
            let both = schema["properties"].is_object() && schema["additionalProperties"].is_object();
            assert!(!both, "{name}{path} has properties and additionalProperties");
        });
    }
}

#[test]
fn what_is_not_built_is_not_in_the_schema() {
    for (name, root) in roots() {
        let spec = &root["properties"]["spec"]["properties"];
        for field in ["skills", "plugins", "share", "clusterDomain", "observability"] {
            assert!(spec.get(field).is_none(), "{name} has spec.{field}");
        }
        // Where people may have it in their manifests, it is there to be refused: otherwise it would vanish.
        walk(&root, "", &mut |path, schema| {
            if schema["properties"].get("autoscaling").is_some() {
                let rules = schema["x-kubernetes-validations"].to_string();
                assert!(rules.contains("!has(self.autoscaling)"), "{name}{path}.autoscaling");
            }
        });
        walk(&root, "", &mut |path, _| {
            assert!(!path.ends_with(".git.sync") && !path.ends_with(".systemContainers"), "{name}{path}");
        });
    }
}

#[test]
fn a_template_requires_what_nobody_else_could_give() {
    let (_, template) = roots().into_iter().find(|(name, _)| name.starts_with("agenttemplates")).unwrap();
    assert_eq!(template["properties"]["spec"]["required"], serde_json::json!(["workspaceDir", "serviceAccountName"]));
}

#[test]
fn short_names_columns_and_scope_are_the_known_ones() {
    let summary: Vec<String> = definitions()
        .into_iter()
        .map(|(name, crd)| {
            let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap().iter();
            let columns: Vec<&str> = columns.map(|column| column["name"].as_str().unwrap()).collect();
            let short = crd["spec"]["names"]["shortNames"][0].as_str().unwrap();
            let status = crd["spec"]["versions"][0]["subresources"]["status"].is_object();
            format!("{name} {short} {} status={status} {}", crd["spec"]["scope"].as_str().unwrap(), columns.join(","))
        })
        .collect();
    assert_eq!(
        summary,
        [
            "agents.kubeopencode.io ag Namespaced status=true Profile,Image,ServiceAccount,MaxTasks,Ready,Age",
            "agenttemplates.kubeopencode.io agt Namespaced status=true Image,WorkspaceDir,ServiceAccount,Age",
            "crontasks.kubeopencode.io ct Namespaced status=true Schedule,Suspend,Active,Last Schedule,Next Schedule,Age",
            "kubeopencodeconfigs.kubeopencode.io ktc Cluster status=false Age",
            "tasks.kubeopencode.io tk Namespaced status=true Phase,Agent,Template,Pod,Age",
            "agentpolicies.omnia.altairalabs.ai ap Namespaced status=true Mode,Agents,Phase,Age",
            "agentruntimes.omnia.altairalabs.ai ar Namespaced status=true Phase,Ready,Version,Age",
            "promptpacks.omnia.altairalabs.ai pp Namespaced status=true Version,Phase,Strategy,Canary,Weight,Age",
            "providers.omnia.altairalabs.ai prov Namespaced status=true Type,Model,Phase,Age",
            "toolregistries.omnia.altairalabs.ai tr Namespaced status=true Tools,Phase,Age",
        ]
    );
}
