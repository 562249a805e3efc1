//! The shim alone, as a program: what tests of this crate start where `orrery` starts itself.

fn main() -> std::process::ExitCode {
    let directory = std::env::args_os().nth(1).unwrap_or_default();
    node::shim::main(std::path::Path::new(&directory))
}
