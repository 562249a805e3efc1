//! The one builder of Pods and Deployments: every Pod of every dialect is a [`Recipe`]. A [`Workplace`] is the recipe of
//! those in which an agent works: contexts, credentials, certificates and proxies reach a container the same way, whether
//! it belongs to a server or to a Task.

mod build;
mod container;
mod context;
mod environment;
mod runtime_text;
mod settings;
mod volume;
mod workplace;

pub use build::{Recipe, Replacing};
pub(crate) use build::{container, listens};
pub use context::{Contexts, File, Layer, Problem, config_maps_needed};
pub(crate) use environment::{from_secret, variable};
pub use settings::{Invalid, Limits, Linked, Settings, System, Tools};
pub(crate) use volume::{config_map as config_map_volume, empty, mount, read_only};
pub use workplace::{Main, Workplace};
