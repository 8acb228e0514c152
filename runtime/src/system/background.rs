//! Work beside that of the caller's runtime.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};

/// Runs `work` on a thread with a runtime of its own, which other tasks may use until the work is
/// done.
pub(crate) fn in_background(work: impl Future<Output = ()> + Send + 'static) -> io::Result<Handle> {
    let simulated: Option<Handle> = in_simulation!(|_world| Handle::current());
    if let Some(handle) = simulated {
        handle.spawn(work);
        return Ok(handle);
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let main = move || runtime.block_on(work);
    thread::Builder::new().name("leasehold".to_owned()).spawn(main)?;
    Ok(handle)
}

/// Returns true if this thread is the world of a simulation, in which nothing may block.
pub(crate) fn is_simulated() -> bool {
    let simulated: Option<()> = in_simulation!(|_world| ());
    simulated.is_some()
}
