//! What the fake server's tool `raw` answers, to the byte.
//!
//! Its result is `{RESULT_FIELDS,"content":[{CONTENT_FIELDS,"text":…}],"structuredContent":ARGUMENTS}`: `ARGUMENTS` are
//! the bytes of `params.arguments` as received, the block's text is the same bytes as a JSON string. A decoder that
//! knows neither the fields nor such numbers loses or changes some of it.

/// Unknown members at the start of the result.
pub const RESULT_FIELDS: &str = concat!(
    r#""x-extra":1.0,"x-big":1234567890123456789012345678901234567890,"#,
    r#""x-escaped":"\u0041\u00e9\/","zeta":{"b":1e2,"a":[-0,1.50]},"alpha":null"#
);

/// Unknown members at the start of the content block, before its type.
pub const CONTENT_FIELDS: &str = r#""x-block":{"second":2.0,"first":"\u0041"},"type":"text""#;

/// Unknown members in the definition of the tool `raw` in `tools/list`.
pub const TOOL_FIELDS: &str =
    r#""x-tool":{"z":1.0,"a":"\u0041"},"execution":{"taskSupport":"optional"}"#;

/// Arguments that only a careful program carries through unchanged.
pub const ARGUMENTS: &str = concat!(
    r#"{"zebra": 1.0, "apple":1234567890123456789012345678901234567890,"escaped":"\u0041\u00E9\/","#,
    r#""nested":{ "b" :[1e2,-0, 1.50 ],"a":null},"ünïcode":"𝄞"}"#
);
