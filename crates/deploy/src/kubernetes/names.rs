//! Names and labels: what the cluster calls things, and how ours are told from others'.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::resource::Owner;

pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "promptarena";
pub const PACK_ID: &str = "promptkit.altairalabs.ai/pack-id";
pub const PACK_VERSION: &str = "promptkit.altairalabs.ai/pack-version";
pub const RESOURCE_TYPE: &str = "promptkit.altairalabs.ai/resource-type";
/// The labels that every object of ours has.
pub const MANAGED: [&str; 4] = [MANAGED_BY, PACK_ID, PACK_VERSION, RESOURCE_TYPE];

/// A name as Kubernetes allows it. It may come out empty, or the same as another's: both are refused where names are made.
pub fn sanitize(name: &str) -> String {
    let lower = name.to_lowercase();
    let mut clean = String::with_capacity(lower.len());
    for letter in lower.chars() {
        let letter = if letter == '_' || letter == ' ' { '-' } else { letter };
        let fine = letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '.' || letter == '-';
        if fine && !(letter == '-' && clean.ends_with('-')) {
            clean.push(letter);
        }
    }
    clean.trim_matches(['-', '.']).to_owned()
}

/// The value of a label. A version may have `+`, which a label may not.
pub fn label_value(text: &str) -> String {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let clean: String = text.chars().map(|letter| if fine(letter) { letter } else { '_' }).take(63).collect();
    clean.trim_matches(['-', '_', '.']).to_owned()
}

/// Whether a label can be one; what is wrong otherwise.
pub fn label_problem(key: &str, value: &str) -> Option<String> {
    let part = |text: &str| {
        let ends = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
        let inner = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        text.len() <= 63 && ends(text.chars().next()) && ends(text.chars().last()) && text.chars().all(inner)
    };
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fine =
        prefix.is_none_or(|prefix| !prefix.is_empty() && sanitize(prefix) == prefix && prefix.len() <= 253);
    if MANAGED.contains(&key) {
        return Some("is set by the deployment itself".into());
    }
    if !prefix_fine || !part(name) {
        return Some("is not a label's name (as in example.com/team)".into());
    }
    let value_fine = value.is_empty() || part(value);
    (!value_fine).then(|| format!("{value:?} is not a label's value: at most 63 letters, digits, '-', '_' and '.'"))
}

/// The labels of an object: the user's, and ours, which tell what is ours.
pub fn labels(user: &BTreeMap<String, String>, pack: &str, version: &str, type_: &str) -> BTreeMap<String, String> {
    let mut labels = user.clone();
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels.insert(PACK_ID.into(), label_value(pack));
    labels.insert(PACK_VERSION.into(), label_value(version));
    labels.insert(RESOURCE_TYPE.into(), type_.into());
    labels
}

/// A label selector for everything of a pack, ready for a URL.
pub fn selector(pack: &str) -> String {
    let escape = |text: &str| text.replace('/', "%2F");
    format!("{}%3D{MANAGER}%2C{}%3D{}", escape(MANAGED_BY), escape(PACK_ID), label_value(pack))
}

/// Whose an object is, by its labels.
pub fn owner(object: &Value, pack: &str, type_: &str) -> Owner {
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    match (label(MANAGED_BY), label(PACK_ID)) {
        (Some(MANAGER), Some(id)) if id == label_value(pack) && label(RESOURCE_TYPE) == Some(type_) => Owner::Us,
        (Some(MANAGER), Some(id)) if id != label_value(pack) => Owner::Other(format!("belongs to the pack {id:?}")),
        (Some(MANAGER), _) => Owner::Other("does not have all of our labels".into()),
        (Some(other), _) => Owner::Other(format!("is managed by {other:?}")),
        (None, _) => Owner::Other("is not managed by a deployment".into()),
    }
}

/// Why an object is in the way.
pub fn stranger(owner: &Owner) -> String {
    match owner {
        Owner::Us => "was made at this moment by another deployment of the pack".into(),
        Owner::Other(why) => why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_made_fit() {
        for (name, expected) in [
            ("My Pack", "my-pack"),
            ("a--b", "a-b"),
            ("a_b", "a-b"),
            ("-leading-", "leading"),
            ("hello@world!", "helloworld"),
            ("v1.2.3", "v1.2.3"),
            (".dotfile", "dotfile"),
            ("größe", "gre"),
            ("日本", ""),
            ("_ _", ""),
        ] {
            assert_eq!(sanitize(name), expected, "{name}");
        }
        assert_eq!(sanitize(&"a".repeat(300)).len(), 300, "what is too long is refused, not cut");
    }

    #[test]
    fn versions_fit_into_labels() {
        assert_eq!(label_value("1.0.0+build.7"), "1.0.0_build.7");
        assert_eq!(label_value("v1.0.0-rc.1"), "v1.0.0-rc.1");
        assert!(label_value(&format!("1.0.0+{}", "x.".repeat(60))).len() <= 63);
    }

    #[test]
    fn ours_has_all_our_labels() {
        let object = |labels: Value| json!({ "metadata": { "labels": labels } });
        let ours = object(json!(labels(&BTreeMap::new(), "shop", "1.0.0", "configmap")));
        assert_eq!(owner(&ours, "shop", "configmap"), Owner::Us);
        assert_eq!(owner(&ours, "other", "configmap"), Owner::Other("belongs to the pack \"shop\"".into()));
        assert!(matches!(owner(&ours, "shop", "prompt_pack"), Owner::Other(_)));
        assert!(
            matches!(owner(&object(json!({ MANAGED_BY: "Helm" })), "shop", "configmap"), Owner::Other(why) if why.contains("Helm"))
        );
        assert!(matches!(owner(&json!({}), "shop", "configmap"), Owner::Other(_)));
    }

    #[test]
    fn labels_of_users_are_checked() {
        assert_eq!(label_problem("example.com/team", "shop"), None);
        assert_eq!(label_problem("team", ""), None);
        assert!(label_problem("team", "a b").is_some());
        assert!(label_problem("/team", "a").is_some());
        assert!(label_problem("te am", "a").is_some());
        assert!(label_problem(PACK_ID, "a").is_some_and(|why| why.contains("itself")));
    }
}
