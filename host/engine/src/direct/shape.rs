//! Which components have nothing but one core module between the contract and their code: `wit-component` makes such of what
//! the SDKs for Rust, Go and C are compiled to. Their module is exported under a name of ours when they are compiled, since
//! wasmtime gives out no other.
//!
//! What C and Go are compiled to has an `_initialize`, and its component a module more, which does nothing but start it.

use std::collections::HashMap;

use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind, Export, ExternalKind, Instance, Parser,
    Payload,
};

/// The name under which the module is exported.
pub(super) const EXPORT: &str = "styx-module";
/// The module's function that is called when all imports are there.
pub(super) const INITIALIZE: &str = "_initialize";

/// What is read of a core module.
#[derive(Default)]
struct Module<'a> {
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
    /// The function that runs when it is instantiated.
    start: Option<u32>,
}

/// A core instance.
enum Part<'a> {
    /// Of a module, by its number, with the instances that it gets.
    Instance { module: u32, with: Vec<u32> },
    /// Names for core functions by their numbers, and for what is none.
    Group(Vec<(&'a str, Option<u32>)>),
}

/// The functions of the module that the host calls.
#[derive(Default)]
struct Outer<'a> {
    modules: Vec<Module<'a>>,
    instances: Vec<Part<'a>>,
    /// The instance and the name that each core function is an export of; none if it is lowered.
    core_functions: Vec<Option<(u32, &'a str)>>,
    memories: Vec<(u32, &'a str)>,
    /// The core function behind each function of the component, and how its values travel.
    functions: HashMap<u32, (u32, Box<[CanonicalOption]>)>,
    functions_seen: u32,
    invoke: Option<u32>,
}

/// The component with its module exported, if it has that shape.
pub(crate) fn with_module_exported(component: &[u8]) -> Option<Vec<u8>> {
    let module = read(component)?.module()?;
    let mut section = vec![1, 0, EXPORT.len() as u8];
    section.extend_from_slice(EXPORT.as_bytes());
    // A core module, by its number, without a type.
    section.extend_from_slice(&[0, 0x11, module, 0]);
    let mut exported = component.to_vec();
    // An export section.
    exported.extend_from_slice(&[11, section.len() as u8]);
    exported.extend_from_slice(&section);
    Some(exported)
}

/// Reads a component; none if it has parts that such a one has not.
fn read(component: &[u8]) -> Option<Outer<'_>> {
    let mut outer = Outer::default();
    let mut inside = false;
    for payload in Parser::new(0).parse_all(component) {
        match payload.ok()? {
            Payload::ModuleSection { .. } => {
                inside = true;
                outer.modules.push(Module::default());
            }
            Payload::ComponentSection { .. } => return None,
            Payload::End(_) => inside = false,
            Payload::ImportSection(section) if inside => {
                let module = outer.modules.last_mut()?;
                for import in section.into_imports() {
                    module.imports.push(import.ok()?.module);
                }
            }
            Payload::ExportSection(section) if inside => {
                let module = outer.modules.last_mut()?;
                for export in section {
                    module.exports.push(export.ok()?.name);
                }
            }
            Payload::StartSection { func, .. } if inside => outer.modules.last_mut()?.start = Some(func),
            Payload::InstanceSection(section) => {
                for instance in section {
                    outer.instances.push(match instance.ok()? {
                        Instance::Instantiate { module_index: module, args } => {
                            Part::Instance { module, with: args.iter().map(|given| given.index).collect() }
                        }
                        Instance::FromExports(exports) => Part::Group(exports.iter().map(named).collect()),
                    });
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    outer.alias(&alias.ok()?);
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    outer.canonical(function.ok()?)?;
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    if matches!(import.ok()?.ty, wasmparser::ComponentTypeRef::Func(_)) {
                        return None;
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export.ok()?;
                    if export.name.name == EXPORT {
                        return None;
                    }
                    if export.kind == ComponentExternalKind::Func {
                        if export.name.name == "invoke" {
                            outer.invoke = Some(export.index);
                        }
                        // An export is a function of its own.
                        outer.functions_seen += 1;
                    }
                }
            }
            _ => {}
        }
    }
    Some(outer)
}

/// An export of a group of core functions.
fn named<'a>(export: &Export<'a>) -> (&'a str, Option<u32>) {
    (export.name, (export.kind == ExternalKind::Func).then_some(export.index))
}

impl<'a> Outer<'a> {
    fn alias(&mut self, alias: &ComponentAlias<'a>) {
        match *alias {
            ComponentAlias::CoreInstanceExport { kind: ExternalKind::Func, instance_index, name } => {
                self.core_functions.push(Some((instance_index, name)));
            }
            ComponentAlias::CoreInstanceExport { kind: ExternalKind::Memory, instance_index, name } => {
                self.memories.push((instance_index, name));
            }
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Func, .. } => self.functions_seen += 1,
            _ => {}
        }
    }

    fn canonical(&mut self, function: CanonicalFunction) -> Option<()> {
        match function {
            CanonicalFunction::Lift { core_func_index, options, .. } => {
                self.functions.insert(self.functions_seen, (core_func_index, options));
                self.functions_seen += 1;
            }
            CanonicalFunction::Lower { .. } => self.core_functions.push(None),
            _ => return None,
        }
        Some(())
    }

    /// The module's number, if all is as expected.
    fn module(&self) -> Option<u8> {
        let (invoke, options) = self.functions.get(&self.invoke?)?;
        let (instance, name) = self.core_function(*invoke)?;
        let module = self.module_of(instance)?;
        let is_of_it = |found: Option<(u32, &str)>, called: &str| found == Some((instance, called));
        let as_expected = options.iter().all(|option| match *option {
            CanonicalOption::UTF8 => true,
            CanonicalOption::Memory(at) => is_of_it(self.memories.get(at as usize).copied(), "memory"),
            CanonicalOption::Realloc(at) => is_of_it(self.core_function(at), "cabi_realloc"),
            _ => false,
        });
        // The others only pass calls on, since a memory is there after what uses it, or start what this one begins with.
        let alone = self.modules.iter().enumerate().all(|(at, other)| {
            if at == module as usize {
                other.imports.iter().all(|from| from.starts_with("styx:guest/") && from.ends_with("@0.2.0"))
                    && ["memory", "cabi_realloc", "invoke"].iter().all(|name| other.exports.contains(name))
            } else {
                other.imports.iter().all(|from| from.is_empty())
            }
        });
        let starts: Vec<u32> = (0..self.modules.len() as u32).filter(|&at| at != module && self.starts(at)).collect();
        let initialized = self.modules.get(module as usize)?.exports.contains(&INITIALIZE);
        let started = match starts[..] {
            [] => !initialized,
            [starter] => initialized && self.starts_only(starter, instance),
            _ => false,
        };
        let others = 2 + starts.len();
        let fits = name == "invoke" && as_expected && alone && started && self.modules.len() <= 1 + others;
        u8::try_from(module).ok().filter(|&module| fits && module < 0x80)
    }

    /// The module of a core instance.
    fn module_of(&self, instance: u32) -> Option<u32> {
        match self.instances.get(instance as usize)? {
            Part::Instance { module, .. } => Some(*module),
            Part::Group(_) => None,
        }
    }

    /// Whether code of a module runs when it is instantiated.
    fn starts(&self, module: u32) -> bool {
        self.modules.get(module as usize).is_some_and(|module| module.start.is_some())
    }

    /// Whether a module is instantiated once, and starts nothing but what that instance begins with: it has one import, which
    /// it starts.
    fn starts_only(&self, module: u32, main: u32) -> bool {
        let is_one = |of: &Module<'_>| of.imports == [""] && of.start == Some(0);
        let mut given = self.instances.iter().filter_map(|part| match part {
            Part::Instance { module: of, with } if *of == module => Some(with.as_slice()),
            _ => None,
        });
        let (Some(&[group]), None) = (given.next(), given.next()) else { return false };
        let Some(Part::Group(names)) = self.instances.get(group as usize) else { return false };
        let [("", Some(function))] = names[..] else { return false };
        self.modules.get(module as usize).is_some_and(is_one)
            && self.core_function(function) == Some((main, INITIALIZE))
    }

    fn core_function(&self, at: u32) -> Option<(u32, &'a str)> {
        *self.core_functions.get(at as usize)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component of a module that imports `from`, with something besides.
    fn component(from: &str, besides: &str, option: &str) -> Vec<u8> {
        wat::parse_str(format!(
            r#"(component
              (import "styx:guest/context@0.2.0" (instance $context (export "tid" (func (result u64)))))
              (core module $Main
                (import "{from}" "tid" (func (result i64)))
                (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8))
                (func (export "invoke") (param i32 i32) (result i32) (i32.const 128)))
              (core func $tid (canon lower (func $context "tid")))
              (core instance $main (instantiate $Main (with "{from}" (instance (export "tid" (func $tid))))))
              {besides}
              (func (export "invoke") (param "name" string) (result string) (canon lift (core func $main "invoke")
                (memory (core memory $main "memory")) (realloc (core func $main "cabi_realloc")) {option})))"#
        ))
        .unwrap_or_else(|error| panic!("{error}"))
    }

    const CONTEXT: &str = "styx:guest/context@0.2.0";

    /// A module that starts `starts`, and exports what it begins with as `exported`.
    fn initialized(exported: &str, starts: &str) -> Vec<u8> {
        let text = |more: &str| {
            format!(
                r#"(component
              (core module $Main
                (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8))
                (func (export "{exported}"))
                (func (export "other"))
                (func (export "invoke") (param i32 i32) (result i32) (i32.const 128)))
              (core instance $main (instantiate $Main))
              {more}
              (func (export "invoke") (param "name" string) (result string) (canon lift (core func $main "invoke")
                (memory (core memory $main "memory")) (realloc (core func $main "cabi_realloc")))))"#
            )
        };
        let starter = r#"(core module $Starter (import "" "" (func $f)) (start $f))"#;
        let instance = |starts: &str| {
            format!(
                r#"(core instance (instantiate $Starter (with "" (instance (export "" (func $main "{starts}"))))))"#
            )
        };
        let more = match starts {
            "" => String::new(),
            "twice" => [starter, &instance(exported), &instance(exported)].concat(),
            "more" => {
                let starter =
                    r#"(core module $Starter (import "" "" (func $f)) (func $g (call $f) (call $f)) (start $g))"#;
                [starter, &instance(exported)].concat()
            }
            starts => [starter, &instance(starts)].concat(),
        };
        wat::parse_str(text(&more)).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_is_started_is_what_the_module_begins_with() {
        assert!(with_module_exported(&initialized("unused", "")).is_some());
        assert!(with_module_exported(&initialized(INITIALIZE, INITIALIZE)).is_some());
        for (exported, starts) in
            [(INITIALIZE, ""), (INITIALIZE, "other"), ("unused", "other"), (INITIALIZE, "twice"), (INITIALIZE, "more")]
        {
            assert_eq!(with_module_exported(&initialized(exported, starts)), None, "{exported}, {starts}");
        }
    }

    #[test]
    fn the_module_of_a_plain_component_is_exported_once() {
        let plain = component(CONTEXT, "", "");
        let exported = with_module_exported(&plain).expect("it has the shape");
        wasmparser::Validator::new_with_features(crate::config::FEATURES).validate_all(&exported).unwrap();
        assert!(exported.starts_with(&plain));
        assert_eq!(with_module_exported(&exported), None);
    }

    #[test]
    fn what_has_something_besides_is_left_to_wasmtime() {
        let afterwards = r#"(core module $After (func (export "after") (param i32)))
            (core instance $after (instantiate $After))"#;
        assert!(with_module_exported(&component(CONTEXT, afterwards, "")).is_some());
        let other = r#"(core module $Other (import "x" "f" (func)))"#;
        for component in [
            component("styx:guest/context@0.1.0", "", ""),
            component("elsewhere", "", ""),
            component(CONTEXT, other, ""),
            component(CONTEXT, "(component)", ""),
            component(CONTEXT, "", "string-encoding=utf16"),
            component(CONTEXT, afterwards, r#"(post-return (core func $after "after"))"#),
        ] {
            assert_eq!(with_module_exported(&component), None);
        }
        assert_eq!(with_module_exported(b"\0asm\x0d\0\x01\0"), None);
        assert_eq!(with_module_exported(b"no component"), None);
    }
}
