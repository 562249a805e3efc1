//! When schedules will run next, by the same reading of a schedule that the controller has.

use axum::Json;
use axum::extract::{Extension, State};
use controllers::kubeopencode::cron_task::Schedule;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Query, check_namespace};
use crate::kinds::Kind;
use crate::resources::visible;

/// A schedule that runs every minute fills a timeline with this many; more are only said to be there.
const MOST: usize = 100;
const WEEK: u16 = 7 * 24;

/// How far ahead.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Ahead {
    /// Hours ahead, a week unless told, 31 days at most.
    hours: Option<u16>,
    /// Only this namespace.
    namespace: Option<String>,
}

/// `GET /api/v1/upcoming`.
pub async fn upcoming(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(ahead): Query<Ahead>,
) -> Result<Json<Value>> {
    check_namespace(ahead.namespace.as_deref())?;
    let hours = ahead.hours.unwrap_or(WEEK).clamp(1, 31 * 24);
    let kind = Kind::by_plural("crontasks").expect("crontasks are in the table");
    let cron_tasks = visible(kind, &app, &caller, ahead.namespace.as_deref(), None).await?;
    let now =
        Timestamp::try_from(std::time::SystemTime::now()).map_err(|error| Error::bad_request(error.to_string()))?;
    let until = now + SignedDuration::from_hours(hours.into());
    let schedules: Vec<Value> = cron_tasks
        .iter()
        .filter(|cron_task| cron_task.data["spec"]["suspend"] != true)
        .map(|cron_task| {
            let runs = runs(&cron_task.data["spec"], now, until);
            let more = runs.len() > MOST;
            let runs: Vec<String> = runs.iter().take(MOST).map(Timestamp::to_string).collect();
            json!({"namespace": cron_task.namespace(), "name": cron_task.name_any(), "runs": runs, "more": more})
        })
        .collect();
    Ok(Json(json!({"from": now.to_string(), "until": until.to_string(), "schedules": schedules})))
}

/// The instants after `now`, one more than are shown. A schedule that cannot be read has none; its condition says why.
fn runs(spec: &Value, now: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let Ok(schedule) = Schedule::parse(spec["schedule"].as_str().unwrap_or_default(), spec["timeZone"].as_str()) else {
        return Vec::new();
    };
    let next = |time: &Timestamp| schedule.next_after(*time).filter(|next| *next <= until);
    std::iter::successors(next(&now), next).take(MOST + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    #[test]
    fn runs_come_in_the_zone_of_the_schedule_and_end_with_the_window() {
        let spec = json!({"schedule": "30 2 * * 1-5", "timeZone": "Europe/Vienna"});
        // A Friday; the weekend has none.
        let found = runs(&spec, at("2026-11-13T00:00:00Z"), at("2026-11-17T00:00:00Z"));
        assert_eq!(found, [at("2026-11-13T01:30:00Z"), at("2026-11-16T01:30:00Z")]);
        assert_eq!(
            runs(&json!({"schedule": "* * * * *"}), at("2026-11-13T00:00:00Z"), at("2026-11-17T00:00:00Z")).len(),
            MOST + 1
        );
        assert!(
            runs(&json!({"schedule": "nonsense"}), at("2026-11-13T00:00:00Z"), at("2026-11-17T00:00:00Z")).is_empty()
        );
    }
}
