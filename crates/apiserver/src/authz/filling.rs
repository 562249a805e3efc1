//! Aggregated `ClusterRoles` carry the rules they stand for, for those who read them. Decisions do not need it.

use machinery::status::Status;
use serde_json::{Value, json};
use store::{Paging, Scope};

use super::{GROUP, Rule};
use crate::call::Call;
use crate::object;
use crate::request::Verb;
use crate::server::ApiServer;
use crate::write::{self, Proposal};

const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";

/// Follows the roles until the server closes.
pub async fn follow(server: ApiServer) {
    let scope = Scope::all(CLUSTER_ROLES);
    let closing = server.closing();
    loop {
        let Ok(page) = server.store().list(&scope, &Paging::default()) else { return };
        let Ok(mut watch) = server.store().watch(&scope, page.revision) else { continue };
        loop {
            fill_all(&server).await;
            tokio::select! {
                events = watch.next() => if events.is_err() { break },
                () = closing.cancelled() => return,
            }
        }
    }
}

/// Fills every aggregated role that does not say what it stands for.
async fn fill_all(server: &ApiServer) {
    let page = server.store().list(&Scope::all(CLUSTER_ROLES), &Paging::default());
    for entry in page.map(|page| page.entries).unwrap_or_default() {
        let role = object::parse(&entry.value);
        if role.get("aggregationRule").is_none_or(Value::is_null) {
            continue;
        }
        let rules = server.access().authorizer().policy().cluster_role(object::name(&role)).to_vec();
        if role["rules"] != json!(rules)
            && let Err(status) = fill(server, object::name(&role), &rules).await
        {
            // The next change of a role is the next try.
            tracing::warn!(role = object::name(&role), %status, "an aggregated role could not be filled");
        }
    }
}

async fn fill(server: &ApiServer, name: &str, rules: &[Rule]) -> Result<(), Status> {
    let Some(row) = server.kinds().table().find(GROUP, "v1", "clusterroles").cloned() else { return Ok(()) };
    let call = Call::internal(server, &row, Verb::Update, name);
    write::modify(&call, "", |live| {
        let mut role = live.clone();
        role["rules"] = json!(rules);
        Ok(Proposal::whole(role))
    })
    .await?;
    Ok(())
}
