//! How a worker process gives up what it doesn't need: open files, privileges, memory, and nearly all system calls.
//!
//! All of it is done by the worker itself before it reads its first script, so that nothing unsafe is needed to start it.

use std::collections::BTreeMap;

use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, rlim_t, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike as _;
use nix::unistd::{Gid, Uid, close, setgroups, setresgid, setresuid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// The user and group that own nothing.
const NOBODY: u32 = 65_534;
/// Room for the native stack of interpreters, in bytes; scripts that recurse without end are stopped long before.
const STACK: rlim_t = 64 << 20;

/// Gives up open files and privileges. Call it before anything else.
///
/// # Errors
/// What could not be given up, and what to do about it.
pub(super) fn drop_privileges() -> Result<(), String> {
    close_inherited_files();
    if Uid::effective().is_root() {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        setgroups(&[])
            .and_then(|()| setresgid(group, group, group))
            .and_then(|()| setresuid(user, user, user))
            .map_err(|error| {
                format!(
                    "it runs as root and may not become the user nobody ({error}): run afterword as another user, or grant \
                     it CAP_SETUID and CAP_SETGID"
                )
            })?;
    }
    // After the change of user, which forgets it.
    call("be ended with its parent", prctl::set_pdeathsig(Signal::SIGKILL))?;
    call("give up new privileges", prctl::set_no_new_privs())?;
    call("be closed to debuggers", prctl::set_dumpable(false))
}

fn close_inherited_files() {
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|file| *file > 2)
        .collect();
    for file in open {
        // The one that listed the folder is closed already.
        let _ = close(file);
    }
}

/// Sets the limits of the kernel. `memory` is what may be used beyond what the process uses by now, in bytes; `files` is how many
/// may be open, the three that every process has among them.
///
/// # Errors
/// Which limit could not be set.
pub(super) fn limit(memory: u64, files: u64) -> Result<(), String> {
    let limits = [
        (Resource::RLIMIT_STACK, STACK),
        (Resource::RLIMIT_AS, address_space()?.saturating_add(memory)),
        (Resource::RLIMIT_FSIZE, 0),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NPROC, 0),
        (Resource::RLIMIT_NOFILE, files),
    ];
    for (resource, most) in limits {
        let (_, already) = getrlimit(resource).map_err(|error| format!("it can't see its limits: {error}"))?;
        let most = most.min(already);
        call("limit itself", setrlimit(resource, most, most))?;
    }
    Ok(())
}

/// The address space in use, in bytes.
fn address_space() -> Result<u64, String> {
    let status =
        std::fs::read_to_string("/proc/self/status").map_err(|error| format!("it can't see its size: {error}"))?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes = size.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.map(|kb| kb << 10).ok_or_else(|| "it can't see its size: /proc/self/status has no VmSize".to_owned())
}

/// Has the kernel end the process once it has used so many more seconds of processor time. The pool stops a call that takes too
/// long; this is for the case that the pool itself hangs.
///
/// # Errors
/// That it can't be set.
pub(super) fn limit_processor_time(seconds: u64) -> Result<(), String> {
    let used = getrusage(UsageWho::RUSAGE_SELF).map_err(|error| error.to_string())?;
    let used = (used.user_time().num_milliseconds() + used.system_time().num_milliseconds()).cast_unsigned();
    let most = used.div_ceil(1_000) + seconds;
    let (_, already) = getrlimit(Resource::RLIMIT_CPU).map_err(|error| error.to_string())?;
    call("limit its processor time", setrlimit(Resource::RLIMIT_CPU, most.min(already), already))
}

/// Leaves the calling thread no system calls but those that computing takes: memory, time, the pipes it has. All others are
/// answered with "not permitted": opening files, sockets, starting programs, new processes and threads among them.
///
/// # Errors
/// Why the kernel can't do so.
pub fn seal() -> Result<(), String> {
    apply_filter(&filter()?).map_err(|error| format!("this kernel takes no system call filter: {error}"))
}

/// What [`seal`] hands to the kernel, for a program that hands it over itself: instructions of eight bytes, as hex.
///
/// # Errors
/// As those of [`seal`].
pub(super) fn filter_as_hex() -> Result<String, String> {
    let bytes = filter()?.into_iter().flat_map(|one| {
        let [code_low, code_high] = one.code.to_ne_bytes();
        let [a, b, c, d] = one.k.to_ne_bytes();
        [code_low, code_high, one.jt, one.jf, a, b, c, d]
    });
    Ok(crate::domain::span::hex(&bytes.collect::<Vec<_>>()))
}

fn filter() -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no system call filter for {} processors", std::env::consts::ARCH))?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    allowed()
        .and_then(|rules| SeccompFilter::new(rules, refused, SeccompAction::Allow, arch))
        .and_then(BpfProgram::try_from)
        .map_err(|error| format!("the system call filter is broken: {error}"))
}

/// What is left: system calls, each with the rules of which one must hold, if it has any.
fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules = BTreeMap::new();
    for plain in [
        libc::SYS_brk,
        libc::SYS_clock_getres,
        libc::SYS_clock_gettime,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_getpid,
        libc::SYS_getrandom,
        libc::SYS_getrusage,
        libc::SYS_gettid,
        libc::SYS_gettimeofday,
        libc::SYS_madvise,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sched_yield,
        libc::SYS_setitimer,
        libc::SYS_sigaltstack,
    ] {
        rules.insert(plain, Vec::new());
    }
    let is = |argument, value: i32| when(argument, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()));
    let not_executable = || when(2, SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.cast_unsigned())), 0);
    rules.insert(libc::SYS_read, vec![rule([is(0, 0)?])?]);
    rules.insert(libc::SYS_write, vec![rule([is(0, 1)?])?, rule([is(0, 2)?])?]);
    rules.insert(libc::SYS_writev, vec![rule([is(0, 2)?])?]);
    rules.insert(libc::SYS_mmap, vec![rule([not_executable()?])?]);
    rules.insert(libc::SYS_mprotect, vec![rule([not_executable()?])?]);
    // To end itself, as a failed allocation does.
    rules.insert(libc::SYS_tgkill, vec![rule([is(0, std::process::id().cast_signed())?])?]);
    let processor_time = u64::from(libc::RLIMIT_CPU);
    rules.insert(libc::SYS_prlimit64, vec![rule([is(0, 0)?, when(1, SeccompCmpOp::Eq, processor_time)?])?]);
    Ok(rules)
}

fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.into())
}

fn when(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

fn call(what: &str, result: nix::Result<()>) -> Result<(), String> {
    result.map_err(|error| format!("it can't {what}: {error}"))
}
