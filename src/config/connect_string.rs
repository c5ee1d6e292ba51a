//! The value of `zookeeper.connect`, taken apart.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::net::Ipv6Addr;

use crate::cluster::BrokerAddress;
use crate::error::Error;

const KEY: &str = "zookeeper.connect";
const DEFAULT_PORT: u16 = 2181;

/// `zookeeper.connect`, parsed: `host:port[,host:port][/chroot]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectString {
    /// At least one.
    hosts: Vec<BrokerAddress>,
    /// Empty, or `/a/b` without a slash at the end.
    chroot: String,
}

impl ConnectString {
    /// Forgives blanks around hosts, superfluous commas and doubled slashes.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let (hosts, chroot) = text.split_at(text.find('/').unwrap_or(text.len()));
        let hosts = hosts
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty())
            .map(parse_host)
            .collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(refused(format!("`{text}` names no host")));
        }
        let chroot = parse_chroot(chroot)?;
        Ok(Self { hosts, chroot })
    }

    pub(crate) fn chroot(&self) -> &str {
        &self.chroot
    }

    /// `host:port,host:port`, for messages.
    pub(crate) fn hosts(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(ToString::to_string).collect();
        hosts.join(",")
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// The hosts over and over, starting anywhere, so that many clients spread over the servers.
    pub(crate) fn cycle(&self) -> impl Iterator<Item = BrokerAddress> + Send + use<> {
        let mut hosts = self.hosts.clone();
        let random = RandomState::new().build_hasher().finish();
        let start = usize::try_from(random % 0xffff).unwrap_or(0) % hosts.len().max(1);
        hosts.rotate_left(start);
        hosts.into_iter().cycle()
    }
}

fn parse_host(text: &str) -> Result<BrokerAddress, Error> {
    let malformed = |why: &str| refused(format!("host `{text}`: {why}"));
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest
            .split_once(']')
            .ok_or_else(|| malformed("no closing bracket"))?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(malformed("only a port may follow the bracket")),
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if !text.starts_with('[') && port.is_some_and(|port| port.contains(':')) {
        return Err(malformed(match is_ipv6(text) {
            true => "an IPv6 address needs brackets",
            false => "not host:port, of which commas part several",
        }));
    }
    let is_illegal = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '[' | ']');
    if host.is_empty() || host.contains(is_illegal) {
        return Err(malformed("not a host name"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.trim().parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(malformed(&format!("`{port}` is not a port"))),
        },
    };
    Ok(BrokerAddress::new(host, port))
}

/// Without its zone, which may be a name.
fn is_ipv6(text: &str) -> bool {
    let address = text.split('%').next().unwrap_or(text);
    address.parse::<Ipv6Addr>().is_ok()
}

fn parse_chroot(text: &str) -> Result<String, Error> {
    let malformed = |why: &str| refused(format!("chroot `{text}`: {why}"));
    if text.contains(',') {
        return Err(malformed("it stands once, after the last host"));
    }
    let mut chroot = String::new();
    for name in text.split('/').filter(|name| !name.is_empty()) {
        if name == "." || name == ".." {
            return Err(malformed("relative paths are not allowed"));
        }
        if name.chars().any(char::is_control) {
            return Err(malformed("control characters are not allowed"));
        }
        chroot.push('/');
        chroot.push_str(name);
    }
    Ok(chroot)
}

fn refused(reason: String) -> Error {
    Error::InvalidConfig {
        key: String::from(KEY),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String) {
        let connect = ConnectString::parse(text).unwrap();
        (connect.hosts(), String::from(connect.chroot()))
    }

    #[test]
    fn hosts_ports_and_chroot_are_taken_apart() {
        for (text, hosts, chroot) in [
            ("zk", "zk:2181", ""),
            ("zk:2182", "zk:2182", ""),
            ("a:1,b:2/kafka", "a:1,b:2", "/kafka"),
            ("a:1/kafka/eu", "a:1", "/kafka/eu"),
            ("[::1]:2183,[fe80::1]", "[::1]:2183,[fe80::1]:2181", ""),
            ("a:1/", "a:1", ""),
        ] {
            assert_eq!(parsed(text), (hosts.into(), chroot.into()), "{text}");
        }
    }

    #[test]
    fn blanks_commas_and_slashes_too_many_are_forgiven() {
        for (text, hosts, chroot) in [
            (" a:1 , b:2 ,", "a:1,b:2", ""),
            ("a:1,,b:2", "a:1,b:2", ""),
            ("a:1,b:2,/kafka", "a:1,b:2", "/kafka"),
            ("a:1//kafka//eu/ ", "a:1", "/kafka/eu"),
        ] {
            assert_eq!(parsed(text), (hosts.into(), chroot.into()), "{text}");
        }
    }

    #[test]
    fn a_malformed_part_is_named() {
        for (text, part) in [
            ("", "``"),
            (" , /kafka", "names no host"),
            ("a:x", "`x` is not a port"),
            ("a:0", "`0` is not a port"),
            ("a:", "`` is not a port"),
            ("a:70000,b:1", "host `a:70000`"),
            (":2181", "host `:2181`"),
            ("::1", "IPv6"),
            ("fe80::1%eth0", "IPv6"),
            ("a:1;b:1", "commas"),
            ("a:1 b:1", "commas"),
            ("a\0b:1", "not a host name"),
            ("[::1", "bracket"),
            ("[::1]x", "bracket"),
            ("a b:1", "host `a b:1`"),
            ("a:1/kafka,b:1/kafka", "once"),
            ("a:1/kafka,b", "once"),
            ("a:1/x/../y", "relative"),
            ("a:1/x\u{1}", "control"),
        ] {
            let error = ConnectString::parse(text).unwrap_err().to_string();
            assert!(error.contains("`zookeeper.connect`"), "{text}: {error}");
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_host_is_tried_before_one_is_tried_again() {
        let connect = ConnectString::parse("a,b,c").unwrap();
        let mut tried: Vec<_> = connect.cycle().take(3).map(|host| host.host).collect();
        tried.sort();
        assert_eq!(tried, ["a", "b", "c"]);
    }
}
