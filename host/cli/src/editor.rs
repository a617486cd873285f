//! `styx editor`.

use std::path::Path;

use serde_json::{Value, json};
use styx_build::Pointer;

use crate::error::CliError;
use crate::output::Output;

pub(crate) fn run(source: &Path, output: &Output) -> Result<(), CliError> {
    let pointers = styx_build::point_editors(source).map_err(crate::build::refused)?;
    let values: Vec<Value> = pointers.iter().map(value).collect();
    if output.is_json() {
        output.value(&json!(values));
    }
    for pointer in &pointers {
        match pointer {
            Pointer::Written(file) => {
                output.done(&format!("{} says where the SDK is, on this machine: keep it out of git", file.display()));
            }
            Pointer::Lacks { file, text } => {
                output.note(&format!("{} is yours; it should say this as well:", file.display()));
                if !output.is_json() {
                    text.lines().for_each(|line| output.line(line));
                }
            }
        }
    }
    if pointers.is_empty() {
        output.note("the app's sources say by themselves where their SDK is");
    }
    Ok(())
}

fn value(pointer: &Pointer) -> Value {
    match pointer {
        Pointer::Written(file) => json!({ "written": file }),
        Pointer::Lacks { file, text } => json!({ "lacks": file, "text": text }),
    }
}
