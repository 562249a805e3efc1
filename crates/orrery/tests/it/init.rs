//! What init containers run, by the contract of their environment variables.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn verb(name: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.arg(name).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", "/nonexistent");
    command.envs(environment.iter().copied()).output().unwrap()
}

fn done(name: &str, environment: &[(&str, &str)]) {
    let output = verb(name, environment);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn refused(name: &str, environment: &[(&str, &str)]) -> String {
    let output = verb(name, environment);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn context_init_copies_files_and_directories_with_their_modes() {
    let folder = TempDir::new().unwrap();
    let (source, directory, target) = (folder.path().join("s"), folder.path().join("d"), folder.path().join("w"));
    fs::create_dir_all(directory.join("..data")).unwrap();
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("workspace-task.md"), "do it").unwrap();
    fs::write(source.join("key"), "secret").unwrap();
    fs::write(directory.join("a.md"), "A").unwrap();
    let files = serde_json::json!([
        { "key": "workspace-task.md", "targetPath": target.join("task.md") },
        { "key": "key", "targetPath": target.join("deep/key"), "fileMode": 0o400 },
    ]);
    let directories = serde_json::json!([{ "sourcePath": directory, "targetPath": target.join("docs") }]);
    let environment = [
        ("CONFIGMAP_PATH", text(&source)),
        ("FILE_MAPPINGS", &files.to_string()),
        ("DIR_MAPPINGS", &directories.to_string()),
    ];
    done("context-init", &environment);
    assert_eq!(fs::read_to_string(target.join("task.md")).unwrap(), "do it");
    assert_eq!(mode(&target.join("task.md")), 0o644);
    assert_eq!(mode(&target.join("deep/key")), 0o400, "kept exactly, not loosened");
    assert_eq!(fs::read_to_string(target.join("docs/a.md")).unwrap(), "A");
    assert!(!target.join("docs/..data").exists());
    done("context-init", &environment);
}

#[test]
fn context_init_says_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let files = serde_json::json!([{ "key": "gone", "targetPath": folder.path().join("x") }]).to_string();
    let said = refused("context-init", &[("CONFIGMAP_PATH", text(folder.path())), ("FILE_MAPPINGS", &files)]);
    assert!(said.contains("gone"), "{said}");
}

fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"])
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with three commits, a tag at the second and a branch at the first; answers the first commit.
fn repository(folder: &Path) -> String {
    fs::create_dir_all(folder.join("guides")).unwrap();
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    let commit = |number: &str| {
        fs::write(folder.join("file"), number).unwrap();
        fs::write(folder.join("guides/g.md"), number).unwrap();
        git(folder, &["add", "."]);
        git(folder, &["commit", "--quiet", "-m", number]);
        git(folder, &["rev-parse", "HEAD"])
    };
    let first = commit("one");
    git(folder, &["branch", "old"]);
    commit("two");
    git(folder, &["tag", "v2"]);
    commit("three");
    first
}

fn clone(source: &Path, reference: &str, depth: &str) -> (TempDir, String) {
    let root = TempDir::new().unwrap();
    let url = format!("file://{}", source.display());
    done(
        "git-init",
        &[("GIT_REPO", &url), ("GIT_REF", reference), ("GIT_DEPTH", depth), ("GIT_ROOT", text(root.path()))],
    );
    let content = fs::read_to_string(root.path().join("repo/file")).unwrap();
    (root, content)
}

#[test]
fn git_init_takes_branches_tags_and_commits() {
    let source = TempDir::new().unwrap();
    let first = repository(source.path());
    assert_eq!(clone(source.path(), "HEAD", "1").1, "three");
    assert_eq!(clone(source.path(), "old", "1").1, "one");
    assert_eq!(clone(source.path(), "v2", "1").1, "two");
    assert_eq!(clone(source.path(), &first, "1").1, "one");
    assert_eq!(clone(source.path(), &first[..8], "1").1, "one");
}

#[test]
fn git_init_fetches_as_deep_as_asked() {
    let source = TempDir::new().unwrap();
    repository(source.path());
    let count = |depth: &str| {
        let (root, _) = clone(source.path(), "main", depth);
        assert_eq!(git(&root.path().join("repo"), &["branch", "--show-current"]), "main");
        git(&root.path().join("repo"), &["rev-list", "--count", "HEAD"])
    };
    assert_eq!((count("1"), count("2"), count("0")), ("1".into(), "2".into(), "3".into()));
}

#[test]
fn git_init_fills_the_workspace_when_the_repository_belongs_there() {
    let (source, root, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    repository(source.path());
    let url = format!("file://{}", source.path().display());
    let environment = [
        ("GIT_REPO", url.as_str()),
        ("GIT_ROOT", text(root.path())),
        ("GIT_WORKSPACE_DIR", text(workspace.path())),
        ("GIT_REPO_SUBPATH", "guides"),
    ];
    done("git-init", &environment);
    assert_eq!(fs::read_to_string(workspace.path().join("g.md")).unwrap(), "three");
    assert!(fs::read_to_string(root.path().join(".gitconfig")).unwrap().contains("directory = *"));
    assert_eq!(mode(&root.path().join("repo/file")) & 0o666, 0o666, "the agent may run under another user");
    done("git-init", &environment);
}

#[test]
fn git_init_says_what_it_cannot_find_unless_it_is_optional() {
    let (source, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    repository(source.path());
    let url = format!("file://{}", source.path().display());
    let mut environment = vec![
        ("GIT_REPO", url.as_str()),
        ("GIT_REF", "nonsense"),
        ("GIT_ROOT", text(root.path())),
        ("GIT_CLONE_RETRIES", "1"),
    ];
    let said = refused("git-init", &environment);
    assert!(said.contains("nonsense") && said.contains("no branch, tag or commit"), "{said}");
    environment.push(("CONTEXT_OPTIONAL", "true"));
    done("git-init", &environment);
    assert!(root.path().join("repo").is_dir());
}

/// Answers one request with `response`, and with what was asked.
fn serve_once(response: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/file", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut chunk = [0; 1024];
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = stream.read(&mut chunk).unwrap();
            request.extend_from_slice(&chunk[..read]);
        }
        stream.write_all(response.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, asked)
}

#[test]
fn url_fetch_writes_what_it_gets_and_shows_its_token() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("deep/spec.json");
    let (url, asked) = serve_once("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
    done(
        "url-fetch",
        &[
            ("URL_SOURCE", &url),
            ("URL_TARGET", text(&target)),
            ("URL_HEADERS", r#"{"X-Team":"a"}"#),
            ("URL_AUTH_TOKEN", "t0ken"),
            ("URL_FILE_MODE", "440"),
        ],
    );
    let asked = asked.join().unwrap().to_lowercase();
    assert!(asked.contains("authorization: bearer t0ken") && asked.contains("x-team: a"), "{asked}");
    assert_eq!((fs::read_to_string(&target).unwrap().as_str(), mode(&target)), ("{}", 0o440));
}

#[test]
fn url_fetch_fails_loudly_unless_it_is_optional() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("x");
    let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope";
    let (url, _asked) = serve_once(answer);
    let said = refused("url-fetch", &[("URL_SOURCE", &url), ("URL_TARGET", text(&target))]);
    assert!(said.contains("404") && said.contains("nope"), "{said}");
    let (url, _asked) = serve_once(answer);
    done("url-fetch", &[("URL_SOURCE", &url), ("URL_TARGET", text(&target)), ("CONTEXT_OPTIONAL", "true")]);
    assert!(!target.exists());
}

#[test]
fn tools_init_links_the_agent_or_says_how_to_get_it() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let tools = [("TOOLS_DIR", text(folder.path())), ("ORRERY_OPENCODE", text(&program))];
    done("tools-init", &tools);
    assert_eq!(fs::read_link(folder.path().join("opencode")).unwrap(), program);
    let missing = [("TOOLS_DIR", text(folder.path())), ("ORRERY_OPENCODE", "/nonexistent")];
    assert!(refused("tools-init", &missing).contains("npm install -g opencode-ai"));
}
