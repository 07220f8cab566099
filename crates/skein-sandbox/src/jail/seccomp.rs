//! The system calls that a jailed interpreter may make; every other fails with `EPERM`.
//!
//! The list is what CPython and its standard library need to compute, use files and run threads. No call that makes a
//! process, a socket, a signal to another process, shared memory or a kernel object outside the address-space limit is on
//! it. Calls that could reach other processes through an argument are allowed only with arguments that can't.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::syscalls;

/// Calls allowed whatever their arguments are.
const FREE: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_chdir,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getitimer,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_get_robust_list,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mkdirat,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_setitimer,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_truncate,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older spellings of the same, which exist on x86-64 alone.
#[cfg(target_arch = "x86_64")]
const FREE_HERE: &[i64] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_creat,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_utime,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const FREE_HERE: &[i64] = &[];

/// `fcntl` without the commands that send signals to a chosen process.
const FCNTL_COMMANDS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_GETPIPE_SZ,
];

/// `ioctl` requests that ask about a descriptor or mark it; none sends anything anywhere.
#[allow(clippy::unnecessary_cast, reason = "the constants' type differs between C libraries")]
const IOCTL_REQUESTS: &[u64] =
    &[libc::TCGETS as u64, libc::FIONREAD as u64, libc::FIOCLEX as u64, libc::FIONCLEX as u64];

/// Programs for the kernel, both of which every call must pass.
pub struct Filters {
    allowed: BpfProgram,
    unknown: BpfProgram,
}

/// The filters of the calling process, whose own number they hold.
pub fn filters() -> io::Result<Filters> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let compile = |rules, otherwise, matched| -> io::Result<BpfProgram> {
        let filter = SeccompFilter::new(rules, otherwise, matched, arch).map_err(io::Error::other)?;
        filter.try_into().map_err(io::Error::other)
    };
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let allowed = compile(allowed()?, refuse, SeccompAction::Allow)?;
    // glibc tries `clone3` first, whose flags a filter can't see, and falls back to `clone` only on this error.
    let pretend = SeccompAction::Errno(libc::ENOSYS as u32);
    let unknown = compile(BTreeMap::from([(libc::SYS_clone3, vec![])]), SeccompAction::Allow, pretend)?;
    Ok(Filters { allowed, unknown })
}

impl Filters {
    /// Puts the calling thread and all that it becomes behind the filters, for good.
    pub fn install(&self) -> io::Result<()> {
        syscalls::no_new_privileges()?;
        apply_filter(&self.unknown).map_err(io::Error::other)?;
        apply_filter(&self.allowed).map_err(io::Error::other)
    }
}

fn allowed() -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FREE.iter().chain(FREE_HERE).map(|&number| (number, Vec::new())).collect();
    rules.insert(libc::SYS_clone3, Vec::new());
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![argument(0, SeccompCmpOp::MaskedEq(thread), thread)?]);
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![argument(0, SeccompCmpOp::Eq, own)?]);
    rules.insert(libc::SYS_prlimit64, vec![argument(0, SeccompCmpOp::Eq, 0)?]);
    let commands = FCNTL_COMMANDS.iter().map(|&command| argument(1, SeccompCmpOp::Eq, command as u64));
    rules.insert(libc::SYS_fcntl, commands.collect::<io::Result<_>>()?);
    let requests = IOCTL_REQUESTS.iter().map(|&request| argument(1, SeccompCmpOp::Eq, request));
    rules.insert(libc::SYS_ioctl, requests.collect::<io::Result<_>>()?);
    Ok(rules)
}

fn argument(index: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompRule> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value).map_err(io::Error::other)?;
    SeccompRule::new(vec![condition]).map_err(io::Error::other)
}
