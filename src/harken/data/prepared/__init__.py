"""Text larger than memory: streamed from files, encoded by several processes, kept as memory-mapped arrays of ids.

    blocks.py    whole lines of files, a megabyte at a time
    pool.py      a function applied to many blocks by forked processes, results in order
    store.py     the folder of prepared data: keys, locks, atomic creation
    stream.py    the rows of some files in parts (train, valid, test), found by one pass; their tokenizers and ids
    parts.py     rows divided into train, valid and test by their groups
    ids.py       ids of rows in memory-mapped arrays; values that are computed once
    pairs.py     rows of a translation corpus
    lines.py     single lines, and running text
    examples.py  rows of the other jobs: labelled texts, tagged sentences, questions

Rows, parts, digests, tokenizers and ids equal those of the readers in `harken.data.text`, which hold the text in
memory and are used for small files (`store.prepared_folder` decides).
"""
