-- What the owners of lanes saw of them: slots and backlogs. Each writes its own minutes; hours and days are of all of them,
-- under the nil node. The nil destination stands for the account as a whole.
create table lane_rollups (
    account_id     uuid   not null,
    destination_id uuid   not null,
    span           text   not null check (span in ('minute', 'hour', 'day')),
    starts_at      bigint not null,
    node_id        uuid   not null,
    doc            text   not null,
    primary key (account_id, destination_id, span, starts_at, node_id)
) with (fillfactor = 70);                                  -- a minute is written a dozen times
create index lane_rollups_by_age on lane_rollups (span, starts_at, account_id, destination_id, node_id);

-- When an id was made, in microseconds: its first 48 bits are milliseconds.
create function made_at_us(id uuid) returns bigint language sql immutable strict parallel safe
return ('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint * 1000;
