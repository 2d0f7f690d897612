//! What is served beside tools: resources, resource templates and prompts.
//!
//! `shelf` is the compiled picture of what the servers offer, `uri` how their URIs are shown, `ui` which of `ui://` a tenant
//! may see, `links` which handed-out links stay readable, `rewrite` what becomes of results that hold URIs.

pub(crate) mod links;
pub(crate) mod rewrite;
pub(crate) mod shelf;
mod template;
#[cfg(test)]
mod tests;
pub(crate) mod ui;
pub(crate) mod uri;
