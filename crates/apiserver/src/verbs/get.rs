//! Reading one object.

use axum::response::Response;
use http::StatusCode;
use machinery::status::Status;

use crate::call::Call;
use crate::negotiate::Form;
use crate::object::Object;
use crate::respond;

/// GET of one object. It is always the newest version, so `resourceVersion` can only ask for a
/// future one.
pub fn get(call: &Call) -> Result<Response, Status> {
    super::list::refuse_future(call, &call.query.resource_version)?;
    let entry = call.entry(&call.target.name)?;
    Ok(answer(call, StatusCode::OK, call.read(&entry)))
}

/// One object in the shape the client wants.
pub fn answer(call: &Call, code: StatusCode, object: Object) -> Response {
    if call.accept.form == Form::Object && !call.accept.pretty {
        return respond::bytes(code, respond::JSON, object.into_bytes());
    }
    let shaped = call.accept.shape(&call.kind, object.into_value(), true);
    respond::value(code, &shaped, call.accept.pretty)
}
