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
