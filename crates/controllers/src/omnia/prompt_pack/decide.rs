//! What to do about a `PromptPack`. Pure.

use std::collections::BTreeMap;

use api::omnia::pack::Pack;
use api::omnia::{KeptVersion, PackPhase, PromptPack, PromptPackStatus, RejectedVersion, names};
use engine::condition::Truth;
use engine::{Conditions, Decision, Event, Failure, Outcome};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::observe::Observed;
use super::rollout::{ABORTED, Course, Progress, course};
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
    roll_out(observed, text, &content, report, now)
}

/// A version without the `v` that may be in front of it.
pub(super) fn bare(version: &str) -> &str {
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

/// Keeps the content, and gives it to the agents: all of them, or a share of their sessions.
fn roll_out<'a>(
    observed: &'a Observed,
    text: &str,
    content: &Pack,
    mut report: Report<'a>,
    now: Timestamp,
) -> Decision {
    let pack = &*observed.pack;
    let kept = kept(pack, text, &content.version);
    let name = kept.name_any();
    if !observed.is_kept(&name) {
        report.decision.create(&kept);
    }
    let wanted = KeptVersion {
        version: content.version.clone(),
        config_map: name,
        prompts: content.prompts.keys().cloned().collect(),
        entry: content.entry(None).ok().map(ToOwned::to_owned),
    };
    match course(observed, &wanted, now) {
        Course::Activate => {
            let active = active(pack, text, &content.version);
            // The cache knows only the names of ConfigMaps, so that the comparison is made here.
            let is_active = observed.active.as_ref().is_some_and(|present| present.data == active.data);
            if !is_active {
                report.decision.apply(&active);
            }
            let versions = versions(observed, vec![wanted], &mut report.decision);
            report.active(observed, versions)
        }
        Course::Canary(progress) => {
            let versions = beside(observed, &wanted, &mut report.decision);
            report.canary(observed, versions, &wanted, *progress)
        }
        Course::Reject(rejected) => {
            let versions = beside(observed, &wanted, &mut report.decision);
            report.rejected(observed, versions, rejected)
        }
    }
}

/// The active version and the one that is wanted, which are not the same.
fn beside(observed: &Observed, wanted: &KeptVersion, decision: &mut Decision) -> Vec<KeptVersion> {
    let status = observed.pack.status.as_ref();
    let mut first: Vec<KeptVersion> = status.and_then(|status| status.versions.first()).cloned().into_iter().collect();
    first.push(wanted.clone());
    versions(observed, first, decision)
}

/// The versions that are kept: these, those that agents name, and the newest others. The rest is deleted.
fn versions(observed: &Observed, first: Vec<KeptVersion>, decision: &mut Decision) -> Vec<KeptVersion> {
    let mut versions = first;
    for version in observed.pack.status.iter().flat_map(|status| &status.versions) {
        let is_listed = versions.iter().any(|listed| listed.config_map == version.config_map);
        if !is_listed && observed.is_kept(&version.config_map) {
            versions.push(version.clone());
        }
    }
    let pinned = observed.pinned();
    let mut rest = 0;
    versions.retain(|version| {
        rest += 1;
        rest <= KEPT || pinned.contains(version.version.as_str())
    });
    for map in &observed.kept {
        let wanted = versions.iter().any(|version| Some(&version.config_map) == map.metadata.name.as_ref());
        if !wanted {
            decision.delete(&**map);
        }
    }
    versions
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
        let promoted = self.status.canary.take().is_some_and(|canary| canary.config_map == current.config_map);
        if self.status.versions.first() != Some(&current) || self.status.active_version.is_none() {
            self.status.last_updated = Some(Time(self.now));
            let (reason, note) = if promoted { ("Promoted", "was promoted") } else { ("Activated", "is active") };
            let note = format!("version {} {note}", current.version);
            self.decision.event(Event::normal(self.pack, reason, "Rollout", note));
        }
        if promoted {
            let message = format!("version {} was promoted", current.version);
            self.conditions.set("CanaryProgressing", true, "Promoted", message);
        } else if engine::condition::find(&self.status.conditions, "CanaryProgressing")
            .is_some_and(|known| known.reason != "Promoted")
        {
            self.conditions.remove("CanaryProgressing");
        }
        self.status.active_version = Some(current.version);
        self.status.canary_version = None;
        self.status.canary_weight = None;
        self.status.rejected = None;
        self.status.phase = Some(PackPhase::Active);
        self.with_agents(observed, versions)
    }

    fn canary(
        mut self,
        observed: &Observed,
        versions: Vec<KeptVersion>,
        wanted: &KeptVersion,
        progress: Progress,
    ) -> Decision {
        let before = self.status.canary.as_ref().filter(|canary| canary.config_map == wanted.config_map);
        if before.is_none() {
            let note = format!("version {} gets {} % of the sessions", wanted.version, progress.weight);
            self.decision.event(Event::normal(self.pack, "CanaryStarted", "Rollout", note));
        } else if self.status.canary_weight != Some(progress.weight) {
            let note = format!("version {} now gets {} % of the sessions", wanted.version, progress.weight);
            self.decision.event(Event::normal(self.pack, "CanaryStepped", "Rollout", note));
        } else if before.is_some_and(|before| before.failures < progress.status.failures) {
            self.decision.event(Event::warning(self.pack, progress.reason, "Rollout", &progress.message));
        }
        self.conditions.set("CanaryProgressing", progress.truth, progress.reason, &progress.message);
        self.status.canary_version = Some(wanted.version.clone());
        self.status.canary_weight = Some(progress.weight);
        self.status.canary = Some(progress.status);
        self.status.rejected = None;
        self.status.phase = Some(PackPhase::Canary);
        if let Some(at) = progress.look_again {
            self.decision.look_again(at);
        }
        self.with_agents(observed, versions)
    }

    /// The version that is wanted was given up: what was active stays so.
    fn rejected(mut self, observed: &Observed, versions: Vec<KeptVersion>, rejected: RejectedVersion) -> Decision {
        if self.status.rejected.as_ref() != Some(&rejected) {
            self.decision.event(Event::warning(self.pack, &rejected.reason, "Rollout", &rejected.message));
        }
        self.conditions.set("CanaryProgressing", false, &rejected.reason, &rejected.message);
        self.status.canary_version = None;
        self.status.canary_weight = None;
        self.status.canary = None;
        // Who aborted it knows; nobody asked for a version that did not hold.
        let failed = rejected.reason != ABORTED;
        self.status.phase = Some(if failed { PackPhase::Failed } else { PackPhase::Active });
        self.status.rejected = Some(rejected);
        self.with_agents(observed, versions)
    }

    fn with_agents(mut self, observed: &Observed, versions: Vec<KeptVersion>) -> Decision {
        self.status.versions = versions;
        let count = observed.users.len();
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
