//! Running a tool: its lines passed on as they come, its last ones kept for the
//! error, its time bounded if need be.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::error::{BuildError, Code};
use super::progress::Progress;

/// How many of the tool's lines an error shows.
const TAIL_LINES: usize = 40;

/// Output and status of a tool that ended.
pub struct Finished {
    /// True if it exited with 0 and in time.
    pub succeeded: bool,
    /// All that it wrote to standard output.
    pub stdout: String,
    /// The last lines of standard error.
    pub tail: String,
}

/// Runs a tool to its end, or to the end of its time.
pub fn run(
    command: &mut Command,
    time: Option<Duration>,
    mut on_line: impl FnMut(&str),
) -> Result<Finished, BuildError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed =
        |error: std::io::Error| BuildError::new(Code::ToolchainMissing, format_args!("cannot run {name}: {error}"));
    let deadline = time.map(|time| Instant::now() + time);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;

    let mut stdout = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A tool that dies in mid-line has said enough.
        let _ = stdout.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in stderr.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });

    let mut tail = VecDeque::new();
    let mut in_time = true;
    loop {
        let received = match deadline {
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => lines.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(line) => {
                on_line(&line);
                if tail.len() == TAIL_LINES {
                    tail.pop_front();
                }
                tail.push_back(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                in_time = false;
                tail.push_back(format!("{name} was stopped: it took too long"));
                child.kill().map_err(failed)?;
                break;
            }
        }
    }
    let status = child.wait().map_err(failed)?;
    // A grandchild of a killed tool may hold the pipe; its output is of no interest.
    let stdout = if in_time { reader.join().unwrap_or_default() } else { String::new() };
    Ok(Finished { succeeded: in_time && status.success(), stdout, tail: Vec::from(tail).join("\n") })
}

/// Runs a tool to its end. Besides, the first of its lines that says what is wrong, as `wrong` finds it: what is printed
/// behind it may be more than the last lines that are kept.
pub fn run_noting(
    command: &mut Command,
    progress: &dyn Progress,
    wrong: impl Fn(&str) -> Option<&str>,
) -> Result<(Finished, Option<String>), BuildError> {
    let mut first = None;
    let finished = run(command, None, |line| {
        progress.detail(line);
        if first.is_none() {
            first = wrong(line).map(str::to_owned);
        }
    })?;
    Ok((finished, first))
}

/// Standard output of a quick question to a tool; `None` if there is no answer.
pub fn ask(command: &mut Command) -> Option<String> {
    let finished = run(command, Some(Duration::from_secs(30)), |_| ()).ok()?;
    finished.succeeded.then(|| finished.stdout.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, time: Option<Duration>) -> (bool, String, String, Vec<String>) {
        let mut lines = Vec::new();
        let finished = run(Command::new("sh").args(["-c", script]), time, |line| lines.push(line.to_owned())).unwrap();
        (finished.succeeded, finished.stdout, finished.tail, lines)
    }

    #[test]
    fn output_and_status() {
        let (succeeded, stdout, tail, lines) = shell("echo out; echo one >&2; echo two >&2; exit 3", None);
        assert!(!succeeded);
        assert_eq!((stdout.as_str(), tail.as_str(), lines.len()), ("out\n", "one\ntwo", 2));
        let (succeeded, _, tail, _) = shell("for i in $(seq 100); do echo $i >&2; done", None);
        assert!(succeeded);
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("\n100"));
    }

    #[test]
    fn time_is_bounded() {
        let started = Instant::now();
        let (succeeded, _, tail, _) = shell("exec sleep 20", Some(Duration::from_millis(100)));
        assert!(!succeeded && started.elapsed() < Duration::from_secs(10));
        assert_eq!(tail, "sh was stopped: it took too long");
    }

    #[test]
    fn a_missing_tool_is_an_error() {
        let error = run(&mut Command::new("no-such-tool"), None, |_| ()).err().unwrap();
        assert_eq!(error.code, Code::ToolchainMissing);
        assert!(ask(&mut Command::new("no-such-tool")).is_none());
    }
}
