-- Networks that a key is taken from, as JSON; none: from everywhere.
alter table api_keys add column allowed_addresses text not null default '[]';
