//! Server-sent events, as far as MCP uses them.

/// Takes bytes as they come, gives the data of whole events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    buffer: Vec<u8>,
    data: Vec<String>,
}

// === impl Events ===

impl Events {
    /// The events that these bytes complete; those without data are left out.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        self.buffer.extend_from_slice(bytes);
        let mut complete = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.take_line(line.trim_end_matches(['\r', '\n']), &mut complete);
        }
        complete
    }

    fn take_line(&mut self, line: &str, complete: &mut Vec<String>) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.data).join("\n");
            if !event.is_empty() {
                complete.push(event);
            }
        } else if let Some(data) = line.strip_prefix("data:") {
            self.data
                .push(data.strip_prefix(' ').unwrap_or(data).to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Events;

    #[test]
    fn events_come_whole_from_any_split() {
        let stream = b": hello\n\nid: 1\ndata: {\"a\":\ndata: 1}\n\ndata:\n\nevent: message\r\ndata:x\r\n\r\n";

        for split in 0..stream.len() {
            let mut events = Events::default();
            let mut all = events.feed(&stream[..split]);
            all.extend(events.feed(&stream[split..]));

            assert_eq!(all, ["{\"a\":\n1}", "x"], "split at {split}");
        }
    }
}
