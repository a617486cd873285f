//! The name that somebody probably meant.

use std::borrow::Cow;

/// The known name nearest to `name`, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // What is absurdly long is no misspelling, and the distance is quadratic in it.
    if name.len() > 128 {
        return None;
    }
    let lower = name.to_lowercase();
    let (distance, found) =
        known.map(|known| (strsim::damerau_levenshtein(&known.to_lowercase(), &lower), known)).min()?;
    (distance <= 2.max(found.len() / 3) && distance < found.len()).then_some(found)
}

/// "did you mean `x`?", or what is known, or `none` if nothing is.
pub fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>, none: &'static str) -> Cow<'static, str> {
    const LISTED: usize = 12;
    let known: Vec<&str> = known.collect();
    if let Some(found) = nearest(name, known.iter().copied()) {
        return format!("did you mean `{found}`?").into();
    }
    if known.is_empty() {
        return none.into();
    }
    let listed: Vec<String> = known.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let more = if known.len() > LISTED { ", …" } else { "" };
    format!("known are {}{more}", listed.join(", ")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions() {
        for (name, known, expect) in [
            ("stok", &["stock", "order"][..], "did you mean `stock`?"),
            ("STOCK", &["stock", "order"], "did you mean `stock`?"),
            ("payment", &["stock", "order"], "known are `stock`, `order`"),
            ("x", &["a"], "known are `a`"),
            ("x", &[], "nothing"),
            (
                &"x".repeat(1 << 20),
                &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"],
                "known are `a`, `b`, `c`, `d`, `e`, `f`, `g`, `h`, `i`, `j`, `k`, `l`, …",
            ),
        ] {
            assert_eq!(suggestion(name, known.iter().copied(), "nothing"), expect);
        }
    }
}
