-- The demo's own tables, as a user would write them for handlers: one row per thing, unique by its own key.

CREATE TABLE public.demo_tickets (
    inbox       text NOT NULL,
    message_id  text NOT NULL,
    sender      text NOT NULL,
    subject     text NOT NULL,
    opened_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (inbox, message_id)
);

CREATE TABLE public.demo_payments (
    invoice   text PRIMARY KEY,
    amount    numeric(12, 2) NOT NULL,
    currency  text NOT NULL,
    paid_at   timestamptz NOT NULL DEFAULT now()
);
