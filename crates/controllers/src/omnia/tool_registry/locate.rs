//! Where a tool is: which Service an address means, and what a Service says about the tool behind it. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::omnia::{Handler, HandlerType, ServiceSelector, names};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;

use super::question::Stop;

/// Ties an `EndpointSlice` to its Service.
pub(super) const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// A host and a port, from a URL or from host:port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Place {
    /// Reads a URL or host:port.
    pub(super) fn parse(endpoint: &str) -> Option<Self> {
        let (scheme, rest) = endpoint.split_once("://").unwrap_or(("", endpoint));
        let authority = rest.split(['/', '?', '#']).next()?;
        let authority = authority.rsplit('@').next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port.parse().ok()?),
            _ => (authority, if scheme == "https" { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    /// The namespace and name of the Service that the host means, as a Pod in `namespace` would read it. Certain only
    /// when it says `svc`; otherwise it may be any name.
    pub(super) fn service(&self, namespace: &str, domain: &str) -> Option<ServiceName> {
        let host = self.host.trim_end_matches('.');
        let inside = host.strip_suffix(&format!(".{domain}")).unwrap_or(host);
        let parts: Vec<&str> = inside.split('.').collect();
        let name = |namespace: &str, name: &str, certain| ServiceName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            certain,
        };
        match parts.as_slice() {
            [service, own, "svc"] => Some(name(own, service, true)),
            [service, own] if inside == host => Some(name(own, service, false)),
            [service] if inside == host && host != "localhost" => Some(name(namespace, service, false)),
            _ => None,
        }
    }
}

/// A Service that an address means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceName {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Whether it cannot be anything else.
    pub(super) certain: bool,
}

/// The place that a handler names itself.
pub(super) fn named_place(handler: &Handler) -> Option<Place> {
    handler.endpoint().and_then(Place::parse)
}

/// The Service of this name.
pub(super) fn of_service<'a>(name: &ServiceName, services: &'a [Arc<Service>]) -> Option<&'a Service> {
    let is = |s: &&Arc<Service>| s.namespace().as_ref() == Some(&name.namespace) && s.name_any() == name.name;
    services.iter().find(is).map(AsRef::as_ref)
}

/// Who answers at a port of a Service: its ready endpoints. `None` when it has no such port.
pub(super) fn stops(service: &Service, port: u16, slices: &[Arc<EndpointSlice>]) -> Option<Vec<Stop>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return Some(spec.external_name.iter().map(|host| Stop::Host(Place { host: host.clone(), port })).collect());
    }
    let named = spec.ports.iter().flatten().find(|known| known.port == i32::from(port))?;
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let mut stops = Vec::new();
    for slice in slices_of(&namespace, &name, slices) {
        let same = |name: Option<&str>| name.unwrap_or_default() == named.name.as_deref().unwrap_or_default();
        let Some(target) = slice.ports.iter().flatten().find(|port| same(port.name.as_deref())).and_then(|p| p.port)
        else {
            continue;
        };
        let Ok(port) = u16::try_from(target) else { continue };
        for endpoint in slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
            let pod = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
            match pod.and_then(|pod| pod.name.clone()) {
                Some(name) => stops.push(Stop::Pod { namespace: namespace.clone(), name, port }),
                None => stops
                    .extend(endpoint.addresses.iter().map(|address| Stop::Host(Place { host: address.clone(), port }))),
            }
        }
    }
    stops.sort();
    Some(stops)
}

fn slices_of<'a>(
    namespace: &'a str,
    service: &'a str,
    slices: &'a [Arc<EndpointSlice>],
) -> impl Iterator<Item = &'a Arc<EndpointSlice>> {
    slices
        .iter()
        .filter(move |slice| slice.metadata.namespace.as_deref() == Some(namespace))
        .filter(move |slice| slice.labels().get(SERVICE_NAME_LABEL).is_some_and(|name| name == service))
}

/// Unset means ready, as Kubernetes defines it.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

/// Whether a selector of a registry in `namespace` means this Service.
pub(super) fn selects(selector: &ServiceSelector, namespace: &str, service: &Service) -> bool {
    let where_ = selector.namespace.as_deref().unwrap_or(namespace);
    let labels = service.metadata.labels.clone().unwrap_or_default();
    service.metadata.namespace.as_deref() == Some(where_)
        && selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The port that a selector means: by name, by number, or the first.
pub(super) fn port<'a>(service: &'a Service, wanted: Option<&str>) -> Result<&'a ServicePort, String> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let found = match wanted {
        None => ports.first(),
        Some(word) => ports
            .iter()
            .find(|port| port.name.as_deref() == Some(word))
            .or_else(|| ports.iter().find(|port| Ok(port.port) == word.parse())),
    };
    found.ok_or_else(|| {
        let known: Vec<String> = ports
            .iter()
            .map(|port| {
                port.name.clone().map_or_else(|| port.port.to_string(), |name| format!("{name} ({})", port.port))
            })
            .collect();
        let wanted = wanted.map_or("any port".to_owned(), |word| format!("port {word}"));
        format!("Service {} has no {wanted}; it has: {}", service.name_any(), known.join(", "))
    })
}

/// How many endpoints of a Service are ready.
pub(super) fn ready(namespace: &str, service: &str, slices: &[Arc<EndpointSlice>]) -> usize {
    let endpoints = slices_of(namespace, service, slices).flat_map(|slice| &slice.endpoints);
    endpoints.filter(|endpoint| is_ready(endpoint)).map(|endpoint| endpoint.addresses.len()).sum()
}

/// What the annotations of a Service say about the tool behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) type_: Option<String>,
    pub(super) path: Option<String>,
}

impl Said {
    pub(super) fn by(service: &Service) -> Self {
        let empty = BTreeMap::new();
        let annotations = service.metadata.annotations.as_ref().unwrap_or(&empty);
        let say = |key: &str| annotations.get(key).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        Self {
            name: say(names::TOOL_NAME_ANNOTATION),
            description: say(names::TOOL_DESCRIPTION_ANNOTATION),
            type_: say(names::TOOL_TYPE_ANNOTATION),
            path: say(names::TOOL_PATH_ANNOTATION),
        }
    }
}

/// The URL of a tool behind a Service.
pub(super) fn url(service: &Service, port: i32, type_: HandlerType, path: Option<&str>, domain: &str) -> String {
    let namespace = service.namespace().unwrap_or_default();
    let path = path.unwrap_or_default();
    let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
    let scheme = if type_ == HandlerType::Grpc { "grpc" } else { "http" };
    format!("{scheme}://{}.{namespace}.svc.{domain}:{port}{slash}{path}", service.name_any())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_from_urls_and_pairs() {
        let place = |text: &str| Place::parse(text).map(|place| (place.host, place.port));
        assert_eq!(place("http://a.b:81/x?y"), Some(("a.b".into(), 81)));
        assert_eq!(place("https://A.example/x"), Some(("a.example".into(), 443)));
        assert_eq!(place("svc:9000"), Some(("svc".into(), 9000)));
        assert_eq!(place("http://user@[::1]:8080/"), Some(("::1".into(), 8080)));
        assert_eq!(place("http://"), None);
    }

    #[test]
    fn names_of_services_are_known_as_pods_know_them() {
        let service = |host: &str| {
            let place = Place { host: host.into(), port: 1 };
            place.service("own", "cluster.local").map(|name| (name.namespace, name.name, name.certain))
        };
        assert_eq!(service("a"), Some(("own".into(), "a".into(), false)));
        assert_eq!(service("a.b"), Some(("b".into(), "a".into(), false)));
        assert_eq!(service("a.b.svc"), Some(("b".into(), "a".into(), true)));
        assert_eq!(service("a.b.svc.cluster.local"), Some(("b".into(), "a".into(), true)));
        assert_eq!(service("api.example.com"), None);
        assert_eq!(service("localhost"), None);
        assert_eq!(service("127.0.0.1"), None);
    }
}
