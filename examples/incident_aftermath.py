"""The second half of the made-up incident: refunds, side finds, checks, and the morning after."""

# Prose, laid out by hand: one call or sentence a line.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import incident_outputs as out
from incident_story import CHARGES, EVENING, TOTAL, Call, Exchange, do, logs, metric, post, read, sh, sql

NIGHT = EVENING + 7_200


def refund(order: str, charge: str, amount: float) -> Call:
    arguments = {"charge": charge, "amount": f"{amount:.2f}", "reason": "INC-4471 double charge"}

    def output(rng: Random) -> str:
        return f'{{"refund": "rf_{rng.getrandbits(40):010x}", "order": "{order}", "charge": "{charge}", "amount": "{amount:.2f}", "state": "accepted"}}'

    return Call("refund", arguments, output)


def refunds() -> Iterator[Exchange]:
    """23:40, the money goes back."""
    batches = [CHARGES[start : start + 4] for start in range(4, len(CHARGES), 4)]
    yield Exchange(
        "Dele: the gateway agrees with your 37. Refund the SECOND charge of each, never the first, four at a time, and stop at the first refusal.",
        (
            do(*(refund(order, second, amount) for order, _, second, amount in CHARGES[:4]), say="First four; I look at the answers before going on."),
            *(do(*(refund(order, second, amount) for order, _, second, amount in batch)) for batch in batches),
        ),
        f"All 37 refunds accepted, none refused, {TOTAL:.2f} EUR. Every refund names a second charge; I compared each id with the table before sending. "
        "They show up on statements in 2 to 5 banking days.",
    )
    yield Exchange(
        "Sofía: please draft the mail to those customers. Spanish, Polish, Japanese and English; short, no excuses, with the order number as {order}.",
        (),
        "**ES** Ayer por la noche cobramos dos veces tu pedido {order}. Ya hemos devuelto el segundo cargo; lo verás en 2 a 5 días hábiles. Lo sentimos.\n\n"
        "**PL** Wczoraj wieczorem pobraliśmy płatność za zamówienie {order} dwa razy. Druga kwota została już zwrócona; pojawi się w ciągu 2–5 dni roboczych. Przepraszamy.\n\n"
        "**JA** 昨夜、ご注文 {order} の代金を二重に請求してしまいました。二回目の請求はすでに返金済みで、2〜5営業日以内に反映されます。申し訳ございません。\n\n"
        "**EN** Last night we charged order {order} twice. The second charge has been refunded and will show within 2 to 5 working days. We are sorry.",
    )
    yield Exchange(
        "葉山です。日本語の文面、最後の一文は「深くお詫び申し上げます」にしてください。他は問題ありません。",
        (),
        "承知しました。最後の一文を「深くお詫び申し上げます。」に変更しました。ES、PL、EN の文面はそのままです。送信は Sofía さんの承認後に行います。",
    )
    yield Exchange(
        "Approved, send them 🙏 and tell me how many bounced.",
        (do(Call("mail", {"template": "inc4471-refund", "recipients": "view:double_charges_inc4471"}, lambda _: '{"queued": 37, "languages": {"es": 14, "en": 11, "pl": 8, "ja": 4}}')),
         do(logs("mail-out", NIGHT + 1500, 55, "INFO delivered 36/37 batch inc4471-refund", "WARN bounce order=HP-668130 550 mailbox unavailable"))),
        "37 queued, 36 delivered (es 14, en 11, pl 8, ja 4), one bounce: order HP-668130, mailbox unavailable (550). Support should phone that customer.",
    )


def side_finds() -> Iterator[Exchange]:
    """00:20, what else came to light: a slot that fills a disk, a certificate that will not renew."""
    yield Exchange(
        "Tomasz: db-orders-b lags since the index build. Look before I go to bed.",
        (
            do(sh("db-orders-b", "df -h", lambda rng: out.disks(rng, 91)), metric("replica_lag", NIGHT + 2400, 2, 412, "s", 24)),
            do(sql("db-orders-a", "select slot_name, active, restart_lsn, retained from replication_slots",
                   " slot_name      | active | restart_lsn  | retained\n slot_replica_b | t      | 5C1/9A0441F8 | 212 MB\n slot_reporting | f      | 57E/10C20018 | 338 GB\n slot_audit     | t      | 5C1/99F81200 | 214 MB\n(3 rows)")),
            do(logs("db-orders-b", NIGHT + 2500, 50, "LOG restored log file 00000001000005C1", "WARNING pg_wal on db-orders-a at 91 percent")),
        ),
        "Two things. The lag (412 s) is the replay of the new index and falls by itself. The danger is elsewhere: slot_reporting is inactive and retains "
        "338 GB of WAL; /srv/pg_wal is 91 % full. At tonight's rate it is full in about 5 hours, and then db-orders-a stops taking writes.",
    )
    yield Exchange(
        "slot_reporting belonged to the old reporting box, switched off in January. Drop it. Leave slot_audit alone whatever happens!",
        (
            do(sql("db-orders-a", "select drop_slot('slot_reporting')", "dropped slot_reporting"), say="Dropping slot_reporting only. slot_audit is untouched."),
            do(sh("db-orders-a", "df -h", lambda rng: out.disks(rng, 14)), sql("db-orders-a", "select slot_name, active from replication_slots", " slot_replica_b | t\n slot_audit     | t\n(2 rows)")),
        ),
        "Dropped. /srv/pg_wal went from 91 % to 14 %. slot_replica_b and slot_audit are active as before.",
    )
    yield Exchange(
        "While you are on the edges: Yuki says edge-2 complained about a certificate in the afternoon.",
        (
            do(*(sh(f"edge-{n}", "certs show shop.harbour-pine.example", f"subject=shop.harbour-pine.example\nserial=04:9C:E1:{'7A' if n == 2 else '8D'}:11:{20 + n}\nnot_after={'2026-03-23T11:04:00Z' if n == 2 else '2026-06-02T09:41:00Z'}\nissuer=Example Trust R4") for n in (1, 2, 3))),
            do(logs("edge-2", EVENING - 18_000, 48, "ERROR ACME-403 CAA record for harbour-pine.example forbids issuance", "INFO next renewal attempt in 24 h")),
            do(sh("edge-2", "dig +short CAA harbour-pine.example", '0 issue "other-ca.example"\n0 iodef "mailto:security@harbour-pine.example"')),
        ),
        "edge-2's certificate (serial 04:9C:E1:7A:11:22) ends on 2026-03-23 11:04 UTC, in six days; renewal fails with ACME-403 because the CAA record only "
        "allows other-ca.example. edge-1 and edge-3 have one until June. Not urgent tonight, but it needs a DNS change: add 'issue \"example-trust.example\"'.",
    )
    yield Exchange(
        "Ticket for that, not tonight. Number?",
        (do(Call("ticket", {"queue": "edge", "title": "CAA record blocks renewal on edge-2, certificate ends 2026-03-23", "due": "2026-03-20"}, lambda _: '{"ticket": "EDGE-2093"}')),),
        "EDGE-2093, due 2026-03-20, assigned to Yuki.",
    )


def checks() -> Iterator[Exchange]:
    """01:10, proof that it holds; everything that was changed is put straight."""
    yield Exchange(
        "Before we bring back the consumers: load test against staging with the new index and with jitter on. Three runs, 800 users.",
        (
            do(sh("stage-1", "payctl set retry.jitter=true retry.attempts=3", "retry.jitter false -> true; retry.attempts 3 -> 3")),
            *(do(sh("load-2", f"loadrun checkout --users 800 --seed {seed}", lambda rng, p95=p95, bad=bad: out.load_test(rng, 800, p95, bad))) for seed, p95, bad in ((1, 431, 0), (2, 418, 2), (3, 412, 0))),
        ),
        "Three runs, 800 users: p95 431, 418 and 412 ms, two failures among some 990,000 requests (both PAY-1204 at 2.1 s during ramp-up). With jitter the retry wave is gone.",
    )
    yield Exchange(
        "Fine. Production: retry.attempts back to 3, jitter ON everywhere, ttl_s of idempotency to 259200, consumers one to six, one host after the other. Watch each for two minutes.",
        tuple(
            step
            for n in (1, 2)
            for step in (
                do(sh(f"pay-0{n}", "payctl set retry.attempts=3 retry.jitter=true idempotency.ttl_s=259200", f"pay-0{n}: retry.attempts 0 -> 3; retry.jitter false -> true; idempotency.ttl_s 86400 -> 259200")),
                do(sh(f"pay-0{n}", "payctl consumers resume --all", f"pay-0{n}: consumers running: 3")),
                do(logs(f"pay-0{n}", NIGHT + 5400 + 300 * n, 40), metric(f"pay_pool_waiting{{host=pay-0{n}}}", NIGHT + 5400 + 300 * n, 2, 1, "sessions", 6)),
            )
        ),
        "Both hosts run as asked: retry.attempts 3, retry.jitter true, idempotency.ttl_s 259200 (three days, was one), three consumers each. No PAY-1187 since 22:32.",
    )
    yield Exchange(
        "And web-14?",
        (do(sh("web-14", "releasectl switch 2026.3.17", "draining web-14 … 0 open requests\nswitched 2026.3.16 -> 2026.3.17\nhealth: ok after 8.7 s")),
         do(*(sh(host, "releasectl current", "2026.3.17") for host in out.WEB))),
        "web-14 is on 2026.3.17 again; all six web hosts agree.",
    )
    yield Exchange(
        "Every host once more, please: disk, top process, error lines of the last ten minutes. I want to sleep.",
        tuple(
            do(sh(host, "df -h", lambda rng: out.disks(rng, rng.randrange(9, 40))),
               sh(host, "ps aux --sort=-%cpu | head", lambda rng, host=host: out.processes(rng, host, ((f"/srv/{host.split('-')[0]}/bin/main", rng.uniform(8, 40), rng.randrange(900_000, 9_000_000)),))),
               logs(host, NIGHT + 7000, 16))
            for host in ("edge-1", "edge-2", "edge-3", *out.WEB, "pay-01", "pay-02", "db-orders-a", "db-orders-b", "queue-1", "cache-3")
        ),
        "15 hosts looked at: nothing above 40 % disk, no error line in the last ten minutes. Good night, Ines. INC-4471 is mitigated since 22:32, open until the review.",
    )


def morning() -> Iterator[Exchange]:
    """18 March, the review: questions that reach far back, and what follows."""
    day = 86_400 + 9 * 3600
    yield Exchange(
        "Good morning. Did anything happen overnight?",
        (do(metric("checkout_error_share", day - 14_400, 0.2, 0.2, "%", 60)), do(logs("pay-01", day - 900, 60), logs("pay-02", day - 900, 60))),
        "Quiet night: error share 0.2 % throughout, no PAY-1187, two PAY-1204 below 1 s at 04:10 during the base backup.",
    )
    yield Exchange(
        "For the review I need exact values. What was the id of the poison message, its order, and where is it now?",
        (do(Call("broker", {"host": "queue-1", "action": "peek", "queue": "orders.confirm.dead", "count": 1}, lambda _: '{"message_id": "7f3e-90ac-41d2", "order": "HP-641207", "idempotency_key": null, "amount": "118.40"}')),),
        "Message 7f3e-90ac-41d2, order HP-641207, 118.40 EUR, idempotency_key null. It still lies in orders.confirm.dead on queue-1.",
    )
    yield Exchange(
        "Why was its key null?",
        (
            do(sh("build-7", "git -C /srv/src/web log -S idempotency_key --oneline -6", lambda rng: out.commits(rng, ("Take the key from the cart, not the session", "Guest checkout: make a cart on the fly", "Send the key as a header", "Key per attempt", "Key per cart", "First version of confirm")))),
            do(read("/srv/src/web/checkout/guest.ts", "export function guestCart(session: Session): Cart {\n  const cart = newCart(session.locale);\n  // key is set when the cart is saved; guests are not saved before confirm\n  return { ...cart, key: cart.savedAt ? keyFor(cart) : null };\n}\n")),
            do(sql("db-orders-b", "select count(*) from payment_attempts where idempotency_key is null", " count\n-------\n    19\n(1 row)")),
        ),
        "Guest checkout: guestCart() in checkout/guest.ts leaves key = null until the cart is saved. 19 attempts in the table have a null key; before tonight they went through "
        "because the index made the lookup of null instant. So null keys are the second defect, hidden until the first appeared.",
    )
    yield Exchange(
        "Fix proposal for guest.ts as a diff?",
        (do(sh("build-7", "make -C /srv/src/web test-checkout", lambda rng: "\n".join(f"ok {n} checkout {name}" for n, name in enumerate(("guest key is set", "guest key is stable over reload", "member key unchanged", "null key is refused by pay", "empty cart", "two tabs, one key", "locale ja", "locale pl", "gift wrap", "voucher"), 1)) + "\n10 passed in 7.4 s")),),
        "```diff\n-  return { ...cart, key: cart.savedAt ? keyFor(cart) : null };\n+  return { ...cart, key: keyFor(cart) };\n```\nplus in pay: reject a null key with PAY-1210 (400) instead of asking the database. 10 checkout tests pass.",
    )
    yield Exchange(
        "Good. Put it up for review, Yuki reviews. Then the timeline, please, from the first step to mitigation.",
        (do(Call("review", {"repository": "web", "branch": "guest-key", "reviewer": "yuki"}, lambda _: '{"review": "WEB-1866"}')),),
        "Review is WEB-1866. Timeline (UTC, 17 March): 20:58–21:06 build 5518 of web (no part in it) · 21:15 pg-reindex-nightly starts · 21:30:12 statement timeout, swap_names() deadlocks, index invalid · "
        "21:31 confirm errors rise to 31 % · 21:40 pager, INC-4471 · 21:52 web-14 rolled back, no effect · 22:05 PAY-1187 found · 22:14 invalid index found · 22:31:40 payment_attempts_idem2_idx valid · "
        "22:32 customers back · 22:45 poison message parked · 22:58 queue drained · 23:50 37 refunds accepted.",
    )
    yield Exchange(
        "Action items with owners, one line each. I will read them aloud in the review.",
        (do(*(Call("ticket", {"queue": queue, "title": title, "owner": owner}, lambda _, number=number: f'{{"ticket": "{number}"}}') for queue, title, owner, number in ACTIONS)),),
        "\n".join(f"{index}. {number}: {title} ({owner})" for index, (_, title, owner, number) in enumerate(ACTIONS, 1)),
    )
    yield Exchange(
        "One number for the managers: how many orders failed, how many came back, how much money?",
        (do(sql("db-orders-b", "select outcome, count(*), sum(amount) from confirm_outcomes where at between '2026-03-17 21:31' and '2026-03-17 22:32' group by 1", " outcome           | count | sum\n confirmed         | 9,204 | 512,880.15\n failed, came back | 3,377 | 190,412.70\n failed, lost      |   641 |  35,098.22\n(3 rows)")),),
        "Between 21:31 and 22:32: 4,018 confirms failed; 3,377 of those customers came back and bought (190,412.70 EUR), 641 did not (35,098.22 EUR). "
        f"Refunded for double charges: {TOTAL:.2f} EUR to 37 customers.",
    )
    yield Exchange(
        "Thresholds for a new alert so that this pages us in two minutes instead of nine?",
        (do(metric("pay_pool_waiting", EVENING - 1500, 1, 220, "sessions", 40), metric("idempotency_lookup_p99", EVENING - 1500, 0.3, 8400, "ms", 40)),
         do(read("/etc/alerts/pay.yaml", "- alert: CheckoutErrors\n  when: checkout_error_share > 3\n  for: 5m\n- alert: PayDown\n  when: up{service=\"pay\"} == 0\n  for: 1m\n")),
         do(Call("write_file", {"path": "/etc/alerts/pay.yaml", "append": "- alert: PoolWaiting\n  when: pay_pool_waiting > 20\n  for: 1m\n- alert: IdempotencySlow\n  when: idempotency_lookup_p99 > 50\n  for: 1m\n"}, lambda _: '{"written": true, "lines": 12}'))),
        "Added PoolWaiting (> 20 sessions for 1 min) and IdempotencySlow (p99 > 50 ms for 1 min). Against last night's curves the first would have paged at 21:32, the second at 21:31. In the past 30 days neither would have fired falsely.",
    )
    yield Exchange(
        "Last question, for my notes: which timer did we disable, on which host, and what was the new index called?",
        (),
        "pg-reindex-nightly.timer on db-orders-a (disabled, not deleted). The new index is payment_attempts_idem2_idx. The old, invalid payment_attempts_idem_idx still exists; dropping it is action item 2.",
    )
    yield Exchange(
        "Then INC-4471 can be closed after the review at 14:00. Thank you, that was good work. ☕",
        (do(post("#incidents", "INC-4471: mitigated 22:32, refunds done, six action items with owners. Review today 14:00, closes afterwards.")),),
        "Posted. Closing INC-4471 is set for after the review at 14:00.",
    )


ACTIONS = (
    ("dba", "Delete pg-reindex-nightly and its script; index health goes into the daily check", "Tomasz Brandl", "DBA-771"),
    ("dba", "Drop the invalid payment_attempts_idem_idx in a quiet hour", "Tomasz Brandl", "DBA-772"),
    ("pay", "Refuse null idempotency keys with PAY-1210", "Dele Okafor", "PAY-4410"),
    ("web", "Set the key of guest carts at once (WEB-1866)", "葉山 ゆき", "WEB-1867"),
    ("pay", "Replay the parked message 7f3e-90ac-41d2 by hand after PAY-1210", "Dele Okafor", "PAY-4411"),
    ("ops", "Rewrite the support sentence: never promise that nothing was charged", "Ines Aldana", "OPS-318"),
)
