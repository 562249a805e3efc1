use apiserver::attributes::Attributes;
use apiserver::authz::{Decision, Policy, bootstrap};
use apiserver::user::{AUTHENTICATED, User};
use bytes::Bytes;
use rstest::rstest;
use serde_json::{Value, json};

use super::House;

const POLICY: &str = r"
kind: ClusterRole
metadata: { name: reader }
rules:
- { apiGroups: [''], resources: [pods, pods/log], verbs: [get, list] }
- { apiGroups: [''], resources: [secrets], resourceNames: [mine], verbs: [get] }
- { apiGroups: ['*'], resources: ['*/scale'], verbs: ['*'] }
- { nonResourceURLs: [/metrics, /debug/*], verbs: [get] }
---
kind: Role
metadata: { name: writer, namespace: team }
rules:
- { apiGroups: [apps], resources: [deployments], verbs: ['*'] }
---
kind: ClusterRoleBinding
metadata: { name: readers }
roleRef: { kind: ClusterRole, name: reader }
subjects: [{ kind: Group, name: readers }]
---
kind: RoleBinding
metadata: { name: writers, namespace: team }
roleRef: { kind: Role, name: writer }
subjects:
- { kind: User, name: wanda }
- { kind: ServiceAccount, name: builder, namespace: tools }
---
kind: RoleBinding
metadata: { name: readers-here, namespace: team }
roleRef: { kind: ClusterRole, name: reader }
subjects: [{ kind: User, name: wanda }]
---
kind: RoleBinding
metadata: { name: dangling, namespace: team }
roleRef: { kind: Role, name: gone }
subjects: [{ kind: User, name: wanda }]
";

fn policy(objects: &[Value]) -> Policy {
    let of = |kind: &'static str| {
        objects.iter().filter(move |object| object["kind"] == kind).map(|object| Bytes::from(object.to_string()))
    };
    Policy::new(of("ClusterRole"), of("Role"), of("ClusterRoleBinding"), of("RoleBinding"))
}

fn documents(yaml: &str) -> Vec<Value> {
    yaml.split("---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|&group| group.into()).collect(), ..User::default() }
}

/// `verb group/resource/subresource namespace/name` as attributes.
fn ask<'a>(user: &'a User, verb: &'a str, what: &'a str, place: &'a str) -> Attributes<'a> {
    if what.starts_with("//") {
        return Attributes::path(user, verb, &what[1..]);
    }
    let mut parts = what.split('/');
    let (group, resource, subresource) =
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap_or_default());
    let (namespace, name) = place.split_once('/').unwrap_or((place, ""));
    Attributes { user, verb, group, resource, subresource, namespace, name, path: "" }
}

#[rstest]
// A cluster-wide grant holds everywhere, for what it names and nothing else.
#[case("ann", &["readers"], "get", "/pods", "anywhere/p", true)]
#[case("ann", &["readers"], "list", "/pods", "", true)]
#[case("ann", &["readers"], "watch", "/pods", "", false)]
#[case("ann", &["readers"], "delete", "/pods", "anywhere/p", false)]
#[case("ann", &["readers"], "get", "apps/pods", "anywhere/p", false)]
#[case("ann", &["others"], "get", "/pods", "anywhere/p", false)]
// Subresources are things of their own.
#[case("ann", &["readers"], "get", "/pods/log", "anywhere/p", true)]
#[case("ann", &["readers"], "get", "/pods/exec", "anywhere/p", false)]
#[case("ann", &["readers"], "create", "/pods/exec", "anywhere/p", false)]
#[case("ann", &["readers"], "get", "/pods/status", "anywhere/p", false)]
#[case("ann", &["readers"], "update", "apps/deployments/scale", "anywhere/d", true)]
#[case("ann", &["readers"], "update", "apps/deployments", "anywhere/d", false)]
#[case("ann", &["readers"], "get", "apps/scale", "anywhere/d", false)]
// Names.
#[case("ann", &["readers"], "get", "/secrets", "anywhere/mine", true)]
#[case("ann", &["readers"], "get", "/secrets", "anywhere/yours", false)]
#[case("ann", &["readers"], "list", "/secrets", "anywhere", false)]
#[case("ann", &["readers"], "get", "/secrets", "anywhere", false)]
// Paths.
#[case("ann", &["readers"], "get", "//metrics", "", true)]
#[case("ann", &["readers"], "get", "//metrics/more", "", false)]
#[case("ann", &["readers"], "get", "//debug/pprof", "", true)]
#[case("ann", &["readers"], "post", "//metrics", "", false)]
// A grant in a namespace ends at its border.
#[case("wanda", &[], "delete", "apps/deployments", "team/d", true)]
#[case("wanda", &[], "delete", "apps/deployments", "elsewhere/d", false)]
#[case("wanda", &[], "list", "apps/deployments", "", false)]
#[case("wanda", &[], "get", "/pods", "team/p", true)]
#[case("wanda", &[], "get", "/pods", "", false)]
#[case("wanda", &[], "get", "//metrics", "", false)]
// Service accounts are matched by namespace and name, not by a user who is called like one.
#[case("system:serviceaccount:tools:builder", &[], "create", "apps/deployments", "team", true)]
#[case("system:serviceaccount:other:builder", &[], "create", "apps/deployments", "team", false)]
#[case("builder", &[], "create", "apps/deployments", "team", false)]
// "*" in the question is not "anything goes": only who may do everything may do `*`.
#[case("ann", &["readers"], "*", "/pods", "", false)]
#[case("wanda", &[], "*", "apps/deployments", "team", true)]
fn rules_decide(
    #[case] name: &str,
    #[case] groups: &[&str],
    #[case] verb: &str,
    #[case] what: &str,
    #[case] place: &str,
    #[case] allowed: bool,
) {
    let user = user(name, groups);
    assert_eq!(policy(&documents(POLICY)).decide(&ask(&user, verb, what, place)).is_allowed(), allowed);
}

#[test]
fn the_reason_names_the_grant() {
    let policy = policy(&documents(POLICY));
    let wanda = user("wanda", &[]);
    assert_eq!(
        policy.decide(&ask(&wanda, "get", "apps/deployments", "team/d")),
        Decision::Allowed("RBAC: allowed by RoleBinding \"writers/team\" of Role \"writer\" to User \"wanda\"".into())
    );
}

#[rstest]
#[case("view", "get", "/configmaps", true)]
#[case("view", "get", "/secrets", false)]
#[case("view", "create", "/configmaps", false)]
#[case("view", "create", "/pods/exec", false)]
#[case("view", "get", "/pods/log", true)]
#[case("view", "watch", "kubeopencode.io/tasks", true)]
#[case("view", "create", "kubeopencode.io/tasks", false)]
#[case("edit", "create", "kubeopencode.io/tasks", true)]
#[case("edit", "get", "/configmaps", true)]
#[case("edit", "get", "/secrets", true)]
#[case("edit", "create", "/pods/exec", true)]
#[case("edit", "create", "/serviceaccounts/token", true)]
#[case("edit", "create", "rbac.authorization.k8s.io/roles", false)]
#[case("admin", "create", "rbac.authorization.k8s.io/roles", true)]
#[case("admin", "get", "/configmaps", true)]
#[case("admin", "update", "/namespaces", false)]
#[case("cluster-admin", "obliterate", "anything/at-all", true)]
fn bootstrap_roles_aggregate(#[case] role: &str, #[case] verb: &str, #[case] what: &str, #[case] allowed: bool) {
    let mut objects = bootstrap::objects();
    objects.push(json!({
        "kind": "RoleBinding",
        "metadata": { "name": "test", "namespace": "team" },
        "roleRef": { "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "User", "name": "una" }],
    }));
    let una = user("una", &[]);
    assert_eq!(policy(&objects).decide(&ask(&una, verb, what, "team/x")).is_allowed(), allowed);
}

#[rstest]
#[case(&[AUTHENTICATED], "get", "//apis/apps", true)]
#[case(&[AUTHENTICATED], "create", "authorization.k8s.io/selfsubjectaccessreviews", true)]
#[case(&[AUTHENTICATED], "create", "authorization.k8s.io/subjectaccessreviews", false)]
#[case(&[AUTHENTICATED], "get", "/pods", false)]
#[case(&["system:unauthenticated"], "get", "//version", true)]
#[case(&["system:unauthenticated"], "get", "//apis", false)]
fn bootstrap_gives_everyone_little(
    #[case] groups: &[&str],
    #[case] verb: &str,
    #[case] what: &str,
    #[case] allowed: bool,
) {
    let someone = user("someone", groups);
    assert_eq!(policy(&bootstrap::objects()).decide(&ask(&someone, verb, what, "")).is_allowed(), allowed);
}

#[tokio::test]
async fn a_revoked_right_is_gone_with_the_write() {
    let house = House::new();
    let ann = user("ann", &["readers"]);
    let question = ask(&ann, "get", "/pods", "team/p");
    assert!(house.access.authorize(&question).is_err());
    house.roles(POLICY).await;
    house.access.authorize(&question).unwrap();
    // Other writes do not disturb the policy.
    house.put("/configmaps", &json!({ "metadata": { "namespace": "team", "name": "c" } })).await;
    house.access.authorize(&question).unwrap();
    house.remove("rbac.authorization.k8s.io/clusterrolebindings", "", "readers").await;
    let refused = house.access.authorize(&question).unwrap_err();
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        "pods \"p\" is forbidden: User \"ann\" cannot get resource \"pods\" in API group \"\" in the namespace \"team\""
    );
}

#[tokio::test]
async fn masters_need_no_role() {
    let house = House::new();
    let admin = User::master("admin");
    house.access.authorize(&ask(&admin, "delete", "/nodes", "/n")).unwrap();
}

#[test]
fn later_releases_add_to_roles_and_take_nothing_away() {
    let wanted = bootstrap::objects().into_iter().find(|role| role["metadata"]["name"] == "system:basic-user").unwrap();
    assert_eq!(bootstrap::amend(&wanted, &wanted), None);
    let mut older = wanted.clone();
    older["rules"] = json!([{ "apiGroups": ["mine"], "resources": ["things"], "verbs": ["get"] }]);
    let amended = bootstrap::amend(&older, &wanted).unwrap();
    assert_eq!(amended["rules"].as_array().unwrap().len(), 1 + wanted["rules"].as_array().unwrap().len());
    assert_eq!(amended["rules"][0], older["rules"][0]);
    older["metadata"]["annotations"][bootstrap::AUTOUPDATE] = "false".into();
    assert_eq!(bootstrap::amend(&older, &wanted), None);
}
