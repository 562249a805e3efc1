//! Builds again when the web UI was built again, because it is inside the binary.

fn main() {
    println!("cargo:rerun-if-changed=../../ui/dist");
}
