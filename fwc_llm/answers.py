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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fwc_llm.errors import Ambiguous, FwcError
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
_SEEN = 2_000  # characters at each end of a longer reply, after its reasoning


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
_FINAL = re.compile(
    r"<\|channel\|>\s*final\b[^<]{0,40}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>|assistantfinal"
)
_LOST_MARKS = re.compile(
    r"\s*(?:assistant)?(?:analysis|commentary)(?=[A-Z\s])"
)  # channels without marks
_TOOL = re.compile(
    r"[<\[]\|?(?:tool|function|python_tag|invoke)[\w ]{0,30}[=|>\]\s]|\bto=functions\."
    r"|\A\s*\{\s*\"(?:name|tool|function)\"\s*:[^{}]{1,200}\"(?:arguments|parameters)\"",
    re.IGNORECASE,
)

# Code, markup, and text that is struck out, in an unchecked box, in a table or in "No. 1".
_CODE = re.compile(
    r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL
)
_PROSE = {"", "text", "txt", "plaintext", "json", "markdown", "md", "yaml", "xml", "html", "output"}
_UNSEEN = re.compile(  # codes of terminals, control and invisible characters
    r"\x1b\[[\d;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff]"
)
_STRUCK = re.compile(
    r"~~[^~\n]{1,200}~~|<(del|s|strike)>\S[^<\n]{0,200}</\1>|^\W{0,8}(?:\[ \]|☐).*$|^[ \t]*\|.*$"
    r"|\bno\. ?(?=\d|of\b)",
    re.IGNORECASE | re.MULTILINE,
)
_TAG = re.compile(
    r"</?[A-Za-z|｜][^<>\n]{0,80}>|\[/?(?:ANSWER|INST|FINAL)[A-Z_]{0,20}\]", re.IGNORECASE
)
_MARKUP = re.compile(
    r"\\(?:boxed|text\w{0,4}|mathrm|mathbf)\b|\\[\[\]()]|[${}*`#]|''|(?<!\w)_+|_+(?!\w)|[☑✅✔]|\[x\]"
    r"|</?(?:b|i|em|strong|u|mark|span|code|font)\b[^<>]{0,80}>",
    re.IGNORECASE,
)
_OR = r"[\s()]{0,3}(?:/|[|]|or|and|oder|und|ou|et|o|y|e|vs)[\s()]{0,3}"

# What a reply that is no answer says: why, and what makes a leading answer doubtful.
_UNABLE = re.compile(
    r"(?P<filtered>\bcontent management policy|\b(?:response|prompt) was (?:filtered|blocked))"
    r"|\b(?:I|we)(?:['’]m| am| are)?(?: \w{1,12}){0,2}? "
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
_NEGATED = re.compile(  # in the rest of a yes: its reasons do not negate
    r"\b(?:not?|never|none|nobody|neither|nor|without|nicht|kein\w*|nie|niemals|ohne|pas|jamais"
    r"|aucun\w*|sans"
    r"|nunca|jamás|ningun\w*|tampoco|sin|non|mai|nessun\w*|senza|não|nem|nenhum\w*|sem)\b|n['’]t\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(  # in the rest of any answer: it hedges, retracts, asks, or lets others speak
    r"[?¿\"“”„«»…]|\.\.\.|, s[ei]\b"
    r"|(?:confiden|probab|certain|likelihood)\w*[^.\n]{0,25}?\b[0-4]?\d ?%|\b(?:"
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
    "yes": re.compile(
        r"\b(?:earn|mak|verdien|gagn|gan|guadagn)\w* (?:\w+ )?(?:less|weniger|moins|menos|meno)\b"
        r"|\b(?:less|weniger|moins|menos|meno|below|under|unter|at most|inferior|inférieur|inferiore)\b"
        r"(?: \w+){0,2} ?[$€£]?\d",
        re.IGNORECASE,
    ),
    "no": re.compile(
        r"\b(?:earn|mak|verdien|gagn|gan|guadagn)\w* (?:\w+ )?(?:more|mehr|plus|más|mais|più)\b"
        r"|\b(?:more|mehr|plus|más|mais|più|above|over|über|at least|exceed\w*|superior|supérieur)\b"
        r"(?: \w+){0,2} ?[$€£]?\d",
        re.IGNORECASE,
    ),
}

# The structure of a sentence that answers.
_NOUN = (
    r"(?:answer|prediction|response|output|result|classification|label|decision|verdict"
    r"|conclusion|assessment|recommendation|judge?ment|guess|estimate|class|outcome"
    r"|determination|choice|antwort|ergebnis|entscheidung|vorhersage|urteil|réponse|décision"
    r"|résultat|prédiction|respuesta|decisión|resultado|conclusión|predicción|risposta"
    r"|decisione|risultato|previsione|resposta|decisão|previsão)"
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
    rf"^[^\w\n]{{0,20}}((?:(?:my|the|final) )?(?:{_NOUN}|assistant))[^\w\n]{{0,20}}\n\W{{0,20}}",
    re.IGNORECASE | re.MULTILINE,
)
_SUBJECT = (  # of an answer in a task's own words: "the application is rejected"
    r"(?:(?:the|this|der|die|das|dieser|diese|dieses|la|le|cette|ce|el|esta|este|il|questa|o|a) )?"
    r"(?:application|request|claim|loan|credit|antrag|kredit|darlehen|bewerbung|demande|prêt"
    r"|solicitud|domanda|richiesta|pedido)"
    r" (?:is|should be|would be|will be|wird|ist|est|sera|es|será|è|sarà|é) "
)
_PREFIX = re.compile(
    r"(?:(?:[-•>→*+]|\d{1,3}[.):]|[A-Za-z][.)]) )?"
    rf"(?:[^\w\s≠!¬~=<>❌✗✘🚫👎]+ ?)?(?P<grounds>{_GROUNDS})(?P<concludes>{_CONCLUDES})?"
    rf"(?:(?P<label>(?:{_LABEL})+)|(?P<subject>{_SUBJECT}))?(?:(?:{_SOFT})[,:]? )?[\"“„«'‘(\[]?",
    re.IGNORECASE,
)
_CLOSED = re.compile(  # nothing follows in the sentence but punctuation
    rf"(?:, (?:{_SOFT}))?(?!\s*\.\.)[^\w?…❌✗✘🚫👎🙃😉🤔]*\Z", re.IGNORECASE
)
# After a word that ends a clause, as an answer does ("no", not "no children").
_ALONE = re.compile(r"[\"”»'’)\]]{0,9}\s{0,9}(?:\Z|[\n.,;:!?…–—(-])")
_CHATTER = re.compile(  # to the user, not about the row
    r"\W*(?:please )?(?:let me know|feel free|is there anything|would you like|do you "
    r"(?:want|need)|i hope"
    r"|happy to|glad to|thank|you['’]re welcome)\b",
    re.IGNORECASE,
)
_SET_OFF = re.compile(  # before the reasons in the same sentence
    r"[\"”“»'’]?(?:,| ?[;:–—]| -| ?\(| (?=(?:because|since|as|given|based|due|considering|weil|da|denn"
    r"|car|parce|puisque|porque|ya que|perché|poiché|pois)\b)) ?",
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
_BUILT_IN = {"yes", "no"}.union(*LANGUAGES)  # short words of one token each
_SHORT = re.compile(r"\W*(?:(y|yep|yeah|yup)|n|nope|nah)\W*", re.IGNORECASE)
_ANSWER_KEY = re.compile(rf"(?:final_?|predicted_?|my_?)?{_NOUN}", re.IGNORECASE)
_DENIAL_KEY = re.compile(
    "wrong|not|incorrect|opposite|invers|deni|false|negat|option|question|example|instruction|choices",
    re.IGNORECASE,
)
_TRUTH = {"True": "yes", "1": "yes", "False": "no", "0": "no"}
_JSON = re.compile(  # an object, after at most a few words
    r"(?:(?:sure|okay|here(?:['’]s| is)|json|output|result|response|answer)[^.?!\n{]{0,40})?[:.!]?"
    r"[\[\s]*(\{.*\})([^}]*)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Answer(Ambiguous):
    """A parsed reply: `value` is "yes", "no", or None with a `reason`."""

    instead = 'compare answer.value with "yes"'

    value: Value | None
    reason: Reason = ""


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

    The object is a response, one of its choices, or a message, which does not say how it ended.
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
    text, reasoned = without_reasoning(reply.text)
    if len(text) > 2 * _SEEN:
        text = f"{text[:_SEEN]}\n\n…\n\n{text[-_SEEN:]}"
    cut = reply.ending == "truncated"
    if not text.strip():
        return Answer(None, "truncated" if cut or reasoned or reply.reasoned else "empty")
    return _read(text, said(words["yes"]), said(words["no"]), cut)


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
    if "role" in body:  # a message alone
        body = {"message": body}
    if isinstance(body.get("message"), Mapping):  # a choice alone
        body = {"choices": [body]}
    try:
        return read_reply(body)
    except AttemptError as failure:
        return Reply(None, error=str(failure))


@lru_cache(maxsize=10_000)  # many replies have the same text
def _read(text: str, yes: tuple[str, ...], no: tuple[str, ...], cut: bool) -> Answer:
    if _TOOL.search(text):
        return Answer(None, "refused")
    pattern = _pattern(yes, no)
    plain = _plain(text, yes, no)
    sentences = list(_sentences(plain, pattern))
    value = _answer(sentences, plain, pattern, cut)
    if value:
        return Answer(value)
    short = _SHORT.fullmatch(plain)
    if short and "yes" in yes:
        return Answer("yes" if short[1] else "no")
    unable = _UNABLE.search(plain)
    if unable:
        return Answer(None, "filtered" if unable["filtered"] else "refused")
    if cut:
        return Answer(None, "truncated")
    answers = "¤" in plain or any(sentence.value for sentence in sentences)
    return Answer(None, "ambiguous" if answers else "other")


def _answer(
    sentences: list[_Sentence], text: str, pattern: re.Pattern[str], cut: bool
) -> Value | None:
    """The answer that the structure of a plain text gives, or None."""
    values = {sentence.value for sentence in sentences if sentence.value}
    numbered = sum(
        bool(sentence.value and _NUMBERED.match(sentence.text)) for sentence in sentences
    )
    if len(values) != 1 or numbered > 1:  # contradictory, or about several rows
        return None
    value = values.pop()
    bare = not re.search(r"[\w?]", pattern.sub("", text))
    if bare and len({_value(found) for found in pattern.finditer(text)}) == 1:
        return value  # many times the same word
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
    before = text[: text.rfind(last.text)]
    asks = "?" in before.replace("¤?", "")
    alone = last.own_line and not asks and not _answers_otherwise(before, value, pattern)
    ends = last.value and last.closed and last.follows and not cut
    return value if ends and (last.labelled or alone) else None


def _gives_reasons(rest: list[str], value: Value, pattern: re.Pattern[str]) -> bool:
    """Whether what follows a leading answer only gives reasons for it."""
    for text in filter(str.strip, rest):
        if _CHATTER.match(text) and not pattern.search(text):
            continue
        if not _REASONS.match(text) or _DOUBT.search(text):
            return False
        if _NEGATED.search(text):
            denies = value == "yes"
        else:
            denies = bool(_CONTRARY[value].search(text))
        if denies or _answers_otherwise(text, value, pattern):
            return False
    return True


def _answers_otherwise(text: str, value: Value, pattern: re.Pattern[str]) -> bool:
    """Whether the other answer stands somewhere in the text as answers do."""
    others = (found for found in pattern.finditer(text) if _value(found) != value)
    return any(_ALONE.match(text, other.end()) for other in others)


def _sentences(text: str, pattern: re.Pattern[str]) -> Iterator[_Sentence]:
    """Yield the sentences of a plain text; a line that ends with a colon goes on in the next
    line.
    """
    joined = re.sub(r"[^\w\s]?¤[^\w\n]*", "¤ ", text)
    joined = re.sub(r":[ \n]*\n\s*", ": ", _HEADING.sub(r"\1: ", joined))
    ended = True  # whether the text so far is at the end of a sentence or a paragraph
    for line in joined.split("\n"):
        parts = list(filter(None, map(str.strip, _SENTENCE_END.split(line))))
        listed = bool(re.match(r"\s*(?:[-•*]|\d{1,3}[.)]) |\W*[\w ]{1,40}:", line))
        for part in parts:
            yield _sentence(part, pattern, own_line=len(parts) == 1, follows=ended)
            ended = bool(re.search(r"[.!?…][\"”»'’)\]]*\Z", part)) or listed


def _sentence(text: str, pattern: re.Pattern[str], own_line: bool, follows: bool) -> _Sentence:
    """Read one sentence: a prefix that only labels, an answer, and what follows it."""
    found = pattern.search(text)
    prefix = _PREFIX.fullmatch(text, 0, found.start()) if found else None
    if found is None or prefix is None:
        return _Sentence(text)
    labelled = bool(prefix["label"] or prefix["subject"] or prefix["concludes"])
    grounds = prefix["grounds"]
    if grounds and (not labelled or _DOUBT.search(grounds)):
        return _Sentence(text)
    value: Value | None = _value(found)
    rest = text[found.end() :]
    closed = bool(_CLOSED.match(rest))
    set_off = _SET_OFF.match(rest)
    if closed:
        reasons = ""
    elif set_off:
        reasons = rest[set_off.end() :]
    else:
        reasons = f"? {rest}"
    if not (closed or set_off or _ALONE.match(rest)):
        value = None
    return _Sentence(text, value, labelled, closed, reasons, own_line, follows)


def without_reasoning(text: str) -> tuple[str, bool]:
    """The text without reasoning ("" if that never ends), and whether it had any."""
    reasoned = "<|channel|>" in text or bool(_LOST_MARKS.match(text))
    if reasoned:
        _, *final = _FINAL.split(text)
        text = final[-1] if final else ""
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
def _pattern(yes: tuple[str, ...], no: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for the words for yes and for no, in groups of these names, longest first."""
    values = dict.fromkeys(_spellings(no), "no") | dict.fromkeys(_spellings(yes), "yes")
    words = sorted(values, key=len, reverse=True)
    parts = [f"(?P<{values[word]}{number}>{word})" for number, word in enumerate(words)]
    return re.compile("|".join(parts), re.IGNORECASE)


@lru_cache(maxsize=64)
def _choice(yes: tuple[str, ...], no: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for a choice between yes and no, such as "no or yes"."""
    yeses = f"(?:{'|'.join(_spellings(yes))})"
    noes = f"(?:{'|'.join(_spellings(no))})"
    return re.compile(f"{yeses}{_OR}{noes}|{noes}{_OR}{yeses}", re.IGNORECASE)


def _spellings(words: Iterable[str]) -> list[str]:
    """A pattern for each word, and for the word without accents, where it stands alone."""
    patterns = []
    for word in words:
        accented = _normal(word).strip()
        letters = unicodedata.normalize("NFD", accented)
        bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
        for spelling in (accented, bare):
            before = r"(?<!\w)(?<!\w[-'’_&])" if spelling[:1].isalnum() else "(?<![<>=])"
            if spelling[:1].isdigit():
                before += r"(?<![-$€.])"
            pieces = re.findall(r"\w+|[^\w\s]", spelling)
            inside = r"\s?".join(map(re.escape, pieces))
            patterns.append(rf"{before}{inside}(?!\w)(?![-'’&]\w)")
    return patterns


def _value(found: re.Match[str]) -> Value:
    return "yes" if "yes" in str(found.lastgroup) else "no"


def _plain(text: str, yes: tuple[str, ...], no: tuple[str, ...]) -> str:
    """The text without code, markup and struck-out parts; "yes or no" becomes ¤."""
    text = _CODE.sub(lambda block: block[2] if block[1].lower() in _PROSE else "\n", text)
    text = _STRUCK.sub("\n", _normal(_with_json_read(text, yes, no)))
    text = re.sub("\n[ \n]+", "\n", re.sub(" +", " ", _TAG.sub("\n", _MARKUP.sub("", text))))
    return _choice(yes, no).sub("¤", text)


def _with_json_read(text: str, yes: tuple[str, ...], no: tuple[str, ...]) -> str:
    """The text with a JSON object as the sentences that it answers; nothing if it does not."""
    found = _JSON.fullmatch(text)
    if not found:
        return text
    content = found[1]
    if '"' not in content:  # a dict as Python prints it
        content = content.replace("'", '"')
    said = partial(_said_by_object, words={"yes": yes, "no": no})
    try:
        answers = json.JSONDecoder(object_pairs_hook=said).decode(content)
    except (ValueError, RecursionError):
        return text
    return f"{answers}\n{found[2].strip('] ')}"


def _said_by_object(pairs: list[tuple[str, Any]], words: Words) -> str:
    """The answers in a JSON object as sentences: under keys such as "answer", or its only key."""
    if any(_DENIAL_KEY.search(key) for key, _ in pairs):
        return ""
    values = [value for key, value in pairs if _ANSWER_KEY.fullmatch(key)]
    texts = [_TRUTH.get(repr(value), str(value)) for value in values]
    if not values and len(pairs) == 1:
        texts = [str(pairs[0][1])]
    answers = [parse_answer(text, words).value for text in texts]
    if None in answers:
        return ""
    return "\n".join(f"Answer: {said(words[answer])[0]}." for answer in answers if answer)


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
    contradicts = False
    if greedy and answer.value and p is not None:
        contradicts = p < 0.5 if answer.value == "yes" else p > 0.5
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
        begun = [(value, word) for value, word in spelled if word.startswith(piece)]
        sure = {value for value, word in begun if word == piece or word not in _BUILT_IN}
        if len(sure) == 1:
            mass[sure.pop()] += share
        else:  # "Y" may go on as a word for yes, or as another one
            for value in {value for value, _ in begun}:
                unclear[value] += share
    total = mass["yes"] + mass["no"]
    if total < LEAST_MASS:
        return None
    least = mass["yes"] / (total + unclear["no"])
    most = (mass["yes"] + unclear["yes"]) / (total + unclear["yes"])
    if most - least <= _CLEAR:
        return mass["yes"] / total
    return None
