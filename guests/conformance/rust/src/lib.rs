//! What every language does, in Rust.

use serde_json::Value;
use styx_sdk::prelude::*;

struct Own;

#[operator(name = "rust")]
impl Own {
    pub fn echo_int(_ctx: &mut Context, n: i64) -> i64 {
        n
    }

    pub fn echo_text(_ctx: &mut Context, text: String) -> String {
        text
    }

    pub fn echo_list(_ctx: &mut Context, numbers: Vec<i64>) -> Vec<i64> {
        numbers
    }

    pub fn echo_any(_ctx: &mut Context, value: Value) -> Value {
        value
    }

    pub fn echo_number(_ctx: &mut Context, x: f64) -> f64 {
        x
    }

    pub fn no_number(_ctx: &mut Context, x: f64) -> f64 {
        if x > 1.0 { x * 1e308 } else { f64::NAN }
    }

    /// Stores a number, or what is none for more than 1, and says of what it reads then whether it is below zero, or -0.
    pub fn kept_sign(ctx: &mut Context, x: f64) -> Result<bool> {
        ctx.state.put(&if x > 1.0 { f64::NAN } else { x })?;
        let kept: f64 = ctx.state.get()?.unwrap_or_default();
        ctx.state.delete();
        Ok(kept.is_sign_negative())
    }

    #[function(read_only)]
    pub fn get(ctx: &Context) -> Result<Option<i64>> {
        ctx.state.get()
    }

    pub fn add(ctx: &mut Context, n: i64) -> Result<i64> {
        let total = ctx.state.get::<i64>()?.unwrap_or(0) + n;
        ctx.state.put(&total)?;
        Ok(total)
    }

    pub fn remove(ctx: &mut Context) {
        ctx.state.delete();
    }

    #[function(read_only)]
    pub fn keys(ctx: &Context, prefix: String, limit: u32, reverse: bool) -> Result<Vec<String>> {
        let scan = ctx.state.scan().prefix(&prefix).limit(limit);
        let scan = if reverse { scan.reverse() } else { scan };
        Ok(scan.entries::<i64>()?.into_iter().map(|(key, _)| key).collect())
    }

    pub fn refuse(_ctx: &mut Context, code: String, message: String) -> Result<()> {
        Err(Abort::new(message).with_app_code(&code))
    }

    pub fn write_and_refuse(ctx: &mut Context) -> Result<()> {
        ctx.state.put(&99)?;
        bail!("after writing")
    }

    /// Adds here, then in each of the languages, one calling the next: the sum of what they come to.
    pub fn through(ctx: &mut Context, languages: Vec<String>, n: i64) -> Result<i64> {
        let total = ctx.state.get::<i64>()?.unwrap_or(0) + n;
        let below = match languages.split_first() {
            Some((next, rest)) => {
                let below: i64 = ctx.call(next, ctx.key(), "through", (rest.to_vec(), n))?;
                ctx.call_async(next, "later", "add", (n,))?;
                below
            }
            None => 0,
        };
        ctx.state.put(&total)?;
        Ok(below + total)
    }
}

styx_sdk::export!(Own);

#[cfg(test)]
mod tests {
    use styx_sdk::testing::App;

    use super::Own;

    #[test]
    fn cases() {
        let mut app = App::new().with::<Own>();
        let lines: Vec<_> = include_str!("../../cases.tsv").lines().skip(1).collect();
        for line in &lines {
            let [key, function, arguments, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let found = match app.call_raw("rust", key, function, arguments.as_bytes()) {
                Ok(reply) => String::from_utf8(reply).unwrap(),
                Err(abort) => format!("{abort:?}"),
            };
            let matches = found == expected || !expected.contains(':') && found.starts_with(&format!("{expected}:"));
            assert!(matches, "{line}: {found}");
        }
        assert!(lines.len() > 40);
    }
}
