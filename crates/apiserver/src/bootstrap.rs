//! What must be there before the first client: definitions back in the table, the namespaces every
//! tool counts on, and the background work.

use std::time::Duration;

use http::Request;
use http::request::Builder;
use machinery::status::Status;
use serde_json::{Value, json};
use store::{Action, Change, Expect, Key, Paging, Scope};
use tower::ServiceExt as _;

use crate::authz;
use crate::crd;
use crate::object;
use crate::server::ApiServer;
use crate::user::User;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// How long Events are kept.
const EVENT_LIFETIME: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
const SWEEP_PERIOD: Duration = Duration::from_mins(1);

impl ApiServer {
    /// Prepares the store and starts background work. Idempotent over restarts.
    pub async fn start(&self) -> Result<(), Status> {
        crd::install_all(self);
        for name in NAMESPACES {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.ensure("/api/v1/namespaces", &namespace).await?;
        }
        self.ensure("/api/v1/namespaces/default/services", &self.kubernetes_service()).await?;
        // Together: they share the writes to the disk.
        let roles = authz::bootstrap::objects();
        futures::future::try_join_all(roles.iter().map(|role| self.ensure_role(role))).await?;
        tokio::spawn(crd::cleanup::follow(self.clone()));
        tokio::spawn(authz::filling::follow(self.clone()));
        tokio::spawn(sweep_events(self.clone()));
        Ok(())
    }

    fn kubernetes_service(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": { "component": "apiserver", "provider": "kubernetes" },
            },
            "spec": {
                "type": "ClusterIP", "clusterIP": self.addresses().first().to_string(), "sessionAffinity": "None",
                "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": self.port() }],
            },
        })
    }

    /// Makes a role or binding, or adds what an older release did not know.
    async fn ensure_role(&self, wanted: &Value) -> Result<(), Status> {
        let plural = wanted["kind"].as_str().unwrap_or_default().to_lowercase() + "s";
        let name = object::text(wanted, "name");
        let path = format!("/apis/{}/v1/{plural}", authz::GROUP);
        let stored = self.store().get(&Key::new(format!("{}/{plural}", authz::GROUP), "", name));
        match stored.map(|entry| object::parse(&entry.value)) {
            None => self.ensure(&path, wanted).await,
            Some(current) => match authz::bootstrap::amend(&current, wanted) {
                Some(amended) => self.send(Request::put(format!("{path}/{name}")), &path, &amended).await,
                None => Ok(()),
            },
        }
    }

    /// Makes an object unless it is there, through the front door.
    async fn ensure(&self, path: &str, object: &Value) -> Result<(), Status> {
        self.send(Request::post(path), path, object).await
    }

    async fn send(&self, request: Builder, path: &str, object: &Value) -> Result<(), Status> {
        let request = request
            .header("content-type", "application/json")
            .header("user-agent", "orrery")
            .body(axum::body::Body::from(object.to_string()))
            .map_err(Status::internal)?;
        let service = self.service_as(User::master("system:apiserver"));
        let Ok(response) = service.oneshot(request).await;
        match response.status().as_u16() {
            200 | 201 | 409 => Ok(()),
            code => {
                let body = axum::body::to_bytes(response.into_body(), 64 * 1024).await.unwrap_or_default();
                Err(Status::internal(format!("cannot write {path}: {code} {}", String::from_utf8_lossy(&body))))
            }
        }
    }
}

/// Drops Events that are past their time.
async fn sweep_events(server: ApiServer) {
    let closing = server.closing();
    loop {
        let Ok(page) = server.store().list(&Scope::all("/events"), &Paging::default()) else { return };
        let limit = jiff::Timestamp::now() - EVENT_LIFETIME;
        for entry in page.entries {
            let event = object::parse(&entry.value);
            if last_seen(&event).is_none_or(|time| time >= limit) {
                continue;
            }
            let change = Change {
                key: entry.key.clone(),
                expect: Expect::At(entry.revision),
                action: Action::Delete(object::draft(&event)),
            };
            // One that changed in between is fresh again; any other failure comes up at the next sweep.
            let _ = server.store().write(change).await;
        }
        tokio::select! {
            () = tokio::time::sleep(SWEEP_PERIOD) => {}
            () = closing.cancelled() => return,
        }
    }
}

/// When an Event last said something.
fn last_seen(event: &Value) -> Option<jiff::Timestamp> {
    let times = [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
    let said = times.iter().filter_map(|time| time.as_str()?.parse::<jiff::Timestamp>().ok()).max();
    said.or_else(|| object::text(event, "creationTimestamp").parse().ok())
}
