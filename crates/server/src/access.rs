//! Questions to the Kubernetes API about what a caller may do, where asking for the thing itself is not possible.

use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};

/// How many namespaces are asked about at once for a caller who may not list all of them.
const NAMESPACES_AT_ONCE: usize = 16;

/// A resource of the Kubernetes API.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// Its API group.
    pub group: &'a str,
    /// Its plural.
    pub plural: &'a str,
    /// As in `log` of `pods/log`, or nothing.
    pub subresource: &'a str,
}

impl Caller {
    /// Whether the caller may do something in a namespace.
    pub async fn may(&self, verb: &str, resource: Resource<'_>, namespace: &str) -> Result<bool> {
        self.review(SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(resource.group.to_owned()),
                resource: Some(resource.plural.to_owned()),
                subresource: Some(resource.subresource.to_owned()).filter(|name| !name.is_empty()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        })
        .await
    }

    /// Whether the caller may read a path that is no resource.
    pub async fn may_read(&self, path: &str) -> Result<bool> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        self.review(SelfSubjectAccessReviewSpec {
            non_resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        })
        .await
    }

    async fn review(&self, spec: SelfSubjectAccessReviewSpec) -> Result<bool> {
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let reviews = Api::<SelfSubjectAccessReview>::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &review).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// The namespaces where the caller may list a resource.
    pub async fn namespaces(&self, app: &App, resource: Resource<'_>) -> Result<Vec<String>> {
        let all = Api::<Namespace>::all(app.client.clone()).list(&ListParams::default()).await?;
        let reviews = stream::iter(all.items.iter().map(ResourceExt::name_any))
            .map(|namespace| async move { Ok(self.may("list", resource, &namespace).await?.then_some(namespace)) });
        let answers: Vec<Result<Option<String>>> = reviews.buffered(NAMESPACES_AT_ONCE).collect().await;
        answers.into_iter().filter_map(Result::transpose).collect()
    }

    /// Refuses, as the Kubernetes API would.
    pub fn forbidden(&self, what: &str) -> Error {
        Error::forbidden(format!("User {:?} may not {what}", self.user.name))
    }
}
