//! Destinations at hostile receivers: each gets the events of its own type.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use client::{AttemptView, NewDestination, Publish};
use domain::id::{DeliveryId, DestinationId};
use tokio::time::{Instant, sleep_until};

use super::HostileReceiver;
use super::expectation::Ending;
use super::kinds::Case;
use crate::harness::{Report, Testbed, becomes, retry_policy};

/// Cases with something wrong that are told; the others are counted.
const TOLD: usize = 12;

pub(crate) struct HostileDestinations {
    all: Vec<HostileDestination>,
}

struct HostileDestination {
    id: DestinationId,
    case: Case,
    receiver: HostileReceiver,
    event_type: String,
}

/// What is sent to them.
pub(crate) struct HostileLoad<'a> {
    /// To each.
    pub(crate) deliveries: u64,
    pub(crate) over: Duration,
    /// In turn.
    pub(crate) payload_bytes: &'a [usize],
}

impl HostileDestinations {
    /// One for each case. What has the same name gets the same events.
    pub(crate) async fn make(
        testbed: &Testbed,
        name: &str,
        cases: Vec<Case>,
        slots: u32,
        pauses: &[u64],
    ) -> Result<HostileDestinations> {
        let mut all = Vec::new();
        for (at, case) in cases.into_iter().enumerate() {
            let receiver = HostileReceiver::start(&case.conduct).await?;
            let name = format!("{name}-{at:03}");
            let plan = NewDestination {
                url: receiver.url(&format!("/d/{name}")),
                retry_policy: retry_policy(pauses),
                ..testbed.destination_with_slots(&name, slots)
            };
            let event_type = format!("hostile.{name}");
            let id = testbed.add_destination(&plan, &[&event_type]).await?;
            all.push(HostileDestination { id, case, receiver, event_type });
        }
        Ok(HostileDestinations { all })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn event_types(&self) -> Vec<String> {
        self.all.iter().map(|it| it.event_type.clone()).collect()
    }

    /// Publishes events to all of them in turn, and says how many.
    pub(crate) async fn publish(&self, testbed: &Testbed, load: &HostileLoad<'_>) -> Result<u64> {
        let began = Instant::now();
        for round in 0..load.deliveries {
            sleep_until(began + load.over.mul_f64(round as f64 / load.deliveries as f64)).await;
            let bytes = load.payload_bytes[round as usize % load.payload_bytes.len()];
            let payload = format!("\"{}\"", "p".repeat(bytes - 2));
            let event = |it: &HostileDestination| Publish::json(&it.event_type, payload.clone());
            let events: Vec<_> = self.all.iter().map(event).collect::<Result<_, _>>()?;
            if bytes > 64 * 1024 {
                for event in &events {
                    testbed.client.publish(event).await?;
                }
            } else {
                testbed.publish_all(&events).await?;
            }
        }
        Ok(load.deliveries * self.all.len() as u64)
    }

    /// Waits until so many of their deliveries have ended.
    pub(crate) async fn wait_until_ended(
        &self,
        testbed: &Testbed,
        count: u64,
        limit: Duration,
        report: &mut Report,
    ) -> Result<()> {
        let sql =
            format!("select count(*) from attempts where ending is not null and {}", self.theirs(testbed));
        let mut ended = 0;
        becomes(limit, 50, async || {
            ended = testbed.database.number(&sql).await?;
            Ok(ended >= count)
        })
        .await?;
        report.must_be("hostile_deliveries_ended", ended, count);
        Ok(())
    }

    fn theirs(&self, testbed: &Testbed) -> String {
        let ids: Vec<String> = self.all.iter().map(|it| testbed.database.literal(it.id.bytes())).collect();
        format!("destination_id in ({})", ids.join(","))
    }

    /// Sockets that the node has open to them.
    pub(crate) fn sockets(&self, testbed: &Testbed) -> Result<usize> {
        let ports: Vec<u16> = self.all.iter().map(|it| it.receiver.port()).collect();
        let called = lab::process::called_ports(testbed.process()?.pid());
        Ok(called.iter().filter(|port| ports.contains(port)).count())
    }

    /// Closes the receivers, and with them what is kept open to them; what they have seen stays.
    pub(crate) fn close(&self) {
        self.all.iter().for_each(|it| it.receiver.close());
    }

    pub(crate) fn connections(&self) -> u64 {
        self.all.iter().map(|it| it.receiver.log.connections.load(Relaxed)).sum()
    }

    /// What is wrong with what became of it all, by case.
    pub(crate) async fn judge(&self, testbed: &Testbed, report: &mut Report) -> Result<()> {
        let mut endings = self.endings(testbed).await?;
        let (mut made, mut wrong) = (0, 0);
        for destination in &self.all {
            let attempts = attempts(testbed, destination.id).await?;
            made += attempts.len();
            let own = endings.remove(destination.id.bytes()).unwrap_or_default();
            let mistakes = destination.case.expects.judge(&attempts, &own, &destination.receiver.log);
            if !mistakes.is_empty() {
                wrong += 1;
                if wrong <= TOLD {
                    report.must(false, format!("{}: {}", destination.case.name, mistakes.join("; ")));
                }
            }
        }
        report.note("hostile_attempts", made);
        report.must_be("cases_with_something_wrong", wrong, 0);
        Ok(())
    }

    async fn endings(&self, testbed: &Testbed) -> Result<HashMap<[u8; 16], HashMap<String, Ending>>> {
        let sql = format!(
            "select destination_id, delivery_id, reason from attempts where ending is not null and {}",
            self.theirs(testbed)
        );
        let mut endings: HashMap<[u8; 16], HashMap<String, Ending>> = HashMap::new();
        for row in testbed.database.rows(&sql).await? {
            let destination = row[0].id().context("an id")?;
            let delivery = DeliveryId::from_bytes(row[1].id().context("an id")?).to_string();
            let ending = Ending { reason: row[2].text().map(str::to_owned) };
            endings.entry(destination).or_default().insert(delivery, ending);
        }
        Ok(endings)
    }
}

/// As its account sees them.
async fn attempts(testbed: &Testbed, destination: DestinationId) -> Result<Vec<AttemptView>> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = testbed.client.destination_attempts(destination, cursor.as_deref()).await?;
        all.extend(page.data);
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}
