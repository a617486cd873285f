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

use crate::guest::Guest;
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

    fn clocks(&mut self) -> clock::View<'_> {
        clock::View { clock: &mut self.clock, table: &mut self.table }
    }

    /// Turns what was printed so far into log lines of the running function.
    pub fn drain_output(&mut self, attempt: &mut Attempt) {
        self.stdout.drain(|line| attempt.log(LogLevel::Info, line));
        self.stderr.drain(|line| attempt.log(LogLevel::Warn, line));
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = wasi(self);
        WasiCtxView { ctx: &mut wasi.ctx, table: &mut wasi.table }
    }
}

fn wasi(guest: &mut Guest) -> &mut Wasi {
    guest.wasi.as_deref_mut().expect("WASI is linked to those that carry it only")
}

struct Tables;
impl HasData for Tables {
    type Data<'a> = &'a mut ResourceTable;
}

/// Adds every WASI 0.2 interface of `wasi:cli/imports` to a linker.
pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    // What a guest could observe: ours.
    clocks::wall_clock::add_to_linker::<Guest, Clocks>(linker, |guest| wasi(guest).clocks())?;
    clocks::monotonic_clock::add_to_linker::<Guest, Clocks>(linker, |guest| wasi(guest).clocks())?;
    random_bindings::random::add_to_linker::<Guest, Randoms>(linker, |guest| random::View(guest))?;
    random_bindings::insecure::add_to_linker::<Guest, Randoms>(linker, |guest| random::View(guest))?;
    random_bindings::insecure_seed::add_to_linker::<Guest, Randoms>(linker, |guest| random::View(guest))?;
    cli::stdout::add_to_linker::<Guest, Outputs>(linker, |guest| output::View(wasi(guest)))?;
    cli::stderr::add_to_linker::<Guest, Outputs>(linker, |guest| output::View(wasi(guest)))?;
    // What is empty: wasmtime-wasi's.
    cli::environment::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    cli::exit::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    cli::stdin::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    cli::terminal_input::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    cli::terminal_output::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    cli::terminal_stdin::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    cli::terminal_stdout::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    cli::terminal_stderr::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    filesystem::preopens::add_to_linker::<Guest, WasiFilesystem>(linker, Guest::filesystem)?;
    sync::filesystem::types::add_to_linker::<Guest, WasiFilesystem>(linker, Guest::filesystem)?;
    sockets::tcp_create_socket::add_to_linker::<Guest, WasiSockets>(linker, Guest::sockets)?;
    sockets::instance_network::add_to_linker::<Guest, WasiSockets>(linker, Guest::sockets)?;
    sockets::network::add_to_linker::<Guest, WasiSockets>(
        linker,
        &sockets::network::LinkOptions::default(),
        Guest::sockets,
    )?;
    sockets::ip_name_lookup::add_to_linker::<Guest, WasiSockets>(linker, Guest::sockets)?;
    sync::sockets::tcp::add_to_linker::<Guest, WasiSockets>(linker, Guest::sockets)?;
    sync::sockets::udp::add_to_linker::<Guest, WasiSockets>(linker, Guest::sockets)?;
    sync::sockets::udp_create_socket::add_to_linker::<Guest, WasiSockets>(linker, Guest::sockets)?;
    // Streams and polls: only ever of things that are ready.
    sync::io::error::add_to_linker::<Guest, Tables>(linker, |guest| &mut wasi(guest).table)?;
    sync::io::poll::add_to_linker::<Guest, Tables>(linker, |guest| &mut wasi(guest).table)?;
    sync::io::streams::add_to_linker::<Guest, Tables>(linker, |guest| &mut wasi(guest).table)?;
    Ok(())
}
