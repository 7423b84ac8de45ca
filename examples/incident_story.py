"""The story of the made-up incident INC-4471: who asked what, what was run, what came out, what was decided.

A mail-order house for garden tools loses a third of its checkouts for a night. Acts are functions that
yield turns; the generator in ``make_incident.py`` writes them down as messages.
"""

# Prose, laid out by hand: one call or sentence a line.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import incident_outputs as out

Output = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call and what it gives back."""

    tool: str
    arguments: dict[str, object]
    output: Output


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the model: calls made at once, with a thought aloud or without."""

    calls: tuple[Call, ...]
    thought: str | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn: the request, the steps, the closing answer; ``picture`` adds a screenshot."""

    ask: str
    steps: tuple[Step, ...] = ()
    answer: str = ""
    picture: bool = False



def sh(host: str, command: str, output: Output | str) -> Call:
    return Call("shell", {"host": host, "command": command}, _output(output))


def logs(service: str, at: int, lines: int, *remarks: str) -> Call:
    arguments = {"service": service, "since": out.clock(at) + "Z", "limit": lines}
    return Call("logs", arguments, lambda rng: out.service_log(rng, service, at, lines, remarks))


def metric(name: str, at: int, low: float, high: float, unit: str, points: int = 30) -> Call:
    arguments = {"name": name, "from": out.clock(at) + "Z", "minutes": points}
    return Call("metrics", arguments, lambda rng: out.series(rng, name, at, points, low, high, unit))


def sql(database: str, statement: str, output: Output | str) -> Call:
    return Call("query", {"database": database, "sql": statement}, _output(output))


def read(path: str, text: Output | str) -> Call:
    return Call("read_file", {"path": path}, _output(text))


def post(channel: str, text: str) -> Call:
    return Call("post_message", {"channel": channel, "text": text}, lambda _: '{"ok": true}')


def do(*calls: Call, say: str | None = None) -> Step:
    return Step(calls, say)


def _output(value: Output | str) -> Output:
    return value if callable(value) else lambda _: value


EVENING = 21 * 3600 + 40 * 60


def alarm() -> Iterator[Exchange]:
    """21:40, the pager; first looks at edges and web hosts."""
    yield Exchange(
        "Pager just went: checkout error rate over 3 %. Incident is INC-4471, I am on call (Ines). Start with the edges, "
        "tell me what customers see. Nothing gets changed on production without my yes.",
        (
            do(metric("checkout_error_share", EVENING - 1200, 0.2, 31.4, "%"), metric("checkout_p95", EVENING - 1200, 0.38, 8.4, "s")),
            do(
                *(
                    Call("logs", {"service": host, "since": out.clock(EVENING - 300) + "Z", "limit": 42},
                         lambda rng, host=host: out.access_log(rng, host, EVENING - 300, 42, 0.3))
                    for host in ("edge-1", "edge-2", "edge-3")
                ),
                say="Both curves bend at 21:31. Reading the three edges side by side.",
            ),
        ),
        "What customers see: about 31 % of POST /api/checkout/confirm end in 504 after exactly 30 s, on all three edges, against "
        "every web host alike. Browsing, search and cart are fine. It began at 21:31 UTC. So the edges are healthy and something "
        "behind confirm blocks for 30 s, which is the pool lease timeout, not a network timeout. I will make no change without your yes.",
    )
    yield Exchange(
        "Here is what the wall board shows. Does the step at 21:31 line up with the deploy?",
        (do(sh("build-7", "deploys --since 20:00", "build  service  version     started   finished  by\n5518   web      2026.3.17   20:58:10  21:06:41  yuki\n5519   mail     2026.3.12   21:15:02  21:15:58  auto\n5520   pay      -           -         -         (queued, not started)")),
         do(sh("build-7", "git -C /srv/src/web log --oneline -9", lambda rng: out.commits(rng, ("Show the parcel carrier in the basket", "Keep empty carts for 14 days", "Round gift wrap to the cent", "Raise the confirm timeout from 20 s to 30 s", "Name the stock host in traces", "Drop the old seed catalogue", "Sort towns by postcode", "Fix 金沢 in the address form", "Update the wool kneeler text"))))),
        "Not exactly. Build 5518 of web finished at 21:06:41, 24 minutes before the step. It does contain one change near the "
        "symptom: the confirm timeout was raised from 20 s to 30 s. That explains why failures take 30 s, not why they happen.",
        picture=True,
    )
    yield Exchange(
        "Still, take web-14 back to 2026.3.16 and compare it with the other five. You have my yes for web-14 only.",
        (
            do(sh("web-14", "releasectl switch 2026.3.16", "draining web-14 … 0 open requests\nswitched 2026.3.17 -> 2026.3.16\nhealth: ok after 9.2 s")),
            do(*(metric(f"confirm_failures{{host={host}}}", EVENING, 29, 31, "%", 8) for host in out.WEB),
               say="web-14 is on 2026.3.16 now. Asking all six for eight minutes."),
        ),
        "No difference: web-14 fails 30 % like the others. The deploy is a false lead. Decision to note: roll-back of build 5518 is "
        "off the table; web-14 stays on 2026.3.16 for now and must be switched forward again before the incident closes.",
    )
    yield Exchange(
        "Agreed, no roll-back. Sofía from support asks for a sentence she can use with customers.",
        (do(post("#support", "Some orders cannot be completed right now; nothing is charged for an order without a confirmation mail. Please try again after 23:00. We will write to everyone affected. (INC-4471)")),),
        "Sent to #support. One caution: \"nothing is charged\" is what the design promises; I have not verified it yet. I will check the charges.",
    )
    yield Exchange(
        "Good that you say so. Before that: cache-3 had evictions last week. Rule it out or in.",
        (do(sh("cache-3", "cachectl info memory", lambda rng: "\n".join(f"{key}: {rng.randrange(1, 9_999_999)}" for key in ("used_bytes", "peak_bytes", "evicted_last_hour", "hits", "misses", "fragmentation_ppm", "clients"))),
            sh("cache-3", "ps aux --sort=-%cpu", lambda rng: out.processes(rng, "cache-3", (("/usr/bin/cached --threads 8", 41.2, 31_204_884),)))),
         do(metric("cache3_evictions", EVENING - 900, 40, 44, "1/s", 20))),
        "Ruled out: evictions on cache-3 are flat at 42/s through the step, hit share unchanged.",
    )
    yield Exchange(
        "Then the pay service. Look at both hosts.",
        (
            do(logs("pay-01", EVENING, 60, "ERROR PAY-1187 PoolTimeout no connection within 30.0 s (size=40, waiting=212)",
                    "WARN retry 1/3 message_id=7f3e-90ac-41d2", "ERROR PAY-1187 PoolTimeout no connection within 30.0 s (size=40, waiting=238)"),
               logs("pay-02", EVENING, 60, "ERROR PAY-1187 PoolTimeout no connection within 30.0 s (size=40, waiting=197)",
                    "ERROR PAY-1204 idempotency lookup took 8412 ms")),
            do(sh("pay-01", "ss -s", "Total: 1893\nTCP:   1544 (estab 611, closed 840, orphaned 12, timewait 818)"),
               sh("pay-02", "ss -s", "Total: 1799\nTCP:   1502 (estab 588, closed 829, orphaned 9, timewait 803)")),
            do(read("/etc/pay/pool.toml", "[pool]\nhost = \"db-orders-a\"\nport = 5433\nsize = 40\nlease_timeout_s = 30.0\nmax_lifetime_s = 1800\n\n[idempotency]\nttl_s = 86400\ntable = \"payment_attempts\"\n\n[retry]\nattempts = 3\nbackoff_ms = 200\njitter = false\n")),
        ),
        "Here it is: PAY-1187 on both hosts, the pool of 40 connections to db-orders-a:5433 is used up with about 200 waiting, and "
        "PAY-1204 says that one idempotency lookup took 8,412 ms. Retries run without jitter (retry.jitter = false), so every failure "
        "comes back three times. The pool is the victim; the lookup is the suspect.",
    )


def database() -> Iterator[Exchange]:
    """22:05, the root cause: an invalid index after a failed nightly job."""
    yield Exchange(
        "Tomasz is joining for the database. Show us the sessions on db-orders-a and what that lookup does.",
        (
            do(sql("db-orders-a", "select pid, usename, state, wait_event, age, query from live_sessions order by age desc limit 130",
                   lambda rng: out.sessions(rng, 130, "BufferIO"))),
            do(sql("db-orders-a", "explain (analyze, buffers) select id, state from payment_attempts where idempotency_key = $1 for update",
                   lambda rng: out.plan(rng, 41_283_907, None)),
               say="Most of them sit in the same statement. Asking for its plan."),
            do(sql("db-orders-a", "select indexrelid::regclass, indisvalid, pg_size from index_state where indrelid = 'payment_attempts'::regclass",
                   " index                              | indisvalid | size\n payment_attempts_pkey              | t          | 1,204 MB\n payment_attempts_order_idx         | t          | 1,911 MB\n payment_attempts_idem_idx          | f          | 2,377 MB\n payment_attempts_idem_idx_ccnew    | f          | 412 MB\n(4 rows)")),
        ),
        "Root cause, with evidence: payment_attempts_idem_idx is INVALID, and a half-built payment_attempts_idem_idx_ccnew lies beside it "
        "(412 MB). The lookup therefore scans all 41,283,907 rows, 8.4 s each, and holds its connection meanwhile.",
    )
    yield Exchange(
        "Tomasz here. How did the index become invalid? I see nobody touching it tonight.",
        (
            do(sh("db-orders-a", "systemctl list-timers --all", lambda rng: out.listing(rng, "timers", ("pg-reindex-nightly.timer -> 21:15", "pg-basebackup.timer -> 02:30", "logrotate.timer -> 00:00", "pg-stat-export.timer -> */5")))),
            do(logs("pg-reindex-nightly", EVENING - 1600, 45, "INFO start REINDEX INDEX CONCURRENTLY payment_attempts_idem_idx",
                    "ERROR canceling statement due to statement timeout (900000 ms)", "WARN left invalid: payment_attempts_idem_idx_ccnew",
                    "INFO drop old, swap names … FAILED: deadlock detected", "ERROR exit status 3, mail to dba-archive@harbour-pine.example")),
            do(read("/etc/cron-db/reindex-nightly.sh", "#!/bin/sh\n# rebuild the hot indexes every night; owner: (left the company)\nset -u\nexport PGOPTIONS='-c statement_timeout=900000'\nfor index in payment_attempts_idem_idx carts_touched_idx; do\n  pgrun db-orders-a \"REINDEX INDEX CONCURRENTLY $index\" || pgrun db-orders-a \"SELECT swap_names('$index')\"\ndone\nexit 0\n")),
        ),
        "By pg-reindex-nightly.timer at 21:15. Its REINDEX CONCURRENTLY ran into statement_timeout = 900000 ms at 21:30:12; the script then "
        "calls swap_names() on failure, which deadlocked and marked the old index invalid. It exits 0, and mails errors to an address nobody reads "
        "(dba-archive@harbour-pine.example). The script has had no owner since last autumn.",
    )
    yield Exchange(
        "Then: stop that timer for good, drop the half-built index, build a new one concurrently under a new name with no statement timeout. "
        "I would call it payment_attempts_idem2_idx. Ines, your yes?",
        (),
        "I am ready with three statements and wait for Ines: (1) systemctl disable --now pg-reindex-nightly.timer, (2) DROP INDEX CONCURRENTLY "
        "payment_attempts_idem_idx_ccnew, (3) CREATE UNIQUE INDEX CONCURRENTLY payment_attempts_idem2_idx ON payment_attempts (idempotency_key). "
        "Expected: 14 to 18 minutes, 2.4 GB, no blocking of writes.",
    )
    yield Exchange(
        "Yes from me for all three, in that order. Show progress every two minutes.",
        (
            do(sh("db-orders-a", "systemctl disable --now pg-reindex-nightly.timer", "Removed /etc/systemd/system/timers.target.wants/pg-reindex-nightly.timer.")),
            do(sql("db-orders-a", "drop index concurrently payment_attempts_idem_idx_ccnew", "DROP INDEX (3.8 s)")),
            do(sql("db-orders-a", "set statement_timeout = 0; create unique index concurrently payment_attempts_idem2_idx on payment_attempts (idempotency_key)", "started in session 28114")),
            *(
                do(sql("db-orders-a", "select phase, blocks_done, blocks_total, tuples_done from index_progress where pid = 28114",
                       lambda rng, share=share: f" phase                          | blocks_done | blocks_total | tuples_done\n building index: scanning table  | {1_006_920 * share // 100:>11} | {1_006_920:>12} | {41_283_907 * share // 100:>11}\n(1 row, {share} %)"))
                for share in (9, 21, 34, 46, 59, 71, 84, 96)
            ),
            do(sql("db-orders-a", "select indisvalid from index_state where index = 'payment_attempts_idem2_idx'", " indisvalid\n t\n(1 row)"),
               sql("db-orders-a", "explain (analyze, buffers) select id, state from payment_attempts where idempotency_key = $1 for update",
                   lambda rng: out.plan(rng, 0, "payment_attempts_idem2_idx"))),
        ),
        "Done at 22:31:40. payment_attempts_idem2_idx is valid, the lookup takes 0.06 ms instead of 8.4 s. The timer is disabled. No duplicate keys were "
        "found while building a UNIQUE index, which also tells us the table itself is consistent.",
    )
    yield Exchange(
        "Are customers back?",
        (do(metric("checkout_error_share", EVENING + 2900, 29.0, 0.3, "%", 20), metric("pay_pool_waiting", EVENING + 2900, 220, 2, "sessions", 20)),
         do(*(sh(host, "tail -n 1 /var/log/web/confirm.summary", lambda rng, host=host: f"{host} confirm last_minute ok={rng.randrange(180, 260)} failed={rng.randrange(0, 2)} p95={rng.randrange(330, 520)} ms") for host in out.WEB))),
        "Yes: confirm errors fell from 29 % to 0.3 % within four minutes of the index, pool waiting is 2, p95 between 330 and 520 ms on all six web hosts.",
    )


def backlog() -> Iterator[Exchange]:
    """22:40, the queue behind it, a poison message, and double charges."""
    yield Exchange(
        "Then why does queue-1 still shout at me?",
        (
            do(Call("broker", {"host": "queue-1", "action": "list"}, lambda rng: out.queue_listing(rng, 83_412))),
            do(logs("confirm-worker", EVENING + 3700, 190, "ERROR PAY-1187 message_id=7f3e-90ac-41d2 attempt=11", "WARN requeue head of line message_id=7f3e-90ac-41d2",
                    "ERROR PAY-1187 message_id=7f3e-90ac-41d2 attempt=12")),
            do(Call("broker", {"host": "queue-1", "action": "peek", "queue": "orders.confirm", "count": 1},
                    lambda rng: '{"message_id": "7f3e-90ac-41d2", "order": "HP-641207", "idempotency_key": null, "amount": "118.40", "currency": "EUR", "attempts": 12, "first_seen": "2026-03-17T21:31:04Z"}\n' + out.stack_trace(rng, "PAY-1187"))),
        ),
        "orders.confirm holds 83,412 messages and moves at 1/s: one poison message blocks its head. It is 7f3e-90ac-41d2, order HP-641207, "
        "118.40 EUR, with idempotency_key null; the worker asks for a lock on a null key, waits 30 s, fails with PAY-1187 and requeues it at the head.",
    )
    yield Exchange(
        "Park that one message in the dead letter queue. Do not delete it. Then let the rest run, but careful: can draining charge people twice?",
        (
            do(Call("broker", {"host": "queue-1", "action": "move", "message_id": "7f3e-90ac-41d2", "to": "orders.confirm.dead"}, lambda _: '{"moved": 1, "to": "orders.confirm.dead"}')),
            do(read("/srv/src/pay/confirm/charge.py", "\n".join((
                "def charge_once(attempt, gateway):",
                '    """Charges unless an attempt with the same key has succeeded before."""',
                "    known = attempt_for_key(attempt.idempotency_key)",
                "    if known is not None and known.state == 'succeeded':",
                "        return known.charge",
                "    # The gateway remembers keys for ttl_s; after that it cannot tell a repeat from a new charge.",
                "    charge = gateway.charge(attempt.amount, key=attempt.idempotency_key)",
                "    remember(attempt, charge)",
                "    return charge",
            )))),
            do(sql("db-orders-b", "select order_no, count(*), array_agg(charge_id), amount from charges where created_at > '2026-03-17 21:31' group by 1, 4 having count(*) > 1",
                   lambda _: CHARGE_TABLE)),
        ),
        "Yes, it can, and it already has: where the lookup timed out after the gateway had charged, the retry charged again. On the replica I count 37 "
        f"orders with two charges, {TOTAL:.2f} EUR in total. My sentence to support (\"nothing is charged\") was wrong for these 37. "
        "I propose: pause the six consumers, set retry.attempts to 0, then drain with one consumer that checks the charges first.",
    )
    yield Exchange(
        "Do exactly that. And correct the sentence with Sofía right away, plainly.",
        (
            do(post("#support", "Correction to 21:58: 37 customers were charged twice tonight (INC-4471). We have the list and will refund the second charge today. Please do not promise a time yet."),
               *(sh(f"pay-0{n}", "payctl set retry.attempts=0 && payctl consumers pause", f"pay-0{n}: retry.attempts 3 -> 0; consumers paused: 3") for n in (1, 2))),
            do(sh("pay-01", "payctl consumers start --count 1 --verify-charges", "started consumer c-1 on pay-01 (verify-charges on)")),
            *(
                do(Call("broker", {"host": "queue-1", "action": "depth", "queue": "orders.confirm"},
                        lambda rng, left=left: f'{{"queue": "orders.confirm", "ready": {left}, "acked_per_s": {rng.randrange(118, 141)}, "dead": 1}}'),
                   logs("confirm-worker", EVENING + 4600 + (83_412 - left) // 130, 14))
                for left in (80_115, 68_902, 55_377, 41_020, 26_884, 12_303, 1_918, 0)
            ),
        ),
        "Drained: 83,411 messages confirmed, 1 in orders.confirm.dead, no new double charge (the verifying consumer refused 212 repeats). "
        "Took 11 minutes at about 130/s. Consumers two to six are still paused and retry.attempts is still 0.",
    )
    yield Exchange(
        "Dele Okafor (payments) is here now. He wants the 37 as a table he can check against the gateway.",
        (do(sql("db-orders-b", "select * from double_charges_inc4471 order by order_no", lambda _: CHARGE_TABLE)),),
        "Table is in the result above; it is also saved as view double_charges_inc4471 on db-orders-b. Sum of the second charges: "
        f"{TOTAL:.2f} EUR over 37 orders, smallest {min(c[3] for c in CHARGES):.2f}, largest {max(c[3] for c in CHARGES):.2f}.",
    )


CHARGES = out.charges(Random(4471), 37)
CHARGE_TABLE = out.charge_table(CHARGES)
TOTAL = sum(amount for *_, amount in CHARGES)
