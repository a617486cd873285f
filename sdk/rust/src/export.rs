//! From a list of operators to the exports of the component.

use crate::describe::OperatorDescription;
use crate::{Abort, Context, Result};

/// The operators of a component. Implemented by [`export!`](crate::export).
pub trait Exports {
    /// Describes every operator.
    fn describe() -> Vec<OperatorDescription>;

    /// Runs a function; `None` if there is no such operator.
    fn invoke(operator: &str, function: &str, context: &mut Context, arguments: &[u8]) -> Option<Result<Vec<u8>>>;
}

/// The failure of a call to a function that the operator does not have.
#[cold]
pub fn unknown_function(operator: &str, function: &str) -> Abort {
    Abort::with_code("UNKNOWN_FUNCTION", format!("operator {operator} has no function {function}"))
}

/// Exports operators from the component; once per guest, in its `lib.rs`:
/// `styx_sdk::export!(Stock, Order);`
#[macro_export]
macro_rules! export {
    ($($operator:ty),+ $(,)?) => {
        const _: () = {
            struct Component;

            impl $crate::__private::Exports for Component {
                fn describe() -> ::std::vec::Vec<$crate::OperatorDescription> {
                    ::std::vec![$(<$operator as $crate::Operator>::describe()),+]
                }

                fn invoke(
                    operator: &str,
                    function: &str,
                    context: &mut $crate::Context,
                    arguments: &[u8],
                ) -> ::core::option::Option<$crate::Result<::std::vec::Vec<u8>>> {
                    $(if operator == <$operator as $crate::Operator>::NAME {
                        return ::core::option::Option::Some(
                            <$operator as $crate::Operator>::invoke(function, context, arguments),
                        );
                    })+
                    ::core::option::Option::None
                }
            }

            // What only a component calls is not taken for unused.
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = {
                let _ = <Component as $crate::__private::Exports>::describe;
                let _ = <Component as $crate::__private::Exports>::invoke;
            };

            #[cfg(target_arch = "wasm32")]
            $crate::__private::component::bindings::export!(Component with_types_in $crate::__private::component::bindings);

            #[cfg(target_arch = "wasm32")]
            #[unsafe(export_name = "invoke")]
            unsafe extern "C" fn invoke(
                bytes: *mut u8,
                length: usize,
                function_end: usize,
                key_end: usize,
                arguments_end: usize,
                entity: u32,
                tid: u64,
                time: u64,
            ) -> *const $crate::__private::component::Returned {
                let parts = (bytes, length, function_end, key_end, arguments_end, entity, tid, time);
                unsafe { $crate::__private::component::invoke::<Component>(parts) }
            }
        };
    };
}

/// The exports of the world `function`, in terms of [`Exports`].
#[cfg(target_arch = "wasm32")]
pub mod component {
    use super::Exports;
    use crate::describe as sdk;
    use crate::host::invocation::{self, Parts};
    use crate::{Abort, Context, Level, host};

    pub use crate::host::bindings;
    pub use crate::host::invocation::Returned;
    use bindings::styx::guest::types;

    impl<T: Exports> bindings::Guest for T {
        fn describe() -> types::Description {
            types::Description {
                sdk: concat!("styx-rust ", env!("CARGO_PKG_VERSION")).into(),
                operators: T::describe().into_iter().map(operator).collect(),
            }
        }
    }

    /// Runs an invocation.
    ///
    /// # Safety
    /// The parts are as the host gave them. What is returned is valid until the next invocation.
    pub unsafe fn invoke<T: Exports>(parts: Parts) -> *const Returned {
        report_panics();
        let run = |function: &str, key: &'static str, arguments: &[u8]| {
            let (operator, function) = function.split_once('.').unwrap_or(("", function));
            T::invoke(operator, function, &mut Context::new(key), arguments)
                .unwrap_or_else(|| Err(unknown_operator(operator)))
        };
        // SAFETY: as of this function.
        unsafe { invocation::invoke(parts, run) }
    }

    #[cold]
    fn unknown_operator(operator: &str) -> Abort {
        Abort::with_code("UNKNOWN_OPERATOR", format!("this component has no operator {operator:?}"))
    }

    /// A panic ends in a trap, which carries no message: log it before.
    fn report_panics() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static INSTALLED: AtomicBool = AtomicBool::new(false);
        if !INSTALLED.swap(true, Ordering::Relaxed) {
            std::panic::set_hook(Box::new(|panic| host::log(Level::Error, &panic.to_string())));
        }
    }

    fn operator(operator: sdk::OperatorDescription) -> types::OperatorDescription {
        types::OperatorDescription {
            name: operator.name.into(),
            key_prefix: operator.key_prefix.map(Into::into),
            doc: operator.doc.into(),
            functions: operator.functions.into_iter().map(function).collect(),
        }
    }

    fn function(function: sdk::FunctionDescription) -> types::FunctionDescription {
        types::FunctionDescription {
            name: function.name.into(),
            parameters: function.parameters.into_iter().map(parameter).collect(),
            returns: function.returns,
            read_only: function.read_only,
            doc: function.doc.into(),
        }
    }

    fn parameter(parameter: sdk::ParameterDescription) -> types::Parameter {
        types::Parameter { name: parameter.name.into(), schema: parameter.schema, required: parameter.required }
    }
}
