//! A client over the pipes of a child process, of either era.

use std::{
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::Mutex,
    task::JoinSet,
};

use super::{
    DEADLINE, META, MODERN,
    answer::Answer,
    call_params, every_tool_name,
    exchange::is_response,
    legacy::initialize_params,
    message, quote,
    transcript::{Transcript, method_of},
    with_meta,
};

/// What to start: the environment is `PATH` and what is given here.
#[derive(Debug, Clone, Default)]
pub struct StdioCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment beside `PATH`.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub cwd: Option<PathBuf>,
}

/// A client of one child process, which is killed when this is dropped.
#[derive(Debug)]
pub struct StdioClient {
    child: Child,
    stdin: Mutex<Option<ChildStdin>>,
    transcript: Transcript,
    stderr: Transcript,
    modern: bool,
    initialized: Option<Answer>,
    next_id: AtomicU64,
    _readers: JoinSet<()>,
}

// === impl StdioCommand ===

impl StdioCommand {
    /// A program with these arguments.
    #[must_use]
    pub fn new<A: Into<String>>(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }
}

// === impl StdioClient ===

impl StdioClient {
    /// Starts the process and says nothing; requests are of the modern era.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn modern(command: &StdioCommand) -> Self {
        Self::spawn(command, true)
    }

    /// Starts the process and does the handshake.
    ///
    /// # Panics
    /// Where that fails.
    pub async fn legacy(command: &StdioCommand, version: &str) -> Self {
        let mut client = Self::spawn(command, false);
        let answer = client
            .request("initialize", &initialize_params(version, "{}"))
            .await;
        assert!(answer.is_result(), "initialize: {answer:?}");
        client.initialized = Some(answer);
        client.notify("notifications/initialized", "{}").await;
        client
    }

    /// Starts the process and says nothing; whether requests carry the modern `_meta` is up to `modern`.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn spawn(command: &StdioCommand, modern: bool) -> Self {
        let mut child = Command::new(&command.program);
        child
            .args(&command.args)
            .env_clear()
            .env("PATH", crate::harness::path())
            .envs(command.env.iter().cloned());
        child
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = &command.cwd {
            child.current_dir(cwd);
        }
        let mut child = child
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", command.program.display()));
        let (transcript, stderr) = (Transcript::default(), Transcript::default());
        let mut readers = JoinSet::new();
        readers.spawn(read_lines(
            child.stdout.take().expect("stdout is piped"),
            transcript.clone(),
        ));
        let mut errors = child.stderr.take().expect("stderr is piped");
        let said = stderr.clone();
        readers.spawn(async move {
            let mut chunk = vec![0; 8192];
            while let Ok(count @ 1..) = errors.read(&mut chunk).await {
                said.push(String::from_utf8_lossy(&chunk[..count]).into_owned());
            }
            said.end();
        });
        let stdin = Mutex::new(child.stdin.take());
        Self {
            child,
            stdin,
            transcript,
            stderr,
            modern,
            initialized: None,
            next_id: AtomicU64::new(0),
            _readers: readers,
        }
    }

    /// The process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The answer to `initialize`, in the legacy eras.
    #[must_use]
    pub fn initialized(&self) -> Option<&Answer> {
        self.initialized.as_ref()
    }

    /// Every line of stdout so far.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// What it has said on stderr so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.messages().concat()
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// Where stdout ends or the deadline passes first.
    pub async fn request(&self, method: &str, params: &str) -> Answer {
        let id = self.start(method, params).await;
        self.answer(&id).await
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: &str) -> Answer {
        self.request("tools/call", &call_params(tool, arguments))
            .await
    }

    /// Starts a call of a tool and gives its id.
    pub async fn start_call(&self, tool: &str, arguments: &str) -> String {
        self.start("tools/call", &call_params(tool, arguments))
            .await
    }

    /// Sends a request and gives its id.
    pub async fn start(&self, method: &str, params: &str) -> String {
        let id = (self.next_id.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        let params = if self.modern {
            with_meta(params, &modern_meta())
        } else {
            params.to_owned()
        };
        self.send_line(&message(Some(&id), method, &params)).await;
        id
    }

    /// Waits for the answer to a request that was started.
    ///
    /// # Panics
    /// Where stdout ends or the deadline passes first.
    pub async fn answer(&self, id: &str) -> Answer {
        self.try_answer(id).await.unwrap_or_else(|| {
            panic!(
                "stdout ended without an answer to {id}: {:#?} {}",
                self.transcript.messages(),
                self.stderr()
            )
        })
    }

    /// Waits for the answer to a request that was started; `None` where stdout ends first.
    ///
    /// # Panics
    /// Where the deadline passes first.
    pub async fn try_answer(&self, id: &str) -> Option<Answer> {
        find_answer(&self.transcript, id).await
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: &str) {
        self.send_line(&message(None, method, params)).await;
    }

    /// Cancels a request by its id as written.
    pub async fn cancel(&self, id: &str) {
        self.notify(
            "notifications/cancelled",
            &format!(r#"{{"requestId":{id},"reason":"the test says so"}}"#),
        )
        .await;
    }

    /// Answers a request of the server; `id` and `result` are JSON text.
    pub async fn respond(&self, id: &str, result: &str) {
        self.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ))
        .await;
    }

    /// The names of all tools, page by page.
    pub async fn tool_names(&self) -> Vec<String> {
        every_tool_name(async |params: String| self.request("tools/list", &params).await).await
    }

    /// Writes a line, whatever it is. A child that no longer reads is no failure here.
    ///
    /// # Panics
    /// Where stdin was closed.
    pub async fn send_line(&self, line: &str) {
        let mut stdin = self.stdin.lock().await;
        let stdin = stdin.as_mut().expect("stdin is open");
        let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
        let _ = stdin.flush().await;
    }

    /// Closes stdin.
    pub async fn close_stdin(&self) {
        drop(self.stdin.lock().await.take());
    }

    /// Waits for the process to end.
    ///
    /// # Panics
    /// After `deadline`.
    pub async fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let ended = tokio::time::timeout(deadline, self.child.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("still running after {deadline:?}"))
            .expect("a child can be waited for")
    }

    /// Closes stdin and waits for the process to end.
    ///
    /// # Panics
    /// After `deadline`.
    pub async fn close(mut self, deadline: Duration) -> ExitStatus {
        self.close_stdin().await;
        self.wait_exit(deadline).await
    }
}

/// The answer with this id; `None` where the stream ends first.
pub(crate) async fn find_answer(transcript: &Transcript, id: &str) -> Option<Answer> {
    let is_answer = |line: &str| is_response(line) && id_of(line).as_deref() == Some(id);
    let line = transcript
        .find(DEADLINE, &format!("answer to {id}"), is_answer)
        .await?;
    let lines = transcript.messages();
    let notifications = lines
        .iter()
        .filter(|line| method_of(line).is_some())
        .cloned()
        .collect();
    Some(Answer::of_line(line, notifications))
}

/// The id as written.
fn id_of(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Shape<'a> {
        // Not an `Option`, which would take `null` for an absent id.
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let shape: Shape<'_> = serde_json::from_str(line).ok()?;
    Some(shape.id.get().to_owned())
}

pub(crate) async fn read_lines(stream: impl AsyncRead + Unpin, transcript: Transcript) {
    let mut stdout = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = stdout.read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(&line);
        transcript.push(text.strip_suffix('\n').unwrap_or(&text).to_owned());
        line.clear();
    }
    transcript.end();
}

fn modern_meta() -> [(String, String); 2] {
    [
        (format!("{META}protocolVersion"), quote(MODERN)),
        (format!("{META}clientCapabilities"), "{}".to_owned()),
    ]
}
