"""The words in which a task's answers are said."""

import re
from collections.abc import Mapping, Sequence

Words = Mapping[str, str | Sequence[str]]  # how "yes" and "no" are said: a word, or several
YES_NO: Mapping[str, str] = {"yes": "yes", "no": "no"}

# Function words, two of which tell the language of a question, by that language's yes and no.
LANGUAGES = {
    (
        "ja",
        "nein",
    ): "ist wird hat sind werden haben der das dieser diese dieses eine einen und mehr als nicht",
    ("oui", "non"): "est cette cet ces une le les du des et plus que sera elle il personne",
    ("sí", "no"): "es está esta este una el los las del y más que será ha tiene persona",
    ("sì", "no"): "è questa questo una il gli della del e più che sarà ha persona",
    ("sim", "não"): "é esta este uma o os do da e mais que será tem pessoa",
}
_ENGLISH = {"the", "is", "does", "did", "this", "of", "are"}


def said(words: str | Sequence[str]) -> tuple[str, ...]:
    """The word, or the words, of an answer."""
    return (words,) if isinstance(words, str) else tuple(words)


def spellings(question: str, words: Words) -> dict[str, list[str]]:
    """Return the words that replies may use, the one that prompts ask for first.

    Words other than yes and no are the only ones. Yes and no are joined by those of the question's language
    (German, French, Spanish, Italian, Portuguese), which two of its function words tell, in a question
    without any of English.
    """
    spelled = {value: list(said(words[value])) for value in ("yes", "no")}
    used = set(re.findall(r"\w+", question.lower()))
    if spelled == {"yes": ["yes"], "no": ["no"]} and not used & _ENGLISH:
        for (yes, no), function_words in LANGUAGES.items():
            if len(used.intersection(function_words.split())) > 1:
                spelled["yes"].append(yes)
                spelled["no"] += [no] * (no not in spelled["no"])
    return spelled
