//! Valid and invalid URLs.

use super::*;

const CANARY: &str = "canary-password";

/// A short description of what a URL leads to.
fn leads(url: &str) -> String {
    let server = |info: &ConnectionInfo| {
        let settings = info.redis_settings();
        let tls =
            if matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) { "tls " } else { "" };
        let login = match (settings.username(), settings.password()) {
            (None, None) => String::new(),
            (user, password) => format!("{}:{}@", user.unwrap_or(""), password.unwrap_or("-")),
        };
        let resp = if settings.protocol().supports_resp3() { "" } else { " resp2" };
        format!("{tls}{login}{}/{}{resp}", info.addr(), settings.db())
    };
    match read(url) {
        Ok(Address::One(endpoint)) => match &*endpoint {
            Endpoint::Fixed(info) => server(info),
            Endpoint::Sentinel(sentinels) => {
                let (name, master, all) = sentinels.parts();
                let all: Vec<_> = all.iter().map(server).collect();
                format!("{name} as {} of {}", server(master), all.join(" "))
            }
            Endpoint::ExternalPool(_) => unreachable!(),
        },
        Ok(Address::Cluster(nodes)) => {
            format!("cluster {}", nodes.iter().map(server).collect::<Vec<_>>().join(" "))
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn urls_are_read() {
    for (url, to) in [
        ("redis://host", "host:6379/0"),
        (" REDIS://host:7/3\n", "host:7/3"),
        ("redis://u:p%40%2C@host", "u:p@,@host:6379/0"),
        ("redis://:p@x@host", ":p@x@host:6379/0"),
        ("redis://[::1]:7", "::1:7/0"),
        ("redis://u:p@[fe80::1%25eth0]:7/2", "u:p@fe80::1%eth0:7/2"),
        ("redis://[fe80::1%wlan-0.1]", "fe80::1%wlan-0.1:6379/0"),
        (
            "redis+sentinel://[fe80::1%25eth0],[fe80::2%252]:7/main",
            "main as master:6379/0 of fe80::1%eth0:26379/0 resp2 fe80::2%2:7/0 resp2",
        ),
        ("valkey://host?protocol=resp2", "host:6379/0 resp2"),
        ("redis://host/2?protocol=3", "host:6379/2"),
        ("unix:///a/b,c.sock", "/a/b,c.sock/0"),
        ("redis+unix:///a?db=2&user=u&pass=p%2F", "u:p/@/a/2"),
        (
            "redis+sentinel://s1,s2:7,[::1]/main",
            "main as master:6379/0 of s1:26379/0 resp2 s2:7/0 resp2 ::1:26379/0 resp2",
        ),
        (
            "redis+sentinel://u:p@s/main/4?sentinel_user=su&sentinel_password=s@%3A/p",
            "main as u:p@master:6379/4 of su:s@:/p@s:26379/0 resp2",
        ),
        (
            "redis+sentinel://s/main?protocol=resp2&sentinel_password=p",
            "main as master:6379/0 resp2 of :p@s:26379/0 resp2",
        ),
    ] {
        assert_eq!(leads(url), to, "{url}");
    }
    #[cfg(feature = "tls-no-provider")]
    for (url, to) in [
        ("rediss://host", "tls host:6379/0"),
        ("rediss://[::1]", "tls ::1:6379/0"),
        ("rediss://[fe80::1%25eth0]", "tls fe80::1%eth0:6379/0"),
        ("rediss+sentinel://s/m", "m as tls master:6379/0 of tls s:26379/0 resp2"),
    ] {
        assert_eq!(leads(url), to, "{url}");
    }
}

#[cfg(feature = "cluster")]
#[test]
fn several_hosts_are_a_cluster() {
    for (url, to) in [
        ("redis://a,b:7", "cluster a:6379/0 b:7/0"),
        ("redis://u:p@a:1,b:2,[::1]:3/0", "cluster u:p@a:1/0 u:p@b:2/0 u:p@::1:3/0"),
    ] {
        assert_eq!(leads(url), to, "{url}");
    }
    for (url, words) in
        [("redis://a,b/3", "only the database 0"), ("redis://a,b?protocol=2", "RESP3")]
    {
        assert!(leads(url).contains(words), "{}", leads(url));
    }
}

#[cfg(not(feature = "cluster"))]
#[test]
fn several_hosts_need_the_feature() {
    assert!(leads("redis://a,b").contains("needs the feature `cluster`"));
}

#[test]
fn invalid_urls_are_refused() {
    for (url, words) in [
        ("", "not a URL"),
        ("localhost:6379", "not a URL"),
        ("http://host", "scheme is unknown"),
        ("redis+sentinels://host/m", "scheme is unknown"),
        ("redis://", "host is missing"),
        ("redis://a,,b", "host is missing"),
        ("redis://host:x", "port"),
        ("redis://[fe80::1%25]", "zone"),
        ("redis://[fe80::1%25eth0", "zone"),
        ("redis://[fe80::1%25e%2Fth0]", "zone"),
        ("redis://[host%25eth0]", "its host"),
        ("redis://svc@host", "a user and no password"),
        ("redis+sentinel://svc@s/m", "a user and no password"),
        ("redis://ho\tst", "control character"),
        ("redis://host/x", "database"),
        ("redis://host?db=3", "option other than"),
        ("redis://host?protocol=4", "neither resp2"),
        ("redis://host#insecure", "has a fragment"),
        #[cfg(feature = "tls-no-provider")]
        ("rediss://host/#insecure", "has a fragment"),
        ("redis://:pa#ss@host", "has a fragment"),
        ("redis://u:p@a,u:p@b", "password once"),
        ("unix:///a?password=p", "option other than"),
        ("redis+sentinel://s1,s2", "master's name is missing"),
        ("redis+sentinel://s1/", "master's name is missing"),
        ("redis+sentinel://,s1/m", "host is missing"),
        ("redis+sentinel://s/m/1/2", "master's name and the number of a database"),
        ("redis+sentinel://s/m:x", "master's name and the number of a database"),
        ("redis+sentinel://s/m/x", "database"),
        ("redis://0.0.0.0", "its host"),
        ("redis+sentinel://s/m?sentinel_user=u", "sentinel_password is missing"),
        ("redis+sentinel://s/m?sentinel=s", "option other than"),
    ] {
        let said = leads(url);
        assert!(said.contains(words) && said.contains("redis://host:port"), "{url}: {said}");
    }
    #[cfg(not(feature = "tls-no-provider"))]
    assert!(leads("rediss://host").contains("needs the feature `tls`"));
}

/// Texts that are no URLs, and passwords that want to be seen.
mod hostile {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), rest in "[ -~]{0,40}") {
            let _ = read(&text);
            for scheme in ["redis", "unix", "redis+sentinel"] {
                let _ = read(&format!("{scheme}://{rest}"));
            }
        }

        #[test]
        fn no_password_is_shown(
            scheme in "redis|rediss|redis\\+sentinel|redis\\+unix|x",
            user in "[^/?#]{0,5}",
            rest in "[ -~]{0,20}",
        ) {
            let (password, option) = (format!("{user}:{CANARY}@"), format!("sentinel_password={CANARY}"));
            for url in [
                format!("{scheme}://{password}{rest}"),
                format!("{scheme}://{password}host,{rest}"),
                format!("{scheme}://{password}host/main?{option}&{rest}"),
                format!("{scheme}:///a?pass={CANARY}&{rest}"),
            ] {
                let read = read(&url);
                prop_assert!(!format!("{read:?} {read:#?}").contains(CANARY), "{read:?}");
                if let Err(error) = read {
                    prop_assert!(!error.to_string().contains(CANARY), "{error}");
                }
            }
        }
    }
}
