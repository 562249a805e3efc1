//! What happens to definitions over time: those going away take their objects with them, those whose
//! names become free are accepted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use machinery::status::Status;
use serde_json::Value;
use store::{Paging, Scope};

use super::{DEFINITIONS, FINALIZER, conditions};
use crate::call::Call;
use crate::kinds::Kind;
use crate::object;
use crate::request::Verb;
use crate::server::ApiServer;
use crate::verbs::delete;
use crate::write::{self, Proposal};

/// Follows the definitions until the server closes.
pub async fn follow(server: ApiServer) {
    let scope = Scope::all(DEFINITIONS);
    let closing = server.closing();
    loop {
        let Ok(page) = server.store().list(&scope, &Paging::default()) else { return };
        let Ok(mut watch) = server.store().watch(&scope, page.revision) else { continue };
        loop {
            let waiting = tend(&server).await;
            // Objects held by finalizers go when their owners let them; nothing tells us but a look.
            let again = if waiting { Duration::from_millis(200) } else { Duration::from_hours(1) };
            tokio::select! {
                events = watch.next() => if events.is_err() { break },
                () = tokio::time::sleep(again) => {}
                () = closing.cancelled() => return,
            }
        }
    }
}

/// Looks at every definition; says whether one is still being emptied.
async fn tend(server: &ApiServer) -> bool {
    let page = server.store().list(&Scope::all(DEFINITIONS), &Paging::default());
    let mut waiting = false;
    for entry in page.map(|page| page.entries).unwrap_or_default() {
        let definition = object::parse(&entry.value);
        let ends =
            object::is_deleting(&definition) && object::finalizers(&definition).iter().any(|one| one == FINALIZER);
        let result = if ends {
            empty(server, &definition).await
        } else if !object::is_deleting(&definition) && !conditions::is_true(&definition, "NamesAccepted") {
            reconsider(server, object::name(&definition)).await.map(|()| true)
        } else {
            continue;
        };
        match result {
            Ok(done) => waiting |= !done,
            Err(status) => {
                tracing::warn!(definition = object::name(&definition), %status, "definition not tended, will retry");
                waiting = true;
            }
        }
    }
    waiting
}

/// Deletes the objects of a definition; when none is left, lets the definition go.
async fn empty(server: &ApiServer, definition: &Value) -> Result<bool, Status> {
    let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
    let resource = format!("{}/{}", group.as_str().unwrap_or_default(), plural.as_str().unwrap_or_default());
    let table = server.kinds().table();
    let row = table.iter().find(|row| row.storage.as_ref().is_some_and(|storage| *storage.resource == *resource));
    if let Some(row) = row {
        delete::delete_collection(&mut Call::internal(server, row, Verb::DeleteCollection, ""), &Bytes::new()).await?;
    }
    let left = server.store().list(&Scope::all(resource), &Paging::default()).map_err(Status::internal)?;
    if !left.entries.is_empty() {
        return Ok(false);
    }
    let Some(row) = definitions(server) else { return Ok(true) };
    let call = Call::internal(server, &row, Verb::Update, object::name(definition));
    write::modify(&call, "", |live| {
        let mut object = live.clone();
        let finalizers: Vec<String> = object::finalizers(live).into_iter().filter(|one| one != FINALIZER).collect();
        object::set_finalizers(&mut object, &finalizers);
        Ok(Proposal::whole(object))
    })
    .await?;
    Ok(true)
}

/// Judges the names again: whoever had them may be gone.
async fn reconsider(server: &ApiServer, name: &str) -> Result<(), Status> {
    let Some(row) = definitions(server) else { return Ok(()) };
    let call = Call::internal(server, &row, Verb::Update, name);
    write::modify(&call, "", |live| Ok(Proposal::whole(live.clone()))).await?;
    Ok(())
}

fn definitions(server: &ApiServer) -> Option<Arc<Kind>> {
    server.kinds().table().find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
}
