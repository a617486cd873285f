//! Replies as JSON text, written by hand into a buffer: on the hot path of every pipelined call.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use styx_protocol::abort::Abort;
use styx_protocol::entity::Value;
use styx_protocol::replies::Reply;

use super::json::{compact, is_json, number, string};
use crate::http::ApiError;

/// Appends the whole reply to a pipelined request. `id` is JSON; `replayed`: it is that of an earlier one under its key.
pub fn reply(id: &str, reply: Reply, replayed: bool, out: &mut Vec<u8>) {
    open(id, out);
    outcome(reply.outcome, "ok", out);
    // What was refused before it was sequenced has neither.
    if reply.epoch.0 > 0 {
        out.extend_from_slice(b",\"tid\":");
        number(reply.tid.0, out);
        out.extend_from_slice(b",\"epoch\":");
        number(reply.epoch.0, out);
    }
    if replayed {
        out.extend_from_slice(b",\"replayed\":true");
    }
    out.push(b'}');
}

/// Appends the whole reply to a request that was refused. `id` is JSON.
pub fn refusal(id: &str, why: &ApiError, out: &mut Vec<u8>) {
    open(id, out);
    error(why, out);
    out.push(b'}');
}

fn open(id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.push(b',');
}

/// Appends `"name":<result>` or `"error":{…}`. A result that is not JSON becomes `"name_base64":"…"`.
pub fn outcome(outcome: Result<Value, Abort>, name: &str, out: &mut Vec<u8>) {
    match outcome {
        Ok(value) if value.is_empty() => write!(out, "\"{name}\":null").expect("memory takes all"),
        Ok(value) if is_json(&value) => {
            out.push(b'"');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            compact(&value, out);
        }
        Ok(value) => write!(out, "\"{name}_base64\":\"{}\"", STANDARD.encode(&value)).expect("memory takes all"),
        Err(abort) => error(&abort.into(), out),
    }
}

fn error(error: &ApiError, out: &mut Vec<u8>) {
    write!(out, "\"error\":{{\"code\":\"{}\",\"message\":", error.code).expect("memory takes all");
    string(&error.message, out);
    out.extend_from_slice(b",\"hint\":");
    string(&error.hint, out);
    if let Some(app_code) = &error.app_code {
        write!(out, ",\"app_code\":\"{app_code}\"").expect("memory takes all");
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use styx_protocol::abort::Code;
    use styx_protocol::ids::{Epoch, RequestId, Tid};

    use super::*;

    #[test]
    fn replies_are_json_on_one_line() {
        let of = |outcome, epoch| Reply { id: RequestId(1), tid: Tid(7), epoch: Epoch(epoch), outcome };
        for (given, expect) in [
            (of(Ok(b"[1, \"a\\nb\"]\n"[..].into()), 3), r#"{"id":"x","ok":[1,"a\nb"],"tid":7,"epoch":3}"#),
            (of(Ok(b""[..].into()), 3), r#"{"id":"x","ok":null,"tid":7,"epoch":3}"#),
            (of(Ok(b"\xff{"[..].into()), 3), r#"{"id":"x","ok_base64":"/3s=","tid":7,"epoch":3}"#),
            (of(Ok(b"\"\xff\""[..].into()), 3), r#"{"id":"x","ok_base64":"Iv8i","tid":7,"epoch":3}"#),
            (
                of(Err(Abort::new(Code::Aborted, "not \"enough\"\nof it")), 3),
                r#"{"id":"x","error":{"code":"ABORTED","message":"not \"enough\" of it","hint":"the function refused; nothing was written"},"tid":7,"epoch":3}"#,
            ),
            (
                of(Err(Abort::new(Code::Aborted, "no").with_app_code("SOLD_OUT")), 3),
                r#"{"id":"x","error":{"code":"ABORTED","message":"no","hint":"the function refused; nothing was written","app_code":"SOLD_OUT"},"tid":7,"epoch":3}"#,
            ),
            (
                of(Err(Abort::new(Code::Overloaded, "full")), 0),
                r#"{"id":"x","error":{"code":"OVERLOADED","message":"full","hint":"wait a moment, then send it again"}}"#,
            ),
        ] {
            let mut out = Vec::new();
            reply("\"x\"", given, false, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        }
        let mut out = Vec::new();
        reply("1", of(Ok(b"2"[..].into()), 3), true, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"id":1,"ok":2,"tid":7,"epoch":3,"replayed":true}"#);
    }
}
