//! Resource limits of one process.
//!
//! Since a jail is one process, limits per process are limits of the whole jail.

use std::io;
use std::time::Duration;

use super::syscalls;
use crate::policy::Limits;

/// The main thread's stack; deep recursion in C, as in old interpreters and regular expressions, needs some.
const STACK_BYTES: u64 = 64 << 20;

/// Applies `limits` to the calling process and all that it becomes.
pub fn apply(limits: &Limits) -> io::Result<()> {
    let cpu = whole_seconds(limits.cpu);
    // The main thread counts too.
    let threads = limits.threads + 1;
    for (resource, soft, hard) in [
        (libc::RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        // The soft limit's signal can be caught, the hard one's can't.
        (libc::RLIMIT_CPU, cpu, cpu),
        (libc::RLIMIT_FSIZE, limits.scratch_bytes, limits.scratch_bytes),
        (libc::RLIMIT_NOFILE, limits.open_files, limits.open_files),
        (libc::RLIMIT_NPROC, threads, threads),
        (libc::RLIMIT_STACK, STACK_BYTES, STACK_BYTES),
        (libc::RLIMIT_CORE, 0, 0),
        (libc::RLIMIT_MEMLOCK, 0, 0),
        (libc::RLIMIT_MSGQUEUE, 0, 0),
    ] {
        syscalls::set_limit(resource, soft, hard)?;
    }
    syscalls::lower_priority(limits.nice)
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
