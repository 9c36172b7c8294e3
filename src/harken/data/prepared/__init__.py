"""Text larger than memory: streamed from files, encoded by several processes, kept as memory-mapped arrays of ids.

    blocks.py    whole lines of files, a megabyte at a time
    pool.py      a function applied to many blocks by forked processes, results in order
    store.py     the folder of prepared data: keys, locks, atomic creation
    stream.py    the rows of some files in parts (train, valid, test), found by one pass; their tokenizers and ids
    pairs.py, lines.py, texts.py     rows of a translation corpus, of single lines, and of running text

Rows, parts, digests, tokenizers and ids equal those of the readers in `harken.data.text`, which hold the text in
memory and are used for small files (`store.prepared_folder` decides).
"""
