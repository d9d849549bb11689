-- Since when a process goes on with a configuration of before, because the file refused to be read again (SIGHUP).
ALTER TABLE nottwice.workers ADD COLUMN refused_at timestamptz;
