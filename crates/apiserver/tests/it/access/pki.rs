use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use apiserver::pki::{Error, Pki};
use jiff::{Timestamp, ToSpan as _};

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

#[test]
fn everything_is_kept_and_only_the_owner_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pki");
    let first = Pki::open(&path, &[], now()).unwrap();
    let again = Pki::open(&path, &[], now() + (30 * 24).hours()).unwrap();
    assert_eq!(first.authority, again.authority);
    assert_eq!(first.serving.certificate, again.serving.certificate);
    assert_eq!(first.admin.certificate, again.admin.certificate);
    assert_eq!(first.tokens.certificate, again.tokens.certificate);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    for file in fs::read_dir(&path).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
    }
}

#[test]
fn leaves_are_renewed_before_they_end_and_the_authority_stays() {
    let folder = tempfile::tempdir().unwrap();
    let first = Pki::open(folder.path(), &[], now()).unwrap();
    let later = Pki::open(folder.path(), &[], now() + (310 * 24).hours()).unwrap();
    assert_eq!(first.authority, later.authority);
    assert_ne!(first.serving.certificate, later.serving.certificate);
    assert_ne!(first.admin.certificate, later.admin.certificate);
    assert_eq!(first.serving.key, later.serving.key);
}

#[test]
fn a_renewed_authority_keeps_its_key() {
    let folder = tempfile::tempdir().unwrap();
    Pki::open(folder.path(), &[], now()).unwrap();
    let key = fs::read(folder.path().join("ca.key")).unwrap();
    let first = fs::read(folder.path().join("ca.crt")).unwrap();
    Pki::open(folder.path(), &[], now() + (3620 * 24).hours()).unwrap();
    assert_eq!(fs::read(folder.path().join("ca.key")).unwrap(), key);
    assert_ne!(fs::read(folder.path().join("ca.crt")).unwrap(), first);
}

#[test]
fn another_name_means_another_serving_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let first = Pki::open(folder.path(), &[], now()).unwrap();
    let named = Pki::open(folder.path(), &["orrery.example".into(), "192.0.2.7".into()], now()).unwrap();
    assert_ne!(first.serving.certificate, named.serving.certificate);
    assert_eq!(first.admin.certificate, named.admin.certificate);
    let same = Pki::open(folder.path(), &["orrery.example".into(), "192.0.2.7".into()], now()).unwrap();
    assert_eq!(named.serving.certificate, same.serving.certificate);
}

#[test]
fn a_lost_authority_key_renews_everything_it_signed() {
    let folder = tempfile::tempdir().unwrap();
    let first = Pki::open(folder.path(), &[], now()).unwrap();
    fs::remove_file(folder.path().join("ca.key")).unwrap();
    let next = Pki::open(folder.path(), &[], now()).unwrap();
    assert_ne!(first.authority, next.authority);
    assert_ne!(first.serving.certificate, next.serving.certificate);
    assert_ne!(first.admin.certificate, next.admin.certificate);
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    Pki::open(folder.path(), &[], now()).unwrap();
    let path = folder.path().join("admin.crt");
    fs::write(&path, "garbage").unwrap();
    let error = Pki::open(folder.path(), &[], now()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("admin.crt"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "garbage");
}

#[test]
fn keys_do_not_show_in_debug_output() {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::open(folder.path(), &[], now()).unwrap();
    assert!(!format!("{pki:?}").contains("PRIVATE KEY"));
}
