-- Idempotency keys in the order they come, found by an index that follows in large sorted steps: a key is a hash, and an
-- index kept up with every event would have a page of its own written for each of them.

create table keys_in_order (
    number integer not null primary key,
    scope blob not null,
    key_hash blob not null,
    event_id blob not null,
    body_hash blob not null,
    created_at integer not null
);

insert into keys_in_order (number, scope, key_hash, event_id, body_hash, created_at)
select row_number() over (order by created_at), scope, key_hash, event_id, body_hash, created_at
from idempotency
order by created_at;

drop table idempotency;
alter table keys_in_order rename to idempotency;

-- Holds the keys up to the number in `idempotency_indexed`, and perhaps some beyond it. Not unique: a fingerprint only
-- says where to look.
create table idempotency_index (
    fingerprint integer not null,
    number integer not null,
    primary key (fingerprint, number)
) without rowid;

create table idempotency_indexed (
    up_to integer not null
);

insert into idempotency_indexed (up_to) values (0);
