//! Scorers: how the members of a group come by their opinions. Judges and external scorers are asked over HTTP; patterns read
//! what was said.

mod asking;
pub mod code;
pub mod custom;
pub mod external;
pub mod guard;
pub mod judge;
mod limiter;
pub mod pattern;
mod provider;
pub(crate) mod signing;

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};

use crate::domain::group::{Member, MemberKind};
use crate::domain::outcome::Outcome;
use crate::domain::redact::Counts;
use crate::domain::scorer::Scorer;
use crate::domain::verdict::{MemberReport, ScorerKind};

pub use limiter::Limits;
pub use provider::Provider;

/// Makes ring the process's one crypto provider, for every library that asks for the default. Call it first in `main`; again
/// it changes nothing, and a provider that is already installed stays.
pub fn install_tls() {
    // An error only says that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client for endpoints that operators configure: the roots of Mozilla's programme, no redirects, no proxy.
///
/// # Errors
/// TLS can't be set up.
pub fn http_client() -> Result<reqwest::Client, String> {
    client_builder()?.build().map_err(|error| error.to_string())
}

fn client_builder() -> Result<reqwest::ClientBuilder, String> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("afterword/", env!("CARGO_PKG_VERSION"))))
}

/// The longest wait that an answer can ask for: what asks for more means that it will not be back.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 7);

/// How long an answer asks to wait: in seconds, or until a moment, which its own `Date` makes a length.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let asked = text(RETRY_AFTER)?.trim();
    if let Ok(seconds) = asked.parse::<f64>() {
        let is_length = seconds.is_finite() && seconds >= 0.0;
        return is_length.then(|| Duration::from_secs_f64(seconds.min(LONGEST_WAIT.as_secs_f64())));
    }
    let until = DateTime::parse_from_rfc2822(asked).ok()?;
    let now = DateTime::parse_from_rfc2822(text(DATE)?).ok()?;
    (until - now).to_std().ok().map(|wait| wait.min(LONGEST_WAIT))
}

/// The report of a member whose scorer was deleted. It stays listed on every verdict; `name` is what it was last known by.
pub fn gone(member: &Member, name: Option<&str>) -> MemberReport {
    let outcome = Outcome::failed("scorer no longer exists");
    MemberReport {
        name: name.unwrap_or(&member.ref_id).to_owned(),
        version: None,
        ..report(member, None, outcome, String::new())
    }
}

/// The report of a member that is bound to a version which no longer exists. It is not moved to another version on the quiet.
pub fn version_gone(member: &Member, scorer: &Scorer) -> MemberReport {
    let version = member.version.unwrap_or_default();
    let outcome = Outcome::failed(format!("version {version} of the scorer no longer exists"));
    MemberReport { version: member.version, ..report(member, Some(scorer), outcome, String::new()) }
}

/// What every report has in common. A blank `detail` is filled in with the reason why there is no score.
fn report(member: &Member, scorer: Option<&Scorer>, outcome: Outcome, detail: String) -> MemberReport {
    let detail = outcome.reason().map_or(detail, |reason| format!("no score ({reason})"));
    MemberReport {
        name: scorer.map_or_else(String::new, |scorer| scorer.name.clone()),
        kind: member.kind,
        ref_id: member.ref_id.clone(),
        version: scorer.map(|scorer| scorer.version),
        weight: member.weight,
        gate: member.gate,
        pass_threshold: member.pass_threshold,
        category: member.category.unwrap_or_default(),
        pinned: member.version.is_some(),
        scorer_kind: if member.kind == MemberKind::Judge { ScorerKind::Model } else { ScorerKind::Rule },
        outcome,
        detail,
        justification: None,
        evidence: Vec::new(),
        shown: None,
        facts: None,
        redactions: Counts::new(),
        out_of_budget: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_its_scorer_stays_listed_as_failed_for_good() {
        let member = Member { weight: 2.0, gate: true, ..Member::plain(MemberKind::Judge, "j1") };
        let report = gone(&member, None);
        assert_eq!((report.name.as_str(), report.version, report.gate), ("j1", None, true));
        assert_eq!(report.outcome, Outcome::failed("scorer no longer exists"));
        assert_eq!(report.detail, "no score (scorer no longer exists)");
        assert_eq!(gone(&member, Some("Safety")).name, "Safety");
    }

    #[test]
    fn installing_tls_twice_is_no_error() {
        install_tls();
        install_tls();
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
        http_client().expect("a client");
    }
}
