"""The nouns: English, French, gender, and the tags that say what can be done with them.

A row of the table is `english french gender tag tag ...`; the heading of a group gives tags that all its rows share.
Tags are what verbs, adjectives and prepositions select: `food` can be eaten, `open` can be opened, `in` can be entered.

>>> NOUN["owl"].french, NOUN["owl"].french_plural, NOUN["water"].mass
('hibou', 'hiboux', True)
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.data.synthetic.phrasebook.english import Word, plural
from harken.data.synthetic.phrasebook.french import noun_plural, starts_with_vowel

GROUPS = {
    "person": """
        man homme m; woman femme f; boy garçon m kid; girl fille f kid; child enfant m kid; doctor médecin m job;
        nurse infirmière f job; teacher professeur m job; student étudiant m job; pupil élève m kid;
        farmer fermier m job; baker boulanger m job; butcher boucher m job; singer chanteur m job;
        actor acteur m job; actress actrice f job; waiter serveur m job; waitress serveuse f job; king roi m;
        queen reine f; prince prince m; princess princesse f; lawyer avocat m job; engineer ingénieur m job;
        soldier soldat m job; policeman policier m job; tourist touriste m; writer écrivain m job;
        painter peintre m job; musician musicien m job; journalist journaliste m job; driver chauffeur m job;
        gardener jardinier m job; fisherman pêcheur m job; hero héros m; guest invité m; customer client m;
        judge juge m job; mayor maire m; pilot pilote m job; worker ouvrier m; witch sorcière f; thief voleur m;
        dancer danseuse f job; hunter chasseur m; stranger inconnu m; explorer explorateur m;
        magician magicien m job""",
    "person kin own": """
        father père m single; mother mère f single; grandfather grand-père m single;
        grandmother grand-mère f single; brother frère m; sister sœur f; uncle oncle m; aunt tante f;
        cousin cousin m; friend ami m; neighbor voisin m; son fils m kid; nephew neveu m kid; niece nièce f kid;
        colleague collègue m""",
    "infant": """
        baby bébé m""",
    "animal": """
        cat chat m legs pet own; dog chien m legs pet own bark; horse cheval m legs pet own; bird oiseau m pet fly;
        cow vache f legs cattle; pig cochon m legs cattle; duck canard m cattle fly; rabbit lapin m legs pet own;
        mouse souris f legs; wolf loup m legs; bear ours m legs; lion lion m legs; tiger tigre m legs;
        elephant éléphant m legs; monkey singe m legs; fox renard m legs; hen poule f cattle; goat chèvre f legs cattle;
        snake serpent m; frog grenouille f; turtle tortue f pet own; owl hibou m fly; bee abeille f fly;
        butterfly papillon m fly; donkey âne m legs cattle; squirrel écureuil m legs; hedgehog hérisson m legs;
        hamster hamster m legs pet own; spider araignée f; goose oie f cattle fly""",
    "food thing": """
        apple pomme f fruit cut pick; pear poire f fruit cut pick; orange orange f fruit cut pick;
        banana banane f fruit cut; cherry cerise f fruit pick; strawberry fraise f fruit pick;
        peach pêche f fruit pick cut; lemon citron m cut pick; tomato tomate f cut pick; carrot carotte f cut;
        onion oignon m cut; egg œuf m cooked; cake gâteau m cut dish gift; biscuit biscuit m dish;
        sandwich sandwich m cut dish; sausage saucisse f cooked cut; mushroom champignon m cut pick dish;
        pancake crêpe f dish; pineapple ananas m fruit cut; bean haricot m cooked; omelette omelette f dish cooked;
        salad salade f dish; pizza pizza f dish cut cooked; cucumber concombre m cut""",
    "food mass": """
        bread pain m cut dish; cheese fromage m cut; meat viande f cut cooked; rice riz m cooked; butter beurre m;
        chocolate chocolat m; honey miel m; soup soupe f dish cooked; ham jambon m cut; jam confiture f dish""",
    "drink mass": """
        water eau f; milk lait m; coffee café m dish; tea thé m dish; wine vin m; beer bière f; juice jus m;
        lemonade limonade f dish""",
    "clothes thing own colored": """
        hat chapeau m gift; coat manteau m; shirt chemise f; dress robe f gift; skirt jupe f; jacket veste f;
        sweater pull m gift; tie cravate f gift; scarf écharpe f gift; belt ceinture f; shoe chaussure f;
        glove gant m; boot botte f; sock chaussette f; cap casquette f; uniform uniforme m; suit costume m;
        raincoat imperméable m""",
    "jewel object thing own small gift": """
        ring bague f; watch montre f machine; necklace collier m; bracelet bracelet m""",
    "vehicle colored machine": """
        car voiture f drive private own; bicycle vélo m private own; train train m ride big; bus bus m ride drive;
        boat bateau m ride private own; plane avion m ride big; truck camion m drive private own;
        taxi taxi m ride drive; motorcycle moto f private own; van camionnette f drive private own;
        tractor tracteur m drive private own; tram tram m ride""",
    "place in": """
        house maison f own build paint; garden jardin m own cross; kitchen cuisine f own paint clean;
        bedroom chambre f own paint clean; school école f build at; church église f build at;
        museum musée m build at; park parc m at cross; market marché m at; station gare f build at;
        airport aéroport m build at; hospital hôpital m build at; hotel hôtel m build at;
        restaurant restaurant m at; library bibliothèque f build at; theater théâtre m build at;
        cinema cinéma m build at; factory usine f build at; farm ferme f own at; castle château m build at;
        village village m town; city ville f town cross; forest forêt f cross; street rue f cross clean;
        bank banque f at; shop magasin m own clean; bakery boulangerie f at; university université f at;
        cellar cave f own clean; field champ m cross; harbor port m at; garage garage m own build clean;
        stable écurie f clean; attic grenier m own clean; palace palais m build at; prison prison f build;
        pool piscine f clean at; tower tour f build; yard cour f clean cross""",
    "furniture thing own": """
        table table f on; chair chaise f on; bed lit m on; armchair fauteuil m on colored; sofa canapé m on colored;
        cupboard armoire f open container; desk bureau m on; lamp lampe f break colored machine;
        mirror miroir m break; carpet tapis m on colored; shelf étagère f on; bench banc m on;
        curtain rideau m colored; clock horloge f machine break""",
    "text thing small": """
        book livre m own gift; letter lettre f own; newspaper journal m; novel roman m gift; poem poème m;
        story histoire f tale; magazine magazine m; article article m; message message m; report rapport m;
        dictionary dictionnaire m own; recipe recette f; newsletter bulletin m""",
    "object thing own small": """
        key clé f; map carte f; bag sac m open gift container; box boîte f open container;
        suitcase valise f open container; bottle bouteille f open break dishes container;
        glass verre m break dishes container; cup tasse f break dishes container; plate assiette f break dishes;
        knife couteau m tool dishes; fork fourchette f dishes; spoon cuillère f dishes; umbrella parapluie m open;
        phone téléphone m machine break gift; computer ordinateur m machine break; pen stylo m; pencil crayon m;
        ball ballon m throw; toy jouet m break gift; doll poupée f gift; gift cadeau m gift open;
        hammer marteau m tool; axe hache f tool; rope corde f tool; basket panier m container; candle bougie f gift;
        tool outil m tool; painting tableau m gift; photo photo f gift; flag drapeau m colored;
        ticket billet m gift; wallet portefeuille m; bucket seau m tool container; ladder échelle f tool;
        radio radio f machine break; vase vase m break gift; broom balai m tool; sword épée f tool;
        treasure trésor m; pillow coussin m colored; blanket couverture f colored; brush brosse f tool;
        pot casserole f dishes""",
    "fixture": """
        door porte f open paint colored clean; window fenêtre f open break clean; wall mur m paint; roof toit m on;
        gate portail m open paint; fence barrière f paint""",
    "instrument own": """
        piano piano m; guitar guitare f; violin violon m; flute flûte f; drum tambour m; trumpet trompette f;
        harp harpe f; accordion accordéon m""",
    "nature": """
        tree arbre m grown tall; flower fleur f grown pick colored; rose rose f grown pick colored;
        tulip tulipe f grown pick colored; mountain montagne f tall scene; river rivière f cross scene;
        lake lac m scene; stone pierre f throw; cloud nuage m; plant plante f; leaf feuille f; bush buisson m grown;
        hill colline f scene; path chemin m; beach plage f at scene; bridge pont m on cross; island île f scene on;
        star étoile f; nest nid m""",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages."""

    english: str
    french: str
    feminine: bool
    tags: frozenset[str]
    english_plural: str
    french_plural: str
    vowel: bool  # the French word takes l' and d'
    mass: bool


def _read() -> list[Noun]:
    nouns = []
    for heading, rows in GROUPS.items():
        for row in rows.split(";"):
            english, french, gender, *tags = row.split()
            together = frozenset(heading.split()) | frozenset(tags)
            nouns.append(
                Noun(
                    Word(english, "NOUN"),
                    french,
                    gender == "f",
                    together,
                    Word(plural(english), "NOUN"),
                    noun_plural(french),
                    starts_with_vowel(french),
                    "mass" in together,
                )
            )
    return nouns


NOUNS = _read()
NOUN = {noun.english: noun for noun in NOUNS}


def tagged(*tags: str) -> tuple[Noun, ...]:
    """All nouns that carry at least one of the tags, or are called so, in the order of the table."""
    return tuple(noun for noun in NOUNS if noun.english in tags or not noun.tags.isdisjoint(tags))
