delete from portal_links
where id in (select id from portal_links where ends_at <= :over limit :limit)
