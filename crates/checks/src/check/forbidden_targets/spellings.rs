//! URLs that lead, or seem to lead, where nobody may call, and what must become of each.

use std::net::IpAddr;

use crate::harness::own_network::name_server::Said;
use crate::harness::own_network::{GOOD_NAME, PUBLIC, PUBLIC_V6};

#[derive(Debug, Clone)]
pub(crate) struct Spelling {
    pub(crate) url: String,
    pub(crate) expected: Expected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A forbidden host by its spelling alone: refused when it is written, blocked when it stands in the table.
    Forbidden,
    /// The same without the slashes, which are only added when it is written: no request can be made of it.
    Slashless,
    /// No URL to be called, and refused as that; blocked when it stands in the table.
    Invalid,
    /// The same, and no URL at all: no request can be made of it.
    Unreadable,
    /// Refused too, because parsers differ over it; ours reads it as a URL that may be called.
    Elsewhere,
    /// A name, of which nobody knows where it leads before it is called: taken when it is written, blocked when called.
    Led,
}

/// By their hosts.
const FORBIDDEN: &[&str] = &[
    // Loopback: decimal, octal, hexadecimal, short, mixed, and with digits that only look like others.
    "127.0.0.0",
    "127.0.0.1",
    "127.0.0.1.",
    "127.0.0.53",
    "127.99.1.2",
    "127.255.255.255",
    "127.1",
    "127.0.1",
    "127.0x1",
    "127.0.0.01",
    "127.0.0.0x1",
    "2130706433",
    "0x7f000001",
    "0x7F.0x0.0x0.0x1",
    "0x7f.1",
    "0x7f.0.1",
    "0177.0.0.1",
    "0177.1",
    "0000177.0.0.1",
    "017700000001",
    "127%2e0%2e0%2e1",
    "%31%32%37.0.0.1",
    "127.0.0.%31",
    "１２７.０.０.１",
    "127。0。0。1",
    "127．0．0．1",
    "127｡0｡0｡1",
    "①②⑦.⓪.⓪.①",
    "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
    "1²7.0.0.1",
    "127.0.0.1\u{ad}",
    "127\u{200b}.0.0.1",
    "%EF%BC%91%32%37.0.0.1",
    "127.0.0.1:443",
    "127.0.0.1:80",
    "127.0.0.1:8443",
    "2130706433:22",
    "0x7f.1:6379",
    // This host and its network.
    "0",
    "00",
    "0x",
    "0x0",
    "0.0.0.0",
    "0.0.0.1",
    "0.127.1.2",
    "0.255.255.255",
    // Private.
    "10.0.0.0",
    "10.0.0.1",
    "10.128.7.7",
    "10.255.255.255",
    "012.1",
    "167772161",
    "0xa000001",
    "10.0.0.1:8443",
    "172.16.0.0",
    "172.16.0.1",
    "172.24.1.2",
    "172.31.255.255",
    "0254.0x10.1",
    "192.168.0.0",
    "192.168.1.1",
    "192.168.255.255",
    "3232235777",
    "0300.0250.0x1.1",
    "0xc0.168.257",
    // Shared by carriers.
    "100.64.0.0",
    "100.100.100.200",
    "100.127.255.255",
    // Link-local, with what clouds tell of themselves.
    "169.254.0.0",
    "169.254.169.254",
    "169.254.169.254.",
    "169.254.169.254:80",
    "169.254.170.2",
    "169.254.255.255",
    "2852039166",
    "0xa9fea9fe",
    "169.16689662",
    "0251.0376.0251.0376",
    "0xA9.254.0251.254",
    "１６９.254。169.254",
    // Protocol assignments, documentation, old relays, benchmarks, multicast, reserved, broadcast.
    "192.0.0.0",
    "192.0.0.192",
    "192.0.0.255",
    "192.0.2.0",
    "192.0.2.77",
    "192.0.2.255",
    "198.51.100.0",
    "198.51.100.77",
    "198.51.100.255",
    "203.0.113.0",
    "203.0.113.77",
    "203.0.113.255",
    "192.88.99.0",
    "192.88.99.1",
    "192.88.99.255",
    "198.18.0.0",
    "198.18.255.1",
    "198.19.255.255",
    "224.0.0.0",
    "224.0.0.251",
    "239.255.255.255",
    "240.0.0.0",
    "247.1.2.3",
    "255.255.255.254",
    "255.255.255.255",
    "4294967295",
    "0xffffffff",
    // IPv6: unspecified, loopback, and everything that carries an IPv4 address.
    "[::]",
    "[::1]",
    "[::1]:8443",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::0.0.0.1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:127.0.0.1]",
    "[::FFFF:7F00:1]",
    "[0:0:0:0:0:ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:11.22.33.44]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::11.22.33.44]",
    "[64:ff9b:1::10.0.0.1]",
    "[64:ff9b:1:ffff::1]",
    "[2002:7f00:1::]",
    "[2002:a00:1::1]",
    "[2002:a9fe:a9fe::a9fe:a9fe]",
    "[2001:0:7f00:1::]",
    "[2001::]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[2001:20::1]",
    "[2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff]",
    // The rest of what is not for everybody.
    "[100::1]",
    "[2001:db8::]",
    "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]",
    "[3fff::1]",
    "[3fff:fff::1]",
    "[5f00::1]",
    "[fc00::]",
    "[fc00::1]",
    "[FD00:EC2::254]",
    "[fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]",
    "[fe80::1]",
    "[fe80::5efe:10.0.0.1]",
    "[febf::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[ff05::1:3]",
    "[ff0e::1]",
    "[1fff::1]",
    "[4000::1]",
    // Names that mean something else in every network.
    "localhost",
    "LOCALHOST",
    "localhost.",
    "localhost:8443",
    "a.localhost",
    "ｌｏｃａｌｈｏｓｔ",
    "loc%61lhost",
    "localhoſt",
    "ⓛocalhost",
    "ip6-localhost",
    "intranet",
    "metadata",
    "printer.local",
    "metadata.google.internal",
    "metadata.google.internal.",
    "kubernetes.default.svc.cluster.local",
];

const SLASHLESS: &[&str] = &["https:/127.0.0.1/", "https:127.0.0.1/"];

/// Written so that a parser which is generous, or hasty, finds another host in them.
const FORBIDDEN_URLS: &[&str] = &[
    "https:///127.0.0.1/",
    "HTTPS://127.0.0.1/",
    "https://127.0.0.1?@good.example/",
    "https://127.0.0.1/@good.example/",
];

const INVALID: &[&str] = &[
    "http://127.0.0.1/",
    "http://11.22.33.44/",
    "http://169.254.169.254/latest/meta-data/",
    "https://good.example@127.0.0.1/",
    "https://good.example:443@127.0.0.1/",
    "https://user:word@10.0.0.1/",
    "https://127.0.0.1@good.example/",
    "https://@good.example@127.0.0.1/",
    "https://good.example%00@127.0.0.1/",
    "https://127.0.0.1#@good.example/",
    "https://127.0.0.1\\@good.example/",
    " https://127.0.0.1/",
    "https://127.0.0.1/\n",
    "https://127.\t0.0.1/",
    "https://127.0.0.1:0/",
    "https://good.example:0/",
    "https://good..example/",
    "https://.good.example/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_flushall",
    "ftp://10.0.0.1/",
    "ldap://127.0.0.1/",
    "ws://127.0.0.1/",
    "wss://127.0.0.1/",
];

const UNREADABLE: &[&str] = &[
    "",
    "127.0.0.1",
    "//127.0.0.1/",
    "https://",
    "https://127.0.0.1:65536/",
    "https://127.0.0.1:443:80/",
    "https://127.0.0.1 /",
    "https://127.0.0.1\r\nhost: good.example/",
    "https://good.example%40127.0.0.1/",
    "https://good.example%2f@127.0.0.1%23/",
    "https://[fe80::1%25lo]/",
    "https://[fe80::1%lo]/",
    "https://[::1/",
    "https://[::1]]/",
    "https://[127.0.0.1]/",
    "https://[0:0:0:0:0:0:0:0:1]/",
    "https://256.0.0.1/",
    "https://127.0.0.0.1/",
    "https://0x100000000/",
    "https://127.0.0.08/",
    "https://exa%00mple.com/",
    "https:\\\\127.0.0.1\\hook",
    "https:\\\\good.example\\127.0.0.1",
    "unix:/var/run/docker.sock",
    "javascript:alert(1)",
    "data:text/plain,x",
];

const ELSEWHERE: &[&str] = &[
    "https://good.example#@127.0.0.1/",
    "https://good.example\\@127.0.0.1/",
    "https://good.example/\\127.0.0.1/",
];

/// Where names lead that have a single address.
const LED_TO: &[&str] = &[
    "127.0.0.1",
    "127.0.0.53",
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.251",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:11.22.33.44",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::11.22.33.44",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
];

/// Names that lead there in some other way.
const LED_BY_NAME: &[&str] = &[
    "mixed.led.example",
    "mixed-first.led.example",
    "mixed-six.led.example",
    "mixed-four.led.example",
    "last-of-many.led.example",
    "alias.led.example",
    "alias-of-alias.led.example",
    "alias-of-localhost.led.example",
    "alias-of-local.led.example",
    "alias-of-internal.led.example",
    "ALIAS.led.example",
    "alias.led.example.",
    "alias.led.example:8443",
    "127.0.0.1.led.example",
    "bücher.led.example",
    "ａlias.led.example",
];

pub(crate) fn spellings() -> Vec<Spelling> {
    let of = |expected: Expected| move |url: String| Spelling { url, expected };
    let at = |host: &&str| format!("https://{host}/hook");
    let led = (0..LED_TO.len()).map(|number| format!("https://n{number}.led.example/hook"));
    let each = |urls: &'static [&'static str]| urls.iter().map(|url| (*url).to_owned());
    (FORBIDDEN.iter().map(at).map(of(Expected::Forbidden)))
        .chain(each(FORBIDDEN_URLS).map(of(Expected::Forbidden)))
        .chain(each(SLASHLESS).map(of(Expected::Slashless)))
        .chain(each(INVALID).map(of(Expected::Invalid)))
        .chain(each(UNREADABLE).map(of(Expected::Unreadable)))
        .chain(each(ELSEWHERE).map(of(Expected::Elsewhere)))
        .chain(led.chain(LED_BY_NAME.iter().map(at)).map(of(Expected::Led)))
        .collect()
}

/// What the name server says of these names.
pub(crate) fn led(name: &str) -> Said {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let (public, inside) = (IpAddr::from(PUBLIC), ip("10.0.0.1"));
    let number = name.strip_suffix(".led.example").and_then(|label| label.strip_prefix('n')?.parse().ok());
    if let Some(address) = number.and_then(|number: usize| LED_TO.get(number)) {
        return Said::addresses([ip(address)]);
    }
    match name {
        "mixed.led.example" => Said::addresses([public, inside]),
        "mixed-first.led.example" => Said::addresses([inside, public]),
        "mixed-six.led.example" => Said::addresses([public, ip("::1")]),
        "mixed-four.led.example" => Said::addresses([PUBLIC_V6.into(), ip("127.0.0.1")]),
        // More than are ever tried.
        "last-of-many.led.example" => {
            Said::addresses((1..=20).map(|last| IpAddr::from([11, 22, 33, last])).chain([inside]))
        }
        "alias.led.example" => Said::Alias("inside.led.example".into()),
        "alias-of-alias.led.example" => Said::Alias("alias.led.example".into()),
        "alias-of-localhost.led.example" => Said::Alias("localhost".into()),
        "alias-of-local.led.example" => Said::Alias("printer.local".into()),
        "alias-of-internal.led.example" => Said::Alias("metadata.google.internal".into()),
        "metadata.google.internal" => Said::addresses([ip("169.254.169.254")]),
        "inside.led.example" | "printer.local" | "127.0.0.1.led.example" | "xn--bcher-kva.led.example" => {
            Said::addresses([inside])
        }
        "localhost" => Said::addresses([ip("127.0.0.1"), ip("::1")]),
        _ => Said::NoSuchName,
    }
}

/// The one that may be called.
pub(crate) fn good_url() -> String {
    format!("https://{GOOD_NAME}/good")
}
