"""Verifies deliveries with the Standard Webhooks library: one JSON object a line on standard input, an end with a message at the first that fails."""

import json
import sys
from datetime import datetime as real

from standardwebhooks import webhooks


class Then(real):
    """The moment at which a delivery arrived: the tests' clock is not the machine's."""

    at = 0

    @classmethod
    def now(cls, tz=None):
        return real.fromtimestamp(cls.at, tz)


webhooks.datetime = Then
count = 0
for line in sys.stdin:
    sent = json.loads(line)
    Then.at = sent["arrived"]
    headers = {"webhook-id": sent["id"], "webhook-timestamp": sent["timestamp"], "webhook-signature": sent["signature"]}
    for secret in sent["secrets"]:
        try:
            webhooks.Webhook(secret).verify(sent["body"], headers)
        except webhooks.WebhookVerificationError as error:
            sys.exit(f"{sent['id']}: {error}")
    for stranger in sent["strangers"]:
        try:
            webhooks.Webhook(stranger).verify(sent["body"], headers)
        except webhooks.WebhookVerificationError:
            continue
        sys.exit(f"{sent['id']} verifies by a secret that it was not signed with")
    count += 1
print(f"{count} verified")
