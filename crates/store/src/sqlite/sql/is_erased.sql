-- Nothing more is written of what was an account's, or of the answers to an event whose payload was erased.
select 1
where exists (select 1 from accounts where id = :account_id and deleted_at is not null)
   or exists (select 1 from events where id = :event_id and payload_erased_at is not null)
