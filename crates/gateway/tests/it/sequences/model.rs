//! The model: what a reload must come to.

use super::file::Meaning;

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    pub(crate) expected: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) confirm: bool,
}

/// What comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    Report {
        generation: u64,
        changed: bool,
        added: Vec<String>,
        servers_changed: Vec<String>,
        removed: Vec<String>,
        unchanged: u64,
        /// Whether anything but servers changed.
        sections: bool,
    },
    Refused(u16, String),
}

/// The generations as they must be.
pub(crate) struct Model {
    committed: Vec<Meaning>,
    degraded: Option<&'static str>,
}

impl Model {
    /// After the boot.
    pub(crate) fn new(meaning: Meaning) -> Self {
        Self {
            committed: vec![meaning],
            degraded: None,
        }
    }

    pub(crate) fn head(&self) -> u64 {
        self.committed.len() as u64
    }

    pub(crate) fn in_force(&self) -> &Meaning {
        self.committed.last().unwrap()
    }

    pub(crate) fn degraded(&self) -> Option<&'static str> {
        self.degraded
    }

    pub(crate) fn history(&self) -> impl Iterator<Item = (usize, &Meaning)> {
        (1..).zip(&self.committed)
    }

    /// Reloads a file that means this, or nothing.
    pub(crate) fn reload(&mut self, file: Option<&Meaning>, wish: Wish) -> Expected {
        let refused = |status, code: &str| Expected::Refused(status, code.to_owned());
        let mut degraded = |code| {
            if !wish.dry_run {
                self.degraded = Some(code);
            }
        };
        let Some(file) = file else {
            degraded("config.invalid");
            return refused(422, "config.invalid");
        };
        let head = self.committed.len() as u64;
        if wish.expected.is_some_and(|expected| expected != head) {
            return refused(409, "conflict");
        }
        let before = self.committed.last().unwrap();
        let last = file.servers.is_empty() && !before.servers.is_empty();
        if last && !wish.confirm {
            degraded("mass_removal");
            return refused(409, "mass_removal");
        }
        if !wish.dry_run {
            self.degraded = None;
        }
        let changed = file != before;
        let commits = changed && !wish.dry_run;
        let report = report(before, file, head + u64::from(commits));
        if commits {
            self.committed.push(file.clone());
        }
        report
    }
}

fn report(before: &Meaning, file: &Meaning, generation: u64) -> Expected {
    let names = |of: &Meaning, keep: &dyn Fn(&str, u64) -> bool| {
        let names = of
            .servers
            .iter()
            .filter(|(name, value)| keep(name, **value));
        names.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let (old, new) = (&before.servers, &file.servers);
    Expected::Report {
        generation,
        changed: before != file,
        added: names(file, &|name, _| !old.contains_key(name)),
        servers_changed: names(file, &|name, value| {
            old.get(name).is_some_and(|old| *old != value)
        }),
        removed: names(before, &|name, _| !new.contains_key(name)),
        unchanged: names(file, &|name, value| old.get(name) == Some(&value)).len() as u64,
        sections: before.drain != file.drain,
    }
}
