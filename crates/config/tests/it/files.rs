//! Files on disk.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
};

use camino::{Utf8Path, Utf8PathBuf};
use genlock_config::{LoadError, Variables, load};

fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().to_owned();
    (folder, path)
}

fn code(path: &Utf8Path) -> &'static str {
    load(path, &Variables::empty()).unwrap_err().code()
}

#[test]
fn a_file_is_loaded_and_named_in_its_findings() {
    let (_folder, path) = folder();
    let (good, bad) = (path.join("good.yaml"), path.join("bad.yaml"));
    fs::write(&good, "profile: work\n").unwrap();
    fs::write(&bad, "profil: work\n").unwrap();

    let loaded = load(&good, &Variables::empty()).unwrap();
    let error = load(&bad, &Variables::empty()).unwrap_err();

    assert_eq!(loaded.config.profile.as_str(), "work");
    assert_eq!(error.findings().len(), 1);
    assert_eq!(error.findings()[0].file, bad);
}

#[test]
fn a_link_is_followed() {
    let (_folder, path) = folder();
    fs::write(path.join("real.yaml"), "{}").unwrap();
    symlink(path.join("real.yaml"), path.join("link.yaml")).unwrap();

    assert!(load(&path.join("link.yaml"), &Variables::empty()).is_ok());
}

#[test]
fn what_is_no_readable_file_has_a_code_of_its_own() {
    let (_folder, path) = folder();
    fs::write(path.join("large.yaml"), "#".repeat((1 << 20) + 1)).unwrap();
    fs::write(path.join("latin.yaml"), b"profile: w\xf6rk").unwrap();
    fs::write(path.join("utf16.yaml"), b"\xff\xfep\0").unwrap();
    fs::write(path.join("empty.yaml"), b"").unwrap();

    assert_eq!(code(&path.join("missing.yaml")), "config.read");
    assert_eq!(code(&path), "config.not_a_file");
    assert_eq!(code(Utf8Path::new("/dev/null")), "config.not_a_file");
    assert_eq!(code(&path.join("large.yaml")), "config.file_too_large");
    assert_eq!(code(&path.join("latin.yaml")), "config.not_utf8");
    assert_eq!(code(&path.join("utf16.yaml")), "config.not_utf8");
    assert_eq!(code(&path.join("empty.yaml")), "config.invalid");
}

#[test]
fn a_file_that_others_can_write_is_refused_however_it_is_named() {
    let (_folder, path) = folder();
    let (file, link) = (path.join("open.yaml"), path.join("link.yaml"));
    fs::write(&file, "{}").unwrap();
    symlink(&file, &link).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();

    assert_eq!(code(&file), "config.writable_by_others");
    assert_eq!(code(&link), "config.writable_by_others");
    fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
    assert!(load(&link, &Variables::empty()).is_ok());
}

#[test]
fn the_place_where_utf8_ends_is_named_and_nothing_of_it_quoted() {
    let (_folder, path) = folder();
    let file = path.join("latin.yaml");
    fs::write(&file, b"profile: c4n4ry\xf6").unwrap();

    let error = load(&file, &Variables::empty()).unwrap_err();

    assert!(
        matches!(error, LoadError::NotUtf8 { offset: 15, .. }),
        "{error:?}"
    );
    assert!(!format!("{error} {error:?}").contains("c4n4ry"));
}
