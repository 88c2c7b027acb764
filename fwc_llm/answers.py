"""Parses replies as yes, no or a reason for neither (docs/protocol.md, "Parsing").

Reasoning, code, markup and struck-out text are removed first. Then a word for yes or no counts as an answer
if it is at the beginning or the end of the reply, on its own line, or after a lead-in ("the answer is …").
All answers in a reply must agree. Text that no rule covers stays unparsed, because a wrong answer is worse
than no answer. The reason is recorded, because refusals are not random.
"""

import json
import math
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from fwc_llm.models.base import Reply
from fwc_llm.words import LANGUAGES, YES_NO, Words, said

Value = Literal["yes", "no"]
Reason = Literal[
    "", "refused", "truncated", "filtered", "unfinished", "empty", "ambiguous", "other", "error"
]  # fmt: skip

PARSER = 2  # version of these rules, raised by each release that changes them; old runs without it have 1
# Providers list at most 20 tokens, so an unlisted token has a probability of at most 1/20. If the listed
# spellings of yes and no have less in total, an unlisted spelling could reverse P(yes).
LEAST_MASS = 0.05
_KEPT = 1_000  # longest text, in characters, whose answer is cached
_SEARCHED = 50_000  # characters at each end of a longer reply
_CONTEXT = 300  # characters before and after an answer
# Text is normalized in runs of this length: NFKC is quadratic in the number of marks after a letter.
_RUN = re.compile(r"\S{1,500}")


def _one_of(patterns: str) -> str:
    """A pattern that matches any of the comma-separated `patterns`."""
    return f"(?:{'|'.join(re.split(', |,$', ' '.join(patterns.split())))})"


# Reasoning: text between marks such as <think>, [THINK], ◁think▷, <|START_THINKING|>, or in a side channel.
_REASONING = "(?:think|thought|reason|reflect|scratch|analys|rationale|monolog|deliberat|explanation|justif)"
_MARKS = re.compile(
    r"[<◁]\|?(?P<end>/|end_(?:of_)?)?(?:start_|begin_(?:of_)?)?[\w:.-]{0,40}?"
    rf"{_REASONING}[\w:.-]{{0,40}}(?:\s[^<>▷]{{0,80}})?\|?[>▷]|\[(?P<slash>/)?THINK(?:ING)?\]"
    r"|<\|?channel\|?>\s*(?:thought|analysis|commentary)\b|^Thinking\.\.\.$"
    r"|<details\b[^<>]{0,80}reasoning[^<>]{0,80}>"
    r"|(?P<close><channel\|>|</details>|^\W{0,4}done thinking\b\.?)",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<]{0,40}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>")
_LOST_MARKS = re.compile(r"\s*(?:assistant)?(?:analysis|commentary)(?=[A-Z\s])")  # channels without marks
_TOOL = re.compile(
    r"[<\[]\|?(?:tool|function|python_tag|invoke)[\w ]{0,30}[=|>\]\s]|\bto=functions\."
    r"|\A\s*\{\s*\"(?:name|tool|function)\"\s*:[^{}]{1,200}\"(?:arguments|parameters)\"",
    re.IGNORECASE,
)

# Code, markup, and text that is struck out, in an unchecked box or in a table.
_CODE = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_PROSE = {"", "text", "txt", "plaintext", "json", "markdown", "md", "yaml", "xml", "html", "output"}
_UNSEEN = re.compile(  # codes of terminals, control and invisible characters
    r"\x1b\[[\d;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff]"
)
_STRUCK = re.compile(
    r"~~[^~\n]{1,200}~~|<(del|s|strike)>\S[^<\n]{0,200}</\1>|^\W{0,8}(?:\[ \]|☐).*$|^[ \t]*\|.*$",
    re.IGNORECASE | re.MULTILINE,
)
_INLINE = re.compile(r"</?(?:b|i|em|strong|u|mark|span|code|font)\b[^<>]{0,80}>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z|｜][^<>\n]{0,80}>|\[/?(?:ANSWER|INST|FINAL)[A-Z_]{0,20}\]", re.IGNORECASE)
_MARKUP = re.compile(
    r"\\(?:boxed|text\w{0,4}|mathrm|mathbf)\b|\\[\[\]()]|[${}*`#\"“”„«»‹›]|''"
    r"|(?<!\w)['‘’‚_]+|['’_]+(?!\w)"
)
_OR = re.compile(
    rf"[\s()]{{0,3}}{_one_of('/, [|], or, and, oder, und, ou, et, o, y, e, vs')}[\s()]{{0,3}}", re.I
)
_ASIDE_KEY = re.compile(rf"{_REASONING}|confiden|probab|score|certain|note|comment", re.IGNORECASE)

# Text before an answer.
_NOUN = _one_of(
    """answer, prediction, response, output, result, classification, label, decision, verdict, conclusion,
    guess, estimate, assessment, recommendation, judge?ment, outcome, determination, choice, correction,
    reply, antwort, ergebnis, entscheidung, vorhersage, réponse, décision, résultat, prédiction,
    respuesta, decisión, resultado, conclusión, predicción, risposta, decisione, risultato, previsione,
    resposta, decisão, previsão"""
)
_IS = _one_of(
    "is, would be, will be, remains, lautet, ist, wäre, est, serait, es, sería, è, sarebbe, é, seria"
)
_SAY = _one_of(
    """say, answer, go(?:ing)? with, go for, lean(?:ing)?(?: towards?)?, predict, guess, choose, pick, select,
    conclude, vote, respond, reply, estimate, classify (?:this|it) as, opt for, settle on, decide on,
    believe, expect"""
)
_FILLERS = _one_of(
    """so, thus, therefore, hence, overall, then, and, but, well, okay, ok, hmm+, wait, actually, rather,
    sorry, i mean, sure, certainly, absolutely, definitely, clearly, simply, still, almost, very, most,
    highly, likely, unlikely, probably, presumably, in conclusion, in short, in summary, no doubt,
    without doubt, assistant, also, daher, wahrscheinlich, vermutlich, eher, leider, donc,
    malheureusement, probablement, entonces, probablemente, quindi, probabilmente, portanto, provavelmente"""
)
_FILLED = re.compile(rf"(?:{_FILLERS}[\s,:;]+)+", re.IGNORECASE)
_START = re.compile(  # beginning of a sentence, with a list's bullet or number
    r"[^\w≠!¬~=<>]*(?:(?:\d{1,4}|[A-Za-z])[].:)](?=\W)[^\w≠!¬~=<>]*)?(?:[-=]?>\s*)?"
    rf"(?:{_FILLERS}[\s,:;]+)*\Z",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    rf"(?:\b{_NOUN}\b(?: \([^()\n]{{1,60}}\))?(?: {_one_of('to, for, here, in, based, given, zu, auf, à')}\b"
    rf"(?: \S{{1,30}}){{0,9}}?)?(?: ?(?::|=|→|[-=]>)| [-–—]|,? {_IS}\b[,:]?)"
    rf"|\b(?:I|we)(?:['’](?:d|ll|m)| would| will| must| have to| am)?(?: inclined to)?"
    r"(?: \w{2,10}ly| rather| still| most)?"
    rf" {_SAY}(?: that)?:?|\bich (?:würde|sage|tippe auf)(?: mit)?|\boption \w\b"
    r"|^\W{0,6}(?:A|assistant|bot|model) ?:|¤[^\w\n]{0,4}:)"
    rf"[\s(]*(?:(?:that|a|an) )?(?:{_FILLERS}[\s,:;]+)*[\s(]*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_BECAUSE = re.compile(r"\W*(?:since|because|given|based on|considering|as|with|after)\b[^\n]*, \Z", re.I)
_COLON = re.compile(  # up to a reply's only colon, before its final answer; not the attribute "smoker: yes"
    r"\A(?:[^\W\d]\S*(?: \S+){2,60}|(?:\w+ )?(?:final|class|category|then)) ?: ?\Z", re.IGNORECASE
)
_LABEL = re.compile(r"\w+(?: \w+){0,3} ?: ?")  # the whole reply except the answer
_SUBJECT = re.compile(  # subject of an answer in a task's own words: "the application is rejected"
    r"\b"
    + _one_of(
        """application, request, claim, loan, credit, antrag, kredit, darlehen, bewerbung, demande, prêt,
        solicitud, domanda, richiesta, pedido"""
    )
    + r"(?: \w{1,20}){0,3} "
    + _one_of("is, should be, would be, wird, ist, est, es, è, é, sera, será, sarà")
    + r" \Z",
    re.IGNORECASE,
)
_DENIED = re.compile(  # words in the same clause that deny the answer, or announce a change of mind
    r"\b"
    + _one_of(
        r"""not, never, cannot, without, neither, nor, nicht, kein\w*, pas, jamais, nunca, first, second,
        example, initial\w*, instinct, naive\w*, previous\w*, some, others, people, opposite, wrong\w*,
        incorrect, could, might, may, unclear, doubt, possible"""
    )
    + r"\b|n['’]t\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(  # a condition in the same sentence
    rf"\b{_one_of('if, whether, unless, suppos[a-z]+, assuming, wenn, falls, ob')}\b "
    rf"(?!{_one_of('i, you, we, forced, pressed, pushed, asked, required, ich')}\b)"
    r"|(?:^|[,;] )(?:were|had|should) ",
    re.IGNORECASE,
)
_CROSS = re.compile("[✗✘❌🚫👎]")
_NUMBERED = re.compile(r"\W*\d{1,6}[.:)]")

# Text after an answer.
_ALONE = re.compile(
    r" ?(?:\Z|\n|[.!;:…|,。）)\]]|[-–—]+(?=\s|\Z)|[^\w\s?/≠=<>&+'’.-]|"
    + _one_of(
        """because, since, as, given, based, considering, due, this, the, that, he, she, it, they, there,
        here, rather, with, according, in (?:this|my|both|either), to (?:the|this|your), weil, da, denn,
        car, puisque, porque, perché, pois"""
    )
    + r"\b)",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"no\. ?(?:\d|of\b)|\d+[.,] ?\w", re.IGNORECASE)  # "No. 1 predictor", "1. …"
_CONTRAST = re.compile(rf"{_one_of('not, than, of, nicht, pas')} \Z", re.IGNORECASE)
_CONDITION = re.compile(
    r"[\s,;:–—-]*"
    + _one_of(
        """but, if, unless, provided, assuming, as long as, depending, except, only, however, aber, wenn,
        falls, mais, pero, ma, mas, se, si"""
    )
    + r"\b",
    re.IGNORECASE,
)
_TO_USER = re.compile(
    r"[\s,;:–—-]*(?:sure[\s,]+)?"
    + _one_of(
        r"""I (?:understand|see|got it)\b, understood, let me (?:look|analy[sz]e|think|check|see|review|know),
        gerne?\b, let['’]s, here(?:['’]s| is| are), of course, thanks?\b,
        (?:that|this)(?:['’]s| is) an? \w+ (?:question|one|task|case)"""
    ),
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\W*(?:I|let me|ich|je|lass)\b", re.IGNORECASE)
_UNABLE = r"\b(?:I|we)(?:['’]m| am| are)?(?: \w{1,12}){0,2}? " + _one_of(
    r"""cannot, (?:can|won)['’]?t, could not, couldn['’]t, will not, would not, wouldn['’]t, do not, don['’]t,
    unable, not, decline, refuse, abstain"""
)
_DECLINES = (
    r"\b(?:I|we) (?:\w{1,12} ){0,2}?(?:must|(?:have|need) to|respectfully)(?: \w{1,12})? "
    r"(?:decline|refuse|abstain)(?= from\b|\s*[.,;:!–—]|\W*\Z)"
)
_NOT_OF_ROW = re.compile(  # text about the model or the task, not about the row: "No, I cannot help"
    rf"{_UNABLE}(?: \w{{1,12}}){{0,4}}? "
    + _one_of(
        """help, assist, answer, provide, make, give, predict, determine, comply, judge, assess, speculate,
        infer, engage, participate, decide, do (?:that|this), able, comfortable"""
    )
    + rf"\b|{_DECLINES}|\b"
    + _one_of(
        r"""sorry, apologi[sz]e, as an AI, I(?:['’]ll| can| could| will) (?:help|assist|answer|do|provide),
        I(?:['’]d| would|['’]m| am)? ?(?:be )?(?:happy|glad|able) to, please (?:provide|share|paste|send),
        can(?:not| not|['’]t) be (?:answered|determined|given|inferred|known|made|predicted|said|told),
        (?:im|not )possible to,
        (?:can(?:not| not|['’]t)|could(?: not|n['’]t)) (?:determine|say|tell|judge|assess),
        (?:not enough|insufficient) (?:\w+ )?(?:context|data|details?|evidence|info\w*),
        (?:ich kann|kann (?:ich|man)|lässt sich)\b.{,40} nicht, (?:je|on) ne peu[xt], no (?:se )?pued[eo],
        non (?:si )?(?:posso|può), não (?:se )?(?:posso|pode), one can(?:not|['’]t), unethical,
        discriminat\w+, inappropriate, illegal, going to (?:answer|do), (?:it|that) depends,
        kommt (?:darauf|drauf) an, ça dépend, (?:eso )?depende, dipende"""
    )
    + r"\b",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"\b"
    + _one_of(
        r"""wait\b[,.:], on (?:second|further) thought, correction, misread, scratch that, reconsider,
        I was wrong, let me (?:correct|revise), take that back, made a mistake, my mistake, just kidding,
        I meant"""
    ),
    re.IGNORECASE,
)

_ANSWER_KEY = re.compile(rf"(?:\w{{0,30}}_)?{_NOUN}(?:_\w{{0,30}})?", re.IGNORECASE)

# Patterns for a whole reply.
_FIRST, _LAST = re.compile(r"[\w¤]"), re.compile(r"[\w¤][^\w¤]*\Z")
_SENTENCE_END = re.compile(r"(?<!\A\w)(?<!\n\w)(?<!\A\d\d)(?<!\n\d\d)[.!?。…]+[\s)\]]+|\n+")
_CLAUSE_END = re.compile(r"[,;] | [-–—] ")
_SHORT = re.compile(r"\W*(?:(y|yep|yeah|yup)|n|nope|nah)\W*", re.IGNORECASE)
_REFUSAL = re.compile(
    rf"{_DECLINES}|\b(?:I|we) (?:\w{{1,12}} ){{0,2}}?(?:decline|refuse|abstain) (?:to|from)\b|\b"
    + _one_of(
        r"""sorry, apologi[sz]e, unable to, cannot, (?:can|won)['’]?t,
        as an? (?:ai|artificial|language|large),
        i(?:['’]m| am| could| would| will| do)\s?(?:not|n['’]t)
        (?:be |feel )?(?:able|comfortable|allowed|answer|help|assist|make|give|predict|judge|guess|have|know),
        tut mir leid, ich kann, je ne peux, désolé, lo siento, no puedo, mi dispiace, non posso, desculpe,
        não posso"""
    )
    + r"\b",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"\bcontent management policy|\b(?:response|prompt) was (?:filtered|blocked)", re.I)
_TOKEN = re.compile(r"\A(?:\W|Ġ)+|\W+\Z")  # characters around the letters of a token
_BUILT_IN = {word for pair in (("yes", "no"), *LANGUAGES) for word in pair}  # short words of one token each


@dataclass(frozen=True)
class Answer:
    """A parsed reply: `value` is "yes", "no", or None with a `reason`."""

    value: Value | None
    reason: Reason = ""


def parse_answer(reply: Reply | str, words: Words = YES_NO) -> Answer:
    """Parse the answer in a reply, or in a reply's text.

    `words` maps "yes" and "no" to a word or several (any case): `{"yes": "bewilligt", "no": "abgelehnt"}`.
    Reasons for a `value` of None: error (no reply at all), unfinished (the service broke off), refused (a tool call counts as a refusal),
    filtered (by the provider), empty, truncated (cut off before an answer, or only reasoning), ambiguous
    (contradictory answers), other. The time is linear in the length of the text.
    """
    reply = Reply(reply) if isinstance(reply, str) else reply
    if reply.refusal:
        return Answer(None, "refused")
    if reply.ending in ("filtered", "unfinished"):
        return Answer(None, reply.ending)
    if reply.text is None:
        return Answer(None, "error")
    if reply.p_yes is not None and not reply.logprobs and reply.text in ("yes", "no"):  # a decision model's
        return Answer("yes" if reply.text == "yes" else "no")
    read = _read if len(reply.text) <= _KEPT else _read.__wrapped__
    yes, no = (said(words[value]) for value in ("yes", "no"))
    return read(reply.text, yes, no, reply.ending == "truncated", reply.reasoned)


@lru_cache(maxsize=10_000)  # many replies have the same text
def _read(text: str, yes: tuple[str, ...], no: tuple[str, ...], cut: bool, thought: bool) -> Answer:
    words = {"yes": yes, "no": no}
    text, reasoned = without_reasoning(text)
    if _TOOL.search(text):
        return Answer(None, "refused")
    pattern = _pattern(yes, no)
    plain = _plain(text, words, pattern)
    if not plain.strip():
        unseen = _TAG.sub("", _UNSEEN.sub("", text)).strip()
        blank: Reason = "truncated" if cut or reasoned or thought else "empty"
        return Answer(None, "other" if unseen else blank)
    of_task = not _BUILT_IN.intersection(yes)
    found = _found(plain, pattern, cut, of_task)
    if found is not None:
        return found
    if "yes" in yes and (short := _SHORT.fullmatch(plain)):
        return Answer("yes" if short[1] else "no")
    if _FILTERED.search(plain):
        return Answer(None, "filtered")
    if _REFUSAL.search(plain):
        return Answer(None, "refused")
    return Answer(None, "truncated" if cut else "ambiguous" if "¤" in plain else "other")


def without_reasoning(text: str) -> tuple[str, bool]:
    """The text without reasoning ("" if that never ends), and whether it had any."""
    if "<|channel|>" in text:
        final = deque(_FINAL.finditer(text), maxlen=1)
        text, reasoned = text[final[0].end() :] if final else "", True
    elif reasoned := bool(_LOST_MARKS.match(text)):
        text = text.rpartition("assistantfinal")[2] if "assistantfinal" in text else ""
    kept, end, inside = list[str](), 0, False
    for mark in _MARKS.finditer(text):
        if mark["close"] and not inside:
            continue
        if mark["close"] or mark["end"] or mark["slash"]:
            kept = kept if inside else []  # without an opening mark, reasoning began with the text
            end, inside = mark.end(), False
        elif not inside and not mark[0].endswith("/>"):
            kept.append(text[end : mark.start()])
            inside = True
        reasoned = True
    return "" if inside else "".join([*kept, text[end:]]), reasoned


def _normal(text: str) -> str:
    text = _RUN.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    text = text.replace("≤", "<=").replace("≥", ">=")
    return re.sub(r"[^\S\n]+", " ", _UNSEEN.sub(" ", text.replace("\r", "\n")))


@lru_cache(maxsize=64)
def _pattern(*words: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for the words for yes and for no, also without accents, longest first."""
    spelled = list[tuple[str, str]]()
    for value, of_value in zip(("yes", "no"), words, strict=True):
        for word in map(_normal, of_value):
            bare = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
            spelled += [(spelling.strip(), value) for spelling in {word, bare}]
    parts = []
    for word, value in sorted(spelled, key=lambda pair: -len(pair[0])):
        pieces = re.findall(r"\w+|[^\w\s]", word)
        pattern = r"\s?".join(map(re.escape, pieces)) if len(pieces) > 1 else re.escape(word)
        parts.append(pattern if " " not in word else r"\s".join(map(re.escape, word.split())))
        before = r"(?<![-$€.])" if word[:1].isdigit() else ""
        before += r"(?<!\w)(?<!\w[-'’_&])" if word[:1].isalnum() else "(?<![<>=])"
        parts[-1] = f"(?P<{value}{len(parts)}>{before}{parts[-1]})"
    return re.compile(rf"(?:{'|'.join(parts)})(?!\w)(?![-'’&]\w)", re.IGNORECASE)


def _value(found: re.Match[str]) -> Value:
    return "yes" if str(found.lastgroup).startswith("yes") else "no"


def _plain(text: str, words: Words, pattern: re.Pattern[str]) -> str:
    """The text without code, markup and struck-out parts; "yes or no" becomes ¤."""
    if len(text) > 2 * _SEARCHED:
        text = f"{text[:_SEARCHED]}\n…\n{text[-_SEARCHED:]}"
    text = _CODE.sub(lambda block: block[2] if block[1].lower() in _PROSE else "\n", text)
    text = _STRUCK.sub("\n", _normal(_with_json_read(text, words)))
    text = re.sub(" +", " ", _MARKUP.sub("", _TAG.sub("\n", _INLINE.sub("", text))))
    pieces, end = list[str](), 0
    for first, second in pairwise(pattern.finditer(text)):
        choice = _value(first) != _value(second) and _OR.fullmatch(text, first.end(), second.start())
        if choice and first.start() >= end:
            pieces += [text[end : first.start()], "¤"]
            end = second.end()
    return "".join([*pieces, text[end:]])


def _with_json_read(text: str, words: Words) -> str:
    pieces, end, decoder = list[str](), 0, json.JSONDecoder(object_pairs_hook=tuple)
    while (start := text.find("{", end)) >= 0:
        stop = text.find("}", start) + 1
        try:
            if "'" in text[start:stop] and '"' not in text[start:stop]:  # a dict as Python prints it
                value = decoder.decode(text[start:stop].replace("'", '"'))
            else:
                value, stop = decoder.raw_decode(text, start)
            answers = set(_json_answers(value, words))
        except (ValueError, RecursionError):
            break
        lines = [f"\nAnswer: {said(words[answer])[0]}\n" for answer in sorted(answers)]
        pieces += [text[end:start], *(lines or ["\n"])]
        end = stop
    return "".join([*pieces, text[end:]])


def _json_answers(pairs: tuple[tuple[str, Any], ...], words: Words) -> Iterator[Value]:
    """The answers in a JSON object: under keys such as "answer", or its only key."""
    pairs = tuple(pair for pair in pairs if not _ASIDE_KEY.search(pair[0]))
    under_answer = tuple(pair for pair in pairs if _ANSWER_KEY.fullmatch(pair[0]))
    for _, item in under_answer or (pairs if len(pairs) == 1 else ()):
        if isinstance(item, tuple):
            yield from _json_answers(item, words)
        elif isinstance(item, str):
            answer = parse_answer(item, words).value
            yield from () if answer is None else (answer,)
        elif item in (0, 1) and under_answer and "yes" in said(words["yes"]):
            yield "yes" if item else "no"


def _found(text: str, pattern: re.Pattern[str], cut: bool, of_task: bool) -> Answer | None:
    """The common answer of all answers in a plain text; None if there is no answer."""
    first, last = _FIRST.search(text), _LAST.search(text)
    if first is None or last is None:
        return None
    begin, end = first.start(), last.start() + 1
    last_line = text.rfind("\n", 0, end) + 1
    last_sentence = max((m.end() for m in _SENTENCE_END.finditer(text, last_line, end)), default=last_line)
    values, seen, numbered = set[Value](), 0, 0
    for match in pattern.finditer(text):
        start, stop = match.span()
        if not _ALONE.match(text, stop) or _ORDINAL.match(text, start):
            continue
        line = max(text.rfind("\n", 0, start) + 1, start - _CONTEXT)
        sentence = max((m.end() for m in _SENTENCE_END.finditer(text, line, start)), default=line)
        before = text[sentence:start]
        rest = _SENTENCE_END.split(text[stop : stop + _CONTEXT], maxsplit=2)
        starts = bool(_START.fullmatch(before)) and not (_value(match) == "yes" and _CROSS.search(before))
        opens = True
        if starts:
            greeting = text[begin:sentence].rstrip()
            alone = sentence == line and not _FIRST.search(text[stop:].partition("\n")[0])
            opens = sentence <= begin or alone or (len(greeting) < 80 and greeting[-1] in "!:")
            stated = opens or sentence >= last_sentence or sentence == last_line
        else:
            clause = before[max((m.end() for m in _CLAUSE_END.finditer(before)), default=0) :]
            closes = stop >= end and (
                _FILLED.fullmatch(clause)
                or (not clause and _BECAUSE.match(before) and not pattern.search(before))
                or (text.count(":") == 1 and _COLON.search(before))
                or (of_task and (_LABEL.fullmatch(text, begin, start) or _SUBJECT.search(before)))
            )
            stated = bool(_LEAD_IN.search(text[line:start]) or closes)
            stated = stated and not _DENIED.search(clause) and not _SUPPOSED.search(before)
        if not stated or (cut and stop >= len(text.rstrip()) and start > begin):
            continue
        after = rest[0] if _FIRST.search(rest[0]) else rest[min(1, len(rest) - 1)]
        if starts and (not_of_row := _NOT_OF_ROW.search(after)):
            return Answer(None, "refused" if _REFUSAL.search(not_of_row[0]) else "other")
        if starts and (_TO_USER.match(rest[0]) or (of_task and _FIRST_PERSON.match(after))):
            continue
        opposed = any(
            _value(other) != _value(match)
            and _ALONE.match(rest[0], other.end())
            and not _CONTRAST.search(rest[0][: other.start()])
            for other in pattern.finditer(rest[0])
        )
        if (opposed and opens) or _CONDITION.match(rest[0]):
            return Answer(None, "ambiguous")
        if opposed:
            continue
        values.add(_value(match))
        numbered += bool(_NUMBERED.match(text, line))
        seen = stop
    if len(values) == 2 or numbered > 1 or (values and _CORRECTED.search(text, seen)):
        return Answer(None, "ambiguous")
    return Answer(values.pop()) if values else None


def probability(reply: Reply, words: Words = YES_NO) -> float | None:
    """P(yes) of a reply, in [0, 1], from `logprobs` if it has any, else `p_yes`; or None."""
    if reply.logprobs:
        return p_yes(reply.logprobs, words)
    p = reply.p_yes
    return abs(p) if p is not None and 0.0 <= p <= 1.0 else None  # not -0.0: its minus looks like a formula


def p_yes(logprobs: Iterable[tuple[str, float]] | None, words: Words = YES_NO) -> float | None:
    """P(yes), in [0, 1], from the log-probabilities of the first answer token.

    `logprobs` are (token, natural-log probability) pairs. P(yes) is the probability of all spellings of yes
    (" Yes", "yes.", "▁YES"), divided by that of all spellings of yes and no. If `words` are not built in, a
    token counts if it begins a word of only one of the two answers ("bew", "abge"). None if all spellings of
    yes and no together have less than `LEAST_MASS`: they are then too rare to tell the model's answer
    (docs/statistics.md, "P(yes)").
    """
    mass = {"yes": 0.0, "no": 0.0}
    spelled = [(value, _normal(word).casefold()) for value in mass for word in said(words[value])]
    for token, logprob in logprobs or ():
        piece = _TOKEN.sub("", token).casefold()
        if not piece or math.isnan(logprob):
            continue
        begun = {
            value
            for value, word in spelled
            if word == piece or (word not in _BUILT_IN and word.startswith(piece))
        }
        if len(begun) == 1:
            mass[begun.pop()] += math.exp(min(logprob, 0.0))
    total = mass["yes"] + mass["no"]
    return mass["yes"] / total if total >= LEAST_MASS else None
