"""Text around what a model translates: sentences, placeholders, HTML, files.

atoms.py       words with their tags, and opaque pieces that no model sees (placeholders, images, code)
sentences.py   atoms -> sentences
rendering.py   a translated sentence with its tags and opaque pieces, placed by word alignments
markup.py      HTML -> blocks of atoms, and back
documents.py   a text or a page -> sentences -> the translated text or page
files.py       .txt, .html, .po, .srt, .vtt and .docx
"""
