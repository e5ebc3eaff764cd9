//! Who is there. One process at a time, by the lock; its row is kept all the same, so that everything above works
//! as it does with many.

use super::{SqliteStore, row::Key as _, trouble::Trouble, writer::Turn};
use crate::{Joined, Membership, NodeRecord, StoreError};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::time::Duration;

#[async_trait]
impl Membership for SqliteStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.read(now).await
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Joined, StoreError> {
        let node = node.clone();
        self.write(Turn::Settle, move |connection| join(connection, &node, lease)).await
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Timestamp, StoreError> {
        self.write(Turn::Settle, move |connection| {
            let now = now(connection)?;
            let mut renew = connection.prepare_cached("update nodes set expires_at = ?2 where id = ?1")?;
            match renew.execute(params![node.blob(), now.plus(lease).micros()])? {
                0 => Err(StoreError::NodeLost.into()),
                _ => Ok(now),
            }
        })
        .await
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.write(Turn::Settle, move |connection| {
            connection.prepare_cached("delete from nodes where id = ?1")?.execute([node.blob()])?;
            Ok(())
        })
        .await
    }

    async fn health(&self) -> Result<(), StoreError> {
        // An empty transaction: the thread is there, the file can be locked, no flush has failed.
        self.write(Turn::Api, |_| Ok(())).await
    }
}

fn join(connection: &Connection, node: &NodeRecord, lease: Duration) -> Result<Joined, Trouble> {
    let now = now(connection)?;
    let other = connection
        .prepare_cached(
            "select label, expires_at from nodes where expires_at > ?1 and proof <> ?2 order by id limit 1",
        )?
        .query_row(params![now.micros(), node.proof], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((by, expires_at)) = other {
        return Ok(Joined::Occupied { by, for_another: Timestamp::from_micros(expires_at).since(now) });
    }
    connection.prepare_cached("delete from nodes")?.execute([])?;
    connection
        .prepare_cached(
            "insert into nodes (id, label, proof, version, joined_at, expires_at) values (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            node.id.blob(),
            node.label,
            node.proof,
            node.version,
            now.micros(),
            now.plus(lease).micros()
        ])?;
    Ok(Joined::Yes { now })
}

/// The clock of the machine, asked through SQLite, which knows it to the millisecond.
fn now(connection: &Connection) -> Result<Timestamp, Trouble> {
    let mut clock = connection.prepare_cached("select cast(round(unixepoch('subsec') * 1000) as integer)")?;
    let millis: i64 = clock.query_row([], |row| row.get(0))?;
    Ok(Timestamp::from_micros(millis * 1_000))
}
