//! Files that only their owner may read, written whole or not at all.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};

use super::Error;

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::File { doing, path, source }
}

/// Makes the folder, or closes it to others when it was left open.
pub(super) fn private_folder(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed("protect", path))
}

/// The file's text, or `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Replaces the file in one step, so that a crash leaves the old one or the new one.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    write_private(path, text.as_bytes()).map_err(failed("write", path))
}

/// Writes a file of mode 0600 in one step (also for the kubeconfig).
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_added_extension("new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `create_new` and the mode in one call: the secret is never readable by others, not even for a moment.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// The key in the file, or a new one; says whether it is new.
pub(super) fn key(folder: &Path, name: &str) -> Result<(KeyPair, bool), Error> {
    let path = folder.join(name);
    if let Some(pem) = read(&path)? {
        let key = KeyPair::from_pem(&pem)
            .map_err(|error| Error::Damaged { path: path.display().to_string(), why: error.to_string() })?;
        return Ok((key, false));
    }
    let key =
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|source| Error::Issue { what: "new key's", source })?;
    write(&path, &key.serialize_pem())?;
    Ok((key, true))
}
