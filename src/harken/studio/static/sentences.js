// Sentences to try, for the corpus that ships; other models begin empty.
export const EXAMPLES = [
  "the black cat does not see the small dog",
  "the young queen wrote him a long letter",
  "she bought a red dress and she lost it",
  "will we see the beautiful castle tomorrow?",
  "my sister sold the beautiful house that she bought because she was sad",
];
const REVIEWS = ["although the cast was dull , the film was not bad", "the soup was great but the service was never pleasant"];
export const LONG = "the old teacher who lives in the small village gave a red book to the young doctor because the doctor lost the old book yesterday and she was very sad";

// A text as sentences: lines are kept, and a full stop, ! or ? before a space ends one.
export const split = (text) => text.split("\n").flatMap((line) => line.split(/(?<=[.!?…])\s+/)).map((one) => one.trim()).filter(Boolean);
export const examplesOf = (model) => (model?.corpus === "opinions" ? REVIEWS : model?.corpus === "phrasebook" && model.direction !== "fr-en" ? EXAMPLES : []);
