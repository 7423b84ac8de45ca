"""The last part of the made-up incident: the days after, when the action items are worked off."""

# Prose, laid out by hand: one call or sentence a line.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import incident_outputs as out
from incident_story import Call, Exchange, do, logs, metric, post, read, sh, sql

THURSDAY = 2 * 86_400 + 8 * 3600
SHOPS = ("edge-1", "edge-2", "edge-3")
CANARY = ("web-11", "web-12", "web-13", "web-14", "web-15", "web-16")


def certificate() -> Iterator[Exchange]:
    """19 March: the CAA record, and the renewal it blocked."""
    yield Exchange(
        "Yuki here, on EDGE-2093. The zone file is in build-7:/srv/dns. Show me the CAA lines and who changed them last.",
        (
            do(sh("build-7", "grep -n CAA /srv/dns/harbour-pine.example.zone", '41:@ IN CAA 0 issue "other-ca.example"\n42:@ IN CAA 0 iodef "mailto:security@harbour-pine.example"')),
            do(sh("build-7", "git -C /srv/dns log --oneline -8 -- harbour-pine.example.zone", lambda rng: out.commits(rng, ("Shorten the TTL of shop to 300", "Only one issuer, after the audit", "Add the Kraków mail relay", "Remove reporting.harbour-pine.example", "Move edge-3 to the new rack", "Serial", "Serial", "Import from the old panel")))),
        ),
        "Lines 41 and 42. The single issuer came with \"Only one issuer, after the audit\"; edge-1 and edge-3 renewed shortly before that change, edge-2 is the first to meet it.",
    )
    yield Exchange(
        "So the audit wanted one issuer and we kept using another. Which of the two do we really want? I asked security: both, until the contract ends on 30 June. Add the line, keep other-ca.",
        (
            do(Call("write_file", {"path": "/srv/dns/harbour-pine.example.zone", "after_line": 41, "text": '@ IN CAA 0 issue "example-trust.example"'}, lambda _: '{"written": true, "serial": 2026031901}')),
            do(sh("build-7", "zonecheck harbour-pine.example && zonepush harbour-pine.example", "zone ok, serial 2026031901\npushed to ns1, ns2, ns3")),
            do(*(sh(f"ns{n}", "dig +short CAA harbour-pine.example @localhost", '0 issue "other-ca.example"\n0 issue "example-trust.example"\n0 iodef "mailto:security@harbour-pine.example"') for n in (1, 2, 3))),
        ),
        "Added, serial 2026031901, all three name servers answer with both issuers. The TTL is 300 s, so renewal can be tried from 08:20 on.",
    )
    yield Exchange(
        "Try it.",
        (
            do(sh("edge-2", "certs renew shop.harbour-pine.example", "order 7718 created\nchallenge http-01 ok\nissued serial=04:B1:77:20:C4:09 not_after=2026-06-17T08:24:00Z\nreloaded edge (0 connections dropped)")),
            do(*(sh(host, "certs show shop.harbour-pine.example | head -3", lambda rng, host=host: f"# {host}\nsubject=shop.harbour-pine.example\nnot_after={'2026-06-17T08:24:00Z' if host == 'edge-2' else '2026-06-02T09:41:00Z'}") for host in SHOPS)),
            do(Call("ticket", {"close": "EDGE-2093", "note": "renewed, serial 04:B1:77:20:C4:09"}, lambda _: '{"ticket": "EDGE-2093", "state": "closed"}')),
        ),
        "Renewed: new serial 04:B1:77:20:C4:09, valid until 2026-06-17 08:24 UTC, no connection dropped. EDGE-2093 is closed. Note that the second issuer must leave the zone after 30 June.",
    )


def guest_keys() -> Iterator[Exchange]:
    """19 March: the fix for guest carts goes out, host after host, with one stop."""
    yield Exchange(
        "WEB-1866 is approved with one remark: keyFor() must not read the clock. Check that before we roll it out.",
        (
            do(read("/srv/src/web/checkout/key.ts", "import { digest } from '../lib/digest';\n\n/** A key that stays the same for one cart, whatever is clicked twice. */\nexport function keyFor(cart: Cart): string {\n  const minute = Math.floor(Date.now() / 60000);\n  return 'ik_' + digest([cart.id, cart.total, minute].join('|')).slice(0, 12);\n}\n")),
            do(sh("build-7", "grep -rn keyFor /srv/src/web --include=*.ts", "checkout/key.ts:4:export function keyFor\ncheckout/guest.ts:4:  return { ...cart, key: keyFor(cart) };\ncheckout/member.ts:19:  cart.key ??= keyFor(cart);\ncheckout/tabs.test.ts:31:  expect(keyFor(a)).toBe(keyFor(b));")),
        ),
        "The reviewer is right: keyFor() puts the current minute into the digest. Two clicks across a minute boundary get two keys, and with two keys the gateway charges twice. That is a third, independent way to a double charge; it did not cause the 37, but it would cause others.",
    )
    yield Exchange(
        "Ouch. Take the minute out, add a test that crosses a minute.",
        (
            do(Call("write_file", {"path": "/srv/src/web/checkout/key.ts", "replace": "[cart.id, cart.total, minute]", "with": "[cart.id, cart.revision, cart.total]"}, lambda _: '{"written": true}')),
            do(sh("build-7", "make -C /srv/src/web test-checkout", "not ok 3 checkout member key unchanged\n  expected ik_4be0917ac2d1, got ik_90f3aa71e66b\n9 passed, 1 failed in 7.1 s")),
            do(read("/srv/src/web/checkout/member.test.ts", "// the key of a member cart as pay has stored it since January\nexpect(keyFor(memberCart)).toBe('ik_4be0917ac2d1');\n"), say="One failure, and it is a fair one: stored keys of members would change."),
            do(sh("build-7", "make -C /srv/src/web test-checkout KEY_VERSION=2", "11 passed in 7.6 s")),
        ),
        "Done, with a second thought: changing the digest changes keys that pay has stored for open member carts. So new keys start with ik2_ and a cart keeps the key it already has. 11 tests pass, among them one that crosses a minute. Build 5531.",
    )
    yield Exchange(
        "Roll build 5531 out: web-11 first, ten minutes, then one after the other. Stop by yourself if double keys or PAY-1210 appear.",
        (
            *(
                step
                for host in CANARY[:3]
                for step in (
                    do(sh(host, "releasectl switch 2026.3.19", f"draining {host} … 0 open requests\nswitched 2026.3.17 -> 2026.3.19\nhealth: ok after 9.0 s")),
                    do(logs(f"web@{host}", THURSDAY + 7200, 30), metric(f"confirm_failures{{host={host}}}", THURSDAY + 7200, 0.2, 0.2, "%", 10)),
                )
            ),
            do(logs("pay-01", THURSDAY + 9000, 44, "WARN PAY-1210 null key refused order=HP-671884 client=app/4.2", "WARN PAY-1210 null key refused order=HP-671902 client=app/4.2"), say="PAY-1210 showed up twice. Stopping after web-13."),
        ),
        "Stopped after web-13, as you asked: PAY-1210 twice (HP-671884, HP-671902), both from client app/4.2, the phone app, which builds its guest carts itself. web-11, -12 and -13 run 2026.3.19, the other three 2026.3.17. Nobody was charged.",
    )
    yield Exchange(
        "The app cannot be changed before next week. Options?",
        (do(metric("guest_confirms{client=app}", THURSDAY, 3, 4, "1/min", 30), sql("db-orders-b", "select client, count(*) from payment_attempts where idempotency_key is null group by 1", " client  | count\n web     | 11\n app/4.2 | 8\n(2 rows)")),),
        "Three: (a) wait for app 4.3, leaving three web hosts without the fix for a week; (b) pay makes a key for app guests from order number and amount; (c) the edge refuses guest checkout from the app. "
        "I recommend (b): an order number exists before confirm, repeats of it are exactly what a key must catch, and app guests are about 3 a minute.",
    )
    yield Exchange(
        "(b). Dele agrees. Behind the flag pay.key.from_order, on for app/4.2 only, and it must die with app 4.3.",
        (
            do(sh("build-7", "make -C /srv/src/pay test", "64 passed in 21.8 s")),
            *(do(sh(host, "payctl flags set pay.key.from_order=app/4.2", f"{host}: pay.key.from_order = app/4.2 (expires 2026-04-15)")) for host in ("pay-01", "pay-02")),
            *(
                step
                for host in CANARY[3:]
                for step in (
                    do(sh(host, "releasectl switch 2026.3.19", f"draining {host} … 0 open requests\nswitched 2026.3.17 -> 2026.3.19\nhealth: ok after 9.4 s")),
                    do(logs(f"web@{host}", THURSDAY + 14_000, 30), metric(f"confirm_failures{{host={host}}}", THURSDAY + 14_000, 0.2, 0.2, "%", 10)),
                )
            ),
        ),
        "All six web hosts run 2026.3.19; pay.key.from_order is on for app/4.2 and expires on 2026-04-15. No PAY-1210 in the hour since. PAY-4410 and WEB-1867 can be closed.",
    )


def leftovers() -> Iterator[Exchange]:
    """20 March: the parked message, the old index, and a false page."""
    friday = THURSDAY + 86_400
    yield Exchange(
        "Dele: now the parked one. HP-641207. Ask the customer first? What does the record say?",
        (
            do(sql("db-orders-b", "select * from orders where order_no = 'HP-641207'", " order_no  | customer        | town | total  | state   | items\n HP-641207 | guest (b4…@…)   | Łódź | 118.40 | pending | copper-trowel x1, potting-bench x1\n(1 row)"),
               sql("db-orders-b", "select charge_id, amount, created_at from charges where order_no = 'HP-641207'", " charge_id | amount | created_at\n(0 rows)")),
            do(sql("db-orders-b", "select order_no, total, created_at from orders where customer_ref = (select customer_ref from orders where order_no = 'HP-641207')", " order_no  | total  | created_at\n HP-641207 | 118.40 | 2026-03-17 21:30:58\n HP-642988 | 118.40 | 2026-03-17 22:51:17\n(2 rows)")),
        ),
        "Never charged. But the same customer ordered the same goods again at 22:51 as HP-642988, 118.40 EUR, paid and shipped. Replaying HP-641207 would send a second potting bench. I advise against the replay, although it is an action item.",
    )
    yield Exchange(
        "Right. Cancel HP-641207, archive the message instead of replaying, and say so in PAY-4411.",
        (
            do(Call("broker", {"host": "queue-1", "action": "archive", "message_id": "7f3e-90ac-41d2"}, lambda _: '{"archived": "7f3e-90ac-41d2", "file": "dead/2026-03/7f3e-90ac-41d2.json"}'),
               Call("ticket", {"close": "PAY-4411", "note": "not replayed: customer re-ordered as HP-642988"}, lambda _: '{"ticket": "PAY-4411", "state": "closed"}')),
            do(sql("db-orders-a", "update orders set state = 'cancelled' where order_no = 'HP-641207' and state = 'pending'", "UPDATE 1")),
        ),
        "HP-641207 is cancelled (it was pending, one row), message 7f3e-90ac-41d2 is archived as dead/2026-03/7f3e-90ac-41d2.json, PAY-4411 closed with the reason.",
    )
    yield Exchange(
        "Tomasz: quiet hour. Drop the invalid index, DBA-772. And are there other invalid ones anywhere?",
        (
            do(*(sql(db, "select index, size from index_state where not indisvalid", " index                     | size\n payment_attempts_idem_idx | 2,377 MB\n(1 row)" if db == "db-orders-a" else " index | size\n(0 rows)") for db in ("db-orders-a", "db-stock", "db-mail", "db-users"))),
            do(sql("db-orders-a", "drop index concurrently payment_attempts_idem_idx", "DROP INDEX (5.1 s)")),
            do(sql("db-orders-a", "select index, indisvalid, size from index_state where table = 'payment_attempts'", " payment_attempts_pkey      | t | 1,204 MB\n payment_attempts_order_idx | t | 1,911 MB\n payment_attempts_idem2_idx | t | 2,371 MB\n(3 rows)"),
               sh("db-orders-b", "df -h", lambda rng: out.disks(rng, 15))),
        ),
        "Only that one was invalid, across four databases. Dropped in 5.1 s. payment_attempts now has three valid indexes: pkey, order_idx, idem2_idx.",
    )
    yield Exchange(
        "PoolWaiting just paged me at lunch, for one minute. False alarm or not?",
        (
            do(metric("pay_pool_waiting", friday + 14_000, 2, 24, "sessions", 20), metric("orders_per_minute", friday + 14_000, 180, 610, "1/min", 20)),
            do(logs("pay-02", friday + 14_300, 60, "WARN PAY-1204 idempotency lookup took 61 ms"), sh("build-7", "calendar today", "12:15 newsletter spring-sale, 184,000 recipients (Marketing)\n14:00 review INC-4471, part two")),
        ),
        "A true reading, a harmless cause: the newsletter to 184,000 people at 12:15 tripled orders to about 610 a minute; waiting reached 24 for 70 s and fell. No error, p99 of the lookup 61 ms. I would leave the threshold at 20 and lengthen it to 2 minutes: the night of the 17th would still page at 21:33.",
    )
    yield Exchange(
        "Do that. Is there anything left open from INC-4471?",
        (
            do(Call("write_file", {"path": "/etc/alerts/pay.yaml", "replace": "pay_pool_waiting > 20\n  for: 1m", "with": "pay_pool_waiting > 20\n  for: 2m"}, lambda _: '{"written": true, "lines": 12}')),
            do(Call("ticket", {"search": "INC-4471"}, lambda _: '[{"ticket": "DBA-771", "state": "open"}, {"ticket": "DBA-772", "state": "closed"}, {"ticket": "PAY-4410", "state": "closed"}, {"ticket": "WEB-1867", "state": "closed"}, {"ticket": "PAY-4411", "state": "closed"}, {"ticket": "OPS-318", "state": "open"}]')),
        ),
        "Two: DBA-771 (delete the nightly reindex and move index health into the daily check; Tomasz) and OPS-318 (the support sentence; you). Besides: the flag pay.key.from_order expires 2026-04-15, the second CAA issuer after 30 June, and the customer of HP-668130, whose mail bounced, has been phoned by Sofía.",
    )
    yield Exchange(
        "OPS-318, then: three sentences for support that are always true, whatever breaks.",
        (do(read("/srv/wiki/support/phrases.md", "# Phrases for bad days\n\n- We are working on it.\n- Nothing is charged for an order without a confirmation mail.\n- Please try again later.\n"),),),
        "1. \"Some orders cannot be completed at the moment; we know and are working on it.\" 2. \"If you see a charge without a confirmation mail, we will find it and return it; you need not do anything.\" 3. \"We will write to everyone affected once we know more, at the latest tomorrow.\" None of them claims a fact we have not checked.",
    )
    yield Exchange(
        "Lovely. Put them in the wiki, close OPS-318, and tell #incidents that only DBA-771 remains.",
        (
            do(Call("write_file", {"path": "/srv/wiki/support/phrases.md", "text": "(three sentences as agreed)"}, lambda _: '{"written": true}'),
               Call("ticket", {"close": "OPS-318"}, lambda _: '{"ticket": "OPS-318", "state": "closed"}'),
               post("#incidents", "INC-4471: closed but for DBA-771 (Tomasz). Index payment_attempts_idem2_idx serves, guest keys are set at once, alerts page in two minutes. Thanks, all.")),
        ),
        "Wiki updated, OPS-318 closed, message posted. Have a quiet weekend, Ines.",
    )


def survey(rng: Random) -> str:
    """A host's answer to the weekly survey: versions, certificates, timers, free space."""
    rows = [f"{name}\t{rng.randrange(1, 9)}.{rng.randrange(0, 30)}.{rng.randrange(0, 12)}" for name in ("kernel", "libtls", "agent", "runtime", "logtail", "audit")]
    rows += [f"timer {name}\tlast={rng.randrange(1, 59)} min ago\texit=0" for name in ("logrotate", "certs-check", "stat-export")]
    return "\n".join([*rows, f"free\t{rng.randrange(41, 90)} %", f"uptime\t{rng.randrange(3, 300)} d"])


def weekly() -> Iterator[Exchange]:
    """20 March, evening: looking for the same kind of trouble elsewhere."""
    hosts = ("edge-1", "edge-2", "edge-3", *CANARY, "pay-01", "pay-02", "db-orders-a", "db-orders-b", "db-stock", "db-mail", "db-users", "queue-1", "cache-3", "build-7")
    yield Exchange(
        "Before the weekend: which other timers run scripts without an owner, and mail errors to nobody? Go through every host.",
        tuple(
            do(*(sh(host, "survey --timers --versions", survey) for host in hosts[start : start + 3]),
               *(sh(host, "grep -l dba-archive@ /etc/cron-db/* /etc/cron.d/* 2>/dev/null", "/etc/cron-db/vacuum-weekly.sh" if host == "db-stock" else "") for host in hosts[start : start + 3]))
            for start in range(0, len(hosts), 3)
        ),
        "One more on 19 hosts: /etc/cron-db/vacuum-weekly.sh on db-stock mails to dba-archive@harbour-pine.example. It sets no timeout and swaps nothing, so it is harmless, but nobody would hear it fail. All other timers ended with exit 0 and have owners.",
    )
    yield Exchange(
        "Point it to the on-call list and note it under DBA-771. Then we are done.",
        (do(sh("db-stock", "sed -i s/dba-archive@/oncall@/ /etc/cron-db/vacuum-weekly.sh && grep -n oncall@ /etc/cron-db/vacuum-weekly.sh", "9:MAILTO=oncall@harbour-pine.example"),
            Call("ticket", {"note": "DBA-771", "text": "also: vacuum-weekly.sh on db-stock now mails oncall@"}, lambda _: '{"ticket": "DBA-771", "state": "open"}')),),
        "Changed on line 9 of vacuum-weekly.sh, noted under DBA-771. Done.",
    )
