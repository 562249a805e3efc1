//! Directories of claims: each is there from its claim's first Pod until the claim is gone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};

/// Removes the directories of claims that are deleted, also of those that were while nobody watched.
pub async fn watch(client: Client, directory: PathBuf) {
    let api: Api<PersistentVolumeClaim> = Api::all(client);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    let mut there = BTreeSet::new();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => there.clear(),
            Ok(Some(watcher::Event::InitApply(claim))) => {
                there.insert(claim.uid().unwrap_or_default());
            }
            Ok(Some(watcher::Event::InitDone)) => {
                for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                    if !there.contains(entry.file_name().to_string_lossy().as_ref()) {
                        remove(entry.path()).await;
                    }
                }
            }
            Ok(Some(watcher::Event::Delete(claim))) => remove(place(&directory, &claim)).await,
            Ok(Some(watcher::Event::Apply(_))) => {}
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the watch on PersistentVolumeClaims was interrupted");
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
        }
    }
}

/// The claim's directory. It is named by the claim's uid, so a new claim of an old name is empty.
pub fn place(directory: &Path, claim: &PersistentVolumeClaim) -> PathBuf {
    // Never the directory of all claims, whatever comes in.
    directory.join(claim.uid().filter(|uid| !uid.is_empty()).unwrap_or_else(|| "none".to_owned()))
}

async fn remove(path: PathBuf) {
    let removed = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || crate::volumes::files::remove(&path)).await
    };
    if let Ok(Err(error)) = removed
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "the directory of a deleted claim could not be removed");
    }
}
