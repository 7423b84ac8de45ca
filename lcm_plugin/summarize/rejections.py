"""Patterns of texts that a model writes instead of a summary: refusals, error messages, chat replies.

The patterns match how such a text *opens*, in the first person or as a bare status, so that a
summary which reports a refusal or an error is not one.
"""

from __future__ import annotations

import re
from functools import cache

_REFUSALS = (
    # English
    (
        r"(?:i['’]?m|i am) (?:really |very |so |truly )?sorry\b.{0,120}\b(?:can['’]?t|cannot|"
        r"can not|unable|not able|won['’]?t|will not|not comfortable)"
    ),
    (
        r"(?:sorry|apologies|my apologies|i apologi[sz]e|unfortunately|"
        r"regrettably)\b.{0,30}\bi\b.{0,60}(?:can['’]?t|cannot|unable|not able|won['’]?t|will not|"
        r"don['’]?t have)"
    ),
    (
        r"i (?:can['’]?t|cannot|can not|won['’]?t|will not|am unable|am not able|must decline|"
        r"have to decline|need to decline|must respectfully|do(?:n['’]?t|"
        r" not) (?:feel comfortable|have (?:access|enough|the ability)))"
    ),
    r"i['’]m (?:unable|not able|not comfortable)",
    (
        r"as an? (?:ai|artificial intelligence|large language model|language model|"
        r"assistant)\b.{0,60}\bi\b"
    ),
    (
        r"(?:this|that|the) (?:request|content|conversation|text) (?:violates|goes against|"
        r"is against)\b.{0,60}\b(?:policy|policies|guidelines)"
    ),
    # German, Dutch, Scandinavian
    (
        r"(?:es tut mir (?:sehr )?leid|tut mir leid|entschuldigung|leider)\b.{0,80}\b(?:ich|"
        r"mir)\b.{0,80}\b(?:nicht|keine?n?|unmöglich)\b"
    ),
    (
        r"ich (?:kann|darf|werde|möchte)\b.{0,60}\bnicht\b.{0,40}\b(?:helfen|zusammenfassen|"
        r"erstellen|beantworten|fortfahren|nachkommen|liefern)"
    ),
    r"(?:het spijt me|helaas|sorry)\b.{0,60}\bik\b.{0,60}\bniet\b",
    (
        r"(?:tyvärr|förlåt|jag är ledsen|beklager|jeg beklager|desværre|"
        r"undskyld)\b.{0,80}\b(?:kan inte|kan ikke)\b"
    ),
    # French, Spanish, Portuguese, Italian, Romanian
    (
        r"(?:je suis (?:vraiment )?désolée?|désolée?|je m['’]excuse|"
        r"malheureusement)\b.{0,60}\bje\b.{0,60}\b(?:pas|impossible)\b"
    ),
    r"je ne (?:peux|puis|suis) pas\b",
    (
        r"(?:lo siento|lo lamento|lamento|disculpa|disculpe|perdón|"
        r"lamentablemente)\b.{0,80}\bno (?:puedo|me es posible|estoy en condiciones)"
    ),
    r"no puedo (?:ayudar|resumir|crear|generar|producir|proporcionar|hacer|continuar|cumplir)",
    r"(?:desculpe|sinto muito|lamento|infelizmente|peço desculpas?)\b.{0,80}\bnão (?:posso|consigo)",
    r"não (?:posso|consigo) (?:ajudar|resumir|criar|gerar|produzir|fornecer|fazer)",
    r"(?:mi dispiace|spiacente|purtroppo|mi scuso)\b.{0,80}\bnon (?:posso|sono in grado)",
    r"non posso (?:aiutare|riassumere|creare|generare|fornire)",
    r"(?:îmi pare rău|din păcate)\b.{0,80}\bnu pot\b",
    # Slavic, Turkish, Greek
    (
        r"(?:извините|простите|к сожалению|прошу прощения|мне жаль)\b.{0,80}\bне (?:могу|"
        r"в состоянии|смогу)"
    ),
    r"я не могу (?:помочь|выполнить|создать|предоставить|обобщить|сделать)",
    r"(?:вибачте|на жаль|перепрошую)\b.{0,80}\bне (?:можу|зможу)",
    r"(?:przepraszam|niestety|przykro mi)\b.{0,80}\bnie (?:mogę|jestem w stanie)",
    r"(?:omlouvám se|bohužel|je mi líto)\b.{0,80}\b(?:nemohu|nemůžu)",
    (
        r"(?:üzgünüm|maalesef|özür dilerim)\b.{0,120}(?:em[ei]m|am[ae]m|edemiyorum|yapamam|"
        r"yapamıyorum|mümkün değil)"
    ),
    r"(?:λυπάμαι|συγγνώμη|δυστυχώς)\b.{0,80}\bδεν μπορώ",
    # Chinese, Japanese, Korean
    r"(?:非常|很)?(?:抱歉|对不起|對不起|不好意思|遗憾).{0,40}(?:无法|無法|不能|没有办法|沒有辦法|不便)",
    r"我(?:无法|無法|不能|没有办法)(?:为|為|提供|帮|幫|总结|總結|完成|生成|协助|回答)",
    r"作[为為](?:一个|一個|一名)?(?:AI|人工智能|人工智慧|语言模型|語言模型|助手)",
    r"(?:大変|誠に)?(?:申し訳|すみません|恐れ入りますが|残念ながら|ごめんなさい).{0,80}(?:できません|出来ません|かねます|ません)",
    r"(?:정말 |대단히 )?(?:죄송|미안|유감).{0,80}(?:수 없|어렵|못 |불가)",
    # Arabic, Hebrew, Persian, Hindi, Thai, Vietnamese, Indonesian
    r"(?:عذر|آسف|أعتذر|للأسف|معذرة).{0,60}(?:لا أستطيع|لا يمكنني|لا أقدر|غير قادر|لن أتمكن)",
    r"لا (?:أستطيع|يمكنني) (?:تلخيص|المساعدة|إنشاء|تقديم|تنفيذ|القيام)",
    r"(?:מצטער|סליחה|לצערי).{0,60}לא (?:יכול|אוכל|ניתן)",
    r"(?:متأسفم|ببخشید|متاسفم|متأسفانه).{0,60}(?:نمی‌توانم|نمیتوانم)",
    r"(?:क्षमा|माफ|मुझे खेद).{0,80}नहीं",
    r"(?:ขอโทษ|ขออภัย|เสียใจ).{0,60}ไม่(?:สามารถ|ได้)",
    r"(?:xin lỗi|rất tiếc|tôi xin lỗi)\b.{0,80}không thể",
    r"(?:maaf|mohon maaf|sayangnya)\b.{0,80}tidak (?:bisa|dapat)",
)
_ERRORS = (
    (
        r"(?:error|exception|fatal|fehler|erreur|errore|erro|ошибка|错误|錯誤|エラー|오류|"
        r"خطأ)\b\s*(?:\d{3}|code)?\s*[:：(-]"
    ),
    r"\{\s*[\"']?(?:error|errors|detail|code|message|type)[\"']?\s*:",
    r"<(?:!doctype|html|head|body|\?xml)\b",
    r"traceback \(most recent call last\)",
    (
        r"(?:http(?:/\d(?:\.\d)?)?\s*)?(?:error\s*|"
        r"status(?: code)?\s*:?\s*)?[45]\d\d\b(?!\s*(?:messages|tests|files|rows|items|users|"
        r"lines))"
    ),
    r"(?:litellm|openai|anthropic|google|httpx|requests|aiohttp)\.[\w.]*(?:error|exception|timeout)",
    (
        r"(?:internal server error|bad gateway|service (?:is )?(?:temporarily )?unavailable|"
        r"too many requests|rate limit|gateway time-?out|request timed? ?out|connection (?:error|"
        r"refused|reset|timed out|aborted)|unauthori[sz]ed|forbidden|(?:invalid|incorrect|"
        r"missing) (?:api )?(?:key|token|credentials)|authentication (?:failed|error)|"
        r"insufficient[ _](?:quota|credits?|balance|funds)|quota exceeded|"
        r"you exceeded your current quota|billing|overloaded|the (?:model|server|"
        r"engine) is (?:currently )?(?:overloaded|busy|unavailable)|maximum context length|"
        r"context length exceeded|prompt is too long|no healthy upstream|upstream connect error)"
    ),
    (
        r"(?:the )?(?:summary|summari[sz]ation) (?:is |was |has )?(?:currently )?(?:unavailable|"
        r"failed|could not|not available|skipped|omitted)"
    ),
    (
        r"(?:failed|unable|could not|couldn['’]t|not able) to (?:generate|produce|create|write|"
        r"summari[sz]e|process|complete|fetch|load)"
    ),
    (
        r"(?:there (?:is|was|are|were) )?no (?:content|text|summary|conversation|messages?|input|"
        r"source|data|response)\b.{0,30}\b(?:to|was|were|is|available|provided|found|generated|"
        r"given)"
    ),
)
_CHAT = (
    r"(?:how|what) (?:can|may|could|would|should) i (?:help|assist|do)\b",
    r"(?:hello|hi|hey|greetings|good (?:morning|afternoon|evening))\b[ !,.]",
    r"(?:would|do|could|can) you (?:like|want|please|prefer|provide|share|clarify|tell)\b",
    r"(?:please|kindly) (?:provide|share|paste|send|give|specify|clarify|let me know)\b",
    r"i(?:['’]d| would)? (?:be )?(?:happy|glad|love) to\b",
    (
        r"i(?:['’]ll| will) (?:help|take a look|get back|look into|do that|start|continue|proceed|"
        r"check|go ahead|now)\b"
    ),
    r"(?:it )?(?:looks|seems|appears) like (?:you|your|there)\b",
    r"(?:thank you|thanks) for\b",
    (
        r"(?:sounds good|no problem|you['’]re welcome|got it|understood|noted|acknowledged|done|"
        r"ok(?:ay)?|sure(?: thing)?)\s*[.!,]?(?:\s|\Z)"
    ),
    r"heartbeat_ok\b",
    r"(?:nothing|no reply|no_reply|silent_reply)\b\s*(?:to report|needed|new)?\s*\W*\Z",
)


@cache
def _opening(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compiled when a model's text is checked first: that takes longer than anything else when the engine is loaded."""
    return re.compile(
        r"[\s\W]{0,8}?(?:" + "|".join(f"(?:{pattern})" for pattern in patterns) + ")", re.I | re.S
    )


def refuses(opening: str) -> bool:
    """Whether a text that begins so refuses to summarise."""
    return _opening(_REFUSALS).match(opening) is not None


def reports_error(opening: str) -> bool:
    """Whether a text that begins so is an error message."""
    return _opening(_ERRORS).match(opening) is not None


def chats(opening: str) -> bool:
    """Whether a text that begins so talks to somebody."""
    return _opening(_CHAT).match(opening) is not None
