//! Which frames each side may send, and their tags.

use std::fmt;

use crate::body::{
    Adopt, Adopted, Bootstrap, Event, Failure, Finish, Finished, Heartbeat, Hello, Interrupt,
    Ready, Refused, Retire, Revocations, ServersChanged, Stop, Turn, TurnResult,
};

/// What one side may send.
pub trait Frame: Sized {
    /// The tags of all its frames.
    const TAGS: &'static [&'static str];

    /// Returns the tag of this frame.
    fn tag(&self) -> &'static str;

    /// Reads the body of the frame `tag` out of the text of the whole frame; `None` for an unknown tag.
    #[doc(hidden)]
    fn read(tag: &str, text: &[u8]) -> Option<Result<Self, serde_json::Error>>;

    /// Writes the body as a JSON object.
    #[doc(hidden)]
    fn write(&self) -> Result<Vec<u8>, serde_json::Error>;
}

macro_rules! frames {
    ($(#[$doc:meta])* $name:ident { $($variant:ident($body:ty) = $tag:literal, $about:literal;)* }) => {
        $(#[$doc])*
        ///
        /// `Debug` shows the tag alone: a body may be private.
        pub enum $name {
            $(#[doc = $about] $variant($body),)*
        }

        impl Frame for $name {
            const TAGS: &'static [&'static str] = &[$($tag),*];

            fn tag(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $tag,)*
                }
            }

            fn read(tag: &str, text: &[u8]) -> Option<Result<Self, serde_json::Error>> {
                match tag {
                    $($tag => Some(serde_json::from_slice(text).map(Self::$variant)),)*
                    _ => None,
                }
            }

            fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
                match self {
                    $(Self::$variant(body) => serde_json::to_vec(body),)*
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.tag())
            }
        }
    };
}

frames! {
    /// What a gateway sends to a worker.
    ToWorker {
        Bootstrap(Box<Bootstrap>) = "bootstrap", "What the worker is to be.";
        Turn(Turn) = "turn", "Gives it a turn.";
        Adopted(Adopted) = "adopted", "The turn is the worker's.";
        Refused(Refused) = "refused", "The turn is not the worker's.";
        Finish(Finish) = "finish", "The result is taken.";
        Interrupt(Interrupt) = "interrupt", "Ends one turn.";
        Stop(Stop) = "stop", "Ends the worker now.";
        Retire(Retire) = "retire", "Ends the worker between turns.";
        Revocations(Revocations) = "revocations", "What is revoked from here on.";
        Heartbeat(Heartbeat) = "heartbeat", "The gateway is there.";
    }
}

frames! {
    /// What a worker sends to its gateway.
    ToGateway {
        Hello(Hello) = "hello", "Who it is.";
        Ready(Ready) = "ready", "It has taken its bootstrap.";
        Adopt(Adopt) = "adopt", "It takes a turn.";
        Event(Event) = "event", "What happens in a turn.";
        Result(TurnResult) = "result", "How a turn ended.";
        Finished(Finished) = "finished", "It has forgotten the turn.";
        Servers(ServersChanged) = "servers", "Its servers changed.";
        Failure(Failure) = "failure", "It cannot go on, or does not take a turn.";
        Heartbeat(Heartbeat) = "heartbeat", "It is there.";
    }
}
