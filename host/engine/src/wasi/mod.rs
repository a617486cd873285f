//! WASI 0.2 for the guests whose toolchains want it (Python), answered from the transaction.
//!
//! The clocks show the logged time, random numbers come from the invocation's generator, output
//! becomes log lines; there are no files, no network, no arguments, no environment. Where nothing
//! can be observed, wasmtime-wasi's own implementation answers (with errors, so that packages may
//! probe). **Nothing here** reads the host's clock or its random numbers, waits, or does IO.

mod clock;
mod output;
mod random;

use styx_protocol::attempt::{Attempt, LogLevel};
use wasmtime::Result;
use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random as random_bindings, sockets, sync};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use clock::{Clock, Clocks};
use output::{Output, Outputs};
use random::{Generator, Randoms};

/// Most handles (streams, pollables) that an instance may hold: they lie in the host's memory.
const HANDLES_MAX: usize = 4096;

/// WASI's part of a Store.
pub(crate) struct Wasi {
    ctx: WasiCtx,
    table: ResourceTable,
    clock: Clock,
    /// Answers at start-up, when there is no transaction: alike in every instance.
    start: Generator,
    stdout: Output,
    stderr: Output,
}

impl Wasi {
    pub fn new() -> Self {
        let mut builder = WasiCtx::builder();
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        Wasi {
            ctx: builder.build(),
            table,
            clock: Clock::at_start(),
            start: Generator::default(),
            stdout: Output::default(),
            stderr: Output::default(),
        }
    }

    /// An invocation begins: its time, and none of the last one's output.
    pub fn begin(&mut self, attempt: &mut Attempt) {
        self.clock = Clock::at(attempt.time());
        self.stdout.clear();
        self.stderr.clear();
    }

    /// What wasmtime-wasi's own implementation needs.
    pub fn view(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.ctx, table: &mut self.table }
    }

    fn clocks(&mut self) -> clock::View<'_> {
        clock::View { clock: &mut self.clock, table: &mut self.table }
    }

    /// Turns what was printed so far into log lines of the running function.
    pub fn drain_output(&mut self, attempt: &mut Attempt) {
        self.stdout.drain(|line| attempt.log(LogLevel::Info, line));
        self.stderr.drain(|line| attempt.log(LogLevel::Warn, line));
    }
}

/// A Store's data that WASI is part of.
pub(crate) trait WasiData: WasiView {
    /// WASI, for the components that import it only, and the attempt: none at start-up and in `describe`.
    fn wasi(&mut self) -> (&mut Wasi, Option<&mut Attempt>);
}

fn wasi<T: WasiData>(data: &mut T) -> &mut Wasi {
    data.wasi().0
}

fn randoms<T: WasiData>(data: &mut T) -> random::View<'_> {
    let (wasi, attempt) = data.wasi();
    random::View { attempt, start: &mut wasi.start }
}

struct Tables;
impl HasData for Tables {
    type Data<'a> = &'a mut ResourceTable;
}

/// Adds every WASI 0.2 interface of `wasi:cli/imports` to a linker.
pub(crate) fn add<T: WasiData>(linker: &mut Linker<T>) -> Result<()> {
    // What a guest could observe: ours.
    clocks::wall_clock::add_to_linker::<T, Clocks>(linker, |data| wasi(data).clocks())?;
    clocks::monotonic_clock::add_to_linker::<T, Clocks>(linker, |data| wasi(data).clocks())?;
    random_bindings::random::add_to_linker::<T, Randoms>(linker, randoms)?;
    random_bindings::insecure::add_to_linker::<T, Randoms>(linker, randoms)?;
    random_bindings::insecure_seed::add_to_linker::<T, Randoms>(linker, randoms)?;
    cli::stdout::add_to_linker::<T, Outputs>(linker, |data| output::View(wasi(data)))?;
    cli::stderr::add_to_linker::<T, Outputs>(linker, |data| output::View(wasi(data)))?;
    // What is empty: wasmtime-wasi's.
    cli::environment::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    cli::exit::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    cli::stdin::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    cli::terminal_input::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    cli::terminal_output::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    cli::terminal_stdin::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    cli::terminal_stdout::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    cli::terminal_stderr::add_to_linker::<T, WasiCli>(linker, T::cli)?;
    filesystem::preopens::add_to_linker::<T, WasiFilesystem>(linker, T::filesystem)?;
    sync::filesystem::types::add_to_linker::<T, WasiFilesystem>(linker, T::filesystem)?;
    sockets::tcp_create_socket::add_to_linker::<T, WasiSockets>(linker, T::sockets)?;
    sockets::instance_network::add_to_linker::<T, WasiSockets>(linker, T::sockets)?;
    sockets::network::add_to_linker::<T, WasiSockets>(linker, &sockets::network::LinkOptions::default(), T::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<T, WasiSockets>(linker, T::sockets)?;
    sync::sockets::tcp::add_to_linker::<T, WasiSockets>(linker, T::sockets)?;
    sync::sockets::udp::add_to_linker::<T, WasiSockets>(linker, T::sockets)?;
    sync::sockets::udp_create_socket::add_to_linker::<T, WasiSockets>(linker, T::sockets)?;
    // Streams and polls: only ever of things that are ready.
    sync::io::error::add_to_linker::<T, Tables>(linker, |data| &mut wasi(data).table)?;
    sync::io::poll::add_to_linker::<T, Tables>(linker, |data| &mut wasi(data).table)?;
    sync::io::streams::add_to_linker::<T, Tables>(linker, |data| &mut wasi(data).table)?;
    Ok(())
}
