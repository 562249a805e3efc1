//! What to do about a `PromptPack`. Pure.

use std::collections::BTreeMap;

use api::omnia::pack::Pack;
use api::omnia::{KeptVersion, PackPhase, PromptPack, PromptPackStatus, names};
use engine::condition::Truth;
use engine::{Conditions, Decision, Event, Failure, Outcome};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::observe::Observed;
use crate::omnia::owner::{labels, owned};
use crate::omnia::report::is_news;

/// Contents that are kept beside those that an agent names.
const KEPT: usize = 10;

/// Decides.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let pack = &*observed.pack;
    let mut report = Report::new(pack, now);
    let text = match source(observed) {
        Ok(text) => text,
        Err(message) => {
            report.conditions.set("SourceValid", false, "SourceValidationFailed", &message);
            report.conditions.set("SchemaValid", Truth::Unknown, "SourceInvalid", "there is no content to check");
            return report.failed("SourceValid", "SourceValidationFailed", &message);
        }
    };
    report.conditions.set("SourceValid", true, "SourceValid", "the content was found");
    let content = match Pack::parse(text) {
        Ok(content) => content,
        Err(invalid) => {
            let message = format!("{}: {invalid}", names::PACK_KEY);
            report.conditions.set("SchemaValid", false, "SchemaValidationFailed", &message);
            return report.failed("SchemaValid", "SchemaValidationFailed", &message);
        }
    };
    report.conditions.set("SchemaValid", true, "SchemaValid", "the content is a pack");
    if bare(&content.version) != bare(&pack.spec.version) {
        return report.held(&content.version);
    }
    report.conditions.set("VersionsAgree", true, "VersionsAgree", "the content is of the version that is wanted");
    activate(observed, text, &content, report)
}

/// A version without the `v` that may be in front of it.
fn bare(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

/// The text of the pack, or why it cannot be had.
fn source(observed: &Observed) -> Result<&str, String> {
    let reference = observed.pack.spec.source.config_map_ref.as_ref();
    let name = reference.map(|reference| reference.name.as_str()).unwrap_or_default();
    let Some(map) = &observed.source else {
        return Err(format!("spec.source.configMapRef.name: ConfigMap {name} does not exist in this namespace"));
    };
    let text = map.data.as_ref().and_then(|data| data.get(names::PACK_KEY)).map(String::as_str).unwrap_or_default();
    if text.is_empty() {
        return Err(format!("spec.source.configMapRef.name: ConfigMap {name} has no text under {}", names::PACK_KEY));
    }
    Ok(text)
}

/// Immediate: keep the content, give it to the agents, say so.
fn activate<'a>(observed: &'a Observed, text: &str, content: &Pack, mut report: Report<'a>) -> Decision {
    let pack = &*observed.pack;
    let kept = kept(pack, text, &content.version);
    let name = kept.name_any();
    let is_kept = |name: &str| observed.kept.iter().any(|map| map.metadata.name.as_deref() == Some(name));
    if !is_kept(&name) {
        report.decision.create(&kept);
    }
    let active = active(pack, text, &content.version);
    // The cache knows only the names of ConfigMaps, so that the comparison is made here.
    let is_active = observed.active.as_ref().is_some_and(|present| present.data == active.data);
    if !is_active {
        report.decision.apply(&active);
    }
    let current = KeptVersion {
        version: content.version.clone(),
        config_map: name.clone(),
        prompts: content.prompts.keys().cloned().collect(),
        entry: content.entry(None).ok().map(ToOwned::to_owned),
    };
    let mut versions = vec![current];
    let before = report.status.versions.clone();
    versions.extend(before.into_iter().filter(|version| version.config_map != name && is_kept(&version.config_map)));
    let mut rest = 0;
    versions.retain(|version| {
        rest += 1;
        rest <= KEPT || observed.pinned.contains(&version.version)
    });
    for map in &observed.kept {
        let wanted = versions.iter().any(|version| Some(&version.config_map) == map.metadata.name.as_ref());
        if !wanted {
            report.decision.delete(&**map);
        }
    }
    report.active(observed, versions)
}

/// One content, under a name that no other content has.
fn kept(pack: &PromptPack, text: &str, version: &str) -> ConfigMap {
    let name = names::kept_config_map(&pack.name_any(), text);
    ConfigMap { immutable: Some(true), ..holder(pack, name, text, version) }
}

/// The content that agents read, always under the same name.
fn active(pack: &PromptPack, text: &str, version: &str) -> ConfigMap {
    holder(pack, names::active_config_map(&pack.name_any()), text, version)
}

fn holder(pack: &PromptPack, name: String, text: &str, version: &str) -> ConfigMap {
    let mut labels = labels("pack", &pack.name_any());
    labels.insert(names::PACK_LABEL.into(), pack.name_any());
    let mut metadata = owned(pack, name, labels);
    metadata.annotations = Some(BTreeMap::from([(names::VERSION_ANNOTATION.to_owned(), version.to_owned())]));
    let data = BTreeMap::from([(names::PACK_KEY.to_owned(), text.to_owned())]);
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

/// The status while it is made.
struct Report<'a> {
    pack: &'a PromptPack,
    status: PromptPackStatus,
    conditions: Conditions,
    decision: Decision,
    now: Timestamp,
}

impl<'a> Report<'a> {
    fn new(pack: &'a PromptPack, now: Timestamp) -> Self {
        let status = pack.status.clone().unwrap_or_default();
        let conditions = Conditions::new(&status.conditions, pack.metadata.generation, now);
        Self { pack, status, conditions, decision: Decision::none(), now }
    }

    fn active(mut self, observed: &Observed, versions: Vec<KeptVersion>) -> Decision {
        let current = versions[0].clone();
        if self.status.versions.first() != Some(&current) || self.status.active_version.is_none() {
            self.status.last_updated = Some(Time(self.now));
            let note = format!("version {} is active", current.version);
            self.decision.event(Event::normal(self.pack, "Activated", "Rollout", note));
        }
        self.status.active_version = Some(current.version);
        self.status.versions = versions;
        self.status.phase = Some(PackPhase::Active);
        let count = observed.agents;
        self.status.agents = i32::try_from(count).unwrap_or(i32::MAX);
        let (reason, message) = match count {
            0 => ("NoAgentsToNotify", "no AgentRuntime uses the pack".to_owned()),
            _ => ("AgentsNotified", format!("{count} AgentRuntimes use the pack")),
        };
        self.conditions.set("AgentsNotified", true, reason, message);
        self.finish()
    }

    /// The content and the wanted version are not the same: one of the two writes is still to come.
    fn held(mut self, version: &str) -> Decision {
        let wanted = &self.pack.spec.version;
        let message =
            format!("spec.version is {wanted} and the content is of version {version}: held until they agree");
        self.conditions.set("VersionsAgree", false, "VersionMismatch", &message);
        self.status.phase = Some(PackPhase::Pending);
        self.decision.outcome(Outcome::Waiting(message));
        self.finish()
    }

    /// The content cannot be used. What was active stays so.
    fn failed(mut self, condition: &str, reason: &str, message: &str) -> Decision {
        if is_news(&self.status.conditions, condition, message) {
            self.decision.event(Event::warning(self.pack, reason, "Validate", message));
        }
        self.status.phase = Some(PackPhase::Failed);
        self.decision.outcome(Outcome::Permanent(message.to_owned()));
        self.finish()
    }

    fn finish(mut self) -> Decision {
        self.status.conditions = self.conditions.finish();
        self.status.observed_generation = self.pack.metadata.generation;
        self.decision.status(self.pack, self.pack.status.as_ref(), &self.status);
        self.decision
    }
}

/// What to say when the API server refused a step.
pub(super) fn refused(observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
    let mut report = Report::new(&observed.pack, now);
    report.conditions.set("AgentsNotified", false, failure.reason, &failure.message);
    if is_news(&report.status.conditions, "AgentsNotified", &failure.message) {
        report.decision.event(Event::warning(&*observed.pack, failure.reason, "Rollout", &failure.message));
    }
    report.finish()
}
