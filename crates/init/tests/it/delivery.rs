//! What Tasks bring to a server: put in place, shared, refused, and taken away when its Task hangs up.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orrery_init::delivery::{Item, Lease, SendError, Settings, Shelf, router, send};

const TOKEN: &str = "a token";

/// A server's Pod: a workspace and a place outside of it.
struct Server {
    folder: tempfile::TempDir,
    address: String,
    _serving: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(folder: tempfile::TempDir) -> Self {
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shelf = Arc::new(Shelf::open(&folder.path().join("workspace")).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let routes = router(shelf, TOKEN.to_owned());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { folder, address, _serving: serving }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The Task's own directory, or a place outside.
    fn own(&self, task: &str, path: &str) -> PathBuf {
        self.path("workspace/.kubeopencode/tasks").join(task).join(path)
    }

    /// Sends as the Task's Pod would. Both Pods are one here, so what is sent is moved out of the way first.
    async fn bring(&self, task: &str, token: &str, items: &[PathBuf]) -> Result<Lease, SendError> {
        let settings = Settings {
            url: format!("{}/tasks/{task}", self.address),
            token: token.to_owned(),
            items: items.iter().map(|path| Item { path: path.clone(), optional: false }).collect(),
        };
        send(&settings).await
    }

    /// Makes a file as the Task's Pod has it, sends it, and lets the server have its path.
    async fn bring_file(&self, task: &str, path: &Path, text: &str) -> Result<Lease, SendError> {
        let before = fs::read_to_string(path).ok();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        // Packing reads it now; the server must find the path as it was.
        let archive = tempfile::NamedTempFile::new().unwrap();
        let items = [Item { path: path.to_owned(), optional: false }];
        orrery_init::delivery::pack(&items, archive.as_file()).unwrap();
        match before {
            Some(before) => fs::write(path, before).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        // Nor the directories that were made for it.
        for directory in path.ancestors().skip(1).take_while(|directory| *directory != self.folder.path()) {
            let _ = fs::remove_dir(directory);
        }
        let client = reqwest::Client::new();
        let body = fs::read(archive.path()).unwrap();
        let request = client.post(format!("{}/tasks/{task}", self.address)).bearer_auth(TOKEN).body(body);
        Lease::of(request.send().await.unwrap()).await
    }
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn a_tree_arrives_as_it_was_and_leaves_with_its_task() {
    let server = Server::start(tempfile::tempdir().unwrap()).await;
    let source = server.path("source");
    fs::create_dir_all(source.join("locked")).unwrap();
    fs::write(source.join("locked/key"), "secret").unwrap();
    fs::set_permissions(source.join("locked/key"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(source.join("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    symlink("locked/key", source.join("link")).unwrap();
    let target = server.own("t-1", "tree");
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::rename(&source, &target).unwrap();
    let archive = tempfile::tempfile().unwrap();
    orrery_init::delivery::pack(&[Item { path: target.clone(), optional: false }], &archive).unwrap();
    // The shelf starts empty.
    let shelf = Shelf::open(&server.path("workspace")).unwrap();
    assert!(!target.exists());
    std::io::Seek::rewind(&mut &archive).unwrap();
    shelf.put("t-1", &archive).unwrap();
    let mode = |path: &str| fs::metadata(target.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("locked"), mode("locked/key")), (0o555, 0o400));
    assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("locked/key"));
    shelf.take_away("t-1");
    assert!(!server.own("t-1", "").exists());
}

#[tokio::test]
async fn a_path_is_shared_for_the_same_content_and_refused_for_another() {
    let server = Server::start(tempfile::tempdir().unwrap()).await;
    let path = server.path("deep/er/plan.md");
    let first = server.bring_file("a", &path, "plan A").await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "plan A");
    let refused = server.bring_file("b", &path, "plan B").await.err().unwrap();
    assert_eq!(refused.reason, "ContextConflict");
    assert!(refused.message.contains("is held by Task a with other content"), "{refused}");
    let inside = server.bring_file("c", &server.path("deep/er/plan.md.d"), "beside").await.unwrap();
    let second = server.bring_file("d", &path, "plan A").await.unwrap();
    drop(first);
    drop(inside);
    until("c's file goes", || !server.path("deep/er/plan.md.d").exists()).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "plan A", "d still needs it");
    drop(second);
    until("all goes, with the directories made for it", || !server.path("deep").exists()).await;
}

#[tokio::test]
async fn what_is_the_servers_own_is_not_touched() {
    let server = Server::start(tempfile::tempdir().unwrap()).await;
    let path = server.path("workspace/README.md");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "the Agent's").unwrap();
    let refused = server.bring_file("a", &path, "a Task's").await.err().unwrap();
    assert_eq!(refused.reason, "ContextConflict");
    let others = server.own("b-2", "x");
    let refused = server.bring_file("a", &others, "a Task's").await.err().unwrap();
    assert_eq!(refused.reason, "ContextError", "another Task's directory");
    assert_eq!(fs::read_to_string(&path).unwrap(), "the Agent's");
}

#[tokio::test]
async fn nobody_brings_anything_without_the_token() {
    let server = Server::start(tempfile::tempdir().unwrap()).await;
    let path = server.path("x");
    fs::write(&path, "x").unwrap();
    let refused = server.bring("a", "another", &[path]).await.err().unwrap();
    assert!(refused.message.contains("token"), "{refused}");
    let missing = server.bring("a", TOKEN, &[server.path("nothing")]).await.err().unwrap();
    assert!(missing.message.contains("nothing is not there"), "{missing}");
}

#[tokio::test]
async fn a_server_that_starts_again_clears_what_was_left() {
    let server = Server::start(tempfile::tempdir().unwrap()).await;
    let (outside, own) = (server.path("outside.md"), server.own("a", "own.md"));
    let one = server.bring_file("a", &outside, "x").await.unwrap();
    let two = server.bring_file("b", &server.own("b", "own.md"), "x").await.unwrap();
    assert!(outside.exists() && server.own("b", "own.md").exists() && !own.exists());
    // As after `kill -9`: nobody took anything away.
    Shelf::open(&server.path("workspace")).unwrap();
    assert!(!outside.exists() && !server.own("b", "").exists());
    drop((one, two));
}
