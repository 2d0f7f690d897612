//! What every decoder needs: a place to report to, and what interpolation reads.

use std::{
    cell::{Cell, RefCell},
    fmt::Display,
};

use camino::Utf8Path;

use crate::{
    finding::{Finding, Findings, Severity},
    private::{PrivateValue, PrivateValues},
    sections::Mode,
    sources::Files,
    tree::Place,
};

/// Findings of one file beyond this many are only counted.
const MAX_FINDINGS: usize = 200;

/// One run over one document.
pub(crate) struct Context<'c> {
    file: &'c Utf8Path,
    input: Input<'c>,
    /// The mode that the document sets, once it was read.
    pub(crate) mode: Cell<Mode>,
    reported: RefCell<Reported>,
    /// What the server that is read misses; `None` outside of one.
    missing: RefCell<Option<Vec<String>>>,
}

/// Where the texts of a document come from.
pub(crate) enum Input<'c> {
    /// They are written by people, and filled in from here.
    Written(Files<'c>),
    /// They are a redacted form, and these are the private ones.
    Restored(&'c PrivateValues),
}

#[derive(Default)]
struct Reported {
    findings: Vec<Finding>,
    more: usize,
    /// What makes a server unavailable, and nothing else.
    unavailable: Vec<Finding>,
}

/// What was found in one document.
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) unavailable: Findings,
}

/// A finding that does not know its file yet.
pub(crate) struct Report {
    code: &'static str,
    severity: Severity,
    place: Place,
    path: String,
    message: String,
    hint: Option<String>,
}

// === impl Context ===

impl<'c> Context<'c> {
    pub(crate) fn new(file: &'c Utf8Path, input: Input<'c>) -> Self {
        Self {
            file,
            input,
            mode: Cell::new(Mode::Egress),
            reported: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// Returns what texts are filled in from, unless nothing is.
    pub(crate) fn files(&self) -> Option<&Files<'c>> {
        match &self.input {
            Input::Written(files) => Some(files),
            Input::Restored(_) => None,
        }
    }

    /// Says whether the document is a redacted form.
    pub(crate) fn is_restored(&self) -> bool {
        matches!(self.input, Input::Restored(_))
    }

    /// Returns the private value of a redacted form at `pointer`.
    pub(crate) fn restored(&self, pointer: &str) -> Option<&PrivateValue> {
        match &self.input {
            Input::Written(_) => None,
            Input::Restored(private) => private.get(pointer),
        }
    }

    /// Runs `decode` for a server, and returns what that server misses beside the result.
    pub(crate) fn in_server<T>(&self, decode: impl FnOnce() -> T) -> (T, Vec<String>) {
        *self.missing.borrow_mut() = Some(Vec::new());
        let decoded = decode();
        (decoded, self.missing.take().unwrap_or_default())
    }

    /// Reports that something is not there that a value needs. Inside of a server, that server
    /// is unavailable then; says whether it is.
    pub(crate) fn report_missing(&self, what: &str, report: Report) -> bool {
        let mut missing = self.missing.borrow_mut();
        let Some(missing) = missing.as_mut() else {
            self.report(report);
            return false;
        };
        if !missing.iter().any(|known| known == what) {
            missing.push(what.to_owned());
        }
        let unavailable = &mut self.reported.borrow_mut().unavailable;
        if unavailable.len() < MAX_FINDINGS {
            unavailable.push(report.into_finding(self.file));
        }
        true
    }

    pub(crate) fn report(&self, report: Report) {
        let mut reported = self.reported.borrow_mut();
        // An error is never pushed out by warnings before it.
        if reported.findings.len() >= MAX_FINDINGS {
            reported.more += 1;
            if report.severity == Severity::Warning {
                return;
            }
            let Some(last) = reported.findings.last_mut() else {
                return;
            };
            if last.severity == Severity::Error {
                return;
            }
            *last = report.into_finding(self.file);
            return;
        }
        reported.findings.push(report.into_finding(self.file));
    }

    /// Counts findings that are not shown.
    pub(crate) fn count_more(&self, more: usize) {
        self.reported.borrow_mut().more += more;
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        let Reported {
            mut findings,
            more,
            unavailable,
        } = self.reported.into_inner();
        if more > 0 {
            let places = findings
                .iter()
                .map(|finding| (finding.line, finding.column));
            let (line, column) = places.max().unwrap_or((1, 1));
            // No error by itself: where one is not shown, another one is.
            let message = format!("{more} more findings are not shown");
            let last = Place { line, column };
            let report = Report::warning("config.too_many_findings", last, "", message);
            findings.push(report.into_finding(self.file));
        }
        Outcome {
            findings: Findings::new(findings),
            unavailable: Findings::new(unavailable),
        }
    }
}

// === impl Report ===

impl Report {
    pub(crate) fn error(
        code: &'static str,
        place: Place,
        path: impl Display,
        message: impl Into<String>,
    ) -> Self {
        let (path, message) = (path.to_string(), message.into());
        Self {
            code,
            severity: Severity::Error,
            place,
            path,
            message,
            hint: None,
        }
    }

    pub(crate) fn warning(
        code: &'static str,
        place: Place,
        path: impl Display,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, place, path, message)
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn into_finding(self, file: &Utf8Path) -> Finding {
        Finding {
            code: self.code,
            severity: self.severity,
            file: file.to_owned(),
            line: self.place.line,
            column: self.place.column,
            path: self.path,
            message: self.message,
            hint: self.hint,
        }
    }
}
