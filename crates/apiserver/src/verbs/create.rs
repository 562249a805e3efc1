//! Making an object.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use machinery::status::Status;

use crate::call::Call;
use crate::decode;
use crate::verbs::get;
use crate::write::{self, Proposal};

/// POST to a collection.
pub async fn create(call: &Call, body: &Bytes) -> Result<Response, Status> {
    let object = write::admit(call, decode::object_of(call, body)?)?;
    let object = write::create(call, Proposal::whole(object)).await?;
    Ok(get::answer(call, StatusCode::CREATED, object))
}
