//! The program `styx`.

use std::process::ExitCode;

/// Requests are many small allocations on several threads.
#[global_allocator]
static ALLOCATOR: styx_server::allocator::Allocator = styx_server::allocator::Allocator;

fn main() -> ExitCode {
    // Untrusted code is compiled in a child of this very binary, under limits of its own.
    if std::env::args().nth(1).as_deref() == Some(styx_engine::COMPILE_ARGUMENT) {
        return styx_engine::compile_child_main();
    }
    styx_cli::main()
}
