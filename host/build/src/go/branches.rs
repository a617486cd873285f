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

#[cfg(test)]
mod tests {
    use wasm_encoder::Module;
    use wasmparser::{Parser, Payload, Validator};
    use wasmtime::{Config, Engine, Instance, Store};

    use super::*;

    /// Steps until a number is 1, as Go writes a function with a loop; `$other` is more of its second block.
    fn collatz(other: &str) -> Vec<u8> {
        let text = format!(
            "(module (func (export \"steps\") (param $next i32) (param $n i32) (result i32) (local $steps i32)
                loop $top
                  block $4 block $3 block $2 block $1 block $0
                    local.get $next
                    br_table $0 $1 $2 $3 $4
                  end
                    local.get $n  i32.const 1  i32.le_u
                    if
                      i32.const 3  local.set $next  br $top
                    end
                    local.get $steps  i32.const 1  i32.add  local.set $steps
                    local.get $n  i32.const 1  i32.and
                    if
                      i32.const 2  local.set $next  br $top
                    else
                      i32.const 1  local.set $next  br $top
                    end
                    unreachable
                  end
                    {other}
                    local.get $n  i32.const 1  i32.shr_u  local.set $n
                    i32.const 0  local.set $next  br $top
                  end
                    local.get $n  i32.const 3  i32.mul  i32.const 1  i32.add  local.set $n
                    i32.const 0  local.set $next  br $top
                  end
                    local.get $steps  return
                  end
                    i32.const 100  local.set $next
                    i32.const 1  local.get $next  i32.add  return
                end
                unreachable))"
        );
        wat::parse_str(text).unwrap()
    }

    struct Direct;

    impl Reencode for Direct {
        type Error = std::convert::Infallible;

        fn parse_function_body(
            &mut self,
            code: &mut CodeSection,
            body: FunctionBody<'_>,
        ) -> Result<(), wasm_encoder::reencode::Error<Self::Error>> {
            reencode(self, code, &body)
        }
    }

    fn direct(module: &[u8]) -> Vec<u8> {
        let mut made = Module::new();
        Direct.parse_core_module(&mut made, Parser::new(0), module).unwrap();
        let made = made.finish();
        Validator::new().validate_all(&made).unwrap();
        made
    }

    /// Jumps by the table.
    fn jumps(module: &[u8]) -> usize {
        let operators = |payload| match payload {
            Payload::CodeSectionEntry(body) => body.get_operators_reader().unwrap().into_iter().collect(),
            _ => Vec::new(),
        };
        let all = Parser::new(0).parse_all(module).flat_map(|payload| operators(payload.unwrap()));
        all.filter(|operator| matches!(operator, Ok(Operator::LocalSet { local_index: NEXT }))).count()
    }

    /// What it gives, begun at a block, and the fuel that it takes.
    fn run(module: &[u8], next: u32, n: u32) -> (u32, u64) {
        let mut config = Config::new();
        config.consume_fuel(true);
        let engine = Engine::new(&config).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_fuel(1 << 30).unwrap();
        let module = wasmtime::Module::new(&engine, module).unwrap();
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let steps = instance.get_typed_func::<(u32, u32), u32>(&mut store, "steps").unwrap();
        (steps.call(&mut store, (next, n)).unwrap(), (1 << 30) - store.get_fuel().unwrap())
    }

    #[test]
    fn a_function_with_direct_jumps_does_the_same_with_less() {
        let before = collatz("");
        let after = direct(&before);
        assert_eq!((jumps(&before), jumps(&after)), (6, 3), "those back stay, and so does what is read");
        for next in [0, 1, 2, 3, 4, 5, u32::MAX] {
            for n in [0, 1, 2, 3, 6, 7, 27, 97] {
                let (expected, fuel) = run(&before, next, n);
                let (found, less) = run(&after, next, n);
                assert_eq!(found, expected, "{n} from {next}");
                assert!(less <= fuel && (n < 2 || next > 2 || less < fuel), "{n} from {next}: {less} of {fuel}");
            }
        }
        assert_eq!(run(&after, 0, 27).0, 111);
    }

    #[test]
    fn a_function_that_is_otherwise_than_go_writes_it_stays_as_it_is() {
        for other in [
            "local.get $steps  br_if $top",
            "local.get $steps  local.tee $next  drop",
            "local.get $next  drop",
            "local.get $steps  local.set $next  br $top",
            "block block local.get $steps  br_table 0 1 end end",
        ] {
            let module = collatz(other);
            assert_eq!(direct(&module), direct(&direct(&module)), "{other}");
            assert_eq!(jumps(&direct(&module)), jumps(&module), "{other}");
        }
        let plain = wat::parse_str("(module (func (param i32) loop local.get 0 br_if 0 end))").unwrap();
        assert_eq!(jumps(&direct(&plain)), 0);
    }
}
