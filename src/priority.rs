//! Threads that give way: what may wait leaves the processor to generation and training.

/// `nice`'s largest increment.
const LOWEST: i32 = 19;

/// Gives the calling thread the lowest priority; `who` names it in logs.
pub(crate) fn give_way(who: &str) {
    // On Linux this is the calling thread's alone; where it is refused, the thread only runs less meekly.
    if let Err(error) = rustix::process::nice(LOWEST) {
        tracing::debug!("{who} keeps its priority: {error}");
    }
}
