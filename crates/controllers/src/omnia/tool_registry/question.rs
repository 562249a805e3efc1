//! What there is to ask the servers of a registry. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::omnia::{Handler, HandlerType, McpTransport, ToolRegistry};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use tools::{Caller, Credentials, mcp, openapi};

use super::locate::{Place, Said, named_place, of_service, port, selects, stops, url};
use crate::omnia::Settings;

/// A server that takes longer to describe itself is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where a Service has its OpenAPI document, unless it says otherwise.
const DOCUMENT: &str = "/openapi.json";

/// Whose answer it is: the handler, and the Service (namespace and name) that its selector found.
pub type Asked = (String, Option<(String, String)>);

/// Something to ask a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// Whose answer it is.
    pub asked: Asked,
    /// What is asked.
    pub what: What,
    /// The only place where it may be asked.
    pub place: Place,
    /// Who answers there, when it is a Service; empty when the network knows.
    pub stops: Vec<Stop>,
    /// How long an answer may take.
    pub patience: Duration,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The operations of an OpenAPI document.
    OpenApi(openapi::Source),
    /// The tools of an MCP server.
    Mcp(mcp::Source),
    /// The methods of a gRPC server.
    Grpc {
        /// The server.
        endpoint: String,
        /// Whether the connection is encrypted.
        tls: bool,
    },
}

/// Somebody behind a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// A port of a Pod.
    Pod {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Port.
        port: u16,
    },
    /// An address or a name outside of the cluster.
    Host(Place),
}

/// Everything there is to ask.
pub(super) fn questions(
    registry: &ToolRegistry,
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    credentials: &BTreeMap<String, Credentials>,
    settings: &Settings,
) -> Vec<Question> {
    let own = registry.namespace().unwrap_or_default();
    let mut questions = Vec::new();
    for handler in &registry.spec.handlers {
        // Without the credentials that it names, a server is not asked.
        let Some(credentials) = credentials_of(handler, credentials) else { continue };
        let caller = Caller { headers: handler.headers(), credentials };
        match &handler.selector {
            Some(selector) => {
                let meant = services.iter().filter(|service| selects(selector, &own, service));
                questions.extend(meant.filter_map(|service| of_selected(handler, &caller, service, slices, settings)));
            }
            None => questions.extend(of_named(handler, &caller, &own, services, slices, settings)),
        }
    }
    questions
}

/// `None` when it names credentials that cannot be had.
fn credentials_of(handler: &Handler, known: &BTreeMap<String, Credentials>) -> Option<Credentials> {
    match handler.auth_secret_ref() {
        Some(_) => known.get(&handler.name).cloned(),
        None => Some(Credentials::default()),
    }
}

fn of_named(
    handler: &Handler,
    caller: &Caller,
    own: &str,
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    settings: &Settings,
) -> Option<Question> {
    let what = what(handler, handler.type_, handler.endpoint()?, caller, false)?;
    let place = named_place(handler)?;
    let stops = match place.service(own, &settings.cluster_domain) {
        None => Vec::new(),
        Some(name) => match of_service(&name, services) {
            Some(service) => stops(service, place.port, slices).filter(|stops| !stops.is_empty())?,
            // A Service that is missing is said to be; any other name is the network's.
            None if name.certain => return None,
            None => Vec::new(),
        },
    };
    Some(Question { asked: (handler.name.clone(), None), what, place, stops, patience: patience(handler) })
}

fn of_selected(
    handler: &Handler,
    caller: &Caller,
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    settings: &Settings,
) -> Option<Question> {
    let said = Said::by(service);
    let type_ = said.type_.as_deref().map_or(Some(handler.type_), HandlerType::parse)?;
    let wanted = handler.selector.as_ref()?.port.as_deref();
    let port = port(service, wanted).ok()?.port;
    if said.name.is_some() && type_ == HandlerType::Grpc {
        return None;
    }
    let usual = match type_ {
        HandlerType::Openapi => Some(DOCUMENT),
        HandlerType::Mcp if transport(handler) == McpTransport::Sse => Some("/sse"),
        HandlerType::Mcp => Some("/mcp"),
        HandlerType::Http | HandlerType::Grpc => None,
    };
    let path = said.path.as_deref().or(usual);
    let url = url(service, port, type_, path, &settings.cluster_domain);
    let what = what(handler, type_, &url, caller, true)?;
    let place = Place::parse(&url)?;
    let stops = stops(service, place.port, slices).filter(|stops| !stops.is_empty())?;
    let asked = (handler.name.clone(), Some((service.namespace().unwrap_or_default(), service.name_any())));
    Some(Question { asked, what, place, stops, patience: patience(handler) })
}

fn transport(handler: &Handler) -> McpTransport {
    handler.mcp_config.as_ref().map_or(McpTransport::StreamableHttp, |config| config.transport)
}

fn what(handler: &Handler, type_: HandlerType, url: &str, caller: &Caller, at_home: bool) -> Option<What> {
    if !handler.asks(type_) {
        return None;
    }
    match type_ {
        HandlerType::Mcp => {
            let (url, caller) = (url.to_owned(), caller.clone());
            match transport(handler) {
                McpTransport::StreamableHttp => Some(What::Mcp(mcp::Source::Http { url, caller })),
                McpTransport::Sse => Some(What::Mcp(mcp::Source::Sse { url, caller })),
                McpTransport::Stdio => None,
            }
        }
        HandlerType::Grpc => {
            let tls = handler.grpc_config.as_ref().is_some_and(|config| config.tls);
            Some(What::Grpc { endpoint: url.to_owned(), tls })
        }
        HandlerType::Openapi => {
            let config = handler.openapi_config.clone().unwrap_or_default();
            Some(What::OpenApi(openapi::Source {
                url: url.to_owned(),
                base: config.base_url,
                filter: config.operation_filter,
                caller: caller.clone(),
                at_home,
            }))
        }
        HandlerType::Http => None,
    }
}

fn patience(handler: &Handler) -> Duration {
    let wanted = handler.timeout.parse().ok().and_then(|wait| Duration::try_from(wait).ok());
    wanted.map_or(PATIENCE, |wanted| wanted.min(PATIENCE))
}
