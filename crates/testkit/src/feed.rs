//! What a process hears of a plane, on a bad line: late, twice, in any order, or not at all.

use futures::FutureExt as _;
use kube::core::{ApiResource, WatchEvent};
use serde_json::Value;
use store::{EventKind, Scope, Watch};

use crate::{Chance, Plane};

/// The changes of some kinds, on their way to one process.
pub struct Feed {
    watches: Vec<(ApiResource, Watch)>,
    pending: Vec<(ApiResource, WatchEvent<Value>)>,
    /// Kinds of which something was lost that only a list can tell.
    pub lost: Vec<ApiResource>,
}

impl Feed {
    /// The changes of these kinds from now on.
    pub fn new(plane: &Plane, kinds: Vec<ApiResource>) -> Self {
        let follow = |kind: ApiResource| {
            let scope = Scope::all(format!("{}/{}", kind.group, kind.plural));
            let watch = plane.store().watch(&scope, plane.store().revision()).expect("the present can be watched");
            (kind, watch)
        };
        let watches = kinds.iter().cloned().map(follow).collect();
        Self { watches, pending: Vec::new(), lost: kinds }
    }

    /// Some of what has happened, in some order; what is lost is lost until the next list.
    pub fn some(&mut self, chance: &Chance) -> Vec<(ApiResource, WatchEvent<Value>)> {
        self.collect();
        let mut heard = Vec::new();
        while !self.pending.is_empty() && !chance.one_in(3) {
            let index = chance.below(self.pending.len());
            match chance.below(8) {
                0 => {
                    let (kind, _) = self.pending.swap_remove(index);
                    if !self.lost.contains(&kind) {
                        self.lost.push(kind);
                    }
                }
                1 => heard.push(self.pending[index].clone()),
                _ => heard.push(self.pending.swap_remove(index)),
            }
        }
        heard
    }

    /// Some of what has happened, each kind in its order and nothing lost, as a watch promises it; some of it is told
    /// twice, as by one that was opened again.
    pub fn some_in_order(&mut self, chance: &Chance) -> Vec<(ApiResource, WatchEvent<Value>)> {
        self.collect();
        let mut heard = Vec::new();
        while !self.pending.is_empty() && !chance.one_in(3) {
            let kind = self.pending[chance.below(self.pending.len())].0.clone();
            let first = self.pending.iter().position(|(other, _)| *other == kind).expect("it is among them");
            if chance.one_in(8) {
                heard.push(self.pending[first].clone());
            } else {
                heard.push(self.pending.remove(first));
            }
        }
        heard
    }

    /// Everything that has happened and was not lost.
    pub fn all(&mut self) -> Vec<(ApiResource, WatchEvent<Value>)> {
        self.collect();
        std::mem::take(&mut self.pending)
    }

    fn collect(&mut self) {
        for (kind, watch) in &mut self.watches {
            while let Some(Ok(events)) = watch.next().now_or_never() {
                for event in events {
                    let value: Value = serde_json::from_slice(&event.entry.value).expect("stored objects are JSON");
                    let event = match event.kind {
                        EventKind::Added => WatchEvent::Added(value),
                        EventKind::Modified => WatchEvent::Modified(value),
                        EventKind::Deleted => WatchEvent::Deleted(value),
                    };
                    self.pending.push((kind.clone(), event));
                }
            }
        }
    }
}
