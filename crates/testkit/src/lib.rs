//! What tests and benchmarks share. First of all [`Plane`], a whole plane for a test: store, API and
//! clients, in-process, gone when the test ends.
//!
//! ```no_run
//! # async fn example() {
//! let plane = orrery_testkit::Plane::start().await;
//! let client = plane.client();
//! # }
//! ```

mod chance;
pub mod controller_manager;
pub mod faults;
mod feed;
pub mod git;
mod http;
pub mod https;
pub mod kubernetes;
pub mod model;
mod plane;
pub mod shop;
pub mod up;

pub use chance::Chance;
pub use feed::Feed;
pub use http::Answer;
pub use plane::{Plane, Reader};
