select coalesce(max(version), 0)::bigint as version
from refinery_schema_history
