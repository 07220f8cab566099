//! The system calls that build and end a jail, each behind a safe function.
#![expect(unsafe_code, reason = "system calls that no safe interface offers in this combination")]

use std::ffi::{CStr, CString, c_char};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;
use std::time::Duration;

use crate::protocol::Ground;

/// The kernel's name for a resource limit.
#[cfg(target_env = "gnu")]
pub type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
pub type Resource = libc::c_int;

/// First of the uids that jails take; no distribution hands these out.
const FIRST_UID: u32 = 0x6000_0000;
/// The uid and gid inside a user namespace of a jail's own.
pub const INNER_ID: u32 = 1000;
/// Jails of one worker.
const MAX_INDEX: u32 = 4;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A uid that no other process has while this worker lives.
pub fn own_uid(index: u32) -> u32 {
    FIRST_UID + std::process::id() * MAX_INDEX + index % MAX_INDEX
}

/// The caller's effective uid and gid.
pub fn identity() -> (u32, u32) {
    // SAFETY: has no preconditions.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Forks, the child into the namespaces of `ground`. In the parent the child's number and a descriptor for it.
pub fn fork_into(ground: Ground) -> io::Result<Option<(libc::pid_t, OwnedFd)>> {
    const SPACES: libc::c_int =
        libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let spaces = match ground {
        Ground::RootNamespaces => SPACES,
        Ground::UserNamespaces => SPACES | libc::CLONE_NEWUSER,
        Ground::OwnUid | Ground::Bare => 0,
    };
    let mut handle: RawFd = -1;
    let flags = libc::c_long::from(spaces | libc::CLONE_PIDFD | libc::SIGCHLD);
    // The argument order of `clone` differs between architectures, that of its first three arguments does not.
    // SAFETY: without CLONE_VM and with no stack this is `fork` into new namespaces, and the worker has one thread, so
    // the child's copy of memory is consistent. The kernel writes the descriptor to a live variable.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, &raw mut handle, 0_usize, 0_usize) })?;
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let handle = unsafe { OwnedFd::from_raw_fd(handle) };
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    Ok(Some((pid, handle)))
}

/// Ends the calling process at once.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(status) }
}

/// Leaves the terminal and the process group.
pub fn new_session() -> io::Result<()> {
    // SAFETY: has no preconditions.
    check(unsafe { libc::setsid() }.into()).map(drop)
}

/// Gives the calling process, in a user namespace of its own, an identity there that is not root's.
///
/// `outer` is the uid and gid that it had before.
pub fn map_user(outer: (u32, u32)) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{INNER_ID} {} 1", outer.0))?;
    fs::write("/proc/self/gid_map", format!("{INNER_ID} {} 1", outer.1))
}

/// Files that the calling process makes are readable to others, whatever its caller prefers.
pub fn set_open_umask() {
    // SAFETY: has no preconditions.
    unsafe { libc::umask(0o022) };
}

/// Becomes `uid` and the group of the same number, for good and without any other group.
pub fn become_uid(uid: u32) -> io::Result<()> {
    // SAFETY: plain system calls; no groups are passed.
    check(unsafe { libc::setgroups(0, null()) }.into())?;
    check(unsafe { libc::setresgid(uid, uid, uid) }.into())?;
    check(unsafe { libc::setresuid(uid, uid, uid) }.into()).map(drop)
}

/// Makes the calling process die when the process that started it does.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: a plain system call.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) }.into()).map(drop)
}

/// Gives up any privilege that executing a file could bring.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: a plain system call.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) }.into()).map(drop)
}

/// Ends the calling process after some seconds, whatever it waits for.
pub fn set_alarm(seconds: u32) {
    // SAFETY: has no preconditions.
    unsafe { libc::alarm(seconds) };
}

/// Sets a soft and a hard limit, neither above the hard limit that stands.
pub fn set_limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let mut current = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write one live structure.
    check(unsafe { libc::getrlimit(resource, &raw mut current) }.into())?;
    let hard = hard.min(current.rlim_max);
    let limit = libc::rlimit { rlim_cur: soft.min(hard), rlim_max: hard };
    check(unsafe { libc::setrlimit(resource, &raw const limit) }.into()).map(drop)
}

/// Adds `nice` to the caller's nice value.
pub fn lower_priority(nice: i32) -> io::Result<()> {
    // SAFETY: a plain system call.
    let current = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, (current + nice).min(19)) }.into()).map(drop)
}

/// Puts `descriptors` at 0, 1, 2, …, moves `report` behind them and closes all others.
pub fn arrange_descriptors(descriptors: &[OwnedFd], report: &mut File) -> io::Result<()> {
    let count = RawFd::try_from(descriptors.len()).map_err(io::Error::other)?;
    let above = |descriptor: RawFd| -> io::Result<OwnedFd> {
        // SAFETY: the new descriptor is ours.
        let copy = check(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, count + 1) }.into())?;
        Ok(unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
    };
    // Copies out of the way first, since a descriptor may stand where another belongs.
    let copies = descriptors.iter().map(|fd| above(fd.as_raw_fd())).collect::<io::Result<Vec<_>>>()?;
    let report_copy = above(report.as_raw_fd())?;
    for (target, copy) in (0..).zip(&copies) {
        // SAFETY: the child owns every descriptor below `count`; what stood there was a copy of the parent's.
        check(unsafe { libc::dup2(copy.as_raw_fd(), target) }.into())?;
    }
    // SAFETY: closed on exec, and alone above the process's own descriptors.
    check(unsafe { libc::dup3(report_copy.as_raw_fd(), count, libc::O_CLOEXEC) }.into())?;
    let moved = unsafe { File::from_raw_fd(count) };
    // The old number may be one of the process's own by now, and so must not be closed.
    std::mem::forget(std::mem::replace(report, moved));
    check(unsafe { libc::syscall(libc::SYS_close_range, count + 1, u32::MAX, 0) }).map(drop)?;
    std::mem::forget(copies);
    std::mem::forget(report_copy);
    Ok(())
}

/// Becomes another program; returns only the reason why not.
pub fn execute(arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers =
        |words: &[CString]| -> Vec<*const c_char> { words.iter().map(|word| word.as_ptr()).chain([null()]).collect() };
    let (argv, envp) = (pointers(arguments), pointers(environment));
    // SAFETY: both lists end with a null pointer and outlive the call. Signals that the runtime ignores come back to
    // their defaults.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
    }
    io::Error::last_os_error()
}

/// Kills the process behind a descriptor; nothing happens if it has ended.
pub fn kill(handle: RawFd) {
    // SAFETY: a plain system call. The only failure is that the process has ended.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGKILL, null::<libc::siginfo_t>(), 0) };
}

/// Waits for a child: its exit status, or the signal that ended it as an error.
pub fn wait_for(pid: libc::pid_t) -> io::Result<Result<i32, i32>> {
    let mut status = 0;
    // SAFETY: writes one live integer.
    while let Err(error) = check(unsafe { libc::waitpid(pid, &raw mut status, 0) }.into()) {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(if libc::WIFSIGNALED(status) { Err(libc::WTERMSIG(status)) } else { Ok(libc::WEXITSTATUS(status)) })
}

/// A pipe whose ends no executed program keeps: reading end, writing end.
pub fn close_on_exec_pipe() -> io::Result<(File, File)> {
    let mut ends = [-1; 2];
    // SAFETY: writes two live integers, which are then ours.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}

/// Makes reads of a pipe return at once when nothing is there.
pub fn set_nonblocking(pipe: &File) -> io::Result<()> {
    // SAFETY: a plain system call on a descriptor that lives.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }.into()).map(drop)
}

/// Waits until one of `descriptors` can be read or has been closed, at most `longest`; which ones can.
pub fn wait_readable(descriptors: &[RawFd], longest: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> =
        descriptors.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // Rounded up, so that a caller who waits for a deadline does not spin before it.
    let timeout = i32::try_from(longest.as_millis() + 1).unwrap_or(i32::MAX);
    let count = libc::nfds_t::try_from(polled.len()).map_err(io::Error::other)?;
    // SAFETY: a live array of the length that is passed.
    match check(unsafe { libc::poll(polled.as_mut_ptr(), count, timeout) }.into()) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(polled.iter().map(|entry| entry.revents != 0).collect()),
    }
}

/// A file in memory that holds `content`, at its beginning, and can't be changed any more.
pub fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; the descriptor is ours.
    let descriptor = check(unsafe { libc::memfd_create(c"input".as_ptr(), flags) }.into())?;
    let mut file = unsafe { File::from_raw_fd(descriptor as RawFd) };
    file.write_all(content)?;
    file.rewind()?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: a plain system call.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }.into())?;
    Ok(file.into())
}

/// Keeps later mounts from being seen outside this mount namespace.
pub fn make_mounts_private() -> io::Result<()> {
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None)
}

/// Mounts an empty file system in memory.
pub fn mount_tmpfs(target: &Path, options: &str) -> io::Result<()> {
    let target = CString::new(target.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let options = CString::new(options).map_err(io::Error::other)?;
    mount(Some(c"tmpfs"), &target, Some(c"tmpfs"), libc::MS_NOSUID | libc::MS_NODEV, Some(&options))
}

/// Shows `source` at `target` too, with all that is mounted below it.
pub fn bind(source: &CStr, target: &CStr) -> io::Result<()> {
    mount(Some(source), target, None, libc::MS_BIND | libc::MS_REC, None)
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
    // SAFETY: every pointer is null or a C string that outlives the call.
    let result =
        unsafe { libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, pointer(options).cast()) };
    check(result.into()).map(drop)
}

/// Makes a mount, with `recursive` all below it too, read-only and without set-uid programs or devices.
pub fn set_read_only(target: &CStr, recursive: bool) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: a C string and a live structure of the size that is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// Makes the mount at `root` the root directory and lets go of the old one.
pub fn change_root(root: &CStr) -> io::Result<()> {
    // SAFETY: C strings only. The old root is stacked on the new one and then detached.
    check(unsafe { libc::chdir(root.as_ptr()) }.into())?;
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) })?;
    check(unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) }.into()).map(drop)
}
