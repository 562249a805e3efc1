//! The words of a 403, as `kubectl` users know them.

use machinery::status::Status;

use crate::attributes::Attributes;

/// The refusal of a request that no rule allows.
pub(super) fn forbidden(request: &Attributes<'_>) -> Status {
    let user = &request.user.name;
    let verb = request.verb;
    if request.resource.is_empty() {
        let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{}\"", request.path);
        return Status::new(403, "Forbidden", message);
    }
    let resource = if request.subresource.is_empty() {
        request.resource.to_owned()
    } else {
        format!("{}/{}", request.resource, request.subresource)
    };
    let place = if request.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", request.namespace)
    };
    let group = request.group;
    Status::forbidden(
        group,
        request.resource,
        request.name,
        format!("User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}"),
    )
}
