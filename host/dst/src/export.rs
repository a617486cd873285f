//! Histories as others read them: what clients asked and what they were told, in the JSON lines of
//! Elle (Kingsbury, Alvaro: *Elle: Inferring Isolation Anomalies from Experimental Observations*).

use serde_json::{Value, json};

use crate::check::history::{TrackedRequest, refused};
use crate::plan::Workload;
use crate::toy::{Micro, OPERATORS, keys, micros};
use crate::world::World;

/// An invocation or a completion: when, invocations first; and the line.
type Line = (u64, bool, Value);

impl World {
    /// The history of a world whose programs are lists, one operation a line.
    pub fn export(&self) -> String {
        let lists = self.plan().workload == Some(Workload::Append);
        let mut lines: Vec<Line> = Vec::new();
        for (process, tracked) in self.requests().iter().enumerate() {
            operation(process, tracked, lists, &mut lines);
        }
        lines.sort_by_key(|(time, completion, _)| (*time, *completion));
        let numbered = lines.into_iter().enumerate().map(|(index, (time, _, mut line))| {
            line["index"] = json!(index);
            line["time"] = json!(time * 1_000);
            line.to_string()
        });
        numbered.collect::<Vec<String>>().join("\n")
    }
}

/// Every request is a process of its own: nobody waits for its end before he asks for something else.
fn operation(process: usize, tracked: &TrackedRequest, lists: bool, lines: &mut Vec<Line>) {
    let request = &tracked.request;
    let operator = request.operator.0 as u8;
    if usize::from(operator) >= OPERATORS.len() {
        return;
    }
    let micros = micros(operator, keys::intern(&request.key), &request.args[2..]);
    let line = |kind: &str, shown: Option<&[u8]>| json!({ "type": kind, "process": process, "value": values(&micros, shown, lists) });
    lines.push((tracked.submitted, false, line("invoke", None)));
    let told = tracked.told.iter().find(|(_, reply)| !refused(reply));
    if let Some((time, reply)) = told {
        let completion = match &reply.outcome {
            Ok(result) => line("ok", Some(&result[8..])),
            Err(_) => line("fail", None),
        };
        lines.push((*time, true, completion));
    }
}

/// Reads of an invocation, and of what had no effect, are not known.
fn values(micros: &[Micro], shown: Option<&[u8]>, lists: bool) -> Vec<Value> {
    let mut reads = shown.map(|shown| shown.chunks_exact(8));
    let value = |micro: &Micro| match micro {
        Micro::Append(entity, element) => json!(["append", entity.to_string(), element]),
        Micro::Write(entity, value) => json!(["w", entity.to_string(), value]),
        Micro::Read(entity) => {
            let read = reads.as_mut().map(|reads| {
                let bytes = reads.next().expect("every read is shown");
                read(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), lists)
            });
            json!(["r", entity.to_string(), read.unwrap_or(Value::Null)])
        }
    };
    micros.iter().map(value).collect()
}

/// A list is kept in the bytes of a number, the newest element last; 0 is nothing.
fn read(number: u64, lists: bool) -> Value {
    if lists {
        number.to_be_bytes().into_iter().filter(|element| *element > 0).collect()
    } else if number == 0 {
        Value::Null
    } else {
        json!(number)
    }
}
