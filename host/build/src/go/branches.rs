//! Jumps inside of a function, as the code had them before Go's compiler gave them up.
//!
//! A function has to go on in its middle when a goroutine does. Go therefore puts a table of all basic blocks at its start, in a
//! loop, and every jump sets the number of a block and goes back to that table, an `if` as well as a `for`: an indirect jump each
//! time, a check of the fuel, and registers that have to agree for all jumps of the function. A block that lies ahead can be
//! jumped to as it is, since what surrounds it is still open.

use wasm_encoder::reencode::Reencode;
use wasm_encoder::{CodeSection, Instruction};
use wasmparser::{BlockType, FunctionBody, Operator};

/// The local in which the number of the next block is.
const NEXT: u32 = 0;

/// What becomes of an instruction.
#[derive(Clone, Copy)]
enum Fate {
    Stays,
    Goes,
    /// It is a branch to this label.
    Branch(u32),
}

/// Writes a function of the guest, with jumps that are direct.
pub fn reencode<R: Reencode>(
    reencoder: &mut R,
    code: &mut CodeSection,
    body: &FunctionBody<'_>,
) -> Result<(), wasm_encoder::reencode::Error<R::Error>> {
    let operators = body.get_operators_reader()?.into_iter().collect::<Result<Vec<_>, _>>()?;
    let fates = Jumps::find(&operators).and_then(|jumps| jumps.fates());
    let mut function = reencoder.new_function_with_parsed_locals(body)?;
    for (at, operator) in operators.into_iter().enumerate() {
        match fates.as_ref().map_or(Fate::Stays, |fates| fates[at]) {
            Fate::Stays => {
                function.instruction(&reencoder.instruction(operator)?);
            }
            Fate::Goes => {}
            Fate::Branch(label) => {
                function.instruction(&Instruction::Br(label));
            }
        }
    }
    code.function(&function);
    Ok(())
}

/// A function that has a table of its blocks in a loop.
struct Jumps<'a, 'b> {
    operators: &'a [Operator<'b>],
    /// Where the loop begins, and where the table is.
    start: usize,
    table: usize,
    /// For each number of a block, and for all others, the label of its end at the table.
    labels: Vec<u32>,
}

impl<'a, 'b> Jumps<'a, 'b> {
    fn find(operators: &'a [Operator<'b>]) -> Option<Self> {
        let start = operators.iter().position(|operator| matches!(operator, Operator::Loop { .. }))?;
        let is_block = |operator: &&Operator<'_>| matches!(operator, Operator::Block { blockty: BlockType::Empty });
        let blocks = operators[start + 1..].iter().take_while(is_block).count();
        let table = start + blocks + 2;
        let [Operator::LocalGet { local_index: NEXT }, Operator::BrTable { targets }] =
            operators.get(table - 1..=table)?
        else {
            return None;
        };
        let mut labels = targets.targets().collect::<Result<Vec<_>, _>>().ok()?;
        labels.push(targets.default());
        labels.iter().all(|label| (*label as usize) < blocks).then_some(Self { operators, start, table, labels })
    }

    /// What becomes of each instruction; nothing if anything is not as Go's compiler writes it.
    fn fates(&self) -> Option<Vec<Fate>> {
        let mut fates = vec![Fate::Stays; self.operators.len()];
        // Where what is open began.
        let mut open = Vec::new();
        let mut open_at_table = Vec::new();
        for (at, operator) in self.operators.iter().enumerate() {
            let is_loop = |label: u32| {
                let depth = open.len().checked_sub(1 + label as usize);
                depth.is_some_and(|depth| open[depth] == self.start)
            };
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => open.push(at),
                // The last one is the function's own.
                Operator::End => drop(open.pop()),
                Operator::BrTable { .. } if at == self.table => open_at_table = open.clone(),
                Operator::BrTable { .. } => return None,
                Operator::BrIf { relative_depth } if is_loop(*relative_depth) => return None,
                Operator::LocalTee { local_index: NEXT } => return None,
                // A place for something else, in between.
                Operator::LocalGet { local_index: NEXT } if at + 1 != self.table => {
                    let [.., Operator::LocalSet { local_index: NEXT }, Operator::I32Const { .. }] =
                        self.operators[..at]
                    else {
                        return None;
                    };
                }
                Operator::Br { relative_depth } if is_loop(*relative_depth) => {
                    let [.., Operator::I32Const { value }, Operator::LocalSet { local_index: NEXT }] =
                        self.operators[..at]
                    else {
                        return None;
                    };
                    let number = usize::try_from(value).unwrap_or(usize::MAX).min(self.labels.len() - 1);
                    let depth = open_at_table.len().checked_sub(1 + self.labels[number] as usize)?;
                    if open.get(depth) == Some(&open_at_table[depth]) {
                        fates[at - 2..at].fill(Fate::Goes);
                        fates[at] = Fate::Branch((open.len() - 1 - depth) as u32);
                    }
                }
                _ => {}
            }
        }
        Some(fates)
    }
}
