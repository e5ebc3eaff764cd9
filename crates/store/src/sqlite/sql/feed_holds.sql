-- Behind :after, by when they changed. The account is null where the destination is gone.
select h.changed_at, d.account_id, h.destination_id, h.reason, h.since, h.until, h.detail, h.step, h.ended_at
from holds h
left join destinations d on d.id = h.destination_id
where h.changed_at > :after
order by h.changed_at
limit :limit
