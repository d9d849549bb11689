-- A letter is known by its inbox and message id, whatever event told of it.
CREATE TABLE letters (
    inbox      text NOT NULL,
    message    text NOT NULL,
    thread     text NOT NULL,
    sender     text NOT NULL,
    subject    text NOT NULL,
    PRIMARY KEY (inbox, message)
);
CREATE INDEX letters_of_a_thread ON letters (thread);

-- One conversation. `as_of` and `as_of_id` say which event it stands at, so that an older one changes nothing.
CREATE TABLE tickets (
    thread     text PRIMARY KEY,
    customer   text NOT NULL,
    subject    text NOT NULL,
    letters    integer NOT NULL DEFAULT 0,
    as_of      timestamptz NOT NULL,
    as_of_id   bigint NOT NULL
);

GRANT SELECT, INSERT, UPDATE ON letters, tickets TO nottwice_worker;
