-- The networks that a key is taken from stand in its document, so there is nothing to change. A node of the version before
-- does not look at them: a key that has some counts everywhere until the last of those nodes is gone.
comment on column api_keys.doc is 'with the networks that it is taken from, if not from everywhere';
