//! Which node owned which shard, and when: the database writes it down itself, by triggers, so that no change is too short to
//! be seen and no node is asked.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use lab::judge::Tenure;
use lab::{Fault, FaultKind};

use super::database::SqlValue;
use super::{Database, Report, RoutedSource, Testbed};

/// A node's id, one of each start.
type NodeId = [u8; 16];

/// What has happened to the shards since [`OwnershipLog::begin`]. Times are on the receiver's clock.
#[derive(Debug, Default)]
pub(crate) struct OwnershipLog {
    pub(crate) changes: Vec<OwnerChange>,
    pub(crate) nodes: Vec<NodeRow>,
}

/// A shard got an owner, or lost it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerChange {
    pub(crate) at_us: u64,
    pub(crate) shard: u16,
    pub(crate) owner: Option<NodeId>,
    pub(crate) epoch: i64,
}

/// A node's row, from its beginning to its end.
#[derive(Debug, Clone)]
pub(crate) struct NodeRow {
    pub(crate) id: NodeId,
    pub(crate) label: String,
    pub(crate) at_us: u64,
    pub(crate) gone_us: Option<u64>,
}

impl OwnershipLog {
    /// From now on every change is written down, beginning with how things stand.
    pub(crate) async fn begin(database: &Database) -> Result<()> {
        let client = database.connect().await?;
        let Database::Postgres { schema, .. } = database else { return Ok(()) };
        let schema = schema.as_deref().unwrap_or("public");
        client
            .batch_execute(&format!(
                "begin;
                 create table check_owner_changes (at timestamptz not null default clock_timestamp(), shard smallint,
                     node_id uuid, epoch bigint);
                 create table check_node_rows (at timestamptz not null default clock_timestamp(), node_id uuid, label text,
                     gone boolean);
                 create function check_owner_change() returns trigger language plpgsql as $$
                 begin
                     insert into {schema}.check_owner_changes (shard, node_id, epoch) values (new.shard, new.node_id, new.epoch);
                     return null;
                 end $$;
                 create function check_node_row() returns trigger language plpgsql as $$
                 begin
                     if tg_op = 'DELETE' then
                         insert into {schema}.check_node_rows (node_id, label, gone) values (old.id, old.label, true);
                     else
                         insert into {schema}.check_node_rows (node_id, label, gone) values (new.id, new.label, false);
                     end if;
                     return null;
                 end $$;
                 lock table nodes, shards in share row exclusive mode;
                 insert into check_node_rows (node_id, label, gone) select id, label, false from nodes;
                 insert into check_owner_changes (shard, node_id, epoch) select shard, node_id, epoch from shards;
                 create trigger check_owner_change after update on shards for each row
                     when (old.node_id is distinct from new.node_id or old.epoch <> new.epoch)
                     execute function check_owner_change();
                 create trigger check_node_row after insert or delete on nodes for each row execute function check_node_row();
                 commit"
            ))
            .await
            .context("ownership cannot be watched")
    }

    pub(crate) async fn read(testbed: &Testbed) -> Result<OwnershipLog> {
        // Both clocks are this machine's; the receiver's began with the receiver.
        let began_us = lab::clock::unix_us() - testbed.receiver.now_us();
        let at_us = |cell: &SqlValue| (cell.number().unwrap_or(0) as u64).saturating_sub(began_us);
        let sql = "select (extract(epoch from at) * 1000000)::bigint, shard, node_id, epoch from check_owner_changes order by epoch, at";
        let rows = testbed.database.rows(sql).await?;
        let change = |row: &Vec<SqlValue>| OwnerChange {
            at_us: at_us(&row[0]),
            shard: row[1].number().unwrap_or(0) as u16,
            owner: row[2].id(),
            epoch: row[3].number().unwrap_or(0),
        };
        let mut changes: Vec<OwnerChange> = rows.iter().map(change).collect();
        changes.sort_by_key(|change| (change.at_us, change.epoch));
        let sql = "select (extract(epoch from at) * 1000000)::bigint, node_id, label, gone from check_node_rows order by at";
        let mut nodes: Vec<NodeRow> = Vec::new();
        for row in testbed.database.rows(sql).await? {
            let (at_us, id) = (at_us(&row[0]), row[1].id().context("a node has an id")?);
            if row[3].number() == Some(1) {
                let known = nodes.iter_mut().rfind(|node| node.id == id);
                known.context("a node leaves that never joined")?.gone_us = Some(at_us);
            } else {
                let label = row[2].text().unwrap_or_default().to_owned();
                nodes.push(NodeRow { id, label, at_us, gone_us: None });
            }
        }
        Ok(OwnershipLog { changes, nodes })
    }

    /// The process behind a node's row: the one that the node was when the row was written.
    fn process(&self, testbed: &Testbed, row: &NodeRow) -> Option<u32> {
        let node = testbed.nodes.iter().find(|node| node.name == row.label)?;
        Some(node.runs.iter().rfind(|(_, since_us)| *since_us <= row.at_us)?.0)
    }

    /// Which node owned the lanes of these destinations.
    pub(crate) fn tenures(&self, testbed: &Testbed, source: &RoutedSource) -> Vec<Tenure> {
        let rows: HashMap<NodeId, &NodeRow> = self.nodes.iter().map(|row| (row.id, row)).collect();
        let mut tenures = Vec::new();
        for (name, id) in source.names.iter().zip(&source.destinations) {
            let of_shard = self.changes.iter().filter(|change| change.shard == id.shard());
            let changes: Vec<&OwnerChange> = of_shard.collect();
            for (at, change) in changes.iter().enumerate() {
                let Some(row) = change.owner.and_then(|owner| rows.get(&owner)) else { continue };
                let Some(sender) = self.process(testbed, row) else { continue };
                let next = changes.get(at + 1).map_or(u64::MAX, |next| next.at_us);
                // The first owner had been the owner before the watch began.
                let from_us = if at == 0 { 0 } else { change.at_us };
                let until_us = next.min(row.gone_us.unwrap_or(u64::MAX));
                tenures.push(Tenure { destination: name.clone(), sender, from_us, until_us });
            }
        }
        tenures
    }

    /// The nodes that were taken for dead: their rows went without their doing, killed ones apart, which are counted
    /// by their kill.
    pub(crate) fn losses(&self, testbed: &Testbed, faults: &[Fault]) -> Vec<Fault> {
        let mut losses = Vec::new();
        for row in &self.nodes {
            let (Some(gone_us), Some(pid)) = (row.gone_us, self.process(testbed, row)) else { continue };
            let ended = |fault: &&Fault| {
                fault.sender == Some(pid) && matches!(fault.kind, FaultKind::Kill | FaultKind::Terminate)
            };
            if !faults.iter().any(|fault| ended(&fault) && fault.at_us <= gone_us) {
                losses.push(Fault::new(FaultKind::LostOwnership, gone_us, Some(pid)));
            }
        }
        losses
    }

    /// How often a shard changed its owner in a time.
    pub(crate) fn handovers(&self, window: std::ops::Range<u64>) -> usize {
        let mut owners: HashMap<u16, Option<NodeId>> = HashMap::new();
        let mut count = 0;
        for change in &self.changes {
            let before = owners.insert(change.shard, change.owner);
            count += usize::from(
                window.contains(&change.at_us) && before.is_some_and(|before| before != change.owner),
            );
        }
        count
    }

    /// Epochs grow by one with each change, and no two changes of a shard have the same.
    pub(crate) fn must_hold(&self, report: &mut Report) {
        let mut epochs = HashSet::new();
        let twice = self.changes.iter().filter(|change| !epochs.insert((change.shard, change.epoch))).count();
        report.must_be("epochs_used_twice", twice, 0);
    }
}
