//! Which tools of a server there are.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value as Json};

use super::{
    section::{Field, Section},
    top::list,
};
use crate::{
    schema::{server as keys, server_access, tool_rules},
    server::{ServerDefinition, ToolRules},
    tree::{Tag, Value},
};

/// Decodes the keys of `section` that belong to tools.
pub(crate) fn decode(section: &Section<'_>, server: &mut ServerDefinition) {
    section.with(keys::TOOLS, |field| match &field.node.value {
        Value::List(items) => {
            field.refuse_tag(false);
            let items = items.iter().enumerate();
            let tools = items.filter_map(|(index, node)| {
                definition(&Field::new(field.context, node, &field.path.item(index)))
            });
            server.tool_definitions = tools.collect();
        }
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Map(_) => server.tools = rules(&field),
    });
    section.with(keys::TOOL_ACCESS, |field| {
        let section = field.section(server_access::ALL);
        section.with(server_access::MEMBER, |field| {
            field.refuse_tag(false);
            server.tenant_tools = field.names("a mapping from tenants to rules", rules);
        });
    });
}

fn rules(field: &Field<'_>) -> ToolRules {
    let section = field.section(tool_rules::ALL);
    ToolRules {
        allow: section.with(tool_rules::ALLOW, globs),
        deny: section.with(tool_rules::DENY, globs).unwrap_or_default(),
    }
}

fn globs(field: Field<'_>) -> Vec<String> {
    list(field, "a list of globs", |item| {
        let glob = item.label("a glob")?;
        if glob.contains(['[', ']', '{', '}', '\\']) {
            item.error(
                "config.unknown_value",
                "expected a name in which `*` is any text and `?` any character: there are no other wildcards",
            );
            return None;
        }
        if glob.is_empty() {
            item.error("config.empty_value", "is empty");
            return None;
        }
        Some(glob.to_owned())
    })
}

fn definition(field: &Field<'_>) -> Option<Json> {
    let named = matches!(&field.node.value, Value::Map(entries)
        if entries.iter().any(|entry| entry.key == "name" && matches!(entry.node.value, Value::Text(_))));
    if !named {
        field.error(
            "config.missing_key",
            "expected a tool as its server lists it, with a `name`",
        );
        return None;
    }
    json(field)
}

/// Takes what everyone may see, as JSON.
fn json(field: &Field<'_>) -> Option<Json> {
    if field.node.tag != Tag::None {
        field.refuse_tag(false);
        return None;
    }
    Some(match &field.node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => match i64::try_from(*value) {
            Ok(value) => value.into(),
            Err(_) => Number::from_f64(*value as f64)?.into(),
        },
        Value::Float(value) => Number::from_f64(*value)?.into(),
        Value::Text(_) => field.open_text("text")?.into(),
        Value::List(items) => {
            let items = items.iter().enumerate();
            items
                .filter_map(|(index, node)| {
                    json(&Field::new(field.context, node, &field.path.item(index)))
                })
                .collect()
        }
        Value::Map(entries) => {
            let mut map = BTreeMap::new();
            for entry in entries {
                let path = field.path.key(&entry.key);
                let value = json(&Field::new(field.context, &entry.node, &path))?;
                map.insert(entry.key.clone(), value);
            }
            map.into_iter().collect::<Map<_, _>>().into()
        }
    })
}
