//! Old readers with new writers, and the other way round.

use genlock_frames::{FrameError, REVOCATIONS_SINCE, ToGateway, ToWorker, VERSION, common_version};
use serde_json::Value;

use crate::{Any, V1, V2, lines, of_now, one};

#[test]
fn frames_are_read_and_written_as_each_version_was() {
    for line in lines() {
        let frame = Any::read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let written = frame.write().concat();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            format!("{}\n", of_now(line))
        );
    }
}

/// The frame as a later version may write it: with fields that this one does not know, at every place.
fn from_the_future(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let payload = |name: &str| matches!(name, "config" | "payload" | "result" | "data");
            for (name, field) in fields.iter_mut() {
                if !payload(name) {
                    from_the_future(field);
                }
            }
            // The keys of this mapping are places, not fields.
            if !fields.keys().any(|name| name.starts_with('/')) {
                fields.insert("not_known_yet".to_owned(), serde_json::json!({"a": [1]}));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(from_the_future),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn an_old_reader_takes_what_it_knows_of_a_new_writers_frames() {
    for line in lines() {
        let mut newer: Value = serde_json::from_str(line).unwrap();
        from_the_future(&mut newer);
        newer["v"] = (VERSION + 1).into();
        let read = Any::read(&newer.to_string()).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (known, full): (Value, Value) = (
            serde_json::from_slice(&read.write().concat()).unwrap(),
            serde_json::from_str(line).unwrap(),
        );
        assert_eq!(known["type"], full["type"]);
        assert_eq!(without_version(known), without_version(full));
    }
}

fn without_version(mut frame: Value) -> Value {
    frame.as_object_mut().unwrap().remove("v");
    frame
}

#[test]
fn only_the_frame_of_revocations_is_unknown_to_a_reader_of_version_1() {
    // Fields that it does not know it ignores, as every reader; a tag it refuses. So a worker of version 1 would neither
    // heed nor survive a revocation, and is given no session.
    let new: Vec<&str> = V2
        .lines()
        .map(tag)
        .filter(|new| !V1.lines().any(|old| tag(old) == *new))
        .collect();
    assert_eq!(new, ["revocations", "revocations"]);
    assert_eq!(REVOCATIONS_SINCE, 2);
}

fn tag(line: &str) -> &str {
    line.split('"').nth(5).unwrap()
}

#[test]
fn a_reader_of_version_2_takes_the_bootstrap_of_version_1_as_one_without_revocations() {
    let line = V1.lines().nth(1).unwrap();
    let ToWorker::Bootstrap(bootstrap) = one::<ToWorker>(line).unwrap() else {
        panic!("{line}");
    };
    assert_eq!((bootstrap.version, bootstrap.revoked), (1, Vec::new()));
}

#[test]
fn an_old_reader_refuses_a_new_writers_tag() {
    let refused = one::<ToWorker>(r#"{"v":2,"type":"pause","execution_id":"e-1"}"#).unwrap_err();
    assert_eq!(
        refused,
        FrameError::UnknownTag {
            tag: "pause".to_owned()
        }
    );
    assert_eq!(refused.code(), "frame.unknown_tag");
}

#[test]
fn a_new_reader_takes_an_old_writers_frames_without_what_may_be_left_out() {
    let bare = [
        r#"{"v":1,"type":"ready","servers":[{"name":"a","state":"lazy","ready":true}]}"#,
        r#"{"v":1,"type":"turn","execution_id":"e","secret":"s","epoch":1,"payload":{"text":"hi"}}"#,
        r#"{"v":1,"type":"result","execution_id":"e","outcome":"interrupted"}"#,
    ];
    for line in bare {
        Any::read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn a_side_may_not_send_what_the_other_one_may() {
    for line in lines() {
        let both =
            one::<ToWorker>(line).is_ok_and(|_| true) && one::<ToGateway>(line).is_ok_and(|_| true);
        assert_eq!(both, line.contains("heartbeat\",\"sequence"), "{line}");
    }
}

#[test]
fn versions_are_agreed_upon_by_the_older_side() {
    assert_eq!(common_version(0), None);
    assert_eq!(common_version(VERSION), Some(VERSION));
    assert_eq!(common_version(VERSION + 7), Some(VERSION));
    let ancient = one::<ToWorker>(r#"{"v":0,"type":"stop"}"#).unwrap_err();
    assert_eq!(ancient, FrameError::Version { found: 0 });
}
