//! Names: cases as serde knows them, documentation comments, JSON text.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The words of an identifier in either `CamelCase` or `snake_case`, in lower case.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in identifier.chars() {
        if letter == '_' {
            words.push(String::new());
            continue;
        }
        if letter.is_uppercase() {
            words.push(String::new());
        }
        words.last_mut().expect("never empty").extend(letter.to_lowercase());
    }
    words.retain(|word| !word.is_empty());
    words
}

/// `HotelRate` becomes `hotel_rate`.
pub fn snake_case(identifier: &str) -> String {
    words(identifier).join("_")
}

/// Applies a `rename_all` rule of serde; `None` if there is no such rule.
pub fn rename(rule: &str, identifier: &str) -> Option<String> {
    let words = words(identifier);
    let capitalised = |word: &String| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
    };
    Some(match rule {
        "lowercase" => identifier.to_lowercase(),
        "UPPERCASE" => identifier.to_uppercase(),
        "snake_case" => words.join("_"),
        "SCREAMING_SNAKE_CASE" => words.join("_").to_uppercase(),
        "kebab-case" => words.join("-"),
        "SCREAMING-KEBAB-CASE" => words.join("-").to_uppercase(),
        "PascalCase" => words.iter().map(capitalised).collect(),
        "camelCase" => words[..1].iter().cloned().chain(words[1..].iter().map(capitalised)).collect(),
        _ => return None,
    })
}

/// The text of the documentation comments, with the common leading space removed.
pub fn documentation(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value
        {
            let text = text.value();
            lines.push(text.strip_prefix(' ').unwrap_or(&text).trim_end().to_owned());
        }
    }
    lines.join("\n").trim().to_owned()
}

/// A string as JSON text.
pub fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if u32::from(control) < 0x20 => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        for (rule, expected) in [
            ("lowercase", "hotelrate"),
            ("snake_case", "hotel_rate"),
            ("SCREAMING_SNAKE_CASE", "HOTEL_RATE"),
            ("kebab-case", "hotel-rate"),
            ("PascalCase", "HotelRate"),
            ("camelCase", "hotelRate"),
        ] {
            assert_eq!(rename(rule, "HotelRate").as_deref(), Some(expected), "{rule}");
        }
        assert_eq!(rename("camelCase", "hotel_rate").as_deref(), Some("hotelRate"));
        assert_eq!(rename("Title Case", "hotel_rate"), None);
        assert_eq!(json("a\"\\\n"), r#""a\"\\\u000a""#);
    }
}
