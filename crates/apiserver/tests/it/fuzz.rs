//! The fuzz target of the request line, on its corpus and on seeded mutations of it (see `fuzz/`).

use std::path::Path;

#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/src/request_target.rs"]
mod request_target;

#[test]
fn request() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/request");
    mutate::run(&corpus, request_target::request);
}
