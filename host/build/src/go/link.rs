//! One module of two: the guest's as Go's linker made it, and the [support](../support.wat) that takes an operating
//! system's place.
//!
//! An import of the guest named `module.name` in the support's exports becomes a call of it; another of the operating
//! system becomes a function that returns an error; others, those of the contract, stay. What the support exports
//! without a module's name is what the component exports.

use std::collections::{BTreeMap, BTreeSet};

use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{
    CodeSection, DataSection, ElementSection, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    GlobalSection, ImportSection, Instruction, MemorySection, Module, NameSection, TableSection, TypeSection, ValType,
};
use wasmparser::{ExternalKind, FuncType, KnownCustom, Name, Parser, Payload, TypeRef};

use super::branches;

/// What guests import their operating system from.
const SYSTEM: &str = "wasi_snapshot_preview1";
/// What the support imports the guest from.
const GUEST: &str = "guest";
/// The functions that a guest without the SDK does not have.
const INVOKE: &str = "styx_invoke";
/// "No such file descriptor", for all calls on one, and "not there", for all others.
const ERRORS: [i32; 2] = [8, 52];

type Failed = Error<std::convert::Infallible>;

/// A module as it was read.
struct Parts<'a> {
    payloads: Vec<Payload<'a>>,
    types: Vec<FuncType>,
    /// Module, name, type.
    imports: Vec<(&'a str, &'a str, u32)>,
    /// Types of the functions that it defines.
    functions: Vec<u32>,
    globals: u32,
    /// Exported functions by name.
    exports: BTreeMap<&'a str, u32>,
}

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, wasmparser::BinaryReaderError> {
        let mut parts = Self {
            payloads: Vec::new(),
            types: Vec::new(),
            imports: Vec::new(),
            functions: Vec::new(),
            globals: 0,
            exports: BTreeMap::new(),
        };
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            match &payload {
                Payload::TypeSection(section) => {
                    for each in section.clone().into_iter_err_on_gc_types() {
                        parts.types.push(each?);
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.clone().into_imports() {
                        let import = import?;
                        if let TypeRef::Func(kind) = import.ty {
                            parts.imports.push((import.module, import.name, kind));
                        }
                    }
                }
                Payload::FunctionSection(section) => {
                    parts.functions = section.clone().into_iter().collect::<Result<_, _>>()?;
                }
                Payload::GlobalSection(section) => parts.globals = section.count(),
                Payload::ExportSection(section) => {
                    for export in section.clone() {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            parts.exports.insert(export.name, export.index);
                        }
                    }
                }
                _ => {}
            }
            parts.payloads.push(payload);
        }
        Ok(parts)
    }
}

/// Gives what one of the modules counts the numbers that it has in both.
struct Renumber {
    functions: Vec<u32>,
    types: u32,
    globals: u32,
}

impl Reencode for Renumber {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, Failed> {
        Ok(self.functions[index as usize])
    }

    fn type_index(&mut self, index: u32) -> Result<u32, Failed> {
        Ok(self.types + index)
    }

    fn global_index(&mut self, index: u32) -> Result<u32, Failed> {
        Ok(self.globals + index)
    }
}

/// Why two modules cannot become one.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The guest exports nothing of what the SDK does.
    NoSdk,
    /// A module is not as expected.
    Unreadable(String),
}

impl From<wasmparser::BinaryReaderError> for LinkError {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<Failed> for LinkError {
    fn from(error: Failed) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// Merges the support into the guest.
pub fn link(guest: &[u8], support: &[u8]) -> Result<Vec<u8>, LinkError> {
    let (guest, support) = (Parts::read(guest)?, Parts::read(support)?);
    if !guest.exports.contains_key(INVOKE) {
        return Err(LinkError::NoSdk);
    }
    let support_types = guest.types.len() as u32;

    // Imports come first in the numbers of functions: those that stay, each once.
    let provided = |module: &str, name: &str| support.exports.get(format!("{module}.{name}").as_str()).copied();
    let stays = |module: &str, name: &str| module != SYSTEM && module != GUEST && provided(module, name).is_none();
    let mut imports: Vec<(&str, &str, u32)> = Vec::new();
    let all = guest.imports.iter().map(|&(module, name, kind)| (module, name, kind));
    let all = all.chain(support.imports.iter().map(|&(module, name, kind)| (module, name, support_types + kind)));
    let mut seen = BTreeSet::new();
    for (module, name, kind) in all {
        if stays(module, name) && seen.insert((module, name)) {
            imports.push((module, name, kind));
        }
    }
    let number = |module: &str, name: &str| {
        imports.iter().position(|import| (import.0, import.1) == (module, name)).map(|position| position as u32)
    };

    // Then the guest's functions, the support's, and one for each other call of the operating system.
    let first_guest = imports.len() as u32;
    let first_support = first_guest + guest.functions.len() as u32;
    let mut next = first_support + support.functions.len() as u32;
    let mut refused: Vec<(u32, i32)> = Vec::new();
    let support_number = |index: u32| first_support + index - support.imports.len() as u32;
    let mut guest_functions = Vec::with_capacity(guest.imports.len() + guest.functions.len());
    for &(module, name, kind) in &guest.imports {
        guest_functions.push(match (number(module, name), provided(module, name)) {
            (Some(number), _) => number,
            (None, Some(index)) => support_number(index),
            (None, None) => {
                refused.push((kind, ERRORS[usize::from(!name.starts_with("fd_"))]));
                next += 1;
                next - 1
            }
        });
    }
    guest_functions.extend((0..guest.functions.len() as u32).map(|index| first_guest + index));
    let mut support_functions = Vec::new();
    for &(module, name, _) in &support.imports {
        let of_guest = || guest.exports.get(name).map(|index| guest_functions[*index as usize]);
        support_functions.push(
            number(module, name)
                .or_else(of_guest)
                .ok_or_else(|| LinkError::Unreadable(format!("the module does not export {name}")))?,
        );
    }
    support_functions.extend((0..support.functions.len() as u32).map(|index| first_support + index));

    let mut of_guest = Renumber { functions: guest_functions, types: 0, globals: 0 };
    let mut of_support = Renumber { functions: support_functions, types: support_types, globals: guest.globals };
    let mut sections = Sections::default();
    for &(module, name, kind) in &imports {
        sections.imports.import(module, name, EntityType::Function(kind));
    }
    sections.add(&mut of_guest, &guest, true)?;
    sections.add(&mut of_support, &support, false)?;
    for (name, index) in &guest.exports {
        if *name == "_initialize" {
            sections.exports.export(name, ExportKind::Func, of_guest.functions[*index as usize]);
        }
    }
    for (name, index) in support.exports.iter().filter(|(name, _)| !name.contains('.')) {
        sections.exports.export(name, ExportKind::Func, of_support.functions[*index as usize]);
    }
    sections.exports.export("memory", ExportKind::Memory, 0);
    for (kind, error) in refused {
        sections.functions.function(kind);
        let mut function = Function::new([]);
        match guest.types[kind as usize].results() {
            [wasmparser::ValType::I32] => function.instruction(&Instruction::I32Const(error)),
            _ => function.instruction(&Instruction::Unreachable),
        };
        function.instruction(&Instruction::End);
        sections.code.function(&function);
    }
    Ok(sections.finish())
}

/// The sections of the module in the making.
#[derive(Default)]
struct Sections {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    code: CodeSection,
    data: DataSection,
    names: NameSection,
}

impl Sections {
    fn add(&mut self, renumber: &mut Renumber, parts: &Parts<'_>, is_guest: bool) -> Result<(), LinkError> {
        for payload in &parts.payloads {
            match payload {
                Payload::TypeSection(section) => {
                    for kind in &parts.types {
                        let values = |values: &[wasmparser::ValType]| {
                            values.iter().map(|value| ValType::try_from(*value)).collect::<Result<Vec<_>, _>>()
                        };
                        let unknown = |_| LinkError::Unreadable("a type is not a number".into());
                        let (from, to) = (values(kind.params()), values(kind.results()));
                        self.types.ty().function(from.map_err(unknown)?, to.map_err(unknown)?);
                    }
                    debug_assert_eq!(section.count() as usize, parts.types.len());
                }
                Payload::FunctionSection(section) => {
                    renumber.parse_function_section(&mut self.functions, section.clone())?;
                }
                Payload::TableSection(section) => renumber.parse_table_section(&mut self.tables, section.clone())?,
                Payload::MemorySection(section) => {
                    renumber.parse_memory_section(&mut self.memories, section.clone())?
                }
                Payload::GlobalSection(section) => renumber.parse_global_section(&mut self.globals, section.clone())?,
                Payload::ElementSection(section) => {
                    renumber.parse_element_section(&mut self.elements, section.clone())?;
                }
                Payload::CodeSectionEntry(body) if is_guest => branches::reencode(renumber, &mut self.code, body)?,
                Payload::CodeSectionEntry(body) => renumber.parse_function_body(&mut self.code, body.clone())?,
                Payload::DataSection(section) => renumber.parse_data_section(&mut self.data, section.clone())?,
                // Names of the guest's functions are for the backtraces of traps.
                Payload::CustomSection(section) if is_guest => {
                    if let KnownCustom::Name(names) = section.as_known() {
                        self.functions_names(renumber, names)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn functions_names(
        &mut self,
        renumber: &mut Renumber,
        names: wasmparser::NameSectionReader<'_>,
    ) -> Result<(), LinkError> {
        for subsection in names {
            let subsection = subsection?;
            if let Name::Function(_) = &subsection {
                renumber.parse_custom_name_subsection(&mut self.names, subsection)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Vec<u8> {
        let mut module = Module::new();
        module
            .section(&self.types)
            .section(&self.imports)
            .section(&self.functions)
            .section(&self.tables)
            .section(&self.memories)
            .section(&self.globals)
            .section(&self.exports)
            .section(&self.elements)
            .section(&self.code)
            .section(&self.data)
            .section(&self.names);
        module.finish()
    }
}
