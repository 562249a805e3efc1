//! What must hold for every object.

use machinery::apply::fields_v1::{decode, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Plane;
use crate::generate::value;
use crate::shape::{deployment, map_of, object, string};

fn config() -> BoxedStrategy<Value> {
    value(&deployment())
        .prop_map(|mut object| {
            drop_empty(&mut object);
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            // Which object it is belongs to nobody.
            object["metadata"].as_object_mut().unwrap().remove("namespace");
            object
        })
        .boxed()
}

/// Empty containers have rules of their own: nobody owns an empty list whose items are owned one
/// by one, and a map that lost its last member is gone although somebody owns it.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(drop_empty);
            members.retain(|_, member| *member != json!([]) && *member != json!({}));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

proptest! {
    #[test]
    fn fields_round_trip(config in config()) {
        let mut plane = Plane::new(deployment());
        plane.update("me", config);
        let fields = plane.owned("me");
        if !fields.is_null() {
            prop_assert_eq!(encode(&decode(&fields).unwrap()), fields);
        }
    }

    #[test]
    fn apply_is_idempotent(live in config(), first in config()) {
        let mut plane = Plane::new(deployment());
        plane.update("other", live);
        let once = plane.try_apply("me", first.clone(), true).unwrap().clone();
        plane.now = super::LATER;
        let twice = plane.try_apply("me", first, true).unwrap();
        prop_assert_eq!(twice, &once);
    }

    /// What is applied is there, whatever was there before.
    #[test]
    fn what_is_applied_holds(live in config(), first in config(), second in config()) {
        let mut plane = Plane::new(deployment());
        plane.update("other", live);
        plane.try_apply("me", first, true).unwrap();
        plane.try_apply("me", second.clone(), true).unwrap();
        let merged = plane.object();
        prop_assert_eq!(plane.try_apply("checker", second, false).map(|_| ()).map_err(|status| status.message), Ok(()));
        prop_assert_eq!(plane.object(), merged);
    }

    /// An applier that was alone leaves nothing behind.
    #[test]
    fn giving_everything_up_removes_everything(first in config()) {
        let mut plane = Plane::new(deployment());
        plane.apply("keeper", json!({}));
        plane.apply("me", first);
        plane.apply("me", json!({}));
        prop_assert_eq!(plane.entries().len(), 0);
        let object = plane.object();
        let left: Vec<&String> = object.as_object().unwrap().keys().filter(|key| *key != "status").collect();
        prop_assert_eq!(left, ["apiVersion", "kind", "metadata"]);
        prop_assert_eq!(&object["metadata"], &json!({"name": "web"}));
    }

    #[test]
    fn managers_of_disjoint_fields_commute(
        left in value(&map_of(string())),
        right in value(&map_of(string())),
        gates in prop::collection::vec("[a-c]", 0..1),
    ) {
        let schema = || object([("spec", object([("left", map_of(string())), ("right", map_of(string()))])), ("metadata", object([]))]);
        let a = json!({"spec": {"left": left}, "metadata": {"finalizers": gates}});
        let b = json!({"spec": {"right": right}, "metadata": {"labels": {"b": "1"}}});
        let run = |order: [(&str, &Value); 2]| {
            let mut plane = Plane::new(schema());
            for (manager, config) in order {
                plane.apply(manager, config.clone());
            }
            plane.live().clone()
        };
        prop_assert_eq!(run([("a", &a), ("b", &b)]), run([("b", &b), ("a", &a)]));
    }
}
