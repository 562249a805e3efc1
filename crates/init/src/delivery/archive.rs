//! A Task's files as one archive: first the list of where they belong, then each as `0`, `1`, …

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const LIST: &str = "list.json";

/// Something that a Task brings: a file or a directory, at the same path in both Pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Absolute.
    pub path: PathBuf,
    /// Whether it may be missing.
    #[serde(default)]
    pub optional: bool,
}

/// Writes the items that are there. Those inside of another travel with it.
pub fn pack(items: &[Item], into: impl Write) -> io::Result<Vec<PathBuf>> {
    let mut present = Vec::new();
    for item in items {
        if item.path.symlink_metadata().is_ok() {
            present.push(item.path.clone());
        } else if !item.optional {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", item.path.display())));
        }
    }
    present.sort();
    present.dedup_by(|inner, outer| inner.starts_with(outer));
    let mut archive = tar::Builder::new(into);
    archive.follow_symlinks(false);
    let list = serde_json::to_vec(&present)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(list.len() as u64);
    header.set_mode(0o600);
    archive.append_data(&mut header, LIST, list.as_slice())?;
    for (index, path) in present.iter().enumerate() {
        append(&mut archive, Path::new(&index.to_string()), path)?;
    }
    archive.into_inner()?.flush()?;
    Ok(present)
}

fn append<W: Write>(archive: &mut tar::Builder<W>, name: &Path, path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return archive.append_path_with_name(path, name);
    }
    archive.append_dir(name, path)?;
    // A mounted ConfigMap shows its keys through links; they are what it holds.
    let mounted = path.join("..data").exists();
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let inner = name.join(entry.file_name());
        if mounted {
            if entry.file_name().to_string_lossy().starts_with("..") {
                continue;
            }
            append(archive, &inner, &entry.path().canonicalize()?)?;
        } else {
            append(archive, &inner, &entry.path())?;
        }
    }
    Ok(())
}

/// An archive that has been unpacked: where each item belongs, where it is now, and a digest of it.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) path: PathBuf,
    pub(super) now: PathBuf,
    pub(super) digest: String,
}

/// Unpacks into an empty directory.
pub(super) fn unpack(from: &File, into: &Path) -> io::Result<Vec<Unpacked>> {
    let mut archive = tar::Archive::new(from);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(false);
    let mut items: Option<Vec<Unpacked>> = None;
    let mut digests: Vec<Sha256> = Vec::new();
    let mut directories = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let Some(items) = &mut items else {
            if name != Path::new(LIST) {
                return Err(invalid("an archive begins with its list"));
            }
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            let paths: Vec<PathBuf> = serde_json::from_str(&text)?;
            let place = |(index, path): (usize, PathBuf)| Unpacked {
                now: into.join(index.to_string()),
                path,
                digest: String::new(),
            };
            digests = vec![Sha256::new(); paths.len()];
            items = Some(paths.into_iter().enumerate().map(place).collect());
            continue;
        };
        let index = match name.components().next() {
            Some(Component::Normal(first)) => first.to_string_lossy().parse().ok().filter(|index| *index < items.len()),
            _ => None,
        };
        let index: usize = index.ok_or_else(|| invalid("an entry belongs to no item of the list"))?;
        if !entry.unpack_in(into)? {
            return Err(invalid("an entry points outside of its item"));
        }
        if entry.header().entry_type().is_dir() {
            // One that may not be written must still be filled.
            fs::set_permissions(into.join(&name), fs::Permissions::from_mode(0o700))?;
            directories.push((into.join(&name), entry.header().mode()?));
        }
        digest(&mut digests[index], &name, &entry, into)?;
    }
    for (path, mode) in directories.into_iter().rev() {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
    }
    let mut items = items.ok_or_else(|| invalid("an empty archive"))?;
    for (item, hash) in items.iter_mut().zip(digests) {
        item.digest = hex::encode(hash.finalize());
    }
    Ok(items)
}

fn digest<R: Read>(hash: &mut Sha256, name: &Path, entry: &tar::Entry<'_, R>, into: &Path) -> io::Result<()> {
    hash.update(name.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(entry.header().mode()?.to_le_bytes());
    hash.update([entry.header().entry_type().as_byte()]);
    if let Some(target) = entry.link_name()? {
        hash.update(target.as_os_str().as_encoded_bytes());
    } else if entry.header().entry_type().is_file() {
        let mut file = File::open(into.join(name))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = file.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            hash.update(&buffer[..length]);
        }
    }
    hash.update([0]);
    Ok(())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
