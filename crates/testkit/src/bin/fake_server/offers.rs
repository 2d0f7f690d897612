//! Resources, prompts and completions: a few, fixed.

use genlock_testkit::raw::CONTENT_FIELDS;

use crate::{
    message::{RpcError, object, quote},
    protocol::{Reply, Request},
};

const NOTES: [&str; 4] = ["note://1", "note://2", "note://3", "note://plain"];
const PANEL: &str = "ui://panels/main";

const RESOURCES: &str = concat!(
    r#"{"uri":"ui://panels/main","name":"main panel","mimeType":"text/html;profile=mcp-app"},"#,
    r#"{"uri":"note://plain","name":"plain note","mimeType":"text/plain","x-extra":1.0}"#
);
const EXTRA: &str = r#",{"uri":"note://extra","name":"extra note"}"#;
const TEMPLATES: &str =
    r#"{"resourceTemplates":[{"uriTemplate":"note://{number}","name":"a note"}]}"#;
const PROMPTS: &str = concat!(
    r#"{"name":"greet","description":"Greets somebody.","#,
    r#""arguments":[{"name":"who","required":true}]},{"name":"note","description":"Shows a note."}"#
);
const EXTRA_PROMPT: &str = r#",{"name":"extra","description":"Is there sometimes."}"#;
const COMPLETION: &str = r#"{"completion":{"values":["alpha","beta"],"total":2,"hasMore":false}}"#;

/// Answers a method of this module; `None` where it is none.
pub(crate) fn answer(request: &Request<'_>) -> Option<Result<Reply, RpcError>> {
    let switched = |name| request.server.flags.switched(name);
    let is_list = request.method.ends_with("/list");
    if is_list && switched("fail_offers") {
        return Some(Err(RpcError::new(-32603, "this listing is made to fail")));
    }
    let when = |name, text: &'static str| if switched(name) { text } else { "" };
    let result = match request.method {
        "resources/list" => format!(
            r#"{{"resources":[{RESOURCES}{}]}}"#,
            when("extra_resource", EXTRA)
        ),
        "resources/templates/list" => TEMPLATES.to_owned(),
        "prompts/list" => format!(
            r#"{{"prompts":[{PROMPTS}{}]}}"#,
            when("extra_prompt", EXTRA_PROMPT)
        ),
        "completion/complete" => COMPLETION.to_owned(),
        "resources/read" => return Some(read(request)),
        "prompts/get" => return Some(prompt(request)),
        _ => return None,
    };
    Some(Ok(Reply::now(result)))
}

fn read(request: &Request<'_>) -> Result<Reply, RpcError> {
    let uri = request.params.uri.as_deref().unwrap_or_default();
    let (kind, text) = if uri == PANEL {
        ("text/html;profile=mcp-app", "<p>main panel</p>".to_owned())
    } else if NOTES.contains(&uri) {
        ("text/plain", format!("the text of {uri}"))
    } else {
        let code = if request.modern { -32602 } else { -32002 };
        return Err(
            RpcError::new(code, "Resource not found").with_data(object([("uri", quote(uri))]))
        );
    };
    let contents = object([
        ("uri", quote(uri)),
        ("mimeType", quote(kind)),
        ("text", quote(&text)),
    ]);
    Ok(Reply::now(format!(r#"{{"contents":[{contents}]}}"#)))
}

fn prompt(request: &Request<'_>) -> Result<Reply, RpcError> {
    let content = match request.params.name.as_deref() {
        Some("greet") => {
            let who = crate::tools::string_argument(request, "who")
                .ok_or_else(|| RpcError::invalid("`who` is missing"))?;
            format!(
                r#"{{{CONTENT_FIELDS},"text":{}}}"#,
                quote(&format!("Hello, {who}!"))
            )
        }
        Some("note") => {
            r#"{"type":"resource","resource":{"uri":"note://1","text":"the text of note://1"}}"#
                .to_owned()
        }
        _ => return Err(RpcError::invalid("Unknown prompt")),
    };
    Ok(Reply::now(format!(
        r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#
    )))
}
