select coalesce((select max(rowid) from attempts), 0),
  coalesce((select max(changed_at) from holds), 0),
  coalesce((select max(rowid) from events), 0)
