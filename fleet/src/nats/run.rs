//! For callers without a runtime of their own: commands.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::ctrl_c;
use tokio::sync::watch;

/// Threads that talk to the server; tasks are executed on others.
const THREADS: usize = 2;

/// Returns a runtime for the functions of this module.
///
/// # Errors
///
/// If the system starts no thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()
}

/// Returns what becomes true when this process is asked to end: by `SIGTERM`, or by Ctrl-C.
///
/// # Errors
///
/// If signals cannot be listened to.
pub fn until_signalled(runtime: &Runtime) -> io::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let _in_runtime = runtime.enter();
    #[cfg(unix)]
    let mut terminated = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate())?
    };
    runtime.spawn(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminated.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = ctrl_c().await;
        // Nobody listens any more: then there is nothing to end.
        let _ = sender.send(true);
    });
    Ok(receiver)
}
