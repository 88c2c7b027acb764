"""Parses replies as yes, no or a reason for neither (docs/protocol.md, "Parsing").

Reasoning, code, markup and struck-out text are removed first. Then the structure decides: a reply
is read if it is a bare answer, JSON, or ends with a labelled answer or one on a line of its own; or
if it begins with an answer, and the rest gives reasons in which nothing answers again, denies,
hedges, quotes or asks. Text that no rule covers stays unparsed, because a wrong answer is worse
than no answer. The reason is recorded, because refusals are not random.
"""

import json
import math
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

from fwc_llm.errors import FwcError, InputTypeError
from fwc_llm.models.base import Reply
from fwc_llm.sanitize import kind_of
from fwc_llm.words import LANGUAGES, YES_NO, Words, said

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

Value = Literal["yes", "no"]
Reason = Literal[
    "", "refused", "truncated", "filtered", "unfinished", "empty", "ambiguous", "other", "error"
]

# version of these rules, raised by each release that changes them; old runs without it have 1
PARSER = 3
# Providers list at most 20 tokens, so an unlisted token has a probability of at most 1/20. If the
# listed spellings of yes and no have less in total, an unlisted spelling could reverse P(yes).
LEAST_MASS = 0.05
_CLEAR = 0.1  # largest width of what P(yes) may be, by tokens that only begin a word
_KEPT = 1_000  # longest text, in characters, whose answer is cached
_SEEN = 2_000  # characters at each end of a longer reply, after its reasoning


def _one_of(patterns: str) -> str:
    """A pattern that matches any of the comma-separated `patterns`."""
    return f"(?:{'|'.join(re.split(', |,$', ' '.join(patterns.split())))})"


# Text is normalized in runs of this length: NFKC is quadratic in the number of marks after a
# letter.
_RUN = re.compile(r"\S{1,500}")

# Reasoning: text between marks such as <think>, [THINK], ◁think▷, <|START_THINKING|>, or in a side
# channel.
_REASONING = (
    "(?:think|thought|reason|reflect|scratch|analys|rationale|monolog|deliberat|explanation|justif)"
)
_MARKS = re.compile(
    r"[<◁]\|?(?P<end>/|end_(?:of_)?)?(?:start_|begin_(?:of_)?)?[\w:.-]{0,40}?"
    rf"{_REASONING}[\w:.-]{{0,40}}(?:\s[^<>▷]{{0,80}})?\|?[>▷]|\[(?P<slash>/)?THINK(?:ING)?\]"
    r"|<\|?channel\|?>\s*(?:thought|analysis|commentary)\b|^Thinking\.\.\.$"
    r"|<details\b[^<>]{0,80}reasoning[^<>]{0,80}>"
    r"|(?P<close><channel\|>|</details>|^\W{0,4}done thinking\b\.?)",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<]{0,40}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>")
_LOST_MARKS = re.compile(
    r"\s*(?:assistant)?(?:analysis|commentary)(?=[A-Z\s])"
)  # channels without marks
_TOOL = re.compile(
    r"[<\[]\|?(?:tool|function|python_tag|invoke)[\w ]{0,30}[=|>\]\s]|\bto=functions\."
    r"|\A\s*\{\s*\"(?:name|tool|function)\"\s*:[^{}]{1,200}\"(?:arguments|parameters)\"",
    re.IGNORECASE,
)

# Code, markup, and text that is struck out, in an unchecked box or in a table.
_CODE = re.compile(
    r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL
)
_PROSE = {"", "text", "txt", "plaintext", "json", "markdown", "md", "yaml", "xml", "html", "output"}
_UNSEEN = re.compile(  # codes of terminals, control and invisible characters
    r"\x1b\[[\d;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff]"
)
_STRUCK = re.compile(
    r"~~[^~\n]{1,200}~~|<(del|s|strike)>\S[^<\n]{0,200}</\1>|^\W{0,8}(?:\[ \]|☐).*$|^[ \t]*\|.*$",
    re.IGNORECASE | re.MULTILINE,
)
_INLINE = re.compile(r"</?(?:b|i|em|strong|u|mark|span|code|font)\b[^<>]{0,80}>", re.IGNORECASE)
_TAG = re.compile(
    r"</?[A-Za-z|｜][^<>\n]{0,80}>|\[/?(?:ANSWER|INST|FINAL)[A-Z_]{0,20}\]", re.IGNORECASE
)
_MARKUP = re.compile(
    r"\\(?:boxed|text\w{0,4}|mathrm|mathbf)\b|\\[\[\]()]|[${}*`#]|''|(?<!\w)_+|_+(?!\w)|[☑✅✔]|\[x\]"
)
_OR = re.compile(
    rf"[\s()]{{0,3}}{_one_of('/, [|], or, and, oder, und, ou, et, o, y, e, vs')}[\s()]{{0,3}}", re.I
)
_ASIDE_KEY = re.compile(rf"{_REASONING}|confiden|probab|score|certain|note|comment", re.IGNORECASE)

# What a reply that is no answer says: why, and what makes a leading answer doubtful.
_UNABLE = re.compile(
    r"\b(?:I|we)(?:['’]m| am| are)?(?: \w{1,12}){0,2}? "
    r"(?:can(?:not|['’]t)|unable|not able|decline|refuse|abstain"
    r"|(?:could|will|would|do|am|are)(?: not|n['’]t) (?:be |feel "
    r")?(?:able|comfortable|allowed|answer"
    r"|help|assist"
    r"|make|give|predict|judge|guess|have|know)|won['’]t|(?:must|have to"
    r"|need to)(?: respectfully)? (?:decline|refuse|abstain))\b"
    r"|\b(?:sorry|apologi[sz]e|unable to|cannot|can['’]t|as an? (?:ai|artificial|language|large)"
    r"|tut mir leid|ich kann|je ne peux|désolé|lo siento|no puedo|mi dispiace|non posso|desculpe"
    r"|não posso)\b",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"\bcontent management policy|\b(?:response|prompt) was (?:filtered|blocked)", re.I
)
_TOLD = re.compile(r"\bno\. ?(?=\d|of\b)", re.IGNORECASE)  # "No. 1 predictor"
_NEGATED = re.compile(  # in the rest of a yes: its reasons do not negate
    r"\b(?:not?|never|none|nobody|neither|nor|without|nicht|kein\w*|nie|niemals|ohne|pas|jamais"
    r"|aucun\w*|sans"
    r"|nunca|jamás|ningun\w*|tampoco|sin|non|mai|nessun\w*|senza|não|nem|nenhum\w*|sem)\b|n['’]t\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(  # in the rest of any answer: it hedges, retracts, asks, or lets others speak
    r"[?¿\"“”„«»…]|\.\.\.|, s[ei]\b|\b(?:"
    # English
    "but|however|although|though|yet|unless|if|whether|except|maybe|perhaps|might|could|unlikely|hardly"
    "|barely|impossible|unclear|unsure|uncertain\\w*|doubt\\w*|depend\\w*|ambiguous|guess\\w*|suppos\\w*"
    "|assum\\w*|hypothe\\w*|pretend\\w*|wrong\\w*|false\\w*|true|truth|right|correct\\w*|incorrect\\w*"
    "|accurate|inaccurate|mistake\\w*|mistaken|error\\w*|jok\\w*|kidding|iron\\w*|sarcas\\w*|opposite"
    "|contrary|revers\\w*|otherwise|instead|actually|rather|edit\\w*|update\\w*|wait|hmm\\w*|sorry|oops"
    "|scratch|strike|retract\\w*|reconsider\\w*|revis\\w*|disagree\\w*|ignore\\w*|disregard\\w*|forget"
    "|say|says|said|saying|think\\w*|thought|believe\\w*|claim\\w*|argue\\w*|fool\\w*|tempt\\w*|naive\\w*"
    "|initial\\w*|instinct|example\\w*|answer\\w*|prediction|verdict|conclusion|reply|response|label"
    "|back|meant|meaning|other "
    "way|wish\\w*|real|really|sense|unethical|discriminat\\w*|inappropriate"
    "|illegal|determine\\w*"
    # German
    "|aber|jedoch|doch|allerdings|obwohl|wenn|falls|außer|ob|vielleicht|möglicherweise|könnte\\w*|kaum"
    "|unwahrscheinlich|unklar|unsicher|zweifel\\w*|falsch\\w*|richtig|stimmt|wahr|wahrheit|irrtum|fehler"
    "|korrektur|korrigier\\w*|scherz\\w*|witz|spaß|gegenteil|umgekehrt|eigentlich|sondern|moment|halt"
    "|warte|sagen|sagt\\w*|denk\\w*|glaub\\w*|meint\\w*|antwort|hängt|beispiel|zurück"
    # French
    "|mais|cependant|toutefois|pourtant|sauf|sinon|peut-être|pourrait|improbable|incertain\\w*|douteu\\w*"
    "|doute|faux|fausse|vrai\\w*|exact\\w*|erreur|blague|plaisant\\w*|contraire|inverse|plutôt|attend\\w*"
    "|pardon|désolé|dire|dit|dirait|pense\\w*|croi\\w*|prétend\\w*|réponse|dépend|exemple|guère|fait"
    "|réalité"
    # Spanish
    "|pero|embargo|aunque|salvo|excepto|quizás?|vez|podría|incierto|duda\\w*|falso|verdad\\w*|cierto"
    "|correcto|incorrecto|corrección|corrijo|broma|ironía|contrario|revés|inverso|espera|perdón|decir"
    "|dice|diría|dijo|piens\\w*|pensar|cree\\w*|creo|respuesta|ejemplo|apenas|realidad|bien|sino"
    # Italian
    "|ma|però|tuttavia|sebbene|tranne|forse|potrebbe|improbabile|incert\\w*|dubbi\\w*|vero|giusto"
    "|corrett\\w*|sbagli\\w*|errore|correzione|correggo|scherz\\w*|aspetta|scusa|direi|detto|pens\\w*"
    "|cred\\w*|risposta|dipende|esempio|appena|realtà|piuttosto|anzi"
    # Portuguese
    "|mas|porém|contudo|embora|exceto|talvez|poderia|improvável|dúvida|verdade\\w*|corret\\w*|incorret\\w*"
    "|errad\\w*|erro|correção|brincadeira|brincando|desculpe|dizer|diz|diria|disse|acho|acredit\\w*"
    "|resposta|exemplo|aliás"
    r")\b",
    re.IGNORECASE,
)

# What the row is then said to be: less in the rest of a yes, more in that of a no.
_CONTRARY = {
    value: re.compile(
        rf"\b(?:earn|mak|verdien|gagn|gan|guadagn)\w* (?:\w+ )?(?:{alone})\b"
        rf"|\b(?:{alone}|{compared})\b(?: \w+){{0,2}} ?[$€£]?\d",
        re.IGNORECASE,
    )
    for value, alone, compared in (
        (
            "yes",
            "less|weniger|moins|menos|meno",
            "below|under|unter|at most|inferior|inférieur|inferiore",
        ),
        (
            "no",
            "more|mehr|plus|más|mais|più",
            "above|over|über|at least|exceed\\w*|superior|supérieur",
        ),
    )
}
_UNSURE = re.compile(
    r"(?:confiden|probab|certain|likelihood)\w*[^.\n]{0,25}?\b[0-4]?\d ?%", re.IGNORECASE
)

# The structure of a sentence that answers.
_NOUN = _one_of(
    """answer, prediction, response, output, result, classification, label, decision, verdict, conclusion,
    assessment, recommendation, judge?ment, guess, estimate, class, outcome,
    determination, choice, antwort, ergebnis, entscheidung, vorhersage, urteil, réponse,
    décision, résultat, prédiction, verdict, respuesta, decisión, resultado,
    conclusión, predicción, risposta, decisione, risultato, previsione, resposta, decisão, previsão"""
)
_CONCLUDES = (
    r"(?:so|thus|therefore|hence|overall|finally|in conclusion|in summary|in short|also|daher|somit"
    r"|folglich"
    r"|donc|ainsi|por (?:lo )?tanto|entonces|quindi|dunque|pertanto|portanto|logo)[,:]? "
)
_SOFT = (
    r"(?:most |very "
    r")?likely|probably|clearly|definitely|leider|wahrscheinlich|probablement|probablemente"
    r"|probabilmente|provavelmente"
)
_NUMBERED = re.compile(r"\W*\d{1,6}[.:)]")
_SENTENCE_END = re.compile(r"(?<=[.!?…])(?<!\b\d\.)(?<!\A\w\.) +")
_BULLET = r"(?:(?:[-•>→*+]|\d{1,3}[.):]|[A-Za-z][.)]) )?"
_LABEL = (
    r"(?:(?:(?:the|my|our|a|final|correct|predicted|short|overall|best|most likely|most plausible"
    r"|model['’]s|die|meine|endgültige|la|ma|notre"
    r"|finale|el|mi|il|mia|definitiva|a|o|minha|meu) ){0,4}"
    rf"(?:\w+_)?{_NOUN}(?: \((?:¤|y/n|final|binary)\))?"
    r"(?: (?:here )?(?:is|was|remains|would be|will "
    r"be|lautet|ist|wäre|est|serait|es|sería|è|sarebbe|é"
    r"|seria)\b)?"
    r" ?(?:[:=→–—-]|->|=>){0,2}"
    r"|I(?:['’]d| would| will| must)? (?:say|answer|predict|choose|vote|conclude|go with"
    r"|lean(?: towards?)?)(?: with)?:?"
    r"|(?:assistant|final):"
    r"|je dirais(?: que)?|direi(?: di)?|diría que|(?:eu )?diria que"
    r"|ich (?:sage|würde sagen|tippe auf):?|¤ ?[:?.=→-]*) "
)
_GROUNDS = (  # before a label: grounds, in the same sentence
    r"(?:(?:based on|given|since|because|considering|as|with|judging "
    r"by|per)\b[^.?!:;\"“\n]{1,200}, "
    r"|(?!if\b|unless\b|wenn\b|si\b|se\b)[^?\"“\n]{1,300}, "
    r"(?=(?:so|thus|therefore|hence|daher|donc) ))?"
)
_HEADING = re.compile(
    rf"^\W*((?:(?:my|the|final) )?(?:{_NOUN}|assistant))\W*\n\s*", re.IGNORECASE | re.MULTILINE
)
_SUBJECT = (  # of an answer in a task's own words: "the application is rejected"
    r"(?:(?:the|this|der|die|das|dieser|diese|dieses|la|le|cette|ce|el|esta|este|il|questa|o|a) )?"
    + _one_of(
        """application, request, claim, loan, credit, antrag, kredit, darlehen, bewerbung, demande, prêt,
        solicitud, domanda, richiesta, pedido"""
    )
    + r" (?:is|should be|would be|will be|wird|ist|est|sera|es|será|è|sarà|é) "
)
_PREFIX = re.compile(
    rf"{_BULLET}(?:[^\w\s≠!¬~=<>❌✗✘🚫👎]+ ?)?(?P<grounds>{_GROUNDS})(?P<concludes>{_CONCLUDES})?"
    rf"(?:(?P<label>(?:{_LABEL})+)|(?P<subject>{_SUBJECT}))?(?:(?:{_SOFT})[,:]? )?[\"“„«'‘(\[]?",
    re.IGNORECASE,
)
_CLOSED = re.compile(  # nothing follows in the sentence but punctuation
    rf"(?:, (?:{_SOFT}))?(?!\s*\.\.)[^\w?…❌✗✘🚫👎🙃😉🤔]*\Z", re.IGNORECASE
)
_CHATTER = re.compile(  # to the user, not about the row
    r"\W*(?:please )?(?:let me know|feel free|is there anything|would you like|do you "
    r"(?:want|need)|i hope"
    r"|happy to|glad to|thank|you['’]re welcome)\b",
    re.IGNORECASE,
)
_SET_OFF = re.compile(
    r"[\"”“»'’]?(?:,| ?[;:–—]| -| ?\()? "
)  # before the reasons in the same sentence
_BECAUSE = re.compile(
    r" (?:because|since|as|given|based|due|considering|weil|da|denn|car|parce|puisque|porque|ya "
    r"que|perché"
    r"|poiché|pois)\b",
    re.IGNORECASE,
)
_REASONS = re.compile(  # how reasons begin, in the same sentence or in the next ones
    r"[-•*\s(]*(?:\d|because|since|as|given|based|due|considering|with|in (?:this|my|both)|this|the"
    r"|that|he|she"
    r"|it|they|his|her|its|their|a|an|there|reasons?|reasoning|explanation|confidence|probability|note"
    r"|weil|da|denn|aufgrund|wegen|mit|basierend|der|die|das|dieser?|dieses|er|sie|es|sein\w*|ihr\w*|eine?"
    r"|begründung|car|parce|puisque|étant|vu|compte|avec|le|les|la|cette|cet|ce|il|elle|son|sa|ses|une?"
    r"|raison"
    r"|porque|ya|dado|debido|con|el|los|las|esta|este|su|sus|una?|razón|perché|poiché|visto|dato|lo|gli"
    r"|questa|questo|suo|sua|motivo|pois|devido|com|o|os|as|esta|este|seu|um|uma|razão|ela|ele|lui|lei"
    r"|l['’])"
    r"(?!\w)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"\A(?:\W|Ġ)+|\W+\Z")  # characters around the letters of a token
_BUILT_IN = {
    word for pair in (("yes", "no"), *LANGUAGES) for word in pair
}  # short words of one token each
_SHORT = re.compile(r"\W*(?:(y|yep|yeah|yup)|n|nope|nah)\W*", re.IGNORECASE)
_ANSWER_KEY = re.compile(rf"(?:final_?|predicted_?|my_?)?{_NOUN}", re.IGNORECASE)
_DENIAL_KEY = re.compile(
    "wrong|not|incorrect|opposite|invers|deni|false|negat|option|question|example|instruction|choices",
    re.IGNORECASE,
)
_BEFORE_JSON = re.compile(
    r"(?:(?:sure|okay|here(?:['’]s| "
    r"is)|json|output|result|response|answer)[^.?!\n]{0,40})?[:.!]?\s*",
    re.I,
)


@dataclass(frozen=True)
class Answer:
    """A parsed reply: `value` is "yes", "no", or None with a `reason`."""

    value: Value | None
    reason: Reason = ""

    def __bool__(self) -> NoReturn:
        raise InputTypeError('an answer is neither true nor false: compare answer.value with "yes"')


class Completion(Protocol):
    """A response object of a service's SDK, such as OpenAI's `ChatCompletion`."""

    def model_dump(self) -> dict[str, Any]:
        """The body of the response."""


@dataclass(frozen=True)
class _Sentence:
    """A sentence that may answer: its value if it does, and how."""

    text: str
    value: Value | None = None
    labelled: bool = False
    closed: bool = False  # nothing follows the answer
    reasons: str = ""  # what follows it
    own_line: bool = False
    follows: bool = True  # the text before it is at the end of a sentence or a paragraph


def parse_answer(
    reply: "Reply | str | Completion | Mapping[str, Any]", words: "Words | Task" = YES_NO
) -> Answer:
    """Parse the answer in a reply: the object of OpenAI's SDK, its JSON, a `Reply`, or a text.

    `words` is the task that was asked about, or maps "yes" and "no" to a word or several (any
    case): `{"yes": "bewilligt", "no": "abgelehnt"}`. Reasons for a `value` of None: error (no reply
    at all), unfinished (the service broke off), refused (a tool call counts as a refusal), filtered
    (by the provider), empty, truncated (cut off before an answer, or only reasoning), ambiguous
    (contradictory or doubtful answers), other. Of a long reply, 2,000 characters at its beginning
    and at its end are read.
    """
    if not (isinstance(words, Mapping) and {"yes", "no"} <= words.keys()):
        words = _words_of(words)
    if isinstance(reply, str):
        reply = Reply(reply)
    elif not isinstance(reply, Reply):
        reply = _reply_of(reply)
    if reply.refusal:
        return Answer(None, "refused")
    if reply.ending in ("filtered", "unfinished"):
        return Answer(None, reply.ending)
    if reply.text is None:
        return Answer(None, "error")
    if (
        reply.p_yes is not None and not reply.logprobs and reply.text in ("yes", "no")
    ):  # a decision model's
        return Answer("yes" if reply.text == "yes" else "no")
    read = _read if len(reply.text) <= _KEPT else _read.__wrapped__
    return read(
        reply.text,
        said(words["yes"]),
        said(words["no"]),
        reply.ending == "truncated",
        reply.reasoned,
    )


def _words_of(task: Any) -> Words:
    """The words for yes and no of a task; `FwcError` for anything else."""
    spellings = getattr(task, "spellings", None)
    if not isinstance(spellings, Mapping):
        raise FwcError(f"the words are {kind_of(task)}: give a Task, or {{'yes': …, 'no': …}}")
    return spellings


def _reply_of(completion: Any) -> Reply:
    """The reply in an object of an SDK, or in its JSON; `FwcError` for anything else."""
    from fwc_llm.models.bodies import read_reply
    from fwc_llm.models.openai.retry import AttemptError

    body = completion.model_dump() if hasattr(completion, "model_dump") else completion
    if not isinstance(body, Mapping):
        raise FwcError(
            f"the reply is {kind_of(completion)}: give a text, a Reply, or the completion that the "
            f"service's SDK returned"
        )
    try:
        return read_reply(body)
    except AttemptError as failure:
        return Reply(None, error=str(failure))


@lru_cache(maxsize=10_000)  # many replies have the same text
def _read(text: str, yes: tuple[str, ...], no: tuple[str, ...], cut: bool, thought: bool) -> Answer:
    text, reasoned = without_reasoning(text)
    if len(text) > 2 * _SEEN:
        text = f"{text[:_SEEN]}\n\n…\n\n{text[-_SEEN:]}"
    if _TOOL.search(text):
        return Answer(None, "refused")
    pattern = _pattern(yes, no)
    plain = _plain(text, yes, no, pattern)
    if not plain.strip():
        unseen = _TAG.sub("", _UNSEEN.sub("", text)).strip()
        blank: Reason = "truncated" if cut or reasoned or thought else "empty"
        return Answer(None, "other" if unseen else blank)
    sentences = list(_sentences(plain, pattern))
    value = _answer(sentences, plain, pattern, cut)
    if value is not None:
        return Answer(value)
    if "yes" in yes and (short := _SHORT.fullmatch(plain)):
        return Answer("yes" if short[1] else "no")
    if _FILTERED.search(plain):
        return Answer(None, "filtered")
    if _UNABLE.search(plain):
        return Answer(None, "refused")
    if cut:
        return Answer(None, "truncated")
    answers = "¤" in plain or any(sentence.value for sentence in sentences)
    return Answer(None, "ambiguous" if answers else "other")


def _answer(
    sentences: list[_Sentence], text: str, pattern: re.Pattern[str], cut: bool
) -> Value | None:
    """The answer that the structure of a plain text gives, or None."""
    values = {sentence.value for sentence in sentences if sentence.value}
    numbered = sum(bool(each.value and _NUMBERED.match(each.text)) for each in sentences)
    if len(values) != 1 or numbered > 1:  # contradictory, or about several rows
        return None
    value = values.pop()
    bare = "?" not in text and not re.search(r"\w", pattern.sub("", text))
    if bare and {_value(found) for found in pattern.finditer(text)} == {
        value
    }:  # many times the same word
        return value
    first = sentences[0]
    last = sentences[-1]
    cut_off = (
        cut and first is last and first.labelled and first.closed
    )  # "the answer is no" longer clear
    if first.value and not cut_off:
        rest = [
            first.reasons,
            *(sentence.text for sentence in sentences[1:] if not sentence.closed),
        ]
        if _gives_reasons(rest, value, pattern):
            return value
    if cut or not last.value or not last.closed or not last.follows:
        return None
    before = text[: text.rfind(last.text)]
    if last.labelled:
        return value
    asks = "?" in before.replace("¤?", "")
    others = any(
        _value(other) != value and _is_alone(other, before) for other in pattern.finditer(before)
    )
    if last.own_line and not asks and not others:
        return value
    return None


def _gives_reasons(rest: list[str], value: Value, pattern: re.Pattern[str]) -> bool:
    """Whether what follows a leading answer only gives reasons for it."""
    for text in filter(str.strip, rest):
        if _CHATTER.match(text) and not pattern.search(text):
            continue
        if not _REASONS.match(text) or _DOUBT.search(text) or _UNSURE.search(text):
            return False
        negated = bool(_NEGATED.search(text))
        if (value == "yes" and negated) or (_CONTRARY[value].search(text) and not negated):
            return False
        for other in pattern.finditer(text):
            if _value(other) != value and _is_alone(other, text):
                return False
    return True


def _is_alone(found: re.Match[str], text: str) -> bool:
    """Whether a word stands at the end of a clause, as an answer does ("no", not "no children")."""
    return bool(
        re.match(r"[\"”»'’)\]]*\s*(?:\Z|[\n.,;:!?…–—(-])", text[found.end() : found.end() + 10])
    )


def _sentences(text: str, pattern: re.Pattern[str]) -> Iterator[_Sentence]:
    """Yield the sentences of a plain text; a line that ends with a colon goes on in the next
    line.
    """
    joined = re.sub(r"[^\w\s]?¤[^\w\n]*", "¤ ", text)
    joined = re.sub(r":[ \n]*\n\s*", ": ", _HEADING.sub(r"\1: ", joined))
    ended = True  # whether the text so far is at the end of a sentence or a paragraph
    for line in joined.split("\n"):
        parts = [part for part in _SENTENCE_END.split(line.strip()) if part.strip()]
        listed = bool(re.match(r"\s*(?:[-•*]|\d{1,3}[.)]) |\W*[\w ]{1,40}:", line))
        for part in parts:
            yield _sentence(part, pattern, own_line=len(parts) == 1, follows=ended)
            ended = bool(re.search(r"[.!?…][\"”»'’)\]]*\Z", part.strip())) or listed


def _sentence(text: str, pattern: re.Pattern[str], own_line: bool, follows: bool) -> _Sentence:
    """Read one sentence: a prefix that only labels, an answer, and what follows it."""
    text = text.strip()
    for found in pattern.finditer(text):
        prefix = _PREFIX.fullmatch(text, 0, found.start())
        if prefix is None:
            break
        value = _value(found)
        rest = text[found.end() :]
        labelled = bool(prefix["label"] or prefix["subject"] or prefix["concludes"])
        if prefix["grounds"] and not labelled:
            break
        if _CLOSED.match(rest):
            return _Sentence(text, value, labelled, True, "", own_line, follows)
        set_off = _SET_OFF.match(rest)
        if set_off and (set_off[0].strip() or _BECAUSE.match(rest)):
            return _Sentence(text, value, labelled, False, rest[set_off.end() :], own_line, follows)
        return _Sentence(
            text, value if _is_alone(found, text) else None, labelled, False, f"? {rest}"
        )
    return _Sentence(text)


def without_reasoning(text: str) -> tuple[str, bool]:
    """The text without reasoning ("" if that never ends), and whether it had any."""
    if "<|channel|>" in text:
        final = deque(_FINAL.finditer(text), maxlen=1)
        if final:
            text = text[final[0].end() :]
        else:
            text = ""
        reasoned = True
    elif reasoned := bool(_LOST_MARKS.match(text)):
        if "assistantfinal" in text:
            text = text.rpartition("assistantfinal")[2]
        else:
            text = ""
    kept = list[str]()
    end = 0
    inside = False
    for mark in _MARKS.finditer(text):
        if mark["close"] and not inside:
            continue
        if mark["close"] or mark["end"] or mark["slash"]:
            kept = kept if inside else []  # without an opening mark, reasoning began with the text
            end = mark.end()
            inside = False
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
            bare = "".join(
                c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c)
            )
            spelled += [(spelling.strip(), value) for spelling in {word, bare}]
    parts = []
    for word, value in sorted(spelled, key=lambda pair: -len(pair[0])):
        pieces = re.findall(r"\w+|[^\w\s]", word)
        if len(pieces) > 1:
            pattern = r"\s?".join(map(re.escape, pieces))
        else:
            pattern = re.escape(word)
        parts.append(pattern if " " not in word else r"\s".join(map(re.escape, word.split())))
        if word[:1].isdigit():
            before = r"(?<![-$€.])"
        else:
            before = ""
        before += r"(?<!\w)(?<!\w[-'’_&])" if word[:1].isalnum() else "(?<![<>=])"
        parts[-1] = f"(?P<{value}{len(parts)}>{before}{parts[-1]})"
    return re.compile(rf"(?:{'|'.join(parts)})(?!\w)(?![-'’&]\w)", re.IGNORECASE)


def _value(found: re.Match[str]) -> Value:
    if str(found.lastgroup).startswith("yes"):
        return "yes"
    return "no"


def _plain(text: str, yes: tuple[str, ...], no: tuple[str, ...], pattern: re.Pattern[str]) -> str:
    """The text without code, markup and struck-out parts; "yes or no" becomes ¤."""
    text = _CODE.sub(lambda block: block[2] if block[1].lower() in _PROSE else "\n", text)
    text = _STRUCK.sub("\n", _TOLD.sub("number ", _normal(_with_json_read(text, yes, no))))
    text = re.sub(" +", " ", _MARKUP.sub("", _TAG.sub("\n", _INLINE.sub("", text))))
    pieces = list[str]()
    end = 0
    for first, second in pairwise(pattern.finditer(text)):
        choice = _value(first) != _value(second) and _OR.fullmatch(
            text, first.end(), second.start()
        )
        if choice and first.start() >= end:
            pieces += [text[end : first.start()], "¤"]
            end = second.end()
    return "".join([*pieces, text[end:]])


def _with_json_read(text: str, yes: tuple[str, ...], no: tuple[str, ...]) -> str:
    """The text with a JSON object as the sentence that it answers; the object alone if it does
    not.
    """
    start = text.find("{")
    stop = text.rfind("}") + 1
    if start < 0 or stop <= start or not _BEFORE_JSON.fullmatch(text[:start].strip("[ \n")):
        return text
    content = text[start:stop]
    if "'" in content and '"' not in content:  # a dict as Python prints it
        content = content.replace("'", '"')
    try:
        value = json.JSONDecoder(object_pairs_hook=tuple).decode(content)
    except (ValueError, RecursionError):
        return text
    answers = _json_answers(value, yes, no)
    word = {"yes": yes[0], "no": no[0]}
    lines = [f"Answer: {word[answer]}." for answer in sorted(answers)]
    return "\n".join([*lines, text[stop:].strip("] \n")])


def _json_answers(pairs: Any, yes: tuple[str, ...], no: tuple[str, ...]) -> set[Value]:
    """The answers in a JSON object: under keys such as "answer", or its only key."""
    pairs = [pair for pair in pairs if not _ASIDE_KEY.search(pair[0])]
    if any(_DENIAL_KEY.search(key) for key, _ in pairs):
        return set()
    under_answer = [value for key, value in pairs if _ANSWER_KEY.fullmatch(key)]
    values = under_answer or ([pairs[0][1]] if len(pairs) == 1 else [])
    answers = set[Value]()
    for value in values:
        parsed = None
        if isinstance(value, tuple):
            nested = _json_answers(value, yes, no)
            if len(nested) == 1:
                parsed = nested.pop()
            else:
                parsed = None
        elif isinstance(value, str):
            parsed = parse_answer(value, {"yes": yes, "no": no}).value
        elif isinstance(value, bool | int) and value in (0, 1) and under_answer and "yes" in yes:
            parsed = "yes" if value else "no"
        if parsed is None:
            return set()
        answers.add(parsed)
    return answers


@dataclass(frozen=True)
class ReplyReading:
    """What a reply says: its answer, P(yes), and whether the two contradict each other."""

    answer: Answer
    p_yes: float | None
    contradicts: bool = False


def read_answer(reply: Reply, words: Words = YES_NO, greedy: bool = False) -> ReplyReading:
    """Read answer and P(yes) of a reply.

    Of a `greedy` model (temperature 0) the answer is the likelier word. Where P(yes) says
    otherwise, the tokens are not those of the answer, and P(yes) is unknown.
    """
    answer = parse_answer(reply, words)
    p = probability(reply, words)
    if not greedy or answer.value is None or p is None or p == 0.5:
        return ReplyReading(answer, p)
    contradicts = (p > 0.5) != (answer.value == "yes")
    return ReplyReading(answer, None if contradicts else p, contradicts)


def probability(reply: Reply, words: Words = YES_NO) -> float | None:
    """P(yes) of a reply, in [0, 1], from `logprobs` if it has any, else `p_yes`; or None."""
    if reply.logprobs:
        return p_yes(reply.logprobs, words)
    p = reply.p_yes
    return (
        abs(p) if p is not None and 0.0 <= p <= 1.0 else None
    )  # not -0.0: its minus looks like a formula


def p_yes(logprobs: Iterable[tuple[str, float]] | None, words: Words = YES_NO) -> float | None:
    """P(yes), in [0, 1], from the log-probabilities of the first answer token.

    `logprobs` are (token, natural-log probability) pairs. P(yes) is the probability of all
    spellings of yes (" Yes", "yes.", "▁YES"), divided by that of all spellings of yes and no. If
    `words` are not built in, a token counts if it begins a word of only one of the two answers
    ("bew", "abge"). None if all spellings of yes and no together have less than `LEAST_MASS`: they
    are then too rare to tell the model's answer; or if beginnings of such words could change P(yes)
    by more than a tenth (docs/statistics.md, "P(yes)").
    """
    mass = {"yes": 0.0, "no": 0.0}
    unclear = {"yes": 0.0, "no": 0.0}
    spelled = [(value, _normal(word).casefold()) for value in mass for word in said(words[value])]
    for token, logprob in logprobs or ():
        piece = _TOKEN.sub("", token).casefold()
        if not piece or math.isnan(logprob):
            continue
        share = math.exp(min(logprob, 0.0))
        exact = {value for value, word in spelled if word == piece}
        begun = {value for value, word in spelled if word.startswith(piece)}
        of_task = {
            value for value, word in spelled if word not in _BUILT_IN and word.startswith(piece)
        }
        if len(exact or of_task) == 1:
            mass[(exact or of_task).pop()] += share
        elif not exact:  # "Y" may go on as a word for yes, or as another one
            for value in begun:
                unclear[value] += share
    total = mass["yes"] + mass["no"]
    if total < LEAST_MASS:
        return None
    least = mass["yes"] / (total + unclear["no"])
    most = (mass["yes"] + unclear["yes"]) / (total + unclear["yes"])
    if most - least <= _CLEAR:
        return mass["yes"] / total
    return None
