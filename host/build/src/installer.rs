//! Why pip or npm could not install something: the one line that matters of what they printed.

use super::error::{BuildError, Code};

/// What they print when there is no way to the packages.
const OFFLINE: [&str; 8] = [
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ENETUNREACH",
    "ECONNREFUSED",
];
/// How a line begins that says what is wrong; others are about where more is written.
const WRONG: [&str; 2] = ["ERROR: ", "npm error "];

/// The error of a tool that could not install `what`.
pub fn failed(tool: &str, what: &str, tail: String) -> BuildError {
    let error = |message: String| BuildError::new(Code::BuildFailed, message);
    let error = if OFFLINE.iter().any(|said| tail.contains(said)) {
        error(format!("cannot install {what}: {tool} does not reach where its packages are"))
            .hint(format_args!("build once with a network, what was installed is kept; or set {tool} up for a mirror"))
    } else {
        match said(&tail) {
            Some(line) => error(format!("cannot install {what}: {line}")).hint(format_args!("see {tool}'s output")),
            None => error(format!("cannot install {what}")).hint(format_args!("see {tool}'s output")),
        }
    };
    error.output(tail)
}

/// The error of packages that a project names in a file, with its line if one is named.
pub fn failed_for(tool: &str, file: &str, text: &str, tail: String) -> BuildError {
    let named = said(&tail).and_then(|line| {
        let requirement = line.split_once("requirement ")?.1.split([' ', '(']).next()?;
        let at = text.lines().position(|line| line.replace(' ', "").starts_with(requirement))?;
        Some(format!("{file}:{}: {line}", at + 1))
    });
    let error = failed(tool, file, tail);
    match named {
        Some(message) if error.message.contains(": Could not find") => {
            BuildError { message, ..error }.hint(format_args!("correct the name or the version in {file}"))
        }
        _ => error,
    }
}

fn said(tail: &str) -> Option<String> {
    tail.lines().find_map(|line| {
        let said = WRONG.iter().find_map(|begin| line.strip_prefix(begin))?.trim();
        (!said.is_empty() && !said.starts_with("code ")).then(|| with_few_versions(said))
    })
}

/// Versions of a package that a line names.
const VERSIONS_SHOWN: usize = 5;

/// A line of pip's that names all versions of a package, hundreds of some, with the newest of them.
fn with_few_versions(line: &str) -> String {
    let parts = line.split_once("(from versions: ").and_then(|(before, rest)| {
        let (versions, after) = rest.split_once(')')?;
        let versions: Vec<&str> = versions.split(", ").collect();
        let newest = versions.get(versions.len().checked_sub(VERSIONS_SHOWN)?..)?.join(", ");
        (versions.len() > VERSIONS_SHOWN).then(|| format!("{before}(from versions: …, {newest}){after}"))
    });
    parts.unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: &str = "ERROR: Could not find a version that satisfies the requirement nope==9 (from versions: none)\nERROR: No matching distribution found for nope==9";

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        assert_eq!(
            failed("pip", "x==1", UNKNOWN.to_owned()).to_string(),
            "BUILD_FAILED: cannot install x==1: Could not find a version that satisfies the requirement nope==9 (from versions: none); see pip's output"
        );
        assert_eq!(
            failed("npm", "esbuild", "npm error code E404\nnpm error 404 Not Found".to_owned()).to_string(),
            "BUILD_FAILED: cannot install esbuild: 404 Not Found; see npm's output"
        );
        assert_eq!(failed("pip", "x", "killed".to_owned()).message, "cannot install x");
    }

    #[test]
    fn of_many_versions_the_newest_are_named() {
        let tail =
            "ERROR: Could not find a version that satisfies the requirement x==99 (from versions: 1, 2, 3, 4, 5, 6, 7)";
        assert_eq!(
            failed_for("pip", "requirements.txt", "x==99", tail.to_owned()).message,
            "requirements.txt:1: Could not find a version that satisfies the requirement x==99 (from versions: …, 3, 4, 5, 6, 7)"
        );
    }

    #[test]
    fn without_a_network_that_is_what_is_said() {
        for tail in [
            &format!("WARNING: Retrying: [Errno -3] Temporary failure in name resolution\n{UNKNOWN}"),
            "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo",
        ] {
            let error = failed_for("pip", "requirements.txt", "nope==9", tail.to_owned());
            assert_eq!(error.message, "cannot install requirements.txt: pip does not reach where its packages are");
        }
    }

    #[test]
    fn a_requirement_has_a_line() {
        let error = failed_for("pip", "requirements.txt", "# two\nsix\nnope == 9\n", UNKNOWN.to_owned());
        assert_eq!(
            error.to_string(),
            "BUILD_FAILED: requirements.txt:3: Could not find a version that satisfies the requirement nope==9 (from versions: none); correct the name or the version in requirements.txt"
        );
    }
}
