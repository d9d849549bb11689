"""Sources that sign by rules of their own, as a configuration names them; light enough for every test to import."""

from __future__ import annotations

import base64

STRIPE_SECRET, OLD_STRIPE_SECRET = "whsec_not_twice_a_test", "whsec_not_twice_the_one_before"
SHOPIFY_SECRET, OLD_SHOPIFY_SECRET = "hush, the shops' own", "hush, the one before"
HUBSPOT_SECRET, OLD_HUBSPOT_SECRET = (
    "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
    "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
)
GRAPH_SECRET, OLD_GRAPH_SECRET = "a client state of ours", "a client state we had"
STANDARD_SECRET = "whsec_" + base64.b64encode(b"not twice, and by the standard").decode()
OLD_STANDARD_SECRET = "whsec_" + base64.b64encode(b"by the standard, once before").decode()
SECRETS = {
    "STRIPE": STRIPE_SECRET,
    "SHOPIFY": SHOPIFY_SECRET,
    "HUBSPOT": HUBSPOT_SECRET,
    "GRAPH": GRAPH_SECRET,
    "STANDARD": STANDARD_SECRET,
}
PUBLIC_URL = "https://hooks.acme.example/webhooks/crm?app=1"

CONFIG = f"""
[sources.payments]
kind = "stripe"
namespace = "acme"
secrets = ["STRIPE"]

[sources.shops]
kind = "shopify"
namespace = "acme"
secrets = ["SHOPIFY"]

[sources.crm]
kind = "hubspot"
namespace = "acme"
secrets = ["HUBSPOT"]
public_url = "{PUBLIC_URL}"

[sources.office]
kind = "microsoft-graph"
namespace = "acme"
secrets = ["GRAPH"]

[sources.anybody]
kind = "standard-webhooks"
namespace = "acme"
secrets = ["STANDARD"]
"""
