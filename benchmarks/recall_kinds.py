"""How well each kind of question finds its one passage among look-alikes.

    python benchmarks/recall_kinds.py [--queries 60] [--others 100000] [--kinds NAME,NAME] [--semantic] [--json] [--misses]

Every kind plants passages in one conversation: for each query the passage that answers it and, in the same language,
others that share a part of its words. The conversation is compacted as far as it goes, then ``--others`` messages of
agent talk follow in it. Each query goes, as text, to the public tool ``lcm_grep`` with its defaults.

hit@1, hit@10: the passage is the first, or among the first ten hits. *plain* is the same query over the planted
passages and the others in SQLite's own full-text search (Porter stems, content words OR-ed, bm25): the baseline.
*tokens*: the mean size of an answer, the price of its hits. *ms*: the median CPU time of a call, in milliseconds.

The words are made up here; no file is read.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from random import Random
from typing import Any

from recall import any_content_word

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.corpus import Corpus

SESSION = Session("agent:bench:main", "run-1")
# A Tuesday.
NOW = datetime(2026, 11, 17, 15, 0, tzinfo=UTC)
BEGAN = NOW - timedelta(days=200)


@dataclass(frozen=True)
class Passage:
    """One message that is stored: what is said, by whom, and on which day before `NOW` (None: in its turn)."""

    text: str
    sender: str | None = None
    days_ago: int | None = None


@dataclass(frozen=True)
class Query:
    """A question and the passage that answers it."""

    text: str
    answer: Passage


@dataclass(frozen=True)
class Score:
    """Shares in percent, times in milliseconds."""

    kind: str
    queries: int
    plain_hit_10: float
    hit_1: float
    hit_10: float
    tokens: float
    median_ms: float


Kind = Callable[[Random, int], Iterator[tuple[Query, list[Passage]]]]
KINDS: dict[str, Kind] = {}


def kind(name: str) -> Callable[[Kind], Kind]:
    """Enters a generator of queries with their look-alikes under its name."""

    def enter(made: Kind) -> Kind:
        KINDS[name] = made
        return made

    return enter


def _pairs(rng: Random, left: list[Any], right: list[Any]) -> list[tuple[Any, Any]]:
    pairs = list(product(left, right))
    rng.shuffle(pairs)
    return pairs


def _pair_kind(
    left: list[Any], right: list[Any], tell: Callable[[Any, Any, int], str], ask: Callable[[Any, Any], str]
) -> Kind:
    """Passages about all pairs of two things. Each shares one of its two with a good many others."""

    def made(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
        pairs = _pairs(rng, left, right)
        said = [Passage(tell(one, other, rng.randrange(10, 900))) for one, other in pairs]
        rest = said[count:]
        share = -(-len(rest) // max(1, count))
        for index in range(count):
            one, other = pairs[index]
            yield Query(ask(one, other), said[index]), rest[index * share : (index + 1) * share]

    return made


KINDS["Chinese"] = _pair_kind(
    [
        "账单服务",
        "登录网关",
        "图片仓库",
        "搜索集群",
        "消息队列",
        "报表系统",
        "推荐引擎",
        "支付通道",
        "日志平台",
        "地图接口",
    ],
    ["超时时间", "重试次数", "备份周期", "缓存容量", "报警阈值", "证书期限", "并发上限", "保留天数"],
    lambda one, other, n: f"我们昨天把{one}的{other}改成了{n}，暂时没有问题。",
    lambda one, other: f"{one}现在的{other}是多少来着？",
)
KINDS["Japanese"] = _pair_kind(
    [
        "請求サービス",
        "認証基盤",
        "画像倉庫",
        "検索クラスタ",
        "配送キュー",
        "帳票システム",
        "推薦エンジン",
        "決済窓口",
        "監視盤",
        "地図窓口",
    ],
    [
        "タイムアウト",
        "再試行回数",
        "保存期間",
        "キャッシュ容量",
        "警告の閾値",
        "証明書の期限",
        "同時接続数",
        "更新間隔",
    ],
    lambda one, other, n: f"{one}の{other}を{n}に変更しておきました。",
    lambda one, other: f"{one}では{other}はいくつにしたんでしたっけ？",
)
KINDS["Korean"] = _pair_kind(
    [
        "결제 서비스",
        "로그인 관문",
        "사진 창고",
        "검색 묶음",
        "배송 대기열",
        "보고서 도구",
        "추천 엔진",
        "지도 창구",
        "감시 화면",
        "번역 기계",
    ],
    [
        "제한 시간",
        "재시도 횟수",
        "보관 기간",
        "임시 저장 용량",
        "경고 기준",
        "인증서 만료",
        "동시 접속 수",
        "갱신 간격",
    ],
    lambda one, other, n: f"어제 {one}의 {other}을 {n}으로 바꾸어 두었습니다.",
    lambda one, other: f"{one.replace(' ', '')}에서는 {other.replace(' ', '')}이 얼마였지요?",
)
# Each word as it stands in the passage and as it is asked for.
KINDS["Russian"] = _pair_kind(
    [
        ("платёжной службы", "платёжная служба"),
        ("почтового сервера", "почтовый сервер"),
        ("поискового кластера", "поисковый кластер"),
        ("складской программы", "складская программа"),
        ("голосового помощника", "голосовой помощник"),
        ("дорожной карты", "дорожная карта"),
        ("учебной базы", "учебная база"),
        ("торговой площадки", "торговая площадка"),
    ],
    [
        ("задержку", "задержка"),
        ("границу повторов", "граница повторов"),
        ("частоту резервных копий", "частота резервной копии"),
        ("глубину очереди", "глубина очередей"),
        ("длину пароля", "длина паролей"),
        ("скорость загрузки", "скорости загрузок"),
        ("громкость сигнала", "громкость сигналов"),
        ("ширину колонки", "ширина колонок"),
        ("яркость экрана", "яркость экранов"),
        ("стоимость хранения", "стоимости хранений"),
    ],
    lambda one, other, n: f"Вчера мы поменяли {other[0]} для {one[0]}: теперь {n}.",
    lambda one, other: f"{one[1].capitalize()}: какая у неё {other[1]}?",
)
KINDS["Arabic"] = _pair_kind(
    [
        ("لخدمة الفوترة", "خدمة فوترة"),
        ("لبوابة الدخول", "بوابة دخول"),
        ("لمخزن الصور", "مخزن صور"),
        ("لمحرك البحث", "محرك بحث"),
        ("لقائمة الرسائل", "قائمة رسائل"),
        ("لنظام التقارير", "نظام تقارير"),
        ("لقناة الدفع", "قناة دفع"),
        ("لمنصة السجلات", "منصة سجلات"),
    ],
    [
        ("المهلة الزمنية", "مهله"),
        ("عدد المحاولات", "محاولات"),
        ("مدة الإحتفاظ", "احتفاظ"),
        ("سعة الذاكرة", "ذاكره"),
        ("حد الإنذار", "انذار"),
        ("صلاحية الشهادة", "شهاده"),
        ("سرعة التحميل", "تحميل"),
        ("طول الكلمة", "كلمه"),
        ("درجة الإضاءة", "اضاءه"),
        ("كلفة التخزين", "تخزين"),
    ],
    lambda one, other, n: f"غيّرنا أمس {other[0]} {one[0]} إلى {n}.",
    lambda one, other: f"كم صار {other[1]} في {one[1]}؟",
)
KINDS["German compounds"] = _pair_kind(
    [
        ("Rechnungsdienst", "Dienst für Rechnungen"),
        ("Anmeldeserver", "Server für die Anmeldung"),
        ("Bilderspeicher", "Speicher der Bilder"),
        ("Nachrichtenwarteschlange", "Warteschlange der Nachrichten"),
        ("Berichtswerkzeug", "Werkzeug für Berichte"),
        ("Kartenanzeige", "Anzeige der Karten"),
        ("Zahlungsschnittstelle", "Schnittstelle für Zahlungen"),
        ("Übersetzungsprogramm", "Programm zur Übersetzung"),
    ],
    [
        ("Zeitgrenze", "Grenze der Zeit"),
        ("Wiederholungszahl", "Zahl der Wiederholungen"),
        ("Speicherdauer", "Dauer der Speicherung"),
        ("Warnschwelle", "Schwelle der Warnung"),
        ("Zertifikatslaufzeit", "Laufzeit des Zertifikats"),
        ("Verbindungszahl", "Anzahl von Verbindungen"),
        ("Aktualisierungsabstand", "Abstand der Aktualisierung"),
        ("Passwortlänge", "Länge der Passwörter"),
    ],
    lambda one, other, n: f"Gestern wurde im {one[0]} die {other[0]} auf {n} gesetzt.",
    lambda one, other: f"{one[1]}: welche {other[1]}?",
)
_PARTS = [
    "checkout",
    "order",
    "billing",
    "tenant",
    "session",
    "invoice",
    "cursor",
    "replica",
    "payload",
    "retry",
    "shard",
    "token",
]
_TAILS = ["Timeout", "Limit", "Factory", "Handler", "Window", "Count", "Mapper", "Policy", "Buffer", "Guard"]
_ABOUT = ["service", "worker", "build", "queue", "deploy", "cache", "table", "branch", "index", "request"]


@kind("version")
def versions(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """The number without the letter before it; the others have numbers that differ in one place."""
    for _ in range(count):
        a, b, c = rng.randrange(1, 30), rng.randrange(10, 99), rng.randrange(1, 30)
        near = [Passage(f"Tagged v{a}.{b}.{c + step} for the {rng.choice(_ABOUT)}.") for step in (1, 31)]
        asked = rng.choice(("{}", "what was wrong with {}?", "which release came after {}?"))
        yield (
            Query(
                asked.format(f"{a}.{b}.{c}"),
                Passage(f"Tagged v{a}.{b}.{c} after the {rng.choice(_ABOUT)} was green."),
            ),
            near,
        )


@kind("camelCase parts")
def camel_parts(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """Two parts of a name as words; the others hold one of the parts, as words and in names."""
    triples = [
        (one, other, tail) for one, other in product(_PARTS, _PARTS) if one != other for tail in _TAILS
    ]
    rng.shuffle(triples)
    for one, other, tail in triples[:count]:
        name = f"{one}{other.capitalize()}{tail}"
        answer = Passage(f"The {rng.choice(_ABOUT)} reads {name} from the settings file at start.")
        decoys = [
            Passage(f"The {tail.lower()} of the {rng.choice(_ABOUT)} came up again."),
            Passage(f"A {one} was lost while the {rng.choice(_ABOUT)} ran."),
        ]
        yield Query(f"{one} {other} {tail.lower()}", answer), decoys


def _slip(rng: Random, word: str) -> str:
    """The word with one slip of a finger, never in its first letter."""
    at = rng.randrange(1, len(word) - 1)
    slips = (
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + rng.choice("aeioustrn") + word[at + 1 :],
    )
    return rng.choice([slip for slip in slips if slip != word])


def _names(rng: Random, name: str) -> Iterator[str]:
    """Names that nobody has, eight letters or more; no other kind gets the same ones."""
    heads = [
        "Bren",
        "Cal",
        "Dor",
        "Fal",
        "Gar",
        "Hol",
        "Jav",
        "Kel",
        "Lun",
        "Mar",
        "Nor",
        "Pel",
        "Quin",
        "Ros",
        "Sel",
        "Tar",
        "Ulm",
        "Ves",
        "Wil",
        "Zan",
    ]
    middles = ["a", "e", "i", "o", "u", "an", "er", "il", "or", "us"]
    tails = ["dove", "mark", "stead", "lund", "wick", "ridge", "veldt", "borne", "quist", "thorpe"]
    names = ["".join(three) for three in product(heads, middles, tails)]
    Random(0).shuffle(names)
    share = len(names) // len(KINDS)
    own = names[share * list(KINDS).index(name) :][:share]
    rng.shuffle(own)
    return iter(own)


@kind("typo in the question")
def typo_asked(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """A name with a slip in the question; the others have the rest of the words."""
    for name in islice(_names(rng, "typo in the question"), count):
        what = rng.choice(_ABOUT)
        decoy = Passage(f"Someone was asked to look after the {what} of the second team.")
        yield (
            Query(
                f"what did we give {_slip(rng, name)} to look after?",
                Passage(f"{name} looks after the {what} now."),
            ),
            [decoy],
        )


@kind("typo in the stored text")
def typo_stored(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """The slip is in what was said."""
    for name in islice(_names(rng, "typo in the stored text"), count):
        what = rng.choice(_ABOUT)
        decoy = Passage(f"Someone was asked to look after the {what} of the second team.")
        yield (
            Query(
                f"what did we give {name} to look after?",
                Passage(f"{_slip(rng, name)} looks after the {what} now."),
            ),
            [decoy],
        )


_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@kind("date in the question")
def dates(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """The same thing was said on some thirty more days; the question names the day as people do."""
    things = [
        f"the {one} {other} of the {third}"
        for one, other, third in product(_PARTS, ("run", "review", "check"), _ABOUT)
    ]
    rng.shuffle(things)
    for thing in things[:count]:
        days = rng.sample(range(8, 190), 30)
        ago = rng.choice((rng.randrange(1, 7), rng.randrange(2, 7), rng.randrange(8, 190)))
        day = NOW - timedelta(days=ago)
        forms = [f"on {day:%B} {day.day}", f"on {day.day} {day:%B}", f"on {day:%Y-%m-%d}"]
        if 2 <= ago <= 6:
            forms = [f"last {_WEEKDAYS[day.weekday()]}", f"{ago} days ago"]
        elif ago == 1:
            forms = ["yesterday"]
        said = "How {} went: {} of {} passed."
        answer = Passage(said.format(thing, rng.randrange(50, 90), 100), days_ago=ago)
        decoys = [
            Passage(said.format(thing, rng.randrange(50, 90), 100), days_ago=other)
            for other in days
            if abs(other - ago) > 1
        ]
        yield Query(f"how did {thing} go {rng.choice(forms)}?", answer), decoys


@kind("name of the sender")
def senders(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """Who wrote it stands beside the message, not in it."""
    for name in islice(_names(rng, "name of the sender"), count):
        what = rng.choice(_ABOUT)
        decoys = [Passage(f"I would rather move the {what} on Monday.", sender=f"Ada{at}") for at in range(4)]
        yield (
            Query(
                f"What does {name} think of moving the {what}?",
                Passage(f"I would rather keep the {what} where it is.", sender=name),
            ),
            decoys,
        )


_WANTED = [
    *(
        "port",
        "colour",
        "owner",
        "region",
        "budget",
        "licence",
        "address",
        "version",
        "deadline",
        "height",
        "weight",
    ),
    *("price", "origin", "label", "number", "length", "width", "target", "rank", "score"),
]


@kind("asked just before")
def asked_before(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """The user's message asks it in the same words, dressed as chat, right before the tool is called."""
    for at, name in enumerate(islice(_names(rng, "asked just before"), count)):
        what, wanted = rng.choice(_ABOUT), _WANTED[at % len(_WANTED)]
        decoy = Passage(f"Nobody knows which {wanted} the {what} has.")
        answer = Passage(f"{name} gave {rng.randrange(2_000, 9_999)} as the {wanted}, as agreed.")
        yield Query(f"which {wanted} does the {what} of {name} have?", answer), [decoy]


@kind("sign stuck to a word")
def signs(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """A word that is asked for with a sign that nothing holds."""
    for name in islice(_names(rng, "sign stuck to a word"), count):
        word = name.lower()
        query = rng.choice((f"-{word}", f"--{word}", f"{word}()", f"#{word}", f"@{word}", f"/{word}"))
        yield Query(query, Passage(f"The {rng.choice(_ABOUT)} {word} is due tomorrow.")), []


_SYNONYMS = [
    ("The car broke down on the motorway.", "trouble with the vehicle on the highway"),
    ("My sister had a baby girl.", "a relative gave birth to a daughter"),
    ("The physician prescribed tablets for the pain.", "which medicine did the doctor give against the ache"),
    ("We bought a cheap flat near the station.", "purchase of an inexpensive apartment by the railway"),
    ("He quit his job to study law.", "resigned from work in order to become an attorney"),
    ("The kids adore the puppy.", "children love their little dog"),
    ("The film was dull and far too long.", "a boring movie that would not end"),
    ("She repaired the bicycle herself.", "fixing a bike without help"),
    ("They wed in a tiny chapel.", "marriage ceremony in a small church"),
    ("The firm let go of forty staff.", "company dismissed employees"),
    ("A thief stole her purse on the tram.", "robbery of a handbag in public transport"),
    ("The soup was way too salty.", "a dish with an excess of seasoning"),
    ("He is scared of heights.", "afraid to stand on a tall tower"),
    ("We are moving house in autumn.", "relocating to a new home in the fall"),
    ("The kettle is boiling.", "hot water is ready for tea"),
    ("She is fluent in Spanish.", "speaks a foreign language very well"),
    ("I lost my phone at the beach.", "cannot find the mobile after a day by the sea"),
    ("The lecture was postponed.", "the talk will be held at a later date"),
    ("He won the marathon.", "came first in a long running race"),
    ("Our roof leaks when it rains.", "water comes into the house in bad weather"),
    ("The garden is full of weeds.", "unwanted plants are taking over the yard"),
    ("He snores terribly.", "makes loud noises while sleeping"),
    ("My boss gave me a rise.", "my manager increased the salary"),
    ("The shop shuts at six.", "closing hours of the store"),
    ("She is expecting twins.", "pregnant with two babies"),
    ("We missed the last ferry.", "came too late for the final boat"),
    ("The surgeon operated on his knee.", "leg surgery in a hospital"),
    ("Our neighbour plays the drums at midnight.", "noise from the person next door at night"),
    ("The oven caught fire.", "flames in the kitchen stove"),
    ("He failed his driving test.", "did not pass the exam for a licence to drive"),
    ("I am allergic to nuts.", "eating almonds makes me ill"),
    ("The river burst its banks.", "a flood after the water rose"),
    ("Grandpa passed away in May.", "death of an old relative"),
    ("The lift is out of order.", "the elevator does not work"),
    ("She sold her stocks before the crash.", "got rid of shares ahead of the market fall"),
    ("They adopted a kitten.", "gave a home to a young cat"),
    ("The concert was sold out.", "no tickets left for the gig"),
    ("He is always broke at the end of the month.", "never has any money left"),
    ("Our luggage never arrived.", "the suitcases went missing on the flight"),
    ("The plumber fixed the tap.", "a craftsman repaired the dripping faucet"),
    ("She burst into tears.", "started crying"),
    ("I cannot stand mushrooms.", "a vegetable that I hate to eat"),
    ("The baby keeps us awake.", "no sleep because of the infant"),
    ("He bragged about his new watch.", "boasting of a timepiece"),
    ("We got lost in the woods.", "could not find the way in the forest"),
    ("The heating broke in January.", "no warmth at home in winter"),
    ("Her flight was cancelled by the storm.", "the plane did not leave due to bad weather"),
    ("He gave up smoking.", "stopped using cigarettes"),
    ("The teacher praised my essay.", "good feedback at school on what I wrote"),
    ("We painted the nursery yellow.", "the colour of the walls in the child's room"),
    ("The dentist pulled a tooth.", "extraction at the oral clinic"),
    ("She speaks up in every meeting.", "not shy to give an opinion at work"),
    ("My laptop screen is cracked.", "the display of the computer is damaged"),
    ("The bakery has the best rolls.", "where to buy tasty bread"),
    ("He was fined for speeding.", "a penalty for driving too fast"),
    ("The wedding cake collapsed.", "the dessert at the marriage fell apart"),
    ("I fell asleep during the play.", "dozed off in the theatre"),
    ("They cut down the old oak.", "a tree was removed"),
    ("She inherited a cottage.", "received a little house in a will"),
    ("The coach was stuck in a jam.", "the bus stood in heavy traffic"),
]


@kind("synonyms")
def synonyms(rng: Random, count: int) -> Iterator[tuple[Query, list[Passage]]]:
    """Other words for the same thing."""
    for said, asked in _SYNONYMS[:count]:
        yield Query(asked, Passage(said)), []


def _batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(rows)
    return iter(lambda: list(islice(rest, size)), [])


def _store(engine: Engine, planted: list[Passage], others: int, seed: int) -> dict[Passage, str]:
    """Ingests the passages among some talk, compacts, then the others; the ids of the passages."""
    rng = Random(seed)
    talk = Corpus(seed).messages(10 * len(planted))
    rng.shuffle(planted)
    step = timedelta(days=190) / max(1, len(planted))
    rows: list[tuple[datetime, Passage | None, dict[str, Any]]] = []
    for at, passage in enumerate(planted):
        when = BEGAN + at * step
        if passage.days_ago is not None:
            when = NOW - timedelta(days=passage.days_ago, hours=rng.randrange(1, 5))
        message: dict[str, Any] = {"role": "user", "content": passage.text}
        if passage.sender:
            message["name"] = passage.sender
        rows.append((when, passage, message))
        rows.append((when + timedelta(minutes=1), None, {"role": "assistant", "content": "Noted."}))
    filler = [
        message
        for message in talk
        if message["role"] in ("user", "assistant") and not message.get("tool_calls")
    ]
    rows += [(BEGAN + rng.random() * timedelta(days=195), None, message) for message in filler]
    rows.sort(key=lambda row: row[0])
    for batch in _batches(rows, 500):
        engine.ingest(SESSION, [row[2] | {"created_at": int(row[0].timestamp() * 1000)} for row in batch])
    items = engine.context_items(SESSION)
    ids = {row[1]: item.id for row, item in zip(rows, items, strict=True) if row[1] is not None}
    engine.compact(SESSION, force=True)
    for batch in _batches(Corpus(seed + 1).messages(others), 1_000):
        engine.ingest(SESSION, [message | {"created_at": int(NOW.timestamp() * 1000)} for message in batch])
    engine.wait_idle(600)
    return ids


class Plain:
    """SQLite's full-text search over the passages and the others."""

    def __init__(self, passages: Iterable[Passage], others: int, seed: int) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter unicode61')")
        self._rows = dict(enumerate(passages, 1))
        self._db.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)", [(at, p.text) for at, p in self._rows.items()]
        )
        rest = (str(message.get("content") or "") for message in Corpus(seed + 1).messages(others))
        self._db.executemany("INSERT INTO words (text) VALUES (?)", ((text,) for text in rest))

    def __call__(self, query: str) -> list[Passage | None]:
        expression = any_content_word(query)
        if not expression:
            return []
        found = self._db.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 10", (expression,)
        )
        return [self._rows.get(row[0]) for row in found]


def run(arguments: argparse.Namespace) -> list[Score]:
    """The scores of all kinds asked for."""
    chosen = arguments.kinds.split(",") if arguments.kinds else list(KINDS)
    unknown = [name for name in chosen if name not in KINDS]
    if unknown:
        raise SystemExit(f"--kinds {','.join(unknown)}: known are {', '.join(KINDS)}")
    queries: dict[str, list[Query]] = {}
    planted: list[Passage] = []
    for name in chosen:
        made = list(KINDS[name](Random(f"{arguments.seed} {name}"), arguments.queries))
        queries[name] = [query for query, _ in made]
        planted += [query.answer for query in queries[name]] + [
            decoy for _, decoys in made for decoy in decoys
        ]
    planted = list(dict.fromkeys(planted))
    plain = Plain(planted, arguments.others, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        config = LcmConfig(
            database=f"{folder}/lcm.db",
            semantic_search=arguments.semantic,
            semantic_model=arguments.model,
            timezone="UTC",
        )
        with Engine.open(config, clock=lambda: int(NOW.timestamp() * 1000)) as engine:
            started = time.process_time()
            ids = _store(engine, planted, arguments.others, arguments.seed)
            engine.recall.catch_up(lambda: False)
            print(f"stored in {time.process_time() - started:.0f} s of CPU time", file=sys.stderr)
            return [_measure(engine, name, queries[name], ids, plain, arguments.misses) for name in chosen]


def _measure(
    engine: Engine, name: str, queries: list[Query], ids: dict[Passage, str], plain: Plain, misses: bool
) -> Score:
    first = ten = plain_ten = 0
    tokens, times = [], []
    for query in queries:
        if name == "asked just before":
            asked = {"role": "user", "content": f"Can you remind me: {query.text}"}
            engine.ingest(SESSION, [asked | {"created_at": int(NOW.timestamp() * 1000)}])
        started = time.process_time()
        answer = engine.call_tool(SESSION, "lcm_grep", {"pattern": query.text})
        times.append((time.process_time() - started) * 1000)
        found = [hit["id"] for hit in answer["hits"]][:10]
        wanted = ids[query.answer]
        first += found[:1] == [wanted]
        ten += wanted in found
        if misses and wanted not in found:
            print(
                f"{name}: {query.text!r} wanted {query.answer.text!r}; {answer.get('notices')}",
                file=sys.stderr,
            )
        plain_ten += query.answer in plain(query.text)
        tokens.append(engine.counter.text(json.dumps(answer, ensure_ascii=False)))
    share = 100 / max(1, len(queries))
    return Score(
        name,
        len(queries),
        *(round(count * share, 1) for count in (plain_ten, first, ten)),
        round(statistics.mean(tokens), 0),
        round(statistics.median(times), 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=60, help="queries of each kind (default 60)")
    parser.add_argument("--others", type=int, default=100_000, help="messages that follow (default 100,000)")
    parser.add_argument("--kinds", default="", help="only these, with commas between them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--semantic", action="store_true", help="with a sentence model's vectors")
    parser.add_argument("--model", default="minilm", help="the sentence model (default minilm)")
    parser.add_argument("--misses", action="store_true", help="print each query whose passage was not found")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    scores = run(arguments)
    if arguments.json:
        print(json.dumps([asdict(score) for score in scores], indent=1))
        return
    print(f"{'kind':26} {'queries':>7} {'plain@10':>9} {'hit@1':>7} {'hit@10':>7} {'tokens':>8} {'ms':>8}")
    for one in scores:
        print(
            f"{one.kind:26} {one.queries:7} {one.plain_hit_10:9.1f} {one.hit_1:7.1f} {one.hit_10:7.1f} "
            f"{one.tokens:8.0f} {one.median_ms:8.1f}"
        )


if __name__ == "__main__":
    main()
