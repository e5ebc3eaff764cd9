delete from sign_in_links
where hash in (select hash from sign_in_links where expires_at <= :over limit :limit)
