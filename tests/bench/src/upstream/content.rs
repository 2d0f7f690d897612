//! What the echo server has to give: a long text and a long list.

use std::fmt::Write as _;

use bytes::Bytes;

/// The start of every tool's input schema.
const OBJECT: &str = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object""#;

/// Sixty-four characters of text as JSON, with an escape as text has them.
const LINE: &str = r"Line of plain text, as files and logs have it, escapes and all\r\n";
/// How many characters [`LINE`] stands for.
const LINE_CHARS: usize = 64;

/// Makes JSON text that stands for `bytes` bytes.
pub(super) fn text(bytes: usize) -> Bytes {
    let mut text = LINE.repeat(bytes / LINE_CHARS);
    text.extend(std::iter::repeat_n('.', bytes % LINE_CHARS));
    Bytes::from(text)
}

/// Makes the array of tools: `echo`, `big`, and as many more as make up the number.
pub(super) fn tools(tools: usize) -> String {
    let mut list = format!(
        r#"[{{"name":"echo","description":"Answers its text.","inputSchema":{OBJECT},"properties":{{"text":{{"type":"string"}}}},"required":["text"]}}}},{{"name":"big","description":"Answers that many bytes.","inputSchema":{OBJECT},"properties":{{"bytes":{{"type":"integer"}}}},"required":["bytes"]}}}}"#
    );
    for number in 2..tools {
        let _ = write!(
            list,
            r#",{{"name":"tool_{number:04}","description":"Looks up record {number} of the collection and answers its fields.","inputSchema":{OBJECT},"properties":{{"query":{{"type":"string","description":"What to look for"}},"limit":{{"type":"integer","minimum":1,"maximum":100}}}},"required":["query"]}}}}"#
        );
    }
    list.push(']');
    list
}
