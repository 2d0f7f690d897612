//! [`Failure`]: what the program says when it cannot do what it was asked, and the exit code.

use std::process::ExitCode;

use serde_json::json;

use crate::args::Format;

/// The exit codes, as in `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Usage = 64,
    Unavailable = 69,
    Bug = 70,
    TryAgain = 75,
    Config = 78,
}

/// A failure with its cause chain and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) code: &'static str,
    pub(crate) error: anyhow::Error,
    pub(crate) hint: Option<String>,
    /// What is wrong with the config, for programs; people have read it already.
    pub(crate) findings: Option<serde_json::Value>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            code,
            error: error.into(),
            hint: None,
            findings: None,
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints the failure to standard error and returns its exit code.
    pub(crate) fn report(&self, format: Format) -> ExitCode {
        let mut chain: Vec<String> = self.error.chain().map(ToString::to_string).collect();
        chain.dedup();
        match format {
            Format::Json => {
                let causes = chain.get(1..).unwrap_or_default();
                let mut details = json!({"causes": causes, "hint": self.hint});
                if let Some(findings) = &self.findings {
                    details["findings"] = findings.clone();
                }
                let error = json!({"error": {
                    "code": self.code,
                    "message": chain.first(),
                    "details": details,
                }});
                eprintln!("{error}");
            }
            Format::Text => {
                for (index, text) in chain.iter().enumerate() {
                    eprintln!(
                        "{}{text}",
                        if index == 0 {
                            "error: "
                        } else {
                            "  caused by: "
                        }
                    );
                }
                if let Some(hint) = &self.hint {
                    eprintln!("\nhint: {hint}");
                }
            }
        }
        self.exit.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Prints what clap has to say: help and version to standard output, errors to standard error with exit code 64.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // An output that is closed cannot be told so.
    let _ = error.print();
    if error.use_stderr() {
        Exit::Usage.into()
    } else {
        ExitCode::SUCCESS
    }
}
