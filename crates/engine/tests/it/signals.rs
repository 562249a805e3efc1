//! What can be seen of an engine from outside: metrics and traces.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tracing_subscriber::fmt::MakeWriter;

use crate::world::{Fault, World};

#[tokio::test]
async fn looks_writes_and_their_outcomes_are_counted() {
    let world = World::start().await;
    world.create("a", "apply", "one").await;
    world.create("b", "retry", "one").await;
    let (engine, control) = world.engine().await;
    engine.drain(10).await;
    world.create("c", "create", "one").await;
    control.fail(0, Fault::Before);
    engine.refresh().await.unwrap();
    engine.drain(10).await;
    let mut registry = Registry::default();
    engine.metrics().register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "orrery_controller_reconciles_total{controller=\"mirror\",kind=\"retry\"} 2",
        "orrery_controller_writes_total{controller=\"mirror\",kind=\"apply\"} 1",
        "orrery_controller_writes_total{controller=\"mirror\",kind=\"create\"} 1",
        "orrery_controller_queue_depth{controller=\"mirror\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let looks = text.lines().find_map(|line| line.strip_prefix("orrery_controller_reconcile_seconds_count"));
    assert!(looks.is_some_and(|rest| rest.starts_with("{controller=\"mirror\"} ")), "{text}");
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_trace_says_which_controller_looked_at_which_object_and_why_it_failed() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
    // For the whole process: a place in the code that another thread meets first is not lost on it then.
    tracing::subscriber::set_global_default(subscriber.with_writer(lines.clone()).finish()).unwrap();
    let world = World::start().await;
    world.create("traced", "retry", "one").await;
    world.create("wrong", "invalid", "one").await;
    world.create("hopeless", "permanent", "one").await;
    let (engine, _) = world.engine().await;
    engine.drain(10).await;
    let said = String::from_utf8(lines.0.lock().clone()).unwrap();
    let line = |words: &str, name: &str| {
        let place = format!(r#"reconcile{{controller="mirror" key=default/{name}}}"#);
        let line = said.lines().find(|line| line.contains(words) && line.contains(&place));
        line.unwrap_or_else(|| panic!("no line about {name}: {said}"))
    };
    let passing = line("will be tried again", "traced");
    assert!(
        passing.contains("WARN") && passing.contains("not yet") && passing.contains("delay_seconds=5"),
        "{passing}"
    );
    let refused = line("refused for good", "wrong");
    assert!(refused.contains("WARN") && refused.contains("Not A Name"), "{refused}");
    assert!(line("waiting for a change", "hopeless").contains("never"));
}
