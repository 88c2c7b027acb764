"""Parses replies as yes, no, refer or a reason for neither (docs/protocol.md, "Parsing").

Reasoning, code, markup and struck-out text are removed first. Then the structure decides: a reply
is read if it is a bare answer, JSON, or ends with a labelled answer or one on a line of its own; or
if it begins with an answer, and the rest says what the person is, has or does, with years, hours or
a limit, and nothing in it answers again, denies, hedges, quotes or asks. Text that no rule covers
stays unparsed, because a wrong answer is worse than no answer. The reason is recorded, because
refusals are not random.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fwc_llm.errors import Ambiguous, FwcError, InputTypeError, checked
from fwc_llm.models.base import Reply, likelier
from fwc_llm.sanitize import Fields, Json, kind_of
from fwc_llm.words import LANGUAGES, YES_NO, Words, said

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

Value = Literal["yes", "no", "refer"]
_VALUES: tuple[Value, ...] = "yes", "no", "refer"
Reason = Literal[
    "",
    "refused",
    "truncated",
    "filtered",
    "unfinished",
    "empty",
    "ambiguous",
    "other",
    "error",
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
    "(?:think|thought|reason|reflect|scratch|analys|rationale|monolog|deliberat"
    "|explanation|justif)"
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

_OTHERS_TURN = re.compile(
    r"(?:<\|im_start\|>\s*user|<\|start_header_id\|>\s*user|<start_of_turn>\s*user"
    r"|(?:^|\n)\W{0,5}(?:user|human|instruction):)(?![\s\S]*\b(?:assistant|response|answer"
    r"|model)\b)",
    re.IGNORECASE,
)

# Code, markup, and text that is struck out, in an unchecked box, in a table or in "No. 1".
_CODE = re.compile(
    r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL
)
_PROSE = {
    "",
    "text",
    "txt",
    "plaintext",
    "json",
    "markdown",
    "md",
    "yaml",
    "xml",
    "html",
    "output",
}
_UNSEEN = re.compile(  # codes of terminals, control and invisible characters
    r"\x1b\[[\d;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad]"
    r"|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff]"
)
_STRUCK = re.compile(
    r"~~[^~\n]{1,200}~~|<(del|s|strike)>\S[^<\n]{0,200}</\1>|^\W{0,8}(?:\[ \]|☐).*$|^[ \t]*\|.*$"
    r"|\bno\. ?(?=\d|of\b)",
    re.IGNORECASE | re.MULTILINE,
)
_FIELD = re.compile(  # a tag that names what it holds; not markup, and no token of a template
    r"<(?!/|(?:p|div|br|hr|html|body|h\d|ul|ol|li|t[drh]|table|span|strong|pre|center|eos|bos|unk"
    r"|pad)\b"
    r"|end|start)([a-z][a-z_]+)/?>",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"</?[A-Za-z|｜][^<>\n]{0,80}>|\[/?(?:ANSWER|INST|FINAL)[A-Z_]{0,20}\]",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    r"\\(?:boxed|text\w{0,4}|mathrm|mathbf)\b|\\[\[\]()]|[${}*`#]|''|(?<!\w)_+|_+(?!\w)|[☑✅✔]|\[x\]"
    r"|</?(?:b|i|em|strong|u|mark|span|code|font)\b[^<>]{0,80}>",
    re.IGNORECASE,
)
Spelled = tuple[tuple[str, tuple[str, ...]], ...]  # the words of each answer
_OR = r"[\s()]{0,3}(?:/|[|]|or|and|oder|und|ou|et|o|y|e|vs)[\s()]{0,3}"
_LISTED = rf"(?:{_OR}|,\s?(?:{_OR})?)"
_TO_WHOM = (  # a case is referred
    r"(?: (?:it|(?:this|the) (?:case|application|person|applicant|request)))?"
    r"(?:(?: to| for) (?:(?:an?|the|our|zur?) )?[\w-]+(?: [\w-]+){0,3}(?=[^\w -]|\Z))?"
)

# What a reply that is no answer says: why.
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
    r"|an? (?:ai|language model)|humans? (?:should|must|has to|have to|needs? to)"
    r"|tut mir leid|ich (?:kann|darf)|als (?:ki|sprachmodell)|(?:ein|von einem) mensch\w*"
    r"|je ne peux|désolé|en tant qu['’]ia|un humain"
    r"|lo siento|no puedo|como (?:una )?ia|mi dispiace|non posso|come ia|desculpe|não posso"
    r"|um humano)\b",
    re.IGNORECASE,
)

# What follows a leading answer is a reason if it says what the person is, has, does or earns,
# with a figure ("because she works 12 hours"), and has none of the words with which one hedges,
# denies, or speaks of something else. It is compared without accents.
_BECAUSE = (
    "because|since|due to|weil|da|denn|aufgrund|car|parce qu(?:e|['’])|puisqu(?:e|['’])|porque"
    "|ya que|dado que|debido a|perch[eé]|poich[eé]|dato che|pois|devido a|j[aá] que"
)
_PERSON = (
    r"(?:he|she|they|(?:the|this) (?:person|individual|applicant|customer|client|patient|borrower"
    r"|candidate|man|woman)|er|sie|(?:die|diese) person|der (?:antragsteller|kunde|bewerber)"
    r"|ils?|elles?|(?:la|cette) personne|el|ella|(?:la|esta) persona|lui|lei|questa persona"
    r"|el[ae]|(?:a|esta) pessoa)"
)
_HAS = (
    r"(?:is|was|has|had|have|does|works?|worked|earns?|makes?|ist|hat|arbeitet|verdient|est|a"
    r"|travaille|gagne|es|tiene|trabaja|gana|e|ha|lavora|guadagna|tem|trabalha|ganha)"
)
_ALONE_HAS = (
    "trabaja|gana|tiene|lavora|guadagna|trabalha|ganha|tem"  # without a pronoun
)
_ADVERB = (
    r"(?:likely|probably|most|only|just|already|does|not|nur|erst|schon|wahrscheinlich|ne|no|non"
    r"|nao"
    r"|solo|so|apenas|probable\w*|probabil\w*|provavel\w*)"
)
_FIGURE = (  # an age, hours of work, or a limit that an income exceeds or not
    r"[1-9]\d{0,2}[- ]?(?:years?\b|months?\b|hours?\b|h\b|jahren?\b|stunden\b|ans\b|heures\b"
    r"|an[on][si]\b|horas\b|ore\b)"
    r"|(?:more than|over|above|at least|less than|below|under|mehr als|uber|weniger als|unter"
    r"|plus d?e?"
    r"|moins de|mas de|menos de|piu di|meno di|mais de|mais que|mas que) ?[$€£]?\d"
    r"|[$€£]?\d+k? or less\b"
)
_REASON = re.compile(
    rf"[-•*\s(]*(?:(?:reasons?|reasoning|explanation|begrundung|raison|razon|motivo): )?"
    rf"(?:it is (?:very |un)?likely that )?"
    rf"(?:(?:(?:{_BECAUSE}) ?)?{_PERSON} |(?:{_BECAUSE}) |(?=(?:{_ADVERB} )?(?:{_ALONE_HAS}) ))"
    rf"(?:{_ADVERB} ){{0,3}}"
    rf"(?:(?:{_HAS}) (?!to |que |given )[^;:?!\n]{{0,100}}?(?<!\d)(?:{_FIGURE})"
    rf"|(?:{_FIGURE})|{_HAS}(?: not|n['’]t)\W*\Z)|\W*(?:{_BECAUSE})?\W*\Z",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    # other voices, questions, and something left out
    r"[?¿\"“”„«»…]|\.\.\.|\b(?:"
    # conditions and exceptions
    "if|unless|provided(?! (?:information|data|details|features))"
    "|providing|assuming|except|until|whether|otherwise|once|pending|subject"
    "|as long|so long|case|depend\\w*|condi\\w*|wenn|falls|sofern|solange|sei denn|voraus\\w*"
    "|beding\\w*"
    "|ausser|ob|bis|abhang\\w*|si|sauf|pourvu|moins qu\\w*|reserve|tant qu\\w*|cas|salvo|excepto"
    "|menos que"
    "|siempre que|tal (?:de|que)|caso|mientras|se|patto|purche|meno che|sempre che|qualora|finche"
    "|tranne"
    "|dipend\\w*|exceto|contanto|desde que|nao ser|enquanto"
    # the other side
    "|but|however|although|though|yet|despite|instead|rather|actually|when|while|then|first"
    "|allegedly|paper|season|away|good|aber|jedoch|doch|allerdings"
    "|obwohl|trotz\\w*|sondern|eigentlich|(?<=, )(?:mais|mas)|cependant|toutefois|pourtant|malgre"
    "|plutot|pero"
    "|embargo|aunque|sino|ma|tuttavia|sebbene|nonostante|anzi|porem|contudo|embora|apesar"
    # what may be, would be, or ought to be
    "|may|might|could|would|should|must|maybe|perhaps|possib\\w*|impossib\\w*"
    "|konnte\\w*|wurde\\w*|sollte?\\w*|muss\\w*|durf\\w*|darf|vielleicht|moglich\\w*|peut\\w*"
    "|pourr\\w*"
    "|devr\\w*|doit|serait|seria|sarebbe|puede\\w*|podria\\w*|deb\\w*|quizas?|tal vez|apenas|puo"
    "|potrebbe"
    "|dev[eo]\\w*|dovrebbe|forse|pode\\w*|talvez"
    # truth
    "|wrong\\w*|false|true|truth|correct\\w*|incorrect\\w*|mistake\\w*|jok\\w*|kidding|opposite"
    "|reverse"
    "|contrary|doubt\\w*|uncertain\\w*|unclear|unsure|unknown|say|says|said|think\\w*|believe\\w*"
    "|falsch"
    "|wahr|gegenteil|umgekehrt|zweifel\\w*|faux|vrai|contraire|doute|fals[oa]|verdad|contrari[oa]"
    "|duda\\w*"
    "|vero|dubbi\\w*|verdade|duvid\\w*"
    r")\b",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"\b(?:(?-i:I)|me|my|we|our|you|your|ich|mir|mein\w*|wir|unser\w*|du|je|moi|nous|vous|yo"
    r"|nosotros|usted|tu|io|noi|voi|eu|meu|minha|voces?)\b",
    re.IGNORECASE,
)
_TASK = re.compile(  # asks, or speaks of the task, not of the row
    r"\?|\b(?:ai|ki|ia|model\w*|modell\w*|machine|algorithm\w*|humans?|people|mensch\w*|humain\w*"
    r"|humano?s?|uman[oi]"
    r"|rights?|droits|derechos|rechte|diritti|direitos|personas|persone|pessoas|gens|question"
    r"|frage|pregunta|domanda|pergunta|answer\w*|antwort\w*"
    r"|repons\w*|respuesta|risposta|resposta|decisions?|decid\w*|entscheid\w*|judg\w*|urteil\w*"
    r"|data|daten"
    r"|information\w*|records?|evidence|laws?|act|article|gesetz\w*|loi|ley|legge"
    r")\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not?|never|none|nobody|neither|nor|without|unlikely|hardly|barely|improba\w*|improva\w*"
    r"|unwahrscheinlich|kaum|nicht|kein\w*|nie|niemals|ohne|pas|jamais"
    r"|aucun\w*|sans|nunca|jamas|ningun\w*|tampoco|sin|non|mai|nessun\w*|senza|nao|nem|nenhum\w*"
    r"|sem)\b|n['’]t\b",
    re.IGNORECASE,
)
_AGAINST = {  # what the row is then said to be, or the only case in which a yes holds
    "yes": re.compile(
        r"\b(?:less|fewer|below|under|at most|only|just|solely"
        r"|weniger|unter|hochstens|nur|moins|inferieure?|seulement|menos|inferior|solo|solamente"
        r"|meno|inferiore|soltanto|apenas|au plus|au maximum"
        r"|somente)\b",
        re.IGNORECASE,
    ),
    "no": re.compile(
        r"\b(?:more|above|over|at least|exceed\w*|mehr|uber|mindestens|plus|superieure?|mas"
        r"|superior"
        r"|mais|piu|superiore|oltre)\b",
        re.IGNORECASE,
    ),
}
_CONDITION = re.compile(  # under which another answer might hold
    r"[?¿]|\b(?:if|unless|until|otherwise|but|however|although|though|instead|rather|wenn|falls"
    r"|sonst|aber|statt\w*|si|sauf|mais|cependant|pero|sino|salvo|se|ma|invece|mas)\b",
    re.IGNORECASE,
)
_SCORE = re.compile(  # of the answer, one half or more
    r"\W*(?:(?:with )?(?:an? )?(?:confiden\w+|certainty|konfidenz|sicherheit|confian\w+|certeza"
    r"|confidenza)(?: score| level)?(?: of| is)?:? ?)?"
    r"(?:1\.0+|0?\.[5-9]\d*|(?:100|[5-9]\d)(?:\.\d+)? ?%)(?: (?:sure|certain|confident))?\W*",
    re.IGNORECASE,
)

# A stated probability: 0.73, 73 %, 73/100. No number has a sign.
_NUMBER = (
    r"(?P<number>(?:\d+(?:[.,]\d+)?|[.,]\d+)(?:e-\d{1,2})?)"
    r"(?: ?(?P<percent>%|(?:percent|per cent|prozent|pour cent|por ciento|per cento|por cento)\b)"
    r"| ?(?:[/⁄]|out of) ?(?P<whole>[1-9]\d{0,8}))?"
)
_ANOTHER = re.compile(
    r"(?<![\d.,])[01]?[.,]\d|\d ?(?:%|[/⁄] ?\d)"
)  # may be a probability
_PROBABILITY = (
    r"(?:probability|likelihood|chance|p|wahrscheinlichkeit|probabilité|probabilidad"
    r"|probabilità|probabilidade)"
)
_PARTS = re.compile(
    r"\n+|(?<=[.!?]) +(?=[A-ZÀ-Þ])|, *(?=[\"'])"
)  # lines, sentences, fields of JSON
_HEADED = re.compile(
    r"(?<=[^\W\d]):?\s*\n\s*(?=\S?[.,]?\d)"
)  # a heading, then a number

# The structure of a sentence that answers.
_NOUN = (
    r"(?:answer|prediction|response|output|result|outcome|class(?:ification)?|label|decision"
    r"|verdict|conclusion|recommendation|judge?ment|guess|estimate|antwort|ergebnis|entscheidung"
    r"|vorhersage|urteil|réponse|décision|résultat|prédiction|respuesta|decisión|resultado"
    r"|predicción|risposta|decisione|risultato|previsione|resposta|decisão|previsão)"
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
    r"|model['’]s|die|das|meine?|endgültige|la|le|ma|notre"
    r"|finale|el|mi|il|mia|definitiva|a|o|minha|meu)[ _]){0,4}"
    rf"{_NOUN}(?: \((?:¤|y/n|final|binary)\))?"
    r"(?: (?:here )?(?:is|was|remains|would be|will "
    r"be|lautet|ist|wäre|est|serait|es|sería|è|sarebbe|é"
    r"|seria)\b)?"
    r" ?(?:[:=→–—-]|->|=>){0,2}"
    r"|I(?:['’]d| would| will)? (?:say|answer|predict|choose|vote|conclude|go with"
    r"|lean(?: towards?)?)(?: with)?:?"
    r"|(?:assistant|final):"
    r"|je dirais(?: que)?|direi(?: di)?|diría que|(?:eu )?diria que"
    r"|ich (?:sage|würde sagen|tippe auf):?|¤ ?[:?.=→-]*) "
)
_GROUNDS = (  # before an answer, in the same sentence
    rf"(?:(?P<because>(?:(?:{_BECAUSE})\b[^.?!:;\"“\n]{{1,200}}\d|(?:based on|judging by|per|given)"
    r" (?:the|this|these)\b)[^.?!:;\"“\n]{1,200}[,:] )"
    r"|(?!if\b|unless\b|wenn\b|si\b|se\b)[^?\"“\n]{1,300}, "
    r"(?=(?:so|thus|therefore|hence|daher|donc) ))?"
)
_HEADING = re.compile(
    rf"^[^\w\n]{{0,20}}((?:(?:my|the|final) )?(?:{_NOUN}|assistant))[^\w\n]{{0,20}}\n\W{{0,20}}",
    re.IGNORECASE | re.MULTILINE,
)
_CROSS = re.compile("[❌✗✘🚫👎]")
_SUBJECT = (  # of an answer in a task's own words: "the application is rejected"
    r"(?:(?:the|this|der|die|das|dieser|diese|dieses|la|le|cette|ce|el|esta|este|il|questa|o|a) )?"
    r"(?:application|request|claim|loan|credit|antrag|kredit|darlehen|bewerbung|demande|prêt"
    r"|solicitud|domanda|richiesta|pedido)"
    r" (?:is|should be|would be|will be|wird|sollte|ist|est|sera|es|será|è|sarà|é) "
)
_PREFIX = re.compile(
    r"(?:(?:[-•>→*+]|\d{1,3}[.):]|[A-Za-z][.)]) )?"
    rf"(?:[^\w\s≠!¬~=<>]+ ?)?(?P<grounds>{_GROUNDS})(?P<concludes>{_CONCLUDES})?"
    rf"(?:(?P<label>(?:{_LABEL})+)|(?P<subject>{_SUBJECT}))?(?:(?:{_SOFT})[,:]? )?[\"“„«'‘(\[]?",
    re.IGNORECASE,
)
_CLOSED = re.compile(  # nothing follows in the sentence but punctuation
    rf"(?:, (?:{_SOFT})| werden|[\"”'’]? here)?(?!\s*\.\.)[^\w?…🙃😉🤔]*\Z",
    re.IGNORECASE,
)
# After a word that ends a clause, as an answer does ("no", not "no children").
_ALONE = re.compile(r"[\"”»'’)\]]{0,9}\s{0,9}(?:\Z|[\n.,;:!?…–—(-])")
_SET_OFF = re.compile(  # before the reasons in the same sentence
    rf"[\"”“»'’]?(?:,| ?[;:–—]| -| ?\(| (?=(?:{_BECAUSE})(?!\w))) ?", re.IGNORECASE
)
_TOKEN = re.compile(r"\A(?:\W|Ġ)+|\W+\Z")  # characters around the letters of a token
_BUILT_IN = {"yes", "no"}.union(*LANGUAGES)  # short words of one token each
_SHORT = re.compile(r"\W*(?:(y|yep|yeah|yup)|n|nope|nah)\W*", re.IGNORECASE)
_OF_SERVICES = {"choices", "output", "error", "message", "role", "code", "object"}
_ANSWER_KEY = re.compile(_LABEL, re.IGNORECASE)
_REASONING_KEY = re.compile(_REASONING, re.IGNORECASE)
_TRUTH = {"True": "yes", "1": "yes", "False": "no", "0": "no"}
_JSON = re.compile(  # an object, after at most a few words
    r"(?:(?:sure|okay|here(?:['’]s| is)|json|output|result|response|answer)[^.?!\n{]{0,40})?[:.!]?"
    r"[\[\s]*(\{.*\})([^}]*)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Answer(Ambiguous):
    """A parsed reply: `value` is "yes", "no", "refer", or None with a `reason`."""

    instead = 'compare answer.value with "yes"'

    value: Value | None
    reason: Reason = ""

    def __eq__(self, other: object) -> bool:
        """Whether two answers are the same; a text would never be equal, so it raises."""
        if isinstance(other, str):
            raise InputTypeError(f"an Answer is no text like {other!r}: {self.instead}")
        return isinstance(other, Answer) and vars(self) == vars(other)


class Completion(Protocol):
    """A response object of a service's SDK, such as OpenAI's `ChatCompletion`."""

    def model_dump(self) -> Json:
        """The body of the response."""


@dataclass(frozen=True)
class _Sentence:
    """A sentence that may answer: its value if it does, and how."""

    text: str
    value: Value | None = None
    word: str = ""  # that answers
    labelled: bool = False
    closed: bool = False  # nothing follows the answer
    reasons: str = ""  # what follows it
    own_line: bool = False
    follows: bool = (
        True  # the text before it is at the end of a sentence or a paragraph
    )


@checked
def parse_answer(
    reply: "Reply | str | Completion | Fields", words: "Words | Task" = YES_NO
) -> Answer:
    """Parse the answer in a reply: the object of OpenAI's SDK, its JSON, a `Reply`, or a text.

    The object is a response, one of its choices, or a message, which does not say how it ended; any
    other mapping is read as its JSON.
    `words` is the task that was asked about, or maps "yes", "no" and, if there is a third answer,
    "refer" to a word or several (any case): `{"yes": "bewilligt", "no": "abgelehnt"}`. Reasons for
    a `value` of None: error (no reply at all), unfinished (the service broke off), refused (a tool
    call counts as a refusal), filtered (by the provider), empty, truncated (cut off before an
    answer, or only reasoning), ambiguous (contradictory or doubtful answers), other. Of a long
    reply, 2,000 characters at its beginning and at its end are read.
    """
    spelled = _words_of(words)
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
        reply.p_yes is not None and not reply.logprobs and reply.text in dict(spelled)
    ):  # a decision model's
        return Answer(next(value for value in _VALUES if value == reply.text))
    text, reasoned = without_reasoning(reply.text)
    if len(text) > 2 * _SEEN:
        text = f"{text[:_SEEN]}\n\n…\n\n{text[-_SEEN:]}"
    text = _OTHERS_TURN.split(text, 1)[0]
    cut = reply.ending == "truncated"
    if not text.strip():
        return Answer(
            None, "truncated" if cut or reasoned or reply.reasoned else "empty"
        )
    return _read(text, spelled, cut)


def _words_of(words: Any) -> Spelled:
    """The words for each answer, also of a task; `FwcError` for anything else."""
    spelled = getattr(words, "spellings", words)
    try:
        found = {"no": said(spelled["no"]), "yes": said(spelled["yes"])}
        if "refer" in spelled:
            found["refer"] = said(spelled["refer"])
        of_answers = [{word.casefold() for word in own} for own in found.values()]
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        raise FwcError(
            f"the words are {kind_of(words)}: give a Task, or {{'yes': …, 'no': …}} with texts"
        ) from None
    if len(set[str]().union(*of_answers)) < sum(map(len, of_answers)):
        told = ", ".join(f"{value} {' or '.join(own)}" for value, own in found.items())
        raise FwcError(f"two answers have the same word ({told}): they must differ")
    return tuple(found.items())


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
    if body.keys().isdisjoint(_OF_SERVICES):  # an answer's JSON, parsed
        return Reply(json.dumps(body, default=str))
    if "role" in body:  # a message alone
        body = {"message": body}
    if isinstance(body.get("message"), Mapping):  # a choice alone
        body = {"choices": [body]}
    try:
        return read_reply(body)
    except AttemptError as failure:
        return Reply(None, error=str(failure))


@lru_cache(maxsize=10_000)  # many replies have the same text
def _read(text: str, words: Spelled, cut: bool) -> Answer:
    if _TOOL.search(text):
        return Answer(None, "refused")
    pattern = _pattern(words)
    plain = _plain(text, words)
    sentences = list(_sentences(plain, pattern))
    value = _answer(sentences, plain, pattern, cut)
    if value:
        return Answer(value)
    short = _SHORT.fullmatch(plain)
    if short and "yes" in dict(words)["yes"]:
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
    answers = [sentence for sentence in sentences if sentence.value]
    words = {sentence.word for sentence in answers}
    numbered = sum(bool(_NUMBERED.match(sentence.text)) for sentence in answers)
    labelled = [sentence.text for sentence in answers if sentence.labelled]
    several = numbered > 1 or len(set(labelled)) < len(labelled)
    if len(words) != 1 or several:  # two answers, or about several rows
        return None
    value = answers[0].value
    word = words.pop()
    bare = not re.search(r"[\w?]", pattern.sub("", text))
    if bare and {_word(found) for found in pattern.finditer(text)} == {word}:
        return value  # many times the same word
    first = sentences[0]
    last = sentences[-1]
    cut_off = (
        cut and first is last and first.labelled and first.closed
    )  # "the answer is no" longer clear
    if first.value and not cut_off:
        further = [sentence.text for sentence in sentences[1:] if not sentence.closed]
        if all(_is_reason(part, first, pattern) for part in [first.reasons, *further]):
            return value
    before = text[: text.rfind(last.text)]
    doubtful = _UNABLE.search(before) or _TASK.search(before.replace("¤?", ""))
    alone = last.own_line and not doubtful and not _answers_again(before, word, pattern)
    ends = last.value and last.closed and last.follows and not cut
    return value if ends and (last.labelled or alone) else None


def _is_reason(text: str, answer: _Sentence, pattern: re.Pattern[str]) -> bool:
    """Whether a part of what follows a leading answer supports it, or says nothing."""
    again = _sentence(text, pattern)
    repeats = again.labelled and again.closed and again.value == answer.value
    if repeats or _SCORE.fullmatch(text):
        return True
    plain = _without_accents(text)
    if answer.value == "refer":  # doubts are what speaks for it
        others = _answers_again(text, answer.word, pattern)
        return not (others or _CONDITION.search(plain))
    negated = bool(_NEGATED.search(plain))
    against = bool(_AGAINST[answer.value or "no"].search(plain))
    denies = negated or against if answer.value == "yes" else against and not negated
    doubtful = any(words.search(plain) for words in (_DOUBT, _TASK, _SPEAKER))
    again_otherwise = _answers_again(text, answer.word, pattern)
    return bool(_REASON.match(plain)) and not (denies or doubtful or again_otherwise)


def _answers_again(text: str, word: str, pattern: re.Pattern[str]) -> bool:
    """Whether another word that answers stands somewhere in the text as answers do."""
    others = (found for found in pattern.finditer(text) if _word(found) != word)
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


def _sentence(
    text: str, pattern: re.Pattern[str], own_line: bool = False, follows: bool = True
) -> _Sentence:
    """Read one sentence: a prefix that only labels, an answer, and what follows it."""
    found = pattern.search(text)
    prefix = _PREFIX.fullmatch(text, 0, found.start()) if found else None
    if found is None or prefix is None:
        return _Sentence(text)
    labelled = bool(prefix["label"] or prefix["subject"] or prefix["concludes"])
    grounds = prefix["grounds"]
    doubtful = _DOUBT.search(_without_accents(grounds))
    if grounds and (doubtful or not (labelled or prefix["because"])):
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
    crossed = value == "yes" and _CROSS.search(text)
    if crossed or not (closed or set_off or _ALONE.match(rest)):
        value = None
    return _Sentence(
        text, value, _word(found), labelled, closed, reasons, own_line, follows
    )


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
            kept = (
                kept if inside else []
            )  # without an opening mark, reasoning began with the text
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


def _without_accents(text: str) -> str:
    letters = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@lru_cache(maxsize=64)
def _pattern(words: Spelled) -> re.Pattern[str]:
    """A pattern for the words of each answer, in groups of these names, longest first."""
    values: dict[str, str] = {}
    for value, own in words:
        values |= dict.fromkeys(_spellings(own), value)
    parts = []
    for number, word in enumerate(sorted(values, key=len, reverse=True)):
        whom = _TO_WHOM if values[word] == "refer" else ""
        parts.append(f"(?P<{values[word]}{number}>{word}){whom}")
    return re.compile("|".join(parts), re.IGNORECASE)


@lru_cache(maxsize=64)
def _choice(words: Spelled) -> re.Pattern[str]:
    """A pattern for a choice between answers, such as "no or yes"."""
    answers = [f"(?:{'|'.join(_spellings(own))})" for _, own in words]
    choices = [_OR.join(pair) for pair in permutations(answers, 2)]
    if len(answers) > 2:
        choices = [
            _LISTED.join(all_three) for all_three in permutations(answers)
        ] + choices
    return re.compile("|".join(choices), re.IGNORECASE)


def _spellings(words: Iterable[str]) -> list[str]:
    """A pattern for each word, and for the word without accents, where it stands alone."""
    patterns = []
    for word in words:
        accented = _normal(word).strip()
        for spelling in (accented, _without_accents(accented)):
            before = (
                r"(?<!\w)(?<!\w[-'’_&])" if spelling[:1].isalnum() else "(?<![<>=])"
            )
            if spelling[:1].isdigit():
                before += r"(?<![-$€.])"
            pieces = re.findall(r"\w+|[^\w\s]", spelling)
            inside = r"\s?".join(map(re.escape, pieces))
            patterns.append(rf"{before}{inside}(?!\w)(?![-'’&]\w)")
    return patterns


def _value(found: re.Match[str]) -> Value:
    group = str(found.lastgroup)
    return next(value for value in _VALUES if group.startswith(value))


def _word(found: re.Match[str]) -> str:
    return found[str(found.lastgroup)].casefold()


def _plain(text: str, words: Spelled) -> str:
    """The text without code, markup and struck-out parts; "yes or no" becomes ¤."""
    text = _CODE.sub(
        lambda block: block[2] if block[1].lower() in _PROSE else "\n", text
    )
    text = _unmarked(_STRUCK.sub("\n", _normal(_with_json_read(text))))
    return _choice(words).sub("¤", text)


def _unmarked(text: str) -> str:
    """The normalized text without tags and markup; the tag of a field is its label."""
    text = _TAG.sub("\n", _FIELD.sub(r"\n\1: ", _MARKUP.sub("", text)))
    return re.sub("\n[ \n]+", "\n", re.sub(" +", " ", text))


def _with_json_read(text: str) -> str:
    """The text with a JSON object as lines "key: value", the one of the answer first."""
    found = _JSON.fullmatch(text)
    if not found:
        return text
    content = found[1]
    if '"' not in content:  # a dict as Python prints it
        content = content.replace("'", '"')
    try:
        lines = json.JSONDecoder(object_pairs_hook=_lines_of).decode(content)
    except (ValueError, RecursionError):
        return text
    return f"{lines}\n{found[2].strip('] ')}"


def _lines_of(pairs: list[tuple[str, Any]]) -> str:
    """An object's lines; without empty fields, and without reasoning that precedes the answer."""
    lines = [
        f"{key}: {_TRUTH.get(repr(value), value)}"
        for key, value in pairs
        if value not in (None, "", []) or _ANSWER_KEY.match(f"{key}: ")
    ]
    answers = list(filter(_ANSWER_KEY.match, lines))
    before = lines[: lines.index(answers[0])] if answers else lines
    dropped = list(filter(_REASONING_KEY.match, before))
    further = [line for line in lines if line not in answers + dropped]
    return "\n".join(answers + further)


@dataclass(frozen=True)
class ReplyReading:
    """What a reply says: its answer, P(yes), and whether the two contradict each other."""

    answer: Answer
    p_yes: float | None
    contradicts: bool = False


def read_answer(
    reply: Reply, words: Words = YES_NO, greedy: bool = False, stated: bool = False
) -> ReplyReading:
    """Read answer and P(yes) of a reply.

    Of a `greedy` model (temperature 0) the answer is the likelier word. Where P(yes) says
    otherwise, the tokens are not those of the answer, and P(yes) is unknown. With `stated`, the
    reply has to state P(yes), and a word alone is no answer.
    """
    answer = parse_answer(reply, words)
    if stated:
        share = stated_probability(reply, answer, words)
        if share is None:
            return ReplyReading(Answer(None, answer.reason or "other"), None)
        return ReplyReading(Answer(likelier(share)), share)
    p = probability(reply, words)
    contradicts = False
    if greedy and answer.value in YES_NO and p is not None:
        contradicts = p < 0.5 if answer.value == "yes" else p > 0.5
    return ReplyReading(answer, None if contradicts else p, contradicts)


def probability(reply: Reply, words: Words = YES_NO) -> float | None:
    """P(yes) of a reply, in [0, 1], from `logprobs` if it has any, else `p_yes`; or None."""
    if reply.refusal or reply.ending in ("filtered", "unfinished"):
        return None
    if reply.logprobs:
        return p_yes(reply.logprobs, words)
    p = reply.p_yes
    return (
        abs(p) if p is not None and 0.0 <= p <= 1.0 else None
    )  # not -0.0: its minus looks like a formula


def stated_probability(reply: Reply, found: Answer, words: Words) -> float | None:
    """The one number of a reply that may be P(yes), in [0, 1]; else None.

    The number stands alone, or after words that say what it is ("Probability of yes: 73 %").
    `found` is the reply's answer in words: none, or the likelier one.
    """
    text, _ = without_reasoning(reply.text or "")
    bare = not re.search(
        r"[^\W\d]", text
    )  # then also words such as 1 and 0 are numbers
    if found.reason == "ambiguous" and bare:
        found = Answer(None, "other")
    if found.reason not in ("", "other", "truncated") or len(text) > _SEEN:
        return None
    if text in ("yes", "no"):  # a function's number
        return probability(Reply(text, p_yes=reply.p_yes))
    yes = dict(_words_of(words))["yes"]
    share = _stated(text, yes, reply.ending == "truncated")
    agrees = share is not None and (bare or found.value in (None, likelier(share)))
    return share if agrees else None


@lru_cache(maxsize=10_000)
def _stated(text: str, yes: tuple[str, ...], cut: bool) -> float | None:
    plain = _unmarked(_normal(text)).replace("\\", "").replace("_", " ")
    parts = [part.strip() for part in _PARTS.split(_HEADED.sub(": ", plain))]
    if cut:  # "0.7" may go on
        parts.pop()
    statement = _statement(yes)
    shares = set[float]()
    for part in parts:
        found = statement.fullmatch(part)
        if found:
            number = float(found["number"].replace(",", "."))
            whole = 100 if found["percent"] else int(found["whole"] or 1)
            shares.add(round(number / whole, 12))
        elif _ANOTHER.search(part):
            return None
    share = shares.pop() if len(shares) == 1 else math.nan
    return share if share <= 1.0 else None


@lru_cache(maxsize=64)
def _statement(yes: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for a probability of yes, after words that say what it is."""
    words = f"(?:{'|'.join(_spellings(yes))})"
    of_yes = (
        r"(?: ?[(\[]?(?:(?: (?:of|for|that|für|von|de|di|pour|para|per))? "
        r"(?:(?:the )?answer (?:is|being) )?)?"
        rf"[\"'“‘]?{words}[\"'”’]?[)\]]?)?"
    )
    label = (
        r"(?:(?:the|my|an?|final|overall|best|estimated|predicted|model['’]s|die|meine|la|ma|mi|mia"
        rf"|minha) ){{0,4}}(?:{words} )?(?:{_PROBABILITY}|{_NOUN}){of_yes}[\"']?"
        r"(?: (?:is|of|at|would be|ist|est|es|è|é))?(?: ?(?:[:=→]|->|=>)| [–—-](?= )){0,2} ?[\"']?"
    )
    says = r"(?:I(?:['’]d| would| will)? (?:estimate|say|guess|predict|assign|give)(?::? ))?"
    about = r"(?:[~≈] ?|(?:about|approximately|around|roughly|etwa|circa|environ) )?"
    return re.compile(
        rf"(?:[-•] )?[\"'“‘«(\[]*(?:{_CONCLUDES})?{says}(?:{label}){{0,2}}{about}{_NUMBER}"
        rf"(?: (?:{_PROBABILITY}){of_yes})?[\s.!,\"'”’»)\]]*",
        re.IGNORECASE,
    )


def p_yes(
    logprobs: Iterable[tuple[str, float]] | None, words: Words = YES_NO
) -> float | None:
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
    spelled = [
        (value, _normal(word).casefold())
        for value in mass
        for word in said(words[value])
    ]
    for token, logprob in logprobs or ():
        piece = _TOKEN.sub("", token).casefold()
        if not piece or math.isnan(logprob):
            continue
        share = math.exp(min(logprob, 0.0))
        begun = [(value, word) for value, word in spelled if word.startswith(piece)]
        sure = {
            value for value, word in begun if word == piece or word not in _BUILT_IN
        }
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
