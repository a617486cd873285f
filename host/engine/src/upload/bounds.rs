//! Bounds on what is compiled, checked in one pass before anything expensive: compile time is an
//! attack. What gets by is still compiled under the kernel's limits.

use wasmparser::{Operator, Parser, Payload};

use super::error::{UploadCode, UploadError};

pub const COMPONENT_BYTES_MAX: usize = 64 << 20;

// CPython in one component, the largest guest known, needs a third of each of these at most.
const NESTING_MAX: usize = 8;
const MODULES_MAX: u64 = 64;
const FUNCTIONS_MAX: u64 = 100_000;
const TYPES_MAX: u64 = 50_000;
const ITEMS_MAX: u64 = 200_000;
const DATA_SEGMENTS_MAX: u64 = 100_000;

const BODY_BYTES_MAX: u64 = 3 << 19;
const LOCALS_MAX: u64 = 5_000;
const BLOCKS_DEEP_MAX: usize = 2_500;
/// Locals times depth of loops: what the register allocator's time grows with, squared.
const LOCALS_IN_LOOPS_MAX: u64 = 20_000;
const LOCALS_IN_ALL_LOOPS_MAX: u64 = 1_000_000;
const BRANCHES_IN_TABLE_MAX: u64 = 10_000;
const BRANCHES_IN_BODY_MAX: u64 = 50_000;
const BRANCHES_MAX: u64 = 400_000;

/// Something that is counted against a bound over the whole component.
struct Count {
    what: &'static str,
    seen: u64,
    max: u64,
}

impl Count {
    const fn new(what: &'static str, max: u64) -> Self {
        Count { what, seen: 0, max }
    }

    fn add(&mut self, count: impl Into<u64>) -> Result<(), UploadError> {
        self.seen = self.seen.saturating_add(count.into());
        within(self.what, self.seen, self.max)
    }
}

fn within(what: &str, seen: u64, max: u64) -> Result<(), UploadError> {
    if seen <= max {
        return Ok(());
    }
    Err(UploadError::new(
        UploadCode::TooComplex,
        format!("the component has {what}: {seen}, and at most {max} are allowed"),
        "split it into smaller components, or leave generated code out",
    ))
}

/// Walks a component and its nested modules once, counting.
pub(super) fn check(bytes: &[u8]) -> Result<(), UploadError> {
    let mut modules = Count::new("nested modules and components", MODULES_MAX);
    let mut functions = Count::new("functions", FUNCTIONS_MAX);
    let mut types = Count::new("types", TYPES_MAX);
    let mut items = Count::new("imports, exports, globals, tables and element segments", ITEMS_MAX);
    let mut segments = Count::new("data segments", DATA_SEGMENTS_MAX);
    let mut branches = Count::new("branch-table targets", BRANCHES_MAX);
    let mut live = Count::new("locals in nested loops, over all functions", LOCALS_IN_ALL_LOOPS_MAX);
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(damaged)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                modules.add(1u32)?;
                depth += 1;
                within("components nested in each other", depth as u64, NESTING_MAX as u64)?;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::TypeSection(section) => types.add(section.count())?,
            Payload::CoreTypeSection(section) => types.add(section.count())?,
            Payload::ComponentTypeSection(section) => types.add(section.count())?,
            Payload::FunctionSection(section) => functions.add(section.count())?,
            Payload::ImportSection(section) => items.add(section.count())?,
            Payload::ExportSection(section) => items.add(section.count())?,
            Payload::GlobalSection(section) => items.add(section.count())?,
            Payload::TableSection(section) => items.add(section.count())?,
            Payload::ElementSection(section) => items.add(section.count())?,
            Payload::ComponentCanonicalSection(section) => items.add(section.count())?,
            Payload::ComponentImportSection(section) => items.add(section.count())?,
            Payload::ComponentExportSection(section) => items.add(section.count())?,
            Payload::DataSection(section) => segments.add(section.count())?,
            Payload::CodeSectionEntry(body) => check_body(&body, &mut branches, &mut live)?,
            _ => {}
        }
    }
    Ok(())
}

/// Bounds of one function: what makes compilers superlinear.
fn check_body(body: &wasmparser::FunctionBody<'_>, branches: &mut Count, live: &mut Count) -> Result<(), UploadError> {
    within("bytes in one function", body.range().len() as u64, BODY_BYTES_MAX)?;
    let mut locals = 0u64;
    for group in body.get_locals_reader().map_err(damaged)? {
        locals = locals.saturating_add(u64::from(group.map_err(damaged)?.0));
        within("locals in one function", locals, LOCALS_MAX)?;
    }
    // Blocks that are open, and whether each is a loop.
    let (mut open, mut loops, mut loops_deepest, mut branches_here) = (vec![false], 0u64, 0u64, 0u64);
    let mut operators = body.get_operators_reader().map_err(damaged)?;
    while !operators.eof() {
        let operator = operators.read().map_err(damaged)?;
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                let is_loop = matches!(operator, Operator::Loop { .. });
                open.push(is_loop);
                loops += u64::from(is_loop);
                loops_deepest = loops_deepest.max(loops);
                within("blocks nested in each other", open.len() as u64, BLOCKS_DEEP_MAX as u64)?;
                within("locals in nested loops of one function", locals * loops, LOCALS_IN_LOOPS_MAX)?;
            }
            Operator::End => loops -= u64::from(open.pop().unwrap_or(false)),
            Operator::BrTable { targets } => {
                within("targets in one branch table", u64::from(targets.len()), BRANCHES_IN_TABLE_MAX)?;
                branches_here += u64::from(targets.len()) + 1;
                within("branch-table targets in one function", branches_here, BRANCHES_IN_BODY_MAX)?;
                branches.add(targets.len())?;
            }
            _ => {}
        }
    }
    live.add(locals * loops_deepest)
}

fn damaged(error: wasmparser::Error) -> UploadError {
    UploadError::new(
        UploadCode::NotAComponent,
        format!("the component is damaged: {error}"),
        "build it again, and upload the file as it is",
    )
}
