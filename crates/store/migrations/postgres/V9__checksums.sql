-- CRC-32 of the payload, as it was accepted; null of what was committed before. Nothing is rewritten for it.
alter table events add column payload_crc integer;
