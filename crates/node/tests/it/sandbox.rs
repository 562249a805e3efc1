//! A sandbox and its containers, as the driver makes them.

use node::driver::{Driver as _, Mount, State};

use crate::support::{Bench, container, ended, run, shim_with, until};

#[tokio::test]
async fn a_command_runs_to_its_end_and_its_words_are_kept() {
    let bench = Bench::new();
    let (code, log) = run(&bench, "one", &container("main", "echo out; echo err >&2; printf rest; exit 3")).await;
    assert_eq!(code, 3, "{log}");
    assert!(log.contains("out") && log.contains("err") && log.contains("rest"), "{log}");
}

#[tokio::test]
async fn a_container_has_its_own_names_processes_and_files() {
    let bench = Bench::new();
    let script = "hostname; id -u; ls -A /root /home /tmp /run; echo $$; cat /etc/hosts; touch /usr/here /etc/there /usr/local/bin/tool /x && echo written";
    let (code, log) = run(&bench, "two", &container("main", script)).await;
    assert_eq!(code, 0, "{log}");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.first(), Some(&"pod"), "{log}");
    assert!(log.contains("hosts of two") && log.contains("written"), "{log}");
    assert!(!std::path::Path::new("/usr/here").exists() && !std::path::Path::new("/x").exists());
}

#[tokio::test]
async fn volumes_are_mounted_where_the_manifest_says() {
    let bench = Bench::new();
    let sandbox = bench.open("three", &["data"]).await;
    std::fs::write(bench.volume("three", "data").join("given"), "given\n").unwrap();
    let mut watch = sandbox.watch().await.unwrap();
    let mut spec = container(
        "main",
        "cat /workspace/deep/given; echo made > /workspace/deep/made; cat /sub/part; echo no > /ro/x",
    );
    let mount = |path: &str, sub_path: &str, read_only| Mount {
        volume: "data".into(),
        sub_path: sub_path.into(),
        path: path.into(),
        read_only,
    };
    spec.mounts = vec![
        mount("/etc/ssl/certs/own", "", true),
        mount("/workspace/deep", "", false),
        mount("/sub/part", "given", true),
        mount("/ro", "", true),
    ];
    sandbox.start(&spec, Vec::new()).await.unwrap();
    let exit = ended(&mut watch, "main").await;
    let log = bench.log("three", "main", 0);
    assert_ne!(exit.code, 0, "a read-only mount was written: {log}");
    assert_eq!(log.matches("given").count(), 2, "{log}");
    assert_eq!(std::fs::read_to_string(bench.volume("three", "data").join("made")).unwrap(), "made\n");
    sandbox.close(vec!["data".into()]).await.unwrap();
    assert_eq!(std::fs::read_dir(bench.volume("three", "data")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_refused_with_its_name() {
    let bench = Bench::new();
    let sandbox = bench.open("four", &[]).await;
    let mut spec = container("main", "");
    spec.command = vec!["no-such-program".into()];
    let error = sandbox.start(&spec, Vec::new()).await.unwrap_err().to_string();
    assert!(error.contains("no-such-program"), "{error}");
    sandbox.close(Vec::new()).await.unwrap();
}

#[tokio::test]
async fn a_start_is_never_repeated() {
    let bench = Bench::new();
    let sandbox = bench.open("five", &[]).await;
    let mut watch = sandbox.watch().await.unwrap();
    sandbox.start(&container("main", "true"), Vec::new()).await.unwrap();
    ended(&mut watch, "main").await;
    assert!(sandbox.start(&container("main", "true"), Vec::new()).await.is_err());
    sandbox.close(Vec::new()).await.unwrap();
}

#[tokio::test]
async fn another_process_finds_the_pod_again_and_ends_it() {
    let bench = Bench::new();
    let sandbox = bench.open("six", &[]).await;
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    sandbox.start(&container("main", script), Vec::new()).await.unwrap();
    until(|| bench.log("six", "main", 0).contains("ready")).await;
    drop(sandbox);
    let again = bench.driver.find("six").await.expect("the shim is there");
    let mut watch = again.watch().await.unwrap();
    assert!(matches!(watch.now[0].state, State::Running { .. }));
    again.signal("main", libc::SIGTERM).await.unwrap();
    assert_eq!(ended(&mut watch, "main").await.code, 7);
    again.close(Vec::new()).await.unwrap();
    assert!(watch.events.recv().await.is_none(), "the shim goes when it is closed");
    assert!(bench.driver.find("six").await.is_none());
}

/// The process with this word in its command line.
fn process_with(word: &str) -> Option<nix::unistd::Pid> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = all.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|part| part == word.as_bytes())
    };
    numbers.find(is_it).map(nix::unistd::Pid::from_raw)
}

#[tokio::test]
async fn a_nursery_that_was_killed_takes_no_pod_along_and_is_replaced() {
    let mark = format!("nursery-of-{}", std::process::id());
    let bench = Bench::with(shim_with(vec![mark.clone()]));
    let before = bench.open("before", &[]).await;
    let nursery = process_with(&mark).expect("the nursery is there");
    nix::sys::signal::kill(nursery, nix::sys::signal::Signal::SIGKILL).unwrap();
    until(|| process_with(&mark).is_none()).await;
    let (code, log) = run(&bench, "after", &container("main", "echo runs")).await;
    assert_eq!((code, log.as_str()), (0, "runs"));
    let mut watch = before.watch().await.unwrap();
    before.start(&container("main", "exit 4"), Vec::new()).await.unwrap();
    assert_eq!(ended(&mut watch, "main").await.code, 4);
    before.close(Vec::new()).await.unwrap();
    // It goes with whoever started it.
    drop(bench);
    until(|| process_with(&mark).is_none()).await;
}
