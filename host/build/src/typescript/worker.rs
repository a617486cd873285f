//! The tools in a process that stays: what they have loaded for one build need not be loaded for the next. Of a process that
//! builds an app again and again, as `styx dev` does.

use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

/// Begins the line that says how a build ended: `build.mjs` has the same.
const ANSWER: &str = "styx-build: ";

/// That of this process, once somebody wants one. It ends with this process, whose pipe it reads.
static WORKER: Mutex<Option<Worker>> = Mutex::new(None);

struct Worker {
    sdk: PathBuf,
    child: Child,
    requests: ChildStdin,
    /// All that it writes.
    lines: BufReader<PipeReader>,
}

/// What is built, and into which file.
#[derive(Serialize)]
pub struct Request<'a> {
    pub directory: &'a Path,
    pub entry: &'a str,
    pub sdk: &'a Path,
    pub output: &'a Path,
}

/// How a build ended.
#[derive(Deserialize)]
pub struct Answer {
    /// What is wrong, in a line.
    pub error: Option<String>,
}

/// What runs the tools of an SDK.
pub fn tool(sdk: &Path) -> Command {
    let mut node = Command::new("node");
    node.arg(sdk.join("tools/build.mjs")).env_remove("NODE_OPTIONS").env_remove("NODE_PATH");
    node
}

/// Has this process keep the tools of an SDK from now on.
pub fn keep(sdk: &Path) -> io::Result<()> {
    let mut kept = WORKER.lock().expect("nobody panics with it");
    if kept.as_ref().is_none_or(|worker| worker.sdk != sdk) {
        *kept = Some(Worker::start(sdk)?);
    }
    Ok(())
}

/// Has what is kept build something; `None` if nothing is, or it is busy, or gone.
pub fn build(request: &Request, on_line: impl FnMut(&str)) -> Option<Answer> {
    let mut kept = WORKER.try_lock().ok()?;
    let mut worker = kept.take().filter(|worker| worker.sdk == request.sdk)?;
    let answer = worker.build(request, on_line).ok()?;
    *kept = Some(worker);
    Some(answer)
}

impl Worker {
    fn start(sdk: &Path) -> io::Result<Self> {
        let (lines, writer) = io::pipe()?;
        let mut command = tool(sdk);
        command.arg("--stay").stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn()?;
        // Its ends of the pipe are the only ones: when it is gone, reading ends.
        drop(command);
        let requests = child.stdin.take().expect("piped");
        Ok(Worker { sdk: sdk.to_owned(), child, requests, lines: BufReader::new(lines) })
    }

    fn build(&mut self, request: &Request, mut on_line: impl FnMut(&str)) -> io::Result<Answer> {
        let request = serde_json::to_string(request)? + "\n";
        self.requests.write_all(request.as_bytes())?;
        loop {
            let mut line = Vec::new();
            if self.lines.read_until(b'\n', &mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = String::from_utf8_lossy(&line);
            match line.strip_prefix(ANSWER) {
                Some(answer) => return Ok(serde_json::from_str(answer)?),
                None => on_line(line.trim_end()),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It keeps nothing that could be lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
