// Sentences to try, for the corpora that ship; other models begin empty.
export const EXAMPLES = [
  "the black cat does not see the small dog",
  "the young queen wrote him a long letter",
  "she bought a red dress and she lost it",
  "will we see the beautiful castle tomorrow?",
  "my sister sold the beautiful house that she bought because she was sad",
];
const EVERYDAY = [
  "Where did you buy that beautiful red dress?",
  "My sister doesn't want to go to school today.",
  "What would you like to eat tonight?",
  "We have been waiting for an hour.",
  "The zebra is sleeping under the table.",
];
const REVIEWS = ["although the cast was dull , the film was not bad", "the soup was great but the service was never pleasant"];
export const LONG = "the old teacher who lives in the small village gave a red book to the young doctor because the doctor lost the old book yesterday and she was very sad";

// A text as sentences: lines are kept, and a full stop, ! or ? before a space ends one.
export const split = (text) => text.split("\n").flatMap((line) => line.split(/(?<=[.!?…])\s+/)).map((one) => one.trim()).filter(Boolean);
const CORPORA = { opinions: REVIEWS, phrasebook: EXAMPLES, tatoeba: EVERYDAY };
export const examplesOf = (model) => (model?.direction === "fr-en" ? [] : CORPORA[model?.corpus] ?? []);
