//! Who owned which shard, and when: the database writes it down itself, by triggers, so that no change is too short to
//! be seen and no node is asked.

use std::collections::HashMap;

use anyhow::{Context, Result};
use lab::judge::Tenure;
use lab::{Fault, FaultKind};

use super::database::Cell;
use super::{Database, Fleet, Report, Stage};

/// A node's id, one of each start.
type NodeId = [u8; 16];

/// What has happened to the shards since [`History::begin`]. Times are on the receiver's clock.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) turns: Vec<Turn>,
    pub(crate) joins: Vec<Join>,
}

/// A shard got an owner, or lost it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) at_us: u64,
    pub(crate) shard: u16,
    pub(crate) owner: Option<NodeId>,
    pub(crate) epoch: i64,
}

/// A node's row, from its beginning to its end.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    pub(crate) id: NodeId,
    pub(crate) label: String,
    pub(crate) at_us: u64,
    pub(crate) gone_us: Option<u64>,
}

impl History {
    /// From now on every change is written down, beginning with how things stand.
    pub(crate) async fn begin(database: &Database) -> Result<()> {
        let client = database.connect().await?;
        let Database::Postgres { schema, .. } = database else { return Ok(()) };
        let place = schema.as_deref().unwrap_or("public");
        client
            .batch_execute(&format!(
                "begin;
                 create table check_turns (at timestamptz not null default clock_timestamp(), shard smallint,
                     node_id uuid, epoch bigint);
                 create table check_joins (at timestamptz not null default clock_timestamp(), node_id uuid, label text,
                     gone boolean);
                 create function check_turn() returns trigger language plpgsql as $$
                 begin
                     insert into {place}.check_turns (shard, node_id, epoch) values (new.shard, new.node_id, new.epoch);
                     return null;
                 end $$;
                 create function check_join() returns trigger language plpgsql as $$
                 begin
                     if tg_op = 'DELETE' then
                         insert into {place}.check_joins (node_id, label, gone) values (old.id, old.label, true);
                     else
                         insert into {place}.check_joins (node_id, label, gone) values (new.id, new.label, false);
                     end if;
                     return null;
                 end $$;
                 lock table nodes, shards in share row exclusive mode;
                 insert into check_joins (node_id, label, gone) select id, label, false from nodes;
                 insert into check_turns (shard, node_id, epoch) select shard, node_id, epoch from shards;
                 create trigger check_turn after update on shards for each row
                     when (old.node_id is distinct from new.node_id or old.epoch <> new.epoch)
                     execute function check_turn();
                 create trigger check_join after insert or delete on nodes for each row execute function check_join();
                 commit"
            ))
            .await
            .context("ownership cannot be watched")
    }

    pub(crate) async fn read(stage: &Stage) -> Result<History> {
        // Both clocks are this machine's; the receiver's began with the receiver.
        let began_us = lab::clock::unix_us() - stage.receiver.now_us();
        let at_us = |cell: &Cell| (cell.number().unwrap_or(0) as u64).saturating_sub(began_us);
        let sql = "select (extract(epoch from at) * 1000000)::bigint, shard, node_id, epoch from check_turns order by epoch, at";
        let rows = stage.database.rows(sql).await?;
        let turn = |row: &Vec<Cell>| Turn {
            at_us: at_us(&row[0]),
            shard: row[1].number().unwrap_or(0) as u16,
            owner: row[2].id(),
            epoch: row[3].number().unwrap_or(0),
        };
        let mut turns: Vec<Turn> = rows.iter().map(turn).collect();
        turns.sort_by_key(|turn| (turn.at_us, turn.epoch));
        let sql = "select (extract(epoch from at) * 1000000)::bigint, node_id, label, gone from check_joins order by at";
        let mut joins: Vec<Join> = Vec::new();
        for row in stage.database.rows(sql).await? {
            let (at_us, id) = (at_us(&row[0]), row[1].id().context("a node has an id")?);
            if row[3].number() == Some(1) {
                let known = joins.iter_mut().rfind(|join| join.id == id);
                known.context("a node leaves that never joined")?.gone_us = Some(at_us);
            } else {
                let label = row[2].text().unwrap_or_default().to_owned();
                joins.push(Join { id, label, at_us, gone_us: None });
            }
        }
        Ok(History { turns, joins })
    }

    /// The process behind a node's row: the one its member was when the row was written.
    fn process(&self, stage: &Stage, join: &Join) -> Option<u32> {
        let member = stage.members.iter().find(|member| member.name == join.label)?;
        Some(member.runs.iter().rfind(|(_, since_us)| *since_us <= join.at_us)?.0)
    }

    /// Who owned the lanes of these destinations.
    pub(crate) fn tenures(&self, stage: &Stage, fleet: &Fleet) -> Vec<Tenure> {
        let joins: HashMap<NodeId, &Join> = self.joins.iter().map(|join| (join.id, join)).collect();
        let mut tenures = Vec::new();
        for (name, id) in fleet.names.iter().zip(&fleet.ids) {
            let turns: Vec<&Turn> = self.turns.iter().filter(|turn| turn.shard == id.shard()).collect();
            for (at, turn) in turns.iter().enumerate() {
                let Some(join) = turn.owner.and_then(|owner| joins.get(&owner)) else { continue };
                let Some(sender) = self.process(stage, join) else { continue };
                let next = turns.get(at + 1).map_or(u64::MAX, |next| next.at_us);
                // How things stood at the beginning had stood so before.
                let from_us = if at == 0 { 0 } else { turn.at_us };
                let until_us = next.min(join.gone_us.unwrap_or(u64::MAX));
                tenures.push(Tenure { destination: name.clone(), sender, from_us, until_us });
            }
        }
        tenures
    }

    /// The nodes that were taken for dead: their rows went without their doing, killed ones apart, which are counted
    /// by their kill.
    pub(crate) fn losses(&self, stage: &Stage, faults: &[Fault]) -> Vec<Fault> {
        let mut losses = Vec::new();
        for join in &self.joins {
            let (Some(gone_us), Some(pid)) = (join.gone_us, self.process(stage, join)) else { continue };
            let ended = |fault: &&Fault| {
                fault.sender == Some(pid) && matches!(fault.kind, FaultKind::Kill | FaultKind::Terminate)
            };
            if !faults.iter().any(|fault| ended(&fault) && fault.at_us <= gone_us) {
                losses.push(Fault::new(FaultKind::LostOwnership, gone_us, Some(pid)));
            }
        }
        losses
    }

    /// How often a shard changed hands in a time.
    pub(crate) fn handovers(&self, window: std::ops::Range<u64>) -> usize {
        let mut owners: HashMap<u16, Option<NodeId>> = HashMap::new();
        let mut count = 0;
        for turn in &self.turns {
            let before = owners.insert(turn.shard, turn.owner);
            count += usize::from(
                window.contains(&turn.at_us) && before.is_some_and(|before| before != turn.owner),
            );
        }
        count
    }

    /// Epochs grow by one with each change, and no two changes of a shard have the same.
    pub(crate) fn rules(&self, report: &mut Report) {
        let mut epochs: HashMap<u16, i64> = HashMap::new();
        let mut by_epoch = self.turns.clone();
        by_epoch.sort_by_key(|turn| (turn.shard, turn.epoch));
        let mut twice = 0;
        for turn in &by_epoch {
            twice += usize::from(epochs.insert(turn.shard, turn.epoch) == Some(turn.epoch));
        }
        report.exactly("epochs_used_twice", twice as u64, 0u64);
    }
}
