"""The four token ids that mean the same in every tokenizer, model and search."""

PAD = 0  # fills rows of a batch up to its longest
UNK = 1  # a piece the vocabulary does not hold
BOS = 2  # what a decoder reads first
EOS = 3  # what a decoder writes last

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
