"""Words for yes, no and unknown, in answers of models and in cells of tables."""

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from fwc_llm.sanitize import Counts, Texts, listed, replace_invisible

# maps "yes", "no" and, if there is a third answer, "refer" to their word or words
Words = Mapping[str, str | Sequence[str]]
YES_NO: Mapping[str, str] = {"yes": "yes", "no": "no"}
REFER = "refer"  # the third answer, of tasks that have it: a person decides
ANSWERS = "no", "yes", REFER  # by code

# (yes, no) in a language: function words of that language. Two of them in a question identify the
# language.
LANGUAGES = {
    (
        "ja",
        "nein",
    ): "ist wird hat sind werden haben der das dieser diese dieses eine einen und mehr als nicht",
    (
        "oui",
        "non",
    ): "est cette cet ces une le les du des et plus que sera elle il personne",
    (
        "sí",
        "no",
    ): "es está esta este una el los las del y más que será ha tiene persona",
    ("sì", "no"): "è questa questo una il gli della del e più che sarà ha persona",
    ("sim", "não"): "é esta este uma o os do da e mais que será tem pessoa",
}
_ENGLISH = {"the", "is", "does", "did", "this", "of", "are"}


def said(words: str | Sequence[str]) -> Texts:
    """The word or words of an answer, as a tuple."""
    if isinstance(words, str):
        return (words,)
    return tuple(words)


def spellings(
    question: str, words: Words, values: Words | None = None
) -> dict[str, list[str]]:
    """The words for yes and no in replies; first the word that prompts ask for.

    Both vocabularies are read: yes and no, also in the question's language, and the words of the
    outcome (`words`, or else its `values`). The question has a language if it contains at least two
    of its function words in `LANGUAGES` and none of English. Only one vocabulary is read if the two
    may contradict each other: where "no" is among the words for yes, or the question asks about the
    outcome that means no.
    """
    spelled = {value: list(said(words[value])) for value in words}
    plain = {value: [value] for value in words}
    used = set(re.findall(r"\w+", question.lower()))
    for (yes, no), function_words in LANGUAGES.items():
        if not used & _ENGLISH and len(used.intersection(function_words.split())) > 1:
            plain["yes"].append(yes)
            plain["no"].append(no)
    of_outcome = {value: list(said((values or words)[value])) for value in plain}
    agree = _agree(of_outcome, used)
    asks_yes = all(spelled[value] == [value] for value in ("yes", "no"))
    parts = [spelled]
    if agree or asks_yes:
        parts.append(plain)
    if agree and asks_yes:
        parts.append(of_outcome)
    if REFER in spelled:
        parts.append({"yes": [], "no": [], REFER: [REFER]})
    asked = {word.casefold(): value for value, own in spelled.items() for word in own}
    return {
        value: [
            word
            for word in dict.fromkeys(word for part in parts for word in part[value])
            if asked.get(word.casefold(), value) == value
        ]
        for value in spelled
    }


def _agree(of_outcome: Mapping[str, list[str]], used: Collection[str]) -> bool:
    """Whether the words of an outcome can stand beside yes and no."""
    folded = {
        value: {word.casefold() for word in words}
        for value, words in of_outcome.items()
    }
    every = folded["yes"] | folded["no"]
    built_in = {word for pair in (("yes", "no"), *LANGUAGES) for word in pair}
    are_words = all(len(word) > 2 and word.isalpha() for word in every)
    return (
        are_words
        and not (every & built_in)
        and not (folded["no"] & set(used))
        and len(every) > 1
    )


def rejoined(parts: Sequence[str], is_known: Callable[[str], bool]) -> list[str]:
    """The texts in one that was cut at commas; a known text may have commas itself."""
    found = []
    while parts:
        counts = range(min(len(parts), _MOST_COMMAS), 1, -1)
        n = next((n for n in counts if is_known(",".join(parts[:n]))), 1)
        found.append(",".join(parts[:n]).strip())
        parts = parts[n:]
    return found


def named(names: Sequence[str], titles: Collection[str]) -> list[str]:
    """The titles that names mean, which were typed with commas between them, by `titled`."""
    keys = {*map(_name_key, titles)}
    found = rejoined(names, lambda name: _name_key(name) in keys)
    return [titled(name, titles) for name in found]


def titled(name: str, titles: Collection[str]) -> str:
    """The title that a name means; quotes, white space and Unicode form are not compared."""
    if name in titles:
        return name
    return {_name_key(title): title for title in titles}.get(_name_key(name), name)


def _name_key(name: str) -> str:
    return re.sub(r'[\s"]+', "", unicodedata.normalize("NFC", name))


def as_number(cell: str) -> float | None:
    """Parse a finite number such as "1e3"; None for other text, "1_000" included."""
    try:
        if "_" not in cell:
            number = float(cell)
        else:
            number = math.nan
    except ValueError:
        return None
    if math.isfinite(number):
        return number
    return None


# --- Words in cells of tables

YES_WORDS = (
    "yes y true t 1 ja j oui si sí sì sim da wahr vrai"
    " verdadero verdadeiro vero да tak 是 ✓ ✅"
)
NO_WORDS = (
    "no n false f 0 not nein non não nao niet nee nej falsch faux falso нет nie 否 ✗ ❌"
)
GRANTED_WORDS = """
good positive pos approved approve accepted accept granted grant hired admitted admit passed pass
paid repaid gut bewilligt genehmigt angenommen zusage accordé accepté aprobado aceptado aprovado
approvato accettato
"""
DENIED_WORDS = """
bad negative neg rejected reject denied deny declined decline refused refuse failed fail unpaid
defaulted schlecht abgelehnt absage refusé rejeté rechazado denegado rejeitado negado reprovado
respinto disapproved
"""
REFERRED_WORDS = """
referred refer referral review manual_review under_review in_review deferred defer escalated
escalate manual verwiesen überwiesen prüfen prüfung manuelle_prüfung zur_prüfung weitergeleitet
à_examiner en_revisión da_rivedere em_análise
"""
SUM_WORDS = """
total totals totale totales totaux totali totaal totalt sum sums summe summen gesamt gesamtsumme
gesamtergebnis insgesamt endsumme zwischensumme teilsumme somme suma soma subtotal subtotals
subtotaal итого всего 合計 合计 总计 總計 小計 小计 합계 총계 razem ogółem celkem összesen toplam
yhteensä Σ
"""
MEAN_WORDS = """
all alle everyone overall tous todos tutti average averages avg mean mittelwert durchschnitt moyenne
media média promedio gemiddelde
"""
CROSSING = " & "  # separates the levels of several attributes
UNKNOWN = "unknown"  # the category of all people whose category is not known


def folded(text: str) -> str:
    """The text without case, in one form: ’ is ', and İ, I and ı are i."""
    plain = re.sub("[’‘‛ʼ`´]", "'", text)
    letters = unicodedata.normalize("NFKC", plain).casefold()
    return re.sub("i\u0307|ı", "i", letters)


def folded_words(text: str) -> str:
    """The text without case, accents and punctuation."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return " ".join(
        re.findall(r"\w+", "".join(c for c in letters if not unicodedata.combining(c)))
    )


_SUMS, _MEANS = (
    {folded_words(word) for word in words.split()} for words in (SUM_WORDS, MEAN_WORDS)
)
_BESIDE_SUMS = {"grand", "sub", "sous", "general", "generale", "n"}
_MAY_SUM = re.compile(rf"(?i)\b({'|'.join(f'{SUM_WORDS} {MEAN_WORDS}'.split())})\b")
_LONGEST_SUM = 40


def sum_words(cells: Collection[str]) -> dict[str, str | None]:
    """The different cells of a column that may name a sum of others ("Total", "Итого"), each with
    the cell that must stand beside it (without case and accents): "f" for "Total F", an empty one
    for "all" and "mean", which may be values; None for any.
    """
    found: dict[str, str | None] = {}
    for cell in cells:
        if len(cell) > _LONGEST_SUM or not _MAY_SUM.search(cell):
            continue
        words = [word for word in folded_words(cell).split() if not word.isdecimal()]
        others = [word for word in words if word not in {*_SUMS, *_BESIDE_SUMS}]
        if not _SUMS.isdisjoint(words):
            found[cell] = " ".join(others) or None
        elif _MEANS.issuperset(words):
            found[cell] = ""
    return found


_WORDS = {
    folded_words(words)
    for words in """
unknown|unk|missing|undisclosed|unspecified|unstated|unreported|unrecorded|undeclared|undetermined
unidentified|unavailable|unanswered|withheld|blank|no co-applicant|n/a|n.a.|no answer|no response
no data|no information|none given
don't know|do not know|dk/na|rather not say
unbekannt|unbek.|keine Angabe|keine Angaben|ohne Angabe|keine Auskunft|k.A.|o.A.|k. W.|n. v.
keine Antwort|weiß nicht
weiß ich nicht|fehlt|fehlend|fehlende Angabe
inconnu|inconnue|manquant|n.c.|n.d.|n.r.|s.o.|ne sait pas|ne se prononce pas|sans réponse|sans objet
desconocido|desconocida|no consta|no sabe|no responde|no contesta|ns/nc|s/d|sin dato
sin datos|sin información
sin especificar|sin respuesta
desconhecido|desconhecida|ignorado|ignorada|sem informação|sem dados|sem resposta|s/i|n/i
sconosciuto|sconosciuta|ignoto|ignota|mancante|dato mancante|n.p.
onbekend|geen opgave|geen antwoord|n.v.t.
okänd|okänt|uppgift saknas|ukjent|ukendt|tuntematon|ei tiedossa
nieznane|nieznany|nieznana|brak danych|b.d.|b/d|neznámé|neznámý|neuvedeno|necunoscut
ismeretlen|nincs adat
bilinmiyor|belirtilmemiş|άγνωστο|неизвестно|нет данных|未知|不详|不明|无|無回答|未回答|미상|무응답|غير معروف
""".replace("\n", "|").split("|")
    if words
}
# "sex unknown", "not disclosed", "non renseigné", "nicht angegeben", "race not provided by
# applicant"
_NOT_STATED = re.compile(
    r"(?!.*\b(other|or|oder)\b)(\w+ ){0,2}(unknown|undisclosed|unspecified|unbekannt)( \w+){0,4}"
    r"|(\w+ ){0,3}(not|nicht|non|no|nao|niet|ej|ikke|nie|не) "
    r"?(known|disclosed|specified|stated|given"
    r"|provided|reported|recorded|available|answered|declared|determined|identified"
    r"|indicated|collected|supplied"
    r"|applicable|angegeben|bekannt|erfasst|erhoben|genannt|verfugbar|renseignee?"
    r"|precisee?|communiquee?"
    r"|specifiee?|declaree?|indiquee?|disponible|disponivel|disponibile|especificad[oa]"
    r"|informad[oa]"
    r"|declarad[oa]|indicad[oa]|revelad[oa]|specificat[oa]|dichiarat[oa]|indicat[oa]"
    r"|not[oa]|opgegeven"
    r"|bekend|ingevuld|angivet|oppgitt|oplyst|podano|указано|указан)( by .*)?"
)
# "prefer not to say", "decline to self-identify", "möchte ich nicht sagen", "préfère ne pas
# répondre"
_REFUSED = re.compile(
    r"(?=.*\b(not|don t|declined?|declines|refused?|refuses|nicht|ne|no|nao|non|niet)\b)(\w+ "
    r")*(say|state"
    r"|answer|disclose|to self identify|to identify|self "
    r"identify|specify|respond|report|share|provide|sagen|angeben"
    r"|antworten|repondre|dire|preciser|decir|decirlo|responder|contestar|dizer|informar"
    r"|rispondere|dirlo|zeggen)"
    r"( my .*| this( information)?| it)?|prefer not"
)
_OF_PEOPLE = r"declined|refused|not asked|null|\n|<na>|(leer)|-|--|–|—|.|?|*|/"
_FOR_NUMBERS = (
    rf"{_OF_PEOPLE}|na|none|nil|nan|nd|nc|ka|sd|x|xx|tbd|tba|..|...|…|---|***|entfällt|néant"
    "|#n/a|#na|#value!|#ref!|#div/0!|#null!|#num!|#name?|#nv|#wert!|#bezug!"
)
_OF_OUTCOMES = (
    "|na|null|nan|nd|<na>|#n/a|(leer)|-|--|–|—|---|?|*|/|tbd|tba"  # and marks alone
)
# Of missing values in many surveys; beside "25-34" and ">74", no group of people
MISSING_CODE = re.compile(r"-?([789])\1+|9+[678]|-[1789]|666|6666|1111")
DATE = (
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|\d{1,2}[ .-]*[A-Za-zé]{3,9}[ .,-]*\d{2,4}|[A-Za-zé]{3,9}\.? \d{1,2},? \d{4})"
    r"([T ]\d{1,2}:\d{2}.*)?"
)
_MOST_COMMAS = 8  # in a text that is typed among others
_LONGEST = 100  # a longer cell is never taken for "unknown"


def is_unknown(cell: str) -> bool:
    """Whether a cell means "unknown" ("keine Angabe", "prefer not to say")."""
    if len(cell) > _LONGEST or re.search(r"\d", cell):
        words = ""
    else:
        words = folded_words(cell)
    return words in _WORDS or bool(
        _NOT_STATED.fullmatch(words) or _REFUSED.fullmatch(words)
    )


def _means_unknown(marks: str, cell: str) -> bool:
    """Whether a cell is one of the marks, or means "unknown"."""
    return cell.strip().casefold() in marks.split("|") or is_unknown(cell)


is_marker = partial(
    _means_unknown, _FOR_NUMBERS
)  # of a missing number ("k.A.", "-", "#N/A")
is_unknown_category = partial(
    _means_unknown, _OF_PEOPLE
)  # of people, as a protected level


def unknown_values(values: Collection[str]) -> list[str]:
    """The values of an outcome, in small letters, that mean "unknown".

    "na" or "-" beside two others is a missing value; beside one other it may be its opposite.
    """
    marks = _OF_OUTCOMES.split("|")
    stated = [value for value in values if is_unknown(value)]
    found = [value for value in values if value in marks and value not in stated]
    if len(values) - len(stated) - len(found) < 2:
        return stated
    return stated + found


def is_known(group: str) -> bool:
    """Whether no attribute of the group is "unknown" ("N/A", "keine Angabe")."""
    return not any(map(is_unknown_category, group.split(CROSSING)))


def missing_codes(levels: Iterable[str]) -> list[str]:
    """Codes such as 8888, 99 and 1111 beside levels that are no numbers ("25-34", ">74")."""
    known = [level for level in levels if not is_marker(level)]
    codes = [level for level in known if MISSING_CODE.fullmatch(level)]
    others = [level for level in known if level not in codes]
    if not others or any(re.fullmatch(r"-?[\d.,]+", level) for level in others):
        return []
    return codes


def merged_categories(levels: Iterable[str], words: Collection[str] = ()) -> list[str]:
    """The levels of one protected attribute that mean `UNKNOWN`.

    These are levels in `words`, those that usually mean unknown (`is_unknown_category`), codes such
    as 8888 (`missing_codes`), and "NA", unless another level is a code of two letters, such as "WH"
    or "DE".
    """
    found = list(levels)
    stated = {*map(group_key, words), *missing_codes(found)}
    if not any(re.fullmatch("[A-Z]{2}", level) for level in found if level != "NA"):
        stated.add("na")
    return [
        level
        for level in found
        if group_key(level) in stated or is_unknown_category(level)
    ]


def groups_of(
    name: str,
    counts: Counts,
    words: Collection[str] = (),
    known: Collection[str] | None = None,
    remedy: str = "",
) -> tuple[dict[str, str], list[str]]:
    """The group that each text of a protected column means, and notes on what is merged.

    Spellings of one group are one (`group_key`), named by the most frequent; what means unknown is
    `UNKNOWN` (`merged_categories`). With `known`, the groups of earlier files, texts are read one
    by one: what one means does not depend on the others. `remedy` is the option for further words.
    """
    spelled = merge_spellings(counts, known or ())
    usual = {text: spelled.get(text, text) for text in counts}
    levels = [*dict.fromkeys(usual.values())]
    together = [levels] if known is None else [[level] for level in levels]
    unknown = [level for some in together for level in merged_categories(some, words)]
    groups = {
        text: UNKNOWN if level in unknown else level_name(level)
        for text, level in usual.items()
    }
    notes = [spellings_note(name, spelled)] if spelled else []
    others = [level for level in unknown if level != UNKNOWN]
    if others:
        notes.append(
            f"In {name}, {UNKNOWN} stands for {listed(others, _MOST_SPELLINGS, repr)}: "
            "the category of these people is not known"
        )
    notes += doubtful_groups(name, {*groups.values()} - {UNKNOWN}, remedy)
    return groups, notes


def doubtful_groups(name: str, groups: Collection[str], remedy: str = "") -> list[str]:
    """Notes on groups that may be none: codes for missing values, and dates. `remedy` is the
    option that names such codes.
    """
    codes = sorted(filter(re.compile(f"{MISSING_CODE.pattern}|NA").fullmatch, groups))
    if "9" in groups and "8" not in groups and all(map(str.isdigit, groups)):
        codes.append("9")
    notes = []
    if codes and len(groups) - len(codes) > 1:
        way = (
            f"name it as unknown, {remedy} {codes[0]!r}"
            if remedy
            else "empty its cells"
        )
        notes.append(
            f"In {name}, {', '.join(codes)} may be a code for a missing value, and is a "
            f"group: if it is one, {way}"
        )
    alike: dict[object, list[str]] = {}
    for group in sorted(groups):
        alike.setdefault(_doubt_key(group), []).append(group)
        words = filter(str.isalpha, groups)
        begun = [word for word in words if word.lower().startswith(group.lower())]
        if len(group) == 1 and len(begun) == 2:
            alike[begun[0], begun[1]] = sorted(begun)
    notes += [
        f"In {name}, {' and '.join(same)} are {_COUNT.get(len(same), len(same))} groups, and may "
        f"be one"
        for same in alike.values()
        if len(same) > 1
    ]
    if groups and all(re.fullmatch(DATE, group) for group in groups):
        notes.append(f"{name} holds dates, and each is a group: make years or ages")
    return notes


def _doubt_key(group: str) -> object:
    """What groups have in common that may be one: "White; Asian" and "Asian; White", 02138 and
    2138.
    """
    if group.isdecimal():
        return as_number(group)
    words = sorted(folded_words(group).split())
    is_of_words = len(words) > 1 and not re.search(r"\d", group)
    return tuple(words) if is_of_words else group


def fault_of_groups(levels: Iterable[str]) -> str:
    """Why levels are no groups that can be compared: there are too many; "" if they are."""
    groups = sorted({group_key(level): level for level in levels}.values())
    numbers = [group for group in groups if as_number(group) is not None]
    for held, most, kind in (
        (numbers, _MOST_NUMBERS, "numbers"),
        (groups, _MOST_GROUPS, "values"),
    ):
        if len(held) > most:
            return (
                f"{len(held):,} {kind} ({listed(held, _LISTED)}), and at most {most} can be "
                f"compared as groups"
            )
    return ""


GROUPS_REMEDY = (
    "make a column of fewer groups in the table, such as ages under 40 and from 40"
)
_COUNT = {2: "two", 3: "three"}
_MOST_SPELLINGS = 8  # spellings that a note lists
_MOST_GROUPS = 200  # of one attribute: all pairs of groups are compared
_MOST_NUMBERS = 20  # more numbers are a quantity
_LISTED = 5  # groups that an error lists


def level_name(level: str) -> str:
    """A level as every table shows it: visible, "1.0" is 1, "True" is true, and "a & b" is "a and
    b", since " & " joins crossed levels.
    """
    if re.fullmatch(r"-?\d+\.0+", level):
        return level.partition(".")[0]
    if level.lower() in ("true", "false"):
        return level.lower()
    return replace_invisible(" ".join(level.split())).replace(" & ", " and ")


def group_key(level: str) -> str:
    """What spellings of one group have in common: case, white space (also around "/" and the
    like), a full stop or other punctuation at the end, hyphens and underscores between words,
    invisible characters (such as a byte order mark), kinds of apostrophes and Unicode form are not
    compared.
    """
    visible = "".join(c for c in folded(level) if unicodedata.category(c) != "Cf")
    words = re.sub(r"(?<=[^\W_])[\s_\u2010-\u2015-]+(?=[^\W_])", " ", visible)
    ended = re.sub(r"(?<=\w)[.,;:!]+\s*$", "", words)
    return level_name(re.sub(r"\s*([/,;:+()])\s*", r"\1", ended))


def merge_spellings(counts: Counts, known: Collection[str] = ()) -> dict[str, str]:
    """Map spellings of one group to a `known` one, or else the most frequent of them; levels with
    one spelling are left out.
    """
    first = {group_key(level): level for level in known}
    for level in sorted(counts, key=lambda level: (-counts[level], level)):
        first.setdefault(group_key(level), level)
    usual = {level: first[group_key(level)] for level in counts}
    return {level: text for level, text in usual.items() if text != level}


def spellings_note(name: str, spelled: Mapping[str, str]) -> str:
    """A note on the merger of `merge_spellings` in an attribute."""

    def pair(level: str) -> str:
        usual = spelled[level]
        one, other = (unicodedata.normalize("NFC", text) for text in (level, usual))
        if one == other:
            return f"{usual!r} in two Unicode forms, which look the same"
        return f"{level!r} as {usual!r}"

    pairs = listed([*spelled], _MOST_SPELLINGS, pair)
    return f"{name}: spellings of one group count as one: {pairs}"
