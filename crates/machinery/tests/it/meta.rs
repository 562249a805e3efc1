use machinery::field::Path;
use machinery::meta::{self, NameRule};
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case(NameRule::DnsSubdomain, "a.b-c", None)]
#[case(
    NameRule::DnsSubdomain,
    "A",
    Some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )
)]
#[case(NameRule::DnsLabel, "a.b", Some("must not contain dots"))]
#[case(
    NameRule::Dns1035Label,
    "1a",
    Some(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
    )
)]
#[case(NameRule::PathSegment, "system:a", None)]
#[case(NameRule::PathSegment, "..", Some("may not be '..'"))]
#[case(NameRule::PathSegment, "a/b", Some("may not contain '/'"))]
fn names(#[case] rule: NameRule, #[case] name: &str, #[case] problem: Option<&str>) {
    assert_eq!(rule.problems(name, false).first().map(String::as_str), problem);
}

#[test]
fn a_prefix_may_end_in_a_dash() {
    assert_eq!(NameRule::DnsSubdomain.problems("web-", true), Vec::<String>::new());
    assert!(!NameRule::DnsSubdomain.problems("web-", false).is_empty());
}

#[test]
fn generated_names_fit_a_label_and_use_no_vowels() {
    let name = meta::generate_name(&"x".repeat(100), [0, 1, 26, 27, 255]);
    assert_eq!(name.len(), 63);
    assert!(name.ends_with("bc9bq"), "{name}");
}

#[rstest]
#[case::label_key(json!({"name": "a", "namespace": "b", "labels": {"a b": "c"}}), "metadata.labels", "Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')")]
#[case::label_value(json!({"name": "a", "namespace": "b", "labels": {"a": "-"}}), "metadata.labels", "Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')")]
#[case::no_name(json!({"namespace": "b"}), "metadata.name", "Required value: name or generateName is required")]
#[case::annotations(json!({"name": "a", "namespace": "b", "annotations": {"k": "v".repeat(256 * 1024)}}), "metadata.annotations", "Too long: may not be more than 262144 bytes")]
#[case::finalizers(json!({"name": "a", "namespace": "b", "finalizers": ["orphan", "foregroundDeletion"]}), "metadata.finalizers", "Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set")]
#[case::owner(json!({"name": "a", "namespace": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}), "metadata.ownerReferences.uid", "Invalid value: \"\": must not be empty")]
fn metadata_faults(#[case] metadata: Value, #[case] field: &str, #[case] message: &str) {
    let causes = meta::validate_create(&metadata, true, NameRule::DnsSubdomain, &Path::new("metadata"));
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!((causes[0].field.as_str(), causes[0].message.as_str()), (field, message));
}

#[test]
fn updates_cannot_change_identity_or_add_finalizers_while_deleting() {
    let old = json!({"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "5", "generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/a"]});
    let new = json!({"name": "b", "namespace": "n", "uid": "1", "resourceVersion": "5", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/b"]});
    let messages: Vec<String> = meta::validate_update(&new, &old, &Path::new("metadata"))
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    assert_eq!(
        messages,
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.io/b\"}",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
        ]
    );
}
