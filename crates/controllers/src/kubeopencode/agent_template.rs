//! A template: whether it can be used.

use std::sync::Arc;

use api::kubeopencode::{AgentTemplate, AgentTemplateStatus};
use engine::{Conditions, Controller, Decision, Error, Key, View, Watches};
use jiff::Timestamp;

use crate::pod::Settings;

/// Checks templates, so that their author hears of a mistake before the first user does.
pub struct TemplateController;

impl Controller for TemplateController {
    const NAME: &'static str = "kubeopencode-template";
    type Observed = Arc<AgentTemplate>;

    fn watches(&self) -> Watches {
        Watches::of::<AgentTemplate>()
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Self::Observed>, Error> {
        Ok(view.cached::<AgentTemplate>(key))
    }

    fn decide(&self, template: &Self::Observed, now: Timestamp) -> Decision {
        let current = template.status.clone().unwrap_or_default();
        let mut conditions = Conditions::new(&current.conditions, template.metadata.generation, now);
        match Settings::new(&template.spec.blueprint, None) {
            Ok(_) => conditions.set("Ready", true, "Valid", "the template can be used"),
            Err(invalid) => conditions.set("Ready", false, "Invalid", invalid.to_string()),
        };
        let status = AgentTemplateStatus {
            observed_generation: template.metadata.generation,
            conditions: conditions.finish(),
            ..current
        };
        let mut decision = Decision::none();
        decision.status(&**template, template.status.as_ref(), &status);
        decision
    }
}
