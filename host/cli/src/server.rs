//! `styx server`: everything in one process, or one part of a cluster.

use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::output::Output;
use styx_server::config::{Flags, ServerConfig};
use styx_server::server::Process;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

pub(crate) fn run(
    flags: Flags,
    log_level: Option<&str>,
    print_config: bool,
    while_stdin: bool,
    output: &Output,
) -> Result<(), CliError> {
    let directory = std::env::current_dir().unwrap_or_else(|_| ".".into());
    let config = ServerConfig::resolve(flags, &directory)?;
    if print_config {
        if output.is_json() {
            output.value(&serde_json::to_value(&config).expect("the configuration is plain data"));
        } else {
            let settings = toml::to_string(&config).expect("the configuration is plain data");
            output.text(&format!("[server]\n{settings}"));
        }
        return Ok(());
    }
    let filter = crate::environment::log_filter(log_level)?;
    let _written_at_the_end = styx_server::diagnostics::begin(config.log_format, filter);

    let started = Instant::now();
    let spinner = output.spinner("starting");
    let progress = |done: u64, total: u64| spinner.set_message(format!("recovering: epoch {done} of {total}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("styx-io")
        // Each snapshot asks for many for a moment; kept for longer than its interval, they would all stay for ever.
        .thread_keep_alive(Duration::from_millis(500))
        .build()
        .map_err(|error| CliError::new("RUNTIME", error.to_string(), ""))?;
    let server = runtime.block_on(Process::start(&config, &progress))?;
    // Before anybody is told that it is ready: whoever reads that may tell it to stop.
    let [mut terminate, mut interrupt] = {
        let _entered = runtime.enter();
        [SignalKind::terminate(), SignalKind::interrupt()].map(|kind| signal(kind).expect("signals can be handled"))
    };
    spinner.finish_and_clear();
    if output.is_json() {
        output.value(&server.ready());
    } else {
        if let Process::Single(server) = &server
            && server.recovered().epoch.0 > 0
        {
            let recovered = server.recovered();
            let snapshot = match recovered.snapshot.0 {
                0 => String::new(),
                epoch => format!("a snapshot of epoch {epoch} and "),
            };
            output.done(&format!(
                "recovered {snapshot}{} epochs of the log in {:.2} s; state {}",
                recovered.epochs,
                started.elapsed().as_secs_f64(),
                recovered.chain
            ));
        }
        let (done, next) = server.summary(&config);
        output.done(&done);
        // Whoever has started it for an app says what comes next.
        if !while_stdin {
            output.note(&next);
        }
    }
    let ended = runtime.block_on(async {
        let ended = tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            () = stdin_ended(), if while_stdin => Ok(()),
            error = server.ended() => Err(error),
        };
        server.stop().await;
        ended
    });
    ended?;
    output.done("stopped; everything acknowledged is durable");
    Ok(())
}

/// Waits for the end of standard input.
async fn stdin_ended() {
    let (sender, ended) = oneshot::channel();
    // A thread of its own, which the runtime does not wait for.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = sender.send(());
    });
    let _ = ended.await;
}
