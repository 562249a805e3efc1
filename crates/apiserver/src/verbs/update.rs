//! Replacing an object, or the part of it a subresource stands for.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use machinery::status::Status;

use crate::call::Call;
use crate::decode;
use crate::verbs::get;
use crate::write::{self, Proposal};

/// PUT of an object.
pub async fn update(call: &Call, body: &Bytes) -> Result<Response, Status> {
    let object = write::admit(call, decode::object_of(call, body)?)?;
    let absent = call.server.store().get(&call.key(&call.target.name)?).is_none();
    if absent && call.kind.writing.create_on_update && call.target.subresource.is_empty() {
        let object = write::create(call, Proposal::whole(object)).await?;
        return Ok(get::answer(call, StatusCode::CREATED, object));
    }
    let object = write::modify(call, &call.target.subresource, |_| Ok(Proposal::whole(object.clone()))).await?;
    Ok(get::answer(call, StatusCode::OK, object))
}
