//! The shim alone, as a program: what tests of this crate start where `orrery` starts itself.

fn main() -> std::process::ExitCode {
    node::shim::main()
}
