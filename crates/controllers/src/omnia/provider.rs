//! A Provider: whether its key can be had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::omnia::{Provider, ProviderPhase, ProviderSecret, ProviderStatus, ProviderType};
use engine::{Conditions, Controller, Decision, Error, Event, Key, Outcome, View, Watches};
use jiff::Timestamp;

use super::contents::{self, Contents, SecretName};
use super::report::is_news;

/// Checks providers, so that their author hears of a mistake before the first agent does.
pub struct ProviderController;

/// What a decision about a Provider depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Provider.
    pub provider: Arc<Provider>,
    /// Its Secret, if it names one that is there.
    pub secrets: BTreeMap<String, Contents>,
}

impl Controller for ProviderController {
    const NAME: &'static str = "omnia-provider";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<Provider>().mapped::<SecretName>(|secret, view| {
            let name = secret.metadata.name.clone().unwrap_or_default();
            let namespace = secret.metadata.namespace.clone().unwrap_or_default();
            let names =
                |provider: &Provider| provider.spec.secret_ref.as_ref().is_some_and(|secret| secret.name == name);
            let providers = view.list::<Provider>(&namespace);
            providers.iter().filter(|provider| names(provider)).map(|provider| Key::of(&**provider)).collect()
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(provider) = view.cached::<Provider>(key) else { return Ok(None) };
        let named: BTreeSet<String> = provider.spec.secret_ref.iter().map(|secret| secret.name.clone()).collect();
        let secrets = contents::secrets(&key.namespace, named, view).await?;
        Ok(Some(Observed { provider, secrets }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        decide(observed, now)
    }
}

/// Decides.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let provider = &*observed.provider;
    let spec = &provider.spec;
    let current = provider.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, provider.metadata.generation, now);
    let mut decision = Decision::none();
    let checked = resolve(spec.type_, spec.model.as_deref())
        .and_then(|type_| check_key(type_, spec.secret_ref.as_ref(), spec.base_url.is_some(), &observed.secrets));
    let phase = match checked {
        Ok(()) => {
            conditions.set("Ready", true, "Valid", "the provider can be used");
            ProviderPhase::Ready
        }
        Err((reason, message)) => {
            if is_news(&current.conditions, "Ready", &message) {
                decision.event(Event::warning(provider, reason, "Check", &message));
            }
            conditions.set("Ready", false, reason, &message);
            decision.outcome(Outcome::Permanent(message));
            ProviderPhase::Error
        }
    };
    let status = ProviderStatus {
        phase: Some(phase),
        observed_generation: provider.metadata.generation,
        conditions: conditions.finish(),
    };
    decision.status(provider, provider.status.as_ref(), &status);
    decision
}

/// What a provider's type stands for.
pub(super) fn resolve(type_: ProviderType, model: Option<&str>) -> Result<ProviderType, (&'static str, String)> {
    if type_ != ProviderType::Auto {
        return Ok(type_);
    }
    let unclear = || {
        let model = model.map_or("no model is named".to_owned(), |model| format!("the model {model:?} tells nothing"));
        ("Invalid", format!("type: auto looks at the name of the model, and {model}: name the type"))
    };
    ProviderType::of_model(model).ok_or_else(unclear)
}

/// Whether a provider has the key that it needs. With an address of its own it may do without one.
pub(super) fn check_key(
    type_: ProviderType,
    secret: Option<&ProviderSecret>,
    has_address: bool,
    secrets: &BTreeMap<String, Contents>,
) -> Result<(), (&'static str, String)> {
    let Some(secret) = secret else {
        let needs = type_.key_variable().is_some() && !has_address;
        let message =
            || format!("secretRef: a provider of type {} needs a key, or a baseURL that asks for none", type_.as_str());
        return if needs { Err(("SecretRequired", message())) } else { Ok(()) };
    };
    let name = &secret.name;
    let Some(contents) = secrets.get(name) else {
        return Err(("SecretNotFound", format!("secretRef.name: Secret {name} does not exist in this namespace")));
    };
    match secret.key.as_deref().or(type_.key_variable()) {
        Some(key) if !contents.keys.contains_key(key) => {
            Err(("SecretKeyNotFound", format!("secretRef.key: Secret {name} has no key {key}")))
        }
        _ => Ok(()),
    }
}
