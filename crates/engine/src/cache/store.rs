//! The contents of one cache. Pure: told what happened, says what changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use kube::Resource;
use serde_json::Value;

use crate::key::Key;

/// How many deleted incarnations are remembered, so that a late event cannot bring one back.
const GRAVES: usize = 4096;

/// What happened to an object: `before` is `None` when it is new, `after` when it is gone.
pub struct Change<K> {
    /// As it was known.
    pub before: Option<Arc<K>>,
    /// As it is now.
    pub after: Option<Arc<K>>,
}

pub(super) struct Store<K> {
    objects: BTreeMap<Key, Arc<K>>,
    owners: HashMap<String, BTreeSet<Key>>,
    /// The newest version delivered for each scope. Versions of a kind are ordered numbers.
    seen: HashMap<String, u64>,
    gone: HashSet<String>,
    gone_order: VecDeque<String>,
    /// Objects known from a write or a live read of this process before the watch told of them.
    early: HashSet<String>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            owners: HashMap::new(),
            seen: HashMap::new(),
            gone: HashSet::new(),
            gone_order: VecDeque::new(),
            early: HashSet::new(),
        }
    }
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// What tells whether an object is news, read without taking the object apart.
pub(super) struct Head {
    pub(super) key: Key,
    uid: String,
    version: u64,
}

impl Head {
    pub(super) fn of(value: &Value) -> Self {
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
        Self {
            key: Key::new(text("namespace"), text("name")),
            uid: text("uid").to_owned(),
            version: text("resourceVersion").parse().unwrap_or(0),
        }
    }
}

impl<K: Resource> Store<K> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn list(&self, namespace: &str) -> Vec<Arc<K>> {
        if namespace.is_empty() {
            return self.objects.values().cloned().collect();
        }
        let from = Bound::Included(Key::new(namespace, ""));
        self.objects
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    pub(super) fn owned(&self, owner_uid: &str) -> Vec<Arc<K>> {
        let keys = self.owners.get(owner_uid).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    pub(super) fn seen(&mut self, scope: &str, version: &str) {
        if let Ok(version) = version.parse() {
            self.saw(scope, version);
        }
    }

    fn saw(&mut self, scope: &str, version: u64) {
        match self.seen.get_mut(scope) {
            Some(newest) => *newest = (*newest).max(version),
            None => {
                self.seen.insert(scope.to_owned(), version);
            }
        }
    }

    /// Whether this version of the object, or a later one, is known already.
    pub(super) fn knows(&self, head: &Head) -> bool {
        let has = |present: &Arc<K>| version(&**present) >= head.version;
        self.gone.contains(&head.uid) || self.objects.get(&head.key).is_some_and(has)
    }

    /// Whether a watch or a list told of the object, so that everything older is known too.
    pub(super) fn is_heard(&self, key: &Key) -> bool {
        self.objects.get(key).is_some_and(|object| !self.early.contains(uid(&**object)))
    }

    /// A watch event told of this version; answers whether that is no news.
    pub(super) fn heard(&mut self, scope: &str, head: &Head) -> bool {
        self.saw(scope, head.version);
        self.early.remove(&head.uid);
        self.knows(head)
    }

    /// A watch event said that the object is gone.
    pub(super) fn deleted(&mut self, scope: &str, head: &Head) -> Option<Change<K>> {
        self.saw(scope, head.version);
        self.forget(&head.key, &head.uid)
    }

    /// A list at `list_version` held exactly these objects of the scope.
    pub(super) fn replace(&mut self, scope: &str, objects: Vec<K>, list_version: &str) -> Vec<Change<K>> {
        let list_version = list_version.parse().unwrap_or(0);
        let listed: HashSet<Key> = objects.iter().map(Key::of).collect();
        let missing: Vec<(Key, String)> = self
            .objects
            .iter()
            .filter(|(key, _)| scope.is_empty() || key.namespace == scope)
            // What we wrote after the list was taken cannot be in it.
            .filter(|(key, object)| !listed.contains(*key) && version(&***object) <= list_version)
            .map(|(key, object)| (key.clone(), uid(&**object).to_owned()))
            .collect();
        let mut changes: Vec<_> = missing.iter().filter_map(|(key, uid)| self.forget(key, uid)).collect();
        for object in &objects {
            self.early.remove(uid(object));
        }
        changes.extend(objects.into_iter().filter_map(|object| self.put(object)));
        self.saw(scope, list_version);
        changes
    }

    /// The answer to a write or a live read. Ignored when the watch is already past it, for then it is old news.
    pub(super) fn offer(&mut self, scope: &str, object: K, selected: bool) -> Option<Change<K>> {
        let key = Key::of(&object);
        if !selected {
            let present = self.objects.get(&key)?;
            let newer = uid(&**present) == uid(&object) && version(&object) > version(&**present);
            return if newer { self.remove(&key) } else { None };
        }
        let newer_than_watch = self.seen.get(scope).is_some_and(|seen| version(&object) > *seen);
        if self.objects.contains_key(&key) {
            return self.put(object);
        }
        if !newer_than_watch {
            return None;
        }
        let new = uid(&object).to_owned();
        let change = self.put(object);
        if change.is_some() {
            self.early.insert(new);
        }
        change
    }

    /// The incarnation is gone for good.
    pub(super) fn forget(&mut self, key: &Key, gone: &str) -> Option<Change<K>> {
        self.bury(gone.to_owned());
        self.early.remove(gone);
        let present = self.objects.get(key)?;
        if uid(&**present) == gone { self.remove(key) } else { None }
    }

    /// The object is now like this, unless something newer is known.
    pub(super) fn put(&mut self, object: K) -> Option<Change<K>> {
        if self.gone.contains(uid(&object)) {
            return None;
        }
        let key = Key::of(&object);
        if self.objects.get(&key).is_some_and(|present| version(&**present) >= version(&object)) {
            return None;
        }
        let before = self.remove(&key).and_then(|change| change.before);
        if let Some(before) = before.as_ref().filter(|before| uid(&***before) != uid(&object)) {
            self.bury(uid(&**before).to_owned());
        }
        for owner in object.meta().owner_references.iter().flatten() {
            self.owners.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        let after = Arc::new(object);
        self.objects.insert(key, Arc::clone(&after));
        Some(Change { before, after: Some(after) })
    }

    fn remove(&mut self, key: &Key) -> Option<Change<K>> {
        let before = self.objects.remove(key)?;
        for owner in before.meta().owner_references.iter().flatten() {
            if let Some(owned) = self.owners.get_mut(&owner.uid) {
                owned.remove(key);
                if owned.is_empty() {
                    self.owners.remove(&owner.uid);
                }
            }
        }
        Some(Change { before: Some(before), after: None })
    }

    fn bury(&mut self, gone: String) {
        if !gone.is_empty() && self.gone.insert(gone.clone()) {
            self.gone_order.push_back(gone);
            if self.gone_order.len() > GRAVES {
                let oldest = self.gone_order.pop_front();
                oldest.map(|oldest| self.gone.remove(&oldest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(name: &str, uid: &str, version: u64) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("n".into());
        pod.metadata.name = Some(name.into());
        pod.metadata.uid = Some(uid.into());
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    fn head(pod: &Pod) -> Head {
        Head::of(&serde_json::to_value(pod).expect("it is JSON"))
    }

    fn applied(store: &mut Store<Pod>, pod: Pod) -> Option<Change<Pod>> {
        if store.heard("", &head(&pod)) { None } else { store.put(pod) }
    }

    fn names(store: &Store<Pod>) -> Vec<String> {
        store
            .list("")
            .iter()
            .map(|pod| format!("{}@{}", pod.metadata.name.as_deref().unwrap_or_default(), version(&**pod)))
            .collect()
    }

    #[test]
    fn what_we_made_is_known_at_once_and_heard_of_when_the_watch_tells() {
        let mut store = Store::default();
        store.replace("", vec![pod("a", "1", 3)], "3");
        let key = |name: &str| Key::new("n", name);
        assert!(store.is_heard(&key("a")), "a list tells of everything");
        store.offer("", pod("b", "2", 5), true);
        assert!(store.get(&key("b")).is_some() && !store.is_heard(&key("b")));
        store.offer("", pod("b", "2", 6), true);
        applied(&mut store, pod("c", "3", 4));
        assert!(!store.is_heard(&key("b")), "neither our next write nor the news of another changes that");
        assert!(applied(&mut store, pod("b", "2", 5)).is_none(), "the echo is no change");
        assert!(store.is_heard(&key("b")));
    }

    #[test]
    fn own_writes_show_at_once_and_their_echo_changes_nothing() {
        let mut store = Store::default();
        store.replace("", vec![], "5");
        assert!(store.offer("", pod("a", "1", 7), true).is_some());
        assert!(applied(&mut store, pod("a", "1", 7)).is_none(), "the echo");
        assert!(applied(&mut store, pod("a", "1", 6)).is_none(), "older news");
        assert_eq!(names(&store), ["a@7"]);
    }

    #[test]
    fn an_answer_that_arrives_after_the_delete_brings_nothing_back() {
        let mut store = Store::default();
        store.replace("", vec![], "5");
        applied(&mut store, pod("a", "1", 6));
        store.deleted("", &head(&pod("a", "1", 8)));
        assert!(store.offer("", pod("a", "1", 7), true).is_none());
        assert!(applied(&mut store, pod("a", "1", 7)).is_none(), "a reordered event neither");
        assert!(names(&store).is_empty());
    }

    #[test]
    fn a_list_taken_before_our_write_does_not_hide_it() {
        let mut store = Store::default();
        store.replace("", vec![pod("old", "0", 3)], "5");
        store.offer("", pod("new", "1", 9), true);
        let changes = store.replace("", vec![], "8");
        assert_eq!(changes.len(), 1, "only the old one is gone");
        assert_eq!(names(&store), ["new@9"]);
        store.replace("", vec![], "10");
        assert!(names(&store).is_empty());
    }

    #[test]
    fn a_deleted_incarnation_stays_gone_and_its_successor_shows() {
        let mut store = Store::default();
        store.replace("", vec![pod("a", "1", 3)], "5");
        store.forget(&Key::new("n", "a"), "1");
        assert!(applied(&mut store, pod("a", "1", 6)).is_none(), "an event from before the delete");
        assert!(applied(&mut store, pod("a", "2", 8)).is_some());
        assert!(store.deleted("", &head(&pod("a", "1", 7))).is_none(), "the late delete of the first");
        assert_eq!(names(&store), ["a@8"]);
    }

    #[test]
    fn owners_are_indexed_and_scopes_are_separate() {
        let mut store = Store::default();
        let mut owned = pod("a", "1", 3);
        owned.metadata.owner_references = Some(vec![k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            uid: "o".into(),
            ..Default::default()
        }]);
        store.replace("n", vec![owned], "5");
        assert_eq!(store.owned("o").len(), 1);
        store.replace("other", vec![], "9");
        assert_eq!(store.owned("o").len(), 1, "another namespace's list says nothing about this one");
        store.replace("n", vec![], "9");
        assert!(store.owned("o").is_empty());
    }
}
