//! Tests of the guard: what is called and what never is, whatever it is written as, and that what was checked is what is called.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn guard(allow_private: bool) -> Outgoing {
    crate::scorers::install_tls();
    Outgoing::new(OutgoingSettings { allow_private, ..OutgoingSettings::default() }).expect("a guard")
}

/// A guard whose names lead where `answers` say, one list after the other, and how often it was asked.
fn looking_up(allow_private: bool, answers: &[&[&str]]) -> (Outgoing, Arc<AtomicUsize>) {
    crate::scorers::install_tls();
    let asked = Arc::new(AtomicUsize::new(0));
    let answers: Vec<Vec<IpAddr>> =
        answers.iter().map(|list| list.iter().map(|text| address(text)).collect()).collect();
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let count = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        let next = answers.lock().expect("no test panics here").next();
        Box::pin(async move { next.ok_or_else(|| io::Error::other("no such name")) })
    });
    let settings = OutgoingSettings { allow_private, largest_answer: 1000, lookup };
    (Outgoing::new(settings).expect("a guard"), asked)
}

/// A server that answers every connection with these bytes; answers its port, and how many connections it had.
async fn server(answer: &'static [u8]) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let port = listener.local_addr().expect("a bound socket has an address").port();
    let met = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&met);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    (port, met)
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";

async fn post(guard: &Outgoing, url: &str) -> Result<Reply, CallError> {
    guard.post(url, HeaderMap::new(), b"{}".to_vec(), Duration::from_mins(2)).await
}

#[test]
fn each_address_lies_where_it_lies() {
    for (text, expected) in [
        ("93.184.215.14", Reach::Public),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", Reach::Public),
        ("127.0.0.1", Reach::Private),
        ("127.255.255.254", Reach::Private),
        ("10.1.2.3", Reach::Private),
        ("172.16.0.1", Reach::Private),
        ("172.31.255.255", Reach::Private),
        ("172.32.0.1", Reach::Public),
        ("192.168.1.1", Reach::Private),
        ("100.64.0.1", Reach::Private),
        ("100.127.255.255", Reach::Private),
        ("100.128.0.1", Reach::Public),
        ("198.18.0.1", Reach::Private),
        ("203.0.113.9", Reach::Private),
        ("::1", Reach::Private),
        ("fe80::1", Reach::Private),
        ("fc00::1", Reach::Private),
        ("fd12:3456::1", Reach::Private),
        ("2001:db8::1", Reach::Private),
        ("2001::1", Reach::Private),
        ("64:ff9b:1::a00:1", Reach::Private),
        ("169.254.169.254", Reach::Never(METADATA)),
        ("169.254.0.1", Reach::Never(METADATA)),
        ("100.100.100.200", Reach::Never(METADATA)),
        ("168.63.129.16", Reach::Never(METADATA)),
        ("fd00:ec2::254", Reach::Never(METADATA)),
        ("fd20:ce::254", Reach::Never(METADATA)),
        ("::ffff:169.254.169.254", Reach::Never(METADATA)),
        ("::169.254.169.254", Reach::Never(METADATA)),
        ("64:ff9b::169.254.169.254", Reach::Never(METADATA)),
        ("2002:a9fe:a9fe::1", Reach::Never(METADATA)),
        ("::ffff:127.0.0.1", Reach::Private),
        ("::ffff:0:10.0.0.1", Reach::Private),
        ("64:ff9b::93.184.215.14", Reach::Public),
        ("0.0.0.0", Reach::Never(NOBODY)),
        ("0.1.2.3", Reach::Never(NOBODY)),
        ("::", Reach::Never(NOBODY)),
        ("224.0.0.1", Reach::Never(NOBODY)),
        ("255.255.255.255", Reach::Never(NOBODY)),
        ("ff02::1", Reach::Never(NOBODY)),
    ] {
        assert_eq!(reach(address(text)), expected, "{text}");
    }
}

#[test]
fn an_address_is_known_in_every_notation() {
    let (strict, lenient) = (guard(false), guard(true));
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[0:0:0:0:0:ffff:7f00:1]/",
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "https://user:pass@127.0.0.1:8443/path",
    ] {
        assert!(matches!(strict.check(url), Err(Refusal::Private(_))), "{url}: {:?}", strict.check(url));
        lenient.check(url).expect(url);
    }
    for url in ["http://169.254.169.254/latest", "http://2852039166/", "http://0xa9fea9fe", "http://[fd00:ec2::254]/x"]
    {
        for guard in [&strict, &lenient] {
            assert!(matches!(guard.check(url), Err(Refusal::Never(..))), "{url}");
        }
    }
    for url in ["ftp://example.test/", "file:///etc/passwd", "gopher://x", "no url", "http://", "http://1.2.3.4.5.6/"] {
        assert_eq!(lenient.check(url), Err(Refusal::NoUrl), "{url}");
    }
    strict.check("https://example.test/score?x=1").expect("a name is looked up when it is called");
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_what_was_checked_is_what_is_called() {
    let (port, met) = server(OK).await;
    let (guard, asked) = looking_up(true, &[&["127.0.0.1"], &["169.254.169.254"]]);
    let url = format!("http://rebinding.test:{port}/");
    assert_eq!(post(&guard, &url).await.expect("an answer").status, 200);
    assert_eq!((asked.load(Ordering::SeqCst), met.load(Ordering::SeqCst)), (1, 1));
    let second = post(&guard, &url).await.expect_err("it leads elsewhere now");
    assert_eq!(second, CallError::Refused(Refusal::Never(address("169.254.169.254"), METADATA)));
    assert_eq!(met.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_name_that_leads_to_a_forbidden_address_is_not_called() {
    let (port, met) = server(OK).await;
    for (allow_private, answers, refused) in [
        (false, &["127.0.0.1"][..], Refusal::Private(address("127.0.0.1"))),
        (false, &["93.184.215.14", "127.0.0.1"], Refusal::Private(address("127.0.0.1"))),
        (true, &["127.0.0.1", "169.254.169.254"], Refusal::Never(address("169.254.169.254"), METADATA)),
        (false, &["::ffff:10.0.0.1"], Refusal::Private(address("::ffff:10.0.0.1"))),
    ] {
        let (guard, _) = looking_up(allow_private, &[answers]);
        let error = post(&guard, &format!("http://inner.test:{port}/")).await.expect_err("refused");
        assert_eq!(error, CallError::Refused(refused));
    }
    assert_eq!(met.load(Ordering::SeqCst), 0);
    let (guard, _) = looking_up(true, &[]);
    assert!(matches!(post(&guard, "http://nobody.test/").await, Err(CallError::Unreachable(_))));
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (inner, met) = server(OK).await;
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{inner}/\r\ncontent-length: 0\r\n\r\n");
    let (port, _) = server(Box::leak(answer.into_bytes().into_boxed_slice())).await;
    let reply = post(&guard(true), &format!("http://127.0.0.1:{port}/")).await.expect("an answer");
    assert_eq!((reply.status.as_u16(), met.load(Ordering::SeqCst)), (302, 0));
}

#[tokio::test]
async fn a_huge_answer_is_not_read_to_its_end_and_a_slow_one_is_not_waited_for() {
    let huge = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 5_000_000]].concat();
    let (port, _) = server(Box::leak(huge.into_boxed_slice())).await;
    let (guard, _) = looking_up(true, &[]);
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(post(&guard, &url).await, Err(CallError::TooLarge(1000)));
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let url = format!("http://{}/", silent.local_addr().expect("a bound socket has an address"));
    let waited = guard.post(&url, HeaderMap::new(), Vec::new(), Duration::from_millis(50)).await;
    assert_eq!(waited, Err(CallError::TooSlow));
}

proptest! {
    #[test]
    fn an_ipv4_address_lies_in_the_same_place_however_it_is_embedded(bits in any::<u32>()) {
        let v4 = Ipv4Addr::from(bits);
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let plain = reach(IpAddr::V4(v4));
        let forms = [
            v4.to_ipv6_mapped(),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ];
        for form in forms {
            prop_assert_eq!(reach(IpAddr::V6(form)), plain, "{}", form);
        }
    }

    #[test]
    fn what_the_library_knows_to_be_inside_is_never_public(bits in any::<u32>(), wide in any::<u128>(), inside in 0..8_u8) {
        let octets = bits.to_be_bytes();
        let v4 = match inside {
            0 => Ipv4Addr::new(127, octets[1], octets[2], octets[3]),
            1 => Ipv4Addr::new(10, octets[1], octets[2], octets[3]),
            2 => Ipv4Addr::new(192, 168, octets[2], octets[3]),
            3 => Ipv4Addr::new(169, 254, octets[2], octets[3]),
            4 => Ipv4Addr::new(172, 16 + octets[1] % 16, octets[2], octets[3]),
            _ => Ipv4Addr::from(bits),
        };
        let is_inside = v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
            || v4.is_multicast() || v4.is_broadcast() || v4.is_documentation();
        prop_assert!(!is_inside || reach(IpAddr::V4(v4)) != Reach::Public, "{}", v4);
        prop_assert!(!v4.is_link_local() || matches!(reach(IpAddr::V4(v4)), Reach::Never(_)), "{}", v4);
        let v6 = Ipv6Addr::from(if inside % 2 == 0 { wide >> 121 << 121 | 0xfc << 120 } else { wide });
        let is_inside = v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_multicast()
            || v6.is_unspecified();
        prop_assert!(!is_inside || reach(IpAddr::V6(v6)) != Reach::Public, "{}", v6);
    }

    #[test]
    fn any_notation_of_an_address_is_judged_as_the_address(bits in any::<u32>(), form in 0..6_u8) {
        let v4 = Ipv4Addr::from(bits);
        let [a, b, c, d] = v4.octets();
        let host = match form {
            0 => format!("{bits}"),
            1 => format!("0x{bits:x}"),
            2 => format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
            3 => format!("0x{a:x}.{}", bits & 0x00ff_ffff),
            4 => format!("{a}.{b}.{}", u32::from(c) << 8 | u32::from(d)),
            _ => format!("[::ffff:{v4}]"),
        };
        let checked = guard(false).check(&format!("http://{host}/"));
        match reach(IpAddr::V4(v4)) {
            Reach::Public => prop_assert!(checked.is_ok(), "{} is {}", host, v4),
            Reach::Private => prop_assert!(matches!(checked, Err(Refusal::Private(_))), "{} is {}", host, v4),
            Reach::Never(_) => prop_assert!(matches!(checked, Err(Refusal::Never(..))), "{} is {}", host, v4),
        }
    }

    #[test]
    fn any_text_is_an_address_or_is_refused(text in ".{0,60}") {
        let _ = guard(false).check(&text);
        let _ = guard(false).check(&format!("http://{text}"));
    }
}
