CREATE TABLE payments (
    invoice    text PRIMARY KEY,
    customer   text NOT NULL,
    amount     bigint NOT NULL,         -- in the currency's smallest unit, as Stripe counts
    currency   text NOT NULL
);

CREATE TABLE subscriptions (
    id         text PRIMARY KEY,
    status     text NOT NULL,
    as_of      timestamptz NOT NULL,
    as_of_id   bigint NOT NULL
);

GRANT SELECT, INSERT, UPDATE ON payments, subscriptions TO nottwice_worker;
