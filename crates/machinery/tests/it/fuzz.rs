//! The fuzz targets on their corpus and on seeded mutations of it (see `fuzz/`).

use std::path::Path;

#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

fn run(name: &str, target: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    mutate::run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name), target);
}

#[test]
fn patch() {
    run("patch", targets::patch);
}

#[test]
fn apply() {
    run("apply", targets::apply);
}

#[test]
fn schema() {
    run("schema", targets::schema);
}

#[test]
fn selectors() {
    run("selectors", targets::selectors);
}

#[test]
fn jsonpath() {
    run("jsonpath", targets::jsonpath);
}
