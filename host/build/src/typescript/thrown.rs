//! What a project's modules throw while they are loaded, as one line with a place.

use serde::Deserialize;

/// Where the lines of a bundle come from.
#[derive(Deserialize)]
pub struct Lines {
    files: Vec<String>,
    /// The index of the file and the line in it, for those of the project.
    lines: Vec<Option<(usize, usize)>>,
}

/// One line of an exception's text and its stack.
pub fn explain(thrown: &str, lines: &Lines) -> String {
    let place = thrown.split("user.js:").skip(1).find_map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let line: usize = rest[..digits].parse().ok()?;
        let (file, line) = (*lines.lines.get(line.checked_sub(1)?)?)?;
        Some(format!("{}:{line}: ", lines.files.get(file)?))
    });
    let says = |line: &&str| line.chars().any(char::is_alphanumeric) && !line.starts_with("at ");
    let message = thrown.lines().map(str::trim).find(says).unwrap_or(thrown);
    let message = message.strip_prefix("Error: ").unwrap_or(message);
    format!("{}{message}", place.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_in_the_project_counts() {
        let lines = Lines { files: vec!["sdk.ts".into(), "shop.ts".into()], lines: vec![None, None, Some((1, 7))] };
        let say = |thrown| explain(thrown, &lines);
        assert_eq!(
            say("TypeError: not a function\n    at a (user.js:1:3)\n    at user.js:3:9"),
            "shop.ts:7: TypeError: not a function"
        );
        assert_eq!(say("Error: declared twice\n    at user.js:3:1"), "shop.ts:7: declared twice");
        assert_eq!(say("lonely\n"), "lonely");
        assert_eq!(say("TypeError: x\n    at user.js:0:1\n at user.js:99:1\n at user.js:"), "TypeError: x");
    }
}
