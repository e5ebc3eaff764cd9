//! Hazard: a small body that is unpacked fills the node's memory.
//!
//! A mebibyte of gzip that unpacks to some 160 MiB goes to the ingest URL and to the API, under every name that an encoding
//! has; and once more without a name, as bytes.
//!
//! Holds if each encoded body is answered with 415 before anything of it is unpacked, the node's memory staying as it is,
//! and if bytes that are not called encoded are kept as they are.

use crate::harness::prelude::*;
use crate::harness::raw_http::{request, written_first};
use crate::harness::testbed::API_KEY;

const PACKED: usize = 1 << 20;
const MEMORY_GROWTH_MIB: f64 = 32.0;
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 1, 4).await?;
    let (ingest, bomb) = (source.ingest_path(), gzip_bomb(PACKED));
    let bearer = format!("Bearer {API_KEY}");
    let before = testbed.process()?.rss_bytes()?;
    let mut asked = 0u64;
    for encoding in
        ["gzip", "GZIP", "x-gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "aes128gcm"]
    {
        for path in [ingest.as_str(), "/v1/events", "/v1/events/batch"] {
            let headers = [
                ("content-encoding", encoding),
                ("authorization", bearer.as_str()),
                ("content-type", "application/json"),
            ];
            let answer = written_first(testbed.addr, &request("POST", path, &headers, &bomb), LIMIT).await?;
            let right =
                answer.statuses() == [415] && answer.code().as_deref() == Some("unsupported_media_type");
            report.must(right, format!("{encoding} at {path}: {:?} {:?}", answer.statuses(), answer.code()));
            asked += 1;
        }
    }
    report.note("refused", asked);
    let growth = testbed.process()?.rss_bytes()?.saturating_sub(before);
    report.must_be_at_most("memory_growth_mib", mib(growth), MEMORY_GROWTH_MIB);
    report.must_be("stored_of_what_was_refused", testbed.database.count("events").await?, 0);

    for headers in [&[("content-type", "application/gzip")][..], &[("content-encoding", "identity")]] {
        let answer =
            raw_http::exchange(testbed.addr, &request("POST", &ingest, headers, &bomb), LIMIT).await?;
        let accepted: serde_json::Value = serde_json::from_str(answer.body()).unwrap_or_default();
        report.must(
            answer.status == Some(202),
            format!("bytes are refused: {:?} {:?}", answer.status, answer.code()),
        );
        let id = accepted["id"].as_str().context("an accepted event has an id")?;
        report
            .must(testbed.client.event_payload(id.parse()?).await? == bomb, "bytes are not kept as they are");
    }
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// So many bytes of gzip, all of them one byte repeated: a literal, and then over and over "258 of the one before".
fn gzip_bomb(bytes: usize) -> Vec<u8> {
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    // The last block, of fixed codes; the literal 0; then length code 285 and distance code 0, thirteen bits together.
    let (mut bits, mut held) = (0b011u64, 3u32);
    let mut put = |code: u64, length: u32, bomb: &mut Vec<u8>| {
        // Huffman codes begin with their highest bit, and bytes with their lowest.
        let reversed = code.reverse_bits() >> (64 - length);
        bits |= reversed << held;
        held += length;
        while held >= 8 {
            bomb.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    };
    put(0b0011_0000, 8, &mut bomb);
    while bomb.len() < bytes {
        put(0b1_1000_1010_0000, 13, &mut bomb);
    }
    bomb
}
