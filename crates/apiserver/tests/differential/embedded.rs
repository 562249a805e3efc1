//! The embedded API in this process.

use orrery_apiserver::user::User;
use testkit::Plane;

use crate::client::Client;

/// A plane of its own.
pub struct Embedded {
    client: Client,
    _plane: Plane,
}

impl Embedded {
    pub async fn start() -> Self {
        let plane = Plane::start().await;
        let client = Client::Local(plane.server().service_as(User::master("administrator")));
        Self { client, _plane: plane }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }
}
