use apiserver::authz::escalation::RoleWrite;
use apiserver::user::User;
use rstest::rstest;
use serde_json::{Value, json};

use super::House;

const POLICY: &str = r"
kind: ClusterRole
metadata: { name: limited }
rules:
- { apiGroups: [''], resources: [pods], verbs: [get, list] }
- { apiGroups: [''], resources: [secrets], resourceNames: [mine], verbs: [get] }
---
kind: ClusterRole
metadata: { name: mighty }
rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]
---
kind: ClusterRole
metadata: { name: keeper }
rules:
- { apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate] }
- { apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [mighty], verbs: [bind] }
---
kind: RoleBinding
metadata: { name: lim, namespace: team }
roleRef: { kind: ClusterRole, name: limited }
subjects: [{ kind: User, name: lim }]
---
kind: ClusterRoleBinding
metadata: { name: kim }
roleRef: { kind: ClusterRole, name: keeper }
subjects: [{ kind: User, name: kim }]
";

async fn write(user: &str, resource: &str, new: Value, old: Option<Value>) -> Result<(), machinery::status::Status> {
    let house = House::new();
    house.roles(POLICY).await;
    let user = User { name: user.into(), groups: vec!["g".into()], ..User::default() };
    let write = RoleWrite { user: &user, resource, namespace: "team", name: "new", new: &new, old: old.as_ref() };
    house.access.authorizer().check_role_write(&write)
}

fn role(resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
    json!({ "rules": [{ "apiGroups": [""], "resources": resources, "resourceNames": names, "verbs": verbs }] })
}

#[rstest]
#[case("lim", role(&["pods"], &[], &["get"]), true)]
#[case("lim", role(&["pods"], &["one"], &["get", "list"]), true)]
#[case("lim", role(&["pods"], &[], &["get", "delete"]), false)]
#[case("lim", role(&["pods", "services"], &[], &["get"]), false)]
#[case("lim", role(&["pods/log"], &[], &["get"]), false)]
#[case("lim", role(&["*"], &[], &["get"]), false)]
#[case("lim", role(&["secrets"], &["mine"], &["get"]), true)]
#[case("lim", role(&["secrets"], &["mine", "yours"], &["get"]), false)]
#[case("lim", role(&["secrets"], &[], &["get"]), false)]
#[case("kim", role(&["*"], &[], &["*"]), true)]
#[case("lim", json!({ "aggregationRule": { "clusterRoleSelectors": [{}] }, "rules": [] }), false)]
#[tokio::test]
async fn a_role_grants_only_what_its_writer_holds(#[case] user: &str, #[case] new: Value, #[case] good: bool) {
    assert_eq!(write(user, "roles", new, None).await.is_ok(), good);
}

#[tokio::test]
async fn unchanged_rules_may_be_kept_by_anyone_who_may_write() {
    let old = role(&["*"], &[], &["*"]);
    let mut new = old.clone();
    new["metadata"] = json!({ "labels": { "touched": "true" } });
    write("lim", "roles", new, Some(old)).await.unwrap();
}

fn binding(kind: &str, role: &str, subject: &str) -> Value {
    json!({ "roleRef": { "kind": kind, "name": role }, "subjects": [{ "kind": "User", "name": subject }] })
}

#[rstest]
#[case("lim", "limited", None)]
#[case("lim", "mighty", Some(403))]
#[case("kim", "mighty", None)]
#[case("kim", "limited", Some(403))]
#[case("lim", "missing", Some(404))]
#[tokio::test]
async fn a_binding_grants_only_what_its_writer_holds(
    #[case] user: &str,
    #[case] role: &str,
    #[case] refused: Option<u16>,
) {
    let result = write(user, "rolebindings", binding("ClusterRole", role, "friend"), None).await;
    assert_eq!(result.err().map(|status| status.code), refused);
}

#[tokio::test]
async fn a_binding_stays_with_its_role() {
    let old = binding("ClusterRole", "limited", "friend");
    let refused =
        write("lim", "rolebindings", binding("ClusterRole", "mighty", "friend"), Some(old)).await.unwrap_err();
    assert_eq!(refused.code, 422);
    assert_eq!(refused.details.causes[0].field, "roleRef");
}

#[tokio::test]
async fn the_refusal_lists_what_is_missing() {
    let refused = write("lim", "roles", role(&["nodes"], &[], &["get"]), None).await.unwrap_err();
    assert_eq!(
        refused.message,
        "roles.rbac.authorization.k8s.io \"new\" is forbidden: user \"lim\" (groups=[\"g\"]) is attempting to grant \
         RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}"
    );
}
