//! A server that is a child process.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    context::Report,
    keys::server as keys,
    section::{Field, Section},
    text::Privacy,
};
use crate::{
    privacy,
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
    let env = server.with(keys::ENV, environment);
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
            true => Privacy::Whole,
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

fn environment(field: Field<'_>) -> BTreeMap<String, Text> {
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
        if let Some(value) = Field::new(field.context, &entry.node, &path).text(Privacy::Whole) {
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
