"""Recognises sentences that order the reader about, which a tool's output must not bring into a summary.

Linear-time matching (RE2), since the text is not trusted.
"""

from __future__ import annotations

import re2

_OBJECT = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|orders?|context|messages?|"
    r"policy|policies)"
)
_PATTERNS = (
    rf"(?:ignore|disregard|forget|override|bypass)\b.{{0,40}}\b(?:all|any|every|previous|prior|above|earlier|your|the|these|those|system)\b.{{0,40}}\b{_OBJECT}",
    r"(?:ignore|disregard|forget)\s+(?:everything|all|anything)\b",
    (
        r"(?:new|updated|real|hidden|secret|following)\s+(?:system\s+)?(?:instructions?|"
        r"prompt)\s*(?::|for\s+(?:you|the\s+assistant))"
    ),
    (
        r"\b(?:you|assistant|agent|ai|model|llm)\s+(?:must|shall|have\s+to|need\s+to)\s+(?:now|"
        r"immediately|always|never|instead)\b"
    ),
    r"\byou\s+are\s+now\b",
    r"\b(?:act|behave|respond|pretend)\s+as\s+(?:if|though|a|an|the)\b",
    (
        r"\b(?:do\s+not|don't|never)\s+(?:tell|inform|mention|reveal|warn|alert|"
        r"ask)\b.{0,30}\b(?:user|human|operator|anyone|this|about)\b"
    ),
    (
        r"\b(?:reveal|print|repeat|show|leak|send|exfiltrate|forward|"
        r"upload)\b.{0,40}\b(?:system\s+prompt|api\s*keys?|credentials?|passwords?|secrets?|"
        r"tokens?)\b"
    ),
    (
        r"\b(?:run|execute|type|paste|invoke|call)\b.{0,40}(?:rm\s+-[rf]+|sudo\b|curl\b.{0,80}\|"
        r"\s*(?:ba|z)?sh|wget\b|chmod\b|del\s+/|format\s+c:|drop\s+(?:table|database))"
    ),
    r"(?:^|\s|>)(?:system|assistant|developer)\s*:\s+\S",
    (
        r"<\|[a-z_]+\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|instructions?)>|"
        r"###\s*(?:instructions?|system)\b"
    ),
    r"\b(?:ignorier|vergiss|missachte)\w*\b.{0,40}\b(?:anweisung|instruktion|vorgaben|regeln)\w*",
    r"\b(?:ignor|oubli)\w+\b.{0,40}\b(?:instructions|consignes|règles)",
    r"\b(?:ignor|olvid)\w+\b.{0,40}\b(?:instrucciones|reglas|indicaciones)",
    r"\b(?:ignor|esqueç)\w+\b.{0,40}\b(?:instruções|regras)",
    r"(?:игнорируй|забудь)\w*.{0,40}(?:инструкци|указани|правил)",
    r"(?:忽略|无视|無視|忘记|忘記).{0,12}(?:指令|指示|提示|规则|規則|说明)",
    r"(?:以前|これまで|上記|前).{0,8}(?:指示|命令|ルール).{0,8}(?:無視|忘れ)",
    r"(?:이전|위의|모든).{0,10}(?:지시|명령|규칙).{0,8}(?:무시|잊)",
    r"(?:تجاهل|انس).{0,30}(?:التعليمات|الأوامر|القواعد)",
)
_DIRECTIVE = re2.compile("(?i)" + "|".join(f"(?:{pattern})" for pattern in _PATTERNS))


def is_directive(text: str) -> bool:
    """Whether a text holds a sentence that orders its reader about."""
    return _DIRECTIVE.search(text) is not None
