-- Keys of platforms belong to no account either. The kind of a key stands in its document, so there is nothing to change: a
-- node of the version before passes them over where it lists keys of operators, and does not know them where one is shown.
comment on column api_keys.account_id is 'null: a key of an operator or a platform';
