//! [`SchemaCache`]: the last known tool list of each server, on disk.
//!
//! An entry belongs to a server's definition (without its private values), so that an edited server is listed anew. The
//! cache is advice: an entry that cannot be read is no entry, and is written again after the next listing.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    sync::Arc,
};

use camino::{Utf8Path, Utf8PathBuf};
use genlock_mcp::{RawJson, RawObject};
use parking_lot::Mutex;

/// The form of an entry; another one is no entry.
const VERSION: &str = "1";
/// The largest entry that is read, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A directory of tool lists.
#[derive(Debug, Clone)]
pub struct SchemaCache {
    dir: Utf8PathBuf,
    /// Held while an entry is written, so that an older list never takes the place of a newer one.
    writing: Arc<Mutex<()>>,
}

impl SchemaCache {
    /// Uses a directory, which is made with the first entry.
    pub fn new(dir: impl Into<Utf8PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            writing: Arc::default(),
        }
    }

    /// Returns the tools last listed under a definition.
    pub fn load(&self, key: &str) -> Option<Vec<RawJson>> {
        read_entry(&self.path(key))?.get("tools")?.items().ok()
    }

    /// Returns what was last listed beside tools under a definition.
    pub(crate) fn load_offers(&self, key: &str) -> Option<RawObject> {
        read_entry(&self.path(&offers_key(key)))
    }

    /// As [`SchemaCache::store_newest`], for what was listed beside tools.
    pub(crate) fn store_newest_offers(
        &self,
        key: &str,
        entry: RawObject,
        is_newest: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        let _turn = self.writing.lock();
        match is_newest() {
            true => self.write_entry(&offers_key(key), entry),
            false => Ok(()),
        }
    }

    /// Replaces an entry as [`SchemaCache::store`] does, unless it is not the newest any more once its turn has come.
    pub(crate) fn store_newest(
        &self,
        key: &str,
        tools: &[RawJson],
        is_newest: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        let _turn = self.writing.lock();
        match is_newest() {
            true => self.store(key, tools),
            false => Ok(()),
        }
    }

    /// Replaces an entry: whole or not at all, readable by this user alone.
    ///
    /// # Errors
    /// Where the directory or the file cannot be written.
    pub fn store(&self, key: &str, tools: &[RawJson]) -> io::Result<()> {
        let entry = [("tools", RawJson::encode(tools))].into_iter().collect();
        self.write_entry(key, entry)
    }

    fn write_entry(&self, key: &str, mut entry: RawObject) -> io::Result<()> {
        // With it a state directory may come to be, which no gateway takes that others can read.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)?;
        entry.set("version", RawJson::encode(&1));
        let fresh = self.dir.join(format!(".{key}.{}.new", std::process::id()));
        let written = write_private(&fresh, entry.to_raw().as_bytes())
            .and_then(|()| fs::rename(&fresh, self.path(key)));
        if written.is_err() {
            // The entry is lost either way; the half of it need not stay behind.
            let _ = fs::remove_file(&fresh);
        }
        written
    }

    fn path(&self, key: &str) -> Utf8PathBuf {
        self.dir.join(format!("{key}.json"))
    }
}

/// Offers stand in a file of their own, since they are listed apart from the tools.
fn offers_key(key: &str) -> String {
    format!("{key}.offers")
}

fn read_entry(path: &Utf8Path) -> Option<RawObject> {
    let size = fs::metadata(path).ok()?.len();
    let text = (size <= LARGEST).then(|| fs::read(path).ok())??;
    let entry = RawObject::parse(&RawJson::parse(text).ok()?).ok()?;
    let version = entry.get("version")?;
    (version.as_bytes() == VERSION.as_bytes()).then_some(entry)
}

fn write_private(path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn cache() -> (tempfile::TempDir, SchemaCache) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(dir.path().join("state/schema-cache")).unwrap();
        (dir, SchemaCache::new(path))
    }

    #[test]
    fn a_list_comes_back_byte_for_byte_and_is_private() {
        let (_dir, cache) = cache();
        let tools = RawJson::parse(r#"[{"name":"a","n": 1.0}]"#)
            .unwrap()
            .items()
            .unwrap();

        cache.store("k", &tools).unwrap();

        assert_eq!(cache.load("k"), Some(tools));
        let mode = |path: &Utf8Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let state = cache.dir.parent().unwrap();
        assert_eq!(
            [state, &cache.dir, &cache.path("k")].map(mode),
            [0o700, 0o700, 0o600]
        );
        assert_eq!(fs::read_dir(&cache.dir).unwrap().count(), 1);
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_no_entry() {
        let (_dir, cache) = cache();
        assert_eq!(cache.load("k"), None);
        fs::create_dir_all(&cache.dir).unwrap();
        for text in [
            "",
            "{",
            "[]",
            r#"{"version":2,"tools":[]}"#,
            r#"{"version":1,"tools":7}"#,
        ] {
            fs::write(cache.path("k"), text).unwrap();
            assert_eq!(cache.load("k"), None, "{text}");
        }
    }
}
