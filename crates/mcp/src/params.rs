//! [`ParamHeaders`]: the arguments of a tool that travel in `Mcp-Param-*` headers as well.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::{
    error::RpcError,
    headers::{self, PARAM_PREFIX},
    object::RawObject,
    raw::RawJson,
};

const ANNOTATION: &str = "x-mcp-header";

/// The keywords below which a schema stands whose place no chain of `properties` reaches.
const OTHER_SUBSCHEMAS: [&str; 20] = [
    "$defs",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "definitions",
    "dependentSchemas",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
];

/// The arguments of one tool that its schema marks with `x-mcp-header`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    params: Vec<Param>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Param {
    header: HeaderName,
    path: Vec<String>,
}

/// Why a tool's annotations break the rules, so that no client may list it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// The schema is no JSON object.
    #[error("`inputSchema` is no object")]
    NoSchema,
    /// The annotation is no text, or no header name.
    #[error("`{ANNOTATION}` of `{property}` is no header name")]
    Name {
        /// Where it stands.
        property: String,
    },
    /// Two arguments claim one header.
    #[error("`{ANNOTATION}` of `{property}` is used twice")]
    Repeated {
        /// The second of them.
        property: String,
    },
    /// Only strings, integers and booleans fit in a header.
    #[error("`{property}` has `{ANNOTATION}` and is no string, integer or boolean")]
    Type {
        /// Where it stands.
        property: String,
    },
    /// A chain of `properties` must lead to the argument.
    #[error("`{ANNOTATION}` stands where no chain of `properties` leads")]
    Place,
}

impl ParamHeaders {
    /// Reads the annotations of a tool's `inputSchema`.
    ///
    /// # Errors
    /// Where an annotation breaks the rules of the 2026-07-28 revision.
    pub fn compile(schema: &RawJson) -> Result<Self, AnnotationError> {
        // Most schemas have none: do not build a tree for them.
        if memchr::memmem::find(schema.as_bytes(), b"mcp-header").is_none() {
            return Ok(Self::default());
        }
        let schema: Value = schema.decode().map_err(|_| AnnotationError::NoSchema)?;
        let mut found = Self::default();
        found.walk(&schema, Some(&mut Vec::new()))?;
        Ok(found)
    }

    /// `path` leads to the schema by `properties` alone, or is `None` where it does not.
    fn walk(
        &mut self,
        schema: &Value,
        mut path: Option<&mut Vec<String>>,
    ) -> Result<(), AnnotationError> {
        let Value::Object(keywords) = schema else {
            return Ok(());
        };
        if let Some(annotation) = keywords.get(ANNOTATION) {
            let path = path
                .as_deref()
                .filter(|path| !path.is_empty())
                .ok_or(AnnotationError::Place)?;
            self.add(annotation, keywords.get("type"), path)?;
        }
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            for (name, property) in properties {
                match path.as_deref_mut() {
                    Some(path) => {
                        path.push(name.clone());
                        self.walk(property, Some(path))?;
                        path.pop();
                    }
                    None => self.walk(property, None)?,
                }
            }
        }
        for keyword in OTHER_SUBSCHEMAS {
            match keywords.get(keyword) {
                Some(Value::Array(schemas)) => schemas
                    .iter()
                    .try_for_each(|schema| self.walk(schema, None))?,
                Some(Value::Object(map)) => {
                    self.walk(&Value::Object(map.clone()), None)?;
                    map.values()
                        .try_for_each(|schema| self.walk(schema, None))?;
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        annotation: &Value,
        kind: Option<&Value>,
        path: &[String],
    ) -> Result<(), AnnotationError> {
        let property = || path.join(".");
        let header = annotation
            .as_str()
            .filter(|name| !name.is_empty())
            .and_then(|name| HeaderName::try_from(format!("{PARAM_PREFIX}{name}")).ok())
            .ok_or_else(|| AnnotationError::Name {
                property: property(),
            })?;
        if !matches!(
            kind.and_then(Value::as_str),
            Some("string" | "integer" | "boolean")
        ) {
            return Err(AnnotationError::Type {
                property: property(),
            });
        }
        if self.params.iter().any(|param| param.header == header) {
            return Err(AnnotationError::Repeated {
                property: property(),
            });
        }
        self.params.push(Param {
            header,
            path: path.to_vec(),
        });
        Ok(())
    }

    /// Tells whether no argument travels in a header.
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// Returns the headers for a call with these arguments; absent and `null` arguments have none.
    pub fn values(&self, arguments: Option<&RawJson>) -> Vec<(HeaderName, HeaderValue)> {
        let with_text = |param: &Param| {
            Some((
                param.header.clone(),
                headers::encode(&text_at(arguments, &param.path)?),
            ))
        };
        self.params.iter().filter_map(with_text).collect()
    }

    /// Checks the headers of a call against its arguments.
    ///
    /// # Errors
    /// -32020 where a declared header is missing, repeated, malformed or says other than the argument. Headers that the
    /// schema does not declare are ignored.
    pub fn check(&self, received: &HeaderMap, arguments: Option<&RawJson>) -> Result<(), RpcError> {
        for param in &self.params {
            let name = param.header.as_str();
            match (
                headers::single(received, &param.header)?,
                text_at(arguments, &param.path),
            ) {
                (None, None) => {}
                (Some(header), Some(argument)) if same(&header, &argument) => {}
                (Some(_), Some(_)) => {
                    return Err(headers::mismatch(format!(
                        "header `{name}` differs from the argument"
                    )));
                }
                (Some(_), None) => {
                    return Err(headers::mismatch(format!(
                        "header `{name}` has no argument"
                    )));
                }
                (None, Some(_)) => {
                    return Err(headers::mismatch(format!("header `{name}` is missing")));
                }
            }
        }
        Ok(())
    }
}

/// Returns the text of the string, number or boolean at a path; `None` where it is absent or `null`.
fn text_at(arguments: Option<&RawJson>, path: &[String]) -> Option<String> {
    let mut value = arguments?.clone();
    for name in path {
        value = RawObject::parse(&value).ok()?.get(name)?.clone();
    }
    if value.is_null() {
        return None;
    }
    value
        .as_string()
        .or_else(|| String::from_utf8(value.as_bytes().to_vec()).ok())
}

/// Compares texts, and numbers by their value (`1.0` in the body is the integer 1).
fn same(header: &str, argument: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite());
    header == argument
        || matches!((number(header), number(argument)), (Some(a), Some(b)) if a == b && a.abs() < 9e15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(schema: &str) -> Result<ParamHeaders, AnnotationError> {
        ParamHeaders::compile(&RawJson::parse(schema.to_owned()).unwrap())
    }

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "page":{"type":"object","properties":{"size":{"type":"integer","x-mcp-header":"Page-Size"}}},
        "x-mcp-header":{"type":"string"}}}"#;

    #[test]
    fn marked_arguments_travel_in_headers() {
        let headers = compile(SCHEMA).unwrap();
        let arguments =
            RawJson::parse(r#"{"region":"Köln","page":{"size":20},"x-mcp-header":"no"}"#).unwrap();
        let mut values = headers.values(Some(&arguments));
        values.sort_by_key(|(name, _)| name.to_string());
        assert_eq!(
            values,
            [
                (
                    HeaderName::from_static("mcp-param-page-size"),
                    HeaderValue::from_static("20")
                ),
                (
                    HeaderName::from_static("mcp-param-region"),
                    HeaderValue::from_static("=?base64?S8O2bG4=?=")
                ),
            ]
        );
        assert_eq!(
            headers.values(Some(&RawJson::parse(r#"{"region":null}"#).unwrap())),
            []
        );
    }

    #[test]
    fn headers_must_say_what_the_arguments_say() {
        let headers = compile(SCHEMA).unwrap();
        let arguments = RawJson::parse(r#"{"region":"eu","page":{"size":1.0}}"#).unwrap();
        let received = |pairs: &[(&'static str, &'static str)]| {
            pairs
                .iter()
                .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
                .collect::<HeaderMap>()
        };
        let good = received(&[
            ("mcp-param-region", "eu"),
            ("mcp-param-page-size", "1"),
            ("mcp-param-other", "x"),
        ]);
        assert_eq!(headers.check(&good, Some(&arguments)), Ok(()));
        for bad in [
            received(&[("mcp-param-region", "us"), ("mcp-param-page-size", "1")]),
            received(&[("mcp-param-region", "eu")]),
            received(&[
                ("mcp-param-region", "=?base64?x?="),
                ("mcp-param-page-size", "1"),
            ]),
        ] {
            assert_eq!(
                headers.check(&bad, Some(&arguments)).unwrap_err().code,
                -32020
            );
        }
        assert_eq!(headers.check(&good, None).unwrap_err().code, -32020);
    }

    #[test]
    fn annotations_that_break_the_rules_are_refused() {
        let table = [
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#,
                AnnotationError::Name {
                    property: "a".into(),
                },
            ),
            (
                r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
                AnnotationError::Type {
                    property: "a".into(),
                },
            ),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
                AnnotationError::Repeated {
                    property: "b".into(),
                },
            ),
            (
                r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#,
                AnnotationError::Place,
            ),
            (
                r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
                AnnotationError::Place,
            ),
            (r#"{"x-mcp-header":"A"}"#, AnnotationError::Place),
        ];
        for (schema, error) in table {
            assert_eq!(compile(schema), Err(error), "{schema}");
        }
    }
}
