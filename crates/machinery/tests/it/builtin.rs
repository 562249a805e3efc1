use machinery::builtin;
use machinery::schema::{self, ListType, Type};
use serde_json::json;

#[test]
fn every_kind_and_every_type_it_refers_to_resolves() {
    let mut pending: Vec<String> = Vec::new();
    for (api_version, kind) in builtin::kinds() {
        pending.push(builtin::schema(api_version, kind).unwrap().name.clone().unwrap());
    }
    assert!(pending.len() > 25, "{pending:?}");
    let mut seen = std::collections::BTreeSet::new();
    while let Some(name) = pending.pop() {
        if seen.insert(name.clone()) {
            let found =
                builtin::type_named(&name).unwrap_or_else(|| panic!("{name} is referred to but not in the table"));
            pending.extend(found.referenced_names());
        }
    }
    assert!(seen.len() > 250);
}

#[test]
fn merge_keys_of_the_two_engines_differ_where_kubernetes_says_so() {
    let service = builtin::schema("v1", "Service").unwrap();
    let ports = service.field("spec").unwrap().field("ports").unwrap();
    assert_eq!(ports.list_type, ListType::Map(vec!["port".into(), "protocol".into()]));
    assert_eq!(ports.patch.as_ref().unwrap().merge_key.as_deref(), Some("port"));
    let volumes =
        builtin::schema("v1", "Pod").unwrap().field("spec").unwrap().field("volumes").unwrap().patch.clone().unwrap();
    assert!(volumes.merge && volumes.retain_keys);
}

#[test]
fn unknown_fields_of_built_in_kinds_are_named() {
    let pod = builtin::schema("v1", "Pod").unwrap();
    let mut object = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "imagee": "b", "env": [{"nam": "x"}]}]}});
    assert_eq!(schema::prune(&pod, &mut object), ["spec.containers[0].env[0].nam", "spec.containers[0].imagee"]);
}

#[test]
fn a_schema_of_schemas_recurses() {
    let crd = builtin::schema("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let mut object = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "typ": 1}}, "b": {"additionalProperties": true, "x": 1}}}}}]}});
    assert_eq!(
        schema::prune(&crd, &mut object),
        [
            "spec.versions[0].schema.openAPIV3Schema.properties.a.items.typ",
            "spec.versions[0].schema.openAPIV3Schema.properties.b.x"
        ]
    );
    assert!(schema::validate(&crd, &object).iter().all(|cause| !cause.field.contains("openAPIV3Schema")));
}

#[test]
fn quantities_take_numbers_and_strings() {
    let pod = builtin::schema("v1", "Pod").unwrap();
    let limits = pod
        .field("spec")
        .unwrap()
        .field("containers")
        .unwrap()
        .items
        .as_ref()
        .unwrap()
        .field("resources")
        .unwrap()
        .field("limits")
        .unwrap();
    assert_eq!(limits.field("cpu").unwrap().format.as_deref(), Some("quantity"));
    assert_eq!(limits.value_type, Type::Object);
}

/// Everything that happens to an object of a built-in kind before it is validated.
fn complete(api_version: &str, kind: &str, mut object: serde_json::Value) -> serde_json::Value {
    let schema = builtin::schema(api_version, kind).unwrap();
    builtin::decode(&schema, &object).unwrap();
    assert_eq!(schema::prune(&schema, &mut object), Vec::<String>::new());
    builtin::normalize(&schema, &mut object);
    builtin::default(api_version, kind, &mut object);
    let once = object.clone();
    builtin::normalize(&schema, &mut object);
    builtin::default(api_version, kind, &mut object);
    assert_eq!(object, once, "completing is idempotent");
    object
}

#[test]
fn pods_get_the_defaults_of_kubernetes() {
    let pod = complete(
        "v1",
        "Pod",
        json!({"metadata": {"name": "a", "labels": {}}, "spec": {
            "containers": [{"name": "c", "image": "repo/x:1", "args": [], "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}, "readinessProbe": {"httpGet": {"port": 80}}}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
        }}),
    );
    assert_eq!(
        pod["spec"],
        json!({
            "containers": [{
                "name": "c", "image": "repo/x:1", "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
                "readinessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler", "enableServiceLinks": true,
        })
    );
    assert_eq!(pod["metadata"], json!({"name": "a"}));
    assert_eq!(pod["status"], json!({}));
}

#[test]
fn other_kinds_get_theirs() {
    let deployment = complete(
        "apps/v1",
        "Deployment",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}}),
    );
    assert_eq!(
        deployment["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(deployment["spec"]["template"]["spec"].get("enableServiceLinks"), None);
    let service = complete("v1", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    assert_eq!(
        service["spec"],
        json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster"})
    );
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    let namespace = complete("v1", "Namespace", json!({"metadata": {"name": "n"}}));
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    let lease = complete(
        "coordination.k8s.io/v1",
        "Lease",
        json!({"spec": {"renewTime": "2026-01-01T00:00:00.1234567+01:00"}}),
    );
    assert_eq!(lease["spec"]["renewTime"], "2025-12-31T23:00:00.123456Z");
}

#[rstest::rstest]
#[case("apps/v1", "Deployment", json!({"spec": {"replicas": "x"}}), "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32")]
#[case("v1", "Pod", json!({"spec": {"containers": {}}}), "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container")]
#[case("v1", "ConfigMap", json!({"data": {"a": 1}}), "json: cannot unmarshal number into Go struct field ConfigMap.data of type string")]
#[case("v1", "Pod", json!({"spec": {"containers": [{"env": [{"value": 1}]}]}}), "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string")]
#[case("v1", "Pod", json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}), "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
fn wrong_types_read_like_a_typed_decoder(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] object: serde_json::Value,
    #[case] expected: &str,
) {
    let schema = builtin::schema(api_version, kind).unwrap();
    assert_eq!(builtin::decode(&schema, &object).unwrap_err(), expected);
}

#[test]
fn every_type_and_field_explains_itself() {
    let mut pending: Vec<String> = builtin::kinds()
        .map(|(api_version, kind)| builtin::schema(api_version, kind).unwrap().name.clone().unwrap())
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    while let Some(name) = pending.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let found = builtin::type_named(&name).unwrap();
        assert!(found.description.is_some(), "{name} has no description");
        for (field, property) in &found.properties {
            let words = property.description.as_deref().unwrap_or_default();
            assert!(words.ends_with('.') && words.len() > 4, "{name}.{field}: {words:?}");
        }
        pending.extend(found.referenced_names());
    }
}
