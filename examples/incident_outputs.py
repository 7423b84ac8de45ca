"""What the tools print in the made-up incident: logs, listings, plans, metrics, files.

Each function takes the generator's random source first, so that one seed gives one text, and returns the
output as a tool would: plain text, never cut.
"""

# Prose, laid out by hand: one call or sentence a line.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

PRODUCTS = (
    "hori-knife", "oak-dibber", "bulb-planter", "copper-trowel", "seed-tray-24", "rake-no4", "coir-pot-9cm",
    "watering-rose", "twine-jute-90m", "potting-bench", "frost-fleece", "bypass-pruner", "kneeler-wool",
)
TOWNS = ("Gijón", "Łódź", "Kraków", "金沢", "Bergen", "Brest", "Ghent", "Almada", "Tartu", "Cork", "Malmö", "Graz")
WEB = ("web-11", "web-12", "web-13", "web-14", "web-15", "web-16")


def clock(second: int) -> str:
    """Time of day from seconds after midnight, 17 March."""
    day, rest = divmod(second, 86_400)
    return f"2026-03-{17 + day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def address(rng: Random) -> str:
    return f"10.{rng.choice((24, 31, 40))}.{rng.randrange(1, 250)}.{rng.randrange(2, 250)}"


def order_number(rng: Random) -> str:
    return f"HP-{rng.randrange(610_000, 690_000)}"


def trace_id(rng: Random) -> str:
    return f"{rng.getrandbits(64):016x}"


def access_log(rng: Random, host: str, start: int, lines: int, failing: float) -> str:
    """An edge's access log in which a share of the checkouts fails."""
    rows = []
    for _ in range(lines):
        start += rng.randrange(1, 4)
        bad = rng.random() < failing
        path = "/api/checkout/confirm" if bad else rng.choice(
            ("/", "/cart", "/search?q=" + rng.choice(PRODUCTS), "/api/stock/" + rng.choice(PRODUCTS), "/api/checkout/confirm")
        )
        status = rng.choice((504, 504, 502)) if bad else rng.choice((200, 200, 200, 304, 204))
        seconds = rng.uniform(29.9, 30.1) if bad else rng.lognormvariate(-2.2, 0.7)
        upstream = f"{rng.choice(WEB)}:8443"
        rows.append(
            f'{clock(start)}Z {host} {address(rng)} "{rng.choice(("GET", "POST"))} {path} HTTP/2" {status} '
            f"{rng.randrange(180, 42_000)} rt={seconds:.3f} up={upstream} trace={trace_id(rng)}"
        )
    return "\n".join(rows)


def service_log(rng: Random, service: str, start: int, lines: int, remarks: Sequence[str]) -> str:
    """A service's log: routine lines with the given remarks strewn in, in their order."""
    places = sorted(rng.sample(range(lines), min(len(remarks), lines)))
    due = dict(zip(places, remarks, strict=False))
    rows = []
    for index in range(lines):
        start += rng.randrange(0, 3)
        stamp = f"{clock(start)}.{rng.randrange(1000):03d}Z"
        if index in due:
            rows.append(f"{stamp} {service} {due[index]}")
            continue
        routine = rng.choice(
            (
                f"INFO order {order_number(rng)} reserved stock sku={rng.choice(PRODUCTS)} qty={rng.randrange(1, 6)}",
                f"INFO authorised {rng.uniform(4, 260):.2f} EUR trace={trace_id(rng)} in {rng.randrange(38, 410)} ms",
                f"DEBUG pool in_use={rng.randrange(3, 40)} idle={rng.randrange(0, 9)} waiting={rng.randrange(0, 30)}",
                f"INFO shipped to {rng.choice(TOWNS)} parcel={rng.randrange(10**9, 10**10)} carrier={rng.choice(('Nordfrakt', 'Paqueto', 'Velobox'))}",
                f"WARN slow statement {rng.randrange(900, 9000)} ms trace={trace_id(rng)}",
                f"DEBUG heartbeat ok lag={rng.randrange(1, 80)} ms",
            )
        )
        rows.append(f"{stamp} {service} {routine}")
    return "\n".join(rows)


def series(rng: Random, name: str, start: int, points: int, low: float, high: float, unit: str) -> str:
    """A metrics answer: JSON with one point a minute between two levels, the rise in its middle."""
    values = []
    for index in range(points):
        level = low + (high - low) * min(1.0, max(0.0, (index - points / 3) / (points / 4)))
        values.append({"at": clock(start + 60 * index) + "Z", "value": round(level * rng.uniform(0.93, 1.07), 2)})
    return json.dumps({"metric": name, "unit": unit, "step_s": 60, "points": values}, indent=1)


def processes(rng: Random, host: str, rows: Sequence[tuple[str, float, int]]) -> str:
    """``ps`` of a host: the rows that matter among the usual ones."""
    usual = [(f"/usr/lib/systemd/systemd-{part}", rng.uniform(0, 0.4), rng.randrange(6_000, 30_000)) for part in ("journald", "resolved", "udevd", "logind")]
    usual += [(f"/opt/agents/{name}", rng.uniform(0, 1.5), rng.randrange(20_000, 90_000)) for name in ("metrics-ship", "logtail", "audit")]
    body = [
        f"{rng.randrange(400, 64_000):>7} {cpu:5.1f} {kib:>9} {rng.randrange(1, 90):>4}d {command}"
        for command, cpu, kib in sorted([*rows, *usual], key=lambda row: -row[1])
    ]
    return "\n".join([f"# {host}", "    PID  %CPU   RSS_KIB  AGE COMMAND", *body])


def sessions(rng: Random, count: int, waiting: str) -> str:
    """The database's session list: many of one kind waiting on the same thing."""
    head = " pid   | usename   | state               | wait_event           | age      | query"
    rows = [head, "-" * len(head)]
    for _ in range(count):
        stuck = rng.random() < 0.7
        query = (
            "SELECT id, state FROM payment_attempts WHERE idempotency_key = $1 FOR UPDATE"
            if stuck
            else rng.choice(("UPDATE carts SET touched_at = now() WHERE id = $1", "SELECT qty FROM stock WHERE sku = $1", "COMMIT"))
        )
        state = "active" if stuck else rng.choice(("idle", "idle in transaction", "active"))
        event = waiting if stuck else rng.choice(("ClientRead", "", "WALWrite"))
        age = f"00:{rng.randrange(0, 9):02d}:{rng.randrange(60):02d}" if stuck else "00:00:00"
        rows.append(f" {rng.randrange(2_000, 32_000):>5} | {rng.choice(('pay_rw', 'web_rw')):<9} | {state:<19} | {event:<20} | {age} | {query}")
    return "\n".join([*rows, f"({count} rows)"])


def plan(rng: Random, scanned: int, index: str | None) -> str:
    """A query plan: over an index, or over the whole table."""
    key = f"{rng.getrandbits(48):012x}"
    if index:
        return (
            f"Index Scan using {index} on payment_attempts  (cost=0.56..8.58 rows=1 width=84) (actual time=0.041..0.043 rows=1 loops=1)\n"
            f"  Index Cond: (idempotency_key = 'ik_{key}'::text)\n  Buffers: shared hit=5\n"
            f"Planning Time: 0.{rng.randrange(100, 300)} ms\nExecution Time: 0.{rng.randrange(40, 90)} ms"
        )
    return (
        f"Gather  (cost=1000.00..{scanned * 0.041:.2f} rows=1 width=84) (actual time={rng.randrange(6_900, 8_400)}.118..{rng.randrange(8_400, 8_900)}.402 rows=1 loops=1)\n"
        "  Workers Planned: 2\n  Workers Launched: 2\n"
        f"  ->  Parallel Seq Scan on payment_attempts  (rows removed by filter: {scanned:,})\n"
        f"        Filter: (idempotency_key = 'ik_{key}'::text)\n"
        f"  Buffers: shared hit={rng.randrange(9_000, 20_000)} read={scanned // 41}\n"
        f"Planning Time: 0.{rng.randrange(100, 300)} ms\nExecution Time: {rng.randrange(8_400, 8_900)}.7 ms"
    )


def charges(rng: Random, count: int) -> list[tuple[str, str, str, float]]:
    """Orders that were charged twice: order, first and second charge, amount in euro."""
    return [
        (order_number(rng), f"ch_{rng.getrandbits(40):010x}", f"ch_{rng.getrandbits(40):010x}", round(rng.uniform(9, 240), 2))
        for _ in range(count)
    ]


def charge_table(rows: Sequence[tuple[str, str, str, float]]) -> str:
    body = [f"{order}\t{first}\t{second}\t{amount:.2f}\tEUR" for order, first, second, amount in rows]
    return "\n".join(["order\tfirst_charge\tsecond_charge\tamount\tcurrency", *body])


def queue_listing(rng: Random, depth: int) -> str:
    """The broker's queues, one of them far behind."""
    rows = [("orders.confirm", depth, 6, rng.randrange(0, 3)), ("orders.ship", rng.randrange(2, 40), 4, 38), ("mail.outbound", rng.randrange(40, 300), 8, 120)]
    rows += [(f"stock.{town.lower()}", rng.randrange(0, 6), 1, rng.randrange(1, 9)) for town in ("Graz", "Cork", "Tartu", "Ghent", "Brest")]
    return json.dumps([dict(zip(("queue", "ready", "consumers", "acked_per_s"), row, strict=True)) for row in rows], indent=1)


def load_test(rng: Random, users: int, p95: int, failures: int) -> str:
    """The summary of a load test, one line per stage and the totals."""
    stages = [
        f"stage {step}: {users * step // 8:>4} users  {rng.randrange(55, 62) * step:>5} req/s  p50={p95 // 3 + rng.randrange(20)} ms  p95={p95 - 60 + 8 * step} ms  errors={failures if step == 8 else 0}"
        for step in range(1, 9)
    ]
    return "\n".join([*stages, f"TOTAL requests={users * 412} p95={p95} ms failures={failures} duration=480s"])


def disks(rng: Random, used: int) -> str:
    return (
        "Filesystem             Size  Used Avail Use% Mounted on\n"
        f"/dev/nvme0n1p2          79G   {rng.randrange(18, 29)}G   50G  31% /\n"
        f"/dev/mapper/pg-data    1.8T  {used * 18 / 1000:.1f}T  {1.8 - used * 18 / 1000:.1f}T  {used}% /srv/pg\n"
        f"/dev/mapper/pg-wal     400G  {used * 4}G  {400 - used * 4}G  {used}% /srv/pg_wal\n"
        "tmpfs                   63G   12M   63G   1% /run"
    )


def stack_trace(rng: Random, code: str) -> str:
    frames = (
        "confirm.handlers.handle_message(confirm/handlers.py:88)",
        "confirm.charge.charge_once(confirm/charge.py:141)",
        "confirm.store.attempt_for_key(confirm/store.py:63)",
        "pool.lease(pool/lease.py:204)",
    )
    text = "\n".join(f"    at {frame}" for frame in frames)
    return f"{code} PoolTimeout: no connection within 30.0 s (size=40, waiting={rng.randrange(90, 400)})\n{text}\n    message_id=7f3e-90ac-41d2 attempt={rng.randrange(11, 19)} trace={trace_id(rng)}"


def listing(rng: Random, folder: str, names: Sequence[str]) -> str:
    rows = [f"-rw-r--r-- 1 pay pay {rng.randrange(300, 90_000):>7} Mar {rng.randrange(1, 18):>2} {rng.randrange(24):02d}:{rng.randrange(60):02d} {name}" for name in names]
    return "\n".join([f"{folder}:", f"total {rng.randrange(80, 900)}", *rows])


def commits(rng: Random, subjects: Sequence[str]) -> str:
    people = ("Dele Okafor", "葉山 ゆき", "Tomasz Brandl", "Ines Aldana")
    return "\n".join(f"{rng.getrandbits(40):010x} 2026-03-{17 - index // 3:02d} {rng.choice(people)}: {subject}" for index, subject in enumerate(subjects))
