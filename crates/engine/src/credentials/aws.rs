//! Requests that are signed for a service of AWS: over the headers and the payload as they are sent.

use super::{Credential, append};
use domain::{
    aws_signature::{AwsSigner, RequestToSign, amz_date, payload_hash},
    time::Timestamp,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, uri::Scheme};
use zeroize::Zeroizing;

const DATE: &str = "x-amz-date";
const CONTENT_HASH: &str = "x-amz-content-sha256";
const SESSION_TOKEN: &str = "x-amz-security-token";
/// What begins like this is signed, whoever has set it: the services want it so.
const PREFIX: &str = "x-amz-";

/// What the requests of one destination are signed with.
pub struct AwsSignature {
    pub(super) signer: AwsSigner,
    pub(super) session_token: Option<Zeroizing<String>>,
}

impl AwsSignature {
    /// Adds what the signature consists of to the headers of a request that is otherwise ready. What it adds that proves who
    /// sends is given back, to be shown as that.
    pub(crate) fn sign(
        &self,
        uri: &Uri,
        headers: &mut HeaderMap,
        payload: &[u8],
        at: Timestamp,
        shown: &mut Vec<(String, String)>,
    ) -> Result<Credential, String> {
        let (date, hash) = (amz_date(at), payload_hash(payload));
        for name in [DATE, CONTENT_HASH, SESSION_TOKEN, "authorization"] {
            headers.remove(name);
            shown.retain(|(known, _)| known != name);
        }
        let mut set = |name: HeaderName, value: &str| {
            let value = HeaderValue::from_str(value)
                .map_err(|_| format!("the value of header `{name}` is not valid"))?;
            headers.insert(name, value);
            Ok::<(), String>(())
        };
        // It is signed, so it is set here and not left to whoever writes the request.
        set(header::HOST, &host(uri)?)?;
        set(HeaderName::from_static(DATE), &date)?;
        set(HeaderName::from_static(CONTENT_HASH), &hash)?;
        shown.extend([(DATE.to_owned(), date), (CONTENT_HASH.to_owned(), hash.clone())]);
        let mut proof = Credential::default();
        if let Some(token) = &self.session_token {
            proof.add(SESSION_TOKEN, token)?;
            append(headers, SESSION_TOKEN, token)?;
        }
        let mut signed = Vec::with_capacity(8);
        for (name, value) in &*headers {
            let name = name.as_str();
            if matches!(name, "host" | "content-type") || name.starts_with(PREFIX) {
                let value = value
                    .to_str()
                    .map_err(|_| format!("header `{name}` cannot be signed: it is no ASCII"))?;
                signed.push((name, value));
            }
        }
        let request = RequestToSign {
            method: "POST",
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            headers: &signed,
            payload_hash: &hash,
            at,
        };
        let authorization = self.signer.authorization(&request);
        append(headers, "authorization", &authorization)?;
        proof.add("authorization", &authorization)?;
        Ok(proof)
    }
}

/// As HTTP has it: without the port that the scheme means anyway.
fn host(uri: &Uri) -> Result<String, String> {
    let host = uri.host().ok_or("its URL has no host")?;
    let usual = if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    Ok(match uri.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(session_token: Option<&str>) -> AwsSignature {
        let signer = AwsSigner {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: Zeroizing::new("hunter2hunter2".into()),
            region: "eu-central-1".into(),
            service: "execute-api".into(),
        };
        AwsSignature { signer, session_token: session_token.map(|token| Zeroizing::new(token.into())) }
    }

    fn signed(session_token: Option<&str>, url: &str) -> (HeaderMap, Vec<(String, String)>, Credential) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("webhook-id", HeaderValue::from_static("evt_1"));
        headers.insert("x-amz-target", HeaderValue::from_static("Put"));
        // What came in is not what is signed.
        headers.insert("authorization", HeaderValue::from_static("Bearer theirs"));
        headers.insert("x-amz-date", HeaderValue::from_static("19700101T000000Z"));
        let mut shown = vec![("authorization".to_owned(), "Bearer theirs".to_owned())];
        let at = Timestamp::from_seconds(1_790_000_000);
        let uri = url.parse().unwrap();
        let proof = signature(session_token).sign(&uri, &mut headers, b"{}", at, &mut shown).unwrap();
        (headers, shown, proof)
    }

    #[test]
    fn everything_of_the_service_is_signed_and_the_proof_is_not_shown() {
        let (headers, shown, proof) =
            signed(Some("a-token-for-a-while"), "https://api.example.com:8443/hook");
        let authorization = headers["authorization"].to_str().unwrap();
        let names = "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token;x-amz-target,";
        assert!(authorization.contains(names), "{authorization}");
        assert!(
            authorization
                .starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260921/eu-central-1/execute-api/")
        );
        assert_eq!(headers["host"], "api.example.com:8443");
        assert_eq!(headers.get_all("authorization").iter().count(), 1);
        assert!(headers["authorization"].is_sensitive() && headers["x-amz-security-token"].is_sensitive());
        let shown: Vec<&str> = shown.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(shown, ["x-amz-date", "x-amz-content-sha256"]);
        let proof: Vec<_> = proof.shown.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(proof, [("x-amz-security-token", "***"), ("authorization", "***")]);
    }

    #[test]
    fn the_usual_port_is_not_part_of_the_host() {
        for (url, host) in [
            ("https://api.example.com/", "api.example.com"),
            ("https://api.example.com:443/", "api.example.com"),
            ("http://api.example.com:443/", "api.example.com:443"),
            ("http://[::1]:80/", "[::1]"),
        ] {
            assert_eq!(signed(None, url).0["host"], host, "{url}");
        }
    }
}
