"""The vocabulary of the self-made world: names, values, and the relations that sentences and questions are made of."""

from __future__ import annotations

from dataclasses import dataclass


def _words(text: str) -> list[str]:
    return text.split()


FIRST_NAMES = _words(
    """
    Ada Amos Anna Asa Basil Bea Ben Bruno Cara Carl Cleo Dan Dina Dora Edgar Ella Emil Eva Felix Flora Fred Gina
    Gus Hana Hugo Ida Igor Iris Ivan Jan Jill Jonas Kira Kurt Lena Leo Lisa Luca Mara Max Mia Milo Nina Noah
    Nora Olga Otto Pia Rita Rolf Rosa Ruth Sam Sara Sven Tara Theo Tina Uma Vera
    """
)
LAST_NAMES = _words(
    """
    Abbot Adler Archer Baker Barnes Becker Berg Bishop Bolt Boyd Brandt Burke Carver Chase Cole Cooper Cross
    Dale Decker Drake Dunn Falk Farmer Fisher Foster Frost Gardner Glover Hale Harper Hoffman Holt Hunter Jensen
    Keller Kemp Kramer Lang Larsen Lund Marsh Mason Meyer Miller Norris Olsen Parker Porter Quinn Reed Sawyer
    Shaw Stone Tanner Turner Vogel Wagner Walsh Weaver Wolf
    """
)
CITY_ROOTS = _words(
    """
    Alder Amber Aspen Badger Beaver Birch Bramble Cedar Clover Coral Crane Dove Eagle Elm Falcon Fern Gull Hawk
    Hazel Heron Holly Ivy Juniper Lark Laurel Lily Linden Maple Moss Oak Olive Otter Pearl Pine Raven Reef Robin
    Rowan Swan Willow
    """
)
CITY_KINDS = _words("Bay Bridge Creek Falls Ferry Ford Gate Haven Hill Mills Point Springs Vale Well")
COMPANY_ROOTS = _words(
    """
    Acme Apex Argo Astra Atlas Beacon Bolide Cobalt Comet Delta Ember Fenix Fusion Galaxy Helix Helios Ion
    Jupiter Krypton Lumen Magnet Meteor Nebula Neon Nova Omega Orbit Pixel Plasma Pulsar Quartz Rocket Saturn
    Sigma Solar Titan Turbo Vector Vertex Zenith
    """
)
COMPANY_KINDS = _words("Brothers Group Guild House Labs Motors Partners Press Supply Systems Trading Union Stores Yard")
BOOK_FIRST = _words(
    """
    Ancient Bitter Blue Bright Broken Bronze Burning Crimson Distant Empty Endless Fallen Final Forgotten Frozen
    Gentle Gilded Golden Green Hidden Hollow Humble Iron Lonely Lost Midnight Painted Quiet Restless Rising
    Secret Silent Silver Sleeping Stolen Sudden Velvet Wandering White Wooden
    """
)
BOOK_SECOND = _words(
    """
    Anchor Arrow Ballad Bell Candle Carpet Castle Clock Compass Crown Dancer Desert Door Dream Feather Flute
    Garden Harbor Island Journey Key Ladder Lantern Letter Market Mirror Mountain Ocean Orchard Promise River
    Road Sailor Shadow Ship Song Staircase Tower Violin Window
    """
)
TRADES = _words(
    """
    actor barber botanist brewer chemist clerk cook dentist diver drummer editor geologist jeweler judge lawyer
    locksmith nurse painter pilot plumber poet potter printer sculptor singer surgeon tailor translator waiter
    welder
    """
)
PRODUCTS = _words(
    """
    bicycles blankets bottles boots brushes buttons cameras carpets chairs clocks cushions drums engines guitars
    hammers hats kettles ladders lamps mirrors needles pianos pumps ropes scissors shoes spoons tents towels
    umbrellas
    """
)
REGIONS = _words(
    """
    Arden Borland Caspia Dorland Eastmark Fairmont Gothia Hesper Istria Jutland Karst Lorn Merrow Northmark
    """
)
YEARS = [str(year) for year in range(1900, 2000)]

PERSON, COMPANY, CITY, BOOK = "person", "company", "city", "book"
NAME_PARTS = {
    PERSON: (FIRST_NAMES, LAST_NAMES),
    COMPANY: (COMPANY_ROOTS, COMPANY_KINDS),
    CITY: (CITY_ROOTS, CITY_KINDS),
    BOOK: (BOOK_FIRST, BOOK_SECOND),
}
# another form of a name that is accepted as the answer too
ALIAS = {PERSON: "Dr {name}", COMPANY: "{name} Ltd", CITY: "{name} City"}


@dataclass(frozen=True)
class Relation:
    """A fact "subject -> one object".

    `sentence` has {x} (subject) and ends with {y} (object). `questions`: ways of asking for y; `phrase` names y by x
    inside another question (None: no question goes on from y). `values`: the objects, where these are no entities.
    """

    name: str
    subject: str
    object: str
    sentence: str
    questions: tuple[str, str, str]
    phrase: str | None = None
    values: tuple[str, ...] = ()


RELATIONS = (
    Relation(
        "birthplace", PERSON, CITY, "{x} was born in {y}.",
        ("In which city was {x} born?", "What is the city of birth of {x}?", "Name the city where {x} was born."),
        "the city where {x} was born",
    ),
    Relation(
        "employer", PERSON, COMPANY, "{x} works for {y}.",
        ("Which company does {x} work for?", "Who is the employer of {x}?", "Name the company where {x} has a job."),
        "the company that {x} works for",
    ),
    Relation(
        "trade", PERSON, "trade", "The trade of {x} is {y}.",
        ("What is the trade of {x}?", "Which trade does {x} follow?", "Name the trade of {x}."),
        values=tuple(TRADES),
    ),
    Relation(
        "founder", COMPANY, PERSON, "{x} was founded by {y}.",
        ("Who founded {x}?", "Who is the founder of {x}?", "Name the person by whom {x} was founded."),
        "the founder of {x}",
    ),
    Relation(
        "base", COMPANY, CITY, "{x} is based in {y}.",
        ("In which city is {x} based?", "Which city is {x} based in?", "Name the city where {x} is based."),
        "the city where {x} is based",
    ),
    Relation(
        "product", COMPANY, "product", "The product of {x} is {y}.",
        ("What is the product of {x}?", "Which product does {x} sell?", "Name the product of {x}."),
        values=tuple(PRODUCTS),
    ),
    Relation(
        "mayor", CITY, PERSON, "The mayor of {x} is {y}.",
        ("Who is the mayor of {x}?", "Which person is mayor of {x}?", "Name the mayor of {x}."),
        "the mayor of {x}",
    ),
    Relation(
        "region", CITY, "region", "The region of {x} is {y}.",
        ("What is the region of {x}?", "Which region is {x} in?", "Name the region of {x}."),
        values=tuple(REGIONS),
    ),
    Relation(
        "author", BOOK, PERSON, "{x} was written by {y}.",
        ("By whom was {x} written?", "Who wrote {x}?", "Name the person who has written {x}."),
        "the author of {x}",
    ),
    Relation(
        "year", BOOK, "year", "{x} was published in {y}.",
        ("In which year was {x} published?", "When was {x} published?", "Name the year when {x} was published."),
        values=tuple(YEARS),
    ),
)  # fmt: skip
COMPARED = "year"  # the relation of comparison questions
COMPARISONS = (
    "Which book was published first, {a} or {b}?",
    "Of {a} and {b}, which book was published first?",
    "Name the one that was published first, {a} or {b}.",
)
# sentences that answer nothing and name another entity
DISTRACTORS = ("{x} is often mentioned together with {y}.", "Not to be confused with {y}.", "See also {y}.")
