//! What the compiler and the linker say, as one line with a place.

use crate::error::{BuildError, Code};

/// Whether a line says what is wrong.
pub fn is_error(line: &str) -> bool {
    line.contains("error: ")
}

/// The first line that says what is wrong, and the end of all that they printed.
pub fn explain(first: Option<&str>, tail: String) -> BuildError {
    let undefined = |line: &str| line.split_once("undefined symbol: ").map(|(_, name)| name.trim().to_owned());
    let error = match first {
        None => BuildError::new(Code::BuildFailed, "the C compiler failed").hint("see its output"),
        Some(line) => match undefined(line) {
            Some(name) => undefined_symbol(line, &name),
            None => compiler_error(line),
        },
    };
    error.output(tail)
}

/// `main.c:3:5: error: …`, or an error without a place.
fn compiler_error(line: &str) -> BuildError {
    let (place, what) = line.split_once("error: ").expect("it was looked for");
    let place = place.trim().trim_end_matches("fatal").trim();
    let again = |mark: &str| Some(what.strip_prefix("redefinition of '")?.strip_prefix(mark)?.trim_end_matches('\''));
    if let Some(operator) = again("styx_operator_") {
        return BuildError::new(Code::BuildFailed, format_args!("{place} the operator `{operator}` is declared twice"))
            .hint("declare it in one source: the others see its functions without");
    }
    if let Some(function) = again("styx_arguments_") {
        return BuildError::new(Code::BuildFailed, format_args!("{place} the function `{function}` is declared twice"))
            .hint("give one of them another name");
    }
    let error = BuildError::new(Code::BuildFailed, format_args!("{place} {what}"));
    match what.strip_suffix("file not found").map(|header| header.trim().trim_matches('\'')) {
        Some(header @ ("pthread.h" | "threads.h" | "sys/socket.h" | "signal.h" | "setjmp.h")) => {
            error.hint(format_args!("a guest has no operating system: do without <{header}>"))
        }
        Some(header) => {
            error.hint(format_args!("put {header} and its sources into the project: a guest has no other libraries"))
        }
        None if what.contains("use of undeclared identifier 'styx_type_") => {
            error.hint("types are those of <stdint.h>, bool, double, styx_text, styx_json and what STYX_RECORD and the like have defined")
        }
        None => error.hint("mend it there"),
    }
}

fn undefined_symbol(line: &str, name: &str) -> BuildError {
    if name == "styx_no_function_is_declared" {
        return BuildError::new(Code::BuildFailed, "no function is declared")
            .hint("write STYX_OPERATOR(name) and STYX_FUNCTION(name, function, …) { … }");
    }
    if let Some(operator) = name.strip_prefix("styx_operator_") {
        return BuildError::new(
            Code::BuildFailed,
            format_args!("functions of the operator `{operator}` are declared, but it is not"),
        )
        .hint(format_args!("write STYX_OPERATOR({operator}, .doc = \"…\") once"));
    }
    // The object's name is its source's.
    let object = line.rsplit_once(".o: ").and_then(|(object, _)| object.rsplit('/').next());
    let place = object.map(|source| format!(" in {source}.c")).unwrap_or_default();
    BuildError::new(Code::BuildFailed, format_args!("`{name}` is used{place}, but no source of the project defines it"))
        .hint("add the source; of the C library, a guest has what needs no operating system")
}

/// What is left of WASI after linking: each function, and who may have wanted it.
pub fn refused(functions: &[String]) -> BuildError {
    let used = functions.join(", ");
    let has = |part: &str| functions.iter().any(|function| function.starts_with(part));
    let hint = if has("clock") {
        "a component has no clock but the transaction's: time(), clock_gettime() or styx_time()"
    } else if has("random") {
        "random numbers are the transaction's: styx_random(), rand(), random() or arc4random()"
    } else if has("fd_") || has("path_") {
        "a component has no files and no terminal: log by styx_log(STYX_INFO, …) instead of printf"
    } else if has("proc_exit") {
        "a component does not exit: abort the transaction by styx_abort(…)"
    } else {
        "a component has no environment, arguments, sockets or threads"
    };
    BuildError::new(Code::BuildFailed, format_args!("the sources need an operating system ({used})")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tail: &str) -> String {
        explain(tail.lines().find(|line| is_error(line)), tail.to_owned()).to_string()
    }

    #[test]
    fn the_first_error_counts() {
        assert_eq!(
            line(
                "main.c:1:2: warning: odd\nmain.c:3:21: error: use of undeclared identifier 'x'\nmain.c:4:1: error: b"
            ),
            "BUILD_FAILED: main.c:3:21: use of undeclared identifier 'x'; mend it there"
        );
        assert_eq!(
            line("main.c:1:10: fatal error: 'zlib.h' file not found"),
            "BUILD_FAILED: main.c:1:10: 'zlib.h' file not found; put zlib.h and its sources into the project: a guest has no other libraries"
        );
        assert_eq!(
            line("wasm-ld: error: a/b.o: undefined symbol: helper"),
            "BUILD_FAILED: `helper` is used in b.c, but no source of the project defines it; add the source; of the C library, a guest has what needs no operating system"
        );
        assert_eq!(
            line("a.c:9:1: error: redefinition of 'styx_arguments_account_deposit'"),
            "BUILD_FAILED: a.c:9:1: the function `account_deposit` is declared twice; give one of them another name"
        );
        assert_eq!(
            line("a.c:9:1: error: redefinition of 'styx_operator_account'"),
            "BUILD_FAILED: a.c:9:1: the operator `account` is declared twice; declare it in one source: the others see its functions without"
        );
        assert_eq!(line("killed"), "BUILD_FAILED: the C compiler failed; see its output");
    }
}
