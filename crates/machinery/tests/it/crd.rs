use machinery::crd;
use rstest::rstest;
use serde_json::{Value, json};

fn definition() -> Value {
    let mut definition = json!({
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}}],
        },
    });
    crd::default(&mut definition);
    definition
}

#[test]
fn names_conversion_and_stored_version_follow_from_the_rest() {
    let definition = definition();
    assert_eq!(
        definition["spec"]["names"],
        json!({"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"})
    );
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd::validate(&definition, None), []);
}

#[rstest]
#[case("/metadata/name", json!("wrong.x.io"), "metadata.name: Invalid value: \"wrong.x.io\": must be spec.names.plural+\".\"+spec.group")]
#[case("/spec/scope", json!("Galaxy"), "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"")]
#[case("/spec/names/kind", json!("a_b"), "spec.names.kind: Invalid value: \"a_b\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')")]
#[case("/spec/names/listKind", json!("Thing"), "spec.names.listKind: Invalid value: \"Thing\": kind and listKind may not be the same")]
#[case("/spec/versions/0/schema/openAPIV3Schema/properties/spec/type", json!("strin"), "spec.validation.openAPIV3Schema.properties[spec].type: Unsupported value: \"strin\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"")]
#[case("/spec/versions/0/additionalPrinterColumns", json!([{"name": "N", "type": "text", "jsonPath": ".spec.n"}]), "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string")]
#[case("/spec/versions/0/subresources", json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".spec.n"}}), "spec.subresources.scale.statusReplicasPath: Invalid value: \".spec.n\": should be a json path under .status")]
#[case("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.m"}]), "spec.selectableFields[0].jsonPath: Invalid value: \".spec.m\": is an invalid path: does not refer to a valid field")]
#[case("/spec/conversion/strategy", json!("Magic"), "spec.conversion.strategy: Unsupported value: \"Magic\": supported values: \"None\", \"Webhook\"")]
#[case("/status/storedVersions", json!(["v0", "v1"]), "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions")]
fn faults(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
    let mut definition = definition();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    definition.pointer_mut(parent).unwrap()[key] = value;
    let causes = crd::validate(&definition, None);
    let lines: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    assert_eq!(lines, [expected]);
}

#[test]
fn exactly_one_version_is_stored() {
    let mut definition = definition();
    definition["spec"]["versions"][0]["storage"] = json!(false);
    let causes = crd::validate(&definition, None);
    assert!(causes.iter().any(|cause| cause.field == "spec.versions"
        && cause.message.ends_with("must have exactly one version marked as storage version")));
}

#[test]
fn an_established_definition_keeps_its_kind() {
    let mut old = definition();
    old["metadata"]["resourceVersion"] = json!("1");
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    let mut new = old.clone();
    new["spec"]["names"]["kind"] = json!("Other");
    let causes = crd::validate(&new, Some(&old));
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0].message, "Invalid value: \"Other\": field is immutable");
}
