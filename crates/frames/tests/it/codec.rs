//! Bytes that are cut, joined, doubled, damaged or endless.

use genlock_frames::{
    CHUNK_BYTES, ChunkError, Decoder, EncodeError, ExecutionId, FrameError, MAX_FRAME_BYTES,
    MAX_MESSAGE_BYTES, MAX_OPEN_STREAMS, ToGateway, ToWorker, TurnOutcome, TurnResult, encode,
};
use proptest::prelude::*;
use serde_json::value::RawValue;

use crate::V1;

/// Lines that a worker of this version may send.
fn to_gateway() -> Vec<String> {
    V1.lines()
        .filter(|line| crate::one::<ToGateway>(line).is_ok())
        .map(crate::of_now)
        .collect()
}

/// Everything that can be read out of bytes handed over in these pieces, as it would be written, and how it ended.
fn read_all<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Vec<u8>>, Result<(), FrameError>) {
    let mut decoder = Decoder::<ToGateway>::new();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(encode(&frame, 0).unwrap().concat()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next().unwrap_err(), error, "it stays refused");
                    return (frames, Err(error));
                }
            }
        }
    }
    (frames, decoder.end())
}

/// A result of about `bytes` bytes.
fn large_result(bytes: usize) -> ToGateway {
    let text = format!("\"{}\"", "ä\\\"".repeat(bytes / 4));
    ToGateway::Result(TurnResult {
        execution_id: ExecutionId::new("e-1").unwrap(),
        outcome: TurnOutcome::Completed,
        result: Some(RawValue::from_string(text).unwrap()),
        failure: None,
    })
}

fn chunk(stream: u64, index: u32, last: bool, data: &str) -> Vec<u8> {
    let chunk = serde_json::json!({"v": 1, "type": "chunk", "stream": stream, "index": index, "last": last, "data": data});
    format!("{chunk}\n").into_bytes()
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_the_bytes_are_cut(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let lines = to_gateway();
        let sent: Vec<_> = picks.iter().map(|pick| format!("{}\n", pick.get(&lines)).into_bytes()).collect();
        let bytes = sent.concat();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);

        let (read, end) = read_all(pieces);

        prop_assert_eq!(read, sent);
        prop_assert_eq!(end, Ok(()));
    }

    #[test]
    fn junk_is_refused_and_never_taken_for_a_frame(junk in prop::collection::vec(any::<u8>(), 1..200)) {
        let mut bytes = b"\x00".to_vec();
        bytes.extend_from_slice(&junk);
        bytes.push(b'\n');
        let (read, end) = read_all([bytes.as_slice()]);
        prop_assert!(read.is_empty());
        let malformed = matches!(end, Err(FrameError::Malformed { .. }));
        prop_assert!(malformed);
    }

    #[test]
    fn a_flipped_bit_harms_at_most_the_frame_it_is_in(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bit in 0..8u32,
    ) {
        let lines = to_gateway();
        let (before, damaged) = (&lines[0], pick.get(&lines));
        let mut flipped = damaged.as_bytes().to_vec();
        let at = at.index(flipped.len());
        flipped[at] ^= 1 << bit;
        flipped.push(b'\n');
        let bytes = [before.as_bytes(), b"\n", &flipped].concat();

        let (read, end) = read_all([bytes.as_slice()]);

        prop_assert_eq!(&read[0], &format!("{before}\n").into_bytes());
        // It may still be a frame, of another value, or two lines of which one is none; it is never more than it was.
        prop_assert!(read.len() <= 2 && (read.len() == 2) == end.is_ok());
    }

    #[test]
    fn a_cut_frame_is_noticed(pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let lines = to_gateway();
        let line = pick.get(&lines).as_bytes();
        let kept = 1 + at.index(line.len() - 1);
        let (read, end) = read_all([&line[..kept]]);
        prop_assert!(read.is_empty());
        prop_assert_eq!(end, Err(FrameError::Truncated));
    }
}

#[test]
fn a_long_frame_travels_in_chunks_and_comes_out_whole() {
    let frame = large_result(3 * MAX_FRAME_BYTES);
    let lines = encode(&frame, 9).unwrap();
    assert!(lines.len() > 3);
    assert!(lines.iter().all(|line| line.len() <= MAX_FRAME_BYTES));

    // Other frames may come between.
    let between = encode(&crate::one::<ToGateway>(&to_gateway()[0]).unwrap(), 0)
        .unwrap()
        .concat();
    let mixed: Vec<_> = lines
        .iter()
        .flat_map(|line| [line.as_slice(), &between])
        .collect();
    let mut decoder = Decoder::<ToGateway>::new();
    let mut whole = Vec::new();
    for piece in mixed {
        decoder.push(piece);
        while let Some(frame) = decoder.next().unwrap() {
            whole.extend(encode(&frame, 9).unwrap());
        }
    }
    let small = whole.iter().filter(|line| **line == between).count();
    assert_eq!(small, lines.len());
    whole.retain(|line| *line != between);
    assert!(whole == lines);
    assert_eq!(decoder.end(), Ok(()));
}

#[test]
fn the_longest_line_is_one_frame_and_one_byte_more_is_chunks() {
    let empty = encode(&large_result(0), 0).unwrap().concat().len() - 1;
    let frame = |bytes: usize| {
        let text = format!("\"{}\"", "x".repeat(bytes - empty));
        let mut frame = large_result(0);
        let ToGateway::Result(result) = &mut frame else {
            unreachable!()
        };
        result.result = Some(RawValue::from_string(text).unwrap());
        frame
    };
    assert_eq!(encode(&frame(MAX_FRAME_BYTES), 0).unwrap().len(), 1);
    let chunks = encode(&frame(MAX_FRAME_BYTES + 1), 0).unwrap();
    assert_eq!(chunks.len(), MAX_FRAME_BYTES / CHUNK_BYTES + 1);
}

#[test]
fn what_is_over_the_bound_is_refused_by_both_sides() {
    let endless = vec![b' '; 64 * 1024];
    let mut decoder = Decoder::<ToWorker>::new();
    let refused = (0..1000)
        .find_map(|_| {
            decoder.push(&endless);
            decoder.next().err()
        })
        .unwrap();
    assert_eq!(refused, FrameError::TooLong);

    let line = [vec![b' '; MAX_FRAME_BYTES + 1], vec![b'\n']].concat();
    assert_eq!(read_all([line.as_slice()]).1, Err(FrameError::TooLong));

    let piece = "x".repeat(CHUNK_BYTES);
    let most = u32::try_from(MAX_MESSAGE_BYTES / CHUNK_BYTES).unwrap();
    let pieces: Vec<_> = (0..=most)
        .map(|index| chunk(1, index, false, &piece))
        .collect();
    let all_but_one = pieces[..pieces.len() - 1].iter().map(Vec::as_slice);
    assert_eq!(read_all(all_but_one).1, Err(FrameError::Truncated));
    let refused = read_all(pieces.iter().map(Vec::as_slice)).1;
    assert_eq!(refused, Err(ChunkError::TooLarge.into()));

    let refused = encode(&large_result(MAX_MESSAGE_BYTES), 0).unwrap_err();
    assert!(matches!(
        refused,
        EncodeError::TooLarge { tag: "result", .. }
    ));
}

#[test]
fn chunks_that_make_no_frame_are_refused() {
    let open: Vec<_> = (0..=MAX_OPEN_STREAMS as u64)
        .map(|n| chunk(n, 0, false, "{"))
        .collect();
    let stop = r#"{"v":1,"type":"heartbeat","sequence":1}"#;
    let nested = String::from_utf8(chunk(2, 0, true, stop)).unwrap();
    let cases = [
        (open, ChunkError::TooManyStreams),
        (vec![chunk(1, 1, false, "")], ChunkError::OutOfOrder),
        (
            vec![chunk(1, 0, false, ""), chunk(1, 0, false, "")],
            ChunkError::OutOfOrder,
        ),
        (
            vec![chunk(1, 0, true, stop), chunk(1, 0, true, stop)],
            ChunkError::OutOfOrder,
        ),
        (vec![chunk(1, 0, true, nested.trim())], ChunkError::Nested),
    ];
    for (lines, expected) in cases {
        let (_, end) = read_all(lines.iter().map(Vec::as_slice));
        assert_eq!(end, Err(FrameError::Chunk(expected)));
    }
}

#[test]
fn an_error_quotes_nothing_of_what_was_read() {
    let secret = "s3cr3t-canary";
    let lines = [
        format!(r#"{{"v":1,"type":"hello","pid":"{secret}","birth":1,"version":1}}"#),
        format!(
            r#"{{"v":1,"type":"event","execution_id":"e","sequence":1,"kind":"{secret}","call":0}}"#
        ),
        format!(r#"{{"v":1,"type":"{secret} {secret}"}}"#),
        format!(r#"{{"v":"{secret}","type":"hello"}}"#),
        secret.to_owned(),
    ];
    for line in lines {
        let error = crate::one::<ToGateway>(&line).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[test]
fn the_debug_form_of_a_frame_shows_nothing_private() {
    for line in V1.lines() {
        let frame = crate::Any::read(line).unwrap();
        assert!(!format!("{frame:?}").contains("s3cr3t"), "{frame:?}");
    }
}

#[test]
fn a_payload_on_several_lines_is_one_frame() {
    let payload = "{\n  \"a\": [1,\r\n 2],\n  \"b\": \"x\\ny\"\n}";
    let mut frame = large_result(0);
    let ToGateway::Result(result) = &mut frame else {
        unreachable!()
    };
    result.result = Some(RawValue::from_string(payload.to_owned()).unwrap());

    let lines = encode(&frame, 0).unwrap();

    assert_eq!(lines.len(), 1);
    let (read, end) = read_all([lines[0].as_slice()]);
    assert_eq!((read, end), (lines, Ok(())));
}
