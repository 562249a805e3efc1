//! A container's environment variables, from the manifest and the objects it names. Pure once those are at hand.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Pod};

/// ConfigMaps and Secrets that a Pod names, as they are now.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// ConfigMaps by name; `None` is one that is not there.
    pub config_maps: BTreeMap<String, Option<BTreeMap<String, Vec<u8>>>>,
    /// Secrets by name; `None` is one that is not there.
    pub secrets: BTreeMap<String, Option<BTreeMap<String, Vec<u8>>>>,
}

impl Sources {
    /// A key of a ConfigMap or Secret, or words that say what is missing.
    pub fn key(&self, kind: Kind, name: &str, key: &str) -> Result<&[u8], String> {
        let object = self.object(kind, name)?;
        object.get(key).map(Vec::as_slice).ok_or_else(|| format!("couldn't find key {key} in {kind} {name}"))
    }

    /// All of a ConfigMap or Secret, or words that say that it is missing.
    pub fn object(&self, kind: Kind, name: &str) -> Result<&BTreeMap<String, Vec<u8>>, String> {
        let objects = match kind {
            Kind::ConfigMap => &self.config_maps,
            Kind::Secret => &self.secrets,
        };
        objects.get(name).and_then(Option::as_ref).ok_or_else(|| format!("{} \"{name}\" not found", kind.resource()))
    }
}

/// What a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl Kind {
    fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        })
    }
}

/// Names of the ConfigMaps and Secrets that a container's environment needs.
pub fn needs(container: &Container) -> Vec<(Kind, String)> {
    let mut names = Vec::new();
    for source in container.env_from.iter().flatten() {
        names.extend(source.config_map_ref.as_ref().map(|source| (Kind::ConfigMap, source.name.clone())));
        names.extend(source.secret_ref.as_ref().map(|source| (Kind::Secret, source.name.clone())));
    }
    for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        names.extend(source.config_map_key_ref.as_ref().map(|source| (Kind::ConfigMap, source.name.clone())));
        names.extend(source.secret_key_ref.as_ref().map(|source| (Kind::Secret, source.name.clone())));
    }
    names
}

/// What `fieldRef` reads that is not in the object yet when the container starts.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The Pod's address.
    pub pod_address: String,
    /// The node's address.
    pub host_address: String,
    /// CPUs of this machine, in thousandths: what a container without a limit may use.
    pub cpu_millis: u64,
    /// Memory of this machine in bytes.
    pub memory: u64,
}

/// Resolves the environment. The error names the field and what is missing.
pub fn resolve(
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    place: &Place,
    services: &[(String, String)],
) -> Result<Vec<(String, String)>, String> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: String| {
        variables.retain(|(existing, _)| existing != name);
        variables.push((name.to_owned(), value));
    };
    for (name, value) in services {
        set(name, value.clone());
    }
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.clone().unwrap_or_default();
        let (kind, name, optional) = match (&source.config_map_ref, &source.secret_ref) {
            (Some(source), _) => (Kind::ConfigMap, &source.name, source.optional),
            (None, Some(source)) => (Kind::Secret, &source.name, source.optional),
            (None, None) => continue,
        };
        match sources.object(kind, name) {
            Ok(object) => {
                for (key, value) in object {
                    set(&format!("{prefix}{key}"), text(value));
                }
            }
            Err(_) if optional == Some(true) => {}
            Err(words) => return Err(words),
        }
    }
    let known: BTreeMap<String, String> = variables.iter().cloned().collect();
    let mut known = known;
    let mut resolved = Vec::new();
    for variable in container.env.iter().flatten() {
        let Some(value) = value_of(pod, container, variable, sources, place, &known)? else { continue };
        known.insert(variable.name.clone(), value.clone());
        resolved.push((variable.name.clone(), value));
    }
    for (name, value) in resolved {
        variables.retain(|(existing, _)| *existing != name);
        variables.push((name, value));
    }
    Ok(variables)
}

fn value_of(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    sources: &Sources,
    place: &Place,
    known: &BTreeMap<String, String>,
) -> Result<Option<String>, String> {
    let Some(from) = &variable.value_from else {
        return Ok(Some(expand(variable.value.as_deref().unwrap_or_default(), known)));
    };
    let EnvVarSource { field_ref, resource_field_ref, config_map_key_ref, secret_key_ref, .. } = from;
    let keyed = |kind, name: &str, key: &str, optional: Option<bool>| match sources.key(kind, name, key) {
        Ok(value) => Ok(Some(text(value))),
        Err(_) if optional == Some(true) => Ok(None),
        Err(words) => Err(words),
    };
    if let Some(source) = config_map_key_ref {
        return keyed(Kind::ConfigMap, &source.name, &source.key, source.optional);
    }
    if let Some(source) = secret_key_ref {
        return keyed(Kind::Secret, &source.name, &source.key, source.optional);
    }
    if let Some(source) = field_ref {
        return field(pod, &source.field_path, place).map(Some);
    }
    if let Some(source) = resource_field_ref {
        let owner = source
            .container_name
            .as_ref()
            .and_then(|name| pod.spec.as_ref()?.containers.iter().find(|candidate| candidate.name == *name));
        let divisor = source.divisor.as_ref().map(|quantity| quantity.0.as_str());
        return resource(owner.unwrap_or(container), &source.resource, divisor, place).map(Some);
    }
    Err(format!("env {}: valueFrom names no source that this node knows", variable.name))
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// A field of the Pod for the downward API.
pub fn field(pod: &Pod, path: &str, place: &Place) -> Result<String, String> {
    let metadata = &pod.metadata;
    let spec = pod.spec.clone().unwrap_or_default();
    let keyed = |map: &Option<BTreeMap<String, String>>, prefix: &str| {
        let key = path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']")?;
        Some(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
    };
    let lines = |map: &Option<BTreeMap<String, String>>| {
        let lines: Vec<String> = map.iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
        lines.join("\n")
    };
    Ok(match path {
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(&metadata.labels),
        "metadata.annotations" => lines(&metadata.annotations),
        "spec.nodeName" => spec.node_name.unwrap_or_default(),
        "spec.serviceAccountName" => spec.service_account_name.unwrap_or_else(|| "default".to_owned()),
        "status.hostIP" | "status.hostIPs" => place.host_address.clone(),
        "status.podIP" | "status.podIPs" => place.pod_address.clone(),
        _ => keyed(&metadata.labels, "metadata.labels")
            .or_else(|| keyed(&metadata.annotations, "metadata.annotations"))
            .ok_or_else(|| format!("fieldRef.fieldPath {path} is not a field that Pods can read"))?,
    })
}

/// A resource of a container for the downward API.
pub fn resource(container: &Container, path: &str, divisor: Option<&str>, place: &Place) -> Result<String, String> {
    let resources = container.resources.clone().unwrap_or_default();
    let (kind, name) = path.split_once('.').ok_or_else(|| format!("resourceFieldRef.resource {path} is not known"))?;
    let set = if kind == "limits" { resources.limits } else { resources.requests };
    let declared = set.as_ref().and_then(|set| set.get(name)).map(|quantity| quantity.0.as_str());
    let number = |text: &str| quantity(text).ok_or_else(|| format!("{text} is not a quantity"));
    let value = match (declared, name) {
        (Some(text), _) => number(text)?,
        (None, "cpu") => f64_of(place.cpu_millis) / 1000.0,
        (None, "memory") => f64_of(place.memory),
        (None, _) => 0.0,
    };
    let divisor = match divisor {
        None | Some("" | "0") => 1.0,
        Some(text) => number(text)?,
    };
    Ok(format!("{}", (value / divisor).ceil()))
}

#[expect(clippy::cast_precision_loss, reason = "sizes of machines are far below 2^52")]
fn f64_of(value: u64) -> f64 {
    value as f64
}

/// The number that a quantity such as `500m` or `2Gi` stands for.
pub fn quantity(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        exponent => 10_f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    Some(number * factor)
}

/// Replaces `$(NAME)` by the value of a known variable. `$$(NAME)` stays `$(NAME)`; an unknown one stays as it is.
pub fn expand(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('$') {
        output.push_str(&rest[..position]);
        let after = &rest[position + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            output.push('$');
            rest = escaped;
            continue;
        }
        let name = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        let Some((name, tail)) = name else {
            output.push('$');
            rest = after;
            continue;
        };
        if let Some(value) = known.get(name) {
            output.push_str(value);
        } else {
            output.extend(["$(", name, ")"]);
        }
        rest = tail;
    }
    output.push_str(rest);
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollar_rules() {
        let known = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$$(A)", "$(A)"),
            ("$(B)", "$(B)"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }

    #[test]
    fn quantities() {
        for (text, expected) in
            [("500m", 0.5), ("2", 2.0), ("1Ki", 1024.0), ("1.5Gi", 1_610_612_736.0), ("1e3", 1000.0)]
        {
            assert!((quantity(text).expect(text) - expected).abs() < 1e-9, "{text}");
        }
        assert!(quantity("many").is_none());
    }
}
