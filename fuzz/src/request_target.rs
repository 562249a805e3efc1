//! Fuzz target of the request line.

use apiserver::request::RequestInfo;
use http::{Method, Uri};

/// A path with a query. Nothing decoded may bring a separator or a way out of the tree with it.
pub fn request(data: &[u8]) {
    let Ok(uri) = Uri::try_from(data) else { return };
    for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        if let Ok(info) = RequestInfo::parse(&method, &uri)
            && let Some(target) = info.target
        {
            for part in [&target.namespace, &target.resource, &target.name, &target.subresource] {
                assert!(!part.contains('/') && !part.contains('\0') && part != "..", "{part:?} in {uri}");
            }
        }
    }
}
