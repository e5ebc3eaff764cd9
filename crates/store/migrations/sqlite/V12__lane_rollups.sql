-- What the owners of lanes saw of them: slots and backlogs. Each writes its own minutes; hours and days are of all of them,
-- under the nil node. The nil destination stands for the account as a whole.
create table lane_rollups (
    account_id blob not null,
    destination_id blob not null,
    span text not null check (span in ('minute', 'hour', 'day')),
    starts_at integer not null,
    node_id blob not null,
    doc text not null,
    primary key (account_id, destination_id, span, starts_at, node_id)
) without rowid;

create index lane_rollups_age on lane_rollups (span, starts_at, account_id, destination_id, node_id);
