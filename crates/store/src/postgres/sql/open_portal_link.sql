update portal_links
set opened_at = :now, ends_at = :ends_at
where id = :id and opened_at is null and expires_at > :now
returning id
