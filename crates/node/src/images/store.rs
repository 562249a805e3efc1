//! Imported images: unpacked once, read by every Pod that runs them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Imported;
use crate::driver::Identity;

/// What is known of an imported image; kept in its `image.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Digest of its configuration, short.
    pub id: String,
    /// What it is called.
    pub names: Vec<String>,
    /// Bytes of its files.
    pub size: u64,
    #[serde(default)]
    entrypoint: Vec<String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: Vec<(String, String)>,
    working_directory: Option<String>,
    user: Option<(u32, u32)>,
}

/// Why an image was not imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something of it cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{0}")]
    Content(String),
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

fn content(words: impl Into<String>) -> Error {
    Error::Content(words.into())
}

/// The images of one plane, in a directory.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// Below the node's data directory.
    pub fn new(data: &Path) -> Self {
        Self { directory: data.join("images") }
    }

    /// All of them.
    pub fn list(&self) -> Vec<Record> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path.join("image.json")).ok()?).ok();
        let mut records: Vec<Record> = entries.filter_map(|entry| read(entry.path())).collect();
        records.sort_by(|one, other| one.names.cmp(&other.names));
        records
    }

    /// The image of a name, or of an id.
    pub fn find(&self, name: &str) -> Option<Imported> {
        let wanted = full_name(name);
        let fits = |record: &Record| record.id == name || record.names.iter().any(|known| full_name(known) == wanted);
        let record = self.list().into_iter().find(fits)?;
        Some(Imported {
            layers: vec![self.directory.join(&record.id).join("root")],
            id: record.id,
            entrypoint: record.entrypoint,
            arguments: record.arguments,
            environment: record.environment,
            working_directory: record.working_directory.filter(|directory| !directory.is_empty()),
            user: record.user,
        })
    }

    /// Removes an image. One that a Pod runs is refused.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let image =
            self.find(name).ok_or_else(|| content(format!("there is no image \"{name}\"; see `orrery image list`")))?;
        let pods = self.directory.with_file_name("pods");
        for entry in fs::read_dir(&pods).into_iter().flatten().flatten() {
            let spec = fs::read_to_string(entry.path().join("sandbox.json")).unwrap_or_default();
            if spec.contains(&image.id) && entry.path().join("shim.sock").exists() {
                return Err(content(format!("image \"{name}\" is in use by a Pod; delete the Pod first")));
            }
        }
        let path = self.directory.join(&image.id);
        fs::remove_dir_all(&path).map_err(io_at(&path))
    }

    /// Imports an OCI layout or an archive of one (or of `docker save`). `name` overrides the name it has.
    pub fn import(&self, source: &Path, name: Option<&str>, identity: &Identity) -> Result<Record, Error> {
        fs::create_dir_all(&self.directory).map_err(io_at(&self.directory))?;
        let work = self.directory.join(format!(".import-{}", std::process::id()));
        let _ = fs::remove_dir_all(&work);
        fs::create_dir(&work).map_err(io_at(&work))?;
        let outcome = self.import_in(&work, source, name, identity);
        let _ = fs::remove_dir_all(&work);
        outcome
    }

    fn import_in(&self, work: &Path, source: &Path, name: Option<&str>, identity: &Identity) -> Result<Record, Error> {
        let layout = if source.is_dir() {
            source.to_owned()
        } else {
            let layout = work.join("layout");
            fs::create_dir(&layout).map_err(io_at(&layout))?;
            let file = File::open(source).map_err(io_at(source))?;
            let reader = decompressed(file).map_err(io_at(source))?;
            tar::Archive::new(reader).unpack(&layout).map_err(io_at(source))?;
            layout
        };
        let parts = Parts::read(&layout)?;
        let id: String = parts.config_digest.chars().take(24).collect();
        let mut record = describe(&parts.config, id)?;
        record.names = name.map(|name| vec![name.to_owned()]).unwrap_or(parts.names);
        if record.names.is_empty() {
            return Err(content("the image has no name of its own; give one with --name"));
        }
        let root = work.join("image/root");
        fs::create_dir_all(&root).map_err(io_at(&root))?;
        crate::process::give(&root, identity, None).map_err(io_at(&root))?;
        fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o755)).map_err(io_at(&root))?;
        for layer in &parts.layers {
            let file = File::open(layer).map_err(io_at(layer))?;
            let reader = decompressed(file).map_err(io_at(layer))?;
            record.size += unpack(reader, &root, identity).map_err(io_at(layer))?;
        }
        let text = serde_json::to_vec_pretty(&record).map_err(|error| content(error.to_string()))?;
        let described = work.join("image/image.json");
        fs::write(&described, text).map_err(io_at(&described))?;
        // Another image of the same name gives it up.
        for old in self.list() {
            if old.id == record.id || old.names.iter().any(|name| record.names.contains(name)) {
                let path = self.directory.join(&old.id);
                fs::remove_dir_all(&path).map_err(io_at(&path))?;
            }
        }
        let place = self.directory.join(&record.id);
        fs::rename(work.join("image"), &place).map_err(io_at(&place))?;
        Ok(record)
    }
}

/// `busybox` is `docker.io/library/busybox:latest`, as everywhere.
fn full_name(name: &str) -> String {
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        _ => (name, "latest"),
    };
    let first = path.split('/').next().unwrap_or_default();
    let has_host = path.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    let path = match (has_host, path.contains('/')) {
        (true, _) => path.to_owned(),
        (false, true) => format!("docker.io/{path}"),
        (false, false) => format!("docker.io/library/{path}"),
    };
    format!("{path}:{tag}")
}

/// What an archive says an image is made of.
struct Parts {
    names: Vec<String>,
    config: Value,
    config_digest: String,
    layers: Vec<PathBuf>,
}

impl Parts {
    fn read(layout: &Path) -> Result<Self, Error> {
        if layout.join("index.json").is_file() {
            return Self::read_layout(layout);
        }
        if layout.join("manifest.json").is_file() {
            return Self::read_docker(layout);
        }
        Err(content("this is no OCI layout: it has neither index.json nor manifest.json"))
    }

    fn read_layout(layout: &Path) -> Result<Self, Error> {
        let index = read_json(&layout.join("index.json"))?;
        let mut descriptor = pick(&index)?;
        let annotations = descriptor["annotations"].clone();
        let mut manifest = read_blob_json(layout, &descriptor)?;
        if manifest["manifests"].is_array() {
            descriptor = pick(&manifest)?;
            manifest = read_blob_json(layout, &descriptor)?;
        }
        let keys = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
        let name = keys.iter().find_map(|key| annotations[*key].as_str()).filter(|name| name.contains(['/', ':']));
        let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
        Ok(Self {
            names: name.map(str::to_owned).into_iter().collect(),
            config: read_blob_json(layout, &manifest["config"])?,
            config_digest: digest_of(&manifest["config"])?,
            layers: layers.iter().map(|layer| verified_blob(layout, layer)).collect::<Result<_, _>>()?,
        })
    }

    fn read_docker(layout: &Path) -> Result<Self, Error> {
        let manifest = read_json(&layout.join("manifest.json"))?[0].clone();
        let inside = |value: &Value| -> Result<PathBuf, Error> {
            let path = Path::new(value.as_str().unwrap_or_default());
            let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
            if plain { Ok(layout.join(path)) } else { Err(content("manifest.json names a path outside the archive")) }
        };
        let path = inside(&manifest["Config"])?;
        let text = fs::read(&path).map_err(io_at(&path))?;
        let strings = |list: &Value| -> Vec<Value> { list.as_array().cloned().unwrap_or_default() };
        Ok(Self {
            names: strings(&manifest["RepoTags"]).iter().filter_map(|tag| tag.as_str().map(str::to_owned)).collect(),
            config: serde_json::from_slice(&text).map_err(|error| content(error.to_string()))?,
            config_digest: hex::encode(Sha256::digest(&text)),
            layers: strings(&manifest["Layers"]).iter().map(inside).collect::<Result<_, _>>()?,
        })
    }
}

/// The manifest for this machine.
fn pick(index: &Value) -> Result<Value, Error> {
    let all = index["manifests"].as_array().cloned().unwrap_or_default();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |one: &&Value| {
        let platform = &one["platform"];
        platform.is_null() || (platform["os"] == "linux" && platform["architecture"] == architecture)
    };
    let found = all.iter().find(fits).cloned();
    found.ok_or_else(|| content(format!("the image has no manifest for linux/{architecture}")))
}

fn read_json(path: &Path) -> Result<Value, Error> {
    let text = fs::read(path).map_err(io_at(path))?;
    serde_json::from_slice(&text).map_err(|error| content(format!("{}: {error}", path.display())))
}

fn digest_of(descriptor: &Value) -> Result<String, Error> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let plain = digest.filter(|digest| digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit()));
    plain.map(str::to_owned).ok_or_else(|| content("a descriptor of the image has no sha256 digest"))
}

/// A blob whose content is what its name says.
fn verified_blob(layout: &Path, descriptor: &Value) -> Result<PathBuf, Error> {
    let digest = digest_of(descriptor)?;
    let path = layout.join("blobs/sha256").join(&digest);
    let mut file = File::open(&path).map_err(io_at(&path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut buffer).map_err(io_at(&path))?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
    }
    if hex::encode(hasher.finalize()) == digest {
        Ok(path)
    } else {
        Err(content(format!("{}: its content is not what its digest says", path.display())))
    }
}

fn read_blob_json(layout: &Path, descriptor: &Value) -> Result<Value, Error> {
    read_json(&verified_blob(layout, descriptor)?)
}

fn describe(config: &Value, id: String) -> Result<Record, Error> {
    let run = &config["config"];
    let words = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let environment = words(&run["Env"]);
    let user = run["User"].as_str().unwrap_or_default();
    let number = |text: &str| text.parse::<u32>().ok();
    let user = match user.split_once(':') {
        _ if user.is_empty() => None,
        Some((user, group)) => number(user).zip(number(group)),
        None => number(user).map(|user| (user, 0)),
    };
    if user.is_none() && run["User"].as_str().is_some_and(|user| !user.is_empty() && user != "root") {
        let name = run["User"].as_str().unwrap_or_default();
        return Err(content(format!("the image runs as user \"{name}\": only numbers are understood here")));
    }
    let split = |pair: String| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Record {
        id,
        entrypoint: words(&run["Entrypoint"]),
        arguments: words(&run["Cmd"]),
        environment: environment.into_iter().filter_map(split).collect(),
        working_directory: run["WorkingDir"].as_str().map(str::to_owned),
        user,
        ..Record::default()
    })
}

fn decompressed(mut file: File) -> io::Result<Box<dyn Read>> {
    use std::io::Seek as _;
    let mut magic = [0; 4];
    let length = file.read(&mut magic)?;
    file.rewind()?;
    match &magic[..length] {
        [0x1f, 0x8b, ..] => Ok(Box::new(flate2::read::GzDecoder::new(file))),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            Err(io::Error::other("zstd is not understood here: save the image with gzip layers"))
        }
        _ => Ok(Box::new(io::BufReader::new(file))),
    }
}

/// Lays a layer over what is there. Returns the bytes of its files.
fn unpack(reader: impl Read, root: &Path, identity: &Identity) -> io::Result<u64> {
    let root = fs::canonicalize(root)?;
    let mut archive = tar::Archive::new(reader);
    archive.set_preserve_permissions(true);
    let mut size = 0;
    let mut owners: BTreeMap<PathBuf, (u32, u32)> = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path: PathBuf =
            entry.path()?.components().filter(|part| !matches!(part, Component::CurDir | Component::RootDir)).collect();
        let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { continue };
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(io::Error::other(format!("{} leaves the image", path.display())));
        }
        let parent = root.join(path.parent().unwrap_or(Path::new("")));
        if let Some(removed) = name.strip_prefix(".wh.") {
            // Links of the image must not lead the removal outside of it.
            if fs::canonicalize(&parent).is_ok_and(|parent| parent.starts_with(&root)) {
                white_out(&parent, removed)?;
            }
            continue;
        }
        let kind = entry.header().entry_type();
        if kind.is_block_special() || kind.is_character_special() || kind.is_fifo() {
            continue;
        }
        let target = root.join(&path);
        if !kind.is_dir() && fs::symlink_metadata(&target).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&target)?;
        }
        // Directories that the archive does not name are made on the way, and must belong to the image too.
        for above in path.ancestors().skip(1).filter(|above| !root.join(above).exists()) {
            owners.insert(root.join(above), (0, 0));
        }
        size += entry.size();
        let owner = (entry.header().uid()?, entry.header().gid()?);
        if !entry.unpack_in(&root)? {
            return Err(io::Error::other(format!("{} leaves the image", path.display())));
        }
        let small = |id: u64| u32::try_from(id).unwrap_or(0).min(65_535);
        owners.insert(target, (small(owner.0), small(owner.1)));
    }
    if let Identity::Range { base, .. } = identity {
        for (path, (user, group)) in owners {
            let mode = fs::symlink_metadata(&path)?;
            std::os::unix::fs::lchown(&path, Some(base + user), Some(base + group))?;
            if !mode.is_symlink() {
                // A change of owner takes the set-user-id bit away.
                fs::set_permissions(&path, mode.permissions())?;
            }
        }
    }
    Ok(size)
}

fn white_out(parent: &Path, name: &str) -> io::Result<()> {
    let remove = |path: &Path| match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    if name != ".wh..opq" {
        return remove(&parent.join(name));
    }
    for entry in fs::read_dir(parent)? {
        remove(&entry?.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::full_name;

    #[test]
    fn names_are_completed_as_everywhere() {
        for (short, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1", "docker.io/library/busybox:1"),
            ("acme/tool", "docker.io/acme/tool:latest"),
            ("localhost:5000/tool", "localhost:5000/tool:latest"),
            ("ghcr.io/acme/tool:v1", "ghcr.io/acme/tool:v1"),
        ] {
            assert_eq!(full_name(short), full);
        }
    }
}
