//! Watches the config file: any kind of save is seen, and only another content counts.
//!
//! The kernel's notices wake the watch early; it also looks by itself at an interval, since notices get lost on some
//! mounts. Either way it compares the *content*: a write in place, an atomic rename, a swapped symlink and a file with an
//! older time are all alike, and a save of the same bytes is none.

use std::{path::Path, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How often a content that keeps changing is waited for before it is taken as it is.
const PATIENCE: usize = 20;

/// How a file is watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    /// How often it is looked at without a notice.
    pub(crate) interval: Duration,
    /// How long the content must stay the same before it counts.
    pub(crate) debounce: Duration,
    /// Whether the kernel's notices are used.
    pub(crate) notices: bool,
}

/// Tells `changed` each time the file has another content than before, at first than `seen`, until `stop` is cancelled. A
/// file that cannot be read is another content too, so that its loss is noticed.
pub(crate) async fn watch_file(
    path: Utf8PathBuf,
    mut seen: Content,
    watch: Watch,
    changed: mpsc::Sender<()>,
    stop: CancellationToken,
) {
    let (wake, mut woken) = mpsc::channel(1);
    let _watcher = watch
        .notices
        .then(|| watcher(&path, wake.clone()))
        .flatten();
    // The first look is at once: the file may have changed since it was loaded.
    let _ = wake.try_send(());
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            // Either way the content decides. `wake` is held above, so the channel stays open.
            _ = timeout(watch.interval, woken.recv()) => {}
        }
        let now = content(&path).await;
        if now == seen {
            continue;
        }
        seen = settled(&path, now, watch.debounce).await;
        if changed.send(()).await.is_err() {
            return;
        }
    }
}

/// Waits until the content stays the same for a while: the last write of a burst counts, not the first.
async fn settled(path: &Utf8Path, mut now: Content, debounce: Duration) -> Content {
    for _ in 0..PATIENCE {
        sleep(debounce).await;
        let again = content(path).await;
        if again == now {
            break;
        }
        now = again;
    }
    now
}

/// What a file holds; `None` where it cannot be read.
pub(crate) type Content = Option<blake3::Hash>;

/// Looks at a file.
pub(crate) fn look(path: &Utf8Path) -> Content {
    // The read of a pipe would not end.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    std::fs::read(path).ok().map(|bytes| blake3::hash(&bytes))
}

async fn content(path: &Utf8Path) -> Content {
    let path = path.to_owned();
    let looked = tokio::task::spawn_blocking(move || look(&path));
    looked.await.ok().flatten()
}

/// Tells whether a notice can be of a save. Reading is none: the watch itself reads, and would wake itself for ever.
fn may_be_a_save(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

/// Watches the directories that the file can be replaced in: its own, and that of what it links to.
fn watcher(path: &Utf8Path, wake: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let tell = move |notice: notify::Result<notify::Event>| {
        if notice.is_ok_and(|event| may_be_a_save(event.kind)) {
            // A full channel holds a wake-up already.
            let _ = wake.try_send(());
        }
    };
    let mut watcher = notify::recommended_watcher(tell)
        .inspect_err(|error| tracing::warn!(%error, "no notices of file changes: the file is looked at now and then"))
        .ok()?;
    let target = std::fs::canonicalize(path).ok();
    let own = path.parent().map(|parent| {
        if parent.as_str().is_empty() {
            Utf8Path::new(".")
        } else {
            parent
        }
    });
    let directories = [
        own.map(Utf8Path::as_std_path),
        target.as_deref().and_then(Path::parent),
    ];
    for directory in directories.into_iter().flatten() {
        if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
            tracing::debug!(%error, "watch a directory");
        }
    }
    Some(watcher)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Watched {
        dir: tempfile::TempDir,
        changed: mpsc::Receiver<()>,
        stop: CancellationToken,
    }

    impl Watched {
        fn path(&self, name: &str) -> Utf8PathBuf {
            Utf8PathBuf::from_path_buf(self.dir.path().join(name)).unwrap()
        }

        fn start(notices: bool, prepare: impl FnOnce(&Path)) -> Self {
            let dir = tempfile::tempdir().unwrap();
            prepare(dir.path());
            let (tell, changed) = mpsc::channel(8);
            let stop = CancellationToken::new();
            let watch = Watch {
                interval: Duration::from_millis(20),
                debounce: Duration::from_millis(30),
                notices,
            };
            let path = Utf8PathBuf::from_path_buf(dir.path().join("genlock.yaml")).unwrap();
            let seen = look(&path);
            tokio_util::task::TaskTracker::new().spawn(watch_file(
                path,
                seen,
                watch,
                tell,
                stop.clone(),
            ));
            Self { dir, changed, stop }
        }

        async fn sees(&mut self) -> bool {
            timeout(Duration::from_secs(10), self.changed.recv()).await == Ok(Some(()))
        }

        async fn is_quiet(&mut self) -> bool {
            timeout(Duration::from_millis(300), self.changed.recv())
                .await
                .is_err()
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.stop.cancel();
        }
    }

    #[tokio::test]
    async fn every_kind_of_save_is_seen_once_and_the_same_bytes_are_none() {
        for notices in [true, false] {
            let mut watched = Watched::start(notices, |dir| {
                fs::write(dir.join("genlock.yaml"), "a").unwrap();
            });
            let (path, fresh) = (watched.path("genlock.yaml"), watched.path("fresh"));
            // The watch has looked once before the first save.
            assert!(watched.is_quiet().await);

            fs::write(&path, "a").unwrap();
            assert!(watched.is_quiet().await, "the same bytes");
            fs::write(&path, "b").unwrap();
            assert!(watched.sees().await, "in place");
            fs::write(&fresh, "c").unwrap();
            fs::rename(&fresh, &path).unwrap();
            assert!(watched.sees().await, "atomic rename");
            fs::write(&fresh, "d").unwrap();
            fs::File::options()
                .write(true)
                .open(&fresh)
                .unwrap()
                .set_modified(std::time::UNIX_EPOCH)
                .unwrap();
            fs::rename(&fresh, &path).unwrap();
            assert!(watched.sees().await, "older time");
            fs::remove_file(&path).unwrap();
            assert!(watched.sees().await, "deleted");
            fs::write(&path, "e").unwrap();
            assert!(watched.sees().await, "made again");
            assert!(watched.is_quiet().await);
        }
    }

    #[test]
    fn a_read_wakes_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(dir.path().join("genlock.yaml")).unwrap();
        fs::write(&path, "a").unwrap();
        let (wake, mut woken) = mpsc::channel(64);
        let _watcher = watcher(&path, wake).unwrap();

        for _ in 0..50 {
            fs::read(&path).unwrap();
        }
        // Notices come in order: once this one is there, those of the reads would be.
        fs::write(dir.path().join("other"), "b").unwrap();
        assert!(woken.blocking_recv().is_some());
        let mut more = 0;
        while woken.try_recv().is_ok() {
            more += 1;
        }
        assert!(more < 5, "{more} notices of 50 reads");
    }

    #[tokio::test]
    async fn a_swapped_symlink_is_seen() {
        use std::os::unix::fs::symlink;
        let mut watched = Watched::start(true, |dir| {
            for (version, text) in [("v1", "a"), ("v2", "b")] {
                fs::create_dir(dir.join(version)).unwrap();
                fs::write(dir.join(version).join("genlock.yaml"), text).unwrap();
            }
            symlink("v1", dir.join("data")).unwrap();
            symlink("data/genlock.yaml", dir.join("genlock.yaml")).unwrap();
        });
        assert!(watched.is_quiet().await);
        symlink("v2", watched.path("next")).unwrap();
        fs::rename(watched.path("next"), watched.path("data")).unwrap();
        assert!(watched.sees().await);
    }

    #[tokio::test]
    async fn a_slow_write_counts_when_it_is_done() {
        let mut watched = Watched::start(true, |dir| {
            fs::write(dir.join("genlock.yaml"), "a").unwrap();
        });
        assert!(watched.is_quiet().await);
        let path = watched.path("genlock.yaml");
        for length in 1..=20 {
            fs::write(&path, "x".repeat(length)).unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(watched.sees().await);
        assert!(watched.is_quiet().await, "one burst is one change");
    }
}
