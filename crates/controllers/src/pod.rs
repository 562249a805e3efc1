//! The one builder of Pods and Deployments: whatever the dialect, contexts, credentials, certificates and proxies reach
//! a container the same way, whether it belongs to a server or to a Task.

mod build;
mod container;
mod context;
mod environment;
mod runtime_text;
mod settings;
mod volume;

pub use build::{Main, Recipe};
pub(crate) use container::restricted;
pub use context::{Contexts, File, Layer, Problem, config_maps_needed};
pub(crate) use environment::{from_secret, variable};
pub use settings::{Invalid, Limits, Linked, Settings, System, Tools};
pub(crate) use volume::{config_map as config_map_volume, empty, mount, read_only};
