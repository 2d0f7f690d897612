//! [`ToolSet`]: the tools of one server, each as it arrived.

use std::{collections::HashMap, sync::Arc};

use genlock_mcp::{ParamHeaders, RawJson, RawObject, error::escape_text};

/// The longest tool name that is taken, in bytes.
const LONGEST_NAME: usize = 512;

/// One tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The name the server gave it.
    pub name: String,
    /// The whole definition, unknown fields included.
    pub definition: RawObject,
    /// The arguments that travel in headers as well.
    pub params: ParamHeaders,
}

/// The tools of one server, as of one listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSet {
    tools: Vec<Arc<Tool>>,
    by_name: HashMap<String, usize>,
    /// What was left out of the list and why, safe to show.
    pub left_out: Vec<String>,
    /// How long the server says that the list stays valid, in milliseconds.
    pub ttl_ms: Option<u64>,
}

impl ToolSet {
    /// Reads a listing. An entry that no client could use is left out, and named in [`ToolSet::left_out`].
    pub fn new(entries: &[RawJson], ttl_ms: Option<u64>) -> Self {
        let mut set = Self {
            ttl_ms,
            ..Self::default()
        };
        for entry in entries {
            match tool(entry) {
                Ok(tool) if set.by_name.contains_key(&tool.name) => {
                    set.left_out.push(format!(
                        "`{}`: the name is listed twice",
                        escape_text(&tool.name)
                    ));
                }
                Ok(tool) => {
                    set.by_name.insert(tool.name.clone(), set.tools.len());
                    set.tools.push(Arc::new(tool));
                }
                Err(reason) => set.left_out.push(reason),
            }
        }
        set
    }

    /// Returns a tool by the server's own name for it.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.by_name
            .get(name)
            .and_then(|index| self.tools.get(*index))
    }

    /// Walks over the tools in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter()
    }

    /// Returns how many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the definitions as they arrived.
    pub fn entries(&self) -> Vec<RawJson> {
        self.tools
            .iter()
            .map(|tool| tool.definition.to_raw())
            .collect()
    }
}

fn tool(entry: &RawJson) -> Result<Tool, String> {
    // A listing is kept for long: it must not keep alive the buffer that it was read in.
    let definition = RawObject::parse(&entry.detached())
        .map_err(|error| format!("an entry that is no tool: {error}"))?;
    let name = definition
        .get_string("name")
        .filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME);
    let name = name.ok_or_else(|| "a tool without a usable name".to_owned())?;
    let schema = definition
        .get("inputSchema")
        .filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| format!("`{}`: no `inputSchema`", escape_text(&name)))?;
    let params = ParamHeaders::compile(schema)
        .map_err(|error| format!("`{}`: {error}", escape_text(&name)))?;
    Ok(Tool {
        name,
        definition,
        params,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_no_client_could_use_are_left_out_and_named() {
        let entries = RawJson::parse(
            r#"[{"name":"a","inputSchema":{},"x": 1.0},{"name":"a","inputSchema":{}},{"name":"b"},7,
                {"name":"c","inputSchema":{"properties":{"p":{"type":"number","x-mcp-header":"P"}}}}]"#,
        );
        let set = ToolSet::new(&entries.unwrap().items().unwrap(), Some(5));

        let kept: Vec<_> = set
            .entries()
            .iter()
            .map(|entry| entry.as_bytes().to_vec())
            .collect();
        assert_eq!(kept, [br#"{"name":"a","inputSchema":{},"x":1.0}"#.to_vec()]);
        assert_eq!(
            set.left_out,
            [
                "`a`: the name is listed twice",
                "`b`: no `inputSchema`",
                "an entry that is no tool: expected a JSON object",
                "`c`: `p` has `x-mcp-header` and is no string, integer or boolean",
            ]
        );
    }
}
