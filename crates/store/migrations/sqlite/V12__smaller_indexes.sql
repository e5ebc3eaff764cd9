-- Without the attempt: few deliveries have several, and those few are sorted when they are read.
drop index attempts_destination;
create index attempts_destination on attempts (destination_id, delivery_id);

-- From here on a fact's `detail` is a blob where it is packed, and its `origin` is empty where it is the delivery itself.
-- Neither needs another column, and what was written before stays as it is.
