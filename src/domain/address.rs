//! Addresses that may hold a secret, as they are shown to whom may not change them.
//!
//! Who knows the address of a chat's webhook can write there, and a password or a token stands in many another. What is left shows
//! where a message goes, and no more.

/// What stands in the place of what is hidden.
const HIDDEN: &str = "***";

/// An address with its scheme, host and port, and `***` for the rest. One that has no rest stays as it is; of what is no address
/// nothing is shown.
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.is_empty() { String::new() } else { HIDDEN.to_owned() };
    };
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if !is_host(host) {
        return format!("{scheme}://{HIDDEN}");
    }
    if host.len() == authority.len() && matches!(path, "" | "/") {
        return url.to_owned();
    }
    format!("{scheme}://{host}/{HIDDEN}")
}

/// Whether it is a name or a number, with or without a port. What else stands before a slash may be a password with one in it.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (text, ""),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_named = match bare {
        Some(number) => number.chars().all(|char| char.is_ascii_hexdigit() || ":.".contains(char)),
        None => host.chars().all(|char| char.is_alphanumeric() || "-._".contains(char)),
    };
    !host.is_empty() && is_named && port.chars().all(|char| char.is_ascii_digit())
}

/// A channel of an agent's profile, such as `webhook:` and an address: its kind, and where it leads as far as that is no secret.
pub fn masked_channel(channel: &str) -> String {
    match channel.split_once(':') {
        None | Some(("email", _)) => channel.to_owned(),
        Some((_, to)) if to.starts_with("//") => masked(channel),
        Some((kind, to)) if to.contains("://") => format!("{kind}:{}", masked(to.trim())),
        Some((kind, _)) => format!("{kind}:{HIDDEN}"),
    }
}

/// Whether it is what a masked address looks like, sent back by somebody who was shown no other.
pub fn is_masked(url: &str) -> bool {
    url.ends_with("/***") || url.ends_with("://***")
}

/// What is said of a masked address that is to be saved.
pub const MASKED: &str = "is masked, as keys that may only read are shown it; send the whole address";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_may_be_a_secret_is_hidden_and_where_it_leads_is_not() {
        for (url, shown) in [
            ("https://hooks.slack.com/services/T0/B0/x", "https://hooks.slack.com/***"),
            ("https://me:pw@example.com", "https://example.com/***"),
            ("http://example.com:8080?token=x", "http://example.com:8080/***"),
            ("https://example.com#x", "https://example.com/***"),
            ("https://example.com\\x", "https://example.com/***"),
            ("http://[::1]:9/x", "http://[::1]:9/***"),
            ("http://[fd00::1]", "http://[fd00::1]"),
            ("https://bücher.example/x", "https://bücher.example/***"),
            ("https://example.com", "https://example.com"),
            ("https://example.com/", "https://example.com/"),
            // The password holds a slash: what stands before it is no host.
            ("https://me:pa/ss@example.com", "https://***"),
            ("https:///x", "https://***"),
            ("token", "***"),
            ("", ""),
        ] {
            assert_eq!(masked(url), shown, "{url}");
            assert_eq!(masked(&masked(url)), shown, "{url}, twice");
            assert_eq!(is_masked(shown), shown.contains("://") && shown != url, "{shown}");
        }
    }

    #[test]
    fn channels_are_shown_by_their_kind() {
        for (channel, shown) in [
            ("webhook:https://a.example/x", "webhook:https://a.example/***"),
            ("webhook: https://a.example/x", "webhook:https://a.example/***"),
            ("https://a.example/x", "https://a.example/***"),
            ("pagerduty:R123", "pagerduty:***"),
            ("email:desk@a.example", "email:desk@a.example"),
            ("console", "console"),
        ] {
            assert_eq!(masked_channel(channel), shown, "{channel}");
        }
    }

    proptest! {
        #[test]
        fn nothing_behind_the_host_and_no_user_is_ever_shown(
            user in "(s3cret(:s3cret)?@)?", tail in "[/?#\\\\](s3cret|[a-z/?#@:.])*",
        ) {
            let shown = masked(&format!("https://{user}example.com{tail}"));
            prop_assert!(!shown.contains("s3cret"), "{}", shown);
            prop_assert!(["https://example.com/***", "https://example.com/"].contains(&&*shown), "{}", shown);
        }
    }
}
