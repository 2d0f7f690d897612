//! Answers that are not what they should be.

use crate::{
    flags::{FaultScope, Flags},
    script::Step,
};

/// The steps that send an answer, spoiled as the flags say.
pub(crate) fn spoil(flags: &Flags, method: &str, id: &str, message: String) -> Vec<Step> {
    let mut steps = Vec::new();
    if flags.garbage {
        steps.extend(junk().into_iter().map(Step::Junk));
    }
    if flags.faults_on == FaultScope::Calls && method != "tools/call" {
        steps.push(Step::Send(message));
        return steps;
    }
    if flags.endless_line {
        steps.push(Step::Endless);
    } else if flags.bad_json_answers {
        steps.push(Step::Send(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[}}"#
        )));
    } else if flags.wrong_id {
        let asked = format!(r#""id":{id}"#);
        steps.push(Step::Send(message.replacen(
            &asked,
            r#""id":"nobody-asked""#,
            1,
        )));
    } else {
        if flags.double_answer {
            steps.push(Step::Send(message.clone()));
        }
        steps.push(Step::Send(message));
    }
    steps
}

/// Lines that a careless server prints: none of them answers anything.
fn junk() -> Vec<Vec<u8>> {
    let mut long = vec![b'x'; 100_000];
    long.insert(0, b'{');
    vec![
        b"loading modules... 100%".to_vec(),
        Vec::new(),
        b"\xff\xfe not utf-8 \x00".to_vec(),
        b"[1, 2, 3]".to_vec(),
        b"\"text\"".to_vec(),
        br#"{"jsonrpc": "2.0"}"#.to_vec(),
        br#"{"jsonrpc": "2.0", "id": "nobody-asked", "result": {}}"#.to_vec(),
        long,
    ]
}
