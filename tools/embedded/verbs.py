"""English and French verbs with the forms that sentences need."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

# base, past, past participle[, -ing form where the rule does not give it]
_ENGLISH_IRREGULAR = """
eat ate eaten
drink drank drunk
read read read
write wrote written
buy bought bought
sell sold sold
wear wore worn
find found found
lose lost lost
forget forgot forgotten forgetting
speak spoke spoken
make made made
have had had
take took taken
ride rode ridden
drive drove driven
tell told told
draw drew drawn
sing sang sung
win won won winning
see saw seen
meet met met
know knew known
go went gone
come came come
leave left left
get got got getting
swim swam swum swimming
run ran run running
sleep slept slept
give gave given
send sent sent
do did done
"""


@dataclass(frozen=True)
class EnglishVerb:
    """The forms of an English verb; what follows it (`wait for`) is part of every form."""

    base: str
    third: str
    past: str
    participle: str
    progressive: str


@functools.cache
def english_verb(text: str) -> EnglishVerb:
    """The verb of which `text` is the base form.

    >>> english_verb("study").past, english_verb("wait for").progressive, english_verb("go to").third
    ('studied', 'waiting for', 'goes to')
    """
    word, *rest = text.split(" ")
    forms = _IRREGULAR.get(word, [word, _past(word), _past(word)])
    progressive = forms[3] if len(forms) > 3 else (word[:-1] if re.search(r"[^e]e$", word) else word) + "ing"
    every = (word, _third(word), forms[1], forms[2], progressive)
    return EnglishVerb(*(" ".join([form, *rest]) for form in every))


def _third(word: str) -> str:
    if word == "have":
        return "has"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(o|s|x|ch|sh)$", word) else "s")


def _past(word: str) -> str:
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ied"
    return word + ("d" if word.endswith("e") else "ed")


_IRREGULAR = {line.split()[0]: line.split() for line in _ENGLISH_IRREGULAR.strip().splitlines()}

# infinitive: the six forms of the present; past participle; stem of the future[; auxiliary être]
_FRENCH_IRREGULAR = """
être: suis es est sommes êtes sont; été; ser
avoir: ai as a avons avez ont; eu; aur
aller: vais vas va allons allez vont; allé; ir; être
faire: fais fais fait faisons faites font; fait; fer
boire: bois bois boit buvons buvez boivent; bu; boir
lire: lis lis lit lisons lisez lisent; lu; lir
écrire: écris écris écrit écrivons écrivez écrivent; écrit; écrir
prendre: prends prends prend prenons prenez prennent; pris; prendr
apprendre: apprends apprends apprend apprenons apprenez apprennent; appris; apprendr
voir: vois vois voit voyons voyez voient; vu; verr
vendre: vends vends vend vendons vendez vendent; vendu; vendr
rendre: rends rends rend rendons rendez rendent; rendu; rendr
attendre: attends attends attend attendons attendez attendent; attendu; attendr
perdre: perds perds perd perdons perdez perdent; perdu; perdr
offrir: offre offres offre offrons offrez offrent; offert; offrir
ouvrir: ouvre ouvres ouvre ouvrons ouvrez ouvrent; ouvert; ouvrir
éteindre: éteins éteins éteint éteignons éteignez éteignent; éteint; éteindr
conduire: conduis conduis conduit conduisons conduisez conduisent; conduit; conduir
dormir: dors dors dort dormons dormez dorment; dormi; dormir
courir: cours cours court courons courez courent; couru; courr
rire: ris ris rit rions riez rient; ri; rir
partir: pars pars part partons partez partent; parti; partir; être
vouloir: veux veux veut voulons voulez veulent; voulu; voudr
pouvoir: peux peux peut pouvons pouvez peuvent; pu; pourr
devoir: dois dois doit devons devez doivent; dû; devr
savoir: sais sais sait savons savez savent; su; saur
connaître: connais connais connaît connaissons connaissez connaissent; connu; connaîtr
"""

# Verbs in -er whose stem changes before a silent e: the changed stem, and the stem of the future.
_CHANGING_STEM = {
    "acheter": ("achèt", "achèter"),
    "lever": ("lèv", "lèver"),
    "promener": ("promèn", "promèner"),
    "nettoyer": ("nettoi", "nettoier"),
    "envoyer": ("envoi", "enverr"),
    "préférer": ("préfèr", "préférer"),
}
_WITH_ETRE = {"arriver", "rentrer", "rester", "tomber"}


@dataclass(frozen=True)
class FrenchVerb:
    """The forms of a French verb; `reflexive` verbs carry a pronoun of the subject's person."""

    infinitive: str
    present: tuple[str, ...]
    participle: str
    future_stem: str
    with_etre: bool
    reflexive: bool

    def future(self, person: int) -> str:
        """The simple future.

        >>> french_verb("acheter").future(0)
        'achèterai'
        """
        return self.future_stem + ("ai", "as", "a", "ons", "ez", "ont")[person]

    def imperative(self, person: int) -> str:
        """The imperative of tu, nous or vous: -er verbs lose the s of the second person.

        >>> french_verb("ouvrir").imperative(1), french_verb("prendre").imperative(1)
        ('ouvre', 'prends')
        """
        form = self.present[person]
        return form[:-1] if person == 1 and form.endswith(("es", "vas")) else form


@functools.cache
def french_verb(infinitive: str) -> FrenchVerb:
    """The verb with this infinitive; verbs in -er that are in no table are regular.

    >>> french_verb("manger").present[3], french_verb("se lever").present[0]
    ('mangeons', 'lève')
    """
    reflexive = infinitive.startswith("se ")
    infinitive = infinitive.removeprefix("se ")
    if infinitive in _FRENCH:
        present, participle, future, *auxiliary = _FRENCH[infinitive]
        return FrenchVerb(infinitive, tuple(present.split()), participle, future, bool(auxiliary), reflexive)
    stem = infinitive.removesuffix("er")
    silent, future = _CHANGING_STEM.get(infinitive, (stem, infinitive))
    soft = stem + "e" if stem.endswith("g") else stem[:-1] + "ç" if stem.endswith("c") else stem
    present_forms = (silent + "e", silent + "es", silent + "e", soft + "ons", stem + "ez", silent + "ent")
    return FrenchVerb(
        infinitive, present_forms, stem + "é", future, reflexive or infinitive in _WITH_ETRE, reflexive
    )


def _rows(table: str) -> dict[str, list[str]]:
    named = (line.split(": ") for line in table.strip().splitlines())
    return {name: forms.split("; ") for name, forms in named}


_FRENCH = _rows(_FRENCH_IRREGULAR)
