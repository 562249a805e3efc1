//! `apply(a, diff(a, b)) == b` for every patch type.

use machinery::patch::{json, merge, strategic};
use proptest::prelude::*;

use crate::generate::{json_object, value};
use crate::shape::deployment;

proptest! {
    #[test]
    fn json_patch(original in json_object(), target in json_object()) {
        let patch = json::diff(&original, &target);
        prop_assert_eq!(json::apply(&original, &patch).unwrap(), target);
    }

    #[test]
    fn merge_patch(original in json_object(), target in json_object()) {
        let patch = merge::diff(&original, &target);
        prop_assert_eq!(merge::apply(&original, &patch).unwrap(), target);
    }

    #[test]
    fn strategic_merge_patch(original in value(&deployment()), target in value(&deployment())) {
        let patch = strategic::diff(&deployment(), &original, &target);
        prop_assert_eq!(strategic::apply(&deployment(), &original, &patch).unwrap(), target);
    }
}
