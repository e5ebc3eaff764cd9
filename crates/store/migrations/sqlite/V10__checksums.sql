-- CRC-32 of the payload, as it was accepted; null of what was committed before. It stands behind the payload: whoever
-- asks for it has read that.
alter table events add column payload_crc integer;
