//! The guard of outgoing calls to addresses that users choose. Where a name leads is looked up once, checked, and that very
//! address is connected to: a name that leads elsewhere the next moment changes nothing.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{StatusCode, Url};

/// Where an address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// On the public internet.
    Public,
    /// On this machine or in a network of the operator's own; called only where the operator allows it.
    Private,
    /// Nowhere that is ever called. Holds what is there.
    Never(&'static str),
}

const METADATA: &str = "where clouds keep the credentials of their machines";
const NOBODY: &str = "no single machine";

/// Where an address lies. An IPv4 address written as an IPv6 one lies where the IPv4 address does.
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => embedded(v6).map_or_else(|| reach_v6(v6), reach_v4),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        // Link-local as a whole: several services for machines of clouds live there.
        [169, 254, ..] | [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => Reach::Never(METADATA),
        [0 | 224..=255, ..] => Reach::Never(NOBODY),
        [10 | 127, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [192, 0, 0 | 2, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Reach::Private,
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    match address.segments() {
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254]
        | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254]
        | [0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x42] => Reach::Never(METADATA),
        [0, 0, 0, 0, 0, 0, 0, 0] | [0xff00..=0xffff, ..] => Reach::Never(NOBODY),
        // Teredo, documentation: of the public range, but not of the public internet.
        [0x2001, 0 | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Reach::Private,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Private,
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, translated, NAT64 or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

/// How a name is looked up: every address that it leads to.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// How outgoing calls are made.
#[derive(Clone)]
pub struct OutgoingSettings {
    /// Whether addresses of this machine and of private networks may be called.
    pub allow_private: bool,
    /// The largest answer that is read, in bytes.
    pub largest_answer: usize,
    /// How names are looked up.
    pub lookup: Lookup,
}

impl Default for OutgoingSettings {
    fn default() -> Self {
        Self { allow_private: false, largest_answer: 64 * 1024, lookup: Arc::new(|name| Box::pin(system_lookup(name))) }
    }
}

async fn system_lookup(name: String) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

impl fmt::Debug for OutgoingSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingSettings").field("allow_private", &self.allow_private).finish_non_exhaustive()
    }
}

/// Why an address is not called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no address that can be called.
    #[error("A valid http:// or https:// url is required")]
    NoUrl,
    /// It leads where nobody is ever called.
    #[error("it leads to {0}, which is never called: {1}")]
    Never(IpAddr, &'static str),
    /// It leads into a private network.
    #[error(
        "it leads to {0}, an address of this machine or of a private network; outgoing.allow_private = true allows that"
    )]
    Private(IpAddr),
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// It was not made.
    Refused(Refusal),
    /// Nobody could be reached, or the connection broke off.
    Unreachable(String),
    /// The answer did not come in time.
    TooSlow,
    /// The answer is larger than what is read; holds the limit in bytes.
    TooLarge(usize),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// After how long another try is wanted, where it says so.
    pub retry_after: Option<Duration>,
    /// Its body.
    pub body: Vec<u8>,
}

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its status.
    pub status: StatusCode,
    /// After how long another try is wanted, where it says so.
    pub retry_after: Option<Duration>,
}

/// Makes calls to addresses that users choose. Cheap to clone: all share their connections.
#[derive(Debug, Clone)]
pub struct Outgoing {
    http: reqwest::Client,
    rules: Arc<OutgoingSettings>,
}

impl Outgoing {
    /// A guard with those rules. Redirects are not followed, and no proxy is used: either would lead elsewhere than what was
    /// checked.
    ///
    /// # Errors
    /// TLS can't be set up.
    pub fn new(settings: OutgoingSettings) -> Result<Self, String> {
        let rules = Arc::new(settings);
        let resolver = GuardedResolver(Arc::clone(&rules));
        let http = super::client_builder()?.dns_resolver(resolver).build().map_err(|error| error.to_string())?;
        Ok(Self { http, rules })
    }

    /// Checks an address as far as that goes without looking up its name.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn check(&self, url: &str) -> Result<Url, Refusal> {
        let url = Url::parse(url.trim()).map_err(|_| Refusal::NoUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::NoUrl);
        }
        // The parser has made plain numbers out of every notation by now: hexadecimal, octal, short, in other digits.
        let host = url.host_str().ok_or(Refusal::NoUrl)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse() {
            self.rules.admit(address)?;
        }
        Ok(url)
    }

    /// Sends JSON and reads the answer, whatever its status.
    ///
    /// # Errors
    /// [`CallError`]; its texts don't hold the address.
    pub async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Reply, CallError> {
        let url = self.check(url).map_err(CallError::Refused)?;
        within(timeout, self.exchange(url, headers, body)).await
    }

    /// Sends JSON and reads the head of the answer alone: what follows is nobody's business, however much it is.
    ///
    /// # Errors
    /// [`CallError`]; its texts don't hold the address.
    pub async fn tell(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Head, CallError> {
        let url = self.check(url).map_err(CallError::Refused)?;
        let answered = within(timeout, self.send(url, headers, body)).await?;
        Ok(Head { status: answered.status(), retry_after: super::retry_after(answered.headers()) })
    }

    async fn send(&self, url: Url, headers: HeaderMap, body: Vec<u8>) -> Result<reqwest::Response, CallError> {
        let json = HeaderValue::from_static("application/json");
        self.http.post(url).headers(headers).header(CONTENT_TYPE, json).body(body).send().await.map_err(failed)
    }

    async fn exchange(&self, url: Url, headers: HeaderMap, body: Vec<u8>) -> Result<Reply, CallError> {
        let mut response = self.send(url, headers, body).await?;
        let limit = self.rules.largest_answer;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > limit {
                return Err(CallError::TooLarge(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status: response.status(), retry_after: super::retry_after(response.headers()), body })
    }
}

async fn within<T>(timeout: Duration, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    tokio::time::timeout(timeout, call).await.unwrap_or(Err(CallError::TooSlow))
}

/// What a failed call comes to: the guard's refusal where there is one among its causes.
fn failed(error: reqwest::Error) -> CallError {
    let error = error.without_url();
    let mut causes = vec![error.to_string()];
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return CallError::Refused(refusal.clone());
        }
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.dedup();
    CallError::Unreachable(causes.join(": ").chars().take(300).collect())
}

impl OutgoingSettings {
    fn admit(&self, address: IpAddr) -> Result<(), Refusal> {
        match reach(address) {
            Reach::Public => Ok(()),
            Reach::Private if self.allow_private => Ok(()),
            Reach::Private => Err(Refusal::Private(address)),
            Reach::Never(what) => Err(Refusal::Never(address, what)),
        }
    }
}

/// Looks names up for the client, and hands on only what was checked. One address that is not to be called refuses the name:
/// whoever mixes such addresses in is up to something.
#[derive(Debug)]
struct GuardedResolver(Arc<OutgoingSettings>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = (rules.lookup)(name.as_str().to_owned()).await?;
            for address in &addresses {
                rules.admit(*address)?;
            }
            let addresses: Vec<SocketAddr> = addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
