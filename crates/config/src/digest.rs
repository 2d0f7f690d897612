//! Digests of a server's definition.
//!
//! The encoding is canonical: every field in a fixed order, each with its length before it, so
//! that no two definitions share one. A change of it needs a new number in [`KEY_CONTEXT`].

use std::time::Duration;

use blake3::{Hash, Hasher};

use crate::{
    server::{HttpDefinition, ServerDefinition, StdioDefinition, TransportDefinition},
    text::Text,
};

/// Separates these digests from all others, and one encoding from the next.
const KEY_CONTEXT: &str = "genlock config server definition v1, private values as shown";
const VALUES_CONTEXT: &str = "genlock config server definition v1, with private values";

// === impl ServerDefinition ===

impl ServerDefinition {
    /// Returns a key for what may be known about the server without its private values.
    ///
    /// Hex of a BLAKE3 digest over the whole definition, with the shown form in place of each
    /// private value. Two definitions have the same key exactly if they mean the same but for
    /// private values, however they were written. Stable over restarts; may be stored.
    pub fn cache_key(&self) -> String {
        let mut encoder = Encoder {
            hasher: Hasher::new_derive_key(KEY_CONTEXT),
            with_values: false,
        };
        encoder.server(self);
        encoder.hasher.finalize().to_hex().to_string()
    }

    /// Returns a digest that covers the private values as well.
    ///
    /// Compares in constant time. Never to be stored or shown: a value that is easy to guess
    /// could be found from it.
    pub fn digest_with_values(&self) -> Hash {
        let mut encoder = Encoder {
            hasher: Hasher::new_derive_key(VALUES_CONTEXT),
            with_values: true,
        };
        encoder.server(self);
        encoder.hasher.finalize()
    }
}

struct Encoder {
    hasher: Hasher,
    with_values: bool,
}

// === impl Encoder ===

impl Encoder {
    // Taken apart without `..`, so that a new field cannot be forgotten here.
    fn server(&mut self, server: &ServerDefinition) {
        let ServerDefinition {
            name,
            enabled,
            prefix,
            transport,
            connect_timeout,
            timeout,
            protocol,
            max_concurrency,
            max_response_bytes,
            description,
        } = server;
        self.bytes(name.as_str().as_bytes());
        self.number(u64::from(*enabled));
        self.bytes(prefix.as_bytes());
        self.transport(transport);
        self.duration(*connect_timeout);
        self.duration(*timeout);
        self.bytes(protocol.as_str().as_bytes());
        self.option(max_concurrency.as_ref(), |encoder, limit| {
            encoder.number(u64::from(*limit));
        });
        self.option(max_response_bytes.as_ref(), |encoder, limit| {
            encoder.number(*limit);
        });
        self.option(description.as_ref(), |encoder, text| {
            encoder.bytes(text.as_bytes());
        });
    }

    fn transport(&mut self, transport: &TransportDefinition) {
        match transport {
            TransportDefinition::Stdio(stdio) => {
                let StdioDefinition {
                    command,
                    args,
                    env,
                    env_pass,
                    cwd,
                } = stdio;
                self.bytes(b"stdio");
                self.text(command);
                self.list(args, |encoder, argument| encoder.text(argument));
                self.list(env, |encoder, (name, value)| encoder.pair(name, value));
                self.list(env_pass, |encoder, name| encoder.bytes(name.as_bytes()));
                self.option(cwd.as_ref(), Self::text);
            }
            TransportDefinition::Http(http) => {
                let HttpDefinition { url, headers } = http;
                self.bytes(b"http");
                self.text(url);
                self.list(headers, |encoder, (name, value)| encoder.pair(name, value));
            }
            TransportDefinition::Builtin => self.bytes(b"builtin"),
        }
    }

    fn text(&mut self, text: &Text) {
        self.number(u64::from(text.is_private()));
        self.bytes(text.shown().as_bytes());
        if self.with_values && text.is_private() {
            self.bytes(text.expose().as_bytes());
        }
    }

    fn pair(&mut self, name: &str, value: &Text) {
        self.bytes(name.as_bytes());
        self.text(value);
    }

    fn list<I>(&mut self, items: I, encode: impl Fn(&mut Self, I::Item))
    where
        I: IntoIterator<IntoIter: ExactSizeIterator>,
    {
        let items = items.into_iter();
        self.number(items.len() as u64);
        for item in items {
            encode(self, item);
        }
    }

    fn option<T>(&mut self, value: Option<&T>, encode: impl Fn(&mut Self, &T)) {
        self.number(u64::from(value.is_some()));
        if let Some(value) = value {
            encode(self, value);
        }
    }

    fn duration(&mut self, duration: Duration) {
        self.number(duration.as_secs());
        self.number(u64::from(duration.subsec_nanos()));
    }

    fn number(&mut self, number: u64) {
        self.hasher.update(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.hasher.update(bytes);
    }
}
