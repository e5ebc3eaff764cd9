use super::*;
use proptest::prelude::*;

fn strict() -> AddressPolicy {
    AddressPolicy::default()
}

fn allowing(list: &str) -> AddressPolicy {
    AddressPolicy { allow: parse_allow_list(list).expect("a list"), ..strict() }
}

fn hosts(list: &str) -> Vec<HostPattern> {
    parse_host_list(list).expect("a list")
}

fn permits(policy: &AddressPolicy, ip: &str) -> bool {
    policy.permits(ip.parse().expect("an address"))
}

/// "ok", or the code of the error.
fn verdict(policy: &AddressPolicy, url: &str) -> &'static str {
    policy.check_url(url).map_or_else(|error| error.code(), |_| "ok")
}

#[test]
fn public_addresses_are_permitted() {
    for ip in
        ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0"]
    {
        assert!(permits(&strict(), ip), "{ip}");
    }
    for ip in ["2606:4700::1111", "2a00:1450::1", "2001:200::1", "2003::1", "3ffe::1", "2000::"] {
        assert!(permits(&strict(), ip), "{ip}");
    }
}

#[test]
fn special_addresses_are_not() {
    for ip in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
    ] {
        assert!(!permits(&strict(), ip), "{ip}");
    }
    for ip in [
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:8.8.8.8",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:10::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "3fff::1",
        "3fff:fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!permits(&strict(), ip), "{ip}");
    }
}

#[test]
fn the_operators_networks_win_and_deny_wins_over_allow() {
    let mut policy = allowing("127.0.0.0/8, 10.1.2.3, fd00::/8");
    for ip in ["127.0.0.1", "10.1.2.3", "fd00::7"] {
        assert!(permits(&policy, ip), "{ip}");
    }
    for ip in ["10.1.2.4", "192.168.0.1", "::1", "fe80::1"] {
        assert!(!permits(&policy, ip), "{ip}");
    }
    policy.deny = parse_allow_list("127.0.0.53,8.8.8.0/24").expect("a list");
    for ip in ["127.0.0.53", "8.8.8.8"] {
        assert!(!permits(&policy, ip), "{ip}");
    }
    assert!(permits(&policy, "127.0.0.54"));
}

#[test]
fn a_mapped_ipv4_address_is_judged_by_the_ipv4_rule_once_the_operator_allows_the_spelling() {
    let policy = allowing("::ffff:0:0/96");
    assert!(permits(&policy, "::ffff:8.8.8.8"));
    assert!(!permits(&policy, "::ffff:127.0.0.1"));
    let denying = AddressPolicy { deny: parse_allow_list("8.8.8.8").expect("a list"), ..policy };
    assert!(!permits(&denying, "::ffff:8.8.8.8"));
}

#[test]
fn behind_nat64_the_ipv4_address_is_judged_and_only_where_there_is_a_gateway() {
    let off = allowing("64:ff9b::/96,10.1.2.3");
    for ip in ["64:ff9b::8.8.8.8", "64:ff9b::10.1.2.3"] {
        assert!(!permits(&off, ip), "{ip}");
    }
    let on = AddressPolicy { nat64: true, ..off };
    for ip in ["64:ff9b::8.8.8.8", "64:ff9b::10.1.2.3"] {
        assert!(permits(&on, ip), "{ip}");
    }
    for ip in ["64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "64:ff9b::1:808:808"] {
        assert!(!permits(&on, ip), "{ip}");
    }
    for denied in ["8.8.8.8", "64:ff9b::/96"] {
        let denying = AddressPolicy { deny: parse_allow_list(denied).expect("a list"), ..on.clone() };
        assert!(!permits(&denying, "64:ff9b::8.8.8.8"), "{denied}");
    }
}

#[test]
fn a_good_url_passes_and_is_written_in_one_form() {
    for (text, expected) in [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com:443/Hook?a=B", "https://example.com/Hook?a=B"),
        ("https://example.com.:8443/hook", "https://example.com:8443/hook"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://ＥＸＡＭＰＬＥ.com/", "https://example.com/"),
        ("https://1.1.1.1/", "https://1.1.1.1/"),
        ("https://[2606:4700::1111]:8443/", "https://[2606:4700::1111]:8443/"),
        ("https://localhost.example.com/", "https://localhost.example.com/"),
        ("https://hooks_1.example.com/", "https://hooks_1.example.com/"),
    ] {
        assert_eq!(strict().check_url(text).map(String::from), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_url_to_call_is_invalid() {
    let long_host = format!("https://{}.com/", "a.".repeat(126));
    let long_label = format!("https://{}.com/", "a".repeat(64));
    let long_url = format!("https://example.com/{}", "a".repeat(limits::URL_BYTES));
    let long_when_written_out = format!("https://example.com/{}", "ü".repeat(limits::URL_BYTES / 3));
    for url in [
        "",
        "example.com",
        "/hook",
        "https://",
        "https:///",
        "https://:443/",
        "https://?x",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
        "http://example.com/",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://:secret@example.com/",
        "https://example.com/#top",
        "https://example.com/#",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:port/",
        "https://example..com/",
        "https://.example.com/",
        "https://example.com../",
        "https://exa mple.com/",
        " https://example.com/",
        "https://example.com/\n",
        "https://exam\tple.com/",
        "https:\\\\example.com\\",
        "https://example.com\\@127.0.0.1/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://0x100000000/",
        "https://exa%00mple.com/",
        "https://<example>.com/",
        &long_host,
        &long_label,
        &long_url,
        &long_when_written_out,
    ] {
        assert_eq!(verdict(&strict(), url), "invalid_url", "{url:?}");
    }
}

#[test]
fn every_spelling_of_a_forbidden_address_is_blocked() {
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7F.0x0.0x0.0x1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "0.0.0.0",
        "127%2e0%2e0%2e1",
        "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "10.0.0.1",
        "012.1",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "169.16689662",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::169.254.169.254]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[2001:db8::1]",
        "[fe80::1]",
        "[fc00::1]",
        "[FD00:EC2::254]",
        "[ff02::1]",
    ] {
        for url in [format!("https://{host}/hook"), format!("https://{host}:8443")] {
            assert_eq!(verdict(&strict(), &url), "blocked_target", "{url}");
        }
    }
}

#[test]
fn local_names_are_blocked() {
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "ｌｏｃａｌｈｏｓｔ",
        "loc%61lhost",
        "printer.local",
        "metadata.google.internal",
        "internal",
        "db",
        "db.",
        "kubernetes.default.svc.cluster.local",
    ] {
        assert_eq!(verdict(&strict(), &format!("https://{host}/")), "blocked_target", "{host}");
    }
}

#[test]
fn the_operator_can_allow_local_names() {
    let policy = AddressPolicy { allow_hosts: hosts("db,Metadata.Internal., *.corp.internal"), ..strict() };
    for host in ["db", "DB.", "metadata.internal", "a.corp.internal", "a.b.corp.internal"] {
        assert_eq!(verdict(&policy, &format!("https://{host}/")), "ok", "{host}");
    }
    for host in
        ["db2", "x.metadata.internal", "corp.internal", "evilcorp.internal", "printer.local", "localhost"]
    {
        assert_eq!(verdict(&policy, &format!("https://{host}/")), "blocked_target", "{host}");
    }
    assert_eq!(verdict(&policy, "https://10.0.0.1/"), "blocked_target");
}

#[test]
fn the_operator_can_deny_names_whatever_else_allows_them() {
    let deny_hosts = hosts("hooks.example.com,*.example.org,*.bücher.example,db,localhost");
    let allow_hosts = hosts("hooks.example.com,*.example.org,db,web");
    let policy = AddressPolicy { deny_hosts, allow_hosts, ..allowing("127.0.0.0/8") };
    for host in [
        "hooks.example.com",
        "HOOKS.example.com.",
        "hook%73.example.com",
        "a.example.org",
        "a.b.example.org",
        "a.xn--bcher-kva.example",
        "db",
        "localhost",
    ] {
        assert_eq!(verdict(&policy, &format!("https://{host}/")), "blocked_target", "{host}");
    }
    for host in ["example.com", "a.hooks.example.com", "example.org", "notexample.org", "web"] {
        assert_eq!(verdict(&policy, &format!("https://{host}/")), "ok", "{host}");
    }
}

#[test]
fn a_list_of_hosts_says_what_is_no_host() {
    let list = |text| parse_host_list(text).map(|found| found.iter().map(HostPattern::to_string).collect());
    assert_eq!(list(""), Ok(vec![]));
    assert_eq!(
        list(" A.example. , *.Bücher.example"),
        Ok(vec!["a.example".into(), "*.xn--bcher-kva.example".into()])
    );
    for bad in
        ["*", "*.", "*local", "a.*.example", "10.0.0.1", "127.1", "::1", "a b", "https://a.example", "a..b"]
    {
        assert!(parse_host_list(bad).is_err(), "{bad}");
    }
}

#[test]
fn localhost_goes_with_its_address() {
    let policy = allowing("127.0.0.0/8");
    for host in ["localhost", "api.localhost", "127.0.0.1", "2130706433"] {
        assert_eq!(verdict(&policy, &format!("https://{host}:9000/")), "ok", "{host}");
    }
    assert_eq!(verdict(&policy, "https://db/"), "blocked_target");
    assert_eq!(verdict(&policy, "https://printer.local/"), "blocked_target");
    let denying = AddressPolicy { deny: policy.allow.clone(), ..policy };
    assert_eq!(verdict(&denying, "https://localhost/"), "blocked_target");
}

#[test]
fn http_is_the_operators_choice() {
    let policy = AddressPolicy { allow_http: true, ..strict() };
    assert_eq!(verdict(&policy, "http://example.com/"), "ok");
    assert_eq!(verdict(&policy, "http://127.0.0.1/"), "blocked_target");
    assert_eq!(verdict(&policy, "ws://example.com/"), "invalid_url");
    let said = |policy: &AddressPolicy| policy.check_url("ftp://example.com/").unwrap_err().to_string();
    assert!(said(&policy).ends_with("must use https or http"), "{}", said(&policy));
    assert!(said(&strict()).ends_with("must use https"), "{}", said(&strict()));
}

#[test]
fn a_blocked_url_tells_no_address() {
    assert!(!UrlError::Blocked.to_string().contains(|c: char| c.is_ascii_digit()));
}

#[test]
fn an_allow_list_holds_networks_and_bare_addresses() {
    let list =
        |text| parse_allow_list(text).map(|nets| nets.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(list(""), Ok(vec![]));
    assert_eq!(list("127.0.0.0/8,10.1.2.3"), Ok(vec!["127.0.0.0/8".into(), "10.1.2.3/32".into()]));
    assert_eq!(list(" 10.1.2.3/8 , ::1,"), Ok(vec!["10.0.0.0/8".into(), "::1/128".into()]));
    for bad in ["localhost", "10.0.0.0/33", "10.0.0", "1.2.3.4-1.2.3.9"] {
        assert!(parse_allow_list(bad).is_err(), "{bad}");
    }
}

/// The rule once more, as arithmetic and not as networks.
fn public_v4(ip: u32) -> bool {
    let [a, b, c, _] = ip.to_be_bytes();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224.., _, _)
    );
    !special
}

fn public_v6(ip: u128) -> bool {
    let first = (ip >> 112) as u16;
    let second = (ip >> 96) as u16;
    let special = (first == 0x2001 && (second < 0x200 || second == 0xdb8))
        || first == 0x2002
        || (first == 0x3fff && second < 0x1000);
    (0x2000..0x4000).contains(&first) && !special
}

/// Random addresses, most of them near the edges of the networks that matter.
fn any_v6() -> impl Strategy<Value = u128> {
    let edges = prop::sample::select(vec![
        0u16, 0x64, 0x1fff, 0x2000, 0x2001, 0x2002, 0x2003, 0x3ffe, 0x3fff, 0x4000,
    ]);
    let seconds =
        prop::sample::select(vec![0u16, 0x1ff, 0x200, 0xdb7, 0xdb8, 0xdb9, 0xfff, 0x1000, 0xff9b, 0xffff]);
    let near = (edges, seconds, any::<u128>())
        .prop_map(|(first, second, rest)| u128::from(first) << 112 | u128::from(second) << 96 | rest >> 32);
    let carrying =
        (prop::sample::select(vec![0u128, 0xffff << 32, 0x64_ff9b << 96, 0x2002 << 112]), any::<u32>())
            .prop_map(|(prefix, ip)| prefix | u128::from(ip));
    prop_oneof![any::<u128>(), near, carrying]
}

fn any_ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|ip| IpAddr::from(Ipv4Addr::from(ip))),
        any_v6().prop_map(|ip| IpAddr::from(Ipv6Addr::from(ip))),
    ]
}

/// By arithmetic, as above.
fn nat64_inner(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = u128::from(ip);
    (bits >> 32 == 0x64_ff9b << 64).then(|| Ipv4Addr::from(bits as u32))
}

fn any_net() -> impl Strategy<Value = IpNet> {
    prop_oneof![
        (any::<u32>(), 0..=32u8)
            .prop_map(|(ip, length)| IpNet::new_assert(Ipv4Addr::from(ip).into(), length)),
        (any_v6(), 0..=128u8).prop_map(|(ip, length)| IpNet::new_assert(Ipv6Addr::from(ip).into(), length)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_ipv4_address_outside_the_rule_is_permitted(ip: u32) {
        prop_assert_eq!(strict().permits(Ipv4Addr::from(ip).into()), public_v4(ip));
    }

    #[test]
    fn no_ipv6_address_outside_the_rule_is_permitted(ip in any_v6()) {
        prop_assert_eq!(strict().permits(Ipv6Addr::from(ip).into()), public_v6(ip));
    }

    #[test]
    fn what_is_denied_is_never_permitted_and_what_is_neither_allowed_nor_public_is_not_either(
        ip in any_ip(),
        allow in prop::collection::vec(any_net(), 0..4),
        deny in prop::collection::vec(any_net(), 0..4),
        nat64: bool,
    ) {
        let policy = AddressPolicy { allow, deny, nat64, ..strict() };
        let listed = |nets: &[IpNet], ip: IpAddr| nets.iter().any(|net| net.contains(&ip));
        // The address that is reached in the end.
        let inner = match ip {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map(IpAddr::from).or(nat64_inner(v6).map(IpAddr::from)),
            IpAddr::V4(_) => None,
        };
        let reached = inner.unwrap_or(ip);
        let spelling = match ip {
            IpAddr::V6(v6) if nat64_inner(v6).is_some() => nat64,
            _ if inner.is_some() => listed(&policy.allow, ip),
            _ => true,
        };
        let expected = !listed(&policy.deny, ip)
            && !listed(&policy.deny, reached)
            && spelling
            && (strict().permits(reached) || listed(&policy.allow, reached));
        prop_assert_eq!(policy.permits(ip), expected);
    }

    #[test]
    fn a_denied_host_is_blocked_whatever_allows_it(
        labels in prop::collection::vec("[a-z]{1,3}", 1..4),
        parent in 0..3usize,
        allowed: bool,
    ) {
        let name = labels.join(".");
        let denied = match labels.get(parent + 1..) {
            Some(rest) if !rest.is_empty() => format!("*.{}", rest.join(".")),
            _ => name.clone(),
        };
        let allow_hosts = if allowed { hosts(&name) } else { vec![] };
        let policy = AddressPolicy { deny_hosts: hosts(&denied), allow_hosts, ..strict() };
        prop_assert_eq!(verdict(&policy, &format!("https://{name}/")), "blocked_target");
        // A longer name that only ends alike is another.
        let other = format!("x{name}");
        prop_assert!(denied != name || !policy.deny_hosts[0].covers(&other));
    }

    #[test]
    fn every_number_is_judged_like_the_address_it_spells(ip: u32) {
        let dotted = verdict(&strict(), &format!("https://{}/", Ipv4Addr::from(ip)));
        for url in [format!("https://{ip}/"), format!("https://{ip:#x}/"), format!("https://0{ip:o}/")] {
            prop_assert_eq!(verdict(&strict(), &url), dotted);
        }
    }

    #[test]
    fn a_checked_url_checks_again_to_itself(text in "https://[a-z0-9._%-]{1,30}(:[0-9]{1,5})?(/[ -~]{0,20})?") {
        if let Ok(url) = strict().check_url(&text) {
            prop_assert_eq!(strict().check_url(url.as_str()), Ok(url));
        }
    }
}
