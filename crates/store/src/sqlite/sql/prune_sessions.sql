delete from sessions
where id in (select id from sessions where seen_at < :seen_before limit :limit)
