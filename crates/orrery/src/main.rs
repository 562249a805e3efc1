//! Orrery.
fn main() {}
