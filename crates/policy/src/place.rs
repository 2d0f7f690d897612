//! [`ToolPlace`]: which server's which tool people mean.

use genlock_config::Config;

/// What stands between a server's prefix and its tool's name.
const SEPARATOR: &str = "__";

/// A tool by its server's name in the config and by that server's own name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPlace {
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
}

impl ToolPlace {
    /// Reads `server/tool`, or a name that begins with the prefix of a server of `config`.
    ///
    /// ```
    /// use genlock_config::{Variables, parse};
    /// use genlock_policy::ToolPlace;
    ///
    /// let text = "mcp_servers: { GitHub: { command: x, prefix: gh } }";
    /// let config = parse(text, "genlock.yaml".into(), &Variables::empty())?.config;
    /// let place = ToolPlace { server: "GitHub".to_owned(), tool: "search".to_owned() };
    ///
    /// assert_eq!(ToolPlace::read("gh__search", &config).as_ref(), Some(&place));
    /// assert_eq!(ToolPlace::read("GitHub/search", &config), Some(place));
    /// assert_eq!(ToolPlace::read("search", &config), None);
    /// # Ok::<(), genlock_config::LoadError>(())
    /// ```
    pub fn read(text: &str, config: &Config) -> Option<Self> {
        let of = |server: &str, tool: &str| Self {
            server: server.to_owned(),
            tool: tool.to_owned(),
        };
        // A server's name may have a slash itself; that of a tool may as well, so that the longest server is meant.
        let named = config.servers.keys().map(|name| name.as_str());
        let named = named.filter_map(|name| {
            let tool = text.strip_prefix(name)?.strip_prefix('/')?;
            Some((name, tool))
        });
        if let Some((server, tool)) = named.max_by_key(|(name, _)| name.len()) {
            return Some(of(server, tool));
        }
        let prefixed = text.split_once(SEPARATOR).and_then(|(prefix, tool)| {
            let mut servers = config.servers.values();
            let server = servers.find(|server| server.prefix == prefix)?;
            Some(of(server.name.as_str(), tool))
        });
        // Whoever writes a slash means a server, also where the config has none of this name.
        prefixed.or_else(|| text.split_once('/').map(|(server, tool)| of(server, tool)))
    }
}
