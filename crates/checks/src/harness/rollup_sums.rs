//! Whether what was summed up is what happened: nothing left out, nothing counted twice.

use anyhow::{Context, Result};
use domain::rollup::Sums;

use super::{Database, Report};

const SPANS: [&str; 2] = ["hour", "day"];
const OF_AN_ACCOUNT: [u8; 16] = [0; 16];

/// Of every span that is closed as a whole, against the facts. A fact belongs to the time its id was made at.
pub(crate) async fn must_match_facts(database: &Database, report: &mut Report) -> Result<()> {
    for span in SPANS {
        let rows = database
            .rows(&format!("select destination_id, starts_at, doc from rollups where span = '{span}'"))
            .await?;
        let (mut events, mut delivered, mut dead, mut last) = (0, 0, 0, 0);
        for row in rows.iter().filter(|row| row[0].id() == Some(OF_AN_ACCOUNT)) {
            let sums = row[2].text().and_then(Sums::read).context("a sum")?;
            events += sums.events;
            delivered += sums.delivered;
            dead += sums.dead_letters.values().sum::<u64>();
            last = last.max(row[1].number().unwrap_or(0));
        }
        let length = if span == "hour" { 3_600 } else { 86_400 };
        // The first id that is not in it.
        let end = ((last / 1_000 + length * 1_000) as u128) << 80;
        let end = database.literal(&end.to_be_bytes());
        let number = async |sql: String| database.number(&sql).await;
        let happened = number(format!("select count(*) from events where id < {end}")).await?;
        report.must_be(&format!("{span}s_events"), events, happened);
        for (ending, counted) in [("delivered", delivered), ("dead_letter", dead)] {
            let sql =
                format!("select count(*) from attempts where ending = '{ending}' and attempt_id < {end}");
            report.must_be(&format!("{span}s_{ending}"), counted, number(sql).await?);
        }
    }
    Ok(())
}
