//! What every decoder needs: a place to report to, and the variables.

use std::{cell::RefCell, fmt::Display};

use camino::Utf8Path;

use crate::{
    finding::{Finding, Findings, Severity},
    tree::Place,
    variables::Variables,
};

/// Findings of one file beyond this many are only counted.
const MAX_FINDINGS: usize = 200;

/// One run over one document.
pub(crate) struct Context<'c> {
    file: &'c Utf8Path,
    pub(crate) variables: &'c Variables,
    reported: RefCell<Reported>,
}

#[derive(Default)]
struct Reported {
    findings: Vec<Finding>,
    more: usize,
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
    pub(crate) fn new(file: &'c Utf8Path, variables: &'c Variables) -> Self {
        Self {
            file,
            variables,
            reported: RefCell::default(),
        }
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

    pub(crate) fn into_findings(self) -> Findings {
        let Reported { mut findings, more } = self.reported.into_inner();
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
        Findings::new(findings)
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
