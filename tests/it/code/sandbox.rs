//! What a sealed thread can't do, tried by this test program on itself: scripts have no way to even try.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;

use afterword::scorers::code::sandbox::seal;

#[test]
fn a_sealed_thread_opens_nothing_and_starts_nothing_and_still_computes() {
    // The seal is for the thread alone, so it ends with it.
    let tried = thread::spawn(|| {
        seal().unwrap();
        let denied = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
        let tried = vec![
            ("read a file", denied(File::open("/etc/hostname").map(drop))),
            ("make a file", denied(File::create("/tmp/afterword-sealed").map(drop))),
            ("list a folder", denied(std::fs::read_dir("/").map(drop))),
            ("look at a file", denied(std::fs::metadata("/etc/hostname").map(drop))),
            ("remove a file", denied(std::fs::remove_file("/tmp/afterword-sealed"))),
            ("connect", denied(TcpStream::connect("127.0.0.1:1").map(drop))),
            ("listen", denied(TcpListener::bind("127.0.0.1:0").map(drop))),
            ("send", denied(UdpSocket::bind("127.0.0.1:0").map(drop))),
            ("make a pair of sockets", denied(UnixStream::pair().map(drop))),
            ("start a program", denied(Command::new("/bin/true").status().map(drop))),
            ("start a thread", denied(thread::Builder::new().spawn(|| {}).map(drop))),
        ];
        let sum: usize = (0..100_000).map(|n| vec![1_u8; n % 100].len()).sum();
        (tried, sum)
    });
    let (tried, sum) = tried.join().unwrap();
    for (what, denied) in tried {
        assert_eq!(denied, Some(1), "a sealed thread could {what}, or failed otherwise than by being denied");
    }
    assert_eq!(sum, 4_950_000);
}

/// A worker process of the real program, ready for work.
fn worker() -> Child {
    let terms = r#"{"soft_ms": 1000, "cpu_seconds": 5, "memory": 268435456, "cpython": null}"#;
    let mut child = Command::new(env!("CARGO_BIN_EXE_afterword"))
        .args(["__scorer-worker", terms])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut length = [0; 4];
    let out = child.stdout.as_mut().unwrap();
    out.read_exact(&mut length).unwrap();
    let mut said = vec![0; u32::from_le_bytes(length) as usize];
    out.read_exact(&mut said).unwrap();
    assert_eq!(String::from_utf8_lossy(&said), "\"ready\"");
    child
}

#[test]
fn a_worker_has_given_up_everything_but_computing() {
    let mut child = worker();
    let about = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap();
    let status = about("status");
    let says = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(says("Seccomp:"), "2");
    assert_eq!(says("NoNewPrivs:"), "1");
    assert_eq!(says("Threads:"), "1");
    for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(says(set).trim_start_matches('0'), "", "{set}");
    }
    assert!(!says("Uid:").split(' ').any(|id| id == "0") && !says("Gid:").split(' ').any(|id| id == "0"), "{status}");
    let limits = about("limits");
    for (name, most) in
        [("Max file size", "0"), ("Max core file size", "0"), ("Max open files", "3"), ("Max processes", "0")]
    {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), [most, most], "{name}");
    }
    let space: u64 = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((256 << 20..2_000_000_000).contains(&space), "{space}");
    // It ends when its pool closes, without being told.
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_worker_that_is_told_nonsense_ends_by_itself() {
    for nonsense in [&[0xff; 64][..], b"\x05\0\0\0hello", b"\x02\0\0\0{}"] {
        let mut child = worker();
        child.stdin.take().unwrap().write_all(nonsense).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
