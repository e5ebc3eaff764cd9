use super::*;
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// As `openssl ecparam -genkey` and `openssl req -x509` write them.
const OPENSSL_KEY: &str = "\
-----BEGIN EC PARAMETERS-----\n\
BggqhkjOPQMBBw==\n\
-----END EC PARAMETERS-----\n\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIDcNxVf7FG1n8FNfxV4buMUOK6cwzTBoWCWx2HYi8hacoAoGCCqGSM49\n\
AwEHoUQDQgAET52IGIKy/VnWaXrqaIdJobbiH1xNMFnP3NbBUjnZNpnAm8oKjnL7\n\
Du/SNJ4x2hHejI+0Aywh5QnMI6X2bEtdBQ==\n\
-----END EC PRIVATE KEY-----\n";
const OPENSSL_CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBxzCCAW2gAwIBAgIUQ60XKVrP413klVgn4uKWJqne2sMwCgYIKoZIzj0EAwIw\n\
ODELMAkGA1UEBhMCREUxDTALBgNVBAoMBEFjbWUxGjAYBgNVBAMMEWhvb2tzLmV4\n\
YW1wbGUuY29tMCAXDTI2MTExOTAzNDczMFoYDzIxMjYxMDI2MDM0NzMwWjA4MQsw\n\
CQYDVQQGEwJERTENMAsGA1UECgwEQWNtZTEaMBgGA1UEAwwRaG9va3MuZXhhbXBs\n\
ZS5jb20wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARPnYgYgrL9WdZpeupoh0mh\n\
tuIfXE0wWc/c1sFSOdk2mcCbygqOcvsO79I0njHaEd6Mj7QDLCHlCcwjpfZsS10F\n\
o1MwUTAdBgNVHQ4EFgQUzC5oYbR+qRS6esBBKtOr4GrtUyQwHwYDVR0jBBgwFoAU\n\
zC5oYbR+qRS6esBBKtOr4GrtUyQwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQD\n\
AgNIADBFAiEA6QHNQOBbVCx8MhiMU0rrkgFbVGpDWF8VKMlIzNLDp4MCIAiP+qrh\n\
kd5QbFY1XnGlOjrP3bq6cQS1oG9ODHLHWa2O\n\
-----END CERTIFICATE-----\n";

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2040, 1, 1);
    params
}

fn own(key: &KeyPair) -> String {
    certificate(&params("hooks").self_signed(key).unwrap())
}

fn certificate(certificate: &Certificate) -> String {
    as_pem("CERTIFICATE", certificate.der())
}

fn secret(key: &KeyPair) -> String {
    as_pem("PRIVATE KEY", &key.serialize_der())
}

fn wrong(certificate: &str, key: &str) -> CertificateError {
    check(certificate, key, NOW).unwrap_err()
}

/// The same key in another form.
fn as_pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

#[test]
fn what_openssl_writes_is_read_with_what_stands_around_it() {
    let file = format!("subject=CN = hooks\n{OPENSSL_KEY}{OPENSSL_CERTIFICATE}");
    let facts = check(&file, &file, NOW).unwrap();
    assert_eq!(facts.certificate, OPENSSL_CERTIFICATE, "and kept without the key");
    assert_eq!(facts.subject, "CN=hooks.example.com,O=Acme,C=DE");
    assert_eq!(facts.expires_at.to_string(), "2126-10-26T03:47:30.000000Z");
    let lines = file.replace('\n', "\r\n");
    assert_eq!(check(&lines, &lines, NOW).unwrap(), facts);
}

#[test]
fn every_kind_of_key_that_tls_takes_is_taken() {
    let kinds = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ];
    for kind in kinds {
        let key = KeyPair::generate_for(kind).unwrap();
        check(&own(&key), &secret(&key), NOW).unwrap();
        if std::ptr::eq(kind, &rcgen::PKCS_RSA_SHA256) {
            // What is inside, behind 26 bytes that say which kind it is.
            let pkcs1 = as_pem("RSA PRIVATE KEY", &key.serialize_der()[26..]);
            check(&own(&key), &pkcs1, NOW).unwrap();
        }
    }
}

#[test]
fn a_key_that_is_none_is_said_to_be_that() {
    let key = KeyPair::generate().unwrap();
    let (certificate, other) = (own(&key), secret(&KeyPair::generate().unwrap()));
    assert_eq!(wrong(&certificate, &other), CertificateError::Mismatch);
    assert_eq!(wrong(&certificate, "hunter2"), CertificateError::NoKey);
    assert_eq!(wrong(&certificate, &(secret(&key) + &other)), CertificateError::ManyKeys);
    assert_eq!(wrong(&certificate, &as_pem("PRIVATE KEY", b"hunter2")), CertificateError::UnusableKey);
    assert_eq!(wrong(&certificate, &as_pem("EC PRIVATE KEY", b"hunter2")), CertificateError::UnusableKey);
    for encrypted in [
        as_pem("ENCRYPTED PRIVATE KEY", b"hunter2"),
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END EC PRIVATE KEY-----".into(),
    ] {
        assert_eq!(wrong(&certificate, &encrypted), CertificateError::EncryptedKey);
    }
    assert_eq!(wrong(&certificate, &"x".repeat(limits::PRIVATE_KEY_BYTES + 1)), CertificateError::LargeKey);
    for error in [CertificateError::Mismatch, CertificateError::LargeKey, CertificateError::NoKey] {
        assert!(error.is_of_the_key());
    }
}

#[test]
fn a_chain_begins_with_its_own_certificate_and_goes_up_from_there() {
    let authority = |name: &str| {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (issuer, other) = (authority("an authority"), authority("another"));
    let key = KeyPair::generate().unwrap();
    let own = certificate(&params("hooks").signed_by(&key, &issuer).unwrap());
    let (issuer, other) = (certificate(issuer.as_ref()), certificate(other.as_ref()));
    let key = secret(&key);
    let facts = check(&(own.clone() + &issuer), &key, NOW).unwrap();
    assert_eq!(facts.subject, "CN=hooks");
    assert_eq!(facts.certificate.matches("BEGIN CERTIFICATE").count(), 2);
    check(&own, &key, NOW).unwrap();
    assert_eq!(wrong(&(own.clone() + &other), &key), CertificateError::OutOfOrder(1));
    assert_eq!(wrong(&(issuer + &own), &key), CertificateError::OutOfOrder(1));
    let many = own.repeat(limits::CERTIFICATE_CHAIN + 1);
    assert_eq!(wrong(&many, &key), CertificateError::TooLarge);
}

#[test]
fn what_is_over_or_not_yet_valid_or_no_certificate_is_said_to_be_that() {
    let key = KeyPair::generate().unwrap();
    let pem = secret(&key);
    let (mut over, mut early) = (params("over"), params("early"));
    over.not_after = rcgen::date_time_ymd(2021, 1, 1);
    early.not_before = rcgen::date_time_ymd(2039, 1, 1);
    let said = wrong(&certificate(&over.self_signed(&key).unwrap()), &pem).to_string();
    assert_eq!(
        said,
        "certificate 1 of the chain has expired, at 2021-01-01T00:00:00.000000Z: have it issued anew"
    );
    let early = certificate(&early.self_signed(&key).unwrap());
    assert!(matches!(wrong(&early, &pem), CertificateError::NotYetValid(1, _)));
    assert_eq!(wrong("hunter2", &pem), CertificateError::NoCertificate);
    assert_eq!(wrong(&as_pem("CERTIFICATE", b"hunter2"), &pem), CertificateError::Unreadable(1));
    assert_eq!(wrong(&(own(&key) + &as_pem("CERTIFICATE", b"")), &pem), CertificateError::Unreadable(2));
    assert_eq!(wrong(&"x".repeat(limits::CERTIFICATE_BYTES + 1), &pem), CertificateError::TooLarge);
    assert!(!CertificateError::NoCertificate.is_of_the_key());
    assert!(wrong(&own(&key), "hunter2").to_string().find("hunter").is_none());
}

#[test]
fn a_subject_is_cut_where_it_is_too_long_to_be_recognised() {
    let key = KeyPair::generate().unwrap();
    let long = certificate(&params(&"ü".repeat(400)).self_signed(&key).unwrap());
    let facts = check(&long, &secret(&key), NOW).unwrap();
    assert_eq!(facts.subject.chars().count(), limits::CERTIFICATE_SUBJECT_CHARACTERS + 1);
}
