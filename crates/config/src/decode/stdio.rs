//! A server that is a child process.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    context::Report,
    section::{Field, Section},
    text::Privacy,
    top::list,
};
use crate::{
    env_file, privacy,
    schema::server as keys,
    server::StdioDefinition,
    text::Text,
    tree::{Node, Value},
};

/// Decodes the keys of `server` that belong to a child process.
pub(crate) fn decode(server: &Section<'_>) -> Option<StdioDefinition> {
    let argv = server.get(keys::COMMAND, command);
    let args = server.with(keys::ARGS, |field| {
        arguments(&field, field.items("a list of arguments"), 0)
    });
    let env = server.with(keys::ENV, |field| environment(&field));
    let env_pass = server.with(keys::ENV_PASS, passed_names);
    let cwd = server.get(keys::CWD, directory);
    let (command, mut all_args) = argv?;
    all_args.extend(args.unwrap_or_default());
    Some(StdioDefinition {
        command,
        args: all_args,
        env: env.unwrap_or_default(),
        env_pass: env_pass.unwrap_or_default(),
        cwd,
    })
}

/// Takes a program, or a list of a program and its first arguments.
fn command(field: Field<'_>) -> Option<(Text, Vec<Text>)> {
    let Value::List(items) = &field.node.value else {
        let program = program(&field)?;
        if program.expose().contains(" -") {
            let message = "looks like a whole command line; it is taken as the name of one program";
            let warning =
                Report::warning("config.command_line", field.node.place, field.path, message);
            field
                .context
                .report(warning.hint("write a list: `command: [npx, -y, package]`"));
        }
        return Some((program, Vec::new()));
    };
    field.refuse_tag(false);
    let Some((first, rest)) = items.split_first() else {
        field.error(
            "config.empty_value",
            "is empty; expected a program and its arguments",
        );
        return None;
    };
    let args = arguments(&field, rest, 1);
    let program = program(&Field::new(field.context, first, &field.path.item(0)))?;
    Some((program, args))
}

fn program(field: &Field<'_>) -> Option<Text> {
    let program = field.some_text(Privacy::Argument)?;
    field.warn_in_argv(&program);
    Some(program)
}

/// Takes arguments, of which the first has the index `start` in `list`.
fn arguments(list: &Field<'_>, items: &[Node], start: usize) -> Vec<Text> {
    list.refuse_tag(false);
    let mut arguments = Vec::new();
    let mut follows_secret_option = false;
    for (index, node) in items.iter().enumerate() {
        let path = list.path.item(start + index);
        let field = Field::new(list.context, node, &path);
        let written = match &node.value {
            Value::Text(written) => written.as_str(),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::List(_)
            | Value::Map(_) => "",
        };
        let privacy = match follows_secret_option && !written.starts_with('-') {
            true => Privacy::Whole { secret: true },
            false => Privacy::Argument,
        };
        follows_secret_option = privacy::is_secret_option(written);
        if let Some(argument) = field.text(privacy) {
            field.warn_in_argv(&argument);
            arguments.push(argument);
        }
    }
    arguments
}

/// Takes the names of files of variables.
pub(crate) fn file_names(field: &Field<'_>) -> Vec<String> {
    match &field.node.value {
        Value::List(_) => list(*field, "a list of files", |item| item.name("a file")),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Map(_) => field
            .name("a file, or a list of files")
            .into_iter()
            .collect(),
    }
}

/// Adds the variables of `files` to `environment`: what it has stays, else the last file wins.
// In a redacted form they stand in `env`.
pub(crate) fn add_from_files(
    field: &Field<'_>,
    names: &[String],
    environment: &mut BTreeMap<String, Text>,
) {
    let Some(files) = field.context.files() else {
        return;
    };
    for name in names.iter().rev() {
        match files.read(name) {
            Ok(Some(text)) => add_variables(field, &text, environment),
            Ok(None) => {
                let (code, message) = ("config.missing_file", "a file that does not exist");
                let report = Report::error(code, field.node.place, field.path, message);
                field.context.report_missing("env_file", report);
            }
            Err(fault) => {
                let (code, message, hint) = fault.finding();
                field.error_with(code, message, hint);
            }
        }
    }
}

fn add_variables(field: &Field<'_>, text: &str, environment: &mut BTreeMap<String, Text>) {
    match env_file::parse(text) {
        Ok(variables) => {
            let last_first = variables.into_iter().rev();
            for (name, value) in last_first {
                let secret = privacy::is_secret_name(&name);
                let value = || field.private(&value, secret);
                environment.entry(name).or_insert_with(value);
            }
        }
        Err(env_file::BadLine(line)) => field.error_with(
            "config.bad_env_file",
            format!("line {line} of the file is no `NAME=value`"),
            "write one variable a line, and quote values with spaces or `#`",
        ),
    }
}

fn environment(field: &Field<'_>) -> BTreeMap<String, Text> {
    field.refuse_tag(false);
    let mut environment = BTreeMap::new();
    for entry in field.entries("a mapping from names to text") {
        let path = field.path.key(&entry.key);
        if !is_variable_name(&entry.key) {
            let message = "expected a variable's name: no spaces, no `=`, no `${…}`";
            field.context.report(Report::error(
                "config.invalid_name",
                entry.key_place,
                path,
                message,
            ));
        }
        let secret = privacy::is_secret_name(&entry.key);
        let value = Field::new(field.context, &entry.node, &path);
        if let Some(value) = value.text(Privacy::Whole { secret }) {
            environment.insert(entry.key.clone(), value);
        }
    }
    environment
}

fn passed_names(field: Field<'_>) -> Vec<String> {
    field.refuse_tag(false);
    let mut names = BTreeSet::new();
    for (index, node) in field.items("a list of names").iter().enumerate() {
        let path = field.path.item(index);
        let item = Field::new(field.context, node, &path);
        match item.label("a variable's name") {
            Some(name) if is_variable_name(name) => {
                names.insert(name.to_owned());
            }
            Some(_) => item.error(
                "config.invalid_name",
                "expected a variable's name: no spaces and no `=`",
            ),
            None => {}
        }
    }
    names.into_iter().collect()
}

fn is_variable_name(name: &str) -> bool {
    let forbidden = |letter: char| letter.is_control() || letter.is_whitespace() || letter == '=';
    !name.is_empty() && !name.contains(forbidden) && !name.contains("${")
}

fn directory(field: Field<'_>) -> Option<Text> {
    let directory = field.some_text(Privacy::Argument)?;
    if directory.expose().starts_with('~') {
        field.error_with("config.invalid_path", "`~` is not read", "write `${HOME}`");
        return None;
    }
    Some(directory)
}
