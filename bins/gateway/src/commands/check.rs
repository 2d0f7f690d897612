//! `genlock check`.

use std::process::ExitCode;

use genlock_config::{Finding, LoadError};
use serde_json::json;

use crate::{
    args::Format,
    failure::Exit,
    place::{Place, remedy},
};

pub(super) fn run(place: &Place) -> ExitCode {
    let Some(path) = place.config_file() else {
        println!("no config file: the built-in demo server would be served");
        return ExitCode::SUCCESS;
    };
    let (findings, servers, failed): (Vec<Finding>, usize, Option<LoadError>) =
        match place.load_file(&path) {
            Ok(loaded) => (loaded.warnings, loaded.config.servers.len(), None),
            Err(error) => (error.findings().to_vec(), 0, Some(error)),
        };
    let code = if failed.is_some() {
        Exit::Config.into()
    } else {
        ExitCode::SUCCESS
    };
    match place.format {
        Format::Json => {
            let error = failed
                .as_ref()
                .map(|error| json!({"code": error.code(), "message": error.to_string()}));
            println!(
                "{}",
                json!({"file": path, "ok": failed.is_none(), "servers": servers, "error": error, "findings": findings})
            );
        }
        Format::Text => {
            place.print_findings(&findings);
            match failed {
                None => println!(
                    "{path}: ok, {servers} server{}{}",
                    plural(servers),
                    warnings(findings.len())
                ),
                Some(error) => {
                    eprintln!("error: {path}: {error}");
                    if let Some(source) = std::error::Error::source(&error) {
                        eprintln!("  caused by: {source}");
                    }
                    // Findings carry their own.
                    if findings.is_empty() {
                        eprintln!("\nhint: {}", remedy(&path, &error));
                    }
                }
            }
        }
    }
    code
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn warnings(number: usize) -> String {
    if number == 0 {
        String::new()
    } else {
        format!(", {number} warning{}", plural(number))
    }
}
