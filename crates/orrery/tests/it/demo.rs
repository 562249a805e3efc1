//! What a newcomer sees: `orrery up --demo`, with the real OpenCode and no key of any provider.

use crate::agents::World;

#[test]
fn a_newcomer_sees_a_real_agent_at_work_without_any_key() {
    let world = World::start_with(&["--demo", "--demo-port", "0"]);
    world.wait("task/demo-hello", "create");
    world.wait("task/demo-hello", "condition=Complete");
    let hello = world.on_server("demo", "cat /workspace/hello.md");
    assert!(hello.starts_with("Hello. This file was written by a real agent"), "{hello}");
    let task = world.task("demo-hello");
    assert_eq!(task["status"]["session"]["summary"]["filesChanged"], 1, "{task:#}");
    // It is told what it sees, and what to do next.
    let said = world.said("What next:");
    for part in [
        "with a demo model that plays a script (set ANTHROPIC_API_KEY",
        "Agent demo is ready. Task demo-hello asks it to write a file; this is its log:",
        "Task demo-hello: Completed",
        "1 file changed",
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
    // What it is told to do next works, and needs no name of an Agent.
    let run = world.orrery(&["run", "Say what you can do"]);
    let log = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && log.contains("I am Orrery's demo model"), "{log}");
}
