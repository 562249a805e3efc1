use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use orrery_init::{Env, git};
use tempfile::TempDir;

/// A repository with two commits on `main`, a branch, a tag and a submodule-free tree.
struct Origin {
    directory: TempDir,
}

impl Origin {
    fn new() -> Self {
        let origin = Self { directory: tempfile::tempdir().unwrap() };
        origin.git(&["init", "--quiet", "--initial-branch=main"]);
        origin.commit("README.md", "one");
        origin.git(&["tag", "v1"]);
        origin.commit("README.md", "two");
        origin.commit("guides/style.md", "short");
        origin.git(&["branch", "feature/x", "v1"]);
        origin
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    fn git(&self, arguments: &[&str]) -> String {
        run(self.path(), arguments)
    }

    fn commit(&self, name: &str, content: &str) -> String {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", name]);
        self.git(&["rev-parse", "HEAD"])
    }
}

fn run(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

struct Target {
    directory: TempDir,
}

impl Target {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn repository(&self) -> PathBuf {
        self.directory.path().join("repo")
    }

    fn env(&self, url: &str, more: &[(&str, &str)]) -> Env {
        let root = self.directory.path().display().to_string();
        let base = [("GIT_REPO", url), ("GIT_ROOT", &root), ("GIT_CLONE_RETRIES", "1")];
        base.iter().chain(more).map(|(key, value)| (*key, *value)).collect()
    }
}

#[test]
fn head_is_the_default_branch_and_shallow() {
    let (origin, target) = (Origin::new(), Target::new());
    git::init(&target.env(&origin.url(), &[])).unwrap();
    let repository = target.repository();
    assert_eq!(fs::read_to_string(repository.join("README.md")).unwrap(), "two");
    assert_eq!(run(&repository, &["rev-parse", "--abbrev-ref", "HEAD"]), "main");
    assert_eq!(run(&repository, &["rev-list", "--count", "HEAD"]), "1");
    assert!(fs::read_to_string(target.directory.path().join(".gitconfig")).unwrap().contains("directory = *"));
}

#[test]
fn a_branch_a_tag_and_a_commit_are_found() {
    let origin = Origin::new();
    let first = origin.git(&["rev-parse", "v1"]);
    for (reference, standing_on) in
        [("feature/x", "feature/x"), ("v1", "HEAD"), (first.as_str(), "HEAD"), (&first[..8], "HEAD")]
    {
        let target = Target::new();
        git::init(&target.env(&origin.url(), &[("GIT_REF", reference)])).unwrap();
        let repository = target.repository();
        assert_eq!(run(&repository, &["rev-parse", "HEAD"]), first, "{reference}");
        assert_eq!(run(&repository, &["rev-parse", "--abbrev-ref", "HEAD"]), standing_on, "{reference}");
    }
}

#[test]
fn depth_zero_brings_the_whole_history() {
    let (origin, target) = (Origin::new(), Target::new());
    git::init(&target.env(&origin.url(), &[("GIT_DEPTH", "0")])).unwrap();
    assert_eq!(run(&target.repository(), &["rev-list", "--count", "HEAD"]), "3");
}

#[test]
fn what_is_not_there_is_named() {
    let (origin, target) = (Origin::new(), Target::new());
    let error = |more: &[(&str, &str)]| git::init(&target.env(&origin.url(), more)).unwrap_err().to_string();
    assert!(error(&[("GIT_REF", "nowhere")]).contains("nowhere"));
    assert!(error(&[("GIT_REF", "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef")]).contains("deadbeef"));
    assert!(error(&[("GIT_REPO_SUBPATH", "no/such")]).contains("no/such"));
    assert!(error(&[("GIT_REPO_SUBPATH", "../..")]).contains("../.."));
    let unsupported = git::init(&target.env("ext::sh -c id", &[])).unwrap_err();
    assert!(matches!(unsupported, git::Error::UnsupportedRepository(_)));
}

#[test]
fn a_second_start_keeps_the_work_of_the_first() {
    let (origin, target) = (Origin::new(), Target::new());
    let env = target.env(&origin.url(), &[]);
    git::init(&env).unwrap();
    fs::write(target.repository().join("README.md"), "edited by the agent").unwrap();
    git::init(&env).unwrap();
    assert_eq!(fs::read_to_string(target.repository().join("README.md")).unwrap(), "edited by the agent");
}

#[test]
fn a_repository_can_become_the_workspace() {
    let (origin, target, workspace) = (Origin::new(), Target::new(), tempfile::tempdir().unwrap());
    fs::write(workspace.path().join("task.md"), "stay").unwrap();
    let env = target.env(&origin.url(), &[("GIT_WORKSPACE_DIR", workspace.path().to_str().unwrap())]);
    git::init(&env).unwrap();
    assert_eq!(fs::read_to_string(workspace.path().join("guides/style.md")).unwrap(), "short");
    assert_eq!(fs::read_to_string(workspace.path().join("task.md")).unwrap(), "stay");

    fs::write(workspace.path().join("README.md"), "edited").unwrap();
    git::init(&env).unwrap();
    assert_eq!(fs::read_to_string(workspace.path().join("README.md")).unwrap(), "edited");
}

#[test]
fn an_optional_repository_leaves_an_empty_directory() {
    let target = Target::new();
    let env = target.env("file:///nowhere", &[("GIT_REPO_SUBPATH", "guides")]);
    assert!(git::init(&env).is_err());
    git::leave_empty(&env).unwrap();
    assert_eq!(fs::read_dir(target.repository().join("guides")).unwrap().count(), 0);
}

#[test]
fn synchronising_follows_the_branch() {
    let (origin, target) = (Origin::new(), Target::new());
    let env = target.env(&origin.url(), &[("GIT_REF", "main")]);
    git::init(&env).unwrap();
    let newest = origin.commit("README.md", "three");
    git::sync_once(&git::Settings::from_env(&env).unwrap(), &env).unwrap();
    assert_eq!(run(&target.repository(), &["rev-parse", "HEAD"]), newest);
    assert_eq!(fs::read_to_string(target.repository().join("README.md")).unwrap(), "three");
}

/// Serves a bare repository as plain files behind a password, which is all git needs for a full clone.
async fn serve_private(repository: PathBuf) -> String {
    async fn file(
        State(root): State<PathBuf>,
        uri: Uri,
        headers: HeaderMap,
    ) -> Result<Vec<u8>, (StatusCode, [(header::HeaderName, &'static str); 1])> {
        // "user:pa ss" in base64.
        if headers.get(header::AUTHORIZATION).is_none_or(|value| value != "Basic dXNlcjpwYSBzcw==") {
            return Err((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Basic realm=\"test\"")]));
        }
        let path = root.join(uri.path().trim_start_matches('/'));
        fs::read(path).map_err(|_| (StatusCode::NOT_FOUND, [(header::WWW_AUTHENTICATE, "")]))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        async move { axum::serve(listener, Router::new().fallback(file).with_state(repository)).await.unwrap() },
    );
    format!("http://{address}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_repository_opens_with_its_secret_and_tells_nobody() {
    let (origin, target, bare) = (Origin::new(), Target::new(), tempfile::tempdir().unwrap());
    run(bare.path(), &["clone", "--quiet", "--bare", &origin.url(), "."]);
    run(bare.path(), &["update-server-info"]);
    let url = serve_private(bare.path().to_owned()).await;

    let refused =
        git::init(&target.env(&url, &[("GIT_DEPTH", "0"), ("GIT_USERNAME", "user"), ("GIT_PASSWORD", "wrong")]))
            .unwrap_err();
    assert!(!refused.to_string().contains("wrong"), "{refused}");

    git::init(&target.env(&url, &[("GIT_DEPTH", "0"), ("GIT_USERNAME", "user"), ("GIT_PASSWORD", "pa ss")])).unwrap();
    assert_eq!(fs::read_to_string(target.repository().join("README.md")).unwrap(), "two");
    assert!(!fs::read_to_string(target.repository().join(".git/config")).unwrap().contains("pa ss"));
}
